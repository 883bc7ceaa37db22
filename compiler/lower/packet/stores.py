"""Lowers plain indirect writes for packets: which instructions store the lanes.

LLVM would test and branch for every lane; one test for the whole packet does instead,
as mostly all lanes are active. Where loops take a kernel's time, a loop over the lanes
does, which is a quarter of the code. (AVX-512 has an instruction for scatters, which
takes more than twice as long.) Neighbouring writes under one mask, like those of an
array's components, wait for each other and share that test or loop. Those that go to
runs of entries (`runs`) are one store. Writes that combine are in `access`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.ir.effects import joins
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import READS, REGIONS, SCATTER
from lumijit.compiler.ir.roles import is_effect
from lumijit.compiler.lower.common.atomics import entry_address
from lumijit.compiler.lower.packet.lanes import LaneLoop, lane_of, mask_bits
from lumijit.compiler.lower.packet.runs import Run, Runs, run_address, store_run
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.runtime.dtypes import BOOL, UINT32


@dataclass
class Write:
    """One write of a packet: `value` (entries as in memory) goes to `base[index]`.

    The index may be a `run`.
    """

    element: str
    value: str
    base: str
    index: str
    run: Run | None = None


class Stores:
    """The plain writes of one packet kernel."""

    def __init__(self, low: PacketState, runs: Runs) -> None:
        self.low = low
        self.runs = runs
        self.waiting: list[Write] = []
        self.targets: set[Node] = set()
        self.mask = ""
        # What tells the mask: the write's own, and that of the active lanes.
        self.masks: tuple[str, str | None] = ("", None)

    def before(self, node: Node) -> None:
        """Write what waits, unless lowering a node can't notice that it does."""
        op = node.op
        if op in READS or op in REGIONS or (is_effect(node) and op is not SCATTER):
            self.flush()

    def add(self, node: Node, target: Node, write: Write) -> None:
        """Append the write of a scatter, given the first version of its target."""
        low = self.low
        mask = low.values[node.deps[3]]
        # Two writes to one entry must stay in order, also those of other lanes.
        is_apart = target not in self.targets or joins(node)
        if self.masks != (mask, low.mask) or not is_apart:
            self.flush()
        if not self.waiting:
            self.masks = (mask, low.mask)
            self.mask = low.under_mask(mask)
        run = self.runs.found.get(node.deps[2])
        write.run = run if run is not None and run.step else None
        self.waiting.append(write)
        self.targets.add(target)

    def flush(self) -> None:
        """Write what waits; of lanes with one index the last one stays."""
        writes = self.waiting
        if not writes:
            return
        low = self.low
        b = low.b
        self.waiting = []
        self.targets = set()
        low.cross_mask()
        bits = mask_bits(b, b.narrow(self.mask))
        is_short = all(w.run is not None and w.run.is_sure for w in writes)
        if low.program.has_loops and low.loop_depth == 0 and not is_short:
            self._by_lane(writes, bits)
        else:
            packed, some, done = (b.label(s) for s in ("packed", "some", "written"))
            is_full = b.emit(f"icmp eq i{b.width} {bits}, -1")
            b.branch_if(is_full, packed, some)
            b.block(packed)
            for write in writes:
                self._all_lanes(write)
            b.branch(done)
            b.block(some)
            self._by_lane(writes, bits)
            b.branch(done)
            b.block(done)

    def _all_lanes(self, write: Write) -> None:
        """Write all lanes, which are active."""
        b, run = self.low.b, write.run
        if run is None:
            _store_lanes(b, write)
        elif run.is_sure:
            _store_run(b, write)
        else:
            packed, apart, stored = (b.label(s) for s in ("run", "apart", "stored"))
            self.runs.test(write.index, run, b.const(BOOL, True), packed, apart)
            for label, store in ((packed, _store_run), (apart, _store_lanes)):
                b.block(label)
                store(b, write)
                b.branch(stored)
            b.block(stored)

    def _by_lane(self, writes: list[Write], bits: str) -> None:
        """Write the lanes that are set in an integer of bits, one by one."""
        b = self.low.b
        known: dict[str, str] = {}
        vectors = []
        for k, write in enumerate(writes):
            if write.index not in known:
                role = f"places{len(known)}"
                known[write.index] = self._put(role, b.type(UINT32), write.index)
            ty = f"<{b.width} x {write.element}>"
            vectors.append(self._put(f"items{k}", ty, write.value))
        is_set = b.origin(self.mask) == self.low.tail_mask
        loop = LaneLoop(b, bits, is_set)
        lane = loop.lane
        places = {key: _entry(b, "i32", at, lane) for key, at in known.items()}
        for write, vector in zip(writes, vectors, strict=True):
            item = _entry(b, write.element, vector, lane)
            _store(b, write.element, item, write.base, places[write.index])
        loop.close()

    def _put(self, role: str, ty: str, vector: str) -> str:
        """Put a vector into memory, from where single lanes are read fast."""
        address = self.low.on_stack(role, ty)
        self.low.b.line(f"store {ty} {vector}, ptr {address}, align 32")
        return address


def _store_lanes(b: Builder, write: Write) -> None:
    for lane in range(b.width):
        at = lane_of(b, b.type(UINT32), write.index, lane)
        item = lane_of(b, f"<{b.width} x {write.element}>", write.value, lane)
        _store(b, write.element, item, write.base, at)


def _store_run(b: Builder, write: Write) -> None:
    assert write.run is not None
    step = write.run.step
    place = run_address(b, write.element, write.base, write.index, 0, step)
    store_run(b, write.element, write.value, place, step)


def _entry(b: Builder, element: str, address: str, lane: str) -> str:
    place = b.emit(f"getelementptr {element}, ptr {address}, i64 {lane}")
    return b.emit(f"load {element}, ptr {place}")


def _store(b: Builder, element: str, item: str, base: str, at: str) -> None:
    address = entry_address(b, element, base, at)
    b.line(f"store {element} {item}, ptr {address}")
