"""Operations across an array: reductions, prefix sums, compaction.

They evaluate their input and run a kernel of their own (`lower.collectives`).
Partial results have fixed places and are combined in a fixed order: the same
input gives the same bits on any number of threads.
"""

from __future__ import annotations

import struct

import numpy as np

from lumijit.compiler.emit.combine import identity
from lumijit.compiler.ir import placement, trace
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.structural import EVALUATED, LITERAL
from lumijit.compiler.ir.trace import from_buffer, literal
from lumijit.compiler.launch import evaluate, named_kernels, transfer
from lumijit.compiler.plan import target as targets
from lumijit.compiler.plan.program import STREAMING_FROM
from lumijit.compiler.record import folds, glances, memory, rows
from lumijit.runtime import buffers, device, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.device import away
from lumijit.runtime.dtypes import BOOL, FLOAT16, FLOAT32, UINT32, DType
from lumijit.runtime.errors import SizeError, SymbolicError
from lumijit.runtime.workers import sync

# The lengths of rows that are combined at once, where runs are many and few; and from
# how many bytes on they are computed in the kernel that combines them, in which each
# row takes a whole packet.
MANY_ROW, LONG_ROW = 256, 1 << 13
FOLDED_ROW_BYTES = 96
# The columns of short rows are scanned in pieces, if there are so many entries.
CUT_FROM, CUT_ROW_BYTES, PIECES = 1 << 16, 2048, 64
# Runs so few that they are combined in pieces, where these are so long.
FEW_IN_PIECES, LONG_PIECE = 32, 1 << 16
#: What combines two values.
OPS = {
    "add": ar.ADD,
    "mul": ar.MUL,
    "min": ar.MIN,
    "max": ar.MAX,
    "and": lo.AND,
    "or": lo.OR,
}


def evaluated(node: Node) -> Buffer:
    """Return a node's memory, evaluating it if need be."""
    if node.op is not EVALUATED:
        node = evaluate.opaque(node)
    if away:
        placement.bring(node)
    assert node.buffer is not None
    node.buffer.check_intact()
    return node.buffer


