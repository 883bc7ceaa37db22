"""A kernel that scans runs whose entries don't lie side by side: columns of rows.

Rows are walked down, and each is the one before combined with one of the source.
"""

from __future__ import annotations

from lumijit.compiler.emit.combine import combine_text
from lumijit.compiler.lower.collectives.pieces import (
    VECTOR_BYTES,
    below,
    each,
    masked_store,
)
from lumijit.compiler.lower.collectives.scan import first_value
from lumijit.runtime.dtypes import DType

# Columns of a row that are scanned at a time: two rows of them stay in the first cache.
_MOST_BYTES = 2048
# So many parts of a row keep the threads busy.
_PARTS = 16


def columns_by(t: DType, row: int) -> tuple[str, int]:
    """Return how rows are scanned: a name, and in how many parts of a row.

    Rows of less than a vector are one part, whose totals are kept in a register.
    """
    row_bytes = row * t.size_bytes
    if row_bytes < VECTOR_BYTES:
        width_bytes = max(16, 1 << (row_bytes - 1).bit_length())
        return f"short{width_bytes}", 1
    parts = max(-(-row_bytes // _MOST_BYTES), min(_PARTS, row_bytes // 512))
    return "long", max(1, parts)


def columns_ir(name: str, op: str, t: DType, exclusive: bool, how: str) -> str:
    """Scan the columns of runs of rows, in parts of a row.

    An element is a part of the rows of a run; of run r, those from r * length on, up to
    `rows`. Slots: src, dst, before, row, length, rows, parts. If `before` isn't null,
    run r > 0 begins with row r - 1 there.
    """
    write = _short if how.startswith("short") else _long
    width_bytes = int(how[5:]) if write is _short else VECTOR_BYTES
    width = width_bytes // t.size_bytes
    ty = f"<{width} x {t.memory_llvm}>"
    body = f"""  %r = udiv i64 %e, %parts
  %r.e = mul i64 %r, %parts
  %p = sub i64 %e, %r.e
  %p.n = add i64 %p, 1
  %j0 = mul i64 %p, %row
  %j = udiv i64 %j0, %parts
  %j1 = mul i64 %p.n, %row
  %j.end = udiv i64 %j1, %parts
  %n = sub i64 %j.end, %j
  %top = mul i64 %r, %length
  %ahead = sub i64 %rows, %top
  %count = call i64 @llvm.umin.i64(i64 %ahead, i64 %length)
  %top.at = mul i64 %top, %row
  %base = add i64 %top.at, %j
  %is.first = icmp eq i64 %r, 0
  %no.before = icmp eq ptr %before, null
  %is.none = or i1 %is.first, %no.before
  %r.before = sub i64 %r, 1
  %b.at = mul i64 %r.before, %row
  %b.j = add i64 %b.at, %j
  %b.from = getelementptr {t.memory_llvm}, ptr %before, i64 %b.j
{write(op, t, ty, width, exclusive)}
done:"""
    slots = "src dst before row:i64 length:i64 rows:i64 parts:i64"
    setup = """  %end.e = udiv i64 %end, %parts
  %end.row0 = mul i64 %end.e, %length
  %end.row = call i64 @llvm.umin.i64(i64 %end.row0, i64 %rows)
  %limit = mul i64 %end.row, %row"""
    store = masked_store(t, width)
    return f"""declare i64 @llvm.umin.i64(i64, i64)
declare void {store}({ty}, ptr, i32, <{width} x i1>)
{each(name, slots, body, setup, last="done")}"""


def _short(op: str, t: DType, ty: str, width: int, exclusive: bool) -> str:
    """Walk down rows of less than a vector.

    What is written beyond a row is written over by the next one. Where no other row
    of this thread comes, it isn't written.
    """
    element, size = t.memory_llvm, t.size_bytes
    nothing = f"splat ({element} {first_value(op, t)})"

    def walk(k: str, start: str, stop: str, come: str, to: str, store: str) -> str:
        return f"""{k}.begin:
  %{k}.is = icmp ult i64 {start}, {stop}
  br i1 %{k}.is, label %{k}, label %{to}
{k}:
  %{k}.i = phi i64 [ {start}, %{k}.begin ], [ %{k}.i.n, %{k} ]
  %{k}.upto = phi {ty} [ {come}, %{k}.begin ], [ %{k}.sum, %{k} ]
  %{k}.row = mul i64 %{k}.i, %row
  %{k}.k = add i64 %{k}.row, %base
  %{k}.from = getelementptr {element}, ptr %src, i64 %{k}.k
  %{k}.x = load {ty}, ptr %{k}.from, align {size}
{combine_text(op, t, ty, f"{k}.sum", f"%{k}.upto", f"%{k}.x")}
  %{k}.to = getelementptr {element}, ptr %dst, i64 %{k}.k
  {store.format(ty=ty, y=f"%{k}.{'upto' if exclusive else 'sum'}", to=f"%{k}.to")}
  %{k}.i.n = add i64 %{k}.i, 1
  %{k}.more = icmp ult i64 %{k}.i.n, {stop}
  br i1 %{k}.more, label %{k}, label %{to}"""

    plain = f"store {{ty}} {{y}}, ptr {{to}}, align {size}"
    masked = (
        f"call void {masked_store(t, width)}({{ty}} {{y}}, ptr {{to}}, i32 {size}, "
        f"<{width} x i1> %in)"
    )
    return f"""  br i1 %is.none, label %ready, label %old
old:
  %b = load {ty}, ptr %b.from, align {size}
  br label %ready
ready:
  %c0 = phi {ty} [ {nothing}, %next ], [ %b, %old ]
{below("in", width, "%row")}
  %span = sub i64 %limit, %base
  %room = sub i64 %span, {width}
  %has.room = icmp sge i64 %room, 0
  %room.any = select i1 %has.room, i64 %room, i64 0
  %fits0 = udiv i64 %room.any, %row
  %fits1 = add i64 %fits0, 1
  %fits2 = call i64 @llvm.umin.i64(i64 %fits1, i64 %count)
  %fits = select i1 %has.room, i64 %fits2, i64 0
  br label %m.begin
{walk("m", "0", "%fits", "%c0", "mid", plain)}
mid:
  %c1 = phi {ty} [ %c0, %m.begin ], [ %m.sum, %m ]
  br label %l.begin
{walk("l", "%fits", "%count", "%c1", "done", masked)}"""


def _long(op: str, t: DType, ty: str, width: int, exclusive: bool) -> str:
    """Walk down rows of a vector and more; the last vector overlaps the one before."""
    element, size = t.memory_llvm, t.size_bytes
    nothing = f"splat ({element} {first_value(op, t)})"

    def across(k: str, before: str, text: str, to: str) -> str:
        """Go through the vectors of a row, up to the one that ends with it."""
        return f"""{k}.row:
  br label %{k}
{k}:
  %{k}.v = phi i64 [ 0, %{k}.row ], [ %{k}.v.n, %{before} ]
{text}
  %{k}.v1 = add i64 %{k}.v, {width}
  %{k}.v.n = call i64 @llvm.umin.i64(i64 %{k}.v1, i64 %final)
  %{k}.more = icmp ult i64 %{k}.v, %final
  br i1 %{k}.more, label %{k}, label %{to}"""

    first = f"""  br i1 %is.none, label %f.some, label %f.old
f.old:
  %f.b.at = getelementptr {element}, ptr %b.from, i64 %f.v
  %f.b = load {ty}, ptr %f.b.at, align {size}
  br label %f.some
f.some:
  %f.c = phi {ty} [ {nothing}, %f ], [ %f.b, %f.old ]
  %f.from = getelementptr {element}, ptr %s0, i64 %f.v
  %f.x = load {ty}, ptr %f.from, align {size}
{combine_text(op, t, ty, "f.sum", "%f.c", "%f.x")}
  %f.to = getelementptr {element}, ptr %d0, i64 %f.v
  store {ty} %f.{"c" if exclusive else "sum"}, ptr %f.to, align {size}"""
    # An exclusive sum takes up the row before its own.
    other = f"""  %y.up = getelementptr {element}, ptr %d.old, i64 %y.v
  %y.c = load {ty}, ptr %y.up, align {size}
  %y.from = getelementptr {element}, ptr %s, i64 %y.v
  %y.x = load {ty}, ptr %y.from, align {size}
{combine_text(op, t, ty, "y.sum", "%y.c", "%y.x")}
  %y.to = getelementptr {element}, ptr %d, i64 %y.v
  store {ty} %y.sum, ptr %y.to, align {size}"""
    return f"""  %final = sub i64 %n, {width}
  %s0 = getelementptr {element}, ptr %src, i64 %base
  %d0 = getelementptr {element}, ptr %dst, i64 %base
  br label %f.row
{across("f", "f.some", first, "rest")}
rest:
  %is.rest = icmp ugt i64 %count, 1
  br i1 %is.rest, label %down, label %done
down:
  %i = phi i64 [ 1, %rest ], [ %i.n, %down.end ]
  %d.old = phi ptr [ %d0, %rest ], [ %d, %down.end ]
  %s.old = phi ptr [ %s0, %rest ], [ %s.next, %down.end ]
  %d = getelementptr {element}, ptr %d.old, i64 %row
  %s.next = getelementptr {element}, ptr %s.old, i64 %row
  %s = getelementptr i8, ptr {"%s.old" if exclusive else "%s.next"}, i64 0
  br label %y.row
{across("y", "y", other, "down.end")}
down.end:
  %i.n = add i64 %i, 1
  %down.more = icmp ult i64 %i.n, %count
  br i1 %down.more, label %down, label %done"""
