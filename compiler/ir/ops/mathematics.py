"""Transcendental and special functions: lowered to `emit.mathlib`.

The reference evaluation works in double precision and rounds once; for double
precision itself it uses NumPy and SciPy-free standard formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops.arithmetic import ROUND, RSQRT
from lumijit.compiler.ir.ops.record import Op, Partial, define, widened
from lumijit.runtime.dtypes import FLOATS, DType

Array = Any


def _rounded(function: Callable[..., Array]) -> Callable[..., Array]:
    def evaluate(*args: Array) -> Array:
        with np.errstate(all="ignore"):
            wide = function(*[np.asarray(a, dtype=np.float64) for a in args])
            return np.asarray(wide).astype(args[0].dtype)

    return evaluate


def _entrywise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    def evaluate(x: Array) -> Array:
        flat = [function(float(v)) for v in np.ravel(x)]
        return np.array(flat, dtype=np.float64).reshape(np.shape(x))

    return evaluate


def _lgamma(x: float) -> float:
    if math.isinf(x):
        return math.inf
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


def _erfinv(x: float) -> float:
    """Invert erf by Newton's method on the smaller tail."""
    if not -1 <= x <= 1:
        return math.nan
    if abs(x) == 1:
        return math.copysign(math.inf, x)
    if x == 0:
        return x
    w = -math.log1p(-x * x)
    a = 2 / (math.pi * 0.147) - w / 2
    y = math.copysign(math.sqrt(max(math.sqrt(a * a + w / 0.147) - a, 0.0)), x)
    for _ in range(60):
        tail = math.erfc(abs(y)) - (1 - abs(x)) if abs(x) > 0.5 else None
        error = math.erf(y) - x if tail is None else -tail * math.copysign(1, y)
        slope = 2 / math.sqrt(math.pi) * math.exp(-y * y)
        if slope == 0:
            break
        step = error / slope
        step /= 1 + y * step
        y -= step
        if abs(step) <= 1e-17 * abs(y):
            break
    return y


def _power(x: Array, y: Array) -> Array:
    """Return x ** y as C's libm does; NumPy takes sqrt(x) where y is 1/2."""
    root = np.where(x == -np.inf, np.inf, np.sqrt(x) + 0.0)
    return np.where(y == 0.5, root, np.power(x, y))


def _function(
    name: str, reference: Callable[..., Array], doc: str, cost: int, *partials: Partial
) -> Op:
    arity = len(partials)

    def lower(b: Builder, t: DType, *args: str) -> str:
        # (Imported with the first kernel that needs it.)
        from lumijit.compiler.emit.mathlib import FUNCTIONS

        return str(FUNCTIONS[name](b, t, *args))

    return define(
        name,
        arity,
        accepts=FLOATS,
        reference=_rounded(reference),
        lower=widened(lower),
        own_rounding=True,
        cost=cost,
        derivative=partials,
        doc=doc,
    )


def _by_base(x: Any, y: Any) -> Any:
    """Return y x^(y - 1), and 0 for an exponent of 0 whatever the base.

    Its own derivative at an exponent of 0 is 1 / x.
    """
    power = x.map(POWER, y - 1)
    is_lost = (y == 0) & ~(power.map(ar.ABS) < math.inf)
    return y * is_lost.select(0, power)


def _by_exponent(r: Any, x: Any) -> Any:
    """Return x^y log(x), and 0 where the power is 0 (at a base of 0)."""
    return (r == 0).select(r, r * x.map(LOG))


def _half_power(b: Builder, t: DType, x: str, twice: int) -> str:
    from lumijit.compiler.emit.mathlib.power import half_power

    return widened(lambda b, t, x: half_power(b, t, x, twice))(b, t, x)


# Bernoulli numbers B(2k) / 2k of the digamma function's series, the highest first.
_DIGAMMA = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
_SHIFTS = 8


def _digamma(x: Any) -> Any:
    """Return the derivative of log(gamma(x)): its series for large arguments.

    Small ones are shifted by the recurrence, those below 0 reflected.
    """
    is_low = x <= 0
    z = is_low.select(1 - x, x)
    shifted = z.like(0)
    for k in range(_SHIFTS):
        shifted = shifted + 1 / (z + k)
    z = z + _SHIFTS
    square = 1 / (z * z)
    tail = square.like(0)
    for factor in _DIGAMMA:
        tail = (tail + factor) * square
    value = z.map(LOG) - 0.5 / z - tail - shifted
    # (The part of a period is exact, also in half precision.)
    part = x - x.map(ROUND)
    return is_low.select(value - math.pi / (part * math.pi).map(TAN), value)


