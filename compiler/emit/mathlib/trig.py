"""Trigonometric functions and their inverses.

Owns the reduction of angles: Cody-Waite with three constants and fused
multiply-adds, exact far beyond |x| = 8192. A single sine or cosine is reduced by
pi (one polynomial), a pair by pi/2 (two short ones, swapped by quadrant).
"""

from __future__ import annotations

import math

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.mathlib.bits import (
    at_least,
    at_most,
    bit_op,
    fabs,
    flip_sign,
    int_of,
    odd_series,
    polynomial,
    round_product,
    shift_left,
    sign_bit,
    to_bits,
)
from lumijit.runtime.dtypes import DType

# pi in three parts that sum to it with three times the precision. Each is rounded
# down, so that all are positive: only then `x - 0 * part` keeps the sign of -0.
_PI = {
    32: (3.141592502593994, 1.5099578831723193e-07, 1.078060505991553e-14),
    64: (3.141592653589793, 1.224646799147353e-16, 2.1657133478438278e-32),
}
_HALF_PI = {bits: tuple(0.5 * c for c in parts) for bits, parts in _PI.items()}

# The bound of remainders: pi/4, and some room for a rounded quotient.
_BOUND = 0.85

# (sin(r) - r) / r^3 in z = r^2 for |r| <= pi/2.
_SIN_WIDE = {
    32: (
        2.606095677037956e-06,
        -0.00019809776858892292,
        0.008333069272339344,
        -0.16666659712791443,
    ),
    64: (
        2.721155135567024e-15,
        -7.642989647432644e-13,
        1.6058939636873651e-10,
        -2.5052106871468867e-08,
        2.755731921112323e-06,
        -0.00019841269841209142,
        0.008333333333333194,
        -0.16666666666666666,
    ),
}
# The same for |r| <= pi/4.
_SIN = {
    32: (-0.0001951828453456983, 0.008332189172506332, -0.16666655242443085),
    64: (
        1.589619579304429e-10,
        -2.505074719346411e-08,
        2.7557313617932555e-06,
        -0.0001984126982958026,
        0.008333333333322108,
        -0.1666666666666663,
    ),
}
# cos(r) in z for |r| <= pi/4.
_COS = {
    32: (
        2.4432327336398885e-05,
        -0.0013887309469282627,
        0.04166664555668831,
        -0.5,
        1.0,
    ),
    64: (
        -1.1358732880181768e-11,
        2.0875705115412125e-09,
        -2.755731421529515e-07,
        2.4801587288997465e-05,
        -0.0013888888888873338,
        0.041666666666666595,
        -0.5,
        1.0,
    ),
}
# (tan(r) - r) / r^3 in z for |r| <= pi/4.
_TAN = {
    32: (
        0.009395190514624119,
        0.003102847607806325,
        0.02444104105234146,
        0.05340820550918579,
        0.13338835537433624,
        0.33333155512809753,
    ),
    64: (
        2.086106306658992e-05,
        -4.486749144165279e-05,
        8.943563955308199e-05,
        -2.63680656555812e-05,
        0.00013651268718332295,
        0.00022238611086797022,
        0.0005950625610544913,
        0.0014547584995672183,
        0.003592288989430203,
        0.008863219174213467,
        0.021869489608302255,
        0.05396825392669615,
        0.13333333333414568,
        0.33333333333332776,
    ),
}
# (atan(t) - t) / t^3 in z = t^2 for |t| <= 1.
_ATAN = {
    32: (
        0.002920211059972644,
        -0.01636585034430027,
        0.043208204209804535,
        -0.07551878690719604,
        0.10665834695100784,
        -0.14211009442806244,
        0.19993767142295837,
        -0.33333152532577515,
    ),
    64: (
        1.3225538422554191e-05,
        -0.0001521656426971887,
        0.0008313446628383138,
        -0.0028849853529757225,
        0.007196637932734281,
        -0.013900757719698766,
        0.02198507161986006,
        -0.02990404362136462,
        0.036642032769835964,
        -0.04219185202943864,
        0.04722324706232091,
        -0.05253519317907598,
        0.058805279933584746,
        -0.06666404088621758,
        0.07692279843166384,
        -0.09090907003320887,
        0.11111111007043713,
        -0.1428571428257561,
        0.19999999999951465,
        -0.3333333333333307,
    ),
}
# (asin(t) - t) / t^3 in z for |t| <= 1/2.
_ASIN = {
    32: (
        0.042158450931310654,
        0.024184728041291237,
        0.04546915367245674,
        0.074953094124794,
        0.16666752099990845,
    ),
    64: (
        0.03191273018174594,
        -0.016224937261942452,
        0.019528714242790575,
        0.006527804283410603,
        0.012169253418542714,
        0.013885228640249006,
        0.017359705516330894,
        0.022371757995097073,
        0.030381959139572402,
        0.04464285682825581,
        0.07500000000337115,
        0.16666666666665408,
    ),
}


