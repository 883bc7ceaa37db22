"""Kernels for what isn't elementwise: reductions, scans, compaction, copies.

Each function returns the IR of one kernel with the signature of `packet`'s. They
are independent of any trace: the operation and the type are all that varies.
"""

from __future__ import annotations

from lumijit.compiler.lower.access import combine_text, identity
from lumijit.compiler.lower.builder import float_hex
from lumijit.runtime.dtypes import DType

LANES_BYTES = 256


def _head(name: str) -> str:
    return (
        f"define void @{name}(i64 %begin, i64 %end, i32 %thread, ptr %args) nounwind {{"
    )


def _arg(name: str, slot: int, ty: str = "ptr") -> str:
    return (
        f"  %{name}.p = getelementptr i64, ptr %args, i64 {slot}\n"
        f"  %{name} = load {ty}, ptr %{name}.p"
    )


def lanes(t: DType) -> int:
    """Return how many entries a collective kernel takes at once."""
    return min(64, LANES_BYTES // t.size_bytes)


def neutral(op: str, t: DType) -> str:
    """Spell the neutral value of a reduction as a scalar of the memory type."""
    value = identity(op, t)
    if t.is_float:
        return float_hex(t, -0.0 if op == "add" else float(value))
    return str(int(value))


def combine(op: str, t: DType, ty: str, name: str, x: str, y: str) -> str:
    """Write `name = x op y` on a scalar or vector type."""
    if op in ("add", "mul", "and", "or"):
        return f"  %{name} = {combine_text(op, t)} {ty} {x}, {y}"
    if t.is_float:
        test = f"fcmp {'olt' if op == 'min' else 'ogt'}"
    else:
        sign = "s" if t.is_signed else "u"
        test = f"icmp {sign}{'lt' if op == 'min' else 'gt'}"
    masks = f"<{ty[1:].split()[0]} x i1>" if ty.startswith("<") else "i1"
    return (
        f"  %{name}.c = {test} {ty} {y}, {x}\n"
        f"  %{name} = select {masks} %{name}.c, {ty} {y}, {ty} {x}"
    )


def _iota(width: int) -> str:
    return "<" + ", ".join(f"i64 {k}" for k in range(width)) + ">"


def _tail_select(
    width: int, element: str, source: str, fill: str, out: str = "x"
) -> str:
    """Write `%out` = source where the lane at %full lies before %stop, else fill."""
    return f"""  %left = sub i64 %stop, %full
  %left1 = insertelement <{width} x i64> poison, i64 %left, i32 0
  %lefts = shufflevector <{width} x i64> %left1, <{width} x i64> poison, <{width} x i32> zeroinitializer
  %in = icmp ult <{width} x i64> {_iota(width)}, %lefts
  %{out} = select <{width} x i1> %in, <{width} x {element}> {source}, <{width} x {element}> splat ({element} {fill})"""  # noqa: E501


def _fold_lanes(op: str, t: DType, width: int, source: str) -> tuple[str, str]:
    """Combine the lanes of a vector in a tree; return the text and the result."""
    element = t.memory_llvm
    lines = []
    step = 0
    current = source
    while width > 1:
        half = width // 2
        ty = f"<{width} x {element}>"
        for part, offset in (("lo", 0), ("hi", half)):
            picks = ", ".join(f"i32 {offset + k}" for k in range(half))
            lines.append(
                f"  %f{step}.{part} = shufflevector {ty} {current}, {ty} poison, "
                f"<{half} x i32> <{picks}>"
            )
        lines.append(
            combine(
                op,
                t,
                f"<{half} x {element}>",
                f"f{step}",
                f"%f{step}.lo",
                f"%f{step}.hi",
            )
        )
        current = f"%f{step}"
        width = half
        step += 1
    lines.append(f"  %folded = extractelement <1 x {element}> {current}, i32 0")
    return "\n".join(lines), "%folded"


def _sum_loop(op: str, t: DType, width: int, first: str, after: str) -> str:
    """Write a loop that combines src[%start … %stop) into the vector %acc."""
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    zero = neutral(op, t)
    return f"""  br label %body
body:
  %i = phi i64 [ %start, %{first} ], [ %i.n, %body ]
  %acc = phi {ty} [ splat ({element} {zero}), %{first} ], [ %acc.n, %body ]
  %at = getelementptr {element}, ptr %src, i64 %i
  %raw = load {ty}, ptr %at, align {t.size_bytes}
{combine(op, t, ty, "acc.n", "%acc", "%raw")}
  %i.n = add i64 %i, {width}
  %more = icmp ult i64 %i.n, %full
  br i1 %more, label %body, label %{after}"""


def reduce_ir(name: str, op: str, t: DType) -> str:
    """Combine src[begin … end) into dst[begin / block]; slots: src, dst, block.

    Full vectors first, then the rest under a mask, then the lanes as a tree.
    """
    width = lanes(t)
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    zero = neutral(op, t)
    fold, result = _fold_lanes(op, t, width, "%total")
    return f"""{_head(name)}
entry:
{_arg("src", 0)}
{_arg("dst", 1)}
{_arg("block", 2, "i64")}
  %start = add i64 %begin, 0
  %stop = add i64 %end, 0
  %count = sub i64 %end, %begin
  %whole = and i64 %count, -{width}
  %full = add i64 %begin, %whole
  %any = icmp ne i64 %whole, 0
  br i1 %any, label %loop, label %rest
loop:
{_sum_loop(op, t, width, "loop", "rest")}
rest:
  %sum = phi {ty} [ splat ({element} {zero}), %entry ], [ %acc.n, %body ]
  %odd = icmp ult i64 %full, %stop
  br i1 %odd, label %tail, label %fold
tail:
  %ta = getelementptr {element}, ptr %src, i64 %full
  %traw = load {ty}, ptr %ta, align {t.size_bytes}
{_tail_select(width, element, "%traw", zero)}
{combine(op, t, ty, "tsum", "%sum", "%x")}
  br label %fold
fold:
  %total = phi {ty} [ %sum, %rest ], [ %tsum, %tail ]
{fold}
  %number = udiv i64 %begin, %block
  %out = getelementptr {element}, ptr %dst, i64 %number
  store {element} {result}, ptr %out
  ret void
}}
"""


def block_reduce_ir(name: str, op: str, t: DType) -> str:
    """Set dst[j] to the combination of src[j * block … (j + 1) * block).

    Slots: src, dst, block.
    """
    width = lanes(t)
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    zero = neutral(op, t)
    fold, result = _fold_lanes(op, t, width, "%total")
    return f"""{_head(name)}
entry:
{_arg("src", 0)}
{_arg("dst", 1)}
{_arg("block", 2, "i64")}
  br label %next
next:
  %j = phi i64 [ %begin, %entry ], [ %j.n, %fold ]
  %start = mul i64 %j, %block
  %stop = add i64 %start, %block
  %whole = and i64 %block, -{width}
  %full = add i64 %start, %whole
  %any = icmp ne i64 %whole, 0
  br i1 %any, label %loop, label %rest
loop:
{_sum_loop(op, t, width, "loop", "rest")}
rest:
  %sum = phi {ty} [ splat ({element} {zero}), %next ], [ %acc.n, %body ]
  %odd = icmp ult i64 %full, %stop
  br i1 %odd, label %tail, label %fold
tail:
  %ta = getelementptr {element}, ptr %src, i64 %full
  %traw = load {ty}, ptr %ta, align {t.size_bytes}
{_tail_select(width, element, "%traw", zero)}
{combine(op, t, ty, "tsum", "%sum", "%x")}
  br label %fold
fold:
  %total = phi {ty} [ %sum, %rest ], [ %tsum, %tail ]
{fold}
  %out = getelementptr {element}, ptr %dst, i64 %j
  store {element} {result}, ptr %out
  %j.n = add i64 %j, 1
  %again = icmp ult i64 %j.n, %end
  br i1 %again, label %next, label %exit
exit:
  ret void
}}
"""


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


def scan_ir(name: str, t: DType, exclusive: bool, pause: str) -> str:
    """Prefix sum in one pass: sum a block, wait for the block before, scan.

    Slots: src, dst, sums (one value per block), ready (one i32 per block, zero at
    the start), block. Threads take blocks in order, so the block before is always
    done or being worked on.
    """
    width = 8 if t.size_bytes <= 4 else 4
    wide = lanes(t)
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    add = combine_text("add", t)
    fold, result = _fold_lanes("add", t, wide, "%total")
    zero = neutral("add", t)
    last = width - 1
    picks = ", ".join(f"i32 {width + k - 1 if k else 0}" for k in range(width))
    shown = "%moved" if exclusive else "%scan"
    return f"""{_head(name)}
entry:
{_arg("src", 0)}
{_arg("dst", 1)}
{_arg("sums", 2)}
{_arg("ready", 3)}
{_arg("block", 4, "i64")}
  %start = add i64 %begin, 0
  %stop = add i64 %end, 0
  %number = udiv i64 %begin, %block
  %isfirst = icmp eq i64 %number, 0
  %count = sub i64 %end, %begin
  %whole = and i64 %count, -{wide}
  %full = add i64 %begin, %whole
  %any = icmp ne i64 %whole, 0
  br i1 %any, label %loop, label %rest
loop:
{_sum_loop("add", t, wide, "loop", "rest")}
rest:
  %sum = phi <{wide} x {element}> [ splat ({element} {zero}), %entry ], [ %acc.n, %body ]
  %odd = icmp ult i64 %full, %stop
  br i1 %odd, label %tail, label %fold
tail:
  %ta = getelementptr {element}, ptr %src, i64 %full
  %traw = load <{wide} x {element}>, ptr %ta, align {t.size_bytes}
{_tail_select(wide, element, "%traw", zero, "tx")}
{combine("add", t, f"<{wide} x {element}>", "tsum", "%sum", "%tx")}
  br label %fold
fold:
  %total = phi <{wide} x {element}> [ %sum, %rest ], [ %tsum, %tail ]
{fold}
  br i1 %isfirst, label %publish, label %wait
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
  %prefix = phi {element} [ {"0.0" if t.is_float else "0"}, %fold ], [ %got, %fetch ]
  %upto = {add} {element} %prefix, {result}
  %mine = getelementptr {element}, ptr %sums, i64 %number
  store {element} %upto, ptr %mine
  %myflag = getelementptr i32, ptr %ready, i64 %number
  store atomic i32 1, ptr %myflag release, align 4
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
{"declare void @llvm.x86.sse2.pause()" if "pause" in pause else ""}
"""  # noqa: E501


def compress_ir(name: str, pause: str) -> str:
    """Write the indices of the set entries of a mask one after the other.

    Slots: mask (bytes), dst (u32), sums (u32 per block), ready, block, count (u32,
    receives the total), last block's number.
    """
    return f"""{_head(name)}
entry:
{_arg("src", 0)}
{_arg("dst", 1)}
{_arg("sums", 2)}
{_arg("ready", 3)}
{_arg("block", 4, "i64")}
{_arg("size", 5, "i64")}
{_arg("count", 6)}
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
  br i1 %isfirst, label %publish, label %wait
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
  %sumat = getelementptr i32, ptr %sums, i64 %before
  %got = load i32, ptr %sumat
  br label %publish
publish:
  %prefix = phi i32 [ 0, %counted ], [ %got, %fetch ]
  %upto = add i32 %prefix, %sum.n
  %mine = getelementptr i32, ptr %sums, i64 %number
  store i32 %upto, ptr %mine
  %myflag = getelementptr i32, ptr %ready, i64 %number
  store atomic i32 1, ptr %myflag release, align 4
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
{"declare void @llvm.x86.sse2.pause()" if "pause" in pause else ""}
"""


def merge_ir(name: str, op: str, t: DType) -> str:
    """Combine private copies into dst[begin … end).

    Slots: dst, base, entries between threads, threads, interleaved copies.
    """
    element = t.memory_llvm
    return f"""{_head(name)}
entry:
{_arg("dst", 0)}
{_arg("base", 1)}
{_arg("stride", 2, "i64")}
{_arg("threads", 3, "i64")}
{_arg("copies", 4, "i64")}
  br label %entryloop
entryloop:
  %k = phi i64 [ %begin, %entry ], [ %k.n, %store ]
  %to = getelementptr {element}, ptr %dst, i64 %k
  %old = load {element}, ptr %to
  %first = mul i64 %k, %copies
  br label %slot
slot:
  %t = phi i64 [ 0, %entryloop ], [ %t.n, %slot.end ]
  %at = phi i64 [ %first, %entryloop ], [ %at.n, %slot.end ]
  %sum = phi {element} [ %old, %entryloop ], [ %sum.c, %slot.end ]
  br label %copy
copy:
  %c = phi i64 [ 0, %slot ], [ %c.n, %copy ]
  %part = phi {element} [ %sum, %slot ], [ %sum.c, %copy ]
  %place = add i64 %at, %c
  %from = getelementptr {element}, ptr %base, i64 %place
  %v = load {element}, ptr %from
{combine(op, t, element, "sum.c", "%part", "%v")}
  %c.n = add i64 %c, 1
  %cmore = icmp ult i64 %c.n, %copies
  br i1 %cmore, label %copy, label %slot.end
slot.end:
  %at.n = add i64 %at, %stride
  %t.n = add i64 %t, 1
  %tmore = icmp ult i64 %t.n, %threads
  br i1 %tmore, label %slot, label %store
store:
  store {element} %sum.c, ptr %to
  %k.n = add i64 %k, 1
  %more = icmp ult i64 %k.n, %end
  br i1 %more, label %entryloop, label %exit
exit:
  ret void
}}
"""


def merge_vector_ir(name: str, op: str, t: DType) -> str:
    """Combine one copy per thread into dst[begin … end), whole vectors at a time.

    Slots: dst, base, entries between threads, threads, (unused).
    """
    width = lanes(t)
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    return f"""{_head(name)}
entry:
{_arg("dst", 0)}
{_arg("base", 1)}
{_arg("stride", 2, "i64")}
{_arg("threads", 3, "i64")}
  br label %chunk
chunk:
  %k = phi i64 [ %begin, %entry ], [ %k.n, %store ]
  %to = getelementptr {element}, ptr %dst, i64 %k
  %old = load {ty}, ptr %to, align {t.size_bytes}
  br label %slot
slot:
  %t = phi i64 [ 0, %chunk ], [ %t.n, %slot ]
  %at = phi i64 [ %k, %chunk ], [ %at.n, %slot ]
  %sum = phi {ty} [ %old, %chunk ], [ %sum.n, %slot ]
  %from = getelementptr {element}, ptr %base, i64 %at
  %v = load {ty}, ptr %from, align {t.size_bytes}
{combine(op, t, ty, "sum.n", "%sum", "%v")}
  %at.n = add i64 %at, %stride
  %t.n = add i64 %t, 1
  %tmore = icmp ult i64 %t.n, %threads
  br i1 %tmore, label %slot, label %store
store:
  store {ty} %sum.n, ptr %to, align {t.size_bytes}
  %k.n = add i64 %k, {width}
  %more = icmp ult i64 %k.n, %end
  br i1 %more, label %chunk, label %exit
exit:
  ret void
}}
"""


def copy_ir(name: str) -> str:
    """Copy lines of 64 bytes; slots: src, dst. The size counts lines."""
    return f"""{_head(name)}
entry:
{_arg("src", 0)}
{_arg("dst", 1)}
  br label %next
next:
  %k = phi i64 [ %begin, %entry ], [ %k.n, %next ]
  %from = getelementptr <64 x i8>, ptr %src, i64 %k
  %to = getelementptr <64 x i8>, ptr %dst, i64 %k
  %v = load <64 x i8>, ptr %from, align 1
  store <64 x i8> %v, ptr %to, align 64
  %k.n = add i64 %k, 1
  %more = icmp ult i64 %k.n, %end
  br i1 %more, label %next, label %exit
exit:
  ret void
}}
"""


def fill_ir(name: str) -> str:
    """Fill lines of 64 bytes with an 8-byte pattern; slots: dst, pattern."""
    return f"""{_head(name)}
entry:
{_arg("dst", 0)}
{_arg("pattern", 1, "i64")}
  %p0 = insertelement <8 x i64> poison, i64 %pattern, i32 0
  %p = shufflevector <8 x i64> %p0, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %next
next:
  %k = phi i64 [ %begin, %entry ], [ %k.n, %next ]
  %to = getelementptr <8 x i64>, ptr %dst, i64 %k
  store <8 x i64> %p, ptr %to, align 64
  %k.n = add i64 %k, 1
  %more = icmp ult i64 %k.n, %end
  br i1 %more, label %next, label %exit
exit:
  ret void
}}
"""
