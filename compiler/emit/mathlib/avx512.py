"""Functions of singles by the AVX-512 instructions made for them.

Owns the only code of `mathlib` that names instructions of a processor. They take
whole registers, so packets are cut into registers and put together again.
"""

from __future__ import annotations

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.registers import joined, parts
from lumijit.runtime.dtypes import FLOAT32

_LANES = 16
_REGISTER = f"<{_LANES} x float>"
# Current rounding mode.
_ROUNDING = "i32", "4"
# Mantissa in [0.75, 1.5), NaN for negative numbers.
_INTERVAL = "i32", "11"
# No lane is left out.
_ALL = "i16", "-1"


def has_registers(b: Builder) -> bool:
    """Tell whether packets of singles are whole registers of this target."""
    return b.target.has_avx512 and b.width > 0 and b.width % _LANES == 0


def split_registers(b: Builder, x: str) -> tuple[str, str]:
    """Split singles into `2**e * (1 + f)` with `1 + f` in [0.75, 1.5).

    Also where x is special: `e` is -inf for 0, inf for inf; `f` is NaN for
    negative numbers and NaN. Denormals are right.
    """
    exponents, mantissas = [], []
    for register in [*parts(b, "float", x, _LANES)]:
        mantissa = _get(b, "getmant", register, _INTERVAL)
        exponent = _get(b, "getexp", register)
        shift = _get(b, "getexp", mantissa)
        exponents.append(b.emit(f"fsub {_REGISTER} {exponent}, {shift}"))
        mantissas.append(mantissa)
    exponent = joined(b, "float", exponents, _LANES)
    return exponent, b.sub(FLOAT32, joined(b, "float", mantissas, _LANES), 1.0)


def _get(b: Builder, what: str, x: str, *control: tuple[str, str]) -> str:
    """Call an unmasked `vgetexpps` or `vgetmantps`."""
    name = f"llvm.x86.avx512.mask.{what}.ps.512"
    rest = (_REGISTER, "zeroinitializer"), _ALL, _ROUNDING
    return b.call(_REGISTER, name, (_REGISTER, x), *control, *rest)


def rsqrt_registers(b: Builder, x: str) -> str:
    """Return 1 / sqrt(x) of singles: 14 bits, and a step of Newton's method.

    Where x is special, what the instruction gives is right, and the step NaN: it
    multiplies 0 by an infinity.

    Max 1.05 ulp (a root and a quotient: 1.5).
    """
    name = "llvm.x86.avx512.rsqrt14.ps.512"
    rest = (_REGISTER, "zeroinitializer"), _ALL
    found = [
        b.call(_REGISTER, name, (_REGISTER, register), *rest)
        for register in parts(b, "float", x, _LANES)
    ]
    y = joined(b, "float", found, _LANES)
    t = FLOAT32
    error = b.fma(t, b.neg(t, b.mul(t, x, y)), y, 1.0)
    better = b.fma(t, b.mul(t, y, error), 0.5, y)
    return b.select(t, b.compare("uno", t, error, error), y, better)
