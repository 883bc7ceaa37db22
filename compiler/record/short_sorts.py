"""Sorts short runs: each lane has one, in local memory."""

from __future__ import annotations

from collections.abc import Callable

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.trace import literal
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import local, memory, rows
from lumijit.compiler.record.new_loops import Nodes, counted, traced_loop
from lumijit.compiler.record.reductions import evaluated
from lumijit.runtime.dtypes import UINT32, UINT64, DType

# Those of all lanes of a packet lie in a core's cache, or nearly so. Longer runs of
# keys of few digits are sorted faster by these.
LONGEST, LONGEST_FEW_DIGITS = 1 << 14, 1 << 12
# Of fewer runs, lanes have none; of fewer entries, tracing the program takes longer.
FEWEST_RUNS = 128
FEWEST_ENTRIES = 1 << 16


def is_worth(size: int, run: int, bits: int) -> bool:
    """Tell whether runs of an array of keys of some bits are sorted faster so."""
    longest = LONGEST if bits >= 32 else LONGEST_FEW_DIGITS
    has_many = size // run >= FEWEST_RUNS and size >= FEWEST_ENTRIES
    return 1 < run <= longest and has_many


def sorted_keys(key: Node, run: int, inner: int) -> Node:
    """Return unsigned keys in their order, run by run of that length.

    What is `inner` entries apart makes a run.
    """
    return _sorted(key, run, inner, is_by_place=False)


def sorted_places(key: Node, run: int, inner: int) -> Node:
    """Return the places of unsigned keys in their order, run by run of that length.

    Of equal keys, the first comes first. What is `inner` entries apart makes a run.
    """
    return _sorted(key, run, inner, is_by_place=True)


def _sorted(key: Node, run: int, inner: int, is_by_place: bool) -> Node:
    t = UINT32 if is_by_place else key.type
    result = Holder(trace.undefined(t, key.size))
    key = trace.from_buffer(key.type, evaluated(key), key.size)
    # What is written to here is nobody else's, also in evaluated control flow.
    with trace.watching(None), trace.unmasked():
        _sort(key, run, inner, is_by_place, result)
        evaluate.evaluate((result._node,))
    return result._node


def _sort(key: Node, run: int, inner: int, is_by_place: bool, result: Holder) -> None:
    """Trace what writes the keys or places."""
    runs = key.size // run
    first = trace.counter(runs)
    column: Node | None = None
    if inner > 1:
        first, column = rows.parts(first, inner)
        first = trace.emit2(ar.MUL, first, _number(inner))
    first = trace.emit2(ar.MUL, first, _number(run))
    if column is not None:
        first = trace.emit2(ar.ADD, first, column)
    entries: _Keys | _Pairs | _Apart
    if is_by_place:
        entries = (_Pairs if key.type.bits <= 32 else _Apart)(run)
    else:
        entries = _Keys(key.type, run)

    def at(k: Node) -> Node:
        return trace.emit3(ar.FMA, k, _number(inner), first)

    def fill(k: Node) -> None:
        entries.set(k, memory.entries(key, at(k), _everywhere()))

    def put(k: Node) -> None:
        found = entries.result(k)
        if is_by_place:
            found = at(found)
        memory.update(result, found, at(k), _everywhere())

    _each(run, runs, fill)
    _merge_exchange(run, runs, entries.exchange)
    _each(run, runs, put)


class _Keys:
    """Keys alone."""

    def __init__(self, t: DType, run: int) -> None:
        self._keys = _buffer(t, run)

    def set(self, k: Node, key: Node) -> None:
        """Fill an entry."""
        local.write(self._keys, key, k, _everywhere())

    def exchange(self, low: Node, high: Node) -> None:
        """Put the lesser of two entries first."""
        _exchange(self._keys, low, high)

    def result(self, k: Node) -> Node:
        """Return an entry's key."""
        return local.read(self._keys, k, _everywhere())


class _Pairs:
    """Keys of 32 bits at most, each before its place in one integer."""

    def __init__(self, run: int) -> None:
        self._pairs = _buffer(UINT64, run)

    def set(self, k: Node, key: Node) -> None:
        """Fill an entry."""
        top = trace.emit2(lo.SHL, trace.cast_to(key, UINT64), literal(UINT64, 32))
        pair = trace.emit2(lo.OR, top, trace.cast_to(k, UINT64))
        local.write(self._pairs, pair, k, _everywhere())

    def exchange(self, low: Node, high: Node) -> None:
        """Put the lesser of two entries first."""
        _exchange(self._pairs, low, high)

    def result(self, k: Node) -> Node:
        """Return the place of an entry's key."""
        pair = local.read(self._pairs, k, _everywhere())
        mask = literal(UINT64, (1 << 32) - 1)
        return trace.cast_to(trace.emit2(lo.AND, pair, mask), UINT32)


