"""Which variables matter where: liveness and definite assignment.

Owns both analyses over the jump-free tree. They decide what is state of a loop or
branch, and which reads may meet a variable without a value.
"""

from __future__ import annotations

from typing import Any

import gast

from lumijit.syntax.control_tree import (
    BREAK,
    Compound,
    For,
    If,
    Simple,
    Statement,
    While,
    caught_name,
    header_effects,
    is_true,
)
from lumijit.syntax.names import Effects, NameScope, effects_of, own_parts

#: Statements that bind all the names they mention as targets.
_BINDERS = (
    gast.AugAssign,
    gast.Import,
    gast.ImportFrom,
    gast.FunctionDef,
    gast.AsyncFunctionDef,
    gast.ClassDef,
)


class EffectCache:
    """The effects of nodes, with and without the nodes inside."""

    def __init__(self, scope: NameScope) -> None:
        """Start empty. Calls may touch what `scope` shares with inner functions."""
        self.scope = scope
        self._header: dict[int, Effects] = {}
        self._deep: dict[int, Effects] = {}
        self._kept: list[Statement] = []

    def header(self, node: Statement) -> Effects:
        """Return the effects of a node without those nested in it."""
        found = self._header.get(id(node))
        if found is None:
            found = self._header[id(node)] = header_effects(node)
            if found.calls:
                found.reads |= self.scope.shared
                found.writes |= self.scope.rebound_inside
            self._kept.append(node)
        return found

    def deep(self, node: Statement) -> Effects:
        """Return the effects of a node and everything in it."""
        found = self._deep.get(id(node))
        if found is None:
            found = self.of_all(children(node))
            found.merge(self.header(node))
            self._deep[id(node)] = found
        return found

    def of_all(self, nodes: list[Statement]) -> Effects:
        """Return the effects of several nodes and everything in them."""
        effects = Effects()
        for node in nodes:
            effects.merge(self.deep(node))
        return effects


def children(node: Statement) -> list[Statement]:
    """List the nodes directly inside a node."""
    if isinstance(node, (If, While)):
        return [*node.body, *node.orelse]
    if isinstance(node, For):
        return [*node.body, *node.orelse, *node.counted]
    if isinstance(node, Compound):
        return [child for part in node.parts for child in part[2]]
    return []


def surely_bound(stmt: Any) -> set[str]:
    """List the names that a simple statement binds whenever it completes."""
    if isinstance(stmt, gast.Assign):
        return effects_of(*stmt.targets).writes
    if isinstance(stmt, gast.AnnAssign):
        return set() if stmt.value is None else effects_of(stmt.target).writes
    return effects_of(stmt).writes if isinstance(stmt, _BINDERS) else set()


def surely_named(test: Any) -> set[str]:
    """List the names that `:=` binds whenever an expression is evaluated."""
    found: set[str] = set()
    pending = [test]
    while pending:
        node = pending.pop()
        if isinstance(node, gast.NamedExpr):
            found.add(node.target.id)
            pending.append(node.value)
        elif isinstance(node, gast.BoolOp):
            pending.append(node.values[0])
        elif isinstance(node, gast.Compare):
            pending += (node.left, node.comparators[0])
        elif isinstance(node, gast.Call):
            pending += (node.func, *node.args)
        elif isinstance(node, gast.BinOp):
            pending += (node.left, node.right)
        elif isinstance(node, gast.UnaryOp):
            pending.append(node.operand)
        elif isinstance(node, (gast.Attribute, gast.Subscript, gast.Starred)):
            pending.append(node.value)
    return found


