"""Splitting of floats by the AVX-512 instructions made for it.

Owns the only code of `mathlib` that names instructions of a processor. They take
whole registers, so packets are cut into registers and put together again.
"""

from __future__ import annotations

from lumijit.compiler.emit.builder import Builder
from lumijit.runtime.dtypes import FLOAT32

_LANES = 16
_REGISTER = f"<{_LANES} x float>"
# Current rounding mode.
_ROUNDING = "i32 4"
# Mantissa in [0.75, 1.5), NaN for negative numbers.
_INTERVAL = "i32 11"


def can_split(b: Builder) -> bool:
    """Tell whether packets of singles are whole registers of this target."""
    return b.target.has_avx512 and b.width > 0 and b.width % _LANES == 0


def split_registers(b: Builder, x: str) -> tuple[str, str]:
    """Split singles into `2**e * (1 + f)` with `1 + f` in [0.75, 1.5).

    Also where x is special: `e` is -inf for 0, inf for inf; `f` is NaN for
    negative numbers and NaN. Denormals are right.
    """
    exponents, mantissas = [], []
    for register in _cut(b, x):
        mantissa = _get(b, "getmant", register, _INTERVAL)
        exponent = _get(b, "getexp", register)
        shift = _get(b, "getexp", mantissa)
        exponents.append(b.emit(f"fsub {_REGISTER} {exponent}, {shift}"))
        mantissas.append(mantissa)
    return _join(b, exponents), b.sub(FLOAT32, _join(b, mantissas), 1.0)


def _get(b: Builder, what: str, x: str, *control: str) -> str:
    """Call an unmasked `vgetexpps` or `vgetmantps`."""
    name = f"llvm.x86.avx512.mask.{what}.ps.512"
    types = [_REGISTER, *["i32" for _ in control], _REGISTER, "i16", "i32"]
    b.declarations[name] = f"declare {_REGISTER} @{name}({', '.join(types)})"
    values = [f"{_REGISTER} {x}", *control, f"{_REGISTER} zeroinitializer", "i16 -1"]
    return b.emit(f"call {_REGISTER} @{name}({', '.join(values)}, {_ROUNDING})")


def _shuffle(b: Builder, width: int, x: str, y: str, lanes: range) -> str:
    ty = f"<{width} x float>"
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return b.emit(f"shufflevector {ty} {x}, {ty} {y}, <{len(lanes)} x i32> <{mask}>")


def _cut(b: Builder, x: str) -> list[str]:
    if b.width == _LANES:
        return [x]
    starts = range(0, b.width, _LANES)
    return [_shuffle(b, b.width, x, "poison", range(i, i + _LANES)) for i in starts]


def _join(b: Builder, registers: list[str]) -> str:
    width = _LANES
    while len(registers) > 1:
        pairs = zip(registers[::2], registers[1::2], strict=True)
        registers = [_shuffle(b, width, x, y, range(2 * width)) for x, y in pairs]
        width *= 2
    return registers[0]
