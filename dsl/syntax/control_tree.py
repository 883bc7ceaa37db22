"""The control-flow tree of a function: what `@syntax` works on.

Owns the node classes and making them from syntax. Statements without control flow
stay syntax nodes inside `Simple`. `jumps` derives a second tree without jumps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gast

from lumijit.syntax import build
from lumijit.syntax.hint_reader import HintReader, Hints
from lumijit.syntax.names import Effects, effects_of, handed_on
from lumijit.syntax.truth import is_plain_test, note_truth_counts

RETURN, BREAK, CONTINUE = "return", "break", "continue"


@dataclass(eq=False)
class Statement:
    """A statement. The jump-free statements it becomes are filled in by `jumps`."""

    stmt: Any
    #: Ways in which control may leave the statement other than at its end.
    jumps: frozenset[str] = field(default=frozenset(), init=False)
    #: True if control never reaches the end of the statement.
    always_jumps: bool = field(default=False, init=False)
    #: True unless a `with` in it may swallow an exception in place of its jump.
    is_sure: bool = field(default=True, init=False)
    #: The same statement without jumps, and what follows it, under a guard.
    lowered: list[Statement] = field(default_factory=list, init=False)
    guard: If | None = field(default=None, init=False)


@dataclass(eq=False)
class Simple(Statement):
    """A statement without control flow of its own."""

    #: Set where a jump was replaced by flags: control does not go on from here.
    was_jump: str | None = None
    #: True for code after a jump, control flow included: it only tells names.
    is_dead: bool = False

    def __post_init__(self) -> None:
        """Classify native jumps."""
        if self.is_dead:
            return
        kinds = {gast.Return: RETURN, gast.Break: BREAK, gast.Continue: CONTINUE}
        kind = kinds.get(type(self.stmt))
        if kind is not None:
            self.jumps = frozenset([kind])
        self.always_jumps = kind is not None or isinstance(self.stmt, gast.Raise)


@dataclass(eq=False)
class If(Statement):
    """An `if` statement; with `is_guard`, one that skips lanes which jumped."""

    test: Any
    body: list[Statement]
    orelse: list[Statement]
    hints: Hints = field(default_factory=Hints)
    is_guard: bool = False
    #: Filled in by `liveness`.
    live_out: set[str] = field(default_factory=set, init=False)
    live_body: set[str] = field(default_factory=set, init=False)
    live_orelse: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        """Derive how control may leave."""
        self.jumps = jumps_of(self.body) | jumps_of(self.orelse)
        self.always_jumps = ends_in_jump(self.body) and ends_in_jump(self.orelse)
        self.is_sure = _are_sure(self.body, self.orelse)


@dataclass
class LoopPieces:
    """What the jump-free form of a loop is made of."""

    #: Flags that are false before the loop.
    flags: list[str]
    #: The flags that end the loop: `break` and `return`.
    exits: list[str]
    continue_flag: str = ""
    #: Statements that evaluate the condition before the first iteration.
    first_test: list[Statement] = field(default_factory=list)
    #: Statements that evaluate it after an iteration, into the carrier.
    retest: list[Statement] = field(default_factory=list)
    loop: While | None = None
    #: The loop's `else`, under a guard where the loop can be left early.
    after: list[Statement] = field(default_factory=list)
    #: For `for` loops: the name of the next item and the guarded iteration.
    item: str = ""
    iteration: list[Statement] = field(default_factory=list)


@dataclass(eq=False)
class While(Statement):
    """A `while` loop."""

    test: Any
    body: list[Statement]
    orelse: list[Statement]
    hints: Hints = field(default_factory=Hints)
    #: The name that carries the condition, where its expression is not pure.
    carrier: str | None = None
    #: In the jump-free tree: True for `while True`, left by flags only.
    forever: bool = False
    break_flag: str | None = None
    #: In the original tree: the pieces of the jump-free loop.
    pieces: LoopPieces | None = field(default=None, init=False)
    #: Filled in by `liveness`: what is live where the condition is tested.
    live_head: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        """Derive how control may leave."""
        inner = jumps_of(self.body)
        self.jumps = (inner - {BREAK, CONTINUE}) | jumps_of(self.orelse)
        forever = is_true(self.test) and BREAK not in inner
        self.always_jumps = forever or (
            not is_true(self.test)
            and BREAK not in inner
            and bool(self.orelse)
            and ends_in_jump(self.orelse)
        )
        self.is_sure = _are_sure(self.body, self.orelse)


@dataclass(eq=False)
class For(Statement):
    """A `for` loop over a Python iterable, or over a `range` of array bounds."""

    target: Any
    iterable: Any
    body: list[Statement]
    orelse: list[Statement]
    hints: Hints = field(default_factory=Hints)
    #: The name that holds the `range` where the iterable is a call of it.
    range_name: str | None = None
    #: For ranges, in the jump-free tree: the equivalent `while` loop.
    counted: list[Statement] = field(default_factory=list, init=False)
    #: In the jump-free tree: the flags that end the iteration.
    flags: list[str] = field(default_factory=list, init=False)
    #: In the original tree: the pieces of the jump-free loop.
    pieces: LoopPieces | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Derive how control may leave."""
        inner = jumps_of(self.body)
        self.jumps = (inner - {BREAK, CONTINUE}) | jumps_of(self.orelse)
        self.always_jumps = BREAK not in inner and ends_in_jump(self.orelse)
        self.is_sure = _are_sure(self.body, self.orelse)


