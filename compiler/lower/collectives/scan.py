"""Kernels in which a block needs the total of those before: sums and compaction."""

from __future__ import annotations

from lumijit.compiler.lower.access import combine_text
from lumijit.compiler.lower.collectives.pieces import arg, block_total, head, lanes
from lumijit.runtime.dtypes import DType

# The vectors that a turn of the loop takes.
_PARTS = 2


def _scan_part(t: DType, part: int, exclusive: bool) -> str:
    """Write sums within the vector %x{part}: %shown{part}, and %total{part} of all.

    Vectors have 128 bits: between the halves of wider ones, entries move slowly.
    """
    width = 16 // t.size_bytes
    ty = f"<{width} x {t.memory_llvm}>"
    add = combine_text("add", t)
    lines = []

    def moved(name: str, source: str, shift: int) -> str:
        """Move entries up; zeros come from below."""
        picks = ", ".join(
            f"i32 {width + k - shift if k >= shift else k}" for k in range(width)
        )
        lines.append(
            f"  {name} = shufflevector {ty} zeroinitializer, {ty} {source}, "
            f"<{width} x i32> <{picks}>"
        )
        return name

    current = f"%x{part}"
    shift = 1
    while shift < width:
        below = moved(f"%below{shift}.{part}", current, shift)
        lines.append(f"  %sum{shift}.{part} = {add} {ty} {current}, {below}")
        current = f"%sum{shift}.{part}"
        shift *= 2
    lines.append(
        f"  %total{part} = shufflevector {ty} {current}, {ty} poison, "
        f"<{width} x i32> splat (i32 {width - 1})"
    )
    shown = f"%shown{part}"
    if not exclusive:
        lines.append(f"  {shown} = {add} {ty} {current}, zeroinitializer")
    elif t.is_float:
        moved(shown, current, 1)
    else:
        lines.append(f"  {shown} = sub {ty} {current}, %x{part}")
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


def scan_ir(
    name: str, t: DType, exclusive: bool, pause: str, is_streaming: bool
) -> str:
    """Prefix sum in one pass: sum a block, wait for the block before, scan.

    Slots: src, dst, sums (one value per block), ready (one i32 per block, zero at
    the start), block. Threads take blocks in order, so the block before is always
    done or being worked on. Streaming kernels write past the caches.
    """
    width = 16 // t.size_bytes
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    add = combine_text("add", t)
    total, result = block_total("add", t, "entry", "tx")
    zero = "0.0" if t.is_float else "0"
    prefix = _prefix_of_block(element, result, "fold", zero, pause, add)
    how = "align 16, !nontemporal !0" if is_streaming else f"align {t.size_bytes}"
    turn = []
    for part in range(_PARTS):
        carry = f"%carry{part}"
        turn.append(f"""  %k{part} = add i64 %k, {part * width}
  %from{part} = getelementptr {element}, ptr %src, i64 %k{part}
  %x{part} = load {ty}, ptr %from{part}, align {t.size_bytes}
{_scan_part(t, part, exclusive)}
  %y{part} = {add} {ty} %shown{part}, {carry}
  %carry{part + 1} = {add} {ty} {carry}, %total{part}
  %to{part} = getelementptr {element}, ptr %dst, i64 %k{part}
  store {ty} %y{part}, ptr %to{part}, {how}""")
    body = "\n".join(turn)
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
  %carry0 = phi {ty} [ %c1, %publish ], [ %carry{_PARTS}, %scanning ]
{body}
  %k.n = add i64 %k, {_PARTS * width}
  %goon = icmp ult i64 %k.n, %end
  br i1 %goon, label %scanning, label %exit
exit:
  ret void
}}
{_declare(pause)}
{"!0 = !{i32 1}" if is_streaming else ""}
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
