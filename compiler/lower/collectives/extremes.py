"""A kernel that finds where runs of entries have their least or largest one.

A piece of a run is read twice, the second time from a cache: for its extreme, and up
to the first entry that is it.
"""

from __future__ import annotations

from lumijit.compiler.emit.builder import float_hex
from lumijit.compiler.emit.combine import combine_text
from lumijit.compiler.lower.collectives.pieces import (
    each,
    fold_lanes,
    lanes,
    neutral,
    tail_mask,
)
from lumijit.runtime.dtypes import DType

#: Entries of a piece, which stay in a cache.
EXTREME_BLOCK = 1 << 15


def extreme_ir(name: str, op: str, t: DType) -> str:
    """Set dst[r * pieces + p] to the place in its run of the extreme of piece p.

    Runs are src[r * run … (r + 1) * run), their pieces have `block` entries but for the
    last. Of equal entries it is the first one, and NaN is the largest. Slots: src, dst,
    run, block, pieces.
    """
    width = lanes(t)
    bits = f"i{width}"
    body = f"""  %r = udiv i64 %e, %pieces
  %r.first = mul i64 %r, %pieces
  %p = sub i64 %e, %r.first
  %first = mul i64 %p, %block
  %r.start = mul i64 %r, %run
  %start = add i64 %r.start, %first
  %ahead = sub i64 %run, %first
  %count = call i64 @llvm.umin.i64(i64 %ahead, i64 %block)
{tail_mask(t, width, "%count")}
  %full = add i64 %start, %whole
  %any = icmp ne i64 %whole, 0
  %odd = icmp ne i64 %rest.count, 0
{_extreme(op, t, width)}
look:
  br i1 %any, label %turn, label %last
turn:
  %s = phi i64 [ %start, %look ], [ %s.n, %go.on ]
{_found("s", op, t, width, "%s")}
  br i1 %s.is, label %found, label %go.on
go.on:
  %s.n = add i64 %s, {width}
  %s.more = icmp ult i64 %s.n, %full
  br i1 %s.more, label %turn, label %last
last:
  br i1 %odd, label %end.look, label %write
end.look:
{_found("l", op, t, width, "%full", "%in")}
  br i1 %l.is, label %found, label %write
found:
  %hits = phi {bits} [ %s.bits, %turn ], [ %l.bits, %end.look ]
  %near = phi i64 [ %s, %turn ], [ %full, %end.look ]
  %lane = call {bits} @llvm.cttz.{bits}({bits} %hits, i1 true)
  %lane.wide = {"add" if width == 64 else "zext"} {bits} %lane{_wide(width)}
  %from.run = sub i64 %near, %r.start
  %at.found = add i64 %from.run, %lane.wide
  br label %write
write:
  ; (If all are NaN, they are equal.)
  %at = phi i64 [ %at.found, %found ], [ %first, %last ], [ %first, %end.look ]
  %at.small = trunc i64 %at to i32
  %out = getelementptr i32, ptr %dst, i64 %e
  store i32 %at.small, ptr %out"""
    slots = "src dst run:i64 block:i64 pieces:i64"
    return f"""declare i64 @llvm.umin.i64(i64, i64)
declare {bits} @llvm.cttz.{bits}({bits}, i1)
{each(name, slots, body, last="write")}"""


def best_ir(name: str, op: str, t: DType) -> str:
    """Set dst[r] to the place in its run of the best of what was found in pieces.

    Slots: src, found (u32 places in their runs, of each run and piece), dst, run,
    pieces.
    """
    element = t.memory_llvm
    sign = "s" if t.is_signed else "u"
    better = f"icmp {sign}{'lt' if op == 'min' else 'gt'} {element} %x, %best"
    if t.is_bool:
        old, new = ("%best", "%x") if op == "min" else ("%x", "%best")
        better = f"icmp ugt i1 {old}.set, {new}.set"
    lines = [f"  %is.better = {better}"]
    if t.is_bool:
        lines = [
            f"  %x.set = icmp ne {element} %x, 0",
            f"  %best.set = icmp ne {element} %best, 0",
            *lines,
        ]
    elif t.is_float:
        # NaN is the largest.
        nan, other = ("%best", "%x") if op == "min" else ("%x", "%best")
        lines = [
            f"  %nan = fcmp uno {element} {nan}, {nan}",
            f"  %other.nan = fcmp uno {element} {other}, {other}",
            "  %is.number = xor i1 %other.nan, true",
            "  %by.nan = and i1 %nan, %is.number",
            f"  %by.size = fcmp o{'lt' if op == 'min' else 'gt'} {element} %x, %best",
            "  %is.better = or i1 %by.nan, %by.size",
        ]
    test = "\n".join(lines)
    body = f"""  %first = mul i64 %e, %pieces
  %start = mul i64 %e, %run
  %from = getelementptr {element}, ptr %src, i64 %start
  %places = getelementptr i32, ptr %found, i64 %first
  %place.0 = load i32, ptr %places
  %offset.0 = zext i32 %place.0 to i64
  %at.0 = getelementptr {element}, ptr %from, i64 %offset.0
  %x.0 = load {element}, ptr %at.0
  br label %piece
piece:
  %p = phi i64 [ 1, %next ], [ %p.n, %piece ]
  %best = phi {element} [ %x.0, %next ], [ %best.n, %piece ]
  %place = phi i32 [ %place.0, %next ], [ %place.n, %piece ]
  %place.at = getelementptr i32, ptr %places, i64 %p
  %place.p = load i32, ptr %place.at
  %offset = zext i32 %place.p to i64
  %at = getelementptr {element}, ptr %from, i64 %offset
  %x = load {element}, ptr %at
{test}
  %best.n = select i1 %is.better, {element} %x, {element} %best
  %place.n = select i1 %is.better, i32 %place.p, i32 %place
  %p.n = add i64 %p, 1
  %p.more = icmp ult i64 %p.n, %pieces
  br i1 %p.more, label %piece, label %piece.end
piece.end:
  %out = getelementptr i32, ptr %dst, i64 %e
  store i32 %place.n, ptr %out"""
    slots = "src found dst run:i64 pieces:i64"
    return each(name, slots, body, last="piece.end")


