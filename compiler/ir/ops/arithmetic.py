"""Arithmetic on numbers: sums, products, quotients, rounding, signs, extremes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.division import (
    divide,
    high_product,
    long_quotient,
    quotient,
)
from lumijit.compiler.emit.mathlib import avx512
from lumijit.compiler.ir.ops.record import CONSTANT, OF_INTEGERS, Op, define, widened
from lumijit.runtime.dtypes import (
    ARITHMETIC,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INTS,
    SIGNED_INTS,
    UNSIGNED_INTS,
    DType,
)

Array = Any


def _min(b: Builder, t: DType, x: str, y: str) -> str:
    if t.is_float:
        return b.select(t, b.compare("olt", t, x, y), x, y)
    return b.binary_intrinsic("smin" if t.is_signed else "umin", t, x, y)


def _max(b: Builder, t: DType, x: str, y: str) -> str:
    if t.is_float:
        return b.select(t, b.compare("ogt", t, x, y), x, y)
    return b.binary_intrinsic("smax" if t.is_signed else "umax", t, x, y)


def _abs(b: Builder, t: DType, x: str) -> str:
    if t.is_float:
        return b.unary_intrinsic("fabs", t, x)
    if not t.is_signed:
        return x
    ty = b.type(t)
    return b.call(ty, f"llvm.abs.{b.suffix(t)}", (ty, x), ("i1", "false"))


def _fma(b: Builder, t: DType, x: str, y: str, z: str) -> str:
    if t.is_float:
        return b.fma(t, x, y, z)
    return b.add(t, b.mul(t, x, y), z)


def _int_div(b: Builder, t: DType, x: str, y: str) -> str:
    return divide(b, t, x, y)[0]


def _float_mod(b: Builder, t: DType, x: str, y: str) -> str:
    """Remainder, exact; NaN where the quotient exceeds 2^104.

    `r - q y` is exact for the rounded quotient q of r and y, also if it is off by one:
    then the remainder is negative. The second step serves quotients of many digits.
    """
    wide = FLOAT64
    divisor = b.unary_intrinsic("fabs", wide, b.cast(t, y, wide))
    rest = b.unary_intrinsic("fabs", wide, b.cast(t, x, wide))
    for _ in range(2):
        quotient = b.unary_intrinsic("trunc", wide, b.fdiv(wide, rest, divisor))
        less = b.fma(wide, b.neg(wide, quotient), divisor, rest)
        # Where y is infinite, 0 * y would be NaN.
        rest = b.select(wide, b.compare("oeq", wide, quotient, 0), rest, less)
    size = b.unary_intrinsic("fabs", wide, rest)
    rest = b.select(wide, b.compare("olt", wide, size, divisor), rest, math.nan)
    is_negative = b.compare("olt", wide, rest, 0)
    rest = b.select(wide, is_negative, b.add(wide, rest, divisor), rest)
    return b.binary_intrinsic("copysign", t, b.cast(wide, rest, t), x)


def _mod(b: Builder, t: DType, x: str, y: str) -> str:
    return _float_mod(b, t, x, y) if t.is_float else divide(b, t, x, y)[1]


def _copysign(b: Builder, t: DType, x: str, y: str) -> str:
    if t.is_float:
        return b.binary_intrinsic("copysign", t, x, y)
    if not t.is_signed:
        return x
    magnitude = _abs(b, t, x)
    return b.select(t, b.compare("sge", t, y, 0), magnitude, b.neg(t, magnitude))


def _mulsign(b: Builder, t: DType, x: str, y: str) -> str:
    if not t.is_signed:
        return x
    at_least = b.compare("oge" if t.is_float else "sge", t, y, 0)
    return b.select(t, at_least, x, b.neg(t, x))


def _rsqrt(b: Builder, t: DType, x: str) -> str:
    if t is FLOAT32 and b.target.has_avx512:
        return avx512.rsqrt(b, x)
    return b.fdiv(t, 1.0, b.unary_intrinsic("sqrt", t, x))


def _wrapping(function: Any) -> Any:
    def evaluate(*args: Array) -> Array:
        with np.errstate(all="ignore"):
            return function(*args)

    return evaluate


def _np_div(x: Array, y: Array) -> Array:
    zero = y == 0
    safe = np.where(zero, 1, y).astype(y.dtype)
    if x.dtype.kind == "u":
        return np.where(zero, 0, x // safe).astype(x.dtype)
    low = np.iinfo(x.dtype).min
    overflow = (x == low) & (y == -1)
    safe = np.where(overflow, 1, safe).astype(y.dtype)
    quotient = x // safe
    remainder = x - quotient * safe
    quotient = quotient + ((remainder != 0) & ((x < 0) != (safe < 0)))
    return np.where(zero, 0, quotient).astype(x.dtype)


def _np_mod(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    return (x - _np_div(x, y) * y).astype(x.dtype)


def _np_mulhi(x: Array, y: Array) -> Array:
    bits = x.dtype.itemsize * 8
    product = x.astype(object) * y.astype(object)
    return np.asarray(product >> bits, dtype=object).astype(x.dtype)


def _np_quotient(x: Array, factor: Array, shift: Array) -> Array:
    bits = x.dtype.itemsize * 8
    high, by = _np_mulhi(x, factor), shift & shift.dtype.type(bits - 1)
    return high >> by if x.dtype.kind == "u" else (x + high >> by) - (x >> bits - 1)


def _np_long_quotient(x: Array, factor: Array, shift: Array) -> Array:
    high = _np_mulhi(x, factor)
    by = shift & shift.dtype.type(x.dtype.itemsize * 8 - 1)
    return high + (x - high >> 1) >> by


def _np_fma(x: Array, y: Array, z: Array) -> Array:
    if x.dtype.kind != "f":
        return x * y + z
    if x.dtype == np.float16:
        single = (value.astype(np.float32) for value in (x, y, z))
        return _np_fma(*single).astype(np.float16)
    if x.dtype == np.float64:
        return np.asarray(_double_fma(x, y, z), dtype=np.float64)
    # The product is exact in double precision. The sum is rounded to odd there,
    # which makes the second rounding right.
    product = x.astype(np.float64) * y.astype(np.float64)
    total = np.asarray(product + z)
    part = total - product
    error = (product - (total - part)) + (z - part)
    is_even = total.view(np.int64) & 1 == 0
    odd = np.nextafter(total, np.copysign(np.inf, error))
    is_rounded = (error != 0) & is_even & np.isfinite(total)
    return np.where(is_rounded, odd, total).astype(x.dtype)


def _double_fma_entry(x: float, y: float, z: float) -> float:
    rounded = float(x * y + z)
    if not all(map(math.isfinite, (x, y, z))):
        return rounded
    (a, b), (c, d), (e, f) = (value.as_integer_ratio() for value in (x, y, z))
    above = a * c * f + e * b * d
    if above == 0:
        return float(x * y) + z
    try:
        # (Quotients of Python's integers are rounded once.)
        return above / (b * d * f)
    except OverflowError:
        return math.inf if above > 0 else -math.inf


_double_fma = np.vectorize(_double_fma_entry, otypes=[np.float64])


def _np_copysign(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return np.copysign(x, y)
    return x if x.dtype.kind == "u" else np.where(y >= 0, np.abs(x), -np.abs(x))


def _np_mulsign(x: Array, y: Array) -> Array:
    return x if x.dtype.kind == "u" else np.where(y >= 0, x, -x)


def _np_min(x: Array, y: Array) -> Array:
    return np.where(x < y, x, y)


def _np_max(x: Array, y: Array) -> Array:
    return np.where(x > y, x, y)


def _sign(x: Any) -> Any:
    """Return -1, 0 or 1 in a derivative: 0 is what the peers agree on at 0."""
    return (x > 0).select(1, (x < 0).select(x.like(-1), 0))


ADD = define(
    "add",
    2,
    accepts=ARITHMETIC,
    reference=_wrapping(np.add),
    lower=widened(lambda b, t, x, y: b.add(t, x, y)),
    commutative=True,
    derivative=(lambda r, x, y: 1, lambda r, x, y: 1),
    doc="x + y",
)
SUB = define(
    "sub",
    2,
    accepts=ARITHMETIC,
    reference=_wrapping(np.subtract),
    lower=widened(lambda b, t, x, y: b.sub(t, x, y)),
    derivative=(lambda r, x, y: 1, lambda r, x, y: -1),
    doc="x - y",
)
MUL = define(
    "mul",
    2,
    accepts=ARITHMETIC,
    reference=_wrapping(np.multiply),
    lower=widened(lambda b, t, x, y: b.mul(t, x, y)),
    commutative=True,
    derivative=(lambda r, x, y: y, lambda r, x, y: x),
    doc="x * y",
)
DIV = define(
    "div",
    2,
    accepts=FLOATS,
    reference=_wrapping(np.divide),
    lower=widened(lambda b, t, x, y: b.fdiv(t, x, y)),
    cost=4,
    derivative=(lambda r, x, y: 1 / y, lambda r, x, y: -r / y),
    doc="x / y of floats",
)
INT_DIV = define(
    "int_div",
    2,
    accepts=INTS,
    reference=_wrapping(_np_div),
    lower=_int_div,
    cost=12,
    derivative=OF_INTEGERS,
    doc="x / y of integers, rounded towards zero; x / 0 is 0",
)
MOD = define(
    "mod",
    2,
    accepts=ARITHMETIC,
    reference=_wrapping(_np_mod),
    lower=widened(_mod),
    own_rounding=True,
    cost=14,
    derivative=(lambda r, x, y: 1, lambda r, x, y: -(x / y).map(TRUNC)),
    doc="remainder of the division rounded towards zero",
)
MULHI = define(
    "mulhi",
    2,
    accepts=INTS,
    reference=_np_mulhi,
    lower=high_product,
    commutative=True,
    cost=4,
    derivative=OF_INTEGERS,
    doc="the high half of the full product",
)
QUOTIENT = define(
    "quotient",
    3,
    accepts=INTS,
    reference=_wrapping(_np_quotient),
    lower=quotient,
    cost=5,
    derivative=OF_INTEGERS,
    doc="x divided by a number, from which y and z are made",
)
LONG_QUOTIENT = define(
    "long_quotient",
    3,
    accepts=UNSIGNED_INTS,
    reference=_wrapping(_np_long_quotient),
    lower=long_quotient,
    cost=7,
    derivative=OF_INTEGERS,
    doc="the same for numbers of which y would have one bit more than x",
)
FMA = define(
    "fma",
    3,
    accepts=ARITHMETIC,
    reference=_wrapping(_np_fma),
    lower=widened(_fma),
    derivative=(lambda r, x, y, z: y, lambda r, x, y, z: x, lambda r, x, y, z: 1),
    doc="x * y + z, rounded once (of halves: to a single, and then to a half)",
)
NEG = define(
    "neg",
    1,
    accepts=ARITHMETIC,
    reference=_wrapping(np.negative),
    lower=widened(lambda b, t, x: b.neg(t, x)),
    derivative=(lambda r, x: -1,),
    doc="-x",
)
ABS = define(
    "abs",
    1,
    accepts=ARITHMETIC,
    reference=_wrapping(np.abs),
    lower=widened(_abs),
    derivative=(lambda r, x: _sign(x).bounded(),),
    doc="|x|",
)
MIN = define(
    "min",
    2,
    accepts=ARITHMETIC,
    reference=_np_min,
    lower=widened(_min),
    derivative=(lambda r, x, y: x <= y, lambda r, x, y: ~(x <= y)),
    doc="x if x < y else y",
)
MAX = define(
    "max",
    2,
    accepts=ARITHMETIC,
    reference=_np_max,
    lower=widened(_max),
    derivative=(lambda r, x, y: x > y, lambda r, x, y: ~(x > y)),
    doc="x if x > y else y",
)
SQRT = define(
    "sqrt",
    1,
    accepts=FLOATS,
    reference=_wrapping(np.sqrt),
    lower=widened(lambda b, t, x: b.unary_intrinsic("sqrt", t, x)),
    cost=4,
    derivative=(lambda r, x: 0.5 / r,),
    doc="square root",
)
RCP = define(
    "rcp",
    1,
    accepts=FLOATS,
    reference=_wrapping(lambda x: (1 / x).astype(x.dtype)),
    lower=widened(lambda b, t, x: b.fdiv(t, 1.0, x)),
    cost=4,
    derivative=(lambda r, x: -r * r,),
    doc="1 / x",
)
RSQRT = define(
    "rsqrt",
    1,
    accepts=FLOATS,
    reference=_wrapping(lambda x: (1 / np.sqrt(x)).astype(x.dtype)),
    lower=widened(_rsqrt),
    own_rounding=True,
    cost=8,
    derivative=(lambda r, x: -0.5 * r * r * r,),
    doc="1 / sqrt(x)",
)
FLOOR = define(
    "floor",
    1,
    accepts=FLOATS,
    reference=np.floor,
    lower=widened(lambda b, t, x: b.unary_intrinsic("floor", t, x)),
    derivative=CONSTANT,
    doc="largest integer <= x",
)
CEIL = define(
    "ceil",
    1,
    accepts=FLOATS,
    reference=np.ceil,
    lower=widened(lambda b, t, x: b.unary_intrinsic("ceil", t, x)),
    derivative=CONSTANT,
    doc="smallest integer >= x",
)
TRUNC: Op = define(
    "trunc",
    1,
    accepts=FLOATS,
    reference=np.trunc,
    lower=widened(lambda b, t, x: b.unary_intrinsic("trunc", t, x)),
    derivative=CONSTANT,
    doc="x rounded towards zero",
)
ROUND = define(
    "round",
    1,
    accepts=FLOATS,
    reference=np.rint,
    lower=widened(lambda b, t, x: b.unary_intrinsic("rint", t, x)),
    derivative=CONSTANT,
    doc="x rounded to nearest, halves to even",
)
COPYSIGN: Op = define(
    "copysign",
    2,
    accepts=FLOATS + SIGNED_INTS,
    reference=_np_copysign,
    lower=widened(_copysign),
    derivative=(
        lambda r, x, y: (_sign(x) * x.like(1).map(COPYSIGN, y)).bounded(),
        lambda r, x, y: 0,
    ),
    doc="|x| with the sign of y",
)
MULSIGN: Op = define(
    "mulsign",
    2,
    accepts=FLOATS + SIGNED_INTS,
    reference=_np_mulsign,
    lower=widened(_mulsign),
    derivative=(lambda r, x, y: x.like(1).map(MULSIGN, y).bounded(), lambda r, x, y: 0),
    doc="x if y >= 0, else -x",
)
