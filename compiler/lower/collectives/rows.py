"""A kernel that combines rows of entries: sums over an axis that isn't the last.

Rows are taken a few at a time and added to totals on the stack, in order.
"""

from __future__ import annotations

from lumijit.compiler.emit.combine import combine_text
from lumijit.compiler.lower.collectives.pieces import (
    below,
    each,
    lanes,
    masked_store,
    neutral,
    vector_lanes,
)
from lumijit.runtime.dtypes import DType

_TILE_BYTES = 4096
# Rows that are read at once.
_ROWS = 4


def rows_ir(name: str, op: str, t: DType) -> str:
    """Set dst[o * row + j] to the combination of src[o * period + i * row + j].

    That is for all i for which i * row + j is below the period; there is one at least.
    Slots: src, dst, row, period.
    """
    ty = f"<{vector_lanes(t)} x {t.memory_llvm}>"
    body = f"""{tile_start(op, t, "next", "many")}
many:
  %several = sub i64 %count, {_ROWS - 1}
  %is.several = icmp sgt i64 %several, 0
  br i1 %is.several, label %fours, label %single
{_rows("fours", op, t, ty, "%many", "0", "%several", "%n", _ROWS, "single")}
single:
  %from = phi i64 [ 0, %many ], [ %fours.i.n, %fours.end ]
  %is.single = icmp ult i64 %from, %count
  br i1 %is.single, label %ones, label %partial
{_rows("ones", op, t, ty, "%single", "%from", "%count", "%n", 1, "partial")}
partial:
  %is.partial = icmp ne i64 %last, 0
  %count.n = add i64 %count, 1
  br i1 %is.partial, label %part, label %write
{_rows("part", op, t, ty, "%partial", "%count", "%count.n", "%last", 1, "write", True)}
{tile_end(t)}"""
    slots = "src dst row:i64 period:i64"
    kernel = each(name, slots, body, totals(t), "%n", "done")
    return "\n".join([*declarations(t), kernel])


def totals(t: DType) -> str:
    """Reserve room for the totals of a tile of columns, and a packet more."""
    room = _TILE_BYTES // t.size_bytes + lanes(t)
    return f"""  %totals = alloca [{room} x {t.memory_llvm}], align 64
  %count = udiv i64 %period, %row
  %whole = mul i64 %count, %row
  %rest = sub i64 %period, %whole"""


def tile_start(op: str, t: DType, before: str, after: str) -> str:
    """Find the %n columns from result %e on, and clear their totals.

    Row i of them begins at %base + i * %row; %count of them are whole, of one more
    there are %last columns.
    """
    element = t.memory_llvm
    width = vector_lanes(t)
    ty = f"<{width} x {element}>"
    return f"""  %o = udiv i64 %e, %row
  %o.row = mul i64 %o, %row
  %j = sub i64 %e, %o.row
  %left = sub i64 %row, %j
  %avail = sub i64 %end, %e
  %n0 = call i64 @llvm.umin.i64(i64 %left, i64 %avail)
  %n = call i64 @llvm.umin.i64(i64 %n0, i64 {_TILE_BYTES // t.size_bytes})
  %o.base = mul i64 %o, %period
  %base = add i64 %o.base, %j
  %ends = sub i64 %rest, %j
  %has.any = icmp sgt i64 %ends, 0
  %ends.any = select i1 %has.any, i64 %ends, i64 0
  %last = call i64 @llvm.umin.i64(i64 %ends.any, i64 %n)
  br label %clear
clear:
  %c = phi i64 [ 0, %{before} ], [ %c.n, %clear ]
  %c.at = getelementptr {element}, ptr %totals, i64 %c
  store {ty} splat ({element} {neutral(op, t)}), ptr %c.at, align {t.size_bytes}
  %c.n = add i64 %c, {width}
  %c.more = icmp ult i64 %c.n, %n
  br i1 %c.more, label %clear, label %{after}"""


