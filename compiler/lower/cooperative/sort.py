"""A stable sort by blocks of threads, by the digits of unsigned keys.

As `lower.collectives.sort`: count the digits of each block, scan the counts, move. In a
block, each warp has a run of entries, of which it takes 32 at a time; lanes of equal
digits find each other by ballots, and the first of them counts for all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from lumijit.compiler.lower.collectives.sort import DIGIT_BITS, DIGITS
from lumijit.compiler.lower.cooperative.block import Block
from lumijit.compiler.lower.cooperative.reduce import all_true, number
from lumijit.compiler.lower.cooperative.scan import Tile
from lumijit.compiler.lower.cooperative.values import LANES, Shared, Value
from lumijit.runtime.dtypes import UINT32, DType

# What is done with a row of entries: their indices, keys, which there are, places in
# the table, and how many equal ones are below each in its row.
_Row = Callable[[Value, Value, Value, Value], None]


def _peers(b: Block, digit: Value, inside: Value) -> tuple[Value, Value]:
    """Return how many lanes have the same digit, and how many of these are below."""
    same = b.ballot(inside)
    for bit in range(DIGIT_BITS):
        is_set = (digit >> bit & 1).equals(1)
        votes = b.ballot(is_set)
        same = same & b.select(is_set, votes, votes ^ ((1 << LANES) - 1))
    below = b.constant("i32", "1") << b.lane.to("i32")
    return b.call("i32", "ctpop", same), b.call("i32", "ctpop", same & (below - 1))


def _each_row(b: Block, t: DType, table: Shared, use: _Row | None) -> None:
    """Go through the entries of each warp in order, and count digits in the table.

    `use` is told where each goes, by what was counted before.
    """
    keys, shift = b.argument(0), b.argument(4, "i64").to(t.memory_llvm)
    warps = b.shape.warps
    per_warp = (b.end - b.begin + (LANES * warps - 1)) // (LANES * warps)
    first = b.begin + b.warp * (per_warp * LANES) + b.lane

    def row(i: Value) -> list[Value]:
        index = first + i * LANES
        inside = index < b.end
        key = b.load(t.memory_llvm, keys, b.select(inside, index, b.end - 1))
        # Keys of 8 bits are digits; no mask fits them.
        digit = (key >> shift).to("i32") & (DIGITS - 1)
        count, rank = _peers(b, digit, inside)
        place = b.warp * DIGITS + digit.to("i64")
        old = b.get(table, place)
        b.sync_warp()
        is_first = b.select(inside, rank.equals(0), inside)
        b.put(table, place, old + count, is_first)
        b.sync_warp()
        if use is not None:
            use(index, key, (old + rank).to("i64"), inside)
        return []

    b.loop(number(b, 0), per_warp, 1, [], row)


def _table(b: Block) -> Shared:
    """Make a table of zeros, of a number for each warp and digit."""
    table = b.shared("i32", b.shape.warps * DIGITS, owner="warp")
    for k in range(0, b.shape.warps * DIGITS, b.shape.threads):
        b.put(table, b.thread + k, b.constant("i32", "0"), all_true(b))
        b.sync()
    return table


def _columns(b: Block, table: Shared, digit: Value) -> list[Value]:
    """Return what all warps have counted of digits."""
    return [b.get(table, digit + w * DIGITS) for w in range(b.shape.warps)]


def count(b: Block, t: DType) -> None:
    """Count how often each digit occurs in a block.

    Slots: keys, counts (u32, one for each block and digit), block, blocks, shift.
    """
    counts, blocks = b.argument(1), b.argument(3, "i64")
    table = _table(b)
    _each_row(b, t, table, None)
    b.sync()
    own = b.begin // b.argument(2, "i64")
    for k in range(0, DIGITS, b.shape.threads):
        digit = b.thread + k
        total = reduce(lambda x, y: x + y, _columns(b, table, digit))
        b.store(total, counts, digit * blocks + own, all_true(b))


def move(b: Block, t: DType, has_keys: bool, indices: str, is_alone: bool) -> None:
    """Put the entries of a block where the scanned counts say.

    Slots and choices are those of `lower.collectives.sort.move_ir`.
    """
    counts, blocks = b.argument(1), b.argument(3, "i64")
    keys_to, places, places_to = (b.argument(k) for k in (5, 6, 7))
    table = _table(b)
    _each_row(b, t, table, None)
    b.sync()
    own = b.begin // b.argument(2, "i64")
    width = DIGITS // b.shape.threads
    digits = [b.warp * (LANES * width) + (b.lane + LANES * r) for r in range(width)]
    columns = [_columns(b, table, digit) for digit in digits]
    if is_alone:
        totals = [[reduce(lambda x, y: x + y, column)] for column in columns]
        tile = Tile(b, "add", UINT32, totals, True).scan()
        starts = [start for (start,) in tile.after(b.begin.to("i32"))]
    else:
        starts = [b.load("i32", counts, digit * blocks + own) for digit in digits]
    b.sync()
    for digit, column, start in zip(digits, columns, starts, strict=True):
        for w, counted in enumerate(column):
            b.put(table, digit + w * DIGITS, start, all_true(b))
            b.sync()
            start = start + counted

    def place(index: Value, key: Value, where: Value, inside: Value) -> None:
        if has_keys:
            b.store(key, keys_to, where, inside)
        if indices == "new":
            b.store(index.to("i32"), places_to, where, inside)
        elif indices:
            index = b.select(inside, index, b.end - 1)
            b.store(b.load("i32", places, index), places_to, where, inside)

    _each_row(b, t, table, place)
