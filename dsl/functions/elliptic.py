"""Elliptic integrals of the three kinds, complete and incomplete, in Legendre's form.

They are computed from Carlson's symmetric integrals, of which all terms are positive.
Source: Carlson, "Numerical computation of real or complex elliptic integrals" (1995);
Digital Library of Mathematical Functions, 19.25 and 19.36.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lumijit.base import Array, ArrayBase
from lumijit.functions.apply import by_parts, promoted
from lumijit.functions.elementwise import abs as abs_
from lumijit.functions.elementwise import fma, round, sqrt
from lumijit.functions.selection import select
from lumijit.functions.transcendental import atan, atanh, cos, sin
from lumijit.type_traits import float32_array_t

# Each duplication makes the differences of arguments four times smaller; when they are
# below 7 % (single) or 0.8 % (double precision), the series' next term doesn't count.
_DUPLICATIONS = {32: 8, 64: 12}
_PI_HIGH, _PI_LOW = math.pi, 1.2246467991473532e-16


def _duplications(x: Any) -> int:
    bits = x._spec.dtype.bits if isinstance(x, ArrayBase) else 64
    return _DUPLICATIONS[bits]


def _sum3(x: Any, y: Any, z: Any) -> Any:
    """Return sqrt(x y) + sqrt(x z) + sqrt(y z), and the roots."""
    x, y, z = sqrt(x), sqrt(y), sqrt(z)
    return fma(x, y + z, y * z), x, y, z


def _rf(x: Any, y: Any, z: Any) -> Any:
    """Carlson's integral of the first kind, R_F."""
    mean = first = (x + y + z) * (1 / 3)
    before = x, y
    scale = 1.0
    for _ in range(_duplications(z)):
        step = _sum3(x, y, z)[0]
        mean, x, y, z = ((v + step) * 0.25 for v in (mean, x, y, z))
        scale *= 0.25
    x, y = ((first - v) * scale / mean for v in before)
    z = -x - y
    e2, e3 = fma(x, y, -z * z), x * y * z
    series = 1 + e2 * (e2 * (1 / 24 - e2 * (5 / 208)) - 0.1)
    series = series + e3 * (e3 * (3 / 104) + e2 * (e2 / 16 - 3 / 44) + 1 / 14)
    return series / sqrt(mean)


def _rd(x: Any, y: Any, z: Any) -> Any:
    """Carlson's integral R_D, a case of the third kind."""
    mean = first = (x + y + 3 * z) * 0.2
    before, total, scale = (x, y), 0.0, 1.0
    for _ in range(_duplications(z)):
        step, _, _, root = _sum3(x, y, z)
        total = total + scale / (root * (z + step))
        mean, x, y, z = ((v + step) * 0.25 for v in (mean, x, y, z))
        scale *= 0.25
    x, y = ((first - v) * scale / mean for v in before)
    z = (x + y) * (-1 / 3)
    product, square = x * y, z * z
    e2, e3 = product - 6 * square, (3 * product - 8 * square) * z
    e4, e5 = 3 * (product - square) * square, product * square * z
    return fma(_series(e2, e3, e4, e5), scale / (mean * sqrt(mean)), 3 * total)


def _rj(x: Any, y: Any, z: Any, p: Any) -> Any:
    """Carlson's integral of the third kind, R_J, for p > 0."""
    mean = first = (x + y + z + 2 * p) * 0.2
    before, total, scale = (x, y, z), 0.0, 1.0
    delta = (p - x) * (p - y) * (p - z)
    for _ in range(_duplications(z)):
        step, *roots = _sum3(x, y, z)
        root = sqrt(p)
        d = (root + roots[0]) * (root + roots[1]) * (root + roots[2])
        total = total + scale * _arc(delta * (scale**3) / (d * d)) / d
        mean, x, y, z, p = ((v + step) * 0.25 for v in (mean, x, y, z, p))
        scale *= 0.25
    x, y, z = ((first - v) * scale / mean for v in before)
    p = (x + y + z) * -0.5
    product = x * y * z
    e2 = x * y + x * z + y * z - 3 * p * p
    e3 = product + 2 * e2 * p + 4 * p * p * p
    e4 = (2 * product + e2 * p + 3 * p * p * p) * p
    series = _series(e2, e3, e4, product * p * p)
    return fma(series, scale / (mean * sqrt(mean)), 6 * total)