def tile_end(t: DType) -> str:
    """Write the totals to the results, from block `write` on; ends in block `done`.

    What a vector has beyond them goes where the next totals will, if these are in hand.
    """
    element = t.memory_llvm
    width = vector_lanes(t)
    ty = f"<{width} x {element}>"
    store, size = masked_store(t, width), t.size_bytes
    return f"""write:
  %out = getelementptr {element}, ptr %dst, i64 %e
  br label %copy
copy:
  %w = phi i64 [ 0, %write ], [ %w.n, %copied ]
  %w.from = getelementptr {element}, ptr %totals, i64 %w
  %w.value = load {ty}, ptr %w.from, align {size}
  %w.to = getelementptr {element}, ptr %out, i64 %w
  %w.e = add i64 %e, %w
  %w.past = add i64 %w.e, {width}
  %w.fits = icmp ule i64 %w.past, %end
  br i1 %w.fits, label %copy.all, label %copy.some
copy.all:
  store {ty} %w.value, ptr %w.to, align {size}
  br label %copied
copy.some:
  %w.left = sub i64 %n, %w
{below("w.in", width, "%w.left")}
  call void {store}({ty} %w.value, ptr %w.to, i32 {size}, <{width} x i1> %w.in)
  br label %copied
copied:
  %w.n = add i64 %w, {width}
  %w.more = icmp ult i64 %w.n, %n
  br i1 %w.more, label %copy, label %done
done:"""


def declarations(t: DType) -> list[str]:
    """Declare what the text of a tile calls."""
    width = vector_lanes(t)
    ty = f"<{width} x {t.memory_llvm}>"
    return [
        f"declare void {masked_store(t, width)}({ty}, ptr, i32, <{width} x i1>)",
        "declare i64 @llvm.umin.i64(i64, i64)",
    ]


def _rows(
    label: str,
    op: str,
    t: DType,
    ty: str,
    before: str,
    start: str,
    stop: str,
    length: str,
    count: int,
    after: str,
    is_masked: bool = False,
) -> str:
    """Write a loop that combines rows into the totals, `count` at a time.

    They are the rows from `start` on, as long as their number is below `stop`, and of
    each the first entries, up to `length` or, unless `is_masked`, some more.
    """
    element = t.memory_llvm
    width = vector_lanes(t)
    k = label
    loads = []
    masking = []
    if is_masked:
        zero = f"{ty} splat ({element} {neutral(op, t)})"
        masking = [
            f"  %{k}.left = sub i64 {length}, %{k}.v",
            below(f"{k}.in", width, f"%{k}.left"),
            f"  %{k}.y = select <{width} x i1> %{k}.in, {ty} %{k}.x0, {zero}",
        ]
    total = f"%{k}.t"
    for row in range(count):
        loads += [
            f"  %{k}.at{row} = getelementptr {element}, ptr %{k}.p{row}, i64 %{k}.v",
            f"  %{k}.x{row} = load {ty}, ptr %{k}.at{row}, align {t.size_bytes}",
            *masking,
        ]
        entry = f"%{k}.y" if is_masked else f"%{k}.x{row}"
        loads.append(combine_text(op, t, ty, f"{k}.t{row}", total, entry))
        total = f"%{k}.t{row}"
    pointers = [
        f"""  %{k}.i{row} = add i64 %{k}.i, {row}
  %{k}.s{row} = mul i64 %{k}.i{row}, %row
  %{k}.b{row} = add i64 %{k}.s{row}, %base
  %{k}.p{row} = getelementptr {element}, ptr %src, i64 %{k}.b{row}"""
        for row in range(count)
    ]
    return f"""{k}:
  %{k}.i = phi i64 [ {start}, {before} ], [ %{k}.i.n, %{k}.end ]
{chr(10).join(pointers)}
  br label %{k}.body
{k}.body:
  %{k}.v = phi i64 [ 0, %{k} ], [ %{k}.v.n, %{k}.body ]
  %{k}.sum = getelementptr {element}, ptr %totals, i64 %{k}.v
  %{k}.t = load {ty}, ptr %{k}.sum, align {t.size_bytes}
{chr(10).join(loads)}
  store {ty} {total}, ptr %{k}.sum, align {t.size_bytes}
  %{k}.v.n = add i64 %{k}.v, {width}
  %{k}.v.more = icmp ult i64 %{k}.v.n, {length}
  br i1 %{k}.v.more, label %{k}.body, label %{k}.end
{k}.end:
  %{k}.i.n = add i64 %{k}.i, {count}
  %{k}.more = icmp ult i64 %{k}.i.n, {stop}
  br i1 %{k}.more, label %{k}, label %{after}"""
