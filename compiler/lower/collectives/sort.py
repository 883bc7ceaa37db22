"""Kernels of a stable sort: by the digits of unsigned keys, the lowest first.

A pass sorts by one digit, in two walks over the blocks of the array. `count_ir` counts
how often each digit occurs in a block; a scan of the counts, by digit and then by
block, gives where the entries of each block go; `move_ir` puts them there.
Source: Knuth, "The Art of Computer Programming", volume 3, section 5.2.5.
"""

from __future__ import annotations

from lumijit.compiler.lower.collectives.pieces import head
from lumijit.runtime.dtypes import UINT32, DType

#: What a pass moves: values by name, and their types.
Moved = list[tuple[str, DType]]

#: Entries of a launch's blocks, unless there would be more than so many of them.
SORT_BLOCK, SORT_BLOCKS = 1 << 14, 64
# Of more digits, the places that are written to by turns leave the first cache.
DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS
# Entries of 32 bits in a line of the caches, which have at least so many sets of eight.
LINE, SETS = 16, 64
# So many digits may be written to one set by turns: by chance, some twenty are.
MOST_OF_SET = 48


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


def _count(before: str, after: str, t: DType, keys: str = "%key.old") -> str:
    """Write a loop that counts the digits of a block's keys in %table."""
    ty, size_bytes = t.memory_llvm, 4 * DIGITS
    return f"""  call void @llvm.memset.p0.i64(ptr %table, i8 0, i64 {size_bytes}, i1 0)
  br label %counting
counting:
  %j = phi i64 [ %begin, %{before} ], [ %j.n, %counting ]
  %j.from = getelementptr {ty}, ptr {keys}, i64 %j
  %j.key = load {ty}, ptr %j.from
{_digit(t, "j.")}
  %j.old = load i32, ptr %j.at
  %j.new = add i32 %j.old, 1
  store i32 %j.new, ptr %j.at
  %j.n = add i64 %j, 1
  %j.more = icmp ult i64 %j.n, %end
  br i1 %j.more, label %counting, label %{after}"""


def _scan(before: str, after: str) -> str:
    """Write a loop that turns counts in %table into places in this block."""
    return f"""  %begin.low = trunc i64 %begin to i32
  br label %scanning
scanning:
  %d = phi i64 [ 0, %{before} ], [ %d.n, %scanning ]
  %upto = phi i32 [ %begin.low, %{before} ], [ %upto.n, %scanning ]
  %t = getelementptr i32, ptr %table, i64 %d
  %n = load i32, ptr %t
  store i32 %upto, ptr %t
  %upto.n = add i32 %upto, %n
  %d.n = add i64 %d, 1
  %d.more = icmp ult i64 %d.n, {DIGITS}
  br i1 %d.more, label %scanning, label %{after}"""


def _take_place(t: DType) -> str:
    """Write where the key goes, and that the next one of its digit goes behind."""
    return f"""{_digit(t)}
  %old = load i32, ptr %at
  %new = add i32 %old, 1
  store i32 %new, ptr %at
  %where = zext i32 %old to i64"""


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
{_count("entry", "telling.in", t, "%keys")}
telling.in:
{_each_digit("telling", "exit", "t", "c")}
exit:
  ret void
}}
{_DECLARATIONS}
"""


def apart_ir(name: str, t: DType, has_places: bool) -> str:
    """Sort each block by itself, by all digits.

    What is sorted goes to and fro between two arrays. Slots: source, key.a, key.b,
    index.a, index.b (of places, if there are any), shifts (bytes of a number, of which
    the lowest is the first), passes.
    """
    ty = t.memory_llvm
    moved: Moved = [("key", t)] + [("index", UINT32)] * has_places
    arrays = "\n".join(
        f"""  %{value}.old = phi ptr [ {first}, %entry ], [ %{value}.to, %turn ]
  %{value}.to = phi ptr [ %{value}.a, %entry ], [ %{value}.next, %turn ]
  %{value}.next = phi ptr [ %{value}.b, %entry ], [ %{value}.to, %turn ]"""
        for (value, _), first in zip(moved, ("%source", "%index.b"), strict=False)
    )
    index = """  %index.at = getelementptr i32, ptr %index.old, i64 %i
  %index.known = load i32, ptr %index.at
  %index.new = trunc i64 %i to i32
  %index = select i1 %is.first, i32 %index.new, i32 %index.known"""
    slots = "source key.a key.b index.a index.b shifts:i64 passes:i64"
    return f"""{head(name, slots)}
  %table = alloca [{DIGITS} x i32], align 64
  br label %pass
