"""Prefix sums: a block waits for the total of those before."""

from __future__ import annotations

from lumijit.compiler.lower.access import combine_text
from lumijit.compiler.lower.collectives.pieces import (
    arg,
    block_total,
    head,
    lanes,
    tail_mask,
)
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


def prefix_of_block(
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


def declare_pause(pause: str) -> str:
    """Declare what a kernel that waits calls meanwhile."""
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
    total, result = block_total("add", t, lanes(t), "entry", "tx")
    zero = "0.0" if t.is_float else "0"
    prefix = prefix_of_block(element, result, "fold", zero, pause, add)
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
{tail_mask(t, lanes(t), "%count")}
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
{declare_pause(pause)}
{"!0 = !{i32 1}" if is_streaming else ""}
"""
