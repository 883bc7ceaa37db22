"""Prefix sums, and how a block gets the total of those before."""

from __future__ import annotations

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
# How often a block looks whether the one before is done: about as long as it takes to
# sum that one instead.
_SPINS = 256


def _scan_part(t: DType, part: int, exclusive: bool) -> str:
    """Write sums within the vector %x{part}: %shown{part}, and %total{part} of all.

    Vectors have 128 bits: between the halves of wider ones, entries move slowly.
    """
    width = 16 // t.size_bytes
    ty = f"<{width} x {t.memory_llvm}>"
    add = "fadd" if t.is_float else "add"
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


def prefix_function(element: str, zero: str, pause: str, add: str) -> str:
    """Write @prefix: the sum of all blocks before one.

    It waits for the block before, but not for long: whoever has that block may have
    lost its core, or wait in turn. Then it adds up what is missing itself, from the
    last block whose sum is known, in the same order and so with the same bits. The
    text calls `@total(src, start, stop)`, which sums a range.
    """
    return f"""
define internal {element} @prefix(ptr %src, ptr %sums, ptr %ready, i64 %block,
    i64 %number) nounwind {{
entry:
  %isfirst = icmp eq i64 %number, 0
  br i1 %isfirst, label %none, label %wait
none:
  ret {element} {zero}
wait:
  %before = sub i64 %number, 1
  %flag = getelementptr i32, ptr %ready, i64 %before
  br label %poll
poll:
  %turn = phi i32 [ 0, %wait ], [ %turn.n, %idle ]
  %state = load atomic i32, ptr %flag acquire, align 4
  %done = icmp ne i32 %state, 0
  br i1 %done, label %found, label %idle
idle:
  {pause}
  %turn.n = add i32 %turn, 1
  %patient = icmp ult i32 %turn.n, {_SPINS}
  br i1 %patient, label %poll, label %back
back:
  %k = phi i64 [ %before, %idle ], [ %k.n, %earlier ]
  %kflag = getelementptr i32, ptr %ready, i64 %k
  %kstate = load atomic i32, ptr %kflag acquire, align 4
  %known = icmp ne i32 %kstate, 0
  br i1 %known, label %found, label %unknown
unknown:
  %bottom = icmp eq i64 %k, 0
  br i1 %bottom, label %forth, label %earlier
earlier:
  %k.n = sub i64 %k, 1
  br label %back
found:
  %at = phi i64 [ %before, %poll ], [ %k, %back ], [ %j, %forth ]
  %sumat = getelementptr {element}, ptr %sums, i64 %at
  %got = load {element}, ptr %sumat
  br label %onward
forth:
  %j = phi i64 [ 0, %unknown ], [ %next, %onward ]
  %upto = phi {element} [ {zero}, %unknown ], [ %sum, %onward ]
  %jflag = getelementptr i32, ptr %ready, i64 %j
  %jstate = load atomic i32, ptr %jflag acquire, align 4
  %meanwhile = icmp ne i32 %jstate, 0
  br i1 %meanwhile, label %found, label %help
help:
  %start = mul i64 %j, %block
  %stop = add i64 %start, %block
  %total = call {element} @total(ptr %src, i64 %start, i64 %stop)
  %helped = {add} {element} %upto, %total
  call void @publish(ptr %sums, ptr %ready, i64 %j, {element} %helped)
  br label %onward
onward:
  %sum = phi {element} [ %got, %found ], [ %helped, %help ]
  %last = phi i64 [ %at, %found ], [ %j, %help ]
  %next = add i64 %last, 1
  %over = icmp eq i64 %next, %number
  br i1 %over, label %out, label %forth
out:
  ret {element} %sum
}}

define internal void @publish(ptr %sums, ptr %ready, i64 %number,
    {element} %upto) nounwind {{
  %at = getelementptr {element}, ptr %sums, i64 %number
  store {element} %upto, ptr %at
  %flag = getelementptr i32, ptr %ready, i64 %number
  store atomic i32 1, ptr %flag release, align 4
  ret void
}}
{_declare(pause)}
"""


def prefix_of_block(element: str, add: str) -> str:
    """Sum a block to %upto, with the sum of all before, which is %prefix."""
    return f"""  %number = udiv i64 %begin, %block
  %mine = call {element} @total(ptr %src, i64 %begin, i64 %end)
  %prefix = call {element} @prefix(ptr %src, ptr %sums, ptr %ready, i64 %block,
    i64 %number)
  %upto = {add} {element} %prefix, %mine
  call void @publish(ptr %sums, ptr %ready, i64 %number, {element} %upto)"""


def _total_function(t: DType) -> str:
    """Write @total: the sum of a range of the source."""
    total, result = block_total("add", t, lanes(t), "entry", "tx")
    return f"""
define internal {t.memory_llvm} @total(ptr %src, i64 %start, i64 %stop) nounwind {{
entry:
  %count = sub i64 %stop, %start
{tail_mask(t, lanes(t), "%count")}
  %full = add i64 %start, %whole
  %any = icmp ne i64 %whole, 0
{total}
  ret {t.memory_llvm} {result}
}}
"""


def _declare(pause: str) -> str:
    return "declare void @llvm.x86.sse2.pause()" if "pause" in pause else ""


def scan_ir(
    name: str, t: DType, exclusive: bool, pause: str, is_streaming: bool
) -> str:
    """Prefix sum in one pass: sum a block, get the sum of those before, scan.

    Slots: src, dst, sums (one value per block), ready (one i32 per block, zero at
    the start), block. Threads take blocks in order, so the block before is always
    done or being worked on. Streaming kernels write past the caches.
    """
    width = 16 // t.size_bytes
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    add = "fadd" if t.is_float else "add"
    zero = "0.0" if t.is_float else "0"
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
{prefix_of_block(element, add)}
  %c0 = insertelement {ty} poison, {element} %prefix, i32 0
  %c1 = shufflevector {ty} %c0, {ty} poison, <{width} x i32> zeroinitializer
  br label %scanning
scanning:
  %k = phi i64 [ %begin, %entry ], [ %k.n, %scanning ]
  %carry0 = phi {ty} [ %c1, %entry ], [ %carry{_PARTS}, %scanning ]
{body}
  %k.n = add i64 %k, {_PARTS * width}
  %goon = icmp ult i64 %k.n, %end
  br i1 %goon, label %scanning, label %exit
exit:
  ret void
}}
{_total_function(t)}
{prefix_function(element, zero, pause, add)}
{"!0 = !{i32 1}" if is_streaming else ""}
"""
