"""Which names a piece of code reads, binds, changes and captures.

Owns the effects of one statement or expression, and the scope of a function. How
effects add up along the control flow is the business of `liveness`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import gast

_COMPREHENSIONS = (gast.ListComp, gast.SetComp, gast.DictComp, gast.GeneratorExp)
_FUNCTIONS = (gast.FunctionDef, gast.AsyncFunctionDef, gast.Lambda)
#: What has a scope of its own.
OPAQUE = (*_FUNCTIONS, gast.ClassDef)


#: The parts of a definition that are evaluated where it stands.
_HEADER = ("decorator_list", "bases", "keywords", "defaults", "kw_defaults")


def header_of(definition: Any) -> Iterator[tuple[Any, str]]:
    """List where the header of a definition is: nodes, and the fields that are it."""
    for holder in (definition, getattr(definition, "args", None)):
        yield from ((holder, field) for field in _HEADER if hasattr(holder, field))


def _header_parts(definition: Any) -> Iterator[Any]:
    parts = (getattr(holder, field) for holder, field in header_of(definition))
    return filter(None, itertools.chain.from_iterable(parts))


def own_parts(*nodes: Any) -> Iterator[Any]:
    """List the parts of code that are in its scope itself, not in one inside."""
    pending = list(nodes)
    while pending:
        part = pending.pop()
        yield part
        is_inner = isinstance(part, OPAQUE)
        pending.extend(_header_parts(part) if is_inner else gast.iter_child_nodes(part))


def suspension_in(node: Any) -> Any:
    """Return the first `yield` or `await` of this scope, if there is one."""
    for part in own_parts(node):
        if isinstance(part, (gast.Yield, gast.YieldFrom, gast.Await)):
            return part
        if isinstance(part, gast.comprehension) and part.is_async:
            return part.iter
    return None


@dataclass
class Effects:
    """What a piece of code does to the names of the scope it stands in."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    #: Bases of attribute and subscript assignments.
    changed: set[str] = field(default_factory=set)
    #: Dotted paths of the attributes assigned to.
    stored: set[str] = field(default_factory=set)
    #: Names whose object might be changed under another name, or by what is called.
    passed: set[str] = field(default_factory=set)
    #: Free names of inner functions, lambdas and classes.
    captured: set[str] = field(default_factory=set)
    #: Names that inner functions rebind with `nonlocal`.
    rebound_inside: set[str] = field(default_factory=set)
    #: Names whose object inner functions may change.
    lent: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)
    #: A marker that is present if anything is called.
    calls: set[str] = field(default_factory=set)

    def merge(self, other: Effects) -> None:
        """Add the effects of `other`."""
        for name, value in vars(other).items():
            getattr(self, name).update(value)

    @property
    def mentioned(self) -> set[str]:
        """All names read, bound or deleted."""
        return self.reads | self.writes | self.deletes


def effects_of(*nodes: Any) -> Effects:
    """Collect the effects of syntax nodes; `None` entries are skipped."""
    collector = _Collector()
    for node in nodes:
        if node is not None:
            collector.visit(node)
    return collector.effects


def root_name(node: Any) -> str | None:
    """Return the variable at the root of `a.b[c].d`, if it is one."""
    while isinstance(node, (gast.Attribute, gast.Subscript, gast.Starred)):
        node = node.value
    return node.id if isinstance(node, gast.Name) else None


def dotted_name(node: Any) -> tuple[str, ...]:
    """Return the names of `a.b.c`, if that is all it is."""
    names: list[str] = []
    while isinstance(node, gast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, gast.Name):
        return ()
    return (node.id, *reversed(names))