pass:
  %pass.n = phi i64 [ 0, %entry ], [ %pass.next, %turn ]
{arrays}
  %is.first = icmp eq i64 %pass.n, 0
  %shift.bit = mul i64 %pass.n, 8
  %shift.low = lshr i64 %shifts, %shift.bit
  %shift = and i64 %shift.low, 255
{_shift(t)}
{_count("pass", "scanning.in", t)}
scanning.in:
{_scan("scanning.in", "moving.in")}
moving.in:
  br label %moving
moving:
  %i = phi i64 [ %begin, %moving.in ], [ %i.n, %moving ]
  %from = getelementptr {ty}, ptr %key.old, i64 %i
  %key = load {ty}, ptr %from
{_take_place(t)}
{index if has_places else ""}
{_store(moved, "to", "where")}
  %i.n = add i64 %i, 1
  %more = icmp ult i64 %i.n, %end
  br i1 %more, label %moving, label %turn
turn:
  %pass.next = add i64 %pass.n, 1
  %pass.more = icmp ult i64 %pass.next, %passes
  br i1 %pass.more, label %pass, label %exit
exit:
  ret void
}}
{_DECLARATIONS}
"""


def move_ir(name: str, t: DType, has_keys: bool, indices: str, is_alone: bool) -> str:
    """Put the entries of a block where the scanned counts say.

    Where the places of many digits share a set of the caches (of a permutation, they
    lie a power of two apart), entries are kept until a line is full. (A block that
    `is_alone` is sorted by `apart_ir`, so none is here.)

    Slots: keys, counts, block, blocks, shift, keys' (if `has_keys`), indices, indices'.
    `indices` tells what comes along: "" nothing, "new" the places, "old" what comes
    from slot 6.
    """
    ty = t.memory_llvm
    moved: Moved = [("key", t)] * has_keys + [("index", UINT32)] * bool(indices)
    index = ""
    if indices == "new":
        index = "  %index = trunc i64 %i to i32"
    elif indices:
        index = """  %index.from = getelementptr i32, ptr %indices, i64 %i
  %index = load i32, ptr %index.from"""
    assert not is_alone
    return f"""{head(name, f"{_SLOTS} key.to indices index.to")}
{_shift(t)}
  %number = udiv i64 %begin, %block
  %table = alloca [{DIGITS} x i32], align 64
{_kept(moved)}
  br label %learning.in
learning.in:
{_each_digit("learning", "asking", "c", "t")}
asking:
{_ask("asking", "moving.in", moved)}
moving.in:
  br label %moving
moving:
  %i = phi i64 [ %begin, %moving.in ], [ %i.n, %moved ]
  %from = getelementptr {ty}, ptr %keys, i64 %i
  %key = load {ty}, ptr %from
{_take_place(t)}
{index}
{_put_or_keep(name, moved)}
  br label %moved
moved:
  %i.n = add i64 %i, 1
  %more = icmp ult i64 %i.n, %end
  br i1 %more, label %moving, label %exit
exit:
{_finish(name, moved)}
{_DECLARATIONS}
"""


def _store(moved: Moved, array: str, place: str) -> str:
    """Write an entry: where it goes `to`, or is `kept`."""
    lines = []
    for value, t in moved:
        ty, to = t.memory_llvm, f"%{value}.{array}"
        lines.append(f"""  {to}.at = getelementptr {ty}, ptr {to}, i64 %{place}
  store {ty} %{value}, ptr {to}.at""")
    return "\n".join(lines)


def _kept(moved: Moved) -> str:
    """Write the arrays in which entries are kept, a line of them for each digit."""
    return "\n".join(
        f"  %{value}.kept = alloca [{DIGITS * LINE} x {t.memory_llvm}], align 64"
        for value, t in moved
    )


def _arrays(moved: Moved) -> str:
    return "".join(f", ptr %{value}.kept, ptr %{value}.to" for value, _ in moved)


def _ask(before: str, after: str, moved: Moved) -> str:
    """Write a loop that tells whether the places of the digits share sets: %is.shared.

    Digits that the block doesn't have don't count. The last one is left out.
    """
    size_bytes = max(t.size_bytes for _, t in moved)
    return f"""  %sets = alloca [{SETS} x i32], align 64
  call void @llvm.memset.p0.i64(ptr %sets, i8 0, i64 {4 * SETS}, i1 0)
  br label %sharing
