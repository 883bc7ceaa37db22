"""Running sums, products and extremes by blocks of threads, in one pass; compaction.

A block holds its entries in registers, combines them, tells the others the total, and
waits for what comes before. Blocks are in groups of half as many as a block has
threads. A block reads the totals of those before it in its group and of those in the
group before, a thread each, and the totals of earlier groups, which their last blocks
have told by then; and it combines all as a reduction does. So nobody waits for more
than one other, how many blocks there may be; and the order of combination is fixed, as
in no look-back that takes what happens to be there. Source of the idea: Merrill and
Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import accumulate

from lumijit.compiler.lower.collectives.pieces import neutral
from lumijit.compiler.lower.collectives.scan import first_value
from lumijit.compiler.lower.cooperative.block import Block
from lumijit.compiler.lower.cooperative.reduce import (
    all_true,
    each_thread,
    entry,
    number,
    of_block,
    within,
)
from lumijit.compiler.lower.cooperative.values import Shared, Value
from lumijit.runtime.dtypes import BOOL, UINT32, DType


def in_warp(b: Block, op: str, t: DType, x: Value) -> Value:
    """Combine the values of all lanes up to each."""
    for step in (1, 2, 4, 8, 16):
        below = b.shuffle(x, "up", step)
        x = b.select(b.lane < step, x, b.combine(op, t, below, x))
    return x


class Tile:
    """Entries that a block holds, scanned within each warp.

    A warp has one row of 32 pieces after the other, and each thread one piece of each:
    a few entries in a row, which it scans itself. They are in registers, or, where
    blocks wait, in memory that the block shares, so that more of them fit.
    """

    def __init__(
        self,
        b: Block,
        op: str,
        t: DType,
        rows: Iterable[list[Value]],
        exclusive: bool,
        is_shared: bool = False,
    ) -> None:
        self.b, self.op, self.t = b, op, t
        self._exclusive = exclusive
        size = b.shape.tile if is_shared else 0
        self._shelf = b.shared(t.memory_llvm, size, "thread") if size else None
        self._rows: list[list[Value]] = []
        for piece in rows:
            upto = list(accumulate(piece, lambda x, y: b.combine(op, t, x, y)))
            if self._shelf is not None:
                self._put(self._shelf, upto)
                del upto[:-1]
            self._rows.append(upto)

    def _place(self, position: int) -> Value:
        """Return where the shelf has a thread's entry: neighbours lie side by side."""
        return self.b.thread + position * self.b.shape.threads

    def _put(self, shelf: Shared, upto: list[Value]) -> None:
        first = len(self._rows) * len(upto)
        for k, x in enumerate(upto):
            self.b.put(shelf, self._place(first + k), x, all_true(self.b))

    def _upto(self, row: int, count: int) -> list[Value]:
        """Return what a thread has scanned of a row, so many entries."""
        if self._shelf is None:
            return self._rows[row][:count]
        size = self.b.shape.rows // len(self._rows)
        first = row * size
        return [self.b.get(self._shelf, self._place(first + k)) for k in range(count)]

    def combined(self) -> Value:
        """Return what all entries are together, before they are scanned."""
        b, op, t = self.b, self.op, self.t
        mine = reduce(lambda x, y: b.combine(op, t, x, y), [r[-1] for r in self._rows])
        return of_block(b, op, t, mine)

    def scan(self) -> Tile:
        """Scan within each warp, and find what earlier warps and all warps have."""
        b, op, t = self.b, self.op, self.t
        nothing = b.vary(b.constant(t.memory_llvm, neutral(op, t)))
        carry, self._starts = nothing, []
        for upto in self._rows:
            total = in_warp(b, op, t, upto[-1])
            below = b.select(b.lane < 1, nothing, b.shuffle(total, "up", 1))
            self._starts.append(b.combine(op, t, carry, below))
            carry = b.combine(op, t, carry, b.shuffle(total, "at", 31))
        totals = b.shared(t.memory_llvm, b.shape.warps)
        b.put(totals, b.warp, carry, b.lane.equals(0))
        b.sync()
        self.before, self.total = nothing, b.get(totals, 0)
        for w in range(1, b.shape.warps):
            self.before = b.select(b.warp < w, self.before, self.total)
            self.total = b.combine(op, t, self.total, b.get(totals, w))
        b.sync()
        return self

    def after(self, prefix: Value, piece: int = 1) -> Iterator[list[Value]]:
        """Return the entries as they are behind a prefix, piece by piece."""
        b, op, t = self.b, self.op, self.t
        before = b.combine(op, t, prefix, self.before)
        for row, lanes_before in enumerate(self._starts):
            start = b.combine(op, t, before, lanes_before)
            upto = self._upto(row, piece - self._exclusive)
            found = [b.combine(op, t, start, x) for x in upto]
            yield [start, *found] if self._exclusive else found


