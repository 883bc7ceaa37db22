"""Lowers plain indirect writes for packets: which instructions store the lanes.

LLVM would test and branch for every lane; one test for the whole packet does instead,
as mostly all lanes are active. Where loops take a kernel's time, a loop over the lanes
does, which is a quarter of the code. (AVX-512 has an instruction for scatters, which
takes more than twice as long on Zen 4.) Writes under one mask wait for each other and
share that test or loop. Those of neighbouring entries, like an array's components, are
one short store a lane, and one long store where the lanes' rows lie side by side.
Those that go to runs of entries (`runs`) are one store, or one a row (`rows`). Writes
that combine are in `access`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.type_names import bits_of
from lumijit.compiler.ir.effects import joins
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.compiler.ir.ops.structural import LITERAL, READS, REGIONS, SCATTER
from lumijit.compiler.ir.roles import is_effect
from lumijit.compiler.lower.common.atomics import entry_address
from lumijit.compiler.lower.packet.columns import MOST_IN_ROW, interleaved, rows
from lumijit.compiler.lower.packet.ends import Span
from lumijit.compiler.lower.packet.lanes import (
    MANY_LANES,
    LaneLoop,
    constants,
    every_lane,
    lane_of,
    mask_bits,
)
from lumijit.compiler.lower.packet.masked import scatter_call
from lumijit.compiler.lower.packet.rows import WORDS, Rows
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.runtime.dtypes import BOOL, UINT32


@dataclass
class Write:
    """One write of a packet: `value` (entries as in memory) goes to `base[index]`."""

    element: str
    value: str
    base: str
    index: Node


class Stores:
    """The plain writes of one packet kernel."""

    def __init__(self, low: PacketState, rows: Rows) -> None:
        self.low = low
        self.rows = rows
        self.runs = rows.runs
        self.waiting: list[Write] = []
        self.targets: set[Node] = set()
        # The mask of the writes that wait, and that of the active lanes.
        self.masks: tuple[Node | None, str | None] = (None, None)

    def before(self, node: Node) -> None:
        """Write what waits, unless lowering a node can't notice that it does."""
        op = node.op
        if op in READS or op in REGIONS or (is_effect(node) and op is not SCATTER):
            self.flush()

    def add(self, node: Node, target: Node, write: Write) -> None:
        """Append the write of a scatter, given the first version of its target."""
        low = self.low
        mask = node.deps[3]
        # Two writes to one entry must stay in order, also those of other lanes.
        is_apart = target not in self.targets or joins(node)
        if self.masks != (mask, low.mask) or not is_apart:
            self.flush()
        self.masks = (mask, low.mask)
        self.waiting.append(write)
        self.targets.add(target)

    def flush(self) -> None:
        """Write what waits; of lanes with one index the last one stays."""
        writes, mask = self.waiting, self.masks[0]
        if not writes or mask is None:
            return
        self.waiting = []
        self.targets = set()
        b, runs = self.low.b, self.runs
        places = [w.index for w in writes if runs.line(w.index) is not None]
        is_short = len(places) == len(writes) and all(
            runs.found[place].is_sure for place in places
        )
        if self.low.program.has_loops and self.low.loop_depth == 0 and not is_short:
            self.low.cross_mask()
            self._by_lane(writes, mask)
            return
        found = [[write] for write in writes] if places else _in_rows(writes)
        if not places and len(found) == len(writes) and self._are_scattered(writes):
            self.low.cross_mask()
            self._scatter(writes, self._active(mask))
            return
        packed, some, done = (b.label(s) for s in ("packed", "some", "written"))
        held = runs.hold(places, (mask,))
        dense = [self._is_dense(row, writes) for row in found]
        for row, is_dense in zip(found, dense, strict=True):
            if len(row) > 1:
                held = b.emit(f"and i1 {held}, {self._is_held(row, is_dense)}")
        self.low.cross_mask()
        runs.decide(held, packed, some)
        b.block(packed)
        with runs.aside():
            for row, is_dense in zip(found, dense, strict=True):
                if len(row) > 1:
                    self._row(row, is_dense)
                else:
                    self._all_lanes(row[0])
        b.branch(done)
        b.block(some)
        with runs.aside():
            if is_short or not places:
                self._by_lane(writes, mask)
            else:
                self._apart(writes, mask, done)
        b.branch(done)
        b.block(done)

    def _all_lanes(self, write: Write) -> None:
        """Write all lanes, which are active, and on runs where it goes to one."""
        if self.runs.line(write.index) is None:
            self._lanes(write)
        else:
            self.runs.store(write.element, write.value, write.base, write.index)

    def _is_dense(self, row: list[Write], writes: list[Write]) -> bool:
        """Tell whether lanes probably lie side by side: a row is all that each writes.

        Such are those of an array that is stored whole.
        """
        first = row[0]
        place = first.base, base_of(first.index)
        alike = [w for w in writes if (w.base, base_of(w.index)) == place]
        return len(alike) == len(row) and first.index in self.runs.strided

    def _is_held(self, row: list[Write], is_dense: bool) -> str:
        """Return whether writes go to one entry behind the other, in all lanes.

        Of rows that are dense, whether each begins behind that of the lane before.
        """
        b, count = self.low.b, len(row)
        first, *others = (self.runs.vector(write.index) for write in row)
        wanted = [(at, b.add(UINT32, first, k)) for k, at in enumerate(others, 1)]
        if is_dense:
            start = b.splat(UINT32, lane_of(b, b.type(UINT32), first, 0))
            steps = constants(range(0, count * b.width, count))
            wanted.append((first, b.add(UINT32, start, steps)))
        differ = [b.compare("ne", UINT32, *pair) for pair in wanted]
        some = b.any_lane(reduce(lambda x, y: b.binary("or", BOOL, x, y), differ))
        return b.emit(f"xor i1 {some}, true")

    def _row(self, row: list[Write], is_dense: bool) -> None:
        """Write neighbouring entries of all lanes, which are active."""
        b, first, columns = self.low.b, row[0], [write.value for write in row]
        element, count, place = first.element, len(row), self.runs.vector(first.index)
        if is_dense:
            start = lane_of(b, b.type(UINT32), place, 0)
            for lane, ty, packet in interleaved(b, element, columns):
                at = b.emit(f"add i32 {start}, {count * lane}") if lane else start
                _store(b, ty, packet, first, at)
            return
        for lane, entries in enumerate(rows(b, element, columns)):
            at = lane_of(b, b.type(UINT32), place, lane)
            _store(b, f"<{count} x {element}>", entries, first, at)

    def _apart(self, writes: list[Write], mask: Node, done: str) -> None:
        """Write lanes that may all be active, to any entries; the end is `done`."""
        b = self.low.b
        self._by_row(writes, mask, done)
        full, some = b.label("full"), b.label("some")
        active = b.narrow(self._active(mask))
        is_full = b.emit(f"icmp eq i{b.width} {mask_bits(b, active)}, -1")
        for write in writes:
            self.runs.vector(write.index)
        self.low.cross_mask()
        b.branch_if(is_full, full, some)
        b.block(full)
        if b.width <= MANY_LANES:
            for write in writes:
                self._lanes(write)
        else:
            every_lane(b, self._one_by_one(writes))
        b.branch(done)
        b.block(some)
        self._by_lane(writes, mask)

    def _by_row(self, writes: list[Write], mask: Node, done: str) -> None:
        """Write row after row, if all go to rows and lanes are active; then to `done`.

        What follows may write the same once more.
        """
        if any(self.runs.line(write.index) is None for write in writes):
            return

        def store(span: Span, lanes: str) -> list[str]:
            for w in writes:
                self.rows.store(w.element, w.value, w.base, w.index, span, lanes)
            return []

        self.rows.each([write.index for write in writes], (mask,), done, store)

    def _active(self, mask: Node) -> str:
        return self.low.under_mask(self.runs.vector(mask))

    def _lanes(self, write: Write) -> None:
        """Write all lanes, which are active, to any entries."""
        b = self.low.b
        if self._are_scattered([write]):
            self._scatter([write], b.const(BOOL, True))
            return
        index = self.runs.vector(write.index)
        for lane in range(b.width):
            at = lane_of(b, b.type(UINT32), index, lane)
            item = lane_of(b, f"<{b.width} x {write.element}>", write.value, lane)
            _store(b, write.element, item, write, at)

    def _by_lane(self, writes: list[Write], mask: Node) -> None:
        """Write the lanes that are active, one by one if need be."""
        b = self.low.b
        active = self._active(mask)
        if self._are_scattered(writes):
            self._scatter(writes, active)
            return
        store = self._one_by_one(writes)
        is_set = b.origin(active) == self.low.tail_mask
        loop = LaneLoop(b, mask_bits(b, b.narrow(active)), is_set)
        store(loop.lane)
        loop.close()

    def _are_scattered(self, writes: list[Write]) -> bool:
        """Tell whether each is one instruction for all lanes."""
        are_words = all(bits_of(write.element) // 8 in WORDS for write in writes)
        return self.low.b.target.has_fast_scatters and are_words

    def _scatter(self, writes: list[Write], active: str) -> None:
        """Write the lanes that are active, if any is, by instructions."""
        b = self.low.b
        indices = [self.runs.vector(write.index) for write in writes]
        some, done = b.label("any"), b.label("scattered")
        is_sure = (
            active == b.const(BOOL, True) or b.origin(active) == self.low.tail_mask
        )
        if not is_sure:
            b.branch_if(b.any_lane(active), some, done)
            b.block(some)
        for w, index in zip(writes, indices, strict=True):
            scatter_call(b, w.element, w.value, w.base, index, b.narrow(active))
        if not is_sure:
            b.branch(done)
            b.block(done)

    def _one_by_one(self, writes: list[Write]) -> Callable[[str], None]:
        """Put what is written, and where to, into memory; return what writes a lane."""
        b = self.low.b
        known: dict[Node, str] = {}
        vectors = []
        for k, write in enumerate(writes):
            if write.index not in known:
                role, index = f"places{len(known)}", self.runs.vector(write.index)
                known[write.index] = self._put(role, b.type(UINT32), index)
            ty = f"<{b.width} x {write.element}>"
            vectors.append(self._put(f"items{k}", ty, write.value))

        def store(lane: str) -> None:
            places = {key: b.load_at("i32", at, lane) for key, at in known.items()}
            for write, vector in zip(writes, vectors, strict=True):
                item = b.load_at(write.element, vector, lane)
                _store(b, write.element, item, write, places[write.index])

        return store

    def _put(self, role: str, ty: str, vector: str) -> str:
        """Put a vector into memory, from where single lanes are read fast."""
        address = self.low.on_stack(role, ty)
        self.low.b.line(f"store {ty} {vector}, ptr {address}, align 32")
        return address


def _store(b: Builder, ty: str, item: str, write: Write, at: str) -> None:
    """Store one or several entries where a lane writes to."""
    address = entry_address(b, write.element, write.base, at)
    align = "" if ty == write.element else f", align {bits_of(write.element) // 8}"
    b.line(f"store {ty} {item}, ptr {address}{align}")


def _in_rows(writes: list[Write]) -> list[list[Write]]:
    """Put writes together that may go to one entry behind the other.

    What numbers are added to an index now tells the order; kernels ask once more.
    """
    alike: dict[tuple[str, Node], dict[Node, Write]] = {}
    for write in writes:
        found = alike.setdefault((write.base, base_of(write.index)), {})
        if write.index in found:
            return [[write] for write in writes]
        found[write.index] = write
    rows = []
    for found in alike.values():
        row = [found[index] for index in sorted(found, key=_number)]
        rows += [row[k : k + MOST_IN_ROW] for k in range(0, len(row), MOST_IN_ROW)]
    return rows


def _number(index: Node) -> int:
    """Return what is added to an index."""
    total = 0
    while _is_moved(index):
        index, number = index.deps
        total += number.attr
    return total


def base_of(index: Node) -> Node:
    """Return an index without the numbers that are added to it, if any."""
    while _is_moved(index):
        index = index.deps[0]
    return index


def _is_moved(index: Node) -> bool:
    return index.op is ADD and index.deps[1].op is LITERAL
