"""Exponentials and logarithms: exp, exp2, log, log2, and the cores of others.

Owns the reduced forms that `hyperbolic` and `power` build upon. All polynomials
are minimax fits (Remez exchange in 60 digits, coefficients rounded in turn).
"""

from __future__ import annotations

import math

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.mathlib.avx512 import has_registers, split_registers
from lumijit.compiler.emit.mathlib.bits import (
    INF,
    NAN,
    at_least,
    at_most,
    exponent_bias,
    polynomial,
    round_product,
    scale,
    split,
)
from lumijit.runtime.dtypes import FLOAT32, DType

LN2_HI = {32: 0.693145751953125, 64: 0.693147180369123816490}
"""The leading bits of ln 2: times an exponent it is exact."""
LN2_LO = {32: 1.4286068203094172e-06, 64: 1.90821492927058770002e-10}

# ln 2 rounded, and the rest: for fused multiply-adds.
_LN2 = {32: 0.6931471824645996, 64: math.log(2)}
_LN2_REST = {32: -1.904654323148236e-09, 64: 2.319046813846299558e-17}

# e^r for |r| <= ln(2) / 2; 2^r = 1 + r q(r) for |r| <= 1/2.
_EXP = {
    32: (
        0.001383092487230897,
        0.008369076065719128,
        0.04166821762919426,
        0.1666652411222458,
        0.4999999403953552,
        1.0,
        1.0,
    ),
    64: (
        2.500014387574154e-08,
        2.763024935173353e-07,
        2.755758611387336e-06,
        2.480149309638061e-05,
        0.00019841269506866286,
        0.001388888894363219,
        0.008333333333494333,
        0.041666666666530155,
        0.16666666666666413,
        0.5000000000000011,
        1.0,
        1.0,
    ),
}
_EXP2 = {
    32: (
        0.00015434582019224763,
        0.0013392273103818297,
        0.009618237614631653,
        0.055503588169813156,
        0.24022649228572845,
        0.6931471824645996,
        1.0,
    ),
    64: (
        4.434781452257928e-10,
        7.073791266884625e-09,
        1.0178199585064848e-07,
        1.321543523902573e-06,
        1.52527334928757e-05,
        0.0001540353045719077,
        0.0013333558146775152,
        0.009618129107594065,
        0.05550410866482008,
        0.2402265069591013,
        0.6931471805599453,
        1.0,
    ),
}
# Beyond these the result is 0 or infinity.
_EXP_RANGE = {32: (-104.5, 89.5), 64: (-746.0, 710.5)}
_EXP2_RANGE = {32: (-151.0, 129.0), 64: (-1076.0, 1025.0)}

# (ln(1 + f) - f) / f^2 for singles.
_LOG_SERIES = (
    -0.07635094225406647,
    0.12761914730072021,
    -0.13160096108913422,
    0.1420169621706009,
    -0.1662336140871048,
    0.20001229643821716,
    -0.2500081956386566,
    0.3333333134651184,
    -0.5,
)
# The same for 1 + f in [0.75, 1.5), the range of AVX-512.
_LOG_SERIES_512 = (
    -0.04457085579633713,
    0.10423800349235535,
    -0.13159814476966858,
    0.14482256770133972,
    -0.1664767563343048,
    0.19990816712379456,
    -0.25000110268592834,
    0.3333345055580139,
    -0.5,
)
# (log2(1 + f) - f log2(e)) / f^2 for singles.
_LOG2_SERIES = (
    -0.10995323210954666,
    0.18617098033428192,
    -0.19105806946754456,
    0.20460067689418793,
    -0.23961815237998962,
    0.2885674834251404,
    -0.36069661378860474,
    0.4808982312679291,
    -0.7213473320007324,
)
# (atanh(s) - s) / s^3 for doubles, |s| <= 0.1716; twice that, as log needs it.
_LOG_ATANH = tuple(
    2 * c
    for c in (
        0.07398886365083306,
        0.07656940890767154,
        0.09091785188153186,
        0.11111099233872339,
        0.14285714371651592,
        0.19999999999705545,
        0.33333333333333676,
    )
)
_LOG2E = math.log2(math.e)
_LOG2E_HI = {32: 1.4426950216293335, 64: _LOG2E}
_LOG2E_LO = {32: 1.925963033500011e-08, 64: 2.0355273740931033e-17}


def reduce_exp(b: Builder, t: DType, x: str, offset: int) -> tuple[str, str]:
    """Write `x = k ln 2 + r`; returns `r` and an integer holding `k + offset`."""
    k, bits = round_product(b, t, x, _LOG2E, offset)
    r = b.fma(t, k, -_LN2[t.bits], x)
    return b.fma(t, k, -_LN2_REST[t.bits], r), bits


