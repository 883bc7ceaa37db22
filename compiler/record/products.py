"""Products of matrices that lie in memory, by a kernel of their own."""

from __future__ import annotations

import struct
from typing import NamedTuple

from lumijit.compiler.ir import placement, trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.trace import from_buffer, literal
from lumijit.compiler.launch import named_kernels
from lumijit.compiler.plan import target as targets
from lumijit.compiler.record import memory
from lumijit.compiler.record.reductions import check_lane, evaluated
from lumijit.compiler.record.rows import parts
from lumijit.runtime import device
from lumijit.runtime.dtypes import FLOAT16, FLOAT32, UINT32

# About how many multiplications a block of a launch, and one without threads, has.
_BLOCK, _SMALL = 1 << 22, 1 << 17


class Sizes(NamedTuple):
    """The shapes of factors: a `batch` of (rows, inner) and of (inner, columns).

    A factor that is `turned` lies in memory with its columns as rows.
    """

    batch: int
    rows: int
    inner: int
    columns: int
    is_first_turned: bool = False
    is_second_turned: bool = False


def matmul(a: Node, b: Node, sizes: Sizes) -> Node:
    """Multiply matrices."""
    t = a.type
    size = sizes.batch * sizes.rows * sizes.columns
    check_lane("matmul", a)
    if size == 0 or sizes.inner == 0:
        return literal(t, t.wrap(0), size)
    if t is FLOAT16:
        product = matmul(trace.cast_to(a, FLOAT32), trace.cast_to(b, FLOAT32), sizes)
        return trace.cast_to(product, FLOAT16)
    if placement.used and placement.is_elsewhere(a, b):
        return placement.run_there(matmul, a, b, sizes)
    collectives = targets.collectives()
    height, width = collectives.tile_shape(t)
    tall, wide = -(-sizes.rows // height), -(-sizes.columns // width)
    first, panels = evaluated(a), evaluated(_panels(b, sizes, width, wide))
    result = device.allocate(t.size_bytes * size)
    kernel = named_kernels.get(f"matmul_{t.short}", collectives.product_ir, t)
    steps = (1, sizes.rows) if sizes.is_first_turned else (sizes.inner, 1)
    args = struct.pack(
        "<3Q7q",
        *(first.address, panels.address, result.address),
        *(sizes.rows, sizes.columns, sizes.inner, *steps, tall, wide),
    )
    tile = height * width * sizes.inner
    tiles = sizes.batch * tall * wide
    block = max(1, _BLOCK // tile)
    named_kernels.launch(kernel, args, tiles, block, _SMALL // tile, (result,))
    return from_buffer(t, result, size)


def _panels(node: Node, sizes: Sizes, width: int, wide: int) -> Node:
    """Put `width` columns at a time behind each other, row by row; fill up by zeros."""
    inner, columns = sizes.inner, sizes.columns
    place, column = parts(trace.counter(sizes.batch * wide * inner * width), width)
    place, row = parts(place, inner)
    if sizes.batch > 1:
        count, panel = parts(place, wide)
        start = trace.emit2(ar.MUL, count, literal(UINT32, inner * columns))
    else:
        panel, start = place, literal(UINT32, 0)
    column = trace.emit3(ar.FMA, panel, literal(UINT32, width), column)
    steps = (1, inner) if sizes.is_second_turned else (columns, 1)
    for number, step in zip((row, column), steps, strict=True):
        start = trace.emit3(ar.FMA, number, literal(UINT32, step), start)
    mask = trace.emit2(lo.LT, column, literal(UINT32, columns))
    if columns % width == 0:
        mask = trace.make_true(1)
    return memory.entries(node, start, mask)
