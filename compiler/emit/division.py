"""Quotients, remainders and high products of integers, in vector instructions.

Processors divide no vectors of integers, and multiply none of 64 bits to 128: LLVM
takes lanes apart. Owns what stands in their place. Scalar code (width 0) leaves it to
LLVM, as do quotients of 64 bits where conversions between those and doubles take
several instructions: without AVX-512.
"""

from __future__ import annotations

from lumijit.compiler.emit import conversions
from lumijit.compiler.emit.builder import Builder
from lumijit.runtime.dtypes import BOOL, FLOAT64, INT64, UINT32, UINT64, DType

_LOW = (1 << 32) - 1
# Smaller than one by more than all that doubles round in a quotient of long integers.
_BELOW = 1.0 - 2.0**-49


def divide(b: Builder, t: DType, x: str, y: str) -> tuple[str, str]:
    """Return quotient, rounded towards zero, and remainder.

    x / 0 is 0 with remainder x, and the smallest number / -1 is itself.
    """
    if t.bits == 64 and b.target.has_avx512 and b.width:
        return _divide_long(b, t, x, y)
    nonzero = b.compare("ne", t, y, 0)
    safe = _safe_divisor(b, t, x, y)
    if t.bits <= 32 and b.width:
        # Doubles hold 32-bit integers exactly, and the quotient's rounding can't
        # reach the next integer: one vector division instead of `width` scalar ones.
        wide = b.fdiv(FLOAT64, b.cast(t, x, FLOAT64), b.cast(t, safe, FLOAT64))
        quotient = conversions.within(b, FLOAT64, wide, t)
    else:
        quotient = b.binary("sdiv" if t.is_signed else "udiv", t, x, safe)
    quotient = b.select(t, nonzero, quotient, 0)
    return quotient, b.sub(t, x, b.mul(t, quotient, y))


def _safe_divisor(b: Builder, t: DType, x: str, y: str) -> str:
    """Replace divisors that would trap: 0, and -1 under the smallest number."""
    safe = b.select(t, b.compare("eq", t, y, 0), 1, y)
    if not t.is_signed:
        return safe
    overflow = b.binary(
        "and",
        BOOL,
        b.compare("eq", t, x, -(1 << (t.bits - 1))),
        b.compare("eq", t, y, -1),
    )
    return b.select(t, overflow, 1, safe)


def _divide_long(b: Builder, t: DType, x: str, y: str) -> tuple[str, str]:
    """Divide 64-bit integers by their magnitudes and signs."""
    if not t.is_signed:
        quotient, rest = _divide_magnitudes(b, x, y)
    else:
        signs = [b.binary("ashr", INT64, v, 63) for v in (x, y)]
        negative = b.binary("xor", INT64, *signs)
        sizes = [_negated_where(b, v, s) for v, s in zip((x, y), signs, strict=True)]
        quotient, rest = _divide_magnitudes(b, *sizes)
        quotient = _negated_where(b, quotient, negative)
        rest = _negated_where(b, rest, signs[0])
    return quotient, rest


def _negated_where(b: Builder, value: str, sign: str) -> str:
    """Negate where all bits of `sign` are set."""
    return b.sub(INT64, b.binary("xor", INT64, value, sign), sign)


def _divide_magnitudes(b: Builder, x: str, y: str) -> tuple[str, str]:
    """Divide by two estimates in doubles, neither of which is too large.

    The first is right to 48 bits or so, which leaves a remainder of at most 2^16
    times y; the second at most one less than what is left.
    """
    t = UINT64
    zero = b.compare("eq", t, y, 0)
    safe = b.select(t, zero, 1, y)
    inverse = b.fdiv(FLOAT64, _BELOW, b.cast(t, safe, FLOAT64))
    quotient, rest = "", x
    for _ in range(2):
        estimate = b.mul(FLOAT64, b.cast(t, rest, FLOAT64), inverse)
        part = conversions.within(b, FLOAT64, estimate, t)
        rest = b.sub(t, rest, b.mul(t, part, safe))
        quotient = b.add(t, quotient, part) if quotient else part
    is_less = b.compare("uge", t, rest, safe)
    quotient = b.add(t, quotient, b.select(t, is_less, 1, 0))
    rest = b.sub(t, rest, b.select(t, is_less, safe, 0))
    return b.select(t, zero, 0, quotient), b.select(t, zero, x, rest)


