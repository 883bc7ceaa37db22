"""What accuracy the math functions have to reach, and how it is measured.

`ACCURACY` is the one place that declares it: per function, precision and domain
the accuracy that the peer (Dr.Jit) documents, and our own bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import scipy.special

from lumijit.runtime.dtypes import FLOAT32, FLOAT64, DType

from .mathlib_harness import Array, run

Pair = tuple[float, float]


@dataclass(frozen=True)
class Documented:
    """What the peer documents: absolute and relative errors and ulp, mean and max."""

    abs: Pair
    rel: Pair
    ulp: Pair


@dataclass(frozen=True)
class Row:
    """One measurement: a function on a domain, and what is asked of it.

    `max_ulp` bounds the error against the exact value; `mean_ulp` the mean
    distance to the correctly rounded value (0 where rounding is always correct),
    which is the measure of the peer's table.
    """

    name: str
    t: DType
    low: float
    high: float
    max_ulp: float
    mean_ulp: float
    documented: Documented | None = None


@dataclass(frozen=True)
class Measured:
    """Measured errors, mean and max; `exact_ulp` is against the exact value."""

    abs: Pair
    rel: Pair
    ulp: Pair
    exact_ulp: float


def _doc(*v: float) -> Documented:
    return Documented((v[0], v[1]), (v[2], v[3]), (v[4], v[5]))


_F, _D = FLOAT32, FLOAT64
_WIDE = (-8192.0, 8192.0)
_UNIT = (-1.0, 1.0)

ACCURACY: tuple[Row, ...] = (
    Row("sin", _F, *_WIDE, 1.8, 0.25, _doc(1.2e-8, 1.2e-7, 1.9e-8, 1.8e-6, 0.25, 19)),
    Row("cos", _F, *_WIDE, 1.8, 0.25, _doc(1.2e-8, 1.2e-7, 1.9e-8, 3.1e-6, 0.25, 47)),
    Row("tan", _F, *_WIDE, 2.8, 0.38, _doc(4.7e-6, 0.81, 3.4e-8, 3.1e-6, 0.42, 30)),
    Row("cot", _F, *_WIDE, 2.8, 0.38),
    Row("asin", _F, *_UNIT, 2.2, 0.17, _doc(2.3e-8, 1.2e-7, 2.9e-8, 2.3e-7, 0.33, 2)),
    Row("acos", _F, *_UNIT, 1.3, 0.15, _doc(4.7e-8, 2.4e-7, 2.9e-8, 1.2e-7, 0.33, 1)),
    Row("atan", _F, *_UNIT, 1.2, 0.14, _doc(1.8e-7, 6e-7, 4.2e-7, 8.2e-7, 4.9, 12)),
    Row("sinh", _F, -10, 10, 2.0, 0.15, _doc(2.6e-5, 2e-3, 2.8e-8, 2.7e-7, 0.34, 3)),
    Row("cosh", _F, -10, 10, 2.0, 0.17, _doc(2.9e-5, 2e-3, 2.9e-8, 2.5e-7, 0.35, 4)),
    Row("tanh", _F, -10, 10, 5.4, 0.7, _doc(4.8e-8, 4.2e-7, 5e-8, 5e-7, 0.76, 7)),
    Row("asinh", _F, -30, 30, 1.8, 0.14, _doc(2.8e-8, 4.8e-7, 1e-8, 1.7e-7, 0.13, 2)),
    Row("acosh", _F, 1, 10, 2.1, 0.15, _doc(2.9e-8, 2.4e-7, 1.5e-8, 2.4e-7, 0.18, 3)),
    Row("atanh", _F, *_UNIT, 1.4, 0.08, _doc(9.9e-9, 2.4e-7, 1.5e-8, 1.2e-7, 0.18, 1)),
    Row("exp", _F, -20, 30, 1.0, 0.07, _doc(0.72e4, 0.1e7, 2.4e-8, 1.2e-7, 0.27, 1)),
    Row(
        "log",
        _F,
        1e-20,
        2e30,
        1.0,
        0.01,
        _doc(9.6e-9, 7.6e-6, 1.4e-10, 1.2e-7, 0.0013, 1),
    ),
    Row("log", _F, 0.25, 4, 1.0, 0.1),
    Row("erf", _F, *_UNIT, 4.0, 0.65, _doc(3.2e-8, 1.8e-7, 6.4e-8, 3.3e-7, 0.78, 4)),
    Row("erfc", _F, *_UNIT, 8.0, 0.5, _doc(3.4e-8, 2.4e-7, 6.4e-8, 1e-6, 0.79, 11)),
    Row("erfc", _F, 1, 9, 7.0, 0.95),
    Row("exp2", _F, -126, 127.5, 1.0, 0.06),
    Row("log2", _F, 0.25, 4, 1.1, 0.12),
    Row("cbrt", _F, -100, 100, 0.51, 0.001),
    Row("erfinv", _F, *_UNIT, 4.0, 0.9),
    Row("lgamma", _F, 0.01, 50, 6.5, 0.5),
    Row(
        "sin", _D, *_WIDE, 1.8, 0.26, _doc(2.2e-17, 2.2e-16, 3.6e-17, 3.1e-16, 0.25, 2)
    ),
    Row("cos", _D, *_WIDE, 1.8, 0.26, _doc(2.2e-17, 2.2e-16, 3.6e-17, 3e-16, 0.25, 2)),
    Row(
        "tan", _D, *_WIDE, 2.6, 0.37, _doc(6.8e-16, 1.2e-10, 5.4e-17, 4.1e-16, 0.35, 3)
    ),
    Row(
        "cot", _D, *_WIDE, 2.6, 0.37, _doc(4.9e-16, 1.2e-10, 5.5e-17, 4.4e-16, 0.36, 3)
    ),
    Row(
        "asin",
        _D,
        *_UNIT,
        0.9,
        0.08,
        _doc(1.3e-17, 2.2e-16, 1.5e-17, 2.2e-16, 0.098, 1),
    ),
    Row(
        "acos", _D, *_UNIT, 1.3, 0.15, _doc(5.4e-17, 4.4e-16, 3.5e-17, 2.2e-16, 0.23, 1)
    ),
    Row("atan", _D, *_UNIT, 1.6, 0.1, _doc(4.3e-17, 3.3e-16, 1e-16, 7.1e-16, 0.65, 5)),
    Row(
        "sinh",
        _D,
        -10,
        10,
        2.2,
        0.14,
        _doc(3.1e-14, 1.8e-12, 3.3e-17, 4.3e-16, 0.22, 2),
    ),
    Row(
        "cosh", _D, -10, 10, 1.6, 0.13, _doc(2.2e-14, 1.8e-12, 2e-17, 2.9e-16, 0.13, 2)
    ),
    Row(
        "tanh",
        _D,
        -10,
        10,
        3.0,
        0.54,
        _doc(5.6e-17, 3.3e-16, 6.1e-17, 5.5e-16, 0.52, 3),
    ),
    Row(
        "asinh",
        _D,
        -30,
        30,
        1.8,
        0.15,
        _doc(5.1e-17, 8.9e-16, 1.9e-17, 4.4e-16, 0.13, 2),
    ),
    Row(
        "acosh", _D, 1, 10, 2.0, 0.16, _doc(4.9e-17, 4.4e-16, 2.6e-17, 6.6e-16, 0.17, 5)
    ),
    Row(
        "atanh", _D, *_UNIT, 1.4, 0.09, _doc(1.8e-17, 4.4e-16, 3.2e-17, 3e-16, 0.21, 2)
    ),
    Row("exp", _D, -20, 30, 1.0, 0.09, _doc(4.7e-6, 2e-3, 2.5e-17, 3.3e-16, 0.16, 2)),
    Row(
        "log",
        _D,
        1e-20,
        2e30,
        1.0,
        0.01,
        _doc(1.9e-17, 1.4e-14, 2.7e-19, 2.2e-16, 0.0013, 1),
    ),
    Row("log", _D, 0.25, 4, 1.0, 0.09),
    Row("erf", _D, *_UNIT, 1.6, 0.4, _doc(4.7e-17, 4.4e-16, 9.6e-17, 5.9e-16, 0.63, 5)),
    Row(
        "erfc",
        _D,
        *_UNIT,
        6.5,
        0.45,
        _doc(4.8e-17, 4.4e-16, 9.6e-17, 2.5e-15, 0.64, 16),
    ),
    Row("erfc", _D, 1, 25, 5.5, 0.95),
    Row("exp2", _D, -1022, 1023.5, 1.1, 0.1),
    Row("log2", _D, 0.25, 4, 1.1, 0.13),
    Row("cbrt", _D, -100, 100, 0.51, 0.01),
    Row("erfinv", _D, *_UNIT, 5.0, 1.0),
    Row("lgamma", _D, 0.01, 50, 6.0, 0.5),
)

_NUMPY: dict[str, Callable[[Array], Any]] = {
    "cot": lambda x: 1 / np.tan(x),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "erfinv": scipy.special.erfinv,
    "lgamma": scipy.special.gammaln,
}
_MPMATH: dict[str, Callable[[Any], Any]] = {
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x, 2),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))),
}


def reference(name: str, x: Array) -> Array:
    """Evaluate a function in double precision with NumPy or SciPy."""
    function = _NUMPY.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        return np.asarray(function(x.astype(np.float64)))


def exact(name: str, x: float) -> Any:
    """Evaluate a function with mpmath at its working precision."""
    function = _MPMATH.get(name) or getattr(mpmath, name)
    return function(mpmath.mpf(x))


def sample(row: Row, count: int, seed: int = 7) -> Array:
    """Draw arguments uniformly from the domain, without its ends."""
    x = np.random.default_rng(seed).uniform(row.low, row.high, count)
    x = x.astype(row.t.numpy)
    return np.asarray(x[(x > row.low) & (x < row.high)])


def measure(row: Row, count: int) -> Measured:
    """Compare a function with a reference of more than its precision."""
    x = sample(row, count)
    y = run(row.name, row.t, x)
    assert np.isfinite(y).all()
    if row.t is FLOAT32:
        wide = reference(row.name, x)
        rounded = wide.astype(np.float32)
        error = np.abs(y.astype(np.float64) - wide)
        return errors(y, rounded, error, np.abs(wide))
    with mpmath.workdps(40):
        return exact_errors(y, [exact(row.name, float(v)) for v in x])


def exact_errors(y: Array, values: list[Any]) -> Measured:
    """Compare with numbers of mpmath."""
    pairs = zip(y, values, strict=True)
    error = np.array([float(abs(mpmath.mpf(float(a)) - v)) for a, v in pairs])
    rounded = np.array([float(v) for v in values]).astype(y.dtype)
    return errors(y, rounded, error, np.abs(rounded))


def errors(y: Array, rounded: Array, error: Array, size: Array) -> Measured:
    """Compare with correctly rounded values; `error` is against the exact ones."""
    unit = np.spacing(np.abs(rounded)).astype(np.float64)
    distance = np.abs(y.astype(np.float64) - rounded.astype(np.float64))
    ratio = distance / np.maximum(size, np.finfo(y.dtype).tiny)
    ulp = distance / unit
    return Measured(
        abs=(float(distance.mean()), float(distance.max())),
        rel=(float(ratio.mean()), float(ratio.max())),
        ulp=(float(ulp.mean()), float(ulp.max())),
        exact_ulp=float((error / unit).max()),
    )