def piece_of(t: DType) -> int:
    """Return how many entries threads read and write at once: 16 bytes, or four."""
    return min(4, 16 // t.size_bytes)


def places(b: Block, start: Value, piece: int = 1) -> list[Value]:
    """Return where the pieces of a tile begin: each warp has its own run of them."""
    rows = b.shape.rows
    first = start + b.warp * (32 * rows) + b.lane * piece
    return [first + 32 * piece * r for r in range(rows // piece)]


def pieces(
    b: Block, op: str, t: DType, source: Value, at: list[Value], end: Value
) -> Iterator[list[Value]]:
    """Read pieces, with the neutral value from the end on; the array has an entry."""
    piece = piece_of(t)
    last = (end - 1) // piece * piece
    for index in at:
        whole = b.load_row(
            t.memory_llvm, source, b.select(index < end, index, last), piece
        )
        yield [within(b, op, t, x, index + k < end) for k, x in enumerate(whole)]


class Board:
    """Where blocks tell each other values, each its own: so two boards share a memory.

    Values of up to 32 bits are in one word with the flag that says that they are there;
    for others, the flag is told behind them. (Words that lie side by side are told
    more slowly: scans had 78 % of a copy's speed, where they have 83.)
    """

    def __init__(self, tile: Tile, sums: Value, ready: Value, half: int) -> None:
        self.b, self.op, self.t = tile.b, tile.op, tile.t
        self._sums, self._ready, self._half = sums, ready, half
        self._is_in_words = tile.t.size_bytes <= 4

    def _place(self, index: Value) -> Value:
        return index * 2 + self._half

    def tell(self, value: Value, index: Value) -> None:
        """Tell a value that all threads of the block have."""
        if self._is_in_words:
            self.b.tell(value, self._ready, self._place(index))
        else:
            self.b.publish(value, self._sums, self._ready, self._place(index))

    def told(self, first: Value, count: Value) -> Value:
        """Return the values from `first` on, for `count` threads.

        Others get the neutral value.
        """
        b, ty = self.b, self.t.memory_llvm
        is_asking, first = b.thread < count, self._place(first)
        if self._is_in_words:
            found = b.in_word(ty, b.told(self._ready, first, count, 2))
        else:
            b.until_set(self._ready, first, count, 2)
            # (What isn't there yet isn't looked at.)
            place = b.select(is_asking, first + b.thread * 2, first)
            found = b.load(ty, self._sums, place)
        return b.select(is_asking, found, b.constant(ty, neutral(self.op, self.t)))


def _prefix(tile: Tile, sums: Value, ready: Value) -> Value:
    """Tell the block's total, scan its entries, and return what comes before them."""
    b, op, t = tile.b, tile.op, tile.t
    blocks, groups = (Board(tile, sums, ready, half) for half in range(2))
    own, size = b.number, b.shape.threads // 2
    group = own // size
    first = group * size
    total = tile.combined()
    blocks.tell(total, own)
    tile.scan()
    # The blocks of this group and the last one each tell their totals.
    start = b.select(group.equals(0), first, first - size)
    found = blocks.told(start, own - start)
    nothing = b.constant(t.memory_llvm, neutral(op, t))

    def tell_group() -> None:
        mine = b.select(b.thread < first - start, nothing, found)
        groups.tell(b.combine(op, t, of_block(b, op, t, mine), total), group)

    b.when((own - first).equals(size - 1), tell_group)
    # Those before, a group at a time.
    end = b.select(group.equals(0), group, group - 1)

    def take(at: Value, before: Value) -> list[Value]:
        count = (end - at).minimum(b.shape.threads)
        return [b.combine(op, t, before, groups.told(at, count))]

    initial = b.vary(b.constant(t.memory_llvm, first_value(op, t)))
    (before,) = b.loop(number(b, 0), end, b.shape.threads, [initial], take)
    return of_block(b, op, t, b.combine(op, t, before, found))


def whole(b: Block, op: str, t: DType, exclusive: bool) -> None:
    """Scan an array, of which a block has a tile.

    Slots: src, dst, sums (two values per block), ready (two i64 per block, zero at the
    start), block.
    """
    source, target, sums, ready = (b.argument(k) for k in range(4))
    piece = piece_of(t)
    at = places(b, b.begin, piece)
    tile = Tile(b, op, t, pieces(b, op, t, source, at, b.end), exclusive, True)
    shown = tile.after(_prefix(tile, sums, ready), piece)
    for index, values in zip(at, shown, strict=True):
        # (What is behind the end is in the array's last line.)
        b.store_row(values, target, index, index < b.end)


def runs(b: Block, op: str, t: DType, exclusive: bool) -> None:
    """Scan each run of `block` entries, tile by tile; slots: src, dst, block."""
    source, target, length = b.argument(0), b.argument(1), b.argument(2, "i64")
    first = b.constant(t.memory_llvm, first_value(op, t))

    def run(j: Value) -> list[Value]:
        start = j * length
        stop = start + length

        def turn(begin: Value, prefix: Value) -> list[Value]:
            at = places(b, begin)
            entries = [[entry(b, op, t, source, i, stop)] for i in at]
            tile = Tile(b, op, t, entries, exclusive).scan()
            for i, (value,) in zip(at, tile.after(prefix), strict=True):
                b.store(value, target, i, i < stop)
            return [b.combine(op, t, prefix, tile.total)]

        b.loop(start, stop, b.shape.tile, [first], turn)
        return []

    b.loop(b.begin, b.end, 1, [], run)


def short_runs(b: Block, op: str, t: DType, exclusive: bool) -> None:
    """Scan each run of `block` entries in a thread; slots: src, dst, block."""
    source, target, length = b.argument(0), b.argument(1), b.argument(2, "i64")
    first = b.vary(b.constant(t.memory_llvm, first_value(op, t)))

    def run(j: Value, inside: Value) -> None:
        def take(i: Value, before: Value) -> list[Value]:
            at = j * length + i
            upto = b.combine(op, t, before, b.load(t.memory_llvm, source, at))
            b.store(before if exclusive else upto, target, at, inside)
            return [upto]

        b.loop(number(b, 0), length, 1, [first], take)

    each_thread(b, run)


def compress(b: Block) -> None:
    """Write the indices of the set entries of a mask one after the other.

    Slots: mask (bytes), dst (u32), sums (two u32 per block), ready, block, size, count
    (u32, receives the total).
    """
    source, target, sums, ready = (b.argument(k) for k in range(4))
    size, count = b.argument(5, "i64"), b.argument(6)
    at = places(b, b.begin, piece_of(BOOL))
    # Every byte but 0 is a set entry.
    set_ = [
        [b.compare("ne", x, b.constant("i8", "0")) for x in piece]
        for piece in pieces(b, "or", BOOL, source, at, b.end)
    ]
    numbers = [[b.cast("zext", m, "i32") for m in piece] for piece in set_]
    tile = Tile(b, "add", UINT32, numbers, True, True)
    prefix = _prefix(tile, sums, ready)
    shown = tile.after(prefix, piece_of(BOOL))
    for index, masks, numbers_ in zip(at, set_, shown, strict=True):
        for k, (mask, x) in enumerate(zip(masks, numbers_, strict=True)):
            b.store((index + k).to("i32"), target, x.to("i64"), mask)
    b.when(
        b.end.equals(size),
        lambda: b.store_alone(prefix + tile.total, count, number(b, 0)),
    )
