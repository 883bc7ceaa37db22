"""Colors: intensities as displays encode them (sRGB, IEC 61966-2-1), and back."""

from __future__ import annotations

from typing import Any

from lumijit.base import Array
from lumijit.functions.elementwise import abs as abs_
from lumijit.functions.elementwise import clip as limited
from lumijit.functions.elementwise import fma, mulsign
from lumijit.functions.selection import select
from lumijit.functions.transcendental import power


def linear_to_srgb(x: Any, clip: bool = True) -> Array:
    """Encode linear intensities as sRGB does.

    Args:
        x: intensity: float or array of floats.
        clip: whether intensities are limited to [0, 1]; otherwise, the curve goes on
            above 1 and is odd.

    Returns:
        12.92 x up to 0.0031308, and 1.055 x^(1 / 2.4) - 0.055 above.

    >>> import lumijit as dr
    >>> dr.linear_to_srgb(dr.llvm.Float(0, 0.5, 1))
    [0, 0.735357, 1]
    """
    x, size = _domain(x, clip)
    curved = fma(1.055, power(size, 1 / 2.4), -0.055)
    return select(size <= 0.0031308, 12.92 * x, mulsign(curved, x))


def srgb_to_linear(x: Any, clip: bool = True) -> Array:
    """Decode intensities that are encoded as in sRGB.

    Args:
        x: encoded intensity: float or array of floats.
        clip: whether intensities are limited to [0, 1]; otherwise, the curve goes on
            above 1 and is odd.

    Returns:
        x / 12.92 up to 0.04045, and ((x + 0.055) / 1.055)^2.4 above.

    >>> import lumijit as dr
    >>> dr.srgb_to_linear(dr.llvm.Float(0, 0.5, 1))
    [0, 0.214041, 1]
    """
    x, size = _domain(x, clip)
    curved = power((size + 0.055) * (1 / 1.055), 2.4)
    return select(size <= 0.04045, x * (1 / 12.92), mulsign(curved, x))


def _domain(x: Any, clip: bool) -> tuple[Any, Any]:
    """Return intensities and their magnitudes."""
    if clip:
        x = limited(x, 0.0, 1.0)
        return x, x
    return x, abs_(x)
