"""Looks several packets ahead: what holds there needn't be asked in each.

Whether accesses go to runs is told by the first and the last lane of a packet (`ends`),
and as well by those of several packets. Where they hold, the next packets only carry
on where their runs begin, which is a sum: no packet divides to find its row.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import BITCAST, CAST, COUNTER, LITERAL
from lumijit.compiler.lower.packet.ends import Ends
from lumijit.compiler.lower.packet.lines import Lines, Test
from lumijit.compiler.lower.packet.state import PacketState

#: How many lanes are looked at, at most (see `lines` on how much may wrap around).
FAR = 1 << 14
# Fewer tests are as fast in each packet; more make the build too long.
FEW_TESTS, MANY_TESTS = 3, 12


class Part(NamedTuple):
    """Accesses that are made in one or the other way together."""

    indices: Collection[Node]
    masks: Collection[Node]


class Ahead:
    """What is carried from packet to packet in one kernel."""

    def __init__(self, low: PacketState, ends: Ends, lines: Lines) -> None:
        self._low = low
        self._ends = ends
        self._lines = lines
        self._place: int | None = None
        self._held: dict[frozenset[Test], str] = {}

    def begin(self) -> None:
        """Note where a packet's code begins; what is carried is written there."""
        self._place = len(self._low.b.lines)

    def hold(self, parts: list[Part]) -> list[str] | None:
        """Return whether all lanes of each part are active and on runs, if it pays.

        Where these begin is written, too, for the blocks that follow.
        """
        low = self._low
        is_whole = low.mask is None or low.b.origin(low.mask) == low.tail_mask
        if self._place is None or not (is_whole and self._ends.is_outermost):
            return None
        tests: list[frozenset[Test]] = []
        for part in parts:
            of_masks = [self._lines.truth(mask) for mask in part.masks]
            of_lines = [self._lines.found[index].tests for index in part.indices]
            if None in of_masks:
                return None
            tests.append(frozenset().union(*filter(None, of_masks), *of_lines))
        if all(part in self._held for part in tests):
            for index in _indices(parts):
                self._ends.first(index)
            return [self._held[part] for part in tests]
        every = frozenset().union(*tests)
        if not FEW_TESTS <= len(every) <= MANY_TESTS:
            return None
        if not self._is_counted([*(test.node for test in every), *_indices(parts)]):
            return None
        held = self._carry(parts)
        self._held.update(zip(tests, held, strict=True))
        return held

    def _is_counted(self, nodes: list[Node]) -> bool:
        """Tell whether values can be computed for any lane, also of other packets."""
        seen, stack = set(nodes), nodes
        while stack:
            node = stack.pop()
            if node in self._low.scalars or node.op in (LITERAL, COUNTER):
                continue
            is_computed = node.op.lower is not None or node.op in (CAST, BITCAST)
            if not is_computed or not all(
                n.type.is_int or n.type.is_bool for n in node.deps
            ):
                return False
            stack += [dep for dep in node.deps if dep not in seen]
            seen.update(node.deps)
        return True

    def _carry(self, parts: list[Part]) -> list[str]:
        """Write the tests, and what goes from packet to packet.

        Tests hold `until` some element. The last packet in which they didn't ended at
        `origin`, and the next one is expected at `goal`.
        """
        low, b, ends = self._low, self._low.b, self._ends
        index, indices = low.index_name, _indices(parts)
        labels = [b.label(s) for s in ("look", "test", "retry", "failed", "found")]
        look, test, retry, failed, found = labels
        roles = ["until", "origin", "goal", *["first"] * len(indices)]
        until, origin, goal, *firsts = (f"%{b.label(role)}" for role in roles)
        self._write_heads(
            {until: ("i64", "0"), origin: ("i64", "%begin"), goal: ("i64", "%end")}
            | dict.fromkeys(firsts, ("i32", "0"))
        )
        low.cross_mask()
        after = b.emit(f"add i64 {index}, {b.width}")
        is_known = b.emit(f"icmp ule i64 {after}, {until}")
        before = b.current
        b.branch_if(is_known, found, look)
        b.block(look)
        with ends.inside():
            begins = [ends.first(i) for i in indices]
            far = self._bounded(b.emit(f"sub i64 {goal}, {index}"))
            looked = b.current
            b.branch(test)
            b.block(test)
            lanes = b.emit(f"phi i64 [ {far}, %{looked} ], [ {b.width}, %{retry} ]")
            each = [
                ends.hold(
                    [self._lines.found[i] for i in part.indices], part.masks, lanes
                )
                for part in parts
            ]
            is_one = b.emit(f"icmp eq i64 {lanes}, {b.width}")
            last = b.emit(f"add i64 {index}, {lanes}")
            # Rows that are shorter than it seemed aren't foreseen.
            left = b.emit(f"select i1 {is_one}, i64 0, i64 {goal}")
            tested = b.current
            self._decide(ends.every(each), found, retry)
            b.block(retry)
            b.branch_if(is_one, failed, test)
            b.block(failed)
            # The next row may be as long as this one, less what begins in a packet.
            run = b.emit(f"sub i64 {index}, {origin}")
            next_goal = b.emit(f"add i64 {index}, {run}")
            b.branch(found)
        b.block(found)
        sources = before, tested, failed

        def chosen(ty: str, *values: str) -> str:
            sides = zip(values, sources, strict=True)
            return f"phi {ty} " + ", ".join(f"[ {v}, %{at} ]" for v, at in sides)

        held = [b.emit(chosen("i1", "true", "true", one)) for one in each]
        places = [
            b.emit(chosen("i32", first, begin, begin))
            for first, begin in zip(firsts, begins, strict=True)
        ]
        b.line(f"{until}.n = {chosen('i64', until, last, '0')}")
        b.line(f"{origin}.n = {chosen('i64', origin, origin, after)}")
        b.line(f"{goal}.n = {chosen('i64', goal, left, next_goal)}")
        for i, first, place in zip(indices, firsts, places, strict=True):
            step = self._lines.found[i].step * b.width
            b.line(f"{first}.n = add i32 {place}, {step}")
            ends.note_first(i, place)
        return held

    def _bounded(self, lanes: str) -> str:
        """Return so many lanes, but at least a packet's, and at most `FAR`."""
        b = self._low.b
        for name, bound in (("smin", FAR), ("smax", b.width)):
            full = f"llvm.{name}.i64"
            b.declarations[full] = f"declare i64 @{full}(i64, i64)"
            lanes = b.emit(f"call i64 @{full}(i64 {lanes}, i64 {bound})")
        return lanes

    def _decide(self, held: str, yes: str, no: str) -> None:
        # See `Runs.decide`.
        hint = ", !unpredictable !0"
        self._low.b.line(f"br i1 {held}, label %{yes}, label %{no}{hint}")

    def _write_heads(self, heads: dict[str, tuple[str, str]]) -> None:
        place = self._place
        self._low.b.lines[place:place] = [
            f"  {name} = phi {ty} [ {first}, %entry ], [ {name}.n, %packet.end ]"
            for name, (ty, first) in heads.items()
        ]


def _indices(parts: list[Part]) -> list[Node]:
    return list(dict.fromkeys(index for part in parts for index in part.indices))
