"""Kernels in which a block needs the total of those before: sums and compaction."""

from __future__ import annotations

from lumijit.compiler.lower.access import combine_text
from lumijit.compiler.lower.collectives.pieces import arg, block_total, head, lanes
from lumijit.runtime.dtypes import DType


def _scan_register(t: DType, width: int) -> str:
    """Write the inclusive scan of the vector %x into %scan."""
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    add = combine_text("add", t)
    lines = []
    current = "%x"
    shift = 1
    while shift < width:
        picks = ", ".join(
            f"i32 {width + k - shift if k >= shift else k}" for k in range(width)
        )
        lines.append(
            f"  %sh{shift} = shufflevector {ty} zeroinitializer, {ty} {current}, "
            f"<{width} x i32> <{picks}>"
        )
        lines.append(f"  %sc{shift} = {add} {ty} {current}, %sh{shift}")
        current = f"%sc{shift}"
        shift *= 2
    lines.append(f"  %scan = {add} {ty} {current}, zeroinitializer")
    return "\n".join(lines)


def _prefix_of_block(
    element: str, total: str, came_from: str, zero: str, pause: str, add: str
) -> str:
    """Wait for the block before, and publish the sum up to and with this one.

    The text continues the block `came_from` and ends in `publish`, with the sum of
    all blocks before in %prefix and that with this block's `total` in %upto.
    """
    return f"""  br i1 %isfirst, label %publish, label %wait
wait:
  %before = sub i64 %number, 1
  %flag = getelementptr i32, ptr %ready, i64 %before
  br label %poll
poll:
  %state = load atomic i32, ptr %flag acquire, align 4
  %done = icmp ne i32 %state, 0
  br i1 %done, label %fetch, label %idle
idle:
  {pause}
  br label %poll
fetch:
  %sumat = getelementptr {element}, ptr %sums, i64 %before
  %got = load {element}, ptr %sumat
  br label %publish
publish:
  %prefix = phi {element} [ {zero}, %{came_from} ], [ %got, %fetch ]
  %upto = {add} {element} %prefix, {total}
  %mine = getelementptr {element}, ptr %sums, i64 %number
  store {element} %upto, ptr %mine
  %myflag = getelementptr i32, ptr %ready, i64 %number
  store atomic i32 1, ptr %myflag release, align 4"""


def _declare(pause: str) -> str:
    return "declare void @llvm.x86.sse2.pause()" if "pause" in pause else ""


def scan_ir(name: str, t: DType, exclusive: bool, pause: str) -> str:
    """Prefix sum in one pass: sum a block, wait for the block before, scan.

    Slots: src, dst, sums (one value per block), ready (one i32 per block, zero at
    the start), block. Threads take blocks in order, so the block before is always
    done or being worked on.
    """
    width = 8 if t.size_bytes <= 4 else 4
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    add = combine_text("add", t)
    total, result = block_total("add", t, "entry", "tx")
    zero = "0.0" if t.is_float else "0"
    prefix = _prefix_of_block(element, result, "fold", zero, pause, add)
    last = width - 1
    picks = ", ".join(f"i32 {width + k - 1 if k else 0}" for k in range(width))
    shown = "%moved" if exclusive else "%scan"
    return f"""{head(name)}
entry:
{arg("src", 0)}
{arg("dst", 1)}
{arg("sums", 2)}
{arg("ready", 3)}
{arg("block", 4, "i64")}
  %start = add i64 %begin, 0
  %stop = add i64 %end, 0
  %number = udiv i64 %begin, %block
  %isfirst = icmp eq i64 %number, 0
  %count = sub i64 %end, %begin
  %whole = and i64 %count, -{lanes(t)}
  %full = add i64 %begin, %whole
  %any = icmp ne i64 %whole, 0
{total}
{prefix}
  %c0 = insertelement {ty} poison, {element} %prefix, i32 0
  %c1 = shufflevector {ty} %c0, {ty} poison, <{width} x i32> zeroinitializer
  br label %scanning
scanning:
  %k = phi i64 [ %begin, %publish ], [ %k.n, %scanning ]
  %carry = phi {ty} [ %c1, %publish ], [ %carry.n, %scanning ]
  %from = getelementptr {element}, ptr %src, i64 %k
  %x = load {ty}, ptr %from, align {t.size_bytes}
{_scan_register(t, width)}
  %moved = shufflevector {ty} zeroinitializer, {ty} %scan, <{width} x i32> <{picks}>
  %y = {add} {ty} {shown}, %carry
  %to = getelementptr {element}, ptr %dst, i64 %k
  store {ty} %y, ptr %to, align {t.size_bytes}
  %top = shufflevector {ty} %scan, {ty} poison, <{width} x i32> splat (i32 {last})
  %carry.n = {add} {ty} %carry, %top
  %k.n = add i64 %k, {width}
  %goon = icmp ult i64 %k.n, %end
  br i1 %goon, label %scanning, label %exit
exit:
  ret void
}}
{_declare(pause)}
"""


def compress_ir(name: str, pause: str) -> str:
    """Write the indices of the set entries of a mask one after the other.

    Slots: mask (bytes), dst (u32), sums (u32 per block), ready, block, count (u32,
    receives the total), last block's number.
    """
    prefix = _prefix_of_block("i32", "%sum.n", "counted", "0", pause, "add")
    return f"""{head(name)}
entry:
{arg("src", 0)}
{arg("dst", 1)}
{arg("sums", 2)}
{arg("ready", 3)}
{arg("block", 4, "i64")}
{arg("size", 5, "i64")}
{arg("count", 6)}
  %number = udiv i64 %begin, %block
  %isfirst = icmp eq i64 %number, 0
  br label %tally
tally:
  %i = phi i64 [ %begin, %entry ], [ %i.n, %tally ]
  %sum = phi i32 [ 0, %entry ], [ %sum.n, %tally ]
  %at = getelementptr i8, ptr %src, i64 %i
  %m = load i8, ptr %at
  %mz = zext i8 %m to i32
  %sum.n = add i32 %sum, %mz
  %i.n = add i64 %i, 1
  %more = icmp ult i64 %i.n, %end
  br i1 %more, label %tally, label %counted
counted:
{prefix}
  %islast = icmp eq i64 %end, %size
  br i1 %islast, label %total, label %start
total:
  store i32 %upto, ptr %count
  br label %start
start:
  %base = zext i32 %prefix to i64
  br label %writing
writing:
  %k = phi i64 [ %begin, %start ], [ %k.n, %skip ]
  %pos = phi i64 [ %base, %start ], [ %pos.n, %skip ]
  %to = getelementptr i32, ptr %dst, i64 %pos
  %k32 = trunc i64 %k to i32
  %from = getelementptr i8, ptr %src, i64 %k
  %b = load i8, ptr %from
  %set = icmp ne i8 %b, 0
  br i1 %set, label %put, label %skip
put:
  store i32 %k32, ptr %to
  br label %skip
skip:
  %bz = zext i8 %b to i64
  %pos.n = add i64 %pos, %bz
  %k.n = add i64 %k, 1
  %goon = icmp ult i64 %k.n, %end
  br i1 %goon, label %writing, label %exit
exit:
  ret void
}}
{_declare(pause)}
"""
