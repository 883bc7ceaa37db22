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
from lumijit.compiler.emit.mathlib import FUNCTIONS
from lumijit.compiler.ir.ops.record import Op, define, widened
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


def _function(name: str, reference: Callable[..., Array], doc: str, cost: int) -> Op:
    arity = 2 if name in ("atan2", "power") else 1

    def lower(b: Builder, t: DType, *args: str) -> str:
        return str(FUNCTIONS[name](b, t, *args))

    return define(
        name,
        arity,
        accepts=FLOATS,
        reference=_rounded(reference),
        lower=widened(lower),
        own_rounding=True,
        cost=cost,
        doc=doc,
    )


SIN = _function("sin", np.sin, "sine", 16)
COS = _function("cos", np.cos, "cosine", 16)
TAN = _function("tan", np.tan, "tangent", 24)
ASIN = _function("asin", np.arcsin, "inverse sine", 20)
ACOS = _function("acos", np.arccos, "inverse cosine", 20)
ATAN = _function("atan", np.arctan, "inverse tangent", 20)
ATAN2 = _function("atan2", np.arctan2, "angle of the point (y, x) in its quadrant", 26)
SINH = _function("sinh", np.sinh, "hyperbolic sine", 24)
COSH = _function("cosh", np.cosh, "hyperbolic cosine", 24)
TANH = _function("tanh", np.tanh, "hyperbolic tangent", 24)
ASINH = _function("asinh", np.arcsinh, "inverse hyperbolic sine", 30)
ACOSH = _function("acosh", np.arccosh, "inverse hyperbolic cosine", 30)
ATANH = _function("atanh", np.arctanh, "inverse hyperbolic tangent", 30)
EXP = _function("exp", np.exp, "e to the power x", 14)
EXP2 = _function("exp2", np.exp2, "2 to the power x", 12)
LOG = _function("log", np.log, "natural logarithm", 20)
LOG2 = _function("log2", np.log2, "logarithm to base 2", 20)
POWER = _function("power", _power, "x to the power y", 50)
CBRT = _function("cbrt", np.cbrt, "cube root", 24)
ERF = _function("erf", _entrywise(math.erf), "error function", 30)
ERFINV = _function("erfinv", _entrywise(_erfinv), "inverse error function", 40)
LGAMMA = _function("lgamma", _entrywise(_lgamma), "logarithm of |gamma(x)|", 60)
