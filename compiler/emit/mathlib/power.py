"""Powers and cube roots.

Owns `power`, whose logarithm carries more precision than its result: a relative
error of the logarithm grows with the size of the exponent. Singles compute it in
doubles, doubles as unevaluated sums of two doubles. `half_power` is for exponents such
as 3/2 that are known while code is written.
"""

from __future__ import annotations

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.mathlib.bits import (
    INF,
    NAN,
    at_least,
    at_most,
    bit_op,
    exponent_bias,
    fabs,
    flip_sign,
    from_bits,
    magic,
    polynomial,
    round_product,
    scale,
    shift_left,
    sign_bit,
    split,
    to_bits,
)
from lumijit.compiler.emit.mathlib.exponential import exp2_series
from lumijit.runtime.dtypes import FLOAT32, FLOAT64, INT32, DType

# log2(1 + f) / f in doubles, with a relative error of 2^-35.8.
_LOG2_WIDE = (
    0.07736865818906313,
    -0.14283839531011783,
    0.14474891155711722,
    -0.14315673720279817,
    0.15876976029304307,
    -0.18030057476158248,
    0.20617536132261882,
    -0.24045316648568665,
    0.2885372934018304,
    -0.3606736748246159,
    0.48089836139691583,
    -0.7213475208686109,
    1.442695040868703,
)
# (atanh(s) - s - s^3 / 3) / s^5 in z = s^2 for |s| <= 0.1716.
_ATANH_REST = (
    0.05995603890785453,
    0.05837277628660764,
    0.06668165186798447,
    0.07692278267336344,
    0.09090909437618867,
    0.11111111108748206,
    0.14285714285722637,
    0.19999999999999987,
)
# 2 / ln 2 and 1/3 as sums of two doubles.
_TWO_LOG2E = (2.8853900817779268, 4.0710547481862066e-17)
_THIRD = (0.3333333333333333, 1.850371707708594e-17)
_FLOAT_MAX = {32: 3.4028234663852886e38, 64: 2.0**65}


def power(b: Builder, t: DType, x: str, y: str) -> str:
    """Return x^y with the special cases of C's pow.

    `2^(y log2|x|)`; a negative x needs an integral y, and an odd one makes the
    result negative. Singles: log2 in doubles. Doubles: in double-double.

    Max 0.9 ulp in single, 0.96 in double precision.
    """
    a = fabs(b, t, x)
    if t is FLOAT32:
        result = _magnitude_single(b, a, y)
    else:
        result = _magnitude_double(b, a, y)
    return _finish_power(b, t, x, y, result)


def _finish_power(b: Builder, t: DType, x: str, y: str, result: str) -> str:
    """Put in the sign, NaN for roots of negative numbers, and `1^y = x^0 = 1`."""
    half = b.mul(t, y, 0.5)
    is_whole = b.compare("oeq", t, b.unary_intrinsic("rint", t, y), y)
    is_odd = b.compare("une", t, b.unary_intrinsic("rint", t, half), half)
    sign = sign_bit(b, t, x)
    result = b.select(t, is_odd, flip_sign(b, t, result, sign), result)
    # (-inf)^y is no root of a negative number: it has a limit for every y.
    positive = fabs(b, t, result)
    of_negative = b.select(t, b.compare("oeq", t, x, -INF), positive, NAN)
    root = b.select(t, b.compare("olt", t, x, 0.0), of_negative, positive)
    result = b.select(t, is_whole, result, root)
    result = b.select(t, b.compare("uno", t, y, y), y, result)
    result = b.select(t, b.compare("oeq", t, y, 0.0), 1.0, result)
    return b.select(t, b.compare("oeq", t, x, 1.0), 1.0, result)


