"""Hyperbolic functions and their inverses.

sinh and cosh share one core: with `x = k ln 2 + r` both are short combinations of
`sinh r`, `cosh r - 1` and powers of two, without a division and without loss of
digits near 0. The inverses are logarithms of 1 + u with u known precisely.
"""

from __future__ import annotations

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.mathlib.bits import (
    INF,
    NAN,
    at_least,
    at_most,
    bit_op,
    exponent_base,
    exponent_bias,
    exponent_of,
    fabs,
    flip_sign,
    from_bits,
    int_of,
    mantissa_bits,
    polynomial,
    shift_left,
    sign_bit,
    split_of_sum,
    to_bits,
)
from lumijit.compiler.emit.mathlib.exponential import (
    LN2_HI,
    LN2_LO,
    log_of_parts,
    reduce_exp,
)
from lumijit.runtime.dtypes import DType

# (sinh(r) - r) / r^3 and (cosh(r) - 1) / r^2 in z = r^2 for |r| <= ln(2) / 2.
_SINH = {
    32: (0.008366534486413002, 0.1666654348373413),
    64: (
        2.5108999437298566e-08,
        2.75572443156468e-06,
        0.00019841269886022785,
        0.00833333333332167,
        0.16666666666666677,
    ),
}
_COSH = {
    32: (0.0013935453025624156, 0.041666459292173386, 0.5),
    64: (
        2.0924328551325383e-09,
        2.7557242168729303e-07,
        2.4801587362941503e-05,
        0.0013888888888864209,
        0.04166666666666671,
        0.5,
    ),
}
# (atanh(s) - s) / s^3 in z = s^2 for |s| <= 0.29.
_ATANH = {
    32: (
        0.1321384459733963,
        0.14131151139736176,
        0.2000439167022705,
        0.33333295583724976,
    ),
    64: (
        0.0777915056631221,
        0.05402166113529077,
        0.06715476914164226,
        0.07689361434724161,
        0.09091017849318733,
        0.11111108696578617,
        0.14285714315958323,
        0.19999999999814594,
        0.33333333333333726,
    ),
}
# tanh(x) = (x + x z P(z)) / Q(z) in z = x^2 for singles, |x| <= 9.02: all terms
# are positive.
_TANH_P = (
    1.3384265251659144e-08,
    2.0635816326830536e-05,
    0.0034974573645740747,
    0.1338268667459488,
)
_TANH_Q = (
    7.790241056682135e-07,
    0.00032885168711889195,
    0.025884360074996948,
    0.46716007590293884,
    1.0,
)
# From here on e^x / 2 is infinite.
_SINH_LIMIT = {32: 89.5, 64: 710.7}
_TANH_LIMIT = {32: 9.02, 64: 20.0}
# From here on asinh x = acosh x = ln 2x.
_LARGE = {32: 1e9, 64: 1e18}


def _reduced(b: Builder, t: DType, a: str, offset: int) -> tuple[str, str, str]:
    """Return `sinh r`, `cosh r - 1` and an integer holding `k + offset`."""
    r, bits = reduce_exp(b, t, a, offset)
    z = b.mul(t, r, r)
    tail = b.mul(t, z, polynomial(b, t, z, _SINH[t.bits]))
    return (
        b.fma(t, r, tail, r),
        b.mul(t, z, polynomial(b, t, z, _COSH[t.bits])),
        bits,
    )


def _halves(b: Builder, t: DType, a: str) -> tuple[str, str, str, str]:
    """Return `sinh r`, `cosh r - 1`, and half the factors that they need.

    The factors are `2^(k-1) - 2^(-k-1)` and `2^(k-1) + 2^(-k-1)`. Halved, so that
    they are finite wherever the result is; the smaller power fades to 0.
    """
    shift, bias = mantissa_bits(t), exponent_bias(t)
    a = at_most(b, t, a, _SINH_LIMIT[t.bits])
    s, c, biased = _reduced(b, t, a, bias - 2)
    up_bits = shift_left(b, t, biased, shift)
    up = from_bits(b, t, up_bits)
    down = from_bits(b, t, bit_op(b, "sub", t, (2 * bias - 4) << shift, up_bits))
    down = at_least(b, t, down, 0.0)
    return s, c, b.sub(t, up, down), b.add(t, up, down)


def _sinh_of(b: Builder, t: DType, x: str, parts: tuple[str, str, str, str]) -> str:
    s, c, minus, plus = parts
    half = b.add(t, minus, b.fma(t, c, minus, b.mul(t, s, plus)))
    return flip_sign(b, t, b.add(t, half, half), sign_bit(b, t, x))


def _cosh_of(b: Builder, t: DType, parts: tuple[str, str, str, str]) -> str:
    s, c, minus, plus = parts
    half = b.add(t, plus, b.fma(t, c, plus, b.mul(t, s, minus)))
    return b.add(t, half, half)


def sinh(b: Builder, t: DType, x: str) -> str:
    """Return sinh x.

    Max 2.0 ulp in single, 2.2 in double precision.
    """
    return _sinh_of(b, t, x, _halves(b, t, fabs(b, t, x)))


def cosh(b: Builder, t: DType, x: str) -> str:
    """Return cosh x.

    Max 1.9 ulp in single, 1.4 in double precision.
    """
    return _cosh_of(b, t, _halves(b, t, fabs(b, t, x)))


def sincosh(b: Builder, t: DType, x: str) -> tuple[str, str]:
    """Return sinh x and cosh x from one reduction.

    As accurate as `sinh` and `cosh`.
    """
    parts = _halves(b, t, fabs(b, t, x))
    return _sinh_of(b, t, x, parts), _cosh_of(b, t, parts)


