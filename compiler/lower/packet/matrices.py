"""Lowers updates of matrices in arrays for packets of lanes.

What the lanes of a packet add to one entry is summed first. Several entries of a row
are at once: their products are vectors, which a tree of shuffles and sums makes one.
"""

from __future__ import annotations

from lumijit.compiler.emit.combine import combine_lanes
from lumijit.compiler.emit.repetition import repeat
from lumijit.compiler.ir.matrices import Matrix
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.lower.common import matrices
from lumijit.compiler.lower.common.matrices import for_tiles, wide_type
from lumijit.compiler.lower.packet.access import Access
from lumijit.compiler.lower.packet.lanes import lane_of
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.compiler.lower.packet.stores import Stores
from lumijit.compiler.plan.program import target_root
from lumijit.runtime.dtypes import BOOL, DType


class Matrices(matrices.Matrices):
    """The products of one packet kernel."""

    low: PacketState

    def __init__(self, low: PacketState, stores: Stores, access: Access) -> None:
        super().__init__(low)
        self._stores = stores
        self._access = access

    def enter(self) -> None:
        """Bring the mask into the form that other blocks take."""
        self.low.cross_mask()

    def total(self, t: DType, value: str) -> str:
        """Return the sum of all lanes of a value."""
        b = self.b
        return combine_lanes(b, "add", t, b.type(t), value, b.const(BOOL, True))

    def outer(self, node: Node) -> None:
        """Lower the update of a matrix: in rows, if nobody else updates it now."""
        self._stores.flush()
        m: Matrix = node.attr.matrix
        columns, rows = node.deps[2 : 2 + m.rows], node.deps[2 + m.rows :]
        if m.along != 1 and m.down == 1:
            m, columns, rows = m.turned, rows, columns
        low, b = self.low, self.b
        root = target_root(node.deps[0])
        if id(root) not in self._access.private or m.along != 1:
            low.values[node.deps[1]] = low.under_mask(low.values[node.deps[1]])
            super().outer(node)
            return
        t = root.type
        mask = low.under_mask(low.values[node.deps[1]])
        column, row = (self.in_memory(t, part, mask) for part in (columns, rows))
        base = low.bases[id(root)]
        lanes = min(b.width, b.target.lanes_f32 * 4 // wide_type(t).size_bytes)

        def update(i: str) -> None:
            start = self.entry_address(t, base, m.offset, i, m.down)
            factors = self._pieces(t, lanes, column, i)

            def tile(first: str, count: int) -> None:
                place = self.entry_address(t, start, 0, first, 1)
                found = self._sums(t, lanes, factors, row, first, count)
                self._add(t, lanes, found, place, count)

            for_tiles(b, m.columns, lanes, tile)

        self.enter()
        repeat(b, m.rows, update)

    def _pieces(self, t: DType, lanes: int, base: str, number: str) -> list[str]:
        """Load a value in memory, register by register."""
        b, wide = self.b, wide_type(t)
        first = b.at(b.type(wide), base, number)
        ty = f"<{lanes} x {wide.llvm}>"
        return [b.load_at(ty, first, k) for k in range(b.width // lanes)]

    def _sums(
        self, t: DType, lanes: int, factors: list[str], row: str, first: str, count: int
    ) -> str:
        """Return the sums of products with entries of a row, each in its lane."""
        b, wide = self.b, wide_type(t)
        ty = f"<{lanes} x {wide.llvm}>"
        fma = f"llvm.fma.v{lanes}f{wide.bits}"
        found = ["zeroinitializer"] * lanes
        start = b.at(b.type(wide), row, first)
        for k in range(count):
            total = ""
            for x, y in zip(
                factors, self._pieces(t, lanes, start, str(k)), strict=True
            ):
                if total:
                    total = b.call(ty, fma, (ty, x), (ty, y), (ty, total))
                else:
                    total = b.emit(f"fmul {ty} {x}, {y}")
            found[k] = total
        apart = 1
        while len(found) > 1:
            pairs = zip(found[::2], found[1::2], strict=True)
            found = [self._joined(ty, lanes, a, c, apart) for a, c in pairs]
            apart *= 2
        return found[0]

    def _joined(self, ty: str, lanes: int, a: str, c: str, apart: int) -> str:
        """Sum lanes of two vectors that are `apart`; put results in turns."""
        b = self.b
        own = [k + (lanes if k & apart else 0) for k in range(lanes)]
        other = [(k ^ apart) + (lanes if k & apart else 0) for k in range(lanes)]
        parts = [b.shuffle(ty, a, c, picks) for picks in (own, other)]
        return b.emit(f"fadd {ty} {parts[0]}, {parts[1]}")

    def _add(self, t: DType, lanes: int, sums: str, place: str, count: int) -> None:
        """Add sums to entries from an address on: all, or the first few."""
        b, wide = self.b, wide_type(t)
        one = count < lanes
        for k in range(count) if one else (0,):
            element, ty = t.memory_llvm, wide.llvm
            value = lane_of(b, f"<{lanes} x {ty}>", sums, k) if one else sums
            if not one:
                element, ty = f"<{lanes} x {element}>", f"<{lanes} x {ty}>"
            at = b.at(t.memory_llvm, place, k)
            old = b.load(element, at, t.size_bytes)
            old = b.emit(f"fpext {element} {old} to {ty}") if element != ty else old
            new = b.emit(f"fadd {ty} {old}, {value}")
            new = b.emit(f"fptrunc {ty} {new} to {element}") if element != ty else new
            b.line(f"store {element} {new}, ptr {at}, align {t.size_bytes}")