def _remainder(
    b: Builder, t: DType, x: str, count: str, parts: tuple[float, ...], bound: float
) -> str:
    """Return `x - count * sum(parts)`, within `bound` even for a huge `x`.

    Where `x` is so large that `count` is rounded, the remainder would leave the
    polynomials' range, and the sine the range [-1, 1]. Infinity gives NaN.
    """
    for part in parts:
        x = b.fma(t, count, -part, x)
    return at_most(b, t, at_least(b, t, x, -bound), bound)


def half_turn_sine(b: Builder, t: DType, x: str) -> str:
    """Return `+-sin(pi x)`, exactly 0 at integers; the sign is not that of sin."""
    r = b.sub(t, x, b.unary_intrinsic("rint", t, x))
    r = b.mul(t, r, math.pi)
    z = b.mul(t, r, r)
    s = odd_series(b, t, r, z, polynomial(b, t, z, _SIN_WIDE[t.bits]))
    # Rounding may lead above 1.
    return at_most(b, t, at_least(b, t, s, -1.0), 1.0)


def sin(b: Builder, t: DType, x: str) -> str:
    """Return sin x, the same bits as with cos x beside it.

    A kernel may compute a value again that another one has stored, and compare the two.
    """
    return sincos(b, t, x)[0]


def cos(b: Builder, t: DType, x: str) -> str:
    """Return cos x, the same bits as with sin x beside it."""
    return sincos(b, t, x)[1]


def sincos(b: Builder, t: DType, x: str) -> tuple[str, str]:
    """Return sin x and cos x from one reduction by pi/2.

    Max 1.8 ulp in both precisions for |x| < 1e5 (single) and 1e8 (double).
    """
    k, bits = round_product(b, t, x, 2 / math.pi)
    r = _remainder(b, t, x, k, _HALF_PI[t.bits], _BOUND)
    z = b.mul(t, r, r)
    s = odd_series(b, t, r, z, polynomial(b, t, z, _SIN[t.bits]))
    c = polynomial(b, t, z, _COS[t.bits])
    parity = shift_left(b, t, bits, t.bits - 1)
    second = shift_left(b, t, bits, t.bits - 2)
    top = -1 << (t.bits - 1)
    is_odd = b.compare("slt", int_of(t), parity, 0)
    sine = b.select(t, is_odd, c, s)
    cosine = b.select(t, is_odd, s, c)
    sine = flip_sign(b, t, sine, bit_op(b, "and", t, second, top))
    flip = bit_op(b, "and", t, bit_op(b, "xor", t, second, parity), top)
    return sine, flip_sign(b, t, cosine, flip)


def _tan_ratio(b: Builder, t: DType, x: str) -> tuple[str, str, str, str]:
    """Return tan of the remainder by pi/2, 1.0, and the odd quadrants' mask."""
    k, bits = round_product(b, t, x, 2 / math.pi)
    r = _remainder(b, t, x, k, _HALF_PI[t.bits], _BOUND)
    z = b.mul(t, r, r)
    tangent = b.fma(t, r, b.mul(t, z, polynomial(b, t, z, _TAN[t.bits])), r)
    parity = shift_left(b, t, bits, t.bits - 1)
    is_odd = b.compare("slt", int_of(t), parity, 0)
    return tangent, is_odd, b.const(t, 1.0), b.const(t, -1.0)


def tan(b: Builder, t: DType, x: str) -> str:
    """Return tan x: `tan r`, or `-1 / tan r` in odd quadrants; one division.

    Max 2.7 ulp in single, 2.4 in double precision, for |x| < 8192.
    """
    tangent, is_odd, one, minus_one = _tan_ratio(b, t, x)
    numerator = b.select(t, is_odd, minus_one, tangent)
    return b.fdiv(t, numerator, b.select(t, is_odd, tangent, one))


def cot(b: Builder, t: DType, x: str) -> str:
    """Return cot x: `1 / tan r`, or `-tan r` in odd quadrants; one division.

    Max 2.7 ulp in single, 2.5 in double precision, for |x| < 8192.
    """
    tangent, is_odd, one, minus_one = _tan_ratio(b, t, x)
    numerator = b.select(t, is_odd, tangent, one)
    return b.fdiv(t, numerator, b.select(t, is_odd, minus_one, tangent))


