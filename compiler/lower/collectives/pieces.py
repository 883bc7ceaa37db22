"""Pieces of IR that the collective kernels are put together from.

Owns their signature, argument slots and loops over whole vectors; what a kernel
does with them is in its own module.
"""

from __future__ import annotations

from lumijit.compiler.emit.builder import float_hex
from lumijit.compiler.emit.combine import combine_text, identity
from lumijit.compiler.emit.type_names import mangled
from lumijit.runtime.dtypes import DType

LANES_BYTES = 256
VECTOR_BYTES = 64


def head(name: str, slots: str) -> str:
    """Open the kernel's definition, and load its arguments.

    `slots` names them in order, with types of those that are no pointers ("x n:i64").
    """
    parameters = "i64 %begin, i64 %end, i32 %thread, ptr %args"
    lines = [f"define void @{name}({parameters}) nounwind {{", "entry:"]
    for k, slot in enumerate(slots.split()):
        value, _, ty = slot.partition(":")
        lines.append(f"  %{value}.p = getelementptr i64, ptr %args, i64 {k}")
        lines.append(f"  %{value} = load {ty or 'ptr'}, ptr %{value}.p")
    return "\n".join(lines)


def each(
    name: str,
    slots: str,
    body: str,
    setup: str = "",
    step: int | str = 1,
    last: str = "next",
) -> str:
    """Write a kernel that goes through its elements, from %e on by a step.

    `setup` is what comes before. `body` begins in block `next` and ends in `last`.
    """
    return f"""{head(name, slots)}
{setup}
  br label %next
next:
  %e = phi i64 [ %begin, %entry ], [ %e.n, %{last} ]
{body}
  %e.n = add i64 %e, {step}
  %goes.on = icmp ult i64 %e.n, %end
  br i1 %goes.on, label %next, label %exit
exit:
  ret void
}}
"""


def lanes(t: DType) -> int:
    """Return how many entries a collective kernel takes at once."""
    return min(64, LANES_BYTES // t.size_bytes)


def vector_lanes(t: DType) -> int:
    """Return how many entries fit into the largest vector register."""
    return VECTOR_BYTES // t.size_bytes


def neutral(op: str, t: DType) -> str:
    """Spell the neutral value of a reduction as a scalar of the memory type."""
    value = identity(op, t)
    if t.is_float:
        return float_hex(t, -0.0 if op == "add" else float(value))
    return str(int(value))


def spread(name: str, width: int, element: str, value: str) -> str:
    """Put a number into all lanes of the vector `%name`."""
    ty = f"<{width} x {element}>"
    zeros = f"<{width} x i32> zeroinitializer"
    return f"""  %{name}.one = insertelement {ty} poison, {element} {value}, i32 0
  %{name} = shufflevector {ty} %{name}.one, {ty} poison, {zeros}"""


def below(name: str, width: int, count: str, bits: int = 64) -> str:
    """Write the mask `%name`: the lanes of lower numbers than a count, of some bits."""
    index = f"<{width} x i{bits}>"
    iota = ", ".join(f"i{bits} {k}" for k in range(width))
    return f"""{spread(f"{name}.count", width, f"i{bits}", count)}
  %{name} = icmp ult {index} <{iota}>, %{name}.count"""


def masked_store(t: DType, width: int) -> str:
    """Name LLVM's function that stores lanes of a mask."""
    return f"@llvm.masked.store.v{width}{mangled(t.memory_llvm)}.p0"


def tail_mask(t: DType, width: int, count: str) -> str:
    """Split `count` entries into %whole vectors and a rest, whose lanes are %in."""
    # As wide as the entries, so that the mask fits them.
    bits = 8 * t.size_bytes
    left = f"%left = trunc i64 %rest.count to i{bits}"
    if bits == 64:
        left = "%left = add i64 %rest.count, 0"
    return f"""  %whole = and i64 {count}, -{width}
  %rest.count = sub i64 {count}, %whole
  {left}
{below("in", width, "%left", bits)}"""


def fold_lanes(op: str, t: DType, width: int, source: str) -> tuple[str, str]:
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
            combine_text(
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


def sum_loop(op: str, t: DType, width: int, first: str, after: str) -> str:
    """Write a loop that combines src[%start … %full) into the vector %acc.

    Masks are combined until the result is known.
    """
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    zero = neutral(op, t)
    more = "  %more = icmp ult i64 %i.n, %full"
    if op in ("and", "or") and t.is_bool:
        more = f"""  %ahead = icmp ult i64 %i.n, %full
  %known = icmp ne {ty} %acc.n, splat ({element} {zero})
  %known.bits = bitcast <{width} x i1> %known to i{width}
  %open = icmp eq i{width} %known.bits, 0
  %more = and i1 %ahead, %open"""
    return f"""  br label %body
body:
  %i = phi i64 [ %start, %{first} ], [ %i.n, %body ]
  %acc = phi {ty} [ splat ({element} {zero}), %{first} ], [ %acc.n, %body ]
  %at = getelementptr {element}, ptr %src, i64 %i
  %raw = load {ty}, ptr %at, align {t.size_bytes}
{combine_text(op, t, ty, "acc.n", "%acc", "%raw")}
  %i.n = add i64 %i, {width}
{more}
  br i1 %more, label %body, label %{after}"""


def block_total(
    op: str, t: DType, width: int, first: str, masked: str = "x"
) -> tuple[str, str]:
    """Combine src[%start … %stop), of which whole vectors reach up to %full.

    Full vectors first, then the rest under the mask %in (as `%masked`), then the
    lanes as a tree. The text continues the block `first`, ends in the block `fold`,
    and expects %any: whether there is a whole vector. Returned with the result's name.
    """
    element = t.memory_llvm
    ty = f"<{width} x {element}>"
    zero = neutral(op, t)
    fold, result = fold_lanes(op, t, width, "%total")
    text = f"""  br i1 %any, label %loop, label %rest
loop:
{sum_loop(op, t, width, "loop", "rest")}
rest:
  %sum = phi {ty} [ splat ({element} {zero}), %{first} ], [ %acc.n, %body ]
  %odd = icmp ult i64 %full, %stop
  br i1 %odd, label %tail, label %fold
tail:
  %ta = getelementptr {element}, ptr %src, i64 %full
  %traw = load {ty}, ptr %ta, align {t.size_bytes}
  %{masked} = select <{width} x i1> %in, {ty} %traw, {ty} splat ({element} {zero})
{combine_text(op, t, ty, "tsum", "%sum", f"%{masked}")}
  br label %fold
fold:
  %total = phi {ty} [ %sum, %rest ], [ %tsum, %tail ]
{fold}"""
    return text, result