def _series(e2: Any, e3: Any, e4: Any, e5: Any) -> Any:
    """Expand R_D or R_J for nearly equal arguments, to the seventh order."""
    by_e2 = e2 * (e2 * (9 / 88 - e2 / 16) - 3 / 14)
    by_e3 = e3 * (1 / 6 + e3 * (3 / 40) + e2 * (e2 * (45 / 272) - 9 / 52))
    by_e4 = e4 * (e2 * (3 / 20) - e3 * (9 / 68) - 3 / 22)
    return 1 + by_e2 + by_e3 + by_e4 + e5 * (3 / 26 - e2 * (9 / 68))


def _arc(e: Any) -> Any:
    """Return atan(sqrt(e)) / sqrt(e): Carlson's integral R_C(1, 1 + e)."""
    is_small = abs_(e) < 0.01
    series = 1 / 15
    for k in range(6, -1, -1):
        series = 1 / (2 * k + 1) - e * series
    root = sqrt(select(is_small, 1.0, abs_(e)))
    outer = select(e > 0, atan(root), atanh(select(e > 0, 0.0, root))) / root
    return select(is_small, series, outer)


def _first(phi: Any, k: Any) -> Any:
    return _turned(phi, lambda s, c: s * _rf(*_squares(s, c, k)), lambda: _whole_1(k))


def _squares(s: Any, c: Any, k: Any) -> tuple[Any, Any, Any]:
    """Return cos², 1 - k² sin² and 1, as arguments of the symmetric integrals."""
    return c * c, fma(c, c, _complement(k) * (s * s)), _constant(s, 1.0)


def _constant(like: Any, value: float) -> Any:
    return type(like)(value)


def _complement(k: Any) -> Any:
    """Return 1 - k²."""
    return (1 - k) * (1 + k)


def _whole_1(k: Any) -> Any:
    rest = _complement(k)
    y = select(rest == 0, 1.0, rest)
    found = _rf(_constant(y, 0.0), y, _constant(y, 1.0))
    return select(rest == 0, math.inf, found)


def _second(phi: Any, k: Any) -> Any:
    def part(s: Any, c: Any) -> Any:
        x, y, z = _squares(s, c, k)
        rest = _complement(k)
        bent = fma(k * k * (s * s) * (1 / 3), _rd(x, z, y), _rf(x, y, z))
        return s * fma(rest, bent, k * k * c / sqrt(y))

    return _turned(phi, part, lambda: _whole_2(k))


def _whole_2(k: Any) -> Any:
    rest = _complement(k)
    y = select(rest == 0, 1.0, rest)
    x, z = _constant(y, 0.0), _constant(y, 1.0)
    found = y * (_rd(x, y, z) + _rd(x, z, y)) * (1 / 3)
    return select(rest == 0, 1.0, found)


def _third(phi: Any, k: Any, nu: Any) -> Any:
    def part(s: Any, c: Any) -> Any:
        x, y, z = _squares(s, c, k)
        square = s * s
        p = fma(c, c, (1 - nu) * square)
        return s * fma(nu * square * (1 / 3), _rj(x, y, z, p), _rf(x, y, z))

    return _turned(phi, part, lambda: _whole_3(k, nu))


def _whole_3(k: Any, nu: Any) -> Any:
    rest, p = _complement(k), 1 - nu
    is_end = (rest == 0) | (p == 0)
    y, p = select(is_end, 1.0, rest), select(is_end, 1.0, p)
    x, z = _constant(y, 0.0), _constant(y, 1.0)
    found = fma(nu * (1 / 3), _rj(x, y, z, p), _rf(x, y, z))
    return select(is_end, math.inf, found)


def _turned(phi: Any, part: Callable[[Any, Any], Any], whole: Callable[[], Any]) -> Any:
    """Integrate to an angle: up to a quarter of a turn, and whole halves beyond."""
    turns = round(phi * (1 / math.pi))
    phi = fma(turns, -_PI_LOW, fma(turns, -_PI_HIGH, phi))
    beyond = select(turns == 0, 0.0, 2 * turns * whole())
    return part(sin(phi), cos(phi)) + beyond