@dataclass(eq=False)
class Compound(Statement):
    """A compound statement that is executed as it is: `with`, `try`, `match`."""

    #: Pairs of the syntax node and the attribute that holds a list of statements.
    parts: list[tuple[Any, str, list[Statement]]]
    #: Why this statement can't stand around vectorized control flow, if so.
    plain_only: str = ""

    def __post_init__(self) -> None:
        """Derive how control may leave."""
        self.jumps = frozenset().union(*(jumps_of(p[2]) for p in self.parts))
        self.is_sure = _are_sure(*(body for _, _, body in self.parts))
        ends = [ends_in_jump(body) for _, _, body in self.parts]
        if isinstance(self.stmt, gast.Match):
            last = self.stmt.cases[-1]
            takes_all = last.guard is None and not _may_fail(last.pattern)
            self.always_jumps = takes_all and all(ends)
        elif len(ends) > 1:
            body, *handlers, orelse, final = ends
            self.always_jumps = final or ((body or orelse) and all(handlers))
        else:
            (self.always_jumps,) = ends
            self.is_sure = self.is_sure and not self.always_jumps


def jumps_of(nodes: list[Statement]) -> frozenset[str]:
    """Collect the jumps that may leave a list of statements."""
    return frozenset().union(*(node.jumps for node in nodes))


def ends_in_jump(nodes: list[Statement]) -> bool:
    """Tell whether control never reaches the end of a list of statements."""
    return any(node.always_jumps for node in nodes)


def _are_sure(*blocks: list[Statement]) -> bool:
    return all(node.is_sure for nodes in blocks for node in nodes)


def _may_fail(pattern: Any) -> bool:
    """Tell whether there may be values that a pattern doesn't match."""
    if isinstance(pattern, gast.MatchOr):
        return _may_fail(pattern.patterns[-1])
    if not isinstance(pattern, gast.MatchAs):
        return True
    return pattern.pattern is not None and _may_fail(pattern.pattern)


def in_branches(nodes: list[Statement]) -> list[Statement]:
    """Move what follows a branch with a side that jumps into the other side.

    No jump out of that side then skips statements that aren't in it. What follows a
    statement that always jumps is dead.
    """
    for index, node in enumerate(nodes):
        before, rest = nodes[:index], nodes[index + 1 :]
        if not node.is_sure:
            continue
        if node.always_jumps:
            return [*before, node, *(Simple(n.stmt, is_dead=True) for n in rest)]
        if not rest or not isinstance(node, If) or not node.jumps:
            continue
        body, orelse = node.body, node.orelse
        if ends_in_jump(body):
            orelse = in_branches(orelse + rest)
        elif ends_in_jump(orelse):
            body = in_branches(body + rest)
        else:
            continue
        return [*before, If(node.stmt, node.test, body, orelse, node.hints)]
    return nodes


def calls_range(node: Any) -> bool:
    """Tell whether an expression is a call of what is named `range`."""
    return (
        isinstance(node, gast.Call)
        and isinstance(node.func, gast.Name)
        and node.func.id == "range"
        and not node.keywords
    )


def may_split(node: Statement) -> bool:
    """Tell whether an array condition may make some lanes jump out of `node`."""
    if isinstance(node, Simple) or not node.jumps:
        return False
    if isinstance(node, Compound):
        inner = [n for part in node.parts for n in part[2]]
        return not node.plain_only and any(map(may_split, inner))
    assert isinstance(node, (If, While, For))
    if any(map(may_split, (*node.body, *node.orelse))):
        return True
    if isinstance(node, For):
        return node.range_name is not None
    return not is_plain_test(node.test) or node.hints.mode is not None


def is_true(test: Any) -> bool:
    """Tell whether a condition is a constant that holds."""
    return isinstance(test, gast.Constant) and bool(test.value)