def quotient(b: Builder, t: DType, x: str, factor: str, shift: str) -> str:
    """Return the quotient by a known number, of which factor and shift are made.

    Of the factor of signed integers, the highest bit is left out. Source: Granlund and
    Montgomery, "Division by invariant integers using multiplication" (1994), figures
    4.1 and 5.1.
    """
    amount = b.binary("and", t, shift, t.bits - 1)
    high = high_product(b, t, x, factor)
    if not t.is_signed:
        return b.binary("lshr", t, high, amount)
    total = b.binary("ashr", t, b.add(t, x, high), amount)
    return b.sub(t, total, b.binary("ashr", t, x, t.bits - 1))


def long_quotient(b: Builder, t: DType, x: str, factor: str, shift: str) -> str:
    """Return the quotient of unsigned integers by a number whose factor is too long.

    It has one bit more than they, the highest, which is left out.
    """
    amount = b.binary("and", t, shift, t.bits - 1)
    if t.bits == 32 and not b.width:
        wide, by, amount = (b.cast(t, v, UINT64) for v in (x, factor, amount))
        high = b.binary("lshr", UINT64, b.mul(UINT64, wide, by), 32)
        half = b.binary("lshr", UINT64, b.add(UINT64, high, wide), 1)
        return b.cast(UINT64, b.binary("lshr", UINT64, half, amount), t)
    high = high_product(b, t, x, factor)
    half = b.binary("lshr", t, b.sub(t, x, high), 1)
    return b.binary("lshr", t, b.add(t, high, half), amount)


def divisor(b: Builder, factor: str, shift: str, *, is_long: bool) -> str:
    """Return the number of which factor and shift are made, all scalars of 32 bits.

    That is for the factor of a `long_quotient` if it `is_long`. Above 2^31 the result
    may be another number.
    """
    t = UINT64
    factor, shift = (b.cast(UINT32, v, t) for v in (factor, shift))
    unit = b.binary("shl", t, 1 << (32 + is_long), b.binary("and", t, shift, 31))
    if is_long:
        factor = b.binary("or", t, factor, 1 << 32)
    below = b.binary("udiv", t, unit, factor)
    return b.cast(t, b.add(t, below, 1), UINT32)


def high_product(b: Builder, t: DType, x: str, y: str) -> str:
    """Return the high half of the full product."""
    if t.bits == 64 and b.width:
        high = _high_of_magnitudes(b, x, y)
        if t.is_signed:
            # As numbers without signs, negative ones are too large by 2^64.
            for one, other in ((x, y), (y, x)):
                sign = b.binary("ashr", INT64, one, 63)
                high = b.sub(UINT64, high, b.binary("and", UINT64, sign, other))
        return high
    wide = f"i{2 * t.bits}"
    ty = f"<{b.width} x {wide}>" if b.width else wide
    shift = f"splat ({wide} {t.bits})" if b.width else str(t.bits)
    extend = "sext" if t.is_signed else "zext"
    xw = b.emit(f"{extend} {b.type(t)} {x} to {ty}")
    yw = b.emit(f"{extend} {b.type(t)} {y} to {ty}")
    product = b.emit(f"mul {ty} {xw}, {yw}")
    high = b.emit(f"lshr {ty} {product}, {shift}")
    return b.emit(f"trunc {ty} {high} to {b.type(t)}")


def _high_of_magnitudes(b: Builder, x: str, y: str) -> str:
    """Multiply by halves of 32 bits, whose products fit."""
    t = UINT64
    x0, y0 = (b.binary("and", t, v, _LOW) for v in (x, y))
    x1, y1 = (b.binary("lshr", t, v, 32) for v in (x, y))
    carry = b.binary("lshr", t, b.mul(t, x0, y0), 32)
    middle = b.add(t, b.mul(t, x1, y0), carry)
    rest = b.add(t, b.mul(t, x0, y1), b.binary("and", t, middle, _LOW))
    top = b.add(t, b.mul(t, x1, y1), b.binary("lshr", t, middle, 32))
    return b.add(t, top, b.binary("lshr", t, rest, 32))