class Liveness:
    """Finds the variables whose value may be read later. Backwards."""

    def __init__(self, effects: EffectCache, always: frozenset[str]) -> None:
        """Treat the variables `always` as live everywhere."""
        self.effects = effects
        self.always = always

    def block(self, nodes: list[Statement], live: set[str]) -> set[str]:
        """Return what is live before `nodes`, given what is live after."""
        for node in reversed(nodes):
            live = self.node(node, live)
        return live

    def node(self, node: Statement, live: set[str]) -> set[str]:
        """Return what is live before `node`."""
        live = live | self.always
        reads = self.effects.header(node).reads
        if isinstance(node, Simple):
            gone = surely_bound(node.stmt) | self.effects.header(node).deletes
            gone |= surely_named(getattr(node.stmt, "value", None))
            return (live - gone) | reads
        if isinstance(node, If):
            node.live_out |= live
            node.live_body |= self.block(node.body, live)
            node.live_orelse |= self.block(node.orelse, live)
            inside = node.live_body | node.live_orelse
            return (inside - surely_named(node.test)) | reads
        if isinstance(node, While):
            return self._loop(node, live)
        if isinstance(node, For):
            return self._for(node, live)
        assert isinstance(node, Compound)
        if isinstance(node.stmt, (gast.With, gast.AsyncWith)):
            return self._with(node, live)
        if isinstance(node.stmt, gast.Match):
            return self._match(node, live)
        return self._try(node, live) | reads

    def _loop(self, node: While, live: set[str]) -> set[str]:
        head = self._head(node, live, set())
        node.live_head |= head
        return head

    def _for(self, node: For, live: set[str]) -> set[str]:
        head = self._head(node, live, effects_of(node.target).writes)
        return (head | self.block(node.counted, live)) - {node.range_name}

    def _head(self, node: While | For, live: set[str], bound: set[str]) -> set[str]:
        """Return what is live before each turn, which binds some names at its start."""
        head = self.block(node.orelse, live) | self.effects.header(node).reads | live
        while True:
            grown = head | (self.block(node.body, head) - bound)
            if grown == head:
                return head
            head = grown

    def _with(self, node: Compound, live: set[str]) -> set[str]:
        ((_, _, body),) = node.parts
        reads: set[str] = set()
        named: set[str] = set()
        for item in node.stmt.items:
            reads |= effects_of(item.context_expr).reads - named
            named |= effects_of(item.optional_vars).writes
        inside = self.block(body, live) | self.effects.header(node).reads
        return (inside - named) | reads

    def _match(self, node: Compound, live: set[str]) -> set[str]:
        named: set[str] = set()
        found = live | effects_of(node.stmt.subject).reads
        for case, _, body in node.parts:
            captured = effects_of(case.pattern).writes
            inside = self.block(body, live) | effects_of(case.guard).reads
            found |= inside - captured
            named |= captured
        return found | (self.effects.header(node).reads - named)

    def _try(self, node: Compound, live: set[str]) -> set[str]:
        bodies = [body for _, _, body in node.parts]
        body, *_, orelse, final = bodies
        after = self.block(final, live)
        caught = set(after)
        for handler, _, statements in node.parts[1:-2]:
            caught |= self.block(statements, after) - caught_name(handler)
        # An exception may end the body anywhere: nothing in it hides a variable.
        inner = self.block(body, self.block(orelse, after) | caught)
        return inner | caught


