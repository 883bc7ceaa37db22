"""Kernels of a stable sort: by the digits of unsigned keys, the lowest first.

A pass sorts by one digit, in two walks over the blocks of the array. `count_ir` counts
how often each digit occurs in a block; a scan of the counts, by digit and then by
block, gives where the entries of each block go; `move_ir` puts them there.
Source: Knuth, "The Art of Computer Programming", volume 3, section 5.2.5.
"""

from __future__ import annotations

from lumijit.compiler.lower.collectives.pieces import head
from lumijit.runtime.dtypes import DType

#: Entries of a launch's blocks, unless there would be more than so many of them.
SORT_BLOCK, SORT_BLOCKS = 1 << 14, 64
# Of more digits, the places that are written to by turns leave the first cache.
DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS


def _digit(t: DType, name: str = "") -> str:
    """Write %at: the place in %table of the digit of %key. `name` goes before both."""
    ty = t.memory_llvm
    mask = DIGITS - 1 if t.bits > DIGIT_BITS else -1
    wide = f"zext {ty} %{name}low to i64" if t.bits < 64 else f"add i64 %{name}low, 0"
    return f"""  %{name}shifted = lshr {ty} %{name}key, %by
  %{name}low = and {ty} %{name}shifted, {mask}
  %{name}digit = {wide}
  %{name}at = getelementptr i32, ptr %table, i64 %{name}digit"""


def _shift(t: DType) -> str:
    if t.bits == 64:
        return "  %by = add i64 %shift, 0"
    return f"  %by = trunc i64 %shift to {t.memory_llvm}"


def _each_digit(name: str, after: str, source: str, target: str) -> str:
    """Write a loop over all digits, from block `{name}.in` on, which copies numbers.

    They are in %table (`t`) and, by digit and then by block, in %counts (`c`).
    """
    return f"""  br label %{name}
{name}:
  %d = phi i64 [ 0, %{name}.in ], [ %d.n, %{name} ]
  %t = getelementptr i32, ptr %table, i64 %d
  %row = mul i64 %d, %blocks
  %place = add i64 %row, %number
  %c = getelementptr i32, ptr %counts, i64 %place
  %n = load i32, ptr %{source}
  store i32 %n, ptr %{target}
  %d.n = add i64 %d, 1
  %d.more = icmp ult i64 %d.n, {DIGITS}
  br i1 %d.more, label %{name}, label %{after}"""


def _count(before: str, after: str, t: DType) -> str:
    """Write a loop that counts the digits of a block in %table."""
    ty, size_bytes = t.memory_llvm, 4 * DIGITS
    return f"""  call void @llvm.memset.p0.i64(ptr %table, i8 0, i64 {size_bytes}, i1 0)
  br label %counting
counting:
  %j = phi i64 [ %begin, %{before} ], [ %j.n, %counting ]
  %j.from = getelementptr {ty}, ptr %keys, i64 %j
  %j.key = load {ty}, ptr %j.from
{_digit(t, "j.")}
  %j.old = load i32, ptr %j.at
  %j.new = add i32 %j.old, 1
  store i32 %j.new, ptr %j.at
  %j.n = add i64 %j, 1
  %j.more = icmp ult i64 %j.n, %end
  br i1 %j.more, label %counting, label %{after}"""


def _scan(before: str, after: str) -> str:
    """Write a loop that turns counts in %table into places, of a single block."""
    return f"""  br label %scanning
scanning:
  %d = phi i64 [ 0, %{before} ], [ %d.n, %scanning ]
  %upto = phi i32 [ 0, %{before} ], [ %upto.n, %scanning ]
  %t = getelementptr i32, ptr %table, i64 %d
  %n = load i32, ptr %t
  store i32 %upto, ptr %t
  %upto.n = add i32 %upto, %n
  %d.n = add i64 %d, 1
  %d.more = icmp ult i64 %d.n, {DIGITS}
  br i1 %d.more, label %scanning, label %{after}"""


_SLOTS = "keys counts block:i64 blocks:i64 shift:i64"
_DECLARATIONS = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"


def count_ir(name: str, t: DType) -> str:
    """Count how often each digit occurs in a block.

    Slots: keys, counts (u32, one for each block and digit), block, blocks, shift.
    """
    return f"""{head(name, _SLOTS)}
{_shift(t)}
  %number = udiv i64 %begin, %block
  %table = alloca [{DIGITS} x i32], align 64
{_count("entry", "telling.in", t)}
telling.in:
{_each_digit("telling", "exit", "t", "c")}
exit:
  ret void
}}
{_DECLARATIONS}
"""


def move_ir(name: str, t: DType, has_keys: bool, indices: str, is_alone: bool) -> str:
    """Put the entries of a block where the scanned counts say.

    If there is no other block (`is_alone`), it is counted here.

    Slots: keys, counts, block, blocks, shift, keys' (if `has_keys`), indices, indices'.
    `indices` tells what comes along: "" nothing, "new" the places, "old" what comes
    from slot 6.
    """
    ty = t.memory_llvm
    lines = []
    if has_keys:
        lines.append(f"""  %to = getelementptr {ty}, ptr %keys.to, i64 %where
  store {ty} %key, ptr %to""")
    if indices == "new":
        lines.append("  %index = trunc i64 %i to i32")
    elif indices:
        lines.append("""  %index.at = getelementptr i32, ptr %indices, i64 %i
  %index = load i32, ptr %index.at""")
    if indices:
        lines.append("""  %index.to = getelementptr i32, ptr %indices.to, i64 %where
  store i32 %index, ptr %index.to""")
    moves = "\n".join(lines)
    places = f"""  br label %learning.in
learning.in:
{_each_digit("learning", "moving.in", "c", "t")}"""
    if is_alone:
        places = f"""{_count("entry", "scanning.in", t)}
scanning.in:
{_scan("scanning.in", "moving.in")}"""
    return f"""{head(name, f"{_SLOTS} keys.to indices indices.to")}
{_shift(t)}
  %number = udiv i64 %begin, %block
  %table = alloca [{DIGITS} x i32], align 64
{places}
moving.in:
  br label %moving
moving:
  %i = phi i64 [ %begin, %moving.in ], [ %i.n, %moving ]
  %from = getelementptr {ty}, ptr %keys, i64 %i
  %key = load {ty}, ptr %from
{_digit(t)}
  %old = load i32, ptr %at
  %new = add i32 %old, 1
  store i32 %new, ptr %at
  %where = zext i32 %old to i64
{moves}
  %i.n = add i64 %i, 1
  %more = icmp ult i64 %i.n, %end
  br i1 %more, label %moving, label %exit
exit:
  ret void
}}
{_DECLARATIONS}
"""
