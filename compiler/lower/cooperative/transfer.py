"""Copies, fills, single values from many places, and products, by blocks of threads."""

from __future__ import annotations

from lumijit.compiler.lower.cooperative.block import Block
from lumijit.compiler.lower.cooperative.reduce import each_thread, number
from lumijit.compiler.lower.cooperative.values import LANES, Value
from lumijit.runtime.dtypes import DType

# 64-bit words of a line of 64 bytes.
_WORDS = 8
# Rows of a product that a thread computes.
ROWS = 4


def _words(b: Block, source: Value | None, value: Value | None) -> None:
    """Write the words of the block's lines, from memory or all the same."""
    target = b.argument(1 if source is not None else 0)
    stop = b.end * _WORDS

    def turn(base: Value) -> list[Value]:
        index = base + b.thread
        inside = index < stop
        word = value
        if source is not None:
            word = b.load("i64", source, b.select(inside, index, stop - 1))
        assert word is not None
        b.store(word, target, index, inside)
        return []

    b.loop(b.begin * _WORDS, stop, b.shape.threads, [], turn)


def copy(b: Block) -> None:
    """Copy lines of 64 bytes; slots: src, dst. The elements are lines."""
    _words(b, b.argument(0), None)


def fill(b: Block) -> None:
    """Fill lines of 64 bytes with an 8-byte pattern; slots: dst, pattern."""
    _words(b, None, b.argument(1, "i64"))


def collect(b: Block, element: str, bits: int) -> None:
    """Copy single values from many places; the elements are values.

    Slot: pairs of addresses, from (an `element`) and to (an integer of `bits`).
    """
    pairs = b.argument(0)

    def one(index: Value, inside: Value) -> None:
        origin = b.cast("inttoptr", b.load("i64", pairs, index * 2), "ptr")
        target = b.cast("inttoptr", b.load("i64", pairs, index * 2 + 1), "ptr")
        value = b.read(element, origin)
        if element == "half":
            value = b.cast("bitcast", b.cast("fpext", value, "float"), "i32")
        b.write(value.to(f"i{bits}"), target, inside)

    each_thread(b, one)


def product(b: Block, t: DType) -> None:
    """Set c[b, i, j] to the sum over l of a[b, i, l] * panels[b, j / …, l, j % …].

    The elements are tiles of c, of `ROWS` rows of 32 columns, and a warp has one. Slots
    are those of `lower.collectives.product`.
    """
    a, panels, c = (b.argument(k) for k in range(3))
    m, n, k, by_row, by_sum, tall, wide = (b.argument(s, "i64") for s in range(3, 10))
    ty = t.memory_llvm
    zero = b.vary(b.constant(ty, "0.0" if t.is_float else "0"))

    def multiplied(x: Value, y: Value, total: Value) -> Value:
        return b.call(ty, "fma", x, y, total) if t.is_float else total + x * y

    def tiles(base: Value) -> list[Value]:
        own = base + b.warp
        is_tile = own < b.end
        tile = b.select(is_tile, own, b.end - 1)
        panel = tile // (tall * wide) * wide + tile % wide
        batch, i = tile // (tall * wide), tile % (tall * wide) // wide
        numbers = [i * ROWS + r for r in range(ROWS)]
        starts = [batch * m * k + x.minimum(m - 1) * by_row for x in numbers]
        from_panel = panel * k * LANES + b.lane

        def step(at: Value, *totals: Value) -> list[Value]:
            y = b.load(ty, panels, from_panel + at * LANES)
            factors = [b.load(ty, a, start + at * by_sum) for start in starts]
            return [multiplied(x, y, s) for x, s in zip(factors, totals, strict=True)]

        totals = b.loop(number(b, 0), k, 1, [zero] * ROWS, step)
        column = tile % wide * LANES + b.lane
        inside = b.select(is_tile, column < n, is_tile)
        for x, total in zip(numbers, totals, strict=True):
            where = b.select(inside, x < m, inside)
            b.store(total, c, batch * m * n + x * n + column, where)
        return []

    b.loop(b.begin, b.end, b.shape.warps, [], tiles)