def exp_series(b: Builder, t: DType, r: str) -> str:
    """Return e^r for |r| <= ln(2) / 2."""
    return polynomial(b, t, r, _EXP[t.bits])


def exp2_series(b: Builder, t: DType, r: str) -> str:
    """Return 2^r for |r| <= 1/2."""
    return polynomial(b, t, r, _EXP2[t.bits])


def exp(b: Builder, t: DType, x: str) -> str:
    """Return e^x.

    Cody-Waite reduction by ln 2 in two constants, minimax polynomial, scaling by
    two powers of two. Right for denormal results, 0 and infinity beyond.

    Max 0.92 ulp in both precisions.
    """
    low, high = _EXP_RANGE[t.bits]
    x = at_most(b, t, at_least(b, t, x, low), high)
    r, bits = reduce_exp(b, t, x, 2 * exponent_bias(t))
    return scale(b, t, exp_series(b, t, r), bits)


def exp2(b: Builder, t: DType, x: str) -> str:
    """Return 2^x: as `exp`, with an exact reduction.

    Max 0.88 ulp in single, 1.0 in double precision.
    """
    low, high = _EXP2_RANGE[t.bits]
    x = at_most(b, t, at_least(b, t, x, low), high)
    k, bits = round_product(b, t, x, 1.0, 2 * exponent_bias(t))
    return scale(b, t, exp2_series(b, t, b.sub(t, x, k)), bits)


def log_of_parts(b: Builder, t: DType, e: str, f: str) -> str:
    """Return `e ln 2 + ln(1 + f)` for the range of `split`.

    Singles: `f + f^2 p(f)`. Doubles: with `s = f / (2 + f)`,
    `ln(1 + f) = f - (f^2/2 - s (f^2/2 + r(s^2)))`, the form of FreeBSD's msun.
    """
    if t.bits == 32:
        return _log_of_parts_single(b, e, f, _LOG_SERIES)
    s, series, half = _log_parts(b, t, f)
    rest = b.fma(t, s, series, b.mul(t, e, LN2_LO[64]))
    return b.fma(t, e, LN2_HI[64], b.sub(t, f, b.sub(t, half, rest)))


def _log_parts(b: Builder, t: DType, f: str) -> tuple[str, str, str]:
    """Return s, the series times which it is `ln(1 + f) - f + half`, and half."""
    s = b.fdiv(t, f, b.add(t, f, 2.0))
    z = b.mul(t, s, s)
    half = b.mul(t, b.mul(t, f, 0.5), f)
    return s, b.fma(t, z, polynomial(b, t, z, _LOG_ATANH), half), half


def _log_of_parts_single(
    b: Builder, e: str, f: str, coefficients: tuple[float, ...]
) -> str:
    t = FLOAT32
    series = polynomial(b, t, f, coefficients)
    rest = b.fma(t, b.mul(t, f, f), series, b.mul(t, e, LN2_LO[32]))
    return b.fma(t, e, LN2_HI[32], b.add(t, f, rest))


def finish_log(b: Builder, t: DType, x: str, y: str) -> str:
    """Put in the logarithms of 0, negative numbers, infinity and NaN."""
    outside = b.select(t, b.compare("oeq", t, x, 0.0), -INF, NAN)
    y = b.select(t, b.compare("ogt", t, x, 0.0), y, outside)
    return b.select(t, b.compare("oeq", t, x, INF), INF, y)


def log(b: Builder, t: DType, x: str) -> str:
    """Return ln x, also of denormals; -inf at 0 and NaN below.

    Max 0.88 ulp in single, 0.81 in double precision.
    """
    if t is FLOAT32 and has_registers(b):
        return _log_of_parts_single(b, *split_registers(b, x), _LOG_SERIES_512)
    e, f = split(b, t, x)
    return finish_log(b, t, x, log_of_parts(b, t, e, f))


def log2(b: Builder, t: DType, x: str) -> str:
    """Return log2 x, exact for powers of two.

    Not by AVX-512's splitting: its interval makes -1 + 0.58 cancel below 3/4.

    Max 1.03 ulp in single, 0.91 in double precision.
    """
    e, f = split(b, t, x)
    if t is FLOAT32:
        series = polynomial(b, t, f, _LOG2_SERIES)
        rest = b.fma(t, b.mul(t, f, f), series, b.mul(t, f, _LOG2E_LO[32]))
        return finish_log(b, t, x, b.add(t, e, b.fma(t, f, _LOG2E_HI[32], rest)))
    s, series, half = _log_parts(b, t, f)
    tail = b.sub(t, b.mul(t, s, series), half)
    low = b.fma(t, tail, _LOG2E, b.mul(t, f, _LOG2E_LO[64]))
    return finish_log(b, t, x, b.add(t, e, b.fma(t, f, _LOG2E_HI[64], low)))
