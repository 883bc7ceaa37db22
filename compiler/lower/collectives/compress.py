"""The kernel that lists the set entries of a mask."""

from __future__ import annotations

from functools import partial

from lumijit.compiler.emit.combine import combine_text
from lumijit.compiler.lower.collectives.pieces import head, spread
from lumijit.compiler.lower.collectives.scan import prefix_function, prefix_of_block
from lumijit.runtime.dtypes import UINT32

_ADD = partial(combine_text, "add", UINT32, "i32")

# Entries of a mask that are looked at together, as the bits of one word.
_WORD = 64
# With fewer set entries than this, a word is written bit by bit.
_FEW = 3


def _places() -> str:
    """Spell, for each byte, the places of its set bits: eight bytes, the rest 0."""
    rows = []
    for byte in range(256):
        places = [k for k in range(8) if byte >> k & 1]
        rows.append(sum(place << (8 * k) for k, place in enumerate(places)))
    return f"[256 x i64] [{', '.join(f'i64 {row}' for row in rows)}]"


def _word(name: str, at: str) -> str:
    """Load the entries at and behind `at`, but before %end, as the bits of `%name`.

    Every byte but 0 is a set entry, whatever a mask's memory holds.
    """
    return f"""  %{name}.at = getelementptr i8, ptr %src, i64 {at}
  %{name}.m = load <{_WORD} x i8>, ptr %{name}.at, align 1
  %{name}.set = icmp ne <{_WORD} x i8> %{name}.m, zeroinitializer
  %{name}.all = bitcast <{_WORD} x i1> %{name}.set to i{_WORD}
  %{name}.left = sub i64 %end, {at}
  %{name}.in = call i64 @llvm.umin.i64(i64 %{name}.left, i64 {_WORD})
  %{name}.out = sub i64 {_WORD}, %{name}.in
  %{name}.ones = lshr i64 -1, %{name}.out
  %{name} = and i64 %{name}.all, %{name}.ones
  %{name}.c = call i64 @llvm.ctpop.i64(i64 %{name})"""


def _by_bytes() -> str:
    """Write the places in the word %w from %pos on, eight for each of its bytes.

    What is too much is written over; up to %pos.n it is right.
    """
    lines = []
    to, first = "%pos", "%k.all"
    for part in range(_WORD // 8):
        lines.append(f"""  %s{part} = lshr i64 %w, {8 * part}
  %byte{part} = and i64 %s{part}, 255
  %row{part} = getelementptr i64, ptr @places, i64 %byte{part}
  %near{part} = load <8 x i8>, ptr %row{part}
  %place{part} = zext <8 x i8> %near{part} to <8 x i32>
  %index{part} = add <8 x i32> %place{part}, {first}
  store <8 x i32> %index{part}, ptr {to}, align 4
  %n{part} = call i64 @llvm.ctpop.i64(i64 %byte{part})
  %to{part} = getelementptr i32, ptr {to}, i64 %n{part}
  %first{part} = add <8 x i32> {first}, splat (i32 8)""")
        to, first = f"%to{part}", f"%first{part}"
    return "\n".join(lines)


def _count() -> str:
    """Write @total: how many entries of a range are set."""
    return f"""define internal i32 @total(ptr %src, i64 %start, i64 %end) nounwind {{
entry:
  br label %tally
tally:
  %i = phi i64 [ %start, %entry ], [ %i.n, %tally ]
  %sum = phi i32 [ 0, %entry ], [ %sum.n, %tally ]
{_word("t", "%i")}
  %t.c32 = trunc i64 %t.c to i32
  %sum.n = add i32 %sum, %t.c32
  %i.n = add i64 %i, {_WORD}
  %more = icmp ult i64 %i.n, %end
  br i1 %more, label %tally, label %counted
counted:
  ret i32 %sum.n
}}
"""


def compress_ir(name: str) -> str:
    """Write the indices of the set entries of a mask one after the other.

    Slots: mask (bytes), dst (u32), sums (u32 per block), ready, block, size, count
    (u32, receives the total).
    """
    return f"""@places = private unnamed_addr constant {_places()}
{head(name, "src dst sums ready block:i64 size:i64 count")}
{prefix_of_block("i32", _ADD)}
  %islast = icmp eq i64 %end, %size
  br i1 %islast, label %total, label %start
total:
  store i32 %upto, ptr %count
  br label %start
start:
  %base = zext i32 %prefix to i64
  %last = zext i32 %upto to i64
  %begin.to = getelementptr i32, ptr %dst, i64 %base
  %end.to = getelementptr i32, ptr %dst, i64 %last
  br label %word
word:
  %k = phi i64 [ %begin, %start ], [ %k.n, %next ]
  %pos = phi ptr [ %begin.to, %start ], [ %pos.n, %next ]
  %goon = icmp ult ptr %pos, %end.to
  br i1 %goon, label %look, label %exit
look:
{_word("w", "%k")}
  %pos.n = getelementptr i32, ptr %pos, i64 %w.c
  %k32 = trunc i64 %k to i32
  %room = getelementptr i32, ptr %pos, i64 {_WORD}
  %fits = icmp ule ptr %room, %end.to
  %many = icmp uge i64 %w.c, {_FEW}
  %wide = and i1 %fits, %many
  br i1 %wide, label %bytes, label %bits
bytes:
{spread("k.all", 8, "i32", "%k32")}
{_by_bytes()}
  br label %next
bits:
  %r = phi i64 [ %w, %look ], [ %r.n, %bit ]
  %to = phi ptr [ %pos, %look ], [ %to.n, %bit ]
  %left = icmp ne i64 %r, 0
  br i1 %left, label %bit, label %next
bit:
  %place = call i64 @llvm.cttz.i64(i64 %r, i1 true)
  %place32 = trunc i64 %place to i32
  %index = add i32 %k32, %place32
  store i32 %index, ptr %to
  %to.n = getelementptr i32, ptr %to, i64 1
  %r.less = sub i64 %r, 1
  %r.n = and i64 %r, %r.less
  br label %bits
next:
  %k.n = add i64 %k, {_WORD}
  br label %word
exit:
  ret void
}}
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.cttz.i64(i64, i1)
{_count()}
{prefix_function("i32", "0", _ADD)}
"""
