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


def rsqrt(b: Builder, x: str) -> str:
    """Return 1 / sqrt(x) of singles: 14 bits, and a step of Newton's method.

    Where x is special, what the instruction gives is right, and the step NaN: it
    multiplies 0 by an infinity. Scalars and narrow packets take the same instruction,
    so that all kinds of code have the same bits.

    Max 1.05 ulp (a root and a quotient: 1.5).
    """
    t, y = FLOAT32, _approximate_rsqrt(b, x)
    error = b.fma(t, b.neg(t, b.mul(t, x, y)), y, 1.0)
    better = b.fma(t, b.mul(t, y, error), 0.5, y)
    return b.select(t, b.compare("uno", t, error, error), y, better)


def _approximate_rsqrt(b: Builder, x: str) -> str:
    if has_registers(b):
        found = [_rsqrt14(b, register) for register in parts(b, "float", x, _LANES)]
        return joined(b, "float", found, _LANES)
    if not b.width:
        whole = b.emit(f"insertelement {_REGISTER} poison, float {x}, i32 0")
        return b.emit(f"extractelement {_REGISTER} {_rsqrt14(b, whole)}, i32 0")
    lanes = [min(k, b.width) for k in range(_LANES)]
    whole = b.shuffle(f"<{b.width} x float>", x, "poison", lanes)
    return b.shuffle(_REGISTER, _rsqrt14(b, whole), "poison", range(b.width))


def _rsqrt14(b: Builder, register: str) -> str:
    rest = (_REGISTER, "zeroinitializer"), _ALL
    return b.call(
        _REGISTER, "llvm.x86.avx512.rsqrt14.ps.512", (_REGISTER, register), *rest
    )
