"""Removing `break`, `continue` and `return` from the control-flow tree.

Owns the translation of a function into an equivalent without jumps: each jump
becomes flags, and what it skips moves under a guard that tests them (where the jump
is certain, the tree has it in the other branch already). Each original node is told
what it became, so that plain code can go over to vectorized code at any statement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gast

from lumijit.syntax import build
from lumijit.syntax.control_tree import (
    BREAK,
    CONTINUE,
    RETURN,
    Compound,
    For,
    If,
    LoopPieces,
    Simple,
    Statement,
    While,
    is_true,
    jumps_of,
)
from lumijit.syntax.invented import RESULT, RETURNED
from lumijit.syntax.names import effects_of, handed_on
from lumijit.syntax.truth import note_truth_counts


@dataclass(frozen=True)
class _Flags:
    """The names of the flags that jumps set at one place of the program."""

    break_flag: str = ""
    continue_flag: str = ""

    def of(self, jumps: frozenset[str]) -> list[str]:
        names = {
            BREAK: self.break_flag,
            CONTINUE: self.continue_flag,
            RETURN: RETURNED,
        }
        return [name for jump, name in names.items() if jump in jumps]


class JumpRemover:
    """Makes the jump-free tree of one function."""

    def __init__(
        self, new_name: Callable[[str], str], is_pure: Callable[[Any], bool]
    ) -> None:
        """Draw fresh names from `new_name`; `is_pure` judges loop conditions."""
        self.new_name = new_name
        self.is_pure = is_pure
        #: How many constructs are around the current place, and what the `finally` of
        #: each `try` around it may change, with how many are around that.
        self._depth = 0
        self._finals: list[tuple[int, set[str]]] = []

    def function(self, nodes: list[Statement]) -> list[Statement]:
        """Translate the body of a function."""
        return self._block(nodes, _Flags())

    def _block(self, nodes: list[Statement], flags: _Flags) -> list[Statement]:
        result: list[Statement] = []
        for index, node in enumerate(nodes):
            rest = nodes[index + 1 :]
            may_vectorize = isinstance(node, (If, While, For))
            self._depth += may_vectorize
            node.lowered = self._node(node, flags)
            self._depth -= may_vectorize
            result += node.lowered
            if node.always_jumps and node.is_sure:
                return result
            if node.jumps and rest:
                node.guard = self._guarded(
                    flags.of(node.jumps), self._block(rest, flags), rest[0].stmt
                )
                if isinstance(node, If) and node.hints.mode is not None:
                    # It splits the elements where that did, in the same way.
                    node.guard.hints.keywords["mode"] = node.hints.mode
                return [*result, node.guard]
        return result

    def _guarded(self, names: list[str], body: list[Statement], stmt: Any) -> If:
        return If(stmt, _none_of(names, stmt), body, [], is_guard=True)

    def _node(self, node: Statement, flags: _Flags) -> list[Statement]:
        if isinstance(node, Simple):
            return self._simple(node, flags)
        if isinstance(node, If):
            body, orelse = (self._block(b, flags) for b in (node.body, node.orelse))
            return [If(node.stmt, node.test, body, orelse, node.hints)]
        if isinstance(node, While):
            return self._loop(node, flags)
        if isinstance(node, For):
            return self._for(node, flags)
        assert isinstance(node, Compound)
        if node.plain_only:
            return [node]
        final = effects_of(*getattr(node.stmt, "finalbody", ()))
        self._finals.append((self._depth, final.changed | final.passed))
        parts = [(s, name, self._block(body, flags)) for s, name, body in node.parts]
        self._finals.pop()
        return [Compound(node.stmt, parts)]

    def _simple(self, node: Simple, flags: _Flags) -> list[Statement]:
        if not node.jumps:
            return [node]
        (jump,) = node.jumps
        (flag,) = flags.of(node.jumps)
        raised = _assignment(flag, build.constant(True), node.stmt)
        raised.was_jump = jump
        if jump != RETURN:
            return [raised]
        value = node.stmt.value or build.constant(None)
        outer = (names for depth, names in self._finals if depth < self._depth)
        if set().union(*outer) & set(handed_on(value)):
            # A construct in the `try` block makes a copy for the `finally` to miss.
            value = build.located(build.call("result_before_finally", value), value)
        return [_assignment(RESULT, value, node.stmt), raised]

    def _enter_loop(self, node: While | For) -> tuple[_Flags, LoopPieces]:
        inner = jumps_of(node.body)
        flags = _Flags(
            self.new_name("break") if BREAK in inner else "",
            self.new_name("continue") if CONTINUE in inner else "",
        )
        exits = flags.of(inner - {CONTINUE})
        pieces = LoopPieces([f for f in exits if f != RETURNED], exits)
        pieces.continue_flag = flags.continue_flag
        return flags, pieces

    def _iteration(self, node: While | For, flags: _Flags) -> list[Statement]:
        body = self._block(node.body, flags)
        if flags.continue_flag:
            lower = build.constant(False)
            body.insert(0, _assignment(flags.continue_flag, lower, node.stmt))
        return body

    def _finish(
        self, node: While | For, pieces: LoopPieces, outer: _Flags
    ) -> list[Statement]:
        if node.orelse:
            orelse = self._block(node.orelse, outer)
            if pieces.exits:
                orelse = [self._guarded(pieces.exits, orelse, node.orelse[0].stmt)]
            pieces.after = orelse
        node.pieces = pieces
        lower = build.constant(False)
        return [_assignment(flag, lower, node.stmt) for flag in pieces.flags]

    def _loop(self, node: While, outer: _Flags) -> list[Statement]:
        flags, pieces = self._enter_loop(node)
        body = self._iteration(node, flags)
        test = node.test
        carrier = None
        if not self.is_pure(test):
            carrier = self.new_name("condition")
            evaluate = _assignment(carrier, test, node.stmt)
            pieces.first_test = [evaluate]
            pieces.retest = [evaluate]
            if pieces.exits:
                stop = _assignment(carrier, build.constant(False), node.stmt)
                retest = self._guarded(pieces.exits, [evaluate], node.stmt)
                retest.orelse = [stop]
                pieces.retest = [retest]
            test = build.located(build.name(carrier), node.test)
            body += pieces.retest
        elif pieces.exits:
            go_on = _none_of(pieces.exits, node.stmt)
            test = go_on if is_true(test) else build.both(go_on, test)
            build.located(test, node.test)
            note_truth_counts(test)
        loop = While(node.stmt, test, body, [], node.hints, carrier)
        loop.forever = is_true(node.test)
        loop.break_flag = flags.break_flag
        pieces.loop = loop
        init = self._finish(node, pieces, outer)
        return [*init, *pieces.first_test, loop, *pieces.after]

    def _for(self, node: For, outer: _Flags) -> list[Statement]:
        flags, pieces = self._enter_loop(node)
        body = self._iteration(node, flags)
        target: Any = node.target
        iteration = body
        if pieces.exits:
            # Lanes that left the loop keep their value of the loop variable.
            pieces.item = self.new_name("item")
            bind = gast.Assign([target], build.name(pieces.item), None)
            bind = Simple(build.located(bind, node.target))
            guard = self._guarded(pieces.exits, [bind, *body], node.stmt)
            iteration = [guard]
            target = build.located(build.name(pieces.item, store=True), node.target)
        pieces.iteration = iteration
        init = self._finish(node, pieces, outer)
        loop = For(
            node.stmt, target, node.iterable, iteration, [], node.hints, node.range_name
        )
        loop.flags = pieces.exits
        if node.range_name:
            loop.counted = self._counted(node, body, flags, pieces)
        return [*init, loop, *pieces.after]

    def _counted(
        self, node: For, body: list[Statement], flags: _Flags, pieces: LoopPieces
    ) -> list[Statement]:
        """Write `for i in range(...)` with array bounds as a `while` loop."""
        stmt, bounds = node.stmt, str(node.range_name)
        count = self.new_name("count")
        start, step, size = (f"{bounds}_{part}" for part in ("start", "step", "size"))
        parts = gast.Attribute(build.name(bounds), "parts", gast.Load())
        unpack = Simple(build.located(build.unpack([start, step, size], parts), stmt))
        # A zero for each element that has a size.
        zero = gast.BinOp(build.name(size), gast.Sub(), build.name(size))
        first = _assignment(count, zero, stmt)
        arguments = (build.name(part) for part in (start, step, count))
        bind = gast.Assign([node.target], build.call("range_item", *arguments), None)
        following = gast.BinOp(build.name(count), gast.Add(), build.constant(1))
        advance = _assignment(count, following, stmt)
        test: Any = gast.Compare(build.name(count), [gast.Lt()], [build.name(size)])
        if pieces.exits:
            test = build.both(_none_of(pieces.exits, stmt), test)
        loop = While(
            stmt,
            build.located(test, stmt),
            [Simple(build.located(bind, node.target)), advance, *body],
            [],
            node.hints,
        )
        loop.break_flag = flags.break_flag
        pieces.loop = loop
        return [unpack, first, loop]


def _assignment(target: str, value: Any, stmt: Any) -> Simple:
    return Simple(build.located(build.assign(target, value), stmt))


def _none_of(flags: list[str], stmt: Any) -> Any:
    """Make the condition that no flag is raised."""
    return build.located(build.call("none_of", *map(build.name, flags)), stmt)
