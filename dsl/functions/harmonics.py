"""Spherical harmonics."""

from __future__ import annotations

import math
from typing import Any

from lumijit.base import ArrayBase
from lumijit.functions.elementwise import fma
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.type_traits import value_t

_HIGHEST = 10


def sh_eval(d: Any, order: int) -> list[Any]:
    """Evaluate the real spherical harmonics up to an order.

    Args:
        d: direction, a static array of three floats; has to be normalized.
        order: the highest order, 0 to 10.

    Returns:
        (order + 1)² values: those of order l from index l² on, by m = -l … l. They
        are SciPy's: sqrt(2) times real (m > 0) or imaginary (m < 0) part of
        `sph_harm_y(l, |m|, theta, phi)`.

    Raises:
        ArrayTypeError: if `d` is no static array of three floats.
        ArrayValueError: if the order isn't from 0 to 10.

    Source: Sloan, "Efficient spherical harmonic evaluation", JCGT 2(2), 2013: products
    of polynomials in z and of real and imaginary parts of (x + iy)^m, by recurrence.

    >>> import lumijit as dr
    >>> dr.sh_eval(dr.llvm.Array3f(0, 0, 1), 1)
    [[0.282095], [-0], [0.488603], [-0]]
    """
    construct = "lumijit.sh_eval"
    spec = d._spec if isinstance(d, ArrayBase) else None
    if spec is None or spec.outer != (3,) or not spec.dtype.is_float:
        raise ArrayTypeError(
            construct,
            f"'d' has type {type(d).__name__!r} (expected an array of three floats)",
            "pass a direction such as Array3f.",
        )
    if not isinstance(order, int) or not 0 <= order <= _HIGHEST:
        raise ArrayValueError(
            construct,
            f"the order is {order!r} (expected an int from 0 to {_HIGHEST})",
            "ask for fewer, or evaluate higher orders by recurrence.",
        )
    x, y, z = d
    found: list[Any] = [None] * (order + 1) ** 2
    cosine: Any = value_t(d)(1)
    sine: Any = value_t(d)(0)
    for m in range(order + 1):
        for degree, zonal in enumerate(_legendre(z, m, order), m):
            place = degree * degree + degree
            if m == 0:
                found[place] = zonal * cosine
            else:
                found[place + m], found[place - m] = zonal * cosine, zonal * sine
        cosine, sine = x * cosine - y * sine, x * sine + y * cosine
    return found


def _legendre(z: Any, m: int, order: int) -> list[Any]:
    """Return the normalized Legendre functions over sin(theta)^m, for l = m … order."""
    start = math.prod(2 * k - 1 for k in range(1, m + 1)) * (-1) ** m
    start *= math.sqrt((2 * m + 1) / (4 * math.pi * math.factorial(2 * m)))
    values: list[Any] = [start * (math.sqrt(2) if m else 1)]
    for n in range(m + 1, order + 1):
        span = n * n - m * m
        rise = math.sqrt((4 * n * n - 1) / span)
        if n == m + 1:
            values.append(z * (rise * values[-1]))
            continue
        fall = (2 * n + 1) * ((n - 1) ** 2 - m * m) / ((2 * n - 3) * span)
        values.append(fma(z * rise, values[-1], values[-2] * -math.sqrt(fall)))
    return values
