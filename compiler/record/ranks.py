"""Where entries of a rank are: of short runs by comparing all, of others by digits.

The kernels are in `lower.collectives.select`.
"""

from __future__ import annotations

import struct

from lumijit.compiler.ir import placement, trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.trace import from_buffer, literal
from lumijit.compiler.launch import named_kernels, transfer
from lumijit.compiler.lower import collectives
from lumijit.compiler.plan import target as targets
from lumijit.compiler.record import memory, rows, sorting
from lumijit.compiler.record.bounds import check_indexable
from lumijit.compiler.record.reductions import check_lane, evaluated
from lumijit.runtime import device
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import UINT32, UINT64, DType

# The longest runs that are gone through by a thread alone, if there are others.
MOST_ALONE = 1 << 20
# Entries that a thread goes through at a time.
_BLOCK = 1 << 14


def ranked_places(node: Node, run: int, inner: int, rank: int) -> Node:
    """Return where the entry of a rank is in each run of so many entries.

    Ranks count from the least entry, equal ones in their order, NaN last. What is
    `inner` entries apart makes a run.
    """
    check_lane("median", node)
    check_indexable(node, "median")
    node = trace.detached(node)
    if placement.used and placement.is_elsewhere(node):
        return placement.run_there(ranked_places, node, run, inner, rank)
    if run <= rows.FEW:
        return _by_comparing(node, run, inner, rank)
    node = rows.side_by_side(node, run, inner)
    select = targets.collectives().select_ir
    if select is None:
        return _by_sorting(node, run, rank)
    t, runs = node.type, node.size // run
    source = evaluated(node)
    result = device.allocate(4 * runs)
    if runs > 1 and run <= MOST_ALONE:
        kernel = named_kernels.get(f"select_{t.short}", select, "all", t)
        args = struct.pack("<2Q2q", source.address, result.address, run, rank)
        step = max(1, _BLOCK // run)
        named_kernels.launch(kernel, args, runs, step, step, (result,))
    else:
        _by_pieces(source, t, runs, run, rank, result)
    return from_buffer(UINT32, result, runs)


def _by_comparing(node: Node, run: int, inner: int, rank: int) -> Node:
    """Count how many of its run come before each entry."""
    keys = [sorting.keys(entry) for entry in rows.few(node, run, inner)]
    before: list[list[Node]] = [[] for _ in keys]
    for k, key in enumerate(keys):
        for j in range(k):
            is_before = trace.emit2(lo.LE, keys[j], key)
            before[k].append(is_before)
            before[j].append(trace.emit1(lo.NOT, is_before))
    zero, one = (literal(UINT32, n, node.size // run) for n in (0, 1))
    place = zero
    for k, masks in enumerate(before):
        count = zero
        for mask in masks:
            count = trace.emit2(ar.ADD, count, trace.select(mask, one, zero))
        is_it = trace.emit2(lo.EQ, count, literal(UINT32, rank))
        place = trace.select(is_it, literal(UINT32, k), place)
    return place


def _by_sorting(node: Node, run: int, rank: int) -> Node:
    places = sorting.argsort_runs(sorting.keys(node), run)
    first = trace.emit2(ar.MUL, trace.counter(node.size // run), literal(UINT32, run))
    at = trace.emit2(ar.ADD, first, literal(UINT32, rank))
    place = memory.entries(places, at, trace.make_true(1))
    return trace.emit2(ar.MOD, place, literal(UINT32, run))


def _by_pieces(
    source: Buffer, t: DType, runs: int, run: int, rank: int, result: Buffer
) -> None:
    """Find the entry's digits one after the other, in all pieces of all runs."""
    select = targets.collectives().select_ir
    assert select is not None
    pieces = -(-run // collectives.SELECT_BLOCK)
    block = -(-run // pieces)
    counts = device.allocate(4 * collectives.DIGITS * runs * pieces)
    found, ranks = device.allocate(8 * runs), device.allocate(4 * runs)
    transfer.fill(found, UINT64, 0, runs)
    transfer.fill(ranks, UINT32, rank, runs)
    tally = named_kernels.get(f"select_tally_{t.short}", select, "tally", t)
    choose = named_kernels.get("select_choose", select, "choose", t)
    known = 0
    bits = 8 * t.size_bytes
    for shift in range(bits - collectives.DIGIT_BITS, -1, -collectives.DIGIT_BITS):
        addresses = source.address, counts.address, found.address
        args = struct.pack("<3Q4qQ", *addresses, run, block, pieces, shift, known)
        named_kernels.launch(tally, args, runs * pieces, 1, 1, (counts,))
        addresses = counts.address, found.address, ranks.address
        args = struct.pack("<3Q2q", *addresses, pieces, shift)
        named_kernels.launch(choose, args, runs, 1, 1, (found, ranks))
        known |= (collectives.DIGITS - 1) << shift
    buffers = source, result, counts, found, ranks
    args = struct.pack("<5Q3q", *(b.address for b in buffers), run, block, pieces)
    locate = named_kernels.get(f"select_locate_{t.short}", select, "locate", t)
    named_kernels.launch(locate, args, runs, 1, 1, (result,))
