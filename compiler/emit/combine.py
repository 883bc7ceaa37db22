"""How two values are combined, in a scatter or a reduction, and the lanes of one.

Owns the neutral values and the instructions; where results go is in `access` and in
`collectives`. Masks are bytes here.
"""

from __future__ import annotations

from lumijit.compiler.emit.builder import Builder, float_hex
from lumijit.runtime.dtypes import BOOL, DType


def identity(op: str, t: DType) -> int | float | bool:
    """Return the neutral value of a reduction."""
    neutral = {"add": 0, "or": 0, "identity": 0, "mul": 1, "and": -1}.get(op)
    if neutral is not None:
        value: int | float | bool = t.wrap(neutral)
        return value
    if t.is_float:
        return float("inf") if op == "min" else float("-inf")
    low = -(1 << (t.bits - 1)) if t.is_signed else 0
    high = (1 << (t.bits - int(t.is_signed))) - 1
    return high if op == "min" else low


def combine_text(op: str, t: DType, ty: str, name: str, x: str, y: str) -> str:
    """Write `name = x op y` on a scalar or vector type."""
    if t.is_bool:
        # Every byte but 0 is a set entry.
        op = {"and": "min", "or": "max"}[op]
    if op in ("add", "mul", "and", "or"):
        instr = f"f{op}" if t.is_float else op
        return f"  %{name} = {instr} {ty} {x}, {y}"
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


def combine(b: Builder, op: str, t: DType, ty: str, x: str, y: str) -> str:
    """Combine two values of one spelled type (scalar or vector)."""
    name = b.name()
    b.lines.append(combine_text(op, t, ty, name[1:], x, y))
    return name


def combine_lanes(b: Builder, op: str, t: DType, ty: str, value: str, mask: str) -> str:
    """Combine the masked lanes of a vector to one scalar."""
    element = t.memory_llvm
    neutral = b.const(t, identity(op, t))
    if t is BOOL:
        neutral = f"splat (i8 {int(bool(identity(op, t)))})"
    masked = b.blend(ty, mask, value, neutral)
    suffix = f"v{b.width}" + (f"f{t.bits}" if t.is_float else element)
    if t.is_float and op in ("add", "mul"):
        name = f"llvm.vector.reduce.f{op}.{suffix}"
        b.declarations[name] = f"declare {element} @{name}({element}, {ty})"
        start = float_hex(t, -0.0 if op == "add" else 1.0)
        given = f"{element} {start}, {ty} {masked}"
        return b.emit(f"call reassoc {element} @{name}({given})")
    if t.is_float:
        stem = f"f{op}"
    elif op in ("min", "max"):
        stem = ("s" if t.is_signed else "u") + op
    else:
        stem = op
    return b.call(element, f"llvm.vector.reduce.{stem}.{suffix}", (ty, masked))