class DefiniteAssignment:
    """Finds the reads that may meet an unbound variable. Forwards.

    A set of bound names is `None` where control can't be.
    """

    def __init__(self, effects: EffectCache) -> None:
        """Start with no findings."""
        self.effects = effects
        #: The name nodes that may be unbound when read, by their ids. (Kept: the id of
        #: one that is gone would come to stand for another.)
        self.unsure: dict[int, Any] = {}
        self.unsure_names: set[str] = set()
        #: Dotted paths of the attributes that branches and loops assign.
        self.stored: set[str] = set()
        self._breaks: dict[str, set[str] | None] = {}
        self._native_breaks: list[set[str] | None] = []

    def block(self, nodes: list[Statement], bound: set[str] | None) -> set[str] | None:
        """Return the names bound after `nodes`, given those bound before."""
        for node in nodes:
            if bound is None:
                break
            bound = self.node(node, bound)
        return bound

    def node(self, node: Statement, bound: set[str]) -> set[str] | None:
        """Return the names bound after `node`."""
        if isinstance(node, Simple):
            return self._simple(node, bound)
        if isinstance(node, If):
            return self._branch(node, bound)
        if isinstance(node, While):
            self._check(bound, node.test, *node.hints.keywords.values())
            return self._loop(node, bound)
        if isinstance(node, For):
            self._check(bound, node.iterable)
            inner = bound | effects_of(node.target).writes
            self._native_breaks.append(None)
            self.block(node.body, inner)
            self._native_breaks.pop()
            self.block(node.counted, bound)
            self.block(node.orelse, bound)
            return bound - self._deleted(node)
        assert isinstance(node, Compound)
        return self._block_statement(node, bound)

    def _simple(self, node: Simple, bound: set[str]) -> set[str] | None:
        self._check(bound, node.stmt)
        if node.was_jump == BREAK:
            (flag,) = surely_bound(node.stmt)
            self._breaks[flag] = _meet(self._breaks.get(flag), bound)
        if isinstance(node.stmt, gast.Break) and self._native_breaks:
            self._native_breaks[-1] = _meet(self._native_breaks[-1], bound)
        if node.was_jump or node.always_jumps:
            return None
        effects = self.effects.header(node)
        return (bound | surely_bound(node.stmt)) - effects.deletes

    def _branch(self, node: If, bound: set[str]) -> set[str] | None:
        self._check(bound, node.test)
        self.stored |= self.effects.deep(node).stored
        after = self.block(node.body, bound)
        if not node.is_guard or node.orelse:
            after = _meet(after, self.block(node.orelse, bound))
        return after

    def _loop(self, node: While, bound: set[str]) -> set[str] | None:
        bound = bound - self._deleted(node)
        self.stored |= self.effects.deep(node).stored
        self._native_breaks.append(None)
        self.block(node.body, bound)
        broken = self._native_breaks.pop()
        if node.break_flag:
            broken = _meet(broken, self._breaks.get(node.break_flag))
        if node.forever or is_true(node.test):
            return broken
        return _meet(self.block(node.orelse, bound), broken)

    def _deleted(self, node: Statement) -> set[str]:
        return self.effects.deep(node).deletes

    def _block_statement(self, node: Compound, bound: set[str]) -> set[str] | None:
        header = self.effects.header(node)
        bodies = [body for _, _, body in node.parts]
        if isinstance(node.stmt, (gast.With, gast.AsyncWith)):
            self._check(bound, *(item.context_expr for item in node.stmt.items))
            return self.block(bodies[0], bound | header.writes)
        if isinstance(node.stmt, gast.Match):
            self._check(bound, node.stmt.subject)
            after: set[str] | None = bound
            for case, _, body in node.parts:
                inside = bound | effects_of(case.pattern).writes
                self._check(inside, case.guard)
                after = _meet(after, self.block(body, inside))
            return after
        body, *_, orelse, final = bodies
        done = self.block(body, bound)
        after = None if done is None else self.block(orelse, done)
        entry = bound - self._deleted(node)
        for handler, _, statements in node.parts[1:-2]:
            name = caught_name(handler)
            ended = self.block(statements, entry | name)
            after = _meet(after, None if ended is None else ended - name)
        ended = self.block(final, entry)
        return None if after is None or ended is None else after | ended

    def _check(self, bound: set[str], *parts: Any) -> None:
        """Find reads in this scope itself, and what inner functions capture."""
        given = [part for part in parts if part is not None]
        for part in own_parts(*given):
            is_read = isinstance(part, gast.Name) and isinstance(part.ctx, gast.Load)
            if is_read and part.id not in bound:
                self.unsure[id(part)] = part
                self.unsure_names.add(part.id)
        self.unsure_names |= effects_of(*given).captured - bound


def _meet(a: set[str] | None, b: set[str] | None) -> set[str] | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b