def _wide(width: int) -> str:
    return ", 0" if width == 64 else " to i64"


def _passes_nan(op: str, t: DType) -> bool:
    return t.is_float and op == "max"


def _extreme(op: str, t: DType, width: int) -> str:
    """Find the piece's extreme, in all lanes of %best; ends in a branch to `look`.

    NaN is passed over, unless it is the largest.
    """
    if t.is_bool:
        return "  br label %look"
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    nothing = f"splat ({element} {neutral(op, t)})"
    folded, best = fold_lanes(op, t, width, "%total")
    nan = float_hex(t, float("nan")) if t.is_float else ""
    has_nan = ""
    if _passes_nan(op, t):
        has_nan = f"""  %nans = fcmp uno {ty} %nan.total, zeroinitializer
  %nan.bits = bitcast <{width} x i1> %nans to i{width}
  %has.nan = icmp ne i{width} %nan.bits, 0
  %extreme = select i1 %has.nan, {element} {nan}, {element} {best}"""
        best = "%extreme"
    entries = {k: _taken(k, op, t, ty, f"%{k}.old") for k in ("b", "t")}
    nans = {"loop": "", "rest": "", "tail": "", "fold": ""}
    if _passes_nan(op, t):
        nans = {
            "loop": f"  %b.nan = phi {ty} [ zeroinitializer, %next ], "
            "[ %b.nan.n, %body ]",
            "rest": f"  %t.nan = phi {ty} [ zeroinitializer, %next ], "
            "[ %b.nan.n, %body ]",
            "fold": f"  %nan.total = phi {ty} [ %t.nan, %rest ], [ %t.nan.n, %tail ]",
        }
    return f"""  br i1 %any, label %body, label %rest
body:
  %i = phi i64 [ %start, %next ], [ %i.n, %body ]
  %b.old = phi {ty} [ {nothing}, %next ], [ %b.new, %body ]
{nans["loop"]}
  %at.i = getelementptr {element}, ptr %src, i64 %i
  %b.x = load {ty}, ptr %at.i, align {t.size_bytes}
{entries["b"]}
  %i.n = add i64 %i, {width}
  %i.more = icmp ult i64 %i.n, %full
  br i1 %i.more, label %body, label %rest
rest:
  %t.old = phi {ty} [ {nothing}, %next ], [ %b.new, %body ]
{nans["rest"]}
  br i1 %odd, label %tail, label %fold
tail:
  %at.t = getelementptr {element}, ptr %src, i64 %full
  %t.all = load {ty}, ptr %at.t, align {t.size_bytes}
  %t.x = select <{width} x i1> %in, {ty} %t.all, {ty} {nothing}
{entries["t"]}
  br label %fold
fold:
  %total = phi {ty} [ %t.old, %rest ], [ %t.new, %tail ]
{nans["fold"]}
{folded}
{has_nan}
  %best.one = insertelement {ty} poison, {element} {best}, i32 0
  %best = shufflevector {ty} %best.one, {ty} poison, <{width} x i32> zeroinitializer
  br label %look"""


def _taken(k: str, op: str, t: DType, ty: str, old: str) -> str:
    """Combine the vector %k.x with the extremes so far to %k.new."""
    text = combine_text(op, t, ty, f"{k}.new", old, f"%{k}.x")
    if not _passes_nan(op, t):
        return text
    masks = f"<{ty[1:].split()[0]} x i1>"
    return f"""{text}
  %{k}.is.nan = fcmp uno {ty} %{k}.x, zeroinitializer
  %{k}.nan.n = select {masks} %{k}.is.nan, {ty} %{k}.x, {ty} %{k}.nan"""


def _found(k: str, op: str, t: DType, width: int, place: str, among: str = "") -> str:
    """Look where a vector of entries has the extreme: `%k.bits`, and if it does."""
    element = t.memory_llvm
    ty, masks = f"<{width} x {element}>", f"<{width} x i1>"
    lines = [
        f"%{k}.at = getelementptr {element}, ptr %src, i64 {place}",
        f"%{k}.x2 = load {ty}, ptr %{k}.at, align {t.size_bytes}",
    ]
    hit = f"%{k}.hit"
    if t.is_bool:
        test = "ne" if op == "max" else "eq"
        lines.append(f"{hit} = icmp {test} {ty} %{k}.x2, zeroinitializer")
    else:
        test = "fcmp oeq" if t.is_float else "icmp eq"
        lines.append(f"{hit} = {test} {ty} %{k}.x2, %best")
    if _passes_nan(op, t):
        lines.append(f"%{k}.uno = fcmp uno {ty} %{k}.x2, zeroinitializer")
        lines.append(f"%{k}.either = or {masks} {hit}, %{k}.uno")
        hit = f"%{k}.either"
    if among:
        lines.append(f"%{k}.among = and {masks} {hit}, {among}")
        hit = f"%{k}.among"
    lines.append(f"%{k}.bits = bitcast {masks} {hit} to i{width}")
    lines.append(f"%{k}.is = icmp ne i{width} %{k}.bits, 0")
    return "\n".join(f"  {line}" for line in lines)
