"""Kernels that find the entry of a rank in runs, by digits of keys, the highest first.

The digits that follow the known ones are counted, and the counts gone through up to
the digit of the entry; once all are known, or tell it from all others, the entry is
looked for. Entries are read as they are, and their keys computed: unsigned numbers in
the same order, NaN last, one for both zeros. One kernel does all that with short runs;
of long ones, `tally_ir` counts in pieces, and `choose_ir` and `locate_ir` do the rest.
Source: Knuth, "The Art of Computer Programming", volume 3, section 5.2.5.
"""

from __future__ import annotations

from lumijit.compiler.lower.collectives.pieces import below, each, spread, vector_lanes
from lumijit.compiler.lower.collectives.sort import DIGIT_BITS, DIGITS
from lumijit.runtime.dtypes import DType

#: Entries of a piece.
SELECT_BLOCK = 1 << 16

_FRACTION_BITS = {16: 10, 32: 23, 64: 52}


def select_ir(name: str, part: str, t: DType) -> str:
    """Write one of the kernels: what does all with runs, or a part of that."""
    write = {"all": _all_ir, "tally": tally_ir, "locate": locate_ir}.get(part)
    return choose_ir(name) if write is None else write(name, t)


def _element(t: DType) -> str:
    return f"i{8 * t.size_bytes}"


def _resized(bits: int, wanted: int, value: str) -> str:
    """Write what makes an integer of so many bits one of others."""
    if bits == wanted:
        return f"add i{bits} {value}, 0"
    return f"{'zext' if bits < wanted else 'trunc'} i{bits} {value} to i{wanted}"


def _spread(name: str, t: DType, source: str) -> str:
    """Put a number of 64 bits into all lanes."""
    return f"""  %{name}.low = {_resized(64, 8 * t.size_bytes, source)}
{spread(name, vector_lanes(t), _element(t), f"%{name}.low")}
"""


def _key(t: DType, ty: str, masks: str) -> str:
    """Write %key: unsigned numbers that are ordered like the entries %x."""
    element, bits = _element(t), 8 * t.size_bytes
    sign = 1 << (bits - 1)
    if t.is_bool:
        return f"""  %is.set = icmp ne {ty} %x, zeroinitializer
  %key = zext {masks} %is.set to {ty}"""
    if not t.is_float:
        return f"  %key = xor {ty} %x, splat ({element} {sign if t.is_signed else 0})"
    fraction = _FRACTION_BITS[bits]
    infinity = ((1 << (bits - 1 - fraction)) - 1) << fraction
    ones = f"splat ({element} -1)"
    return f"""  %size = and {ty} %x, splat ({element} {sign - 1})
  %is.zero = icmp eq {ty} %size, zeroinitializer
  %plus = select {masks} %is.zero, {ty} zeroinitializer, {ty} %x
  %is.negative = icmp slt {ty} %plus, zeroinitializer
  %flip = select {masks} %is.negative, {ty} {ones}, {ty} splat ({element} {sign})
  %flipped = xor {ty} %plus, %flip
  %is.nan = icmp ugt {ty} %size, splat ({element} {infinity})
  %key = select {masks} %is.nan, {ty} {ones}, {ty} %flipped"""


def _hits(t: DType) -> str:
    """Write %key, keys from %i on, and %bits: which are like %wanted so far."""
    width, element = vector_lanes(t), _element(t)
    ty, masks = f"<{width} x {element}>", f"<{width} x i1>"
    return f"""  %at = getelementptr {element}, ptr %src, i64 %i
  %x = load {ty}, ptr %at, align {t.size_bytes}
{_key(t, ty, masks)}
  %other = xor {ty} %key, %wanted
  %differs = and {ty} %other, %known
  %is.like = icmp eq {ty} %differs, zeroinitializer
  %left = sub i64 %stop, %i
{below("in", width, "%left")}
  %hit = and {masks} %is.like, %in
  %bits = bitcast {masks} %hit to i{width}"""


