"""Running sums, products and extremes, and how a block gets those of all before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lumijit.compiler.emit.combine import combine_text
from lumijit.compiler.lower.collectives.pieces import (
    block_total,
    each,
    head,
    lanes,
    neutral,
    tail_mask,
)
from lumijit.runtime import cpu
from lumijit.runtime.dtypes import DType

#: Writes how two scalars are combined to a third: its name, then theirs.
Combine = Callable[[str, str, str], str]

# The vectors that a turn of the loop takes.
_PARTS = 2
# How often a block looks whether the one before is done: about as long as it takes to
# sum that one instead.
_SPINS = 256


def scan_block(t: DType) -> int:
    """Return how many entries a launch's blocks have."""
    return 1 << 14


def spinning() -> tuple[str, str]:
    """Return the instruction of a thread that waits, and its declaration."""
    if cpu.machine_is_x86():
        pause = "void @llvm.x86.sse2.pause()"
        return f"call {pause}", f"declare {pause}"
    return "fence seq_cst", ""


def first_value(op: str, t: DType) -> str:
    """Spell what an exclusive scan begins with."""
    return "0.0" if t.is_float and op == "add" else neutral(op, t)


def _scan_part(op: str, t: DType, part: int, exclusive: bool) -> str:
    """Scan the vector %x{part}: to %shown{part}, and %total{part} of all its entries.

    Vectors have 128 bits: between the halves of wider ones, entries move slowly.
    """
    width = 16 // t.size_bytes
    ty = f"<{width} x {t.memory_llvm}>"
    nothing = f"{ty} splat ({t.memory_llvm} {first_value(op, t)})"
    lines = []

    def moved(name: str, source: str, shift: int) -> str:
        """Move entries up; neutral ones come from below."""
        picks = ", ".join(
            f"i32 {width + k - shift if k >= shift else k}" for k in range(width)
        )
        lines.append(
            f"  {name} = shufflevector {nothing}, {ty} {source}, "
            f"<{width} x i32> <{picks}>"
        )
        return name

    current = f"%x{part}"
    shift = 1
    while shift < width:
        below = moved(f"%below{shift}.{part}", current, shift)
        lines.append(combine_text(op, t, ty, f"sum{shift}.{part}", below, current))
        current = f"%sum{shift}.{part}"
        shift *= 2
    lines.append(
        f"  %total{part} = shufflevector {ty} {current}, {ty} poison, "
        f"<{width} x i32> splat (i32 {width - 1})"
    )
    shown = f"%shown{part}"
    if not exclusive:
        lines.append(f"  {shown} = freeze {ty} {current}")
    elif op == "add" and not t.is_float:
        lines.append(f"  {shown} = sub {ty} {current}, %x{part}")
    else:
        moved(shown, current, 1)
    return "\n".join(lines)


def prefix_function(element: str, zero: str, combine: Combine) -> str:
    """Write @prefix: the sum of all blocks before one.

    It waits for the block before, but not for long: whoever has that block may have
    lost its core, or wait in turn. Then it adds up what is missing itself, from the
    last block whose sum is known, in the same order and so with the same bits. The
    text calls `@total(src, start, stop)`, which sums a range. As it runs once a block,
    LLVM is spared optimizing it (a sixth of the build).
    """
    pause, declaration = spinning()
    return f"""
define internal {element} @prefix(ptr %src, ptr %sums, ptr %ready, i64 %block,
    i64 %number) nounwind noinline optnone {{
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
{combine("helped", "%upto", "%total")}
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
    {element} %upto) nounwind noinline optnone {{
  %at = getelementptr {element}, ptr %sums, i64 %number
  store {element} %upto, ptr %at
  %flag = getelementptr i32, ptr %ready, i64 %number
  store atomic i32 1, ptr %flag release, align 4
  ret void
}}
{declaration}
"""


def prefix_of_block(element: str, combine: Combine) -> str:
    """Sum a block to %upto, with the sum of all before, which is %prefix."""
    return f"""  %number = udiv i64 %begin, %block
  %mine = call {element} @total(ptr %src, i64 %begin, i64 %end)
  %prefix = call {element} @prefix(ptr %src, ptr %sums, ptr %ready, i64 %block,
    i64 %number)
{combine("upto", "%prefix", "%mine")}
  call void @publish(ptr %sums, ptr %ready, i64 %number, {element} %upto)"""


def _total_function(op: str, t: DType) -> str:
    """Write @total: the sum of a range of the source."""
    total, result = block_total(op, t, lanes(t), "entry", "tx")
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


def scan_ir(name: str, op: str, t: DType, exclusive: bool, is_streaming: bool) -> str:
    """Scan in one pass: combine a block, get the result of those before, scan.

    Slots: src, dst, sums (one value per block), ready (one i32 per block, zero at
    the start), block. Threads take blocks in order, so the block before is always
    done or being worked on. Streaming kernels write past the caches.
    """
    width = 16 // t.size_bytes
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    combine = partial(combine_text, op, t, element)
    how = "align 16, !nontemporal !0" if is_streaming else f"align {t.size_bytes}"
    turn = []
    for part in range(_PARTS):
        carry = f"%carry{part}"
        turn.append(f"""  %k{part} = add i64 %k, {part * width}
  %from{part} = getelementptr {element}, ptr %src, i64 %k{part}
  %x{part} = load {ty}, ptr %from{part}, align {t.size_bytes}
{_scan_part(op, t, part, exclusive)}
{combine_text(op, t, ty, f"y{part}", carry, f"%shown{part}")}
{combine_text(op, t, ty, f"carry{part + 1}", carry, f"%total{part}")}
  %to{part} = getelementptr {element}, ptr %dst, i64 %k{part}
  store {ty} %y{part}, ptr %to{part}, {how}""")
    body = "\n".join(turn)
    return f"""{head(name, "src dst sums ready block:i64")}
{prefix_of_block(element, combine)}
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
{_total_function(op, t)}
{prefix_function(element, first_value(op, t), combine)}
{"!0 = !{i32 1}" if is_streaming else ""}
"""


def runs_by(block: int) -> tuple[str, Callable[..., str]]:
    """Return how runs of `block` entries are scanned: a name, and what writes it."""
    return "runs", block_scan_ir


def block_scan_ir(name: str, op: str, t: DType, exclusive: bool) -> str:
    """Scan each run of `block` entries, one entry after the other.

    Slots: src, dst, block. The kernel's elements are the runs.
    """
    element = t.memory_llvm
    shown = "%upto" if exclusive else "%upto.n"
    body = f"""  %start = mul i64 %e, %block
  %stop = add i64 %start, %block
  br label %scan
scan:
  %i = phi i64 [ %start, %next ], [ %i.n, %scan ]
  %upto = phi {element} [ {first_value(op, t)}, %next ], [ %upto.n, %scan ]
  %from = getelementptr {element}, ptr %src, i64 %i
  %x = load {element}, ptr %from
{combine_text(op, t, element, "upto.n", "%upto", "%x")}
  %to = getelementptr {element}, ptr %dst, i64 %i
  store {element} {shown}, ptr %to
  %i.n = add i64 %i, 1
  %more = icmp ult i64 %i.n, %stop
  br i1 %more, label %scan, label %last
last:"""
    return each(name, "src dst block:i64", body, last="last")