def reduce(op: str, node: Node) -> Node:
    """Combine all entries to one; an empty array gives the neutral value."""
    t = node.type
    if node.size == 0:
        return literal(t, t.wrap(identity(op, t)))
    if node.size == 1:
        check_lane("reduce", node)
        return node
    if node.op is LITERAL:
        return _reduce_literal(op, node)
    if t is FLOAT16 and op in ("add", "mul"):
        return trace.cast_to(reduce(op, trace.cast_to(node, FLOAT32)), FLOAT16)
    if placement.used and placement.is_elsewhere(node):
        return placement.run_there(reduce, op, node)
    if glances.can_look(node):
        seen = glances.combined(op, evaluated(node), node.size)
        if seen is not None:
            return from_buffer(t, buffers.filled(b"\1" if seen else b"\0"), 1)
    collectives = targets.collectives()
    kernel = named_kernels.get(f"reduce_{op}_{t.short}", collectives.reduce_ir, op, t)
    block = collectives.REDUCE_BLOCK
    blocks = -(-node.size // block)
    result = device.allocate(t.size_bytes)
    if blocks == 1:
        _reduce_launch(kernel, evaluated(node), result, node.size, node.size)
    else:
        partial = device.allocate(t.size_bytes * blocks)
        if folds.is_folded(node):
            folds.fold_runs(op, node, partial, block)
        else:
            _reduce_launch(kernel, evaluated(node), partial, node.size, block)
        _reduce_launch(kernel, partial, result, blocks, blocks)
    return from_buffer(t, result, 1)


def is_any_set(mask: Node) -> bool:
    """Compute a mask and tell, waiting for it, whether any entry is set."""
    if mask.op is EVALUATED and mask.size > 1:
        sync()
        if glances.can_look(mask):
            seen = glances.combined("or", evaluated(mask), mask.size)
            if seen is not None:
                return seen
    found = evaluated(reduce("or", mask))
    workers.sync()
    found.check_intact()
    return bool(buffers.entry(found, BOOL, 0))


def reduce_symbolically(op: str, node: Node, block: int = 0, inner: int = 1) -> Node:
    """Combine all entries, or those of each block, in the kernel that computes them."""
    t = node.type
    if node.size == 0 or node.op is LITERAL:
        return block_reduce(op, node, block, inner) if block else reduce(op, node)
    if t is FLOAT16 and op in ("add", "mul"):
        wide = reduce_symbolically(op, trace.cast_to(node, FLOAT32), block, inner)
        return trace.cast_to(wide, FLOAT16)
    if trace.is_symbolic(node):
        raise SymbolicError(
            "symbolic reduction",
            "a symbolic variable can't be reduced to a value inside of its region: "
            "the other entries are computed later",
            "use lumijit.scatter_reduce on an array made before the region, and "
            "read it afterwards.",
        )
    count = node.size // block if block else 1
    total = Holder(literal(t, t.wrap(identity(op, t)), count))
    place = result_place(node.size, block, inner) if block else literal(UINT32, 0)
    with trace.unmasked():
        always = trace.make_true(1)
        place, always = memory.aim(total, place, always, "reduce", is_inside=True)
        memory.update(total, node, place, always, op)
    return total._node


def check_lane(construct: str, node: Node) -> None:
    """Refuse to combine the entries of an array of which one lane is known."""
    if trace.running_lanes and trace.state.lane is not None and node.size == 1:
        trace.state.lane.refuse_reduction(construct)


def _reduce_launch(
    kernel: named_kernels.SpecialKernel,
    source: Buffer,
    target: Buffer,
    size: int,
    block: int,
) -> None:
    args = struct.pack("<2Qq", source.address, target.address, max(block, 1))
    named_kernels.launch(
        kernel,
        args,
        size,
        block,
        inline_limit=block,
        writes=(target,),
    )


def _reduce_literal(op: str, node: Node) -> Node:
    t = node.type
    value = node.attr
    if op == "add":
        if t.is_float:
            exact = float(np.float64(value) * node.size)
            return literal(t, t.wrap(exact))
        return literal(t, t.wrap(value * node.size))
    if op == "mul":
        with np.errstate(all="ignore"):
            power = (
                float(np.power(np.float64(value), node.size))
                if t.is_float
                else pow(int(value), node.size, 1 << t.bits)
            )
        return literal(t, t.wrap(power))
    return literal(t, value)


def result_place(size: int, block: int, inner: int) -> Node:
    """Return where the result of its block lies, for each entry of an array."""
    counter = trace.counter(size)
    run = trace.emit2(ar.INT_DIV, counter, literal(UINT32, block * inner))
    if inner == 1:
        return run
    column = trace.emit2(ar.MOD, counter, literal(UINT32, inner))
    return trace.emit3(ar.FMA, run, literal(UINT32, inner), column)


def block_reduce(op: str, node: Node, block: int, inner: int = 1) -> Node:
    """Combine each run of `block` entries, or of `block` rows of `inner` entries."""
    t = node.type
    check_lane("block_reduce", node)
    if block < 1 or node.size % (block * inner):
        raise SizeError(
            "block_reduce",
            f"the array's size {node.size} is no multiple of the block size {block}",
            "choose a block size that divides the size.",
        )
    if block == 1:
        return node
    if node.op is LITERAL:
        total = _reduce_literal(op, literal(t, node.attr, block))
        return literal(t, total.attr, node.size // block)
    if t is FLOAT16 and op in ("add", "mul"):
        wide = block_reduce(op, trace.cast_to(node, FLOAT32), block, inner)
        return trace.cast_to(wide, FLOAT16)
    if inner > 1:
        return _reduce_rows(op, node, block, inner)
    count = node.size // block
    if placement.used and placement.is_elsewhere(node):
        return placement.run_there(block_reduce, op, node, block)
    if count <= glances.FEW_RUNS and glances.can_look(node):
        seen = glances.combined_runs(op, evaluated(node), block, count)
        if seen is not None:
            return from_buffer(t, buffers.filled(seen), count)
    pieces = _pieces(block, count)
    if pieces > 1:
        parts = block_reduce(op, node, block // pieces)
        return block_reduce(op, parts, pieces)
    result = device.allocate(t.size_bytes * count)
    if folds.has_runs(node, block) and folds.is_folded(node):
        folds.fold_runs(op, node, result, block)
        return from_buffer(t, result, count)
    source = evaluated(node)
    collectives = targets.collectives()
    how, write, shape = collectives.blocks_by(t, block)
    name = f"block_reduce_{op}_{t.short}_{how}"
    kernel = named_kernels.get(name, write, op, t, shape)
    args = struct.pack("<2Qq", source.address, result.address, block)
    step = max(1, collectives.REDUCE_BLOCK // block)
    if step > 64:
        # Whole packets of the results of short runs: nobody else's are written.
        step -= step % 64
    named_kernels.launch(kernel, args, count, step, 65536 // block, (result,))
    return from_buffer(t, result, count)


def _pieces(block: int, count: int) -> int:
    """Return how many equal pieces of a run are combined first: a thread takes one."""
    if not 0 < count <= FEW_IN_PIECES:
        return 1
    most = min(2 * FEW_IN_PIECES // count, block // LONG_PIECE)
    return next((k for k in range(most, 1, -1) if block % k == 0), 1)


def prefix(op: str, node: Node, exclusive: bool) -> Node:
    """Combine all entries before each (exclusive) or up to each (inclusive)."""
    t = node.type
    size = node.size
    if size == 0:
        return node
    check_lane("prefix_sum", node)
    if t is FLOAT16:
        wide = prefix(op, trace.cast_to(node, FLOAT32), exclusive)
        return trace.cast_to(wide, FLOAT16)
    if placement.used and placement.is_elsewhere(node):
        return placement.run_there(prefix, op, node, exclusive)
    source = evaluated(node)
    result = device.allocate(t.size_bytes * size)
    collectives = targets.collectives()
    kind = "exclusive" if exclusive else "inclusive"
    is_streaming = 2 * t.size_bytes * size >= STREAMING_FROM
    kernel = named_kernels.get(
        f"scan_{op}_{kind}_{t.short}{'_streaming' if is_streaming else ''}",
        lambda name: collectives.scan_ir(name, op, t, exclusive, is_streaming),
    )
    block = collectives.scan_block(t)
    sums, ready = _sums(t, -(-size // block))
    if size < block:
        block = size
    args = struct.pack(
        "<4Qq", source.address, result.address, sums.address, ready.address, block
    )
    named_kernels.launch(kernel, args, size, block, block, (result,))
    return from_buffer(t, result, size)


def _sums(t: DType, blocks: int) -> tuple[Buffer, Buffer]:
    """Return memory for what blocks tell each other: two results each, two words."""
    ready = device.allocate(16 * blocks)
    if blocks > 1:
        transfer.fill(ready, UINT32, 0, 4 * blocks)
    return device.allocate(2 * t.size_bytes * blocks), ready


def _reduce_rows(op: str, node: Node, block: int, inner: int) -> Node:
    """Combine runs of rows: some to one long row, that again, few by a program."""
    t = node.type
    if placement.used and placement.is_elsewhere(node):
        return placement.run_there(_reduce_rows, op, node, block, inner)
    runs = node.size // (block * inner)
    # As long as gives all threads work, but much shorter than what is combined.
    wanted = min(max(LONG_ROW // runs, MANY_ROW), block * inner // 16)
    row = max(1, wanted // inner) * inner
    is_folded = _is_folded(node, row)
    if block <= rows.FEW and not is_folded:
        total, *others = rows.few(node, block, inner)
        if t.is_float and op in ("min", "max"):
            # NaN is passed over where it is the first operand.
            others.insert(0, total)
            total = literal(t, identity(op, t))
        for entry in others:
            total = trace.emit2(OPS[op], entry, total)
        return total
    count = runs * row
    result = device.allocate(t.size_bytes * count)
    if is_folded:
        folds.fold_rows(op, node, result, count, row, block * inner)
    else:
        source = evaluated(node)
        kernel = named_kernels.get(
            f"reduce_rows_{op}_{t.short}", targets.collectives().rows_ir, op, t
        )
        args = struct.pack("<2Q2q", source.address, result.address, row, block * inner)
        limit = max(1, 4096 * row // (block * inner))
        named_kernels.launch(kernel, args, count, folds.ROW_BLOCK, limit, (result,))
    return block_reduce(op, from_buffer(t, result, count), row // inner, inner)


def _is_folded(node: Node, row: int) -> bool:
    """Tell whether entries of rows of a length are combined where they are computed."""
    size_bytes = node.type.size_bytes
    # Bytes are written faster than they are added to totals.
    if size_bytes == 1 or row * size_bytes < FOLDED_ROW_BYTES:
        return False
    return folds.is_folded(node)


def block_prefix(
    op: str, node: Node, block: int, exclusive: bool, inner: int = 1
) -> Node:
    """Combine the entries before or up to each, within its run of `block` entries.

    What is `inner` entries apart makes a run.
    """
    t = node.type
    if block == node.size:
        return prefix(op, node, exclusive)
    check_lane("block_prefix_reduce", node)
    if t is FLOAT16:
        wide = block_prefix(op, trace.cast_to(node, FLOAT32), block, exclusive, inner)
        return trace.cast_to(wide, FLOAT16)
    if placement.used and placement.is_elsewhere(node):
        return placement.run_there(block_prefix, op, node, block, exclusive, inner)
    if inner > 1:
        return _scan_columns(op, node, block, exclusive, inner)
    source = evaluated(node)
    result = device.allocate(t.size_bytes * node.size)
    kind = "exclusive" if exclusive else "inclusive"
    collectives = targets.collectives()
    how, write = collectives.runs_by(block)
    name = f"block_scan_{op}_{kind}_{t.short}_{how}"
    kernel = named_kernels.get(name, write, op, t, exclusive)
    args = struct.pack("<2Qq", source.address, result.address, block)
    step = max(1, collectives.scan_block(t) // block)
    named_kernels.launch(kernel, args, node.size // block, step, step, (result,))
    return from_buffer(t, result, node.size)


def _scan_columns(op: str, node: Node, block: int, exclusive: bool, inner: int) -> Node:
    """Combine the entries of each column before or up to each, run by run of rows."""
    t, size = node.type, node.size
    collectives = targets.collectives()
    write, describe = collectives.columns_ir, collectives.columns_by
    if write is None or describe is None:
        turned = rows.side_by_side(node, block, inner)
        found = block_prefix(op, turned, block, exclusive)
        return rows.side_by_side(found, inner, block)
    source = evaluated(node)
    runs, length, before = size // (block * inner), block, None
    if runs == 1 and size >= CUT_FROM and inner * t.size_bytes < CUT_ROW_BYTES:
        # Pieces of the run are scanned at the same time, each from the sum of those
        # before.
        length = -(-block // PIECES)
        runs = -(-block // length)
        whole = from_buffer(t, source, (runs - 1) * length * inner)
        sums = block_reduce(op, whole, length, inner)
        before = evaluated(block_prefix(op, sums, runs - 1, False, inner))
    result = device.allocate(t.size_bytes * size)
    kind = "exclusive" if exclusive else "inclusive"
    how, parts = describe(t, inner)
    name = f"column_scan_{op}_{kind}_{t.short}_{how}"
    kernel = named_kernels.get(name, write, op, t, exclusive, how)
    addresses = source.address, result.address, before.address if before else 0
    args = struct.pack("<3Q4q", *addresses, inner, length, size // inner, parts)
    step = max(1, collectives.scan_block(t) * parts // (length * inner))
    named_kernels.launch(kernel, args, runs * parts, step, step, (result,))
    return from_buffer(t, result, size)


def compress(mask: Node) -> Node:
    """Return the indices of the set entries; waits for the mask."""
    size = mask.size
    check_lane("compress", mask)
    if size == 0:
        return from_buffer(UINT32, device.allocate(0), 0)
    if placement.used and placement.is_elsewhere(mask):
        return placement.run_there(compress, mask)
    source = evaluated(mask)
    result = device.allocate(4 * size)
    count = device.allocate(4)
    collectives = targets.collectives()
    block = collectives.scan_block(UINT32)
    sums, ready = _sums(UINT32, -(-size // block))
    kernel = named_kernels.get("compress", collectives.compress_ir)
    args = struct.pack(
        "<4Q2qQ",
        source.address,
        result.address,
        sums.address,
        ready.address,
        block,
        size,
        count.address,
    )
    writes = (result, count)
    named_kernels.launch(kernel, args, size, block, block, writes)
    workers.sync()
    count.check_intact()
    total = int(buffers.entry(count, UINT32, 0))
    return from_buffer(UINT32, result, total)
