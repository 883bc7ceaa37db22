"""Lowers indirect writes for packets: scatters, reductions, atomic updates.

A reduction into an array goes to a private copy per thread where `program`
decided so (plain loads and stores, a few interleaved copies against store-to-load
stalls); the copies are merged by a kernel of their own (`reductions`). Otherwise
it combines the lanes that hit one entry and updates memory atomically. How plain
entries are stored is in `stores`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumijit.compiler.emit.combine import combine, combine_lanes
from lumijit.compiler.ir.effects import Reduction
from lumijit.compiler.ir.trace import Node
from lumijit.compiler.lower.common.atomics import add_with_error, atomic, entry_address
from lumijit.compiler.lower.packet.gathers import gather_call
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.compiler.lower.packet.stores import Stores, Write
from lumijit.compiler.lower.packet.uniform import Uniform
from lumijit.compiler.plan.program import Destination, target_root
from lumijit.runtime.dtypes import (
    BOOL,
    INT32,
    UINT32,
    DType,
)


@dataclass
class LaneLoop:
    """The labels of a loop over the set lanes of a mask, and its values."""

    before: str
    head: str
    latch: str
    done: str
    left: str
    lane: str = ""


class Access:
    """The indirect writes of one packet kernel."""

    def __init__(self, low: PacketState, stores: Stores, uniform: Uniform) -> None:
        self.low = low
        self.b = low.b
        self._stores = stores
        self._uniform = uniform
        self.private: dict[int, tuple[str, str, str]] = {}

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
        copies, ring, dummy = (
            low.splat_in_entry(UINT32, low.load_slot(slot + k, "i32"))
            for k in (2, 3, 4)
        )
        with low.writing_entry():
            lane_copy = b.binary("and", UINT32, low.lane_numbers(), ring)
        self.private[key] = (copies, lane_copy, dummy)

    def scatter(self, node: Node) -> None:
        """Write or combine entries under the mask."""
        low, b = self.low, self.b
        target, value_node, index_node, mask_node = node.deps
        reduction: Reduction = node.attr
        root = target_root(target)
        t = root.type
        value = low.values[value_node]
        index = low.values[index_node]
        base = self.low.bases[id(root)]
        element = t.memory_llvm
        ty = f"<{b.width} x {element}>"
        if t is BOOL:
            value = b.emit(f"zext {b.type(BOOL)} {b.narrow(value)} to {ty}")
        if reduction.op == "identity":
            self._stores.add(node, root, Write(element, value, base, index))
            return
        self._stores.flush()
        mask = b.narrow(low.under_mask(low.values[mask_node]))
        if id(root) in self.private:
            is_one = self._uniform.scalar(index_node) is not None
            self._private_update(reduction.op, t, id(root), value, index, mask, is_one)
        elif reduction.mode == "no_conflicts":
            old = gather_call(self.b, element, ty, base, index, mask)
            new = combine(b, reduction.op, t, ty, old, value)
            self._stores.add(node, root, Write(element, new, base, index))
            self._stores.flush()
        else:
            merge = reduction.mode not in ("direct", "apart")
            self._atomic_update(reduction.op, t, base, value, index, mask, merge)

    def _lane(self, ty: str, vector: str, lane: int | str) -> str:
        return self.b.emit(f"extractelement {ty} {vector}, i32 {lane}")

    def _private_update(
        self,
        op: str,
        t: DType,
        key: int,
        value: str,
        index: str,
        mask: str,
        is_one: bool,
    ) -> None:
        """Update this thread's copy lane by lane; idle lanes hit a dummy entry.

        Lanes that all hit one entry (`is_one`) are combined first.
        """
        b = self.b
        copies, lane_copy, dummy = self.private[key]
        element = t.memory_llvm
        ty = f"<{b.width} x {element}>"
        spread = b.add(UINT32, b.mul(UINT32, index, copies), lane_copy)
        indices = b.type(UINT32)
        if is_one:
            item = combine_lanes(b, op, t, ty, value, mask)
            first, idle = (self._lane(indices, v, 0) for v in (spread, dummy))
            at = b.emit(f"select i1 {b.any_lane(mask)}, i32 {first}, i32 {idle}")
            self._private_entry(op, t, key, at, item)
            return
        place = b.select(UINT32, mask, spread, dummy)
        for lane in range(b.width):
            at, item = self._lane(indices, place, lane), self._lane(ty, value, lane)
            self._private_entry(op, t, key, at, item)

    def _private_entry(self, op: str, t: DType, key: int, at: str, item: str) -> None:
        """Update one entry of this thread's copy."""
        b = self.b
        element = t.memory_llvm
        address = entry_address(b, t, self.low.bases[key], at)
        old = b.emit(f"load {element}, ptr {address}")
        new = combine(b, op, t, element, old, item)
        b.line(f"store {element} {new}, ptr {address}")

    def _mask_bits(self, mask: str) -> str:
        b = self.b
        return b.emit(f"bitcast {b.type(BOOL)} {mask} to i{b.width}")

    def _open_lanes(self, bits: str, carried: str | None = None) -> LaneLoop:
        """Open a loop over the set lanes (an integer of bits).

        `carried` names a vector that it updates.
        """
        b = self.b
        w = b.width
        names = [b.label(s) for s in ("lanes", "lane", "latch", "idle", "left")]
        loop = LaneLoop(*names)
        start = b.emit(f"icmp ne i{w} {bits}, 0")
        b.branch(loop.before)
        b.block(loop.before)
        b.branch_if(start, loop.head, loop.done)
        b.block(loop.head)
        b.line(
            f"%{loop.left} = phi i{w} [ {bits}, %{loop.before} ], "
            f"[ %{loop.left}.n, %{loop.latch} ]"
        )
        if carried is not None:
            b.line(
                f"{carried} = phi {b.type(UINT32)} "
                f"[ zeroinitializer, %{loop.before} ], [ {carried}.n, %{loop.latch} ]"
            )
        name = f"llvm.cttz.i{w}"
        b.declarations[name] = f"declare i{w} @{name}(i{w}, i1)"
        first = b.emit(f"call i{w} @{name}(i{w} %{loop.left}, i1 true)")
        loop.lane = self._as_i32(first)
        return loop

    def _as_i32(self, bits: str) -> str:
        w = self.b.width
        if w == 32:
            return bits
        return self.b.emit(f"{'zext' if w < 32 else 'trunc'} i{w} {bits} to i32")

    def _close_lanes(self, loop: LaneLoop, served: str) -> None:
        """Continue with the lanes that `served` (an integer of bits) leaves."""
        b = self.b
        w = b.width
        b.branch(loop.latch)
        b.block(loop.latch)
        others = b.emit(f"xor i{w} {served}, -1")
        b.line(f"%{loop.left}.n = and i{w} %{loop.left}, {others}")
        more = b.emit(f"icmp ne i{w} %{loop.left}.n, 0")
        b.branch_if(more, loop.head, loop.done)
        b.block(loop.done)

    def _same_index(self, index: str, at: str, left: str) -> tuple[str, str]:
        """Return the remaining lanes that share an index, as bits and as mask."""
        b = self.b
        w = b.width
        equal = b.compare("eq", UINT32, index, b.splat(UINT32, at))
        bits = b.emit(f"and i{w} {self._mask_bits(equal)}, {left}")
        return bits, b.emit(f"bitcast i{w} {bits} to {b.type(BOOL)}")

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
        low, b = self.low, self.b
        w = b.width
        low.cross_mask()
        ty = b.memory_type(t)
        loop = self._open_lanes(self._mask_bits(mask))
        left = f"%{loop.left}"
        at = self._lane(b.type(UINT32), index, loop.lane)
        if merge:
            served, mine = self._same_index(index, at, left)
            item = combine_lanes(b, op, t, ty, value, mine)
        else:
            negative = b.emit(f"sub i{w} 0, {left}")
            served = b.emit(f"and i{w} {negative}, {left}")
            item = self._lane(ty, value, loop.lane)
        atomic(b, op, t, entry_address(b, t, base, at), item)
        self._close_lanes(loop, served)

    def scatter_inc(self, node: Node) -> str:
        """Count up entries atomically, once per distinct index in the packet."""
        low, b = self.low, self.b
        target, index_node, mask_node = node.deps
        base = self.low.bases[id(target_root(target))]
        index = low.values[index_node]
        mask = b.narrow(low.under_mask(low.values[mask_node]))
        low.cross_mask()
        w = b.width
        vector = b.type(UINT32)
        numbers = f"%{b.label('old')}"
        loop = self._open_lanes(self._mask_bits(mask), carried=numbers)
        at = self._lane(vector, index, loop.lane)
        served, mine = self._same_index(index, at, f"%{loop.left}")
        b.declarations[f"llvm.ctpop.i{w}"] = f"declare i{w} @llvm.ctpop.i{w}(i{w})"
        count = self._as_i32(b.emit(f"call i{w} @llvm.ctpop.i{w}(i{w} {served})"))
        address = entry_address(b, UINT32, base, at)
        old = b.emit(f"atomicrmw add ptr {address}, i32 {count} monotonic, align 4")
        mine_numbers = b.add(UINT32, b.splat(UINT32, old), self._ranks(mine))
        b.line(
            f"{numbers}.n = select {b.type(BOOL)} {mine}, {vector} {mine_numbers}, "
            f"{vector} {numbers}"
        )
        self._close_lanes(loop, served)
        result = b.emit(
            f"phi {vector} [ zeroinitializer, %{loop.before} ], "
            f"[ {numbers}.n, %{loop.latch} ]"
        )
        return result

    def scatter_error(self, node: Node) -> str:
        """Add atomically, lane by lane; return what rounding took from each sum."""
        low, b = self.low, self.b
        target, value_node, index_node, mask_node = node.deps
        root = target_root(target)
        t = root.type
        low.cross_mask()
        mask = b.narrow(low.under_mask(low.values[mask_node]))
        element, ty = t.memory_llvm, b.type(t)
        errors = low.in_entry(f"alloca {ty}, align 32")
        b.line(f"store {ty} zeroinitializer, ptr {errors}, align 32")
        loop = self._open_lanes(self._mask_bits(mask))
        at = self._lane(b.type(UINT32), low.values[index_node], loop.lane)
        new = self._lane(ty, low.values[value_node], loop.lane)
        place = entry_address(b, t, low.bases[id(root)], at)
        error = add_with_error(b, t, place, new)
        slot = b.emit(f"getelementptr {element}, ptr {errors}, i32 {loop.lane}")
        b.line(f"store {element} {error}, ptr {slot}")
        left = f"%{loop.left}"
        negative = b.emit(f"sub i{b.width} 0, {left}")
        self._close_lanes(loop, b.emit(f"and i{b.width} {negative}, {left}"))
        return b.emit(f"load {ty}, ptr {errors}, align 32")

    def _ranks(self, mask: str) -> str:
        """Return for each lane how many set lanes lie below it."""
        b = self.b
        ones = b.select(INT32, mask, 1, 0)
        total = ones
        shift = 1
        ty = b.type(INT32)
        while shift < b.width:
            lanes = ", ".join(
                f"i32 {b.width + k - shift if k >= shift else 0}"
                for k in range(b.width)
            )
            moved = b.emit(
                f"shufflevector {ty} zeroinitializer, {ty} {total}, "
                f"<{b.width} x i32> <{lanes}>"
            )
            total = b.add(INT32, total, moved)
            shift *= 2
        return b.sub(INT32, total, ones)