SIN = _function("sin", np.sin, "sine", 16, lambda r, x: x.map(COS).bounded())
COS: Op = _function("cos", np.cos, "cosine", 16, lambda r, x: (-x.map(SIN)).bounded())
TAN = _function("tan", np.tan, "tangent", 24, lambda r, x: (r * r + 1).bounded())
ASIN = _function(
    "asin", np.arcsin, "inverse sine", 20, lambda r, x: (1 - x * x).map(RSQRT)
)
ACOS = _function(
    "acos", np.arccos, "inverse cosine", 20, lambda r, x: -(1 - x * x).map(RSQRT)
)
ATAN = _function(
    "atan", np.arctan, "inverse tangent", 20, lambda r, x: (1 / (x * x + 1)).bounded()
)
ATAN2 = _function(
    "atan2",
    np.arctan2,
    "angle of the point (y, x) in its quadrant",
    26,
    lambda r, y, x: x / (x * x + y * y),
    lambda r, y, x: -y / (x * x + y * y),
)
SINH = _function(
    "sinh", np.sinh, "hyperbolic sine", 24, lambda r, x: x.map(COSH).bounded()
)
COSH: Op = _function(
    "cosh", np.cosh, "hyperbolic cosine", 24, lambda r, x: x.map(SINH).bounded()
)
TANH = _function(
    "tanh", np.tanh, "hyperbolic tangent", 24, lambda r, x: (1 - r * r).bounded()
)
ASINH = _function(
    "asinh",
    np.arcsinh,
    "inverse hyperbolic sine",
    30,
    lambda r, x: (x * x + 1).map(RSQRT).bounded(),
)
ACOSH = _function(
    "acosh",
    np.arccosh,
    "inverse hyperbolic cosine",
    30,
    lambda r, x: (x - 1).map(RSQRT) * (x + 1).map(RSQRT),
)
ATANH = _function(
    "atanh", np.arctanh, "inverse hyperbolic tangent", 30, lambda r, x: 1 / (1 - x * x)
)
EXP = _function("exp", np.exp, "e to the power x", 14, lambda r, x: r)
EXP2 = _function(
    "exp2", np.exp2, "2 to the power x", 12, lambda r, x: (r * math.log(2)).bounded()
)
LOG = _function("log", np.log, "natural logarithm", 20, lambda r, x: 1 / x)
LOG2 = _function(
    "log2", np.log2, "logarithm to base 2", 20, lambda r, x: (1 / math.log(2)) / x
)
POWER = _function(
    "power",
    _power,
    "x to the power y",
    50,
    lambda r, x, y: _by_base(x, y),
    lambda r, x, y: _by_exponent(r, x),
)
HALF_POWER = define(
    "half_power",
    1,
    accepts=FLOATS,
    reference=lambda x, k: _rounded(_power)(x, np.full_like(x, k / 2)),
    lower=_half_power,
    own_rounding=True,
    # (Below what is called instead, see `lower.common.outline`: it passes no attr.)
    cost=10,
    derivative=(lambda r, x, k: (k / 2) * x.map(POWER, k / 2 - 1),),
    doc="x to the power attr / 2, an odd attr",
)
CBRT = _function("cbrt", np.cbrt, "cube root", 24, lambda r, x: 1 / (3 * r * r))
ERF = _function(
    "erf",
    _entrywise(math.erf),
    "error function",
    30,
    lambda r, x: ((2 / math.sqrt(math.pi)) * (-x * x).map(EXP)).bounded(),
)
ERFINV = _function(
    "erfinv",
    _entrywise(_erfinv),
    "inverse error function",
    40,
    lambda r, x: (math.sqrt(math.pi) / 2) * (r * r).map(EXP),
)
LGAMMA = _function(
    "lgamma",
    _entrywise(_lgamma),
    "logarithm of |gamma(x)|",
    60,
    lambda r, x: _digamma(x),
)
