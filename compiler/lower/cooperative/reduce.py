"""Reductions by blocks of threads: whole arrays, runs of entries, rows.

The order in which entries are combined depends on their number and the block's shape
only. Minima and maxima pass NaN over, as those of packets do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from lumijit.compiler.lower.collectives.pieces import neutral
from lumijit.compiler.lower.cooperative.block import Block
from lumijit.compiler.lower.cooperative.values import Value
from lumijit.runtime.dtypes import DType

# Shorter runs are combined by a thread each.
SHORT = 32


def all_true(b: Block) -> Value:
    """Return a mask with which nothing is left out."""
    return b.constant("i1", "true")


def number(b: Block, value: int) -> Value:
    """Return an index."""
    return b.constant("i64", str(value))


def entry(
    b: Block, op: str, t: DType, source: Value, index: Value, end: Value
) -> Value:
    """Read an entry, or the neutral value from the end on; the array has an entry."""
    inside = index < end
    x = b.load(t.memory_llvm, source, b.select(inside, index, end - 1))
    return within(b, op, t, x, inside)


def within(b: Block, op: str, t: DType, x: Value, inside: Value) -> Value:
    """Return an entry where it counts, and the neutral value elsewhere."""
    nothing = b.constant(t.memory_llvm, neutral(op, t))
    x = b.select(inside, x, nothing)
    if t.is_float and op in ("min", "max"):
        x = b.combine(op, t, nothing, x)
    return x


def of_block(b: Block, op: str, t: DType, x: Value) -> Value:
    """Combine the values of all threads of a block, for all of them."""
    ty = t.memory_llvm
    for step in (16, 8, 4, 2, 1):
        x = b.combine(op, t, x, b.shuffle(x, "down", step))
    totals = b.shared(ty, b.shape.warps)
    b.put(totals, b.warp, x, b.lane.equals(0))
    b.sync()
    parts = [b.get(totals, w) for w in range(b.shape.warps)]
    b.sync()
    return reduce(lambda x, y: b.combine(op, t, x, y), parts)


def of_range(
    b: Block, op: str, t: DType, source: Value, start: Value, stop: Value
) -> Value:
    """Combine a range of entries, which isn't empty, for all threads of the block."""
    rows, threads = range(b.shape.rows), b.shape.threads
    nothing = b.vary(b.constant(t.memory_llvm, neutral(op, t)))

    def turn(
        read: Callable[[Value], Value], at: Value, totals: list[Value]
    ) -> list[Value]:
        places = [at + r * threads + b.thread for r in rows]
        return [
            b.combine(op, t, total, read(place))
            for total, place in zip(totals, places, strict=True)
        ]

    full = (stop - start) // b.shape.tile * b.shape.tile + start
    totals = b.loop(
        start,
        full,
        b.shape.tile,
        [nothing] * len(rows),
        lambda at, *totals: turn(
            lambda place: b.load(t.memory_llvm, source, place), at, list(totals)
        ),
    )
    totals = turn(lambda place: entry(b, op, t, source, place, stop), full, totals)
    return of_block(b, op, t, reduce(lambda x, y: b.combine(op, t, x, y), totals))


def whole(b: Block, op: str, t: DType) -> None:
    """Combine the block's entries to one; slots: src, dst, block."""
    source, target = b.argument(0), b.argument(1)
    total = of_range(b, op, t, source, b.begin, b.end)
    b.store_alone(total, target, b.begin // b.argument(2, "i64"))


def runs(b: Block, op: str, t: DType) -> None:
    """Combine each run of `block` entries; slots: src, dst, block."""
    source, target, length = b.argument(0), b.argument(1), b.argument(2, "i64")

    def run(j: Value) -> list[Value]:
        start = j * length
        b.store_alone(of_range(b, op, t, source, start, start + length), target, j)
        return []

    b.loop(b.begin, b.end, 1, [], run)


def each_thread(b: Block, body: Callable[[Value, Value], None]) -> None:
    """Give each element of the block to a thread: with its index, and if there is one.

    In threads that have none, the index is that of the last.
    """

    def turn(base: Value) -> list[Value]:
        index = base + b.thread
        inside = index < b.end
        body(b.select(inside, index, b.end - 1), inside)
        return []

    b.loop(b.begin, b.end, b.shape.threads, [], turn)


def short_runs(b: Block, op: str, t: DType) -> None:
    """Combine each run of `block` entries in a thread; slots: src, dst, block."""
    source, target, length = b.argument(0), b.argument(1), b.argument(2, "i64")
    nothing = b.vary(b.constant(t.memory_llvm, neutral(op, t)))

    def run(j: Value, inside: Value) -> None:
        def take(i: Value, total: Value) -> list[Value]:
            x = b.load(t.memory_llvm, source, j * length + i)
            return [b.combine(op, t, total, x)]

        (total,) = b.loop(number(b, 0), length, 1, [nothing], take)
        b.store(total, target, j, inside)

    each_thread(b, run)


def rows(b: Block, op: str, t: DType) -> None:
    """Set dst[o * row + j] to the combination of src[o * period + i * row + j].

    That is for all i for which i * row + j is below the period; there is one at least.
    Slots: src, dst, row, period.
    """
    source, target = b.argument(0), b.argument(1)
    row, period = b.argument(2, "i64"), b.argument(3, "i64")
    count = period // row
    rest = period - count * row
    nothing = b.vary(b.constant(t.memory_llvm, neutral(op, t)))

    def column(r: Value, inside: Value) -> None:
        j = r % row
        base = (r // row) * period + j

        def take(i: Value, total: Value) -> list[Value]:
            x = b.load(t.memory_llvm, source, base + i * row)
            return [b.combine(op, t, total, x)]

        (total,) = b.loop(number(b, 0), count, 1, [nothing], take)
        is_left = j < rest
        last = b.select(is_left, base + count * row, base)
        x = b.select(is_left, b.load(t.memory_llvm, source, last), nothing)
        b.store(b.combine(op, t, total, x), target, r, inside)

    each_thread(b, column)
