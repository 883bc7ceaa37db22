"""Lowers products of matrices that lie in arrays with vectors of values.

Values are put into memory of their own, so that code can loop over them; the sums of a
tile of rows stay in registers. Halves are multiplied and summed in single precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.repetition import fold, repeat
from lumijit.compiler.ir.matrices import Matrix
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.lower.common.atomics import atomic
from lumijit.compiler.lower.common.state import State
from lumijit.compiler.plan.program import target_root
from lumijit.runtime.dtypes import FLOAT16, FLOAT32, DType

# How many sums of a register each are computed at once, and columns in a turn.
_SUMS = 8
_COLUMNS = 4


def wide_type(t: DType) -> DType:
    """Return the type in which entries are multiplied and summed."""
    return FLOAT32 if t is FLOAT16 else t


class Results(Mapping[int, str]):
    """The results of a product, each loaded where it is used."""

    def __init__(self, b: Builder, t: DType, base: str, count: int) -> None:
        self._b = b
        self._type = t
        self._base = base
        self._count = count

    def __getitem__(self, position: int) -> str:
        b, wide = self._b, wide_type(self._type)
        value = b.load_at(b.type(wide), self._base, position)
        return b.cast(wide, value, self._type)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._count))

    def __len__(self) -> int:
        return self._count


class Matrices:
    """The products of one kernel."""

    def __init__(self, low: State) -> None:
        self.low = low
        self.b = low.b

    def product(self, node: Node) -> None:
        """Lower a product; its results are loaded where they are used."""
        low, b = self.low, self.b
        m: Matrix = node.attr
        source, *values = node.deps
        t = source.type
        inputs = self.in_memory(t, values[: m.columns])
        sums = self.in_memory(t, values[m.columns :] or [None] * m.rows)
        register_bytes = 4 * b.target.lanes_f32
        registers = max(1, b.lanes * wide_type(t).size_bytes // register_bytes)
        height = min(m.rows, max(2, _SUMS // registers))
        base = low.addresses[source]

        def tile(first: str, count: int) -> None:
            self._tile(t, m, base, inputs, sums, first, count)

        self.enter()
        for_tiles(b, m.rows, height, tile)
        low.results[node] = Results(b, t, sums, m.rows)

    def enter(self) -> None:
        """Prepare for code in other blocks."""

    def in_memory(
        self, t: DType, values: Sequence[Node | None], mask: str | None = None
    ) -> str:
        """Put values of a type behind each other; None is zero. Return where."""
        low, b, wide = self.low, self.b, wide_type(t)
        ty = b.type(wide)
        base = low.in_entry(f"alloca [{len(values)} x {ty}], align 64")
        for k, node in enumerate(values):
            value = b.const(wide, 0)
            if node is not None:
                value = b.cast(t, low.operand(node), wide)
                if mask is not None:
                    value = b.select(wide, mask, value, 0)
            b.line(f"store {ty} {value}, ptr {b.at(ty, base, k)}")
        return base

    def _tile(
        self,
        t: DType,
        m: Matrix,
        base: str,
        inputs: str,
        sums: str,
        first: str,
        count: int,
    ) -> None:
        """Add the products of `count` rows, from the `first` on, to their sums."""
        b, element, wide = self.b, t.memory_llvm, wide_type(t)
        ty = b.type(wide)
        start = self.entry_address(t, base, m.offset, first, m.down)
        into = b.at(ty, sums, first)
        places = [b.at(ty, into, r) for r in range(count)]
        before = [b.load(ty, place) for place in places]
        step = next(k for k in (_COLUMNS, 2, 1) if m.columns % k == 0)

        def turn(column: str, values: list[str]) -> list[str]:
            row = self.entry_address(t, start, 0, column, m.along)
            pairs = b.at(ty, inputs, column)
            for k in range(step):
                x = b.load_at(ty, pairs, k)
                for r in range(count):
                    w = b.at(element, row, r * m.down + k * m.along)
                    w = b.load(element, w, t.size_bytes)
                    w = b.cast(t, b.splat(t, w), wide)
                    values[r] = b.fma(wide, w, x, values[r])
            return values

        found = fold(b, m.columns, step, ty, before, turn)
        for place, value in zip(places, found, strict=True):
            b.line(f"store {ty} {value}, ptr {place}")

    def entry_address(
        self, t: DType, base: str, offset: int, number: str, step: int
    ) -> str:
        """Return the address of the entry `offset + number * step`."""
        b = self.b
        if number.isdigit():
            place = str(offset + int(number) * step)
        else:
            place = b.emit(f"mul i64 {number}, {step}") if step != 1 else number
            place = b.emit(f"add i64 {place}, {offset}") if offset else place
        return b.at(t.memory_llvm, base, place)

    def outer(self, node: Node) -> None:
        """Lower the update of a matrix, entry by entry."""
        low, b = self.low, self.b
        m: Matrix = node.attr.matrix
        root = target_root(node.deps[0])
        t, wide = root.type, wide_type(root.type)
        mask = low.operand(node.deps[1])
        column, row = (
            self.in_memory(t, values, mask)
            for values in (node.deps[2 : 2 + m.rows], node.deps[2 + m.rows :])
        )
        base, ty = low.bases[id(root)], b.type(wide)

        def entry(i: str, j: str) -> None:
            factors = [b.load_at(ty, *place) for place in ((column, i), (row, j))]
            item = self.total(wide, b.mul(wide, *factors))
            down = self.entry_address(t, base, m.offset, i, m.down)
            address = self.entry_address(t, down, 0, j, m.along)
            atomic(b, "add", t, address, self.narrowed(t, item))

        self.enter()
        repeat(b, m.rows, lambda i: repeat(b, m.columns, lambda j: entry(i, j)))

    def total(self, t: DType, value: str) -> str:
        """Return the sum of all lanes of a value."""
        return value

    def narrowed(self, t: DType, item: str) -> str:
        """Return a scalar as an entry of an array of a type."""
        if t is not FLOAT16:
            return item
        return self.b.emit(f"fptrunc float {item} to half")


def for_tiles(
    b: Builder, count: int, size: int, code: Callable[[str, int], None]
) -> None:
    """Write code for tiles of `size` of `count` entries, and for the rest.

    It gets the first entry of a tile, and how many there are.
    """
    full, rest = divmod(count, size)
    if full == 1:
        code("0", size)
    elif full:

        def turn(first: str, _: list[str]) -> list[str]:
            code(first, size)
            return []

        fold(b, full * size, size, "", [], turn)
    if rest:
        code(str(full * size), rest)
