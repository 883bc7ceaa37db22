"""Conversions between numbers, in vector instructions.

Owns how floats become integers and long integers floats: LLVM takes lanes apart for
its saturating conversions, for those of 64 bits without AVX-512, and calls a function
per lane from double to half precision. What a conversion means is said in
`Builder.cast`, which is what others call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lumijit.runtime.dtypes import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    UINT32,
    UINT64,
    DType,
)

if TYPE_CHECKING:
    from lumijit.compiler.emit.builder import Builder

# Doubles from 2^52 on hold an integer in their low bits; 1.5 of that one with a sign.
_LOW = 2.0**52
_LOW_BITS = 0x4330_0000_0000_0000
_SIGNED = 1.5 * 2.0**52
# The same for multiples of 2^32, by the high half of a long integer.
_HIGH_BITS = 0x4530_0000_0000_0000
_SIGN_OF_HIGH = 1 << 31


def float_to_float(b: Builder, source: DType, value: str, to: DType) -> str:
    """Convert between precisions, rounded once."""
    if to.bits > source.bits:
        return b.convert("fpext", source, value, to)
    if source is FLOAT64 and to is FLOAT16 and b.width:
        # To single precision rounded to odd, which makes the second rounding right.
        bits = b.bitcast(FLOAT64, value, UINT64)
        rest = (1 << 29) - 1
        carry = b.add(UINT64, b.binary("and", UINT64, bits, rest), rest)
        bits = b.binary("and", UINT64, b.binary("or", UINT64, bits, carry), ~rest)
        value = b.bitcast(UINT64, bits, FLOAT64)
        value = b.convert("fptrunc", FLOAT64, value, FLOAT32)
        source = FLOAT32
    return b.convert("fptrunc", source, value, to)


def float_to_int(b: Builder, source: DType, value: str, to: DType) -> str:
    """Round towards zero, at most to the limits of the type; NaN becomes 0."""
    if not b.width:
        stem = "fptosi" if to.is_signed else "fptoui"
        name = f"llvm.{stem}.sat.{b.suffix(to)}.{b.suffix(source)}"
        return b.intrinsic(name, to, [(source, value)])
    if source is FLOAT16:
        source, value = FLOAT32, b.convert("fpext", source, value, FLOAT32)
    if to.bits == 64 and not b.target.has_avx512 and source is FLOAT32:
        source, value = FLOAT64, b.convert("fpext", source, value, FLOAT64)
    bits = to.bits - to.is_signed
    low = -(2.0**bits) if to.is_signed else 0.0
    # NaN becomes the lower limit, too.
    clamped = b.select(source, b.compare("ogt", source, value, low), value, low)
    if to.bits < (32 if source is FLOAT32 else 64):
        # The upper limit is a float.
        most = 2.0**bits - 1
        below = b.compare("olt", source, clamped, most)
        result = within(b, source, b.select(source, below, clamped, most), to)
    else:
        is_above = b.compare("oge", source, clamped, 2.0**bits)
        result = within(b, source, clamped, to)
        result = b.select(to, is_above, (1 << bits) - 1, result)
    if to.is_signed:
        result = b.select(to, b.compare("ord", source, value, value), result, 0)
    return result


def within(b: Builder, source: DType, value: str, to: DType) -> str:
    """Convert floats that are in the type's range; the others give anything."""
    if to.bits < 32:
        return b.convert("trunc", INT32, within(b, source, value, INT32), to)
    if (to.is_signed and to.bits == 32) or b.target.has_avx512:
        return b.convert("fptosi" if to.is_signed else "fptoui", source, value, to)
    if to.bits == 32 and source is FLOAT32:
        return b.convert("fptoui", source, value, to)
    whole = b.unary_intrinsic("trunc", FLOAT64, value)
    if to.bits == 32:
        moved = b.convert("fptosi", FLOAT64, b.sub(FLOAT64, whole, 2.0**31), INT32)
        return b.binary("xor", UINT32, moved, 1 << 31)
    high = b.unary_intrinsic("floor", FLOAT64, b.mul(FLOAT64, whole, 2.0**-32))
    low = b.fma(FLOAT64, high, -(2.0**32), whole)
    high = b.bitcast(FLOAT64, b.add(FLOAT64, high, _SIGNED), UINT64)
    low = b.bitcast(FLOAT64, b.add(FLOAT64, low, _LOW), UINT64)
    high = b.binary("shl", UINT64, high, 32)
    return b.add(UINT64, high, b.sub(UINT64, low, _LOW_BITS))


def int_to_float(b: Builder, source: DType, value: str, to: DType) -> str:
    """Round to the nearest number of a floating point type."""
    if not b.width or b.target.has_avx512 or source.bits < 64 or to is not FLOAT64:
        instr = "sitofp" if source.is_signed else "uitofp"
        return b.convert(instr, source, value, to)
    offset = 2.0**63 if source.is_signed else 0.0
    bias = _SIGN_OF_HIGH if source.is_signed else 0
    high = b.binary("lshr", UINT64, value, 32)
    high = b.binary("xor", UINT64, high, _HIGH_BITS | bias)
    low = b.binary("and", UINT64, value, (1 << 32) - 1)
    low = b.binary("or", UINT64, low, _LOW_BITS)
    # Exact: a multiple of 2^32; only the last sum is rounded.
    total = b.bitcast(UINT64, high, FLOAT64)
    total = b.sub(FLOAT64, total, 2.0**84 + offset + _LOW)
    return b.add(FLOAT64, total, b.bitcast(UINT64, low, FLOAT64))
