"""Accesses row by row: what packets in which rows end do.

Their lanes are on one run after another (`runs`), each of which is a masked load or
store, or a copy from or to the stack without mask registers (`pieces`). Where the run
ends that a lane is on is computed from the length of the rows, the number by which a
counter was divided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lumijit.compiler.emit.division import divisor
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import LONG_QUOTIENT, QUOTIENT
from lumijit.compiler.ir.ops.logic import SHR
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.lower.packet import pieces
from lumijit.compiler.lower.packet.ends import Lane, Span
from lumijit.compiler.lower.packet.lanes import MANY_LANES
from lumijit.compiler.lower.packet.lines import Line
from lumijit.compiler.lower.packet.masked import load_call, store_call
from lumijit.compiler.lower.packet.runs import Runs, turned
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.runtime.dtypes import UINT32, DType

# The sizes of entries that processors gather, and mask without AVX-512, in bytes.
WORDS = (4, 8)
# Shorter rows are accessed faster lane by lane.
MIN_LENGTH = 8


@dataclass(frozen=True)
class Place:
    """Where a packet reads entries."""

    type: DType
    base: str
    index: Node
    offset: int = 0


class Rows:
    """The accesses of one kernel that are made row by row."""

    def __init__(self, low: PacketState, runs: Runs) -> None:
        self.low = low
        self.runs = runs
        self._ends = runs.ends
        # By quotients that number rows.
        self._lengths: dict[Node, str] = {}

    def each(
        self,
        indices: Iterable[Node],
        masks: Sequence[Node],
        done: str,
        access: Callable[[Span, str], list[str]],
        types: Sequence[str] = (),
    ) -> list[str] | None:
        """Access row after row, if all go to rows and lanes are active.

        What follows accesses all lanes otherwise, also after some rows: lanes of the
        next may turn out to be on no run.

        Args:
            indices: where to.
            masks: those of the accesses.
            done: the block in which it goes on if all has been done.
            access: makes those of a row, given its lanes, also as a mask; returns what
                it reads into registers.
            types: how that is spelled.

        Returns:
            What has been read of all lanes, at the beginning of `done`; None, and
            nothing is written, if there are no rows.
        """
        low, b = self.low, self.low.b
        lines = [self.runs.found[index] for index in indices]
        rows = self._rows(lines)
        if not rows or not (b.target.has_masks or b.width >= MANY_LANES):
            return None
        head, body, apart = (b.label(s) for s in ("row", "on", "apart"))
        lane, *read = (f"%{b.label(s)}" for s in ("lane", *("read" for _ in types)))
        low.cross_mask()
        before = b.current
        b.branch_if(self._are_long(rows), head, apart)
        b.block(head)
        b.line(f"{lane} = phi i32 [ 0, %{before} ], [ {lane}.n, %{body} ]")
        for ty, name in zip(types, read, strict=True):
            start = f"[ zeroinitializer, %{before} ]"
            b.line(f"{name} = phi {ty} {start}, [ {name}.n, %{body} ]")
        with self.runs.aside():
            span = self._from(rows, lane)
            b.branch_if(self._ends.hold(lines, masks, span), body, apart)
            b.block(body)
            mask = self._within(span) if b.target.has_masks else ""
            values = access(span, mask)
        chosen = f"<{b.width} x i1> {mask}"
        for ty, name, value in zip(types, read, values, strict=True):
            b.line(f"{name}.n = select {chosen}, {ty} {value}, {ty} {name}")
        b.line(f"{lane}.n = add i32 {span.last}, 1")
        more = b.emit(f"icmp ult i32 {lane}.n, {b.width}")
        b.branch_if(more, head, done)
        b.block(apart)
        return [f"{name}.n" for name in read]

    def read(
        self,
        places: Sequence[Place],
        masks: Sequence[Node],
        apart: Callable[[], list[str]],
        types: Sequence[str],
        value: Callable[[DType, str], str] | None = None,
    ) -> list[str]:
        """Read row after row, if all lie in rows and lanes are active, else `apart`.

        Words are read apart in any case: an instruction gathers them as fast.

        Args:
            places: what is read.
            masks: those of the reads.
            apart: reads all lanes otherwise.
            types: how what comes out is spelled.
            value: makes that of what is in memory, if it is something else.
        """
        if all(place.type.size_bytes in WORDS for place in places):
            return apart()
        b = self.low.b
        done, both = b.label("rows"), b.label("read")

        def load(span: Span, mask: str) -> list[str]:
            if mask:
                return [self._load(place, span, mask) for place in places]
            for k, place in enumerate(places):
                self._fetch(place, span, self._kept(k, place.type.memory_llvm))
            return []

        spelled = [b.memory_type(place.type) for place in places]
        in_registers = spelled if b.target.has_masks else ()
        raw = self.each([p.index for p in places], masks, done, load, in_registers)
        others = apart()
        if raw is None:
            return others
        before = b.current
        b.branch(both)
        b.block(done)
        if not raw:
            raw = [
                self._fetched(place, self._kept(k, place.type.memory_llvm))
                for k, place in enumerate(places)
            ]
        if value is not None:
            raw = [value(p.type, r) for p, r in zip(places, raw, strict=True)]
        b.branch(both)
        b.block(both)
        return [
            b.phi(ty, (one, done), (other, before))
            for ty, one, other in zip(types, raw, others, strict=True)
        ]

    def _load(self, place: Place, span: Span, mask: str) -> str:
        """Load the entries of a row's lanes, as they are in memory."""
        b, step = self.low.b, self.runs.found[place.index].step
        t, base, index, offset = place.type, place.base, place.index, place.offset
        element, ty = t.memory_llvm, b.memory_type(t)
        address = self.runs.address(element, base, index, offset, span.first)
        if not step:
            return b.spread(element, b.load(element, address))
        packet = load_call(b, element, ty, address, self._turned(mask, step))
        return turned(b, ty, packet, step)

    def _kept(self, number: int, element: str) -> str:
        """Return where a packet is put together without mask registers, and as much."""
        return self.low.on_stack(
            f"row{number}", f"<{2 * self.low.b.width} x {element}>"
        )

    def _fetch(self, place: Place, span: Span, kept: str) -> None:
        """Bring the entries of a row's lanes to the stack, in the order of memory."""
        b, step = self.low.b, self.runs.found[place.index].step
        element, base, index = place.type.memory_llvm, place.base, place.index
        address = self.runs.address(element, base, index, place.offset, span.first)
        start, count = self._part(span, step)
        to = b.at(element, kept, start)
        if step:
            pieces.copy(b, element, to, b.at(element, address, start), count)
            return
        # Lanes behind the row's are those of the next ones, which are yet to come.
        packet = b.spread(element, b.load(element, address))
        b.line(f"store <{b.width} x {element}> {packet}, ptr {to}, align 1")

    def _fetched(self, place: Place, kept: str) -> str:
        """Return what has been brought to the stack, in the order of the lanes."""
        b, ty = self.low.b, self.low.b.memory_type(place.type)
        return turned(b, ty, b.load(ty, kept, 32), self.runs.found[place.index].step)

    def store(
        self, element: str, value: str, base: str, index: Node, span: Span, mask: str
    ) -> None:
        """Store those of a packet's entries that are a row's."""
        b, step = self.low.b, self.runs.found[index].step
        ty = f"<{b.width} x {element}>"
        packet = turned(b, ty, value, step)
        address = self.runs.address(element, base, index, lane=span.first)
        if mask:
            store_call(b, element, packet, address, self._turned(mask, step))
            return
        kept = self.low.on_stack("row", ty)
        b.line(f"store {ty} {packet}, ptr {kept}, align 32")
        first, count = self._part(span, step)
        start, to = (b.at(element, base, first) for base in (kept, address))
        pieces.copy(b, element, to, start, count)

    def _part(self, span: Span, step: int) -> tuple[str, str]:
        """Return where a row's lanes begin in the order of memory, and their number."""
        b = self.low.b
        first, last = (b.emit(f"zext i32 {lane} to i64") for lane in span)
        more = b.emit(f"sub i64 {last}, {first}")
        start = b.emit(f"sub i64 {b.width - 1}, {last}") if step < 0 else first
        return start, b.emit(f"add i64 {more}, 1")

    def _turned(self, mask: str, step: int) -> str:
        b = self.low.b
        return turned(b, f"<{b.width} x i1>", mask, step)

    def _rows(self, lines: Iterable[Line]) -> list[Node]:
        """Return the quotients that number the rows in which values lie."""
        nodes = {test.node for line in lines for test in line.tests}
        return sorted(filter(self._is_row, nodes), key=self.low.order.__getitem__)

    def _is_row(self, node: Node) -> bool:
        """Tell whether a node is the number of a row of what grows by one."""
        if node.op not in (QUOTIENT, LONG_QUOTIENT, SHR) or node.type.bits != 32:
            return False
        line = self.runs.found.get(node.deps[0])
        is_known = all(dep.op is LITERAL for dep in node.deps[1:])
        return is_known and line is not None and line.step == 1

    def _are_long(self, rows: Iterable[Node]) -> str:
        """Return whether rows take less time than their lanes one by one."""
        lengths = [self._length(row) for row in rows]
        with self.low.scalar_code() as b:
            long = [b.compare("uge", UINT32, n, MIN_LENGTH) for n in lengths]
        return self._ends.every(long)

    def _from(self, rows: Iterable[Node], lane: Lane) -> Span:
        """Return the lanes from one on that are in the same of all rows: it, at least.

        Where positions wrap around, they may be too few or too many.
        """
        last = self._ends.whole.last
        for row in rows:
            left = self._left(row, lane)
            with self.low.scalar_code() as b:
                end = b.add(UINT32, lane, left)
                last = b.binary_intrinsic("umin", UINT32, end, last)
        with self.low.scalar_code() as b:
            return Span(lane, b.binary_intrinsic("umax", UINT32, last, lane))

    def _left(self, row: Node, lane: Lane) -> str:
        """Return how many lanes after one are in the same row, or would be."""
        length = self._length(row)
        position = self._ends.first(row.deps[0], lane)
        number = self._ends.first(row, lane)
        with self.low.scalar_code() as b:
            end = b.add(UINT32, b.mul(UINT32, number, length), length)
            return b.sub(UINT32, b.sub(UINT32, end, position), 1)

    def _length(self, row: Node) -> str:
        """Return the number of which a quotient is, computed in the kernel's entry."""
        if row not in self._lengths:
            by = [self._ends.first(dep) for dep in row.deps[1:]]
            with self.low.writing_entry(), self.low.scalar_code() as b:
                if row.op is SHR:
                    amount = b.binary("and", UINT32, by[0], UINT32.bits - 1)
                    length = b.binary("shl", UINT32, 1, amount)
                else:
                    length = divisor(b, *by, is_long=row.op is LONG_QUOTIENT)
            self._lengths[row] = length
        return self._lengths[row]

    def _within(self, span: Span) -> str:
        """Return a span as a mask."""
        b = self.low.b
        bits, wide = f"i{b.width}", f"i{max(64, b.width)}"
        first, last = (b.emit(f"zext i32 {lane} to {wide}") for lane in span)
        begun = b.emit(f"shl {wide} -1, {first}")
        ended = b.emit(f"shl {wide} -2, {last}")
        word = b.emit(f"xor {wide} {begun}, {ended}")
        if wide != bits:
            word = b.emit(f"trunc {wide} {word} to {bits}")
        return b.emit(f"bitcast {bits} {word} to <{b.width} x i1>")