class _Apart:
    """Longer keys, and their places."""

    def __init__(self, run: int) -> None:
        self._keys = _buffer(UINT64, run)
        self._places = _buffer(UINT32, run)

    def set(self, k: Node, key: Node) -> None:
        """Fill an entry."""
        local.write(self._keys, key, k, _everywhere())
        local.write(self._places, k, k, _everywhere())

    def exchange(self, low: Node, high: Node) -> None:
        """Put the lesser of two entries first; of equal keys, that of the first."""
        ends = (low, high)
        a, b = (local.read(self._keys, k, _everywhere()) for k in ends)
        m, n = (local.read(self._places, k, _everywhere()) for k in ends)
        is_later = trace.emit2(
            lo.AND, trace.emit2(lo.EQ, a, b), trace.emit2(lo.GT, m, n)
        )
        swaps = trace.emit2(lo.OR, trace.emit2(lo.GT, a, b), is_later)
        for buffer, one, other in ((self._keys, a, b), (self._places, m, n)):
            local.write(buffer, trace.select(swaps, other, one), low, _everywhere())
            local.write(buffer, trace.select(swaps, one, other), high, _everywhere())

    def result(self, k: Node) -> Node:
        """Return the place of an entry's key."""
        return local.read(self._places, k, _everywhere())


def _exchange(buffer: local.Buffer, low: Node, high: Node) -> None:
    pair = [local.read(buffer, k, _everywhere()) for k in (low, high)]
    local.write(buffer, trace.emit2(ar.MIN, *pair), low, _everywhere())
    local.write(buffer, trace.emit2(ar.MAX, *pair), high, _everywhere())


def _buffer(element: DType, run: int) -> local.Buffer:
    return local.allocate(element, 1 << (run - 1).bit_length())


def _everywhere() -> Node:
    return trace.make_true(1)


def _number(value: int) -> Node:
    return literal(UINT32, value)


def _each(count: int, width: int, step: Callable[[Node], None]) -> None:
    """Do something for each number below `count`."""
    counted("sort", width, lambda k: trace.emit2(lo.LT, k, _number(count)), step)


def _merge_exchange(
    count: int, width: int, exchange: Callable[[Node, Node], None]
) -> None:
    """Have entries exchanged so that they end up in order.

    By Batcher's merge exchange: Knuth, The Art of Computer Programming 3 (1998),
    section 5.2.2, algorithm M.

    Args:
        count: how many entries there are, 2 or more.
        width: in how many lanes.
        exchange: puts the lower of the entries at two places at the first of them.
    """
    top = 1 << ((count - 1).bit_length() - 1)

    def is_some(state: Nodes) -> Node:
        return trace.emit2(lo.GT, state[-1], _number(0))

    def merge(outer: Nodes) -> Nodes:
        (p,) = outer

        def compare(state: Nodes) -> Nodes:
            q, r, distance = state

            def places(number: Node) -> tuple[Node, Node]:
                """Return the next place with the bits of `r` where `p` has some."""
                below = trace.emit2(ar.SUB, p, _number(1))
                low = trace.emit2(lo.AND, number, below)
                high = trace.emit2(lo.SHL, trace.emit2(lo.XOR, number, low), _number(1))
                place = trace.emit2(lo.OR, trace.emit2(lo.OR, high, low), r)
                return place, trace.emit2(ar.ADD, place, distance)

            def goes_on(number: Node) -> Node:
                return trace.emit2(lo.LT, places(number)[1], _number(count))

            counted("sort", width, goes_on, lambda number: exchange(*places(number)))
            half = trace.emit2(lo.SHR, q, _number(1))
            return half, p, trace.emit2(ar.SUB, q, p)

        traced_loop("sort", width, [_number(top), _number(0), p], is_some, compare)
        return (trace.emit2(lo.SHR, p, _number(1)),)

    traced_loop("sort", width, [_number(top)], is_some, merge)
