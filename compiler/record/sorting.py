"""Sorting: keys that are ordered like the entries, and where these go.

The kernels are in `lower.collectives.sort`; what users get is in the public functions.
"""

from __future__ import annotations

import struct

from lumijit.compiler.ir import placement, trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.trace import from_buffer, literal
from lumijit.compiler.launch import named_kernels
from lumijit.compiler.lower import collectives
from lumijit.compiler.plan import target as targets
from lumijit.compiler.record import glances, memory, rows, short_sorts
from lumijit.compiler.record.bounds import check_indexable
from lumijit.compiler.record.reductions import (
    block_reduce,
    check_lane,
    evaluated,
    prefix,
    reduce,
    result_place,
)
from lumijit.runtime import buffers, device, recorders, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import UINT8, UINT32, DType, same_bits

# Shorter runs are reduced several at a time.
SHORT_RUN = 64
# So many runs keep the threads busy without being cut into pieces.
MANY_RUNS = 32
# So many blocks give all threads work, whatever each takes.
MANY_BLOCKS = 64
# Of so many long keys, it is asked which digits differ.
ASKED_FROM = 1 << 16
# Runs that a thread sorts alone have so many entries at least.
LONG_RUN = 1 << 8
# In larger arrays, a row of few results is repeated to one of at least so many entries.
REPEATED, REPEATED_FROM = 256, 1 << 16


def keys(node: Node, is_descending: bool = False) -> Node:
    """Return unsigned integers in the order of an array's entries, NaN last.

    The zeros have one key for both signs.
    """
    if node.type.is_float:
        node = trace.emit2(ar.ADD, node, _number(node.type, 0))
    return _ordered(node, is_descending)


def _ordered(node: Node, is_descending: bool) -> Node:
    t = node.type
    if t.is_bool:
        key = trace.cast_to(node, UINT8)
    elif not t.is_float and not t.is_signed:
        key = node
    else:
        key = _without_sign(node)
    return trace.emit1(lo.NOT, key) if is_descending else key


def _without_sign(node: Node) -> Node:
    """Order numbers with signs as unsigned ones: negative ones come first."""
    t = node.type
    unsigned = same_bits(t, "u")
    bits = trace.bitcast_to(node, unsigned)
    sign = _number(unsigned, 1 << (t.bits - 1))
    flipped = trace.emit2(lo.XOR, bits, sign)
    if not t.is_float:
        return flipped
    is_negative = trace.emit2(lo.GE, bits, sign)
    ordered = trace.select(is_negative, trace.emit1(lo.NOT, bits), flipped)
    is_nan = trace.emit2(lo.NE, node, node)
    return trace.select(is_nan, _number(unsigned, (1 << t.bits) - 1), ordered)


def _number(t: DType, value: int) -> Node:
    return literal(t, t.wrap(value))


def sort(node: Node, is_descending: bool, run: int, inner: int = 1) -> Node:
    """Sort an array's entries, run by run of a length.

    A negative zero comes before a positive one. What is `inner` entries apart makes a
    run.
    """
    t = node.type
    check_lane("sort", node)
    if run < 2:
        return node
    check_indexable(node, "sort")
    if placement.used and placement.is_elsewhere(node):
        return placement.run_there(sort, node, is_descending, run, inner)
    key: Node | None = _ordered(node, is_descending)
    assert key is not None
    if run == node.size:
        key, _ = _passes(key, has_keys=True, has_places=False)
        assert key is not None
    elif short_sorts.is_worth(node.size, run, t.bits):
        key = short_sorts.sorted_keys(key, run, inner)
    elif _are_sorted_apart(node.size, run):
        turned = rows.side_by_side(key, run, inner)
        key, _ = _passes(turned, has_keys=True, has_places=False, run=run)
        assert key is not None
        key = rows.side_by_side(key, inner, run)
    else:
        places = argsort_runs(key, run, inner)
        key = memory.entries(key, places, trace.make_true(1))
    if is_descending:
        key = trace.emit1(lo.NOT, key)
    if t.is_bool:
        return trace.emit2(lo.NE, key, _number(UINT8, 0))
    if not t.is_float and not t.is_signed:
        return key
    sign = _number(key.type, 1 << (t.bits - 1))
    flipped = trace.emit2(lo.XOR, key, sign)
    if t.is_float:
        is_positive = trace.emit2(lo.GE, key, sign)
        flipped = trace.select(is_positive, flipped, trace.emit1(lo.NOT, key))
    return trace.bitcast_to(flipped, t)