def _count(t: DType) -> str:
    """Count the digits of entries whose keys have the known digits, in a table."""
    width, element = vector_lanes(t), _element(t)
    ty, bits = f"<{width} x {element}>", f"i{width}"
    mask = DIGITS - 1 if t.size_bytes > 1 else -1
    return f"""define private void @count(ptr %src, i64 %start, i64 %stop, ptr %table,
    i64 %found, i64 %known.bits, i64 %shift) nounwind {{
entry:
  %digits = alloca {ty}, align 64
{_spread("wanted", t, "%found")}{_spread("known", t, "%known.bits")}
{_spread("by", t, "%shift")}
  call void @llvm.memset.p0.i64(ptr %table, i8 0, i64 {4 * DIGITS}, i1 0)
  br label %turn
turn:
  %i = phi i64 [ %start, %entry ], [ %i.n, %turn.end ]
{_hits(t)}
  %is.any = icmp ne {bits} %bits, 0
  br i1 %is.any, label %counting, label %turn.end
counting:
  %shifted = lshr {ty} %key, %by
  %digit = and {ty} %shifted, splat ({element} {mask})
  store {ty} %digit, ptr %digits, align 64
  br label %one
one:
  %rest = phi {bits} [ %bits, %counting ], [ %rest.n, %one ]
  %lane.n = call {bits} @llvm.cttz.{bits}({bits} %rest, i1 true)
  %lane = {_resized(width, 64, "%lane.n")}
  %digit.at = getelementptr {element}, ptr %digits, i64 %lane
  %digit.n = load {element}, ptr %digit.at
  %digit.wide = {_resized(8 * t.size_bytes, 64, "%digit.n")}
  %place = getelementptr i32, ptr %table, i64 %digit.wide
  %old = load i32, ptr %place
  %new = add i32 %old, 1
  store i32 %new, ptr %place
  %rest.m = add {bits} %rest, -1
  %rest.n = and {bits} %rest, %rest.m
  %rest.any = icmp ne {bits} %rest.n, 0
  br i1 %rest.any, label %one, label %turn.end
turn.end:
  %i.n = add i64 %i, {width}
  %i.more = icmp ult i64 %i.n, %stop
  br i1 %i.more, label %turn, label %exit
exit:
  ret void
}}
declare {bits} @llvm.cttz.{bits}({bits}, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


_CHOOSE = f"""define private i64 @choose(ptr %table, i64 %pieces, ptr %rank.at,
    ptr %found.at, i64 %shift) nounwind {{
entry:
  %rank = load i32, ptr %rank.at
  br label %digit
digit:
  %d = phi i64 [ 0, %entry ], [ %d.n, %after ]
  %left = phi i32 [ %rank, %entry ], [ %left.n, %after ]
  br label %adding
adding:
  %p = phi i64 [ 0, %digit ], [ %p.n, %adding ]
  %total = phi i32 [ 0, %digit ], [ %total.n, %adding ]
  %p.row = mul i64 %p, {DIGITS}
  %place = add i64 %p.row, %d
  %at = getelementptr i32, ptr %table, i64 %place
  %n = load i32, ptr %at
  %total.n = add i32 %total, %n
  %p.n = add i64 %p, 1
  %p.more = icmp ult i64 %p.n, %pieces
  br i1 %p.more, label %adding, label %added
added:
  %is.here = icmp ult i32 %left, %total.n
  br i1 %is.here, label %chosen, label %after
after:
  %left.n = sub i32 %left, %total.n
  %d.n = add i64 %d, 1
  br label %digit
chosen:
  store i32 %left, ptr %rank.at
  %old = load i64, ptr %found.at
  %added.d = shl i64 %d, %shift
  %new = or i64 %old, %added.d
  store i64 %new, ptr %found.at
  %how.many = zext i32 %total.n to i64
  ret i64 %how.many
}}
"""


def _look(t: DType) -> str:
    """Find the place, from a start on, of the entry of a rank among those wanted."""
    width = vector_lanes(t)
    bits = f"i{width}"
    return f"""define private i64 @look(ptr %src, i64 %start, i64 %stop,
    i32 %rank, i64 %found, i64 %known.bits) nounwind {{
entry:
{_spread("wanted", t, "%found")}{_spread("known", t, "%known.bits")}
  br label %turn
turn:
  %i = phi i64 [ %start, %entry ], [ %i.n, %after ]
  %still = phi i32 [ %rank, %entry ], [ %still.n, %after ]
{_hits(t)}
  %ones.n = call {bits} @llvm.ctpop.{bits}({bits} %bits)
  %ones = {_resized(width, 32, "%ones.n")}
  %is.in = icmp ult i32 %still, %ones
  br i1 %is.in, label %skip, label %after
after:
  %still.n = sub i32 %still, %ones
  %i.n = add i64 %i, {width}
  br label %turn
skip:
  %rest = phi {bits} [ %bits, %turn ], [ %rest.n, %skip.one ]
  %skips = phi i32 [ %still, %turn ], [ %skips.n, %skip.one ]
  %is.there = icmp eq i32 %skips, 0
  br i1 %is.there, label %there, label %skip.one
skip.one:
  %rest.m = add {bits} %rest, -1
  %rest.n = and {bits} %rest, %rest.m
  %skips.n = sub i32 %skips, 1
  br label %skip
there:
  %lane.n = call {bits} @llvm.cttz.{bits}({bits} %rest, i1 true)
  %lane = {_resized(width, 64, "%lane.n")}
  %where = add i64 %i, %lane
  ret i64 %where
}}
declare {bits} @llvm.ctpop.{bits}({bits})
"""


def _all_ir(name: str, t: DType) -> str:
    """Set dst[r] to where in its run the entry of a rank is.

    Slots: src, dst (u32), run, rank.
    """
    setup = f"""  %table = alloca [{DIGITS} x i32], align 64
  %found.at = alloca i64
  %rank.at = alloca i32
  %rank.n = trunc i64 %rank to i32"""
    body = f"""  store i64 0, ptr %found.at
  store i32 %rank.n, ptr %rank.at
  %start = mul i64 %e, %run
  %stop = add i64 %start, %run
  br label %pass