def _apply(construct: str, function: Callable[..., Any], *args: Any) -> Any:
    """Promote arguments, and compute half precision in single precision."""
    wide = promoted(construct, *args)
    first = wide[0]
    if not isinstance(first, ArrayBase):
        return function(*(float(v) for v in wide))
    if not first._spec.dtype.is_float:
        wide = tuple(float32_array_t(v)(v) for v in wide)
    elif first._spec.dtype.bits == 16:
        cls = type(first)
        return cls(function(*(float32_array_t(v)(v) for v in wide)))
    return function(*wide)


@by_parts
def comp_ellint_1(k: Any, /) -> Array:
    """Complete elliptic integral of the first kind, K(k).

    Args:
        k: modulus in [-1, 1]: number or array.

    Returns:
        The integral of 1 / sqrt(1 - k² sin²) from 0 to pi / 2; infinite at 1 and NaN
        beyond. (SciPy's `ellipk` takes k².)

    >>> import lumijit as dr
    >>> dr.comp_ellint_1(dr.llvm.Float(0, 0.5))
    [1.5708, 1.68575]
    """
    return _apply("lumijit.comp_ellint_1", _whole_1, k)


@by_parts
def comp_ellint_2(k: Any, /) -> Array:
    """Complete elliptic integral of the second kind, E(k).

    Args:
        k: modulus in [-1, 1]: number or array.

    Returns:
        The integral of sqrt(1 - k² sin²) from 0 to pi / 2; NaN beyond 1. (SciPy's
        `ellipe` takes k².)

    >>> import lumijit as dr
    >>> dr.comp_ellint_2(dr.llvm.Float(0, 0.5))
    [1.5708, 1.46746]
    """
    return _apply("lumijit.comp_ellint_2", _whole_2, k)


@by_parts
def comp_ellint_3(k: Any, nu: Any, /) -> Array:
    """Complete elliptic integral of the third kind.

    Args:
        k: modulus in [-1, 1]: number or array.
        nu: characteristic, at most 1: number or array.

    Returns:
        The integral of 1 / ((1 - nu sin²) sqrt(1 - k² sin²)) from 0 to pi / 2;
        infinite at the ends and NaN beyond.

    >>> import lumijit as dr
    >>> dr.comp_ellint_3(0.5, dr.llvm.Float(0, 0.5))
    [1.68575, 2.41367]
    """
    return _apply("lumijit.comp_ellint_3", _whole_3, k, nu)


@by_parts
def ellint_1(phi: Any, k: Any, /) -> Array:
    """Incomplete elliptic integral of the first kind, F(phi, k).

    Args:
        phi: angle in radians: number or array.
        k: modulus in [-1, 1]: number or array.

    Returns:
        The integral of 1 / sqrt(1 - k² sin²) from 0 to `phi`. (SciPy's `ellipkinc`
        takes k².)

    >>> import lumijit as dr
    >>> dr.ellint_1(dr.llvm.Float(0.5, 2), 0.5)
    [0.505089, 2.17659]
    """
    return _apply("lumijit.ellint_1", _first, phi, k)


@by_parts
def ellint_2(phi: Any, k: Any, /) -> Array:
    """Incomplete elliptic integral of the second kind, E(phi, k).

    Args:
        phi: angle in radians: number or array.
        k: modulus in [-1, 1]: number or array.

    Returns:
        The integral of sqrt(1 - k² sin²) from 0 to `phi`. (SciPy's `ellipeinc` takes
        k².)

    >>> import lumijit as dr
    >>> dr.ellint_2(dr.llvm.Float(0.5, 2), 0.5)
    [0.495002, 1.8428]
    """
    return _apply("lumijit.ellint_2", _second, phi, k)


@by_parts
def ellint_3(phi: Any, k: Any, nu: Any, /) -> Array:
    """Incomplete elliptic integral of the third kind.

    Args:
        phi: angle in radians: number or array.
        k: modulus in [-1, 1]: number or array.
        nu: characteristic: number or array.

    Returns:
        The integral of 1 / ((1 - nu sin²) sqrt(1 - k² sin²)) from 0 to `phi`; NaN
        where nu sin² exceeds 1.

    >>> import lumijit as dr
    >>> dr.ellint_3(dr.llvm.Float(0.5, 2), 0.5, 0.5)
    [0.526809, 3.34306]
    """
    return _apply("lumijit.ellint_3", _third, phi, k, nu)
