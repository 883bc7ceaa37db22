"""A kernel that multiplies matrices, tile by tile, in registers.

The second factor comes as panels of `columns` columns, one after the other and filled
up with zeros, so that a tile reads one run of memory. The first is read as it lies.
"""

from __future__ import annotations

from lumijit.compiler.lower.collectives import pieces
from lumijit.runtime.dtypes import DType

_ROWS = 6
# Tiles below each other that share a panel while it is in the caches.
_GROUP = 16


def tile_shape(t: DType) -> tuple[int, int]:
    """Return how many rows and columns of the result are computed together."""
    return _ROWS, pieces.vector_lanes(t)


def product_ir(name: str, t: DType) -> str:
    """Set c[b, i, j] to the sum over l of a[b, i, l] * panels[b, j / …, l, j % …].

    The elements are tiles of c. Slots: a, panels, c, rows, columns, length of the
    sum, steps of a along rows and along the sum, tiles below and beside each other.
    """
    element = t.memory_llvm
    rows, width = tile_shape(t)
    ty = f"<{width} x {element}>"
    store = pieces.masked_store(t, width)
    suffix = f"v{width}f{t.bits}"
    fma = f"declare {ty} @llvm.fma.{suffix}({ty}, {ty}, {ty})" if t.is_float else ""
    setup = f"""  %tiles = mul i64 %tall, %wide
  %last = sub i64 %m, 1
  %mk = mul i64 %m, %k
  %mn = mul i64 %m, %n
  %panel = mul i64 %k, {width}
  %group = mul i64 %wide, {_GROUP}"""
    body = f"""  %b = udiv i64 %e, %tiles
  %in = urem i64 %e, %tiles
  %g = udiv i64 %in, %group
  %in.group = urem i64 %in, %group
  %first = mul i64 %g, {_GROUP}
  %below = sub i64 %tall, %first
  %high = call i64 @llvm.umin.i64(i64 %below, i64 {_GROUP})
  %j = udiv i64 %in.group, %high
  %i.in = urem i64 %in.group, %high
  %i = add i64 %first, %i.in
  %row = mul i64 %i, {rows}
  %column = mul i64 %j, {width}
  %a.b = mul i64 %b, %mk
  %a.from = getelementptr {element}, ptr %a, i64 %a.b
  %p.b = mul i64 %b, %wide
  %p.j = add i64 %p.b, %j
  %p.at = mul i64 %p.j, %panel
  %p.from = getelementptr {element}, ptr %panels, i64 %p.at
{_row_pointers(element, rows)}
  br label %body
body:
  %l = phi i64 [ 0, %next ], [ %l.n, %body ]
{_totals(t, ty, rows)}
  %p.l = mul i64 %l, {width}
  %p.ptr = getelementptr {element}, ptr %p.from, i64 %p.l
  %y = load {ty}, ptr %p.ptr, align {t.size_bytes}
  %a.l = mul i64 %l, %step.sum
{_products(t, ty, width, rows, suffix)}
  %l.n = add i64 %l, 1
  %more = icmp ult i64 %l.n, %k
  br i1 %more, label %body, label %write
write:
  %left = sub i64 %n, %column
{pieces.below("inside", width, "%left")}
  %c.b = mul i64 %b, %mn
  %c.j = add i64 %c.b, %column
{_writes(element, ty, width, rows, store, t.size_bytes)}
  br label %done
done:"""
    numbers = "m:i64 n:i64 k:i64 step.row:i64 step.sum:i64 tall:i64 wide:i64"
    kernel = pieces.each(name, f"a panels c {numbers}", body, setup, last="done")
    return f"""declare void {store}({ty}, ptr, i32, <{width} x i1>)
declare i64 @llvm.umin.i64(i64, i64)
{fma}
{kernel}"""


def _row_pointers(element: str, rows: int) -> str:
    """Find the rows of the first factor; those behind the last are the last one."""
    return "\n".join(
        f"""  %r{r} = add i64 %row, {r}
  %r{r}.in = call i64 @llvm.umin.i64(i64 %r{r}, i64 %last)
  %r{r}.at = mul i64 %r{r}.in, %step.row
  %r{r}.ptr = getelementptr {element}, ptr %a.from, i64 %r{r}.at"""
        for r in range(rows)
    )


def _totals(t: DType, ty: str, rows: int) -> str:
    return "\n".join(
        f"  %t{r} = phi {ty} [ zeroinitializer, %next ], [ %t{r}.n, %body ]"
        for r in range(rows)
    )


def _products(t: DType, ty: str, width: int, rows: int, suffix: str) -> str:
    element = t.memory_llvm
    lines = []
    for r in range(rows):
        lines.append(
            f"""  %x{r}.ptr = getelementptr {element}, ptr %r{r}.ptr, i64 %a.l
  %x{r}.in = load {element}, ptr %x{r}.ptr, align {t.size_bytes}
{pieces.spread(f"x{r}", width, element, f"%x{r}.in")}"""
        )
        if t.is_float:
            call = f"call {ty} @llvm.fma.{suffix}"
            lines.append(f"  %t{r}.n = {call}({ty} %x{r}, {ty} %y, {ty} %t{r})")
        else:
            lines.append(f"  %t{r}.p = mul {ty} %x{r}, %y")
            lines.append(f"  %t{r}.n = add {ty} %t{r}, %t{r}.p")
    return "\n".join(lines)


def _writes(
    element: str, ty: str, width: int, rows: int, store: str, alignment: int
) -> str:
    """Write the rows of a tile that are inside of the result."""
    mask = f"<{width} x i1>"
    return "\n".join(
        f"""  %w{r}.is = icmp ult i64 %r{r}, %m
  %w{r}.in = select i1 %w{r}.is, {mask} %inside, {mask} zeroinitializer
  %w{r}.at = mul i64 %r{r}.in, %n
  %w{r}.to = add i64 %w{r}.at, %c.j
  %w{r}.ptr = getelementptr {element}, ptr %c, i64 %w{r}.to
  call void {store}({ty} %t{r}.n, ptr %w{r}.ptr, i32 {alignment}, {mask} %w{r}.in)"""
        for r in range(rows)
    )