def argsort_runs(key: Node, run: int, inner: int = 1) -> Node:
    """Return the places of unsigned keys in their order, run by run of that length.

    Of equal keys, the first comes first. What is `inner` entries apart makes a run.
    """
    check_lane("argsort", key)
    check_indexable(key, "argsort")
    if placement.used and placement.is_elsewhere(key):
        return placement.run_there(argsort_runs, key, run, inner)
    if run < 2:
        return trace.counter(key.size)
    if short_sorts.is_worth(key.size, run, key.type.bits):
        return short_sorts.sorted_places(key, run, inner)
    if inner > 1:
        return _argsort_columns(key, run, inner)
    if _are_sorted_apart(key.size, run):
        return _argsort(key, run=run)
    places = _argsort(key)
    if run == key.size:
        return places
    # They keep that order as they go to their runs.
    row = trace.emit2(ar.INT_DIV, places, literal(UINT32, run))
    by_row = _argsort(row, (key.size // run - 1).bit_length())
    return memory.entries(places, by_row, trace.make_true(1))


def _argsort_columns(key: Node, run: int, inner: int) -> Node:
    """Return the places of keys, run by run, when runs lie side by side."""
    beside = argsort_runs(rows.side_by_side(key, run, inner), run)
    _, place = rows.parts(beside, run)
    place = rows.side_by_side(place, inner, run)
    row, column = rows.parts(trace.counter(key.size), inner)
    row, _ = rows.parts(row, run)
    place = trace.emit3(ar.FMA, row, literal(UINT32, run), place)
    return trace.emit3(ar.FMA, place, literal(UINT32, inner), column)


def _are_sorted_apart(size: int, run: int) -> bool:
    """Tell whether each run of an array of a size is sorted by one thread."""
    runs = size // run
    is_enough = targets.collectives().THREADS == 0 and runs >= workers.thread_count()
    return run >= LONG_RUN and runs > 1 and (is_enough or runs >= MANY_RUNS)


def _argsort(key: Node, bits: int = 0, run: int = 0) -> Node:
    """Return the places of keys in their order; they have so many bits, if not all."""
    _, places = _passes(key, has_keys=False, has_places=True, bits=bits, run=run)
    assert places is not None
    return places


def extreme_places(node: Node, run: int, op: str, inner: int = 1) -> Node:
    """Return where the least or largest entry of each run of that length is, in it.

    Of equal entries, that is the first; NaN is the largest. What is `inner` entries
    apart makes a run.
    """
    check_lane(f"arg{op}", node)
    check_indexable(node, f"arg{op}")
    node = trace.detached(node)
    if placement.used and placement.is_elsewhere(node):
        return placement.run_there(extreme_places, node, run, op, inner)
    if run <= rows.FEW:
        return _by_comparing(node, run, op, inner)
    runs = node.size // run
    if inner == 1 and runs <= glances.FEW_RUNS and glances.can_look(node):
        places = glances.extremes(op, evaluated(node), run, runs)
        if places is not None:
            found = buffers.filled(struct.pack(f"{runs}I", *places))
            return from_buffer(UINT32, found, runs)
    kernels = targets.collectives()
    if kernels.extreme_ir is None or run < SHORT_RUN or inner > 1:
        return _by_keys(node, run, op, inner)
    source, t = evaluated(node), node.type
    # In masks, the first entry that is set or not ends a run.
    is_whole = t.is_bool and runs >= MANY_RUNS
    pieces = 1 if is_whole else -(-run // kernels.EXTREME_BLOCK)
    block = -(-run // pieces)
    found = device.allocate(4 * runs * pieces)
    kernel = named_kernels.get(f"extreme_{op}_{t.short}", kernels.extreme_ir, op, t)
    args = struct.pack("<2Q3q", source.address, found.address, run, block, pieces)
    step = max(1, kernels.EXTREME_BLOCK // block)
    if is_whole:
        # Most runs end at once, and a block of those takes longer to hand out.
        step = max(step, runs // MANY_BLOCKS)
    named_kernels.launch(kernel, args, runs * pieces, step, step, (found,))
    if pieces == 1:
        return from_buffer(UINT32, found, runs)
    # The same among the extremes of each run's pieces.
    result = device.allocate(4 * runs)
    write = collectives.best_ir
    kernel = named_kernels.get(f"extreme_best_{op}_{t.short}", write, op, t)
    addresses = source.address, found.address, result.address
    args = struct.pack("<3Q2q", *addresses, run, pieces)
    step = max(1, kernels.EXTREME_BLOCK // pieces)
    named_kernels.launch(kernel, args, runs, step, step, (result,))
    return from_buffer(UINT32, result, runs)


def _by_comparing(node: Node, run: int, op: str, inner: int) -> Node:
    """Go through the few entries of each run."""
    best, *others = (keys(entry) for entry in rows.few(node, run, inner))
    is_better = lo.LT if op == "min" else lo.GT
    place = literal(UINT32, 0, best.size)
    for k, key in enumerate(others, 1):
        mask = trace.emit2(is_better, key, best)
        best = trace.select(mask, key, best)
        place = trace.select(mask, literal(UINT32, k), place)
    return place


def _by_keys(node: Node, run: int, op: str, inner: int) -> Node:
    """Compare all entries with the extreme of their run, as unsigned integers."""

    def combined(op: str, entries: Node) -> Node:
        is_whole = run == entries.size
        return (
            reduce(op, entries) if is_whole else block_reduce(op, entries, run, inner)
        )

    if node.type.is_bool:
        is_best = node if op == "max" else trace.emit1(lo.NOT, node)
    else:
        key = keys(node)
        best = combined(op, key)
        if run < node.size:
            best = _spread(best, node.size, run, inner)
        is_best = trace.emit2(lo.EQ, key, best)
    # The first in the array is the first of its run.
    none = literal(UINT32, (1 << 32) - 1)
    first = combined("min", trace.select(is_best, trace.counter(node.size), none))
    if node.type.is_bool:
        # (If all are equal, it is the first.)
        is_none = trace.emit2(lo.EQ, first, none)
        first = trace.select(is_none, literal(UINT32, 0), first)
    row, _ = rows.parts(first, inner)
    return rows.parts(row, run)[1]


def _spread(best: Node, size: int, run: int, inner: int) -> Node:
    """Return the result of its run for each entry of an array.

    One row of few results is repeated first: a longer one is read by whole packets.
    """
    always = trace.make_true(1)
    if run * inner < size or inner >= SHORT_RUN or size < REPEATED_FROM:
        return memory.entries(best, result_place(size, run, inner), always)
    row = -(-REPEATED // inner) * inner
    _, column = rows.parts(trace.counter(row), inner)
    repeated = evaluated(memory.entries(best, column, always))
    _, place = rows.parts(trace.counter(size), row)
    return memory.entries(from_buffer(best.type, repeated, row), place, always)


def _passes(
    key: Node, has_keys: bool, has_places: bool, bits: int = 0, run: int = 0
) -> tuple[Node | None, Node | None]:
    """Sort by one digit after the other; return keys and places, where wanted.

    If there are runs, each is sorted apart.
    """
    t, size = key.type, key.size
    source, places = evaluated(key), None
    kernels = targets.collectives()
    block = run or max(kernels.SORT_BLOCK, -(-size // kernels.SORT_BLOCKS))
    is_alone = run > 0 or size <= block
    shifts = _shifts(t, source, size, bits or t.bits)
    if is_alone and kernels.apart_ir is not None:
        return _apart(source, t, size, run or size, has_places, shifts)
    for shift in shifts:
        keeps = has_keys or shift < shifts[-1]
        moved = device.allocate(t.size_bytes * size) if keeps else None
        found = device.allocate(4 * size) if has_places else None
        _pass(t, size, block, is_alone, shift, (source, moved), (places, found))
        source, places = moved or source, found
    ordered = from_buffer(t, source, size) if has_keys else None
    return ordered, None if places is None else from_buffer(UINT32, places, size)


def _shifts(t: DType, source: Buffer, size: int, bits: int) -> list[int]:
    """Return where the digits of keys begin; of many long keys, those that differ."""
    shifts = list(range(0, bits, collectives.DIGIT_BITS))
    is_known = recorders.is_heard() or source.device is not None
    if bits <= 32 or size < ASKED_FROM or is_known:
        return shifts
    key = from_buffer(t, source, size)
    first = memory.entries(key, literal(UINT32, 0), trace.make_true(1))
    found = evaluated(reduce("or", trace.emit2(lo.XOR, key, first)))
    workers.sync()
    found.check_intact()
    differing = int(buffers.entry(found, t, 0))
    mask = collectives.DIGITS - 1
    return [shift for shift in shifts if differing >> shift & mask] or [0]


def _apart(
    source: Buffer, t: DType, size: int, run: int, has_places: bool, shifts: list[int]
) -> tuple[Node, Node | None]:
    """Sort each run by a thread, by the digits that begin at some bits."""
    write = targets.collectives().apart_ir
    assert write is not None
    count = min(len(shifts), 2)
    moved = [device.allocate(t.size_bytes * size) for _ in range(count)]
    found = [device.allocate(4 * size) for _ in range(count * has_places)]
    # (A first pass reads no places, but from where there are some.)
    addresses = [
        parts[k % len(parts)].address if parts else 0
        for parts in (moved, found)
        for k in range(2)
    ]
    name = f"sort_apart_{t.short}{'_places' * has_places}"
    kernel = named_kernels.get(name, write, t, has_places)
    digits = sum(shift << 8 * k for k, shift in enumerate(shifts))
    args = struct.pack("<6Qq", source.address, *addresses, digits, len(shifts))
    named_kernels.launch(kernel, args, size, run, run, (*moved, *found))
    last = (len(shifts) - 1) % 2
    places = from_buffer(UINT32, found[last], size) if has_places else None
    return from_buffer(t, moved[last], size), places


def _pass(
    t: DType,
    size: int,
    block: int,
    is_alone: bool,
    shift: int,
    key: tuple[Buffer, Buffer | None],
    place: tuple[Buffer | None, Buffer | None],
) -> None:
    """Sort by one digit: from buffers of keys and places to others."""
    blocks = -(-size // block)
    counts = key[0] if is_alone else _counts(t, size, block, shift, key[0])
    places = "" if place[1] is None else ("old" if place[0] else "new")
    name = f"sort_move_{t.short}{'_keys' * bool(key[1])}_{places}{'_alone' * is_alone}"
    has_keys = key[1] is not None
    write = targets.collectives().move_ir
    kernel = named_kernels.get(name, write, t, has_keys, places, is_alone)
    addresses = [0 if b is None else b.address for b in (key[1], *place)]
    args = struct.pack(
        "<2Q3q3Q", key[0].address, counts.address, block, blocks, shift, *addresses
    )
    writes = [b for b in (key[1], place[1]) if b is not None]
    named_kernels.launch(kernel, args, size, block, block, writes)


def _counts(t: DType, size: int, block: int, shift: int, key: Buffer) -> Buffer:
    """Return where the entries of each digit and block go."""
    blocks = -(-size // block)
    counts = device.allocate(4 * collectives.DIGITS * blocks)
    args = struct.pack("<2Q3q", key.address, counts.address, block, blocks, shift)
    kernel = named_kernels.get(
        f"sort_count_{t.short}", targets.collectives().count_ir, t
    )
    named_kernels.launch(kernel, args, size, block, block, (counts,))
    numbers = from_buffer(UINT32, counts, collectives.DIGITS * blocks)
    return evaluated(prefix("add", numbers, True))
