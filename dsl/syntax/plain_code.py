"""Writing the function itself: plain Python, with exits into vectorized code.

Owns the plain side. Every construct keeps its original form, entered when the
condition is plain; only an array goes on to the calls that `regions` writes. Where
a jump was taken by some lanes only, the rest of each enclosing block, and of each
enclosing loop, is run in its vectorized form too: `_lj_split` says so.
"""

from __future__ import annotations

import copy
from typing import Any

import gast

from lumijit.syntax import build
from lumijit.syntax.control_tree import (
    Compound,
    For,
    If,
    LoopPieces,
    Simple,
    Statement,
    While,
    ends_in_jump,
    may_split,
)
from lumijit.syntax.invented import PREFIX, RESULT, RETURNED
from lumijit.syntax.names import effects_of
from lumijit.syntax.truth import false_test, is_plain_test, true_test, truth_test
from lumijit.syntax.vectorized_code import RegionWriter, Writer

SPLIT = PREFIX + "split"


class NativeWriter:
    """Writes the plain form of one function."""

    def __init__(
        self, regions: RegionWriter, refuse: str, is_final: bool = False
    ) -> None:
        """Go over to `regions` for arrays; with `refuse`, refuse them instead.

        With `is_final`, the block of a `finally` is written: no jump leaves it, and
        those that are on their way have raised their flags.
        """
        self.regions = regions
        self.definitions = regions.definitions
        self.rewriter = regions.rewriter
        self.refuse = refuse
        self.is_final = is_final
        #: Pieces of the enclosing loops, innermost last.
        self.loops: list[LoopPieces] = []
        #: Whether the plain code tests for split mode.
        self.tests_split = False

    def function(self, nodes: list[Statement], bound: set[str]) -> list[Any]:
        """Write the body of the function."""
        finish = [gast.Return(value=build.name(RESULT))]
        return self.block(nodes, bound, finish)

    def block(
        self, nodes: list[Statement], bound: set[str], finish: list[Any] | None = None
    ) -> list[Any]:
        """Write a block.

        `finish` are the statements that end it in split mode, by a jump; without
        them, what follows in the block is made conditional.
        """
        result: list[Any] = []
        for index, node in enumerate(nodes):
            if self.refuse or not may_split(node):
                result += self._node(node, bound)
                continue
            rest = nodes[index + 1 :]
            if (
                finish is not None
                and isinstance(node, If)
                and not (rest and any(map(may_split, (*node.body, *node.orelse))))
            ):
                # It is known where it is split: no flag needs testing.
                result += self._branch(node, bound, (rest, finish))
                continue
            result += self._node(node, bound)
            split = self._split_rest(node, rest, bound)
            in_split_mode = build.name(SPLIT)
            self.tests_split = True
            if finish is not None:
                split += copy.deepcopy(finish)
                exit_ = build.branch(in_split_mode, split, [])
                result.append(build.located(exit_, node.stmt))
                continue
            plain = self.block(rest, bound)
            if split:
                chosen = build.branch(in_split_mode, split, plain)
            elif plain:
                away = gast.UnaryOp(op=gast.Not(), operand=in_split_mode)
                chosen = build.branch(away, plain, [])
            else:
                return result
            return [*result, build.located(chosen, node.stmt)]
        return result

    def _split_rest(
        self, node: Statement, rest: list[Statement], bound: set[str]
    ) -> list[Any]:
        """Write what follows `node` for the lanes that did not jump."""
        if not rest or node.guard is None:
            return []
        return self.regions.statements([node.guard], bound | self._all_flags())

    def _node(self, node: Statement, bound: set[str]) -> list[Any]:
        if isinstance(node, Simple):
            return [self.regions.simple(node.stmt, bound)]
        if isinstance(node, If):
            return self._branch(node, bound)
        if isinstance(node, While):
            return self._loop(node, bound)
        if isinstance(node, For):
            return self._for(node, bound)
        assert isinstance(node, Compound)
        if node.plain_only and not self.refuse:
            inner = NativeWriter(self.regions, node.plain_only)
            statement = self.regions.block_statement(node, inner.block, bound)
        else:
            statement = self.regions.block_statement(node, self._part_of(node), bound)
        return [statement]

    def _part_of(self, node: Compound) -> Writer:
        """Return what writes the blocks of a statement."""
        final = next((body for _, name, body in node.parts if name == "finalbody"), [])

        def write(nodes: list[Statement], bound: set[str]) -> list[Any]:
            is_final = nodes is final and not self.refuse
            return (self._final if is_final else self.block)(nodes, bound)

        return write

    def _final(self, nodes: list[Statement], bound: set[str]) -> list[Any]:
        """Write the block of a `finally`, which may begin in split mode and ends so."""
        inner = NativeWriter(self.regions, "", is_final=True)
        statements = inner.block(nodes, bound)
        if not nodes or not _sets_split(statements):
            return statements
        self.tests_split = True
        kept = self.definitions.new_name("kept")
        start = [build.assign(kept, build.name(SPLIT)), _set_split(False)]
        end = build.assign(SPLIT, build.name(kept))
        first = nodes[0].stmt
        added = [build.located(statement, first) for statement in (*start, end)]
        return [*added[:-1], *statements, added[-1]]

    # Branches.

    def _branch(
        self,
        node: If,
        bound: set[str],
        ending: tuple[list[Statement], list[Any]] | None = None,
    ) -> list[Any]:
        """Write a branch; `ending` is what follows it in split mode, and a jump."""
        test = self.rewriter.rewrite(node.test)
        before = set(bound)
        left, right = set(bound), set(bound)
        finish = None if ending is None else ending[1]
        body = self.block(node.body, left, finish)
        orelse = self.block(node.orelse, right, finish)
        self._join(node, bound, left, right)
        mode = node.hints.mode
        if is_plain_test(node.test) and mode is None:
            return [build.located(build.branch(test, body, orelse), node.stmt)]
        temp = self.definitions.new_name("c")
        vectorized = self._vectorized_branch(node, temp, before)
        if ending is not None:
            rest, finish = ending
            vectorized += self._split_rest(node, rest, before)
            vectorized += copy.deepcopy(finish)
        if mode is not None:
            mode = self.rewriter.rewrite(mode)
        is_false = false_test(temp, mode)
        following: list[Any] = []
        leaves = ending is not None and node.is_sure and ends_in_jump(node.body)
        if leaves and mode is None:
            following, orelse = orelse, []
        if orelse or mode is not None:
            other = build.branch(is_false, orelse, vectorized)
            chosen = build.branch(truth_test(temp, test, mode), body, [other])
        else:
            # False, the usual outcome of early exits, is tested first.
            is_array = gast.UnaryOp(op=gast.Not(), operand=is_false)
            other = build.branch(is_array, vectorized, [])
            inner = build.branch(true_test(temp), body, [other])
            tested = build.differs(build.walrus(temp, test), False)
            chosen = build.branch(tested, [inner], [])
        return [build.located(chosen, node.stmt), *following]

    @staticmethod
    def _join(node: If, bound: set[str], left: set[str], right: set[str]) -> None:
        if ends_in_jump(node.body):
            left = right if not ends_in_jump(node.orelse) else left | right
        elif ends_in_jump(node.orelse):
            right = left
        bound |= left & right
        bound &= left & right

    def _vectorized_branch(self, node: If, temp: str, bound: set[str]) -> list[Any]:
        if self.refuse:
            return self._refusal(node)
        (lowered,) = node.lowered
        assert isinstance(lowered, If)
        test = build.located(build.name(temp), node.test)
        start = self._start_split(node, bound)
        call = self.regions.branch(lowered, test, bound)
        forget = build.assign(temp, build.constant(None))
        return [*start, *call, forget]

    def _start_split(self, node: Statement, bound: set[str]) -> list[Any]:
        """Lower all flags, as the first lanes are about to jump."""
        if not node.jumps:
            return []
        flags = self._all_flags()
        bound |= flags
        lower = build.constant(False)
        statements = [build.assign(f, lower) for f in sorted(flags - {RESULT})]
        if RESULT in flags:
            statements.append(build.assign(RESULT, build.call("no_result")))
        statements.append(_set_split(True))
        return statements

    def _all_flags(self) -> set[str]:
        """List the flags that jumps of the current place may raise."""
        flags = set() if self.is_final else {RETURNED, RESULT}
        for pieces in self.loops:
            flags |= {*pieces.exits, pieces.continue_flag} - {""}
        return flags

    def _refusal(self, node: Statement) -> list[Any]:
        reason = f"this statement {self.refuse}"
        self.definitions.check_mode(node, node.stmt, reason)
        value = self.definitions.refusal(node.stmt, reason)
        return [gast.Expr(value=value)]

    # Loops.

    def _loop(self, node: While, bound: set[str]) -> list[Any]:
        before = set(bound)
        plain_test = is_plain_test(node.test) and node.hints.mode is None
        inner = set(bound)
        body = self._loop_body(node, inner)
        orelse = self.block(node.orelse, set(bound))
        bound -= self.regions.effects.deep(node).deletes
        test = self.rewriter.rewrite(node.test)
        if not plain_test:
            temp = self.definitions.new_name("c")
            mode = node.hints.mode
            mode = None if mode is None else self.rewriter.rewrite(mode)
            test = truth_test(temp, test, mode)
            vectorized = self._vectorized_loop(node, temp, before)
            is_array = gast.UnaryOp(op=gast.Not(), operand=false_test(temp, mode))
            orelse = [build.branch(is_array, vectorized, orelse)]
        statement: Any = gast.While(test, body or [gast.Pass()], orelse)
        result = [build.located(statement, node.stmt)]
        return result + self._end_split(node)

    def _loop_body(self, node: While, bound: set[str]) -> list[Any]:
        if self.refuse:
            return self.block(node.body, bound)
        pieces = node.pieces
        assert pieces is not None
        self.loops.append(pieces)
        finish = None
        if any(map(may_split, node.body)):
            finish = self._finish_loop(pieces, bound)
        body = self.block(node.body, bound, finish)
        self.loops.pop()
        return body

    def _finish_loop(self, pieces: LoopPieces, bound: set[str]) -> list[Any]:
        """Write the remaining iterations of a loop that some lanes have left."""
        if not pieces.exits:
            return [_set_split(False), gast.Continue()]
        assert pieces.loop is not None
        known = bound | self._all_flags()
        rest = [*pieces.retest, pieces.loop, *pieces.after]
        return [*self.regions.statements(rest, known), gast.Break()]

    def _vectorized_loop(self, node: While, temp: str, bound: set[str]) -> list[Any]:
        if self.refuse:
            return self._refusal(node)
        pieces = node.pieces
        assert pieces is not None
        assert pieces.loop is not None
        start = self._start_pieces(node, pieces, bound)
        if pieces.loop.carrier is not None:
            value = build.call("unforced", build.name(temp))
            start.append(build.assign(pieces.loop.carrier, value))
            bound.add(pieces.loop.carrier)
        first = None if node.hints.mode is not None else build.name(temp)
        call = self.regions.loop(pieces.loop, bound, first)
        after = self.regions.statements(pieces.after, bound)
        return [*start, *call, *after]

    def _start_pieces(
        self, node: Statement, pieces: LoopPieces, bound: set[str]
    ) -> list[Any]:
        """Lower the flags of a loop, and all others if its lanes are about to jump."""
        start = self._start_split(node, bound)
        bound |= set(pieces.flags)
        return start + [build.assign(f, build.constant(False)) for f in pieces.flags]

    def _end_split(self, node: While | For) -> list[Any]:
        """Return to plain mode after a loop that only `break` could leave."""
        if self.refuse or node.jumps or not any(map(may_split, node.body)):
            return []
        return [build.located(_set_split(False), node.stmt)]

    def _for(self, node: For, bound: set[str]) -> list[Any]:
        stmt = node.stmt
        before = set(bound)
        iterable = self.rewriter.rewrite(node.iterable)
        target = self.rewriter.rewrite(node.target)
        first, source = self.regions.range_source(node, iterable)
        inner = bound | effects_of(node.target).writes
        body, iterator = self._for_body(node, inner)
        start = []
        if iterator is not None:
            # The iterations that are left for some lanes go on with the iterator.
            kind = "aiter" if isinstance(stmt, gast.AsyncFor) else "iter"
            start = [build.assign(iterator, build.call(kind, source))]
            source = build.name(iterator)
        orelse = self.block(node.orelse, set(bound))
        bound -= self.regions.effects.deep(node).deletes
        loop: Any = type(stmt)(target, source, body or [gast.Pass()], orelse, None)
        result = [*first, *start, loop]
        if node.range_name:
            vectorized = self._vectorized_range(node, before)
            test = self.regions.is_array_range(node)
            result = [*first, build.branch(test, vectorized, [*start, loop])]
        result = [build.located(s, stmt) for s in result]
        return result + self._end_split(node)

    def _for_body(self, node: For, bound: set[str]) -> tuple[list[Any], str | None]:
        """Write the body of a plain loop; return the iterator's name if it has one."""
        pieces = node.pieces
        if self.refuse or pieces is None:
            return self.block(node.body, bound), None
        self.loops.append(pieces)
        iterator = None
        finish = None
        if any(map(may_split, node.body)):
            finish = [_set_split(False), gast.Continue()]
            if pieces.exits:
                iterator = self.definitions.new_name("iterator")
                finish = self._finish_for(node, pieces, iterator, bound)
        body = self.block(node.body, bound, finish)
        self.loops.pop()
        return body, iterator

    def _finish_for(
        self, node: For, pieces: LoopPieces, iterator: str, bound: set[str]
    ) -> list[Any]:
        """Write the remaining iterations, for the lanes that have not left."""
        known = bound | self._all_flags() | {pieces.item}
        body = self.regions.statements(pieces.iteration, set(known))
        done = build.call("all_done", *map(build.name, pieces.exits))
        body.append(build.branch(done, [gast.Break()], []))
        target = build.name(pieces.item, store=True)
        rest = type(node.stmt)(target, build.name(iterator), body, [], None)
        return [rest, *self.regions.statements(pieces.after, known), gast.Break()]

    def _vectorized_range(self, node: For, bound: set[str]) -> list[Any]:
        if self.refuse:
            return self._refusal(node)
        pieces = node.pieces
        assert pieces is not None
        start = self._start_pieces(node, pieces, bound)
        counted = next(n for n in node.lowered if isinstance(n, For)).counted
        call = self.regions.statements([*counted, *pieces.after], bound)
        return [*start, *call]


def _sets_split(statements: list[Any]) -> bool:
    """Tell whether statements go over to split mode, or end it."""
    return any(SPLIT in effects_of(statement).writes for statement in statements)


def _set_split(value: bool) -> Any:
    return build.assign(SPLIT, build.constant(value))