def header_effects(node: Statement) -> Effects:
    """Collect the effects of a node without the statements nested in it."""
    if isinstance(node, Simple):
        return effects_of(node.stmt)
    if isinstance(node, (If, While)):
        hint_values = node.hints.keywords.values()
        return effects_of(node.test, *hint_values)
    if isinstance(node, For):
        hint_values = node.hints.keywords.values()
        effects = effects_of(node.target, node.iterable, *hint_values)
        effects.passed.update(handed_on(node.iterable))
        if node.range_name is not None:
            effects.writes.add(node.range_name)
        return effects
    stmt = node.stmt
    if isinstance(stmt, (gast.With, gast.AsyncWith)):
        effects = Effects()
        for item in stmt.items:
            effects.merge(effects_of(item.context_expr, item.optional_vars))
            effects.passed.update(handed_on(item.context_expr))
        return effects
    parts: list[Any] = [getattr(stmt, "subject", None)]
    for handler in getattr(stmt, "handlers", ()):
        parts += [handler.type, handler.name]
    for case in getattr(stmt, "cases", ()):
        parts += [case.pattern, case.guard]
    effects = effects_of(*parts)
    effects.passed.update(handed_on(*parts[:1]))
    for handler in getattr(stmt, "handlers", ()):
        effects.deletes |= caught_name(handler)
    return effects


def caught_name(part: Any) -> set[str]:
    """Return the name that `except … as name` binds, and deletes at its end."""
    is_named = isinstance(part, gast.ExceptHandler) and part.name is not None
    return effects_of(part.name).writes if is_named else set()


class TreeBuilder:
    """Turns syntax into the control-flow tree."""

    def __init__(self, hints: HintReader, new_name: Any, range_is_builtin: bool):
        """Draw fresh names from `new_name`."""
        self.hints = hints
        self.new_name = new_name
        self.range_is_builtin = range_is_builtin
        #: `global` and `nonlocal` statements, which belong to the whole function.
        self.declarations: list[Any] = []

    def function(self, statements: list[Any], end: Any) -> list[Statement]:
        """Build the nodes of a function's body; at `end` it returns in any case."""
        nodes = [self.node(statement) for statement in statements]
        if not ends_in_jump(nodes):
            nodes.append(Simple(build.located(gast.Return(value=None), end)))
        return in_branches(nodes)

    def block(self, statements: list[Any]) -> list[Statement]:
        """Build the nodes of a list of statements."""
        return in_branches([self.node(statement) for statement in statements])

    def node(self, stmt: Any) -> Statement:
        """Build the node of one statement."""
        if isinstance(stmt, gast.If):
            test, hints = self.hints.split(stmt.test, loop=False)
            note_truth_counts(test)
            return If(stmt, test, self.block(stmt.body), self.block(stmt.orelse), hints)
        if isinstance(stmt, gast.While):
            test, hints = self.hints.split(stmt.test, loop=True)
            note_truth_counts(test)
            return While(
                stmt, test, self.block(stmt.body), self.block(stmt.orelse), hints
            )
        if isinstance(stmt, (gast.For, gast.AsyncFor)):
            return self._for(stmt)
        if isinstance(stmt, (gast.With, gast.AsyncWith)):
            return Compound(stmt, [(stmt, "body", self.block(stmt.body))])
        if isinstance(stmt, (gast.Try, getattr(gast, "TryStar", gast.Try))):
            return self._try(stmt)
        if isinstance(stmt, gast.Match):
            parts = [(case, "body", self.block(case.body)) for case in stmt.cases]
            return Compound(stmt, parts)
        if isinstance(stmt, (gast.Global, gast.Nonlocal)):
            self.declarations.append(stmt)
            return Simple(build.located(gast.Pass(), stmt))
        return Simple(stmt)

    def _for(self, stmt: Any) -> Statement:
        iterable, hints = self.hints.split(stmt.iter, loop=True)
        name = None
        is_range = self.range_is_builtin and calls_range(iterable)
        if isinstance(stmt, gast.For) and is_range:
            name = self.new_name("range")
        body, orelse = self.block(stmt.body), self.block(stmt.orelse)
        return For(stmt, stmt.target, iterable, body, orelse, hints, name)

    def _try(self, stmt: Any) -> Statement:
        parts = [(stmt, "body", self.block(stmt.body))]
        for handler in stmt.handlers:
            parts.append((handler, "body", self.block(handler.body)))
        parts.append((stmt, "orelse", self.block(stmt.orelse)))
        parts.append((stmt, "finalbody", self.block(stmt.finalbody)))
        node = Compound(stmt, parts)
        if stmt.handlers:
            node.plain_only = "inside 'try' with 'except'"
        elif jumps_of(parts[-1][2]):
            node.plain_only = "inside 'try' with a jump out of 'finally'"
        return node