def handed_on(*nodes: Any) -> Iterator[str]:
    """List the variables that values are, or are a part of, or consist of."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if isinstance(node, (gast.Name, gast.Attribute, gast.Subscript, gast.Starred)):
            name = root_name(node)
            if name is not None:
                yield name
            else:
                pending.append(node.value)
        elif isinstance(node, gast.IfExp):
            pending += (node.body, node.orelse)
        elif isinstance(node, (gast.BoolOp, gast.Dict)):
            pending += node.values
        elif isinstance(node, (gast.List, gast.Tuple, gast.Set)):
            pending += node.elts
        elif isinstance(node, (*_COMPREHENSIONS, gast.NamedExpr)):
            pending += (getattr(node, part, None) for part in ("elt", "value"))


def parameters(arguments: Any) -> list[str]:
    """List the parameter names of a function, in order."""
    names = [a.id for a in (*arguments.posonlyargs, *arguments.args)]
    names += [a.id for a in arguments.kwonlyargs]
    names += [a.id for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return names


class _Collector(gast.NodeVisitor):  # type: ignore[misc]
    """Walks a tree in one scope; inner scopes contribute their free names."""

    def __init__(self) -> None:
        self.effects = Effects()
        self.hidden: list[set[str]] = []
        #: How often each name is bound; what a loop binds counts twice.
        self.counts: Counter[str] = Counter()
        self._weight = 1

    def _is_hidden(self, name: str) -> bool:
        return any(name in names for names in self.hidden)

    def visit_Name(self, node: Any) -> None:
        if isinstance(node.ctx, gast.Param) or self._is_hidden(node.id):
            return
        if isinstance(node.ctx, gast.Load):
            self.effects.reads.add(node.id)
        elif isinstance(node.ctx, gast.Store):
            self._bind(node.id)
        else:
            self.effects.deletes.add(node.id)

    def _bind(self, name: str) -> None:
        self.effects.writes.add(name)
        self.counts[name] += self._weight

    def visit_AugAssign(self, node: Any) -> None:
        if isinstance(node.target, gast.Name):
            self.effects.reads.add(node.target.id)
        self._visit_value(node)

    def _visit_access(self, node: Any) -> None:
        base = root_name(node.value)
        if base is not None and not isinstance(node.ctx, gast.Load):
            self._add(self.effects.changed, base)
            self._add_path(node)
        self.generic_visit(node)

    visit_Attribute = visit_Subscript = _visit_access

    def _add_path(self, node: Any) -> None:
        """Record `a.b` for assignments to `a.b`, `a.b[i]` or `a.b[i].c`."""
        attributes: list[str] = []
        while isinstance(node, (gast.Attribute, gast.Subscript)):
            is_attribute = isinstance(node, gast.Attribute)
            attributes = [*attributes, node.attr] if is_attribute else []
            node = node.value
        if attributes and not self._is_hidden(node.id):
            self.effects.stored.add(".".join([node.id, *reversed(attributes)]))

    def visit_Call(self, node: Any) -> None:
        self.effects.calls.add("call")
        if isinstance(node.func, gast.Attribute):
            self._hand_on(node.func.value)
        self._hand_on(*node.args, *(k.value for k in node.keywords))
        self.generic_visit(node)

    def visit_With(self, node: Any) -> None:
        self._hand_on(*(item.context_expr for item in node.items))
        self.generic_visit(node)

    def _visit_value(self, node: Any) -> None:
        self._hand_on(node.value)
        self.generic_visit(node)

    visit_Assign = visit_AnnAssign = visit_Return = visit_Yield = _visit_value

    def _visit_loop(self, node: Any) -> None:
        self._hand_on(getattr(node, "iter", None))
        weight, self._weight = self._weight, 2
        self.generic_visit(node)
        self._weight = weight

    visit_For = visit_AsyncFor = visit_While = _visit_loop

    def visit_Match(self, node: Any) -> None:
        self._hand_on(node.subject)
        self.generic_visit(node)

    def _hand_on(self, *nodes: Any) -> None:
        for name in handed_on(*nodes):
            self._add(self.effects.passed, name)

    def _add(self, names: set[str], name: str) -> None:
        if not self._is_hidden(name):
            names.add(name)

    def visit_NamedExpr(self, node: Any) -> None:
        # In a comprehension, too, a walrus binds in the function around it.
        self._bind(node.target.id)
        self._hand_on(node.value)
        self.visit(node.value)

    def visit_Import(self, node: Any) -> None:
        for alias in node.names:
            self._bind(alias.asname or alias.name.split(".")[0])

    visit_ImportFrom = visit_Import

    def visit_Global(self, node: Any) -> None:
        self.effects.global_names.update(node.names)

    def visit_Nonlocal(self, node: Any) -> None:
        self.effects.nonlocal_names.update(node.names)

    def visit_MatchAs(self, node: Any) -> None:
        if node.name is not None:
            self._bind(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: Any) -> None:
        if node.rest is not None:
            self._bind(node.rest)
        self.generic_visit(node)

    def generic_visit(self, node: Any) -> None:
        if isinstance(node, _COMPREHENSIONS):
            self._visit_comprehension(node)
        elif isinstance(node, _FUNCTIONS):
            self._visit_function(node)
        elif isinstance(node, gast.ClassDef):
            self._visit_class(node)
        else:
            super().generic_visit(node)

    def _visit_comprehension(self, node: Any) -> None:
        first = node.generators[0].iter
        self._hand_on(*(generator.iter for generator in node.generators))
        self.visit(first)
        targets = effects_of(*(g.target for g in node.generators)).writes
        self.hidden.append(targets)
        for generator in node.generators:
            for part in (generator.iter, *generator.ifs):
                if part is not first:
                    self.visit(part)
        for name in ("elt", "key", "value"):
            if hasattr(node, name):
                self.visit(getattr(node, name))
        self.hidden.pop()

    def _visit_function(self, node: Any) -> None:
        arguments = node.args
        for part in _header_parts(node):
            self.visit(part)
        if isinstance(node, gast.Lambda):
            result = gast.Return(value=node.body)
            self._capture(_inner_effects(arguments, [result]))
            return
        for part in gast.walk(arguments):
            if isinstance(part, gast.Name) and part.annotation is not None:
                self.visit(part.annotation)
        if node.returns is not None:
            self.visit(node.returns)
        self._bind(node.name)
        self._capture(_inner_effects(arguments, node.body))

    def _visit_class(self, node: Any) -> None:
        for part in _header_parts(node):
            self.visit(part)
        self._bind(node.name)
        self._capture(effects_of(*node.body))

    def _capture(self, inner: Effects) -> None:
        free = inner.reads | inner.captured
        free = {name for name in free if not self._is_hidden(name)}
        self.effects.reads |= free
        self.effects.captured |= free
        lent = (inner.passed | inner.changed | inner.lent) & free
        self.effects.passed |= lent
        self.effects.lent |= lent
        outer = inner.nonlocal_names | inner.rebound_inside
        self.effects.rebound_inside |= outer
        self.effects.captured |= outer


def _inner_effects(arguments: Any, body: list[Any]) -> Effects:
    """Reduce the effects of an inner function to the names it leaves free."""
    inner = effects_of(*body)
    free_writes = inner.nonlocal_names | inner.global_names
    local = (inner.writes | set(parameters(arguments))) - free_writes
    inner.reads = (inner.reads | inner.deletes) - local - inner.global_names
    inner.captured -= local
    inner.rebound_inside -= local
    return inner


@dataclass(frozen=True)
class NameScope:
    """The variables of the function that is being rewritten."""

    parameters: frozenset[str]
    #: Names bound in the function itself.
    local: frozenset[str]
    #: Names of enclosing functions, read or declared `nonlocal`.
    free: frozenset[str]
    nonlocal_names: frozenset[str]
    global_names: frozenset[str]
    captured: frozenset[str]
    #: Variables whose cell the rewritten pieces must share with the function.
    shared: frozenset[str]
    #: Variables that an inner function rebinds with `nonlocal`.
    rebound_inside: frozenset[str]
    #: Variables whose object an inner function may change.
    lent: frozenset[str]

    @property
    def variables(self) -> frozenset[str]:
        """The names that can be state."""
        return self.local | (self.free - {"__class__"})


def scope_of(function: Any, free: tuple[str, ...]) -> NameScope:
    """Analyse the scope of a function definition; `free` are its closure's names."""
    collector = _Collector()
    for statement in function.body:
        collector.visit(statement)
    effects = collector.effects
    params = parameters(function.args)
    outer = effects.nonlocal_names | effects.global_names
    local = (effects.writes | effects.deletes | set(params)) - outer
    captured = effects.captured & local
    collector.counts.update(params)
    rebound = {name for name in captured if collector.counts[name] > 1}
    rebound |= effects.rebound_inside & local
    return NameScope(
        parameters=frozenset(params),
        local=frozenset(local),
        free=(frozenset(free) | effects.nonlocal_names) - local,
        nonlocal_names=frozenset(effects.nonlocal_names),
        global_names=frozenset(effects.global_names),
        captured=frozenset(captured),
        shared=frozenset(rebound | effects.nonlocal_names | (effects.lent & local)),
        rebound_inside=frozenset(effects.rebound_inside & local),
        lent=frozenset(effects.lent & local),
    )