def tanh(b: Builder, t: DType, x: str) -> str:
    """Return tanh x with one division.

    Singles: a rational minimax approximation. Doubles: sinh by cosh, both divided
    by 2^(k-1).

    Max 5.1 ulp (mean 0.66) in single, 2.9 in double precision.
    """
    if t.bits == 32:
        limit = _TANH_LIMIT[32]
        x = at_most(b, t, at_least(b, t, x, -limit), limit)
        z = b.mul(t, x, x)
        top = b.fma(t, b.mul(t, x, z), polynomial(b, t, z, _TANH_P), x)
        y = b.fdiv(t, top, polynomial(b, t, z, _TANH_Q))
        return at_most(b, t, at_least(b, t, y, -1.0), 1.0)
    shift = mantissa_bits(t)
    a = at_most(b, t, fabs(b, t, x), _TANH_LIMIT[64])
    s, c, bits = _reduced(b, t, a, 0)
    double = shift_left(b, t, bits, shift + 1)
    q = from_bits(b, t, bit_op(b, "sub", t, exponent_bias(t) << shift, double))
    minus, plus = b.sub(t, 1.0, q), b.add(t, 1.0, q)
    top = b.add(t, minus, b.fma(t, c, minus, b.mul(t, s, plus)))
    bottom = b.add(t, plus, b.fma(t, c, plus, b.mul(t, s, minus)))
    return flip_sign(b, t, b.fdiv(t, top, bottom), sign_bit(b, t, x))


def _log_of_sum(b: Builder, t: DType, u: str, a: str) -> str:
    """Return `ln(1 + u)`, or `ln 2a` where `a` is large."""
    is_large = b.compare("ogt", t, a, _LARGE[t.bits])
    # A quarter keeps 1 / (1 + u) from being denormal.
    u = b.select(t, is_large, b.mul(t, a, 0.25), u)
    e, f = split_of_sum(b, t, u)
    e = b.add(t, e, b.select(t, is_large, 3.0, 0.0))
    return log_of_parts(b, t, e, f)


def asinh(b: Builder, t: DType, x: str) -> str:
    """Return asinh x as `ln(1 + a + a^2 / (1 + sqrt(1 + a^2)))` for a = |x|.

    Max 1.8 ulp in both precisions.
    """
    a = fabs(b, t, x)
    square = b.mul(t, a, a)
    root = b.unary_intrinsic("sqrt", t, b.add(t, square, 1.0))
    u = b.add(t, a, b.fdiv(t, square, b.add(t, root, 1.0)))
    y = b.select(t, b.compare("olt", t, a, INF), _log_of_sum(b, t, u, a), a)
    return flip_sign(b, t, y, sign_bit(b, t, x))


def acosh(b: Builder, t: DType, x: str) -> str:
    """Return acosh x as `ln(1 + d + sqrt(d^2 + 2 d))` for d = x - 1.

    Max 2.1 ulp in both precisions.
    """
    d = b.sub(t, x, 1.0)
    root = b.unary_intrinsic("sqrt", t, b.fma(t, d, d, b.add(t, d, d)))
    y = _log_of_sum(b, t, b.add(t, d, root), x)
    y = b.select(t, b.compare("olt", t, x, INF), y, x)
    return b.select(t, b.compare("olt", t, x, 1.0), NAN, y)


def atanh(b: Builder, t: DType, x: str) -> str:
    """Return atanh x as `e ln(2) / 2 + atanh(s)` with a small s; one division.

    `2^e` is near `(1 + a) / (1 - a)` (from the exponents of both) and
    `s = ((1 + a) - 2^e (1 - a)) / ((1 + a) + 2^e (1 - a))`.

    Max 1.3 ulp in both precisions.
    """
    shift, bias = mantissa_bits(t), exponent_bias(t)
    a = fabs(b, t, x)
    above, below = b.add(t, a, 1.0), b.sub(t, 1.0, a)
    difference = bit_op(b, "sub", t, to_bits(b, t, above), to_bits(b, t, below))
    rebase = exponent_base(t) - (bias << shift)
    quarter = 1 << (shift - 2)
    quotient = b.add(int_of(t), difference, (bias << shift) + quarter)
    power = from_bits(b, t, bit_op(b, "and", t, quotient, -1 << shift))
    plus, minus = b.add(t, power, 1.0), b.sub(t, 1.0, power)
    # Towards 1 the sums power +- 1 are rounded, so 1 - a (exact) is used there.
    is_near = b.compare("ogt", t, a, 0.999)
    top = b.fma(t, b.neg(t, power), below, above)
    top = b.select(t, is_near, top, b.fma(t, a, plus, minus))
    bottom = b.fma(t, power, below, above)
    bottom = b.select(t, is_near, bottom, b.fma(t, a, minus, plus))
    s = b.fdiv(t, top, bottom)
    z = b.mul(t, s, s)
    tail = b.mul(t, z, polynomial(b, t, z, _ATANH[t.bits]))
    e = exponent_of(b, t, b.add(int_of(t), quotient, rebase))
    rest = b.fma(t, s, tail, b.mul(t, e, 0.5 * LN2_LO[t.bits]))
    y = b.fma(t, e, 0.5 * LN2_HI[t.bits], b.add(t, s, rest))
    y = b.select(t, b.compare("oeq", t, a, 1.0), INF, y)
    y = b.select(t, b.compare("ule", t, a, 1.0), y, NAN)
    return flip_sign(b, t, y, sign_bit(b, t, x))