sharing:
  %s = phi i64 [ 0, %{before} ], [ %s.n, %sharing ]
  %most = phi i32 [ 0, %{before} ], [ %most.n, %sharing ]
{_first("s")}
  %s.next = getelementptr i32, ptr %s.from, i64 1
  %s.end = load i32, ptr %s.next
  %s.is = icmp ult i32 %s.low, %s.end
  %s.one = zext i1 %s.is to i32
  %s.byte = mul i64 %s.first, {size_bytes}
  %s.line = lshr i64 %s.byte, 6
  %s.set = and i64 %s.line, {SETS - 1}
  %s.at = getelementptr i32, ptr %sets, i64 %s.set
  %s.old = load i32, ptr %s.at
  %s.new = add i32 %s.old, %s.one
  store i32 %s.new, ptr %s.at
  %most.n = call i32 @llvm.umax.i32(i32 %most, i32 %s.new)
  %s.n = add i64 %s, 1
  %s.more = icmp ult i64 %s.n, {DIGITS - 1}
  br i1 %s.more, label %sharing, label %shared
shared:
  %is.shared = icmp ugt i32 %most.n, {MOST_OF_SET}
  br label %{after}"""


def _first(digit: str) -> str:
    """Write where the entries begin that the block has of a digit: %`digit`.first."""
    return f"""  %{digit}.row = mul i64 %{digit}, %blocks
  %{digit}.place = add i64 %{digit}.row, %number
  %{digit}.from = getelementptr i32, ptr %counts, i64 %{digit}.place
  %{digit}.low = load i32, ptr %{digit}.from
  %{digit}.first = zext i32 %{digit}.low to i64"""


def _put_or_keep(name: str, moved: Moved) -> str:
    """Put an entry to its place, or keep it, and put a line of them that is full."""
    line = ""
    for value, t in moved:
        ty, many = t.memory_llvm, f"<{LINE} x {t.memory_llvm}>"
        line += f"""
  %{value}.first = getelementptr {ty}, ptr %{value}.kept, i64 %line
  %{value}.others = load {many}, ptr %{value}.first, align {t.size_bytes}
  %{value}.all = insertelement {many} %{value}.others, {ty} %{value}, i32 {LINE - 1}
  %{value}.there = getelementptr {ty}, ptr %{value}.to, i64 %start
  store {many} %{value}.all, ptr %{value}.there, align {t.size_bytes}"""
    return f"""  br i1 %is.shared, label %keep, label %put
keep:
  %slot = and i64 %where, {LINE - 1}
  %start = sub i64 %where, %slot
  %line = mul i64 %digit, {LINE}
  %in = add i64 %line, %slot
  %is.full = icmp eq i64 %slot, {LINE - 1}
  br i1 %is.full, label %full, label %keeping
keeping:
{_store(moved, "kept", "in")}
  br label %moved
full:
{_first("digit")}
  %is.whole = icmp uge i64 %start, %digit.first
  br i1 %is.whole, label %whole, label %part
whole:{line}
  br label %moved
part:
  call void @{name}_put(i64 %digit, i64 %digit.first, i64 %where{_arrays(moved)})
  br label %put
put:
{_store(moved, "to", "where")}"""


def _finish(name: str, moved: Moved) -> str:
    """Put what is still kept, and write the function that puts what is kept."""
    entry = ""
    for value, t in moved:
        ty = t.memory_llvm
        entry += f"""
  %{value}.in = getelementptr {ty}, ptr %{value}.kept, i64 %in
  %{value}.at = getelementptr {ty}, ptr %{value}.to, i64 %e
  %{value} = load {ty}, ptr %{value}.in
  store {ty} %{value}, ptr %{value}.at"""
    parameters = f"i64 %digit, i64 %begin, i64 %end{_arrays(moved)}"
    return f"""  br i1 %is.shared, label %rest, label %done
rest:
  %r = phi i64 [ 0, %exit ], [ %r.n, %rest ]
{_first("r")}
  %r.at = getelementptr i32, ptr %table, i64 %r
  %r.end.low = load i32, ptr %r.at
  %r.end = zext i32 %r.end.low to i64
  %r.line = and i64 %r.end, {-LINE}
  %r.begin = call i64 @llvm.umax.i64(i64 %r.line, i64 %r.first)
  call void @{name}_put(i64 %r, i64 %r.begin, i64 %r.end{_arrays(moved)})
  %r.n = add i64 %r, 1
  %r.more = icmp ult i64 %r.n, {DIGITS}
  br i1 %r.more, label %rest, label %done
done:
  ret void
}}
define internal void @{name}_put({parameters}) nounwind {{
entry:
  %line = mul i64 %digit, {LINE}
  %is.some = icmp ult i64 %begin, %end
  br i1 %is.some, label %next, label %exit
next:
  %e = phi i64 [ %begin, %entry ], [ %e.n, %next ]
  %slot = and i64 %e, {LINE - 1}
  %in = add i64 %line, %slot{entry}
  %e.n = add i64 %e, 1
  %more = icmp ult i64 %e.n, %end
  br i1 %more, label %next, label %exit
exit:
  ret void
}}
declare i32 @llvm.umax.i32(i32, i32)
declare i64 @llvm.umax.i64(i64, i64)"""
