"""Building blocks of the math functions: float bits, rounding, scaling, polynomials.

Owns the tricks that several functions share. They are chosen for AVX2 first:
no integer-to-double conversions and no arithmetic shifts of 64-bit lanes, which
that instruction set lacks, and no logic between masks, which LLVM would pack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lumijit.compiler.emit.builder import Builder, Operand
from lumijit.runtime.dtypes import FLOAT32, INT32, INT64, DType

INF = math.inf
NAN = math.nan


def int_of(t: DType) -> DType:
    """Return the signed integer type as wide as a float type."""
    return INT32 if t is FLOAT32 else INT64


def mantissa_bits(t: DType) -> int:
    """Return the number of stored mantissa bits."""
    return 23 if t is FLOAT32 else 52


def exponent_bias(t: DType) -> int:
    """Return the exponent field of 1.0."""
    return 127 if t is FLOAT32 else 1023


def to_bits(b: Builder, t: DType, x: str) -> str:
    """Reinterpret a float as an integer."""
    return b.bitcast(t, x, int_of(t))


def from_bits(b: Builder, t: DType, bits: str) -> str:
    """Reinterpret an integer as a float."""
    return b.bitcast(int_of(t), bits, t)


def bit_op(b: Builder, instr: str, t: DType, x: Operand, y: Operand) -> str:
    """Write an integer instruction on bits of the float type `t`."""
    return b.binary(instr, int_of(t), x, y)


def shift_left(b: Builder, t: DType, bits: str, count: int) -> str:
    """Shift the bits of a float type left."""
    return bit_op(b, "shl", t, bits, count)


def sign_bit(b: Builder, t: DType, x: str) -> str:
    """Return only the sign bit of a float, as an integer."""
    return bit_op(b, "and", t, to_bits(b, t, x), -1 << (t.bits - 1))


def flip_sign(b: Builder, t: DType, x: str, sign: str) -> str:
    """Negate where `sign` (an integer that holds only a sign bit) is set."""
    return from_bits(b, t, bit_op(b, "xor", t, to_bits(b, t, x), sign))


def fabs(b: Builder, t: DType, x: str) -> str:
    """Clear the sign bit."""
    return b.unary_intrinsic("fabs", t, x)


def at_most(b: Builder, t: DType, x: str, limit: Operand) -> str:
    """Return the smaller of `x` and `limit`; a NaN in `x` passes through."""
    return b.select(t, b.compare("olt", t, limit, x), limit, x)


def at_least(b: Builder, t: DType, x: str, limit: Operand) -> str:
    """Return the larger of `x` and `limit`; a NaN in `x` passes through."""
    return b.select(t, b.compare("ogt", t, limit, x), limit, x)


def magic(t: DType, offset: int = 0) -> float:
    """Return the number whose addition rounds to an integer in the low bits.

    `1.5 * 2**mantissa_bits`: one unit in the last place of the sum is 1, for
    summands below a quarter of that. The low bits of the sum hold the integer
    plus `offset`.
    """
    return 1.5 * 2.0 ** mantissa_bits(t) + offset


def round_product(
    b: Builder, t: DType, x: str, factor: float, offset: int = 0
) -> tuple[str, str]:
    """Round `x * factor` to the nearest integer.

    Returns it as a float, and an integer whose low bits hold it plus `offset`.
    """
    m = magic(t, offset)
    shifted = b.fma(t, x, factor, m)
    return b.sub(t, shifted, m), to_bits(b, t, shifted)


def polynomial(b: Builder, t: DType, x: str, coefficients: Sequence[float]) -> str:
    """Evaluate a polynomial, highest coefficient first.

    Long ones are split into even and odd powers, which halves the chain of
    dependent operations for one more multiplication; not so the last two terms,
    which decide about the rounding error.
    """
    if len(coefficients) < 10:
        return b.horner(t, x, coefficients)
    tail = coefficients[:-2]
    squared = b.mul(t, x, x)
    even = b.horner(t, squared, tail[::-1][::2][::-1])
    odd = b.horner(t, squared, tail[::-1][1::2][::-1])
    result = b.fma(t, odd, x, even)
    for c in coefficients[-2:]:
        result = b.fma(t, result, x, c)
    return result


def odd_series(b: Builder, t: DType, x: str, square: str, series: str) -> str:
    """Return `x + x * square * series` so that -0 stays -0.

    The added +0 turns a product of -0 into +0: a negative series would else
    make `x + (+0)` of `x = -0`.
    """
    return b.fma(t, x, b.fma(t, square, series, 0.0), x)


def scale(b: Builder, t: DType, y: str, biased: str) -> str:
    """Return `y * 2**k`, rounded once, also where the result is denormal.

    `biased` holds `k + 2 * bias` in its low bits, as `round_product` leaves it
    with `offset=2 * bias`. Two factors cover twice the range of one; AVX-512 has
    an instruction for all of it.
    """
    shift = mantissa_bits(t)
    if b.target.has_avx512:
        bias = exponent_bias(t)
        start = ((bias + shift) << shift) + (1 << (shift - 1)) + 2 * bias
        k = bit_op(b, "sub", t, biased, start)
        if t is not FLOAT32:
            k = b.convert("trunc", INT64, k, INT32)
        name = f"llvm.ldexp.{b.suffix(t)}.{b.suffix(INT32)}"
        return b.intrinsic(name, t, [(t, y), (INT32, k)])
    half = bit_op(b, "lshr", t, biased, 1)
    rest = bit_op(b, "sub", t, biased, half)
    y = b.mul(t, y, from_bits(b, t, shift_left(b, t, half, shift)))
    return b.mul(t, y, from_bits(b, t, shift_left(b, t, rest, shift)))


_FIELD_BIAS = 1023 + 64
_SQRT_HALF_BITS = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}


def split(b: Builder, t: DType, x: str) -> tuple[str, str]:
    """Split `x > 0` into `2**e * (1 + f)` with `1 + f` in [sqrt(1/2), sqrt(2)).

    Returns `e` and `f` as floats, `f` exactly. Denormals are right; zeros,
    negative numbers, infinity and NaN give something finite.
    """
    mantissa, it = mantissa_bits(t), int_of(t)
    up = mantissa + 1
    offset = exponent_base(t) - _SQRT_HALF_BITS[t.bits]
    tiny = b.compare("olt", t, x, 2.0 ** (1 - exponent_bias(t)))
    x = b.select(t, tiny, b.mul(t, x, 2.0**up), x)
    moved = b.add(
        it, to_bits(b, t, x), b.select(it, tiny, offset - (up << mantissa), offset)
    )
    fraction = bit_op(b, "and", t, moved, (1 << mantissa) - 1)
    bits = b.add(it, fraction, _SQRT_HALF_BITS[t.bits])
    return exponent_of(b, t, moved), b.sub(t, from_bits(b, t, bits), 1.0)


def split_of_sum(b: Builder, t: DType, u: str) -> tuple[str, str]:
    """Split `1 + u` like `split`, but without the rounding error of that sum.

    For `0 <= u < 2**(bias - 1)`. The exponent comes from the rounded sum; then
    `f = u * 2**-e + (2**-e - 1)` in one fused operation.
    """
    mantissa, it = mantissa_bits(t), int_of(t)
    offset = exponent_base(t) - _SQRT_HALF_BITS[t.bits]
    moved = b.add(it, to_bits(b, t, b.add(t, u, 1.0)), offset)
    power = bit_op(b, "and", t, moved, -1 << mantissa)
    one = exponent_base(t) + (exponent_bias(t) << mantissa)
    inverse = from_bits(b, t, b.sub(it, one, power))
    f = b.fma(t, u, inverse, b.sub(t, inverse, 1.0))
    return exponent_of(b, t, moved), f


def exponent_base(t: DType) -> int:
    """Return what `exponent_of` expects in the exponent field for `e = 0`.

    A bias for doubles, whose unsigned field becomes a float without an integer
    conversion; it covers denormals. 0 for singles, where a signed shift and a
    conversion are cheaper.
    """
    return 0 if t is FLOAT32 else _FIELD_BIAS << mantissa_bits(t)


def exponent_of(b: Builder, t: DType, moved: str) -> str:
    """Convert the exponent field of an integer made with `exponent_base`."""
    mantissa = mantissa_bits(t)
    if t is FLOAT32:
        return b.convert("sitofp", INT32, bit_op(b, "ashr", t, moved, mantissa), t)
    field = bit_op(b, "lshr", t, moved, mantissa)
    bits = (1023 + mantissa) << mantissa
    number = from_bits(b, t, bit_op(b, "or", t, field, bits))
    return b.sub(t, number, 2.0**mantissa + _FIELD_BIAS)
