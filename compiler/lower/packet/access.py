"""Lowers indirect writes for packets: scatters, reductions, atomic updates.

A reduction into an array goes to copies that each thread has where `program` decided
so (`copies`); these are merged by a kernel of their own (`reductions`). Otherwise
it combines the lanes that hit one entry and updates memory atomically. How plain
entries are stored is in `stores`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import reduce
from typing import Any

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.combine import combine, combine_lanes
from lumijit.compiler.ir.effects import Reduction
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import REGIONS, SCATTER
from lumijit.compiler.ir.roles import is_effect
from lumijit.compiler.lower.common.atomics import (
    add_with_error,
    atomic,
    entry_address,
    exchange_if,
)
from lumijit.compiler.lower.packet.columns import MOST_IN_ROW
from lumijit.compiler.lower.packet.copies import (
    WRITTEN_OUT,
    Copies,
    call_update,
    idle_entry,
    update,
    update_entry,
)
from lumijit.compiler.lower.packet.gathers import Gathers
from lumijit.compiler.lower.packet.lanes import LaneLoop, constants, lane_of, mask_bits
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.compiler.lower.packet.stores import Stores, Write, base_of
from lumijit.compiler.lower.packet.uniform import IDEMPOTENT, Uniform
from lumijit.compiler.plan.program import (
    COPIES,
    Destination,
    has_loops,
    is_lone,
    target_root,
    writes_by_target,
)
from lumijit.runtime.cached_properties import cached_property
from lumijit.runtime.dtypes import (
    BOOL,
    INT32,
    UINT32,
    DType,
)


class Access:
    """The indirect writes of one packet kernel."""

    def __init__(
        self, low: PacketState, gathers: Gathers, stores: Stores, uniform: Uniform
    ) -> None:
        self.low = low
        self.b = low.b
        self._gathers = gathers
        self._stores = stores
        self._uniform = uniform
        # Of targets that have private copies; and the values of updates of these.
        self.private: dict[int, Copies] = {}
        self._held: dict[Node, str] = {}

    def bind_target(self, target: Destination, slot: int) -> None:
        """Load a target's arguments from `slot` on."""
        low, b = self.low, self.b
        t = target.root.type
        base = low.load_slot(slot, "ptr")
        key = id(target.root)
        if target.private_op is None:
            low.bases[key] = base
            return
        stride = low.load_slot(slot + 1, "i64")
        thread = low.in_entry("zext i32 %thread to i64")
        offset = low.in_entry(f"mul i64 {thread}, {stride}")
        mine = low.in_entry(f"getelementptr {t.memory_llvm}, ptr {base}, i64 {offset}")
        low.bases[key] = mine
        between, idle = (
            low.splat_in_entry(UINT32, low.load_slot(slot + k, "i32")) for k in (2, 3)
        )
        with low.writing_entry():
            copy = b.binary("and", UINT32, low.lane_numbers(), COPIES - 1)
            offset = b.mul(UINT32, copy, between)
            idle = b.add(UINT32, idle, constants(map(idle_entry, range(b.width))))
        self.private[key] = Copies(t, mine, offset, idle)

    def scatter(self, node: Node) -> None:
        """Write or combine entries under the mask."""
        low, b = self.low, self.b
        target, value_node, index_node, _ = node.deps
        reduction: Reduction = node.attr
        root = target_root(target)
        t = root.type
        value = low.values[value_node]
        base = self.low.bases[id(root)]
        element = t.memory_llvm
        ty = b.memory_type(t)
        value = b.to_memory(t, value)
        if reduction.op == "identity":
            self._stores.add(node, root, Write(element, value, base, index_node))
            return
        self._stores.flush()
        if id(root) in self.private:
            self._private_updates(node, value)
        elif reduction.mode == "no_conflicts" or self._is_lone(root):
            old = self._gathers.read_target(node, base)
            new = combine(b, reduction.op, t, ty, old, value)
            self._stores.add(node, root, Write(element, new, base, index_node))
            self._stores.flush()
        elif not self._updates_once(node, base):
            merge = reduction.mode not in ("direct", "apart", "permute")
            index, mask = (self._stores.runs.vector(n) for n in node.deps[2:])
            active = b.narrow(low.under_mask(mask))
            self._atomic_update(reduction.op, t, base, value, index, active, merge)

    def _updates_once(self, node: Node, base: str) -> bool:
        """Update an entry by what all lanes give, which may be taken once."""
        low, b, op = self.low, self.b, node.attr.op
        value, index, mask = (self._uniform.scalar(n) for n in node.deps[1:])
        t = node.deps[1].type
        if value is None or index is None or mask is None or t is BOOL:
            return False
        if op not in IDEMPOTENT or not low.has_all_elements():
            return False
        low.cross_mask()
        update, done = b.label("once"), b.label("updated")
        b.branch_if(mask, update, done)
        b.block(update)
        atomic(b, op, t, entry_address(b, t.memory_llvm, base, index), value)
        b.branch(done)
        b.block(done)
        return True

    @cached_property
    def _writes(self) -> dict[int, list[Any]]:
        return writes_by_target(self.low.program.all_nodes())

    def _is_lone(self, root: Node) -> bool:
        """Tell whether elements that write to an array surely don't meet there."""
        return is_lone(self._writes[id(root)], self._is_repeated)

    @cached_property
    def _is_repeated(self) -> bool:
        return has_loops(self.low.program.effects)

    def _private_updates(self, node: Node, value: str) -> None:
        """Update this thread's copies, with the last of a row all of them."""
        row = self._rows.get(node, [node])
        self._held[node] = value
        if not all(other in self._held for other in row):
            return
        values = [self._held.pop(other) for other in row]
        uniform, place = self._uniform, row[0].deps[2]
        is_apart = self._stores.runs.line(place) or uniform.scalar(place) is not None
        if len(row) > 1 and not is_apart:
            self._update_row(row, values)
        else:
            for other, value in zip(row, values, strict=True):
                self._private_update(other, value)

    def _update_row(self, row: list[Node], values: list[str]) -> None:
        """Update neighbouring entries at once if they lie side by side."""
        b, op, root = self.b, row[0].attr.op, target_root(row[0].deps[0])
        copies, runs = self.private[id(root)], self._stores.runs
        first, *others = (runs.vector(node.deps[2]) for node in row)
        differs = [
            b.compare("ne", UINT32, at, b.add(UINT32, first, k))
            for k, at in enumerate(others, 1)
        ]
        is_apart = reduce(lambda x, y: b.binary("or", BOOL, x, y), differs)
        mask = b.wide(self.low.under_mask(runs.vector(row[0].deps[3])))
        self.low.cross_mask()
        beside, apart, done = (b.label(s) for s in ("beside", "apart", "updated"))
        b.branch_if(b.any_lane(is_apart), apart, beside)
        b.block(beside)
        is_called = len({id(found) for found in self._rows.values()}) > WRITTEN_OUT
        (call_update if is_called else update)(b, op, copies, first, mask, values)
        b.branch(done)
        b.block(apart)
        for index, value in zip((first, *others), values, strict=True):
            call_update(b, op, copies, index, mask, [value])
        b.branch(done)
        b.block(done)

    @cached_property
    def _rows(self) -> dict[Node, list[Node]]:
        """Find updates that follow each other, of entries that may be neighbours."""
        program = self.low.program
        regions = [node for node in program.all_nodes() if node.op in REGIONS]
        blocks = [block.nodes for node in regions for block in node.attr.blocks]
        found: dict[Node, list[Node]] = {}
        for nodes in (program.nodes, *blocks):
            runs: list[list[Node]] = [[]]
            for node in nodes:
                if node.op in REGIONS or is_effect(node):
                    if not self._goes_on(runs[-1], node):
                        runs.append([])
                    runs[-1].append(node)
            for run in runs:
                # (Derivatives write in reverse order.)
                ordered = run[::-1] if len(run) > 1 and _is_first(run[-1]) else run
                if len(run) > 1 and _is_first(ordered[0]):
                    for k in range(0, len(run), MOST_IN_ROW):
                        row = ordered[k : k + MOST_IN_ROW]
                        found.update(dict.fromkeys(row, row))
        return found

    def _goes_on(self, row: list[Node], node: Node) -> bool:
        """Tell whether a write goes on with a row: its index adds another number."""
        if not row or node.op is not SCATTER:
            return False
        last = row[-1]
        key = id(target_root(node.deps[0]))
        return (
            last.op is SCATTER
            and key in self.private
            and target_root(last.deps[0]) is target_root(node.deps[0])
            and last.attr.op == node.attr.op
            and last.deps[3] is node.deps[3]
            and base_of(last.deps[2]) is base_of(node.deps[2])
            and all(other.deps[2] is not node.deps[2] for other in row)
        )

    def _private_update(self, node: Node, value: str) -> None:
        """Update this thread's copies; a run of entries is updated at once."""
        b, op, root = self.b, node.attr.op, target_root(node.deps[0])
        key, t = id(root), root.type
        copies = self.private[key]
        ty = b.memory_type(t)
        indices = b.type(UINT32)
        _, _, index_node, mask_node = node.deps
        runs = self._stores.runs
        done = b.label("updated")
        line = runs.line(index_node)
        if line is not None:
            held = runs.hold([index_node], [mask_node])
            self.low.cross_mask()
            packed, apart = b.label("packed"), b.label("apart")
            b.branch_if(held, packed, apart)
            b.block(packed)
            old = runs.load(t, copies.base, index_node)
            new = combine(b, op, t, ty, old, value)
            runs.store(t.memory_llvm, new, copies.base, index_node)
            b.branch(done)
            b.block(apart)
        with runs.aside():
            index = runs.vector(index_node)
            mask = b.narrow(self.low.under_mask(runs.vector(mask_node)))
            if self._uniform.scalar(index_node) is not None:
                item = combine_lanes(b, op, t, ty, value, mask)
                first, idle = (lane_of(b, indices, v, 0) for v in (index, copies.idle))
                is_some = b.any_lane(mask)
                at = b.emit(f"select i1 {is_some}, i32 {first}, i32 {idle}")
                update_entry(b, op, copies, at, item)
                return
            self.low.cross_mask()
            is_called = self._updates[op, t] > WRITTEN_OUT
            (call_update if is_called else update)(b, op, copies, index, mask, [value])
            b.branch(done)
        b.block(done)

    @cached_property
    def _updates(self) -> Counter[tuple[str, DType]]:
        """Count the updates of private copies, by operation and type."""
        count: Counter[tuple[str, DType]] = Counter()
        for key, copies in self.private.items():
            # All are one operation.
            writes = self._writes[key]
            count[writes[0].op, copies.type] += len(writes)
        return count

    def _atomic_update(
        self,
        op: str,
        t: DType,
        base: str,
        value: str,
        index: str,
        mask: str,
        merge: bool,
    ) -> None:
        """Update memory atomically, once per entry (`merge`) or per lane."""
        b = self.b
        self.low.cross_mask()
        ty = b.memory_type(t)
        loop = LaneLoop(b, mask_bits(b, mask))
        at = lane_of(b, b.type(UINT32), index, loop.lane)
        served = ""
        if merge:
            served, mine = loop.same(index, at)
            item = combine_lanes(b, op, t, ty, value, mine)
        else:
            item = lane_of(b, ty, value, loop.lane)
        atomic(b, op, t, entry_address(b, t.memory_llvm, base, at), item)
        loop.close(served)

    def scatter_inc(self, node: Node) -> str:
        """Count up entries atomically, once per distinct index in the packet."""
        low, b = self.low, self.b
        target, index_node, mask_node = node.deps
        base = self.low.bases[id(target_root(target))]
        index = low.values[index_node]
        mask = b.narrow(low.under_mask(low.values[mask_node]))
        low.cross_mask()
        vector = b.type(UINT32)
        numbers = f"%{b.label('old')}"
        loop = LaneLoop(b, mask_bits(b, mask), carried=numbers)
        at = lane_of(b, vector, index, loop.lane)
        served, mine = loop.same(index, at)
        count = b.emit(f"trunc i64 {loop.count(served)} to i32")
        address = entry_address(b, "i32", base, at)
        old = b.emit(f"atomicrmw add ptr {address}, i32 {count} monotonic, align 4")
        mine_numbers = b.add(UINT32, b.splat(UINT32, old), self._ranks(mine))
        b.line(
            f"{numbers}.n = select {b.type(BOOL)} {mine}, {vector} {mine_numbers}, "
            f"{vector} {numbers}"
        )
        loop.close(served)
        sides = ("zeroinitializer", loop.before), (f"{numbers}.n", loop.latch)
        return b.phi(vector, *sides)

    def scatter_error(self, node: Node) -> str:
        """Add atomically, lane by lane; return what rounding took from each sum."""
        return self._lane_by_lane(node, add_with_error)

    def scatter_fetch(self, node: Node) -> str:
        """Update entries, lane by lane; return what they were."""
        self._stores.flush()

        def update(b: Builder, t: DType, address: str, item: str) -> str:
            return atomic(b, node.attr.op, t, address, item)

        return self._lane_by_lane(node, update)

    def scatter_cas(self, node: Node) -> str:
        """Exchange entries that are what is expected; return what they were."""
        self._stores.flush()
        return self._lane_by_lane(node, exchange_if)

    def _lane_by_lane(self, node: Node, update: Callable[..., str]) -> str:
        """Update entries in turn, each given its address; return what that returns."""
        low, b = self.low, self.b
        target, *value_nodes, index_node, mask_node = node.deps
        root = target_root(target)
        t = root.type
        low.cross_mask()
        mask = b.narrow(low.under_mask(low.values[mask_node]))
        values = [b.to_memory(t, low.values[dep]) for dep in value_nodes]
        element, ty = t.memory_llvm, b.memory_type(t)
        results = low.in_entry(f"alloca {ty}, align 32")
        b.line(f"store {ty} zeroinitializer, ptr {results}, align 32")
        loop = LaneLoop(b, mask_bits(b, mask))
        at = lane_of(b, b.type(UINT32), low.values[index_node], loop.lane)
        items = [lane_of(b, ty, value, loop.lane) for value in values]
        place = entry_address(b, element, low.bases[id(root)], at)
        result = update(b, t, place, *items)
        slot = b.at(element, results, loop.lane)
        b.line(f"store {element} {result}, ptr {slot}")
        loop.close()
        return b.from_memory(t, b.load(ty, results, 32))

    def _ranks(self, mask: str) -> str:
        """Return for each lane how many set lanes lie below it."""
        b = self.b
        ones = b.select(INT32, mask, 1, 0)
        total = ones
        shift = 1
        ty = b.type(INT32)
        while shift < b.width:
            picks = [b.width + k - shift if k >= shift else 0 for k in range(b.width)]
            moved = b.shuffle(ty, "zeroinitializer", total, picks)
            total = b.add(INT32, total, moved)
            shift *= 2
        return b.sub(INT32, total, ones)


def _is_first(write: Node) -> bool:
    """Tell whether nothing is added to the index of a write."""
    return write.deps[2] is base_of(write.deps[2])