pass:
  %shift = phi i64 [ {8 * t.size_bytes - DIGIT_BITS}, %next ], [ %shift.n, %again ]
  %known = phi i64 [ 0, %next ], [ %known.n, %again ]
  %found.old = load i64, ptr %found.at
  call void @count(ptr %src, i64 %start, i64 %stop, ptr %table, i64 %found.old,
    i64 %known, i64 %shift)
  %many = call i64 @choose(ptr %table, i64 1, ptr %rank.at, ptr %found.at, i64 %shift)
  %digit.mask = shl i64 {DIGITS - 1}, %shift
  %known.n = or i64 %known, %digit.mask
  %is.only = icmp eq i64 %many, 1
  %is.last = icmp eq i64 %shift, 0
  %is.done = or i1 %is.only, %is.last
  br i1 %is.done, label %found, label %again
again:
  %shift.n = sub i64 %shift, {DIGIT_BITS}
  br label %pass
found:
  %found.all = load i64, ptr %found.at
  %rank.left = load i32, ptr %rank.at
  %where = call i64 @look(ptr %src, i64 %start, i64 %stop, i32 %rank.left,
    i64 %found.all, i64 %known.n)
  %place = sub i64 %where, %start
  %place.n = trunc i64 %place to i32
  %out = getelementptr i32, ptr %dst, i64 %e
  store i32 %place.n, ptr %out"""
    kernel = each(name, "src dst run:i64 rank:i64", body, setup, last="found")
    return f"{kernel}{_count(t)}{_CHOOSE}{_look(t)}"


def tally_ir(name: str, t: DType) -> str:
    """Count digits in piece p of run r, for each r * pieces + p.

    Slots: src, counts (u32, a table for each piece), found (u64, keys as far as known,
    for each run), run, block (the length of pieces but for a run's last), pieces,
    shift, known (which bits of keys are).
    """
    body = f"""  %r = udiv i64 %e, %pieces
  %r.first = mul i64 %r, %pieces
  %p = sub i64 %e, %r.first
  %first = mul i64 %p, %block
  %r.start = mul i64 %r, %run
  %start = add i64 %r.start, %first
  %r.stop = add i64 %r.start, %run
  %end.all = add i64 %start, %block
  %stop = call i64 @llvm.umin.i64(i64 %end.all, i64 %r.stop)
  %found.at = getelementptr i64, ptr %found, i64 %r
  %found.r = load i64, ptr %found.at
  %table.at = mul i64 %e, {DIGITS}
  %table = getelementptr i32, ptr %counts, i64 %table.at
  call void @count(ptr %src, i64 %start, i64 %stop, ptr %table, i64 %found.r,
    i64 %known, i64 %shift)"""
    slots = "src counts found run:i64 block:i64 pieces:i64 shift:i64 known:i64"
    return f"""{each(name, slots, body)}{_count(t)}
declare i64 @llvm.umin.i64(i64, i64)
"""


def choose_ir(name: str) -> str:
    """Append the digit of the entry of a rank to what is known of the run's key.

    What is left of the rank counts among the entries with these digits. Slots: counts,
    found, ranks (u32, of each run), pieces, shift.
    """
    body = f"""  %first = mul i64 %e, %pieces
  %table.at = mul i64 %first, {DIGITS}
  %table = getelementptr i32, ptr %counts, i64 %table.at
  %rank.at = getelementptr i32, ptr %ranks, i64 %e
  %found.at = getelementptr i64, ptr %found, i64 %e
  %many = call i64 @choose(ptr %table, i64 %pieces, ptr %rank.at, ptr %found.at,
    i64 %shift)"""
    return f"{each(name, 'counts found ranks pieces:i64 shift:i64', body)}{_CHOOSE}"


def locate_ir(name: str, t: DType) -> str:
    """Set dst[r] to where the entry of the run's rank is among those of its key.

    Slots: src, dst (u32), counts of the last digits, found, ranks, run, block, pieces.
    """
    body = f"""  %found.at = getelementptr i64, ptr %found, i64 %e
  %found.r = load i64, ptr %found.at
  %rank.at = getelementptr i32, ptr %ranks, i64 %e
  %rank = load i32, ptr %rank.at
  %d = and i64 %found.r, {DIGITS - 1}
  %first.p = mul i64 %e, %pieces
  %table.at = mul i64 %first.p, {DIGITS}
  %table.d = add i64 %table.at, %d
  %table = getelementptr i32, ptr %counts, i64 %table.d
  br label %piece
piece:
  %p = phi i64 [ 0, %next ], [ %p.n, %after ]
  %ahead = phi i32 [ %rank, %next ], [ %ahead.n, %after ]
  %p.row = mul i64 %p, {DIGITS}
  %at = getelementptr i32, ptr %table, i64 %p.row
  %n = load i32, ptr %at
  %is.here = icmp ult i32 %ahead, %n
  br i1 %is.here, label %looking, label %after
after:
  %ahead.n = sub i32 %ahead, %n
  %p.n = add i64 %p, 1
  br label %piece
looking:
  %start = mul i64 %e, %run
  %stop = add i64 %start, %run
  %first = mul i64 %p, %block
  %from = add i64 %start, %first
  %where = call i64 @look(ptr %src, i64 %from, i64 %stop, i32 %ahead, i64 %found.r,
    i64 -1)
  %place = sub i64 %where, %start
  %place.n = trunc i64 %place to i32
  %out = getelementptr i32, ptr %dst, i64 %e
  store i32 %place.n, ptr %out"""
    slots = "src dst counts found ranks run:i64 block:i64 pieces:i64"
    bits = f"i{vector_lanes(t)}"
    return f"""{each(name, slots, body, last="looking")}{_look(t)}
declare {bits} @llvm.cttz.{bits}({bits}, i1)
"""
