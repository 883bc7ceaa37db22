"""Lowers local memory: where buffers lie, reads, writes and copies.

A buffer takes an area of its own, entry after entry, each as wide as what the target
computes at once (a packet of lanes, or one). Small areas are on the
stack, larger ones in memory that each thread gets for the launch. One more entry than
the buffer has takes the writes of idle lanes and those out of bounds, so that no lane
needs a test, and no index reaches other memory. Buffers that an earlier kernel left
are read where they are.

Which writes happen in place is decided in `lifetimes`. In `values` of the lowering,
a version of a buffer stands as the name of its area.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lumijit.compiler.emit.repetition import repeat
from lumijit.compiler.ir.local_types import (
    CHUNK,
    LocalType,
    is_local,
    is_undefined,
    local_deps,
    local_type_of,
)
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.region_types import Block, Region
from lumijit.compiler.ir.roles import is_true
from lumijit.compiler.lower.common.lifetimes import Lifetimes
from lumijit.compiler.lower.common.state import State
from lumijit.runtime.dtypes import UINT32, DType

UNROLLED = 8


@dataclass
class Area:
    """Where a buffer lies: entry `k` of all lanes begins at `k * stride`."""

    base: str
    dtype: LocalType
    stride: int

    @property
    def element(self) -> DType:
        """The type of the entries."""
        return self.dtype.element


class Scratch:
    """The local buffers of one kernel."""

    # What may be on a thread's stack.
    stack_bytes = 1 << 16

    def __init__(self, low: State) -> None:
        self.low = low
        self.b = low.b
        self.thread_bytes = 0
        self.areas: dict[str, Area] = {}
        self._reserved: list[Area] = []
        self._lifetimes: Lifetimes | None = None

    @property
    def lifetimes(self) -> Lifetimes:
        """The analysis of this kernel; made when first needed."""
        if self._lifetimes is None:
            self._lifetimes = Lifetimes(self.low.program, self.low.demand)
        return self._lifetimes

    # Areas

    def _new_area(self, dtype: LocalType) -> Area:
        base = f"%{self.b.label('local')}"
        area = self.areas[base] = Area(base, dtype, self.b.lanes)
        self._reserved.append(area)
        return area

    def reserve(self) -> None:
        """Write to the kernel's entry where the areas are."""
        low = self.low
        large: list[tuple[Area, int]] = []
        left = self.stack_bytes
        for area in self._reserved:
            count = (area.dtype.length + 1) * area.stride
            size_bytes = -(-count * area.element.size_bytes // 64) * 64
            if size_bytes <= left:
                left -= size_bytes
                low.entry.append(
                    f"  {area.base} = alloca [{count} x {area.element.memory_llvm}], "
                    "align 64"
                )
            else:
                large.append((area, self.thread_bytes))
                self.thread_bytes += size_bytes
        if not large:
            return
        memory = low.load_slot(low.signature.scratch, "ptr")
        thread = low.in_entry("zext i32 %thread to i64")
        start = low.in_entry(f"mul i64 {thread}, {self.thread_bytes}")
        mine = low.in_entry(f"getelementptr i8, ptr {memory}, i64 {start}")
        for area, offset in large:
            low.entry.append(
                f"  {area.base} = getelementptr i8, ptr {mine}, i64 {offset}"
            )

    def bind(self, node: Node) -> None:
        """Find the lanes of a buffer in memory."""
        memory = self.low.addresses[node]
        dtype = local_type_of(node)
        base = self._chunk(dtype, memory) if node.size > 1 else memory
        self.areas[base] = Area(base, dtype, CHUNK)
        self.low.values[node] = base

    def store(self, node: Node, memory: str) -> None:
        """Store a buffer that later kernels need."""
        dtype = local_type_of(node)
        source = self.areas[self.low.values[node]]
        target = Area(self._chunk(dtype, memory), dtype, CHUNK)
        self._copy_entries(source, target)

    def _chunk(self, dtype: LocalType, memory: str) -> str:
        """Return where the packet's lanes of a buffer in memory begin."""
        b = self.b
        within = b.emit(f"and i64 {self.low.index_name}, {CHUNK - 1}")
        first = b.emit(f"sub i64 {self.low.index_name}, {within}")
        start = b.emit(f"mul i64 {first}, {dtype.length}")
        place = b.emit(f"add i64 {start}, {within}")
        return b.at(dtype.element.memory_llvm, memory, place)

    # Whole buffers

    def for_entries(self, length: int, code: Callable[[str], None]) -> None:
        """Repeat code for every entry: written out if they are few, else a loop."""
        if length <= UNROLLED:
            for k in range(length):
                code(str(k))
            return
        repeat(self.b, length, code)

    def _address(self, area: Area, entry: str) -> str:
        b = self.b
        if entry.isdigit():
            place = str(int(entry) * area.stride)
        else:
            place = b.emit(f"mul i64 {entry}, {area.stride}")
        return b.at(area.element.memory_llvm, area.base, place)

    def _align(self, area: Area) -> int:
        return min(64, self.b.lanes * area.element.size_bytes)

    def _load_entry(self, area: Area, entry: str) -> str:
        address = self._address(area, entry)
        return self.b.load(self.b.memory_type(area.element), address, self._align(area))

    def _store_entry(self, area: Area, entry: str, value: str) -> None:
        address = self._address(area, entry)
        ty, align = self.b.memory_type(area.element), self._align(area)
        self.b.line(f"store {ty} {value}, ptr {address}, align {align}")

    def _copy_entries(
        self, source: Area, target: Area, mask: str | None = None
    ) -> None:
        """Copy all entries, of the lanes of a mask only if there is one."""
        b = self.b
        ty = b.memory_type(source.element)

        def copy(entry: str) -> None:
            value = self._load_entry(source, entry)
            if mask is not None:
                old = self._load_entry(target, entry)
                value = b.blend(ty, mask, value, old)
            self._store_entry(target, entry, value)

        self.for_entries(source.dtype.length, copy)

    def _duplicate(self, version: Node) -> str:
        """Return an area with the same entries; nobody needs undefined ones."""
        source = self.areas[self.low.values[version]]
        target = self._new_area(source.dtype)
        if not is_undefined(version):
            self._copy_entries(source, target)
        return target.base

    # Single entries

    def allocate(self, node: Node) -> None:
        """Lower a new buffer."""
        area = self._new_area(local_type_of(node))
        self.low.values[node] = area.base
        if node.deps:
            value = self.b.to_memory(area.element, self.low.values[node.deps[0]])
            self.for_entries(
                area.dtype.length, lambda entry: self._store_entry(area, entry, value)
            )

    def read(self, node: Node) -> None:
        """Lower a read of an entry."""
        low, b = self.low, self.b
        buffer, index, mask = node.deps
        area = self.areas[low.values[buffer]]
        value = self.read_entries(area, index)
        value = low.cleared(b.memory_type(area.element), value, mask)
        low.values[node] = b.from_memory(area.element, value)

    def write(self, node: Node) -> None:
        """Lower a write of an entry."""
        low = self.low
        buffer, index, value_node, mask = node.deps
        name = low.values[buffer]
        if not self.lifetimes.may_overwrite(node, buffer):
            name = self._duplicate(buffer)
        low.values[node] = name
        area = self.areas[name]
        value = self.b.to_memory(area.element, low.operand(value_node))
        self.write_entries(area, index, value, mask)

    def read_entries(self, area: Area, index: Node) -> str:
        """Read the entry that each lane asks for; out of bounds, the last one."""
        last = area.dtype.length - 1
        return self._load_entry(area, self._entry(self.low.operand(index), last))

    def write_entries(self, area: Area, index: Node, value: str, mask: Node) -> None:
        """Write entries; what is idle or out of bounds goes to the one too many."""
        place = self.low.operand(index)
        if not is_true(mask):
            chosen = self.low.operand(mask)
            place = self.b.select(UINT32, chosen, place, area.dtype.length)
        self._store_entry(area, self._entry(place, area.dtype.length), value)

    def _entry(self, index: str, last: int) -> str:
        """Return an index within bounds, as 64 bits."""
        b = self.b
        within = b.binary_intrinsic("umin", UINT32, index, last)
        return b.emit(f"zext i32 {within} to i64")

    # Regions

    def enter_loop(self, node: Node, buffers: list[int]) -> None:
        """Give the buffers in a loop's state their areas."""
        values = self.low.values
        loop: Region = node.attr
        for k in buffers:
            init = node.deps[k]
            name = values[init]
            if not self.lifetimes.may_overwrite(node, init):
                name = self._duplicate(init)
            values[loop.args[k]] = name

    def leave_body(self, node: Node, buffers: list[int], mask: str | None) -> None:
        """Copy what an iteration has not left in the area of its argument."""
        loop: Region = node.attr
        outputs = {k: loop.body.outputs[k] for k in buffers}
        homes = {k: self.low.values[loop.args[k]] for k in buffers}
        self.leave_block(outputs, homes, mask)

    def leave_block(
        self, outputs: dict[int, Node], homes: dict[int, str], mask: str | None
    ) -> None:
        """Copy the buffers that a block has not left in the areas meant for them."""
        moved = {k: self.low.values[out] for k, out in outputs.items()}
        moved = {k: name for k, name in moved.items() if name != homes[k]}
        if not moved:
            return
        for k, name in moved.items():
            if name in homes.values():
                moved[k] = self._duplicate(outputs[k])
        for k, name in moved.items():
            self._copy_entries(self.areas[name], self.areas[homes[k]], mask)

    def enter_call(self, node: Node) -> tuple[dict[int, str], dict[Node, str]]:
        """Give buffers among a call's results their areas, with what was in them.

        Bodies find the buffers there, too; of results that were one buffer, the first.

        Returns:
            The areas by position, and what the buffers' values were.
        """
        last, values = node.attr.bodies[-1].outputs, self.low.values
        used = self.low.demand.results(node)
        before = {k: last[k] for k in used if is_local(last[k])}
        homes = self._homes(node, before)
        outside = {version: values[version] for version in before.values()}
        values.update((before[k], homes[k]) for k in reversed(before))
        return homes, outside

    def leave_call(
        self, node: Node, body: Block, homes: dict[int, str], mask: str | None
    ) -> None:
        """Leave the buffers that a body changes in their areas."""
        moved = moved_by(node, body, homes)
        self.leave_block({k: body.outputs[k] for k in moved}, moved, mask)

    def _homes(self, node: Node, before: dict[int, Node]) -> dict[int, str]:
        """Return the areas for the results of a call, with their contents `before`.

        That is the area where a buffer was, if only one result may overwrite it.
        """
        free = self.free_areas(node)
        found = {}
        for k, version in before.items():
            name = self.low.values[version]
            is_free = name in free
            free.discard(name)
            found[k] = name if is_free else self._duplicate(version)
        return found

    def free_areas(self, node: Node) -> set[str]:
        """Return the areas that the sides of a branch may leave changed."""
        values = self.low.values
        return {
            values[dep]
            for dep in local_deps(node)
            if self.lifetimes.may_overwrite(node, dep)
        }

    def merge(self, condition: str, yes: str, no: str, free: set[str]) -> str:
        """Return the area of a branch's result: the common one, or a blend.

        Lanes of either side may have written to one area in place, if it is among
        the free ones; then it has its one result and is taken.
        """
        if yes == no and yes in free:
            free.discard(yes)
            return yes
        source = self.areas[no]
        target = self._new_area(source.dtype)
        self._copy_entries(source, target)
        self._copy_entries(self.areas[yes], target, condition)
        return target.base


def moved_by(node: Node, body: Block, homes: dict[int, str]) -> dict[int, str]:
    """Return the areas of the buffers that a call's body changes."""
    before = node.attr.bodies[-1].outputs
    return {k: h for k, h in homes.items() if body.outputs[k] is not before[k]}
