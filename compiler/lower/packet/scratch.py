"""Lowers local memory for packets: an entry of a buffer is one vector.

An index that is the same in all lanes is one vector access; others are one per lane.
Where areas lie and what happens to whole buffers is in `common.scratch`.
"""

from __future__ import annotations

from collections.abc import Callable

from lumijit.compiler.ir.local_types import CHUNK, local_type_of
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.lower.common import scratch
from lumijit.compiler.lower.common.scratch import UNROLLED, Area
from lumijit.compiler.lower.packet.lanes import each_lane, lane_address, lane_of
from lumijit.compiler.lower.packet.masked import gather_call, scatter_call
from lumijit.compiler.lower.packet.rows import WORDS
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.compiler.lower.packet.uniform import Uniform
from lumijit.runtime.dtypes import BOOL, UINT32


class Scratch(scratch.Scratch):
    """The local buffers of one packet kernel."""

    low: PacketState

    def __init__(self, low: PacketState, uniform: Uniform) -> None:
        super().__init__(low)
        self._known = uniform

    def bind(self, node: Node) -> None:
        """Find the lanes of a buffer in memory; a uniform one is spread to an area."""
        if node.size > 1:
            super().bind(node)
            return
        low, b = self.low, self.b
        memory = low.addresses[node]
        area = self._new_area(local_type_of(node))
        element = area.element.memory_llvm

        def spread(entry: str) -> None:
            place = b.emit(f"mul i64 {entry}, {CHUNK}")
            one = b.load_at(element, memory, place)
            self._store_entry(area, entry, b.spread(element, one))

        self.for_entries(area.dtype.length, spread)
        low.values[node] = area.base

    def for_entries(self, length: int, code: Callable[[str], None]) -> None:
        """Repeat code for every entry; if in a loop, the mask goes along."""
        if length > UNROLLED:
            self.low.cross_mask()
        super().for_entries(length, code)

    def _uniform(self, index: Node, last: int) -> str | None:
        """Return the entry that all lanes access, if there is just one."""
        scalar = self._known.scalar(index)
        return None if scalar is None else self._known.within(scalar, last)

    def _places(self, area: Area, index: str, most: int) -> str:
        """Return where each lane's entry is, behind the first lane's first one.

        With the lanes' numbers in there, they share one base.
        """
        b = self.b
        entries = b.binary_intrinsic("umin", UINT32, index, most)
        first = b.mul(UINT32, entries, area.stride)
        return b.add(UINT32, first, self.low.lane_numbers())

    def _is_gathered(self, area: Area) -> bool:
        """Tell whether one instruction accesses the entries of all lanes."""
        is_word = area.element.size_bytes in WORDS
        return self.b.target.has_fast_scatters and is_word

    def read_entries(self, area: Area, index: Node) -> str:
        """Read the entry that each lane asks for; out of bounds, the last one."""
        entry = self._uniform(index, area.dtype.length - 1)
        if entry is not None:
            return self._load_entry(area, entry)
        return self._read_lanes(area, self.low.values[index])

    def _read_lanes(self, area: Area, index: str) -> str:
        """Read one entry per lane; out of bounds, whatever the last one holds."""
        b = self.b
        element = area.element.memory_llvm
        places = self._places(area, index, area.dtype.length - 1)
        if self._is_gathered(area):
            ty, every = b.memory_type(area.element), b.narrow(b.const(BOOL, True))
            return gather_call(b, element, ty, area.base, places, every)

        def read(lane: int) -> str:
            return b.load(element, lane_address(b, element, area.base, places, lane))

        return each_lane(b, element, read)

    def write_entries(self, area: Area, index: Node, value: str, mask: Node) -> None:
        """Write entries; what is idle or out of bounds goes to the one too many.

        Lanes that are no elements may write what they like.
        """
        low, b = self.low, self.b
        is_whole = low.has_all_elements()
        active = low.values[mask] if is_whole else low.under_mask(low.values[mask])
        is_all = active == b.const(BOOL, True)
        entry = self._uniform(index, area.dtype.length)
        if entry is not None:
            one = self._known.scalar(mask) if is_whole and not is_all else None
            if one is not None:
                places = f"i64 {entry}, i64 {area.dtype.length}"
                entry = b.emit(f"select i1 {one}, {places}")
            elif not is_all:
                ty = b.memory_type(area.element)
                old = self._load_entry(area, entry)
                value = b.blend(ty, active, value, old)
            self._store_entry(area, entry, value)
            return
        places, most = low.values[index], area.dtype.length
        if self._is_gathered(area):
            where = area.base, self._places(area, places, most)
            scatter_call(b, area.element.memory_llvm, value, *where, b.narrow(active))
            return
        if not is_all:
            places = b.select(UINT32, active, places, most)
        self._write_lanes(area, places, value)

    def _write_lanes(self, area: Area, index: str, value: str) -> None:
        """Write one entry per lane; idle lanes write to the entry that is too many."""
        b = self.b
        ty, element = b.memory_type(area.element), area.element.memory_llvm
        places = self._places(area, index, area.dtype.length)
        for lane in range(b.width):
            address = lane_address(b, element, area.base, places, lane)
            item = lane_of(b, ty, value, lane)
            b.line(f"store {element} {item}, ptr {address}")