def _asin_parts(b: Builder, t: DType, x: str) -> tuple[str, str, str, str]:
    """Return w, `asin(w) - w`, `w^2`, and where |x| > 1/2.

    There w is `sqrt((1 - |x|) / 2)`, elsewhere |x|.
    """
    a = fabs(b, t, x)
    is_large = b.compare("ogt", t, a, 0.5)
    z = b.select(t, is_large, b.fma(t, a, -0.5, 0.5), b.mul(t, a, a))
    w = b.select(t, is_large, b.unary_intrinsic("sqrt", t, z), a)
    series = b.mul(t, z, polynomial(b, t, z, _ASIN[t.bits]))
    return w, b.mul(t, w, series), z, is_large


def asin(b: Builder, t: DType, x: str) -> str:
    """Return asin x; above 1/2 as `pi/2 - 2 asin(sqrt((1 - x) / 2))`.

    Doubles also take the rounding errors of the root and of that difference into
    account.

    Max 2.1 ulp in single, 0.8 in double precision.
    """
    w, tail, z, is_large = _asin_parts(b, t, x)
    inner = b.add(t, w, tail)
    high, low = _HALF_PI[t.bits][:2]
    outer = b.fma(t, w, -2.0, high)
    rest = b.fma(t, tail, 2.0, -low)
    if t.bits == 64:
        error = b.fma(t, b.neg(t, w), w, z)
        error = b.fdiv(t, error, at_least(b, t, w, 2.0**-60))
        rounding = b.fma(t, w, -2.0, b.sub(t, high, outer))
        rest = b.sub(t, b.add(t, rest, error), rounding)
    outer = b.sub(t, outer, rest)
    return flip_sign(b, t, b.select(t, is_large, outer, inner), sign_bit(b, t, x))


def acos(b: Builder, t: DType, x: str) -> str:
    """Return acos x: `pi/2 - asin x`, or `2 asin(sqrt((1 - x) / 2))` above 1/2.

    Below -1/2 it is pi less the latter.

    Max 1.2 ulp in both precisions.
    """
    w, tail, _, is_large = _asin_parts(b, t, x)
    inner = b.add(t, w, tail)
    is_negative = b.compare("slt", int_of(t), to_bits(b, t, x), 0)
    high, low = _PI[t.bits][:2]
    sign = sign_bit(b, t, x)
    near_one = flip_sign(b, t, b.add(t, inner, inner), sign)
    base_high = b.select(t, is_negative, high, 0.0)
    base_low = b.select(t, is_negative, low, 0.0)
    outer = b.add(t, base_high, b.add(t, base_low, near_one))
    signed = flip_sign(b, t, inner, sign)
    middle = b.sub(t, 0.5 * high, b.sub(t, signed, 0.5 * low))
    return b.select(t, is_large, outer, middle)


def _atan_unit(b: Builder, t: DType, ratio: str) -> str:
    """Return atan of a ratio in [0, 1]."""
    z = b.mul(t, ratio, ratio)
    return odd_series(b, t, ratio, z, polynomial(b, t, z, _ATAN[t.bits]))


def atan(b: Builder, t: DType, x: str) -> str:
    """Return atan x: one division, `pi/2 - atan(1/x)` above 1.

    Max 1.3 ulp in single, 1.6 in double precision.
    """
    a = fabs(b, t, x)
    is_steep = b.compare("ogt", t, a, 1.0)
    numerator = b.select(t, is_steep, 1.0, a)
    denominator = b.select(t, is_steep, a, 1.0)
    r = _atan_unit(b, t, b.fdiv(t, numerator, denominator))
    high, low = _HALF_PI[t.bits][:2]
    steep = b.sub(t, high, b.sub(t, r, low))
    return flip_sign(b, t, b.select(t, is_steep, steep, r), sign_bit(b, t, x))


def atan2(b: Builder, t: DType, y: str, x: str) -> str:
    """Return the angle of the point (x, y), with the quadrants of C's atan2.

    One division of the smaller by the larger coordinate. The larger is kept off
    zero (0/0), equal ones give 1 (also infinity by infinity).

    Max 2.5 ulp in both precisions.
    """
    ax, ay = fabs(b, t, x), fabs(b, t, y)
    is_steep = b.compare("olt", t, ax, ay)
    smaller = b.select(t, is_steep, ax, ay)
    larger = b.select(t, is_steep, ay, ax)
    smallest = 2.0 ** -(149 if t.bits == 32 else 1074)
    larger = at_least(b, t, larger, smallest)
    is_equal = b.compare("oeq", t, smaller, larger)
    r = _atan_unit(b, t, b.select(t, is_equal, 1.0, b.fdiv(t, smaller, larger)))
    high, low = _PI[t.bits][:2]
    r = b.select(t, is_steep, b.sub(t, 0.5 * high, b.sub(t, r, 0.5 * low)), r)
    is_left = b.compare("slt", int_of(t), to_bits(b, t, x), 0)
    r = b.select(t, is_left, b.sub(t, high, b.sub(t, r, low)), r)
    return flip_sign(b, t, r, sign_bit(b, t, y))
