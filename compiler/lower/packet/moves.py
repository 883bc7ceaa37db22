"""Entries that a kernel only moves: read anywhere, and written one after the other.

General registers do that, which takes two thirds of the time where all is in the cache:
processors gather, or put vectors together, more slowly than they load and store.
"""

from __future__ import annotations

from collections.abc import Callable

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import EVALUATED, GATHER, REGIONS
from lumijit.compiler.lower.common.atomics import entry_address
from lumijit.compiler.lower.packet.gathers import Gathers
from lumijit.compiler.lower.packet.lanes import mask_bits
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.runtime.dtypes import BOOL, UINT32

# So many entries are loaded before they are stored: with more, registers don't suffice.
AT_ONCE = 4


class Moves:
    """The moves of one kernel, which are written once all addresses are known."""

    def __init__(
        self, low: PacketState, gathers: Gathers, store: Callable[[Node, str], None]
    ) -> None:
        self.low = low
        self.gathers = gathers
        self._store = store
        self.nodes: set[Node] = set()
        self._waiting: dict[tuple[Node, Node], list[tuple[Node, str]]] = {}
        self._left = 0

    def find(self) -> None:
        """Find what is read where an array tells, and nothing is computed of."""
        program = self.low.program
        if program.is_streaming:
            return
        found = {
            node
            for node in program.outputs
            if node.op is GATHER
            and node.deps[1].op is EVALUATED
            and node.deps[1].type is UINT32
            and node.deps[1].size > 1
            and self.gathers.is_alone(node)
        }
        for node in program.all_nodes() if found else ():
            found.difference_update(node.deps)
            if node.op in REGIONS:
                for block in node.attr.blocks:
                    found.difference_update(block.outputs)
        self.nodes, self._left = found, len(found)

    def add(self, node: Node, address: str) -> None:
        """Have entries moved to an output."""
        _, index, mask = node.deps
        self._waiting.setdefault((index, mask), []).append((node, address))
        self._left -= 1
        if not self._left:
            for (index, mask), group in self._waiting.items():
                self._write(index, mask, group)

    def _write(self, index: Node, mask: Node, group: list[tuple[Node, str]]) -> None:
        """Move what has the same indices: by lanes, if all of a packet are active."""
        low, b = self.low, self.low.b
        active = self.gathers.active(group[0][0])
        if active == b.const(BOOL, True):
            self._by_lanes(index, group)
            return
        low.cross_mask()
        bits = mask_bits(b, b.narrow(active))
        held = b.emit(f"icmp eq i{b.width} {bits}, -1")
        every, some, done = b.label("every"), b.label("some"), b.label("moved")
        b.branch_if(held, every, some)
        b.block(every)
        self._by_lanes(index, group)
        b.branch(done)
        b.block(some)
        with self.gathers.runs.aside():
            for node, address in group:
                self.gathers.lower(node)
                self._store(node, address)
        b.branch(done)
        b.block(done)

    def _by_lanes(self, index: Node, group: list[tuple[Node, str]]) -> None:
        low, b = self.low, self.low.b
        source = b.at("i32", low.address(index), low.index_name)
        arrays = []
        for node, address in group:
            element = f"i{8 * node.type.size_bytes}"
            to = b.at(element, address, low.index_name)
            arrays.append((element, low.addresses[node.deps[0]], to))
        for first in range(0, b.width, AT_ONCE):
            lanes = range(first, first + AT_ONCE)
            places = [b.load_at("i32", source, lane) for lane in lanes]
            for element, base, to in arrays:
                entries = [
                    b.load(element, entry_address(b, element, base, place))
                    for place in places
                ]
                for lane, entry in zip(lanes, entries, strict=True):
                    b.line(f"store {element} {entry}, ptr {b.at(element, to, lane)}")
