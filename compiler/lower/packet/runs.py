"""Accesses to runs: indices that go on or back by one from lane to lane, or stay.

Such an access is one load or store of a packet, whose lanes are turned around where it
goes back, or one load of an entry for all lanes. Which indices are runs is in `lines`,
how a kernel tells in `ends`, which reads are made together in `late`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.lower.packet.ends import Ends, Lane, Span
from lumijit.compiler.lower.packet.late import Late
from lumijit.compiler.lower.packet.lines import Line
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.compiler.plan.program import is_baked
from lumijit.runtime.dtypes import DType


class Runs:
    """The runs of one kernel, and the vectors of their positions."""

    def __init__(self, low: PacketState, late: Late) -> None:
        self.low = low
        self.late = late
        self.found: dict[Node, Line] = late.lines.found
        self.strided = late.lines.strided
        self.ends = Ends(low, late.lines)
        self._aside: list[Node] = []

    def line(self, index: Node) -> Line | None:
        """Return by how much an index grows, if it goes on or back by one."""
        line = self.found.get(index)
        return line if line is not None and line.step else None

    def vector(self, node: Node) -> str:
        """Return a value in all lanes, which may be computed late."""
        low = self.low
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [] if top in low.values else self._missing(top)
            stack += missing
            if not missing:
                stack.pop()
                if top not in low.values and self._is_late(top):
                    low.compute(top)
                    self._aside.append(top)
        return low.operand(node)

    def _missing(self, node: Node) -> list[Node]:
        """Return the operands of what is computed late that have to come first."""
        deps = node.deps if node in self.late.nodes else ()
        return [d for d in deps if d not in self.low.values and self._is_late(d)]

    def _is_late(self, node: Node) -> bool:
        return node in self.late.nodes or (node.op is LITERAL and is_baked(node))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Write a block of its own: what it computes late serves no other."""
        outer, self._aside = self._aside, []
        with self.ends.inside():
            yield
        for node in self._aside:
            del self.low.values[node]
        self._aside = outer

    def read(
        self,
        held: str,
        types: Iterable[str],
        packed: Callable[[], list[str]],
        apart: Callable[[], list[str]],
    ) -> list[str]:
        """Return values that are read in one of two ways.

        Args:
            held: whether all lanes are active, and on runs (see `hold`).
            types: how the values are spelled.
            packed: reads where all lanes are active and on runs.
            apart: reads elsewhere.
        """
        b = self.low.b
        self.low.cross_mask()
        labels = [b.label(s) for s in ("packed", "apart", "read")]
        self.decide(held, *labels[:2])
        sides: list[tuple[str, list[str]]] = []
        for label, values in zip(labels, (packed, apart), strict=False):
            b.block(label)
            with self.aside():
                found = values()
            sides.append((b.current, found))
            b.branch(labels[2])
        b.block(labels[2])
        (left, ones), (right, others) = sides
        return [
            b.phi(ty, (one, left), (other, right))
            for ty, one, other in zip(types, ones, others, strict=True)
        ]

    def decide(self, held: str, packed: str, apart: str) -> None:
        """Go to one of two blocks by what `hold` returned."""
        # Else LLVM makes a jump of each test, which takes long to compile.
        hint = ", !unpredictable !0"
        self.low.b.line(f"br i1 {held}, label %{packed}, label %{apart}{hint}")

    def hold(self, indices: Collection[Node], masks: Iterable[Node]) -> str:
        """Return whether all lanes are active under some masks, and on runs.

        Where these begin is written, too, for the blocks that follow.
        """
        for index in indices:
            self.ends.first(index)
        return self.ends.hold([self.found[index] for index in indices], masks)

    def address(
        self, element: str, base: str, index: Node, offset: int = 0, lane: Lane = 0
    ) -> str:
        """Return where the run of entries begins that an index tells in a lane.

        That is as if all lanes lay on it. Where it goes back, it begins at the last
        lane's. Positions are below 2**31: one above is as far before the first entry.
        Lanes that lie there are masked.
        """
        b = self.low.b
        step = self.found[index].step
        place = self.ends.first(index, lane)
        lanes = self.ends.steps(index, step, Span(0, lane))
        if lanes:
            place = b.emit(f"sub i32 {place}, {lanes}")
        place = b.emit(f"sext i32 {place} to i64")
        if step < 0:
            offset -= b.width - 1
        if offset:
            place = b.emit(f"add i64 {place}, {offset}")
        return b.at(element, base, place)

    def load(self, t: DType, base: str, index: Node, offset: int = 0) -> str:
        """Load a packet of entries as they are in memory, in the order of the lanes."""
        b = self.low.b
        place, ty = self.address(t.memory_llvm, base, index, offset), b.memory_type(t)
        step = self.found[index].step
        if not step:
            return b.spread(t.memory_llvm, b.load(t.memory_llvm, place))
        packet = b.load(ty, place, t.size_bytes)
        return turned(b, ty, packet, step)

    def store(self, element: str, value: str, base: str, index: Node) -> None:
        """Store a packet of entries as they are in memory, from the lanes in order."""
        b = self.low.b
        ty, place = f"<{b.width} x {element}>", self.address(element, base, index)
        packet = turned(b, ty, value, self.found[index].step)
        # Every type's entries are aligned to a byte at least, which is the same to x86.
        b.line(f"store {ty} {packet}, ptr {place}, align 1")


def turned(b: Builder, ty: str, packet: str, step: int) -> str:
    """Return the lanes of a run in the order of memory, or back."""
    lanes = range(b.width - 1, -1, -1)
    return b.shuffle(ty, packet, packet, lanes) if step < 0 else packet