def _magnitude_single(b: Builder, a: str, y: str) -> str:
    """Return a^y for singles, `a >= 0`."""
    t, d = FLOAT32, FLOAT64
    e, f = split(b, t, a)
    e = b.select(t, b.compare("olt", t, a, INF), e, a)
    e = b.select(t, b.compare("oeq", t, a, 0.0), -INF, e)
    limit = _FLOAT_MAX[32]
    y = at_most(b, t, at_least(b, t, y, -limit), limit)
    f = b.convert("fpext", t, f, d)
    series = polynomial(b, d, f, _LOG2_WIDE)
    log2 = b.fma(d, f, series, b.convert("fpext", t, e, d))
    product = b.mul(d, log2, b.convert("fpext", t, y, d))
    product = at_most(b, d, at_least(b, d, product, -151.0), 129.0)
    k = b.sub(d, b.add(d, product, magic(d)), magic(d))
    r = b.convert("fptrunc", d, b.sub(d, product, k), t)
    k = b.convert("fptrunc", d, k, t)
    biased = to_bits(b, t, b.add(t, k, magic(t, 2 * exponent_bias(t))))
    return scale(b, t, exp2_series(b, t, r), biased)


def _log2_double(b: Builder, a: str) -> tuple[str, str]:
    """Return log2 a as a sum of two doubles, with a relative error of 2^-63.

    `log(1 + f) = 2 (s + s^3 / 3 + ...)` with `s = f / (2 + f)`, where s, its
    square and 1/3 are sums of two doubles; the rest of the series is one double.
    """
    t = FLOAT64
    e, f = split(b, t, a)
    e = b.select(t, b.compare("olt", t, a, INF), e, a)
    d = b.add(t, f, 2.0)
    d_low = b.sub(t, f, b.sub(t, d, 2.0))
    inverse = b.fdiv(t, 1.0, d)
    s = b.mul(t, f, inverse)
    rest = b.fma(t, b.neg(t, s), d, f)
    s_low = b.mul(t, b.fma(t, b.neg(t, s), d_low, rest), inverse)
    z = b.mul(t, s, s)
    z_low = b.fma(t, b.add(t, s, s), s_low, b.fma(t, s, s, b.neg(t, z)))
    c_rest = b.fma(t, z, polynomial(b, t, z, _ATANH_REST), _THIRD[1])
    c = b.add(t, c_rest, _THIRD[0])
    c_low = b.sub(t, c_rest, b.sub(t, c, _THIRD[0]))
    v = b.mul(t, z, c)
    v_low = b.fma(t, z, c_low, b.fma(t, z, c, b.neg(t, v)))
    v_low = b.fma(t, z_low, c, v_low)
    u = b.mul(t, s, v)
    u_low = b.fma(t, s, v_low, b.fma(t, s, v, b.neg(t, u)))
    u_low = b.fma(t, s_low, v, u_low)
    h = b.add(t, s, u)
    h_low = b.add(t, b.sub(t, u, b.sub(t, h, s)), b.add(t, s_low, u_low))
    g = b.mul(t, h, _TWO_LOG2E[0])
    g_low = b.fma(t, h, _TWO_LOG2E[0], b.neg(t, g))
    g_low = b.fma(t, h, _TWO_LOG2E[1], g_low)
    g_low = b.fma(t, h_low, _TWO_LOG2E[0], g_low)
    high = b.add(t, e, g)
    return high, b.add(t, b.sub(t, g, b.sub(t, high, e)), g_low)


def _magnitude_double(b: Builder, a: str, y: str) -> str:
    """Return a^y for doubles, `a >= 0`."""
    t = FLOAT64
    high, low = _log2_double(b, a)
    limit = _FLOAT_MAX[64]
    exponent = at_most(b, t, at_least(b, t, y, -limit), limit)
    product = b.mul(t, exponent, high)
    rest = b.fma(t, exponent, high, b.neg(t, product))
    rest = b.fma(t, exponent, low, rest)
    product = at_most(b, t, at_least(b, t, product, -1077.0), 1026.0)
    k, biased = round_product(b, t, product, 1.0, 2 * exponent_bias(t))
    r = b.add(t, b.sub(t, product, k), rest)
    # Beyond the range the rest means nothing.
    r = at_most(b, t, at_least(b, t, r, -0.6), 0.6)
    result = scale(b, t, exp2_series(b, t, r), biased)
    is_negative = b.compare("olt", t, y, 0.0)
    # The products pass a NaN exponent on.
    of_zero = b.select(t, is_negative, INF, b.mul(t, exponent, 0.0))
    of_infinity = b.select(t, is_negative, 0.0, b.mul(t, exponent, INF))
    result = b.select(t, b.compare("oeq", t, a, 0.0), of_zero, result)
    return b.select(t, b.compare("oeq", t, a, INF), of_infinity, result)


def half_power(b: Builder, t: DType, x: str, twice: int) -> str:
    """Return x^(twice / 2) for an odd number, as C's pow.

    A square root and products. The sign of -0 and the limit at -inf aren't the root's.

    Max 3.5 ulp for exponents from -7/2 to 7/2, 1.5 for 1/2 and -1/2.
    """
    a = fabs(b, t, x)
    result = b.unary_intrinsic("sqrt", t, a)
    count, factor = abs(twice) // 2, a
    while count:
        if count & 1:
            result = b.mul(t, result, factor)
        count >>= 1
        if count:
            factor = b.mul(t, factor, factor)
    if twice < 0:
        result = b.fdiv(t, 1.0, result)
    of_negative = b.select(t, b.compare("oeq", t, x, -INF), result, NAN)
    return b.select(t, b.compare("olt", t, x, 0.0), of_negative, result)


# Up to here x is scaled first, by these powers of two and back.
_CBRT_SCALING = {32: (1e-20, 48), 64: (1e-150, 300)}
_CBRT_SEED = 0x54A20000


def _cbrt_seed(b: Builder, t: DType, x: str) -> str:
    """Return an approximation of x^(-1/3), off by 3 %: a third of the exponent.

    The quotient of the bits by -3 is taken in floating point. Doubles use their
    upper half.
    """
    if t is FLOAT32:
        bits = b.convert("sitofp", INT32, to_bits(b, t, x), t)
        bits = b.fma(t, bits, -1 / 3, float(_CBRT_SEED))
        return from_bits(b, t, b.convert("fptosi", t, bits, INT32))
    base = 0x433 << 52
    upper = bit_op(b, "or", t, bit_op(b, "lshr", t, to_bits(b, t, x), 32), base)
    number = b.sub(t, from_bits(b, t, upper), 2.0**52)
    # 1023 / 3 * 4 in the exponent field of the upper half, less the same tuning.
    seed = (_CBRT_SEED - (127 << 23) * 4 / 3) / 8 + (1023 << 20) * 4 / 3
    third = b.fma(t, number, -1 / 3, magic(t) + float(round(seed)))
    return from_bits(b, t, shift_left(b, t, to_bits(b, t, third), 32))


def cbrt(b: Builder, t: DType, x: str) -> str:
    """Return the real cube root of x, without a division.

    Householder iterations for `|x|^(-1/3)` from a seed made of the bits, then
    `c = |x| y^2` and one correction by the exact residual `|x| - c^3`.

    Max 0.501 ulp in both precisions.
    """
    a = fabs(b, t, x)
    limit, up = _CBRT_SCALING[t.bits]
    is_small = b.compare("olt", t, a, limit)
    scaled = b.select(t, is_small, b.mul(t, a, 2.0**up), a)
    back = b.select(t, is_small, 2.0 ** (-up / 3), 1.0)
    y = _cbrt_seed(b, t, scaled)
    for _ in range(2 if t is FLOAT32 else 3):
        square = b.mul(t, y, y)
        h = b.fma(t, b.neg(t, b.mul(t, scaled, y)), square, 1.0)
        y = b.fma(t, b.mul(t, y, h), b.horner(t, h, (14 / 81, 2 / 9, 1 / 3)), y)
    square = b.mul(t, y, y)
    c = b.mul(t, scaled, square)
    c_square = b.mul(t, c, c)
    c_square_low = b.fma(t, c, c, b.neg(t, c_square))
    residual = b.fma(t, b.neg(t, c_square), c, scaled)
    residual = b.fma(t, b.neg(t, c_square_low), c, residual)
    c = b.fma(t, residual, b.mul(t, square, 1 / 3), c)
    c = b.mul(t, c, back)
    c = b.select(t, b.compare("olt", t, a, INF), c, a)
    return flip_sign(b, t, c, sign_bit(b, t, x))
