"""Colors: sRGB as displays encode it (IEC 61966-2-1), and Oklab.

Source of the latter: B. Ottosson, "A perceptual color space for image processing"
(2020).
"""

from __future__ import annotations

from typing import Any

from lumijit.base import Array
from lumijit.functions.apply import by_parts
from lumijit.functions.elementwise import abs as abs_
from lumijit.functions.elementwise import clip as limited
from lumijit.functions.elementwise import fma, mulsign
from lumijit.functions.repetition import concat
from lumijit.functions.selection import select
from lumijit.functions.transcendental import cbrt, power
from lumijit.runtime.errors import ArrayTypeError
from lumijit.traits import is_tensor_v


@by_parts
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


@by_parts
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


_TO_CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
_TO_OKLAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)
_FROM_OKLAB = (
    (1.0, 0.3963377774, 0.2158037573),
    (1.0, -0.1055613458, -0.0638541728),
    (1.0, -0.0894841775, -1.2914855480),
)
_FROM_CONES = (
    (4.0767416621, -3.3077115913, 0.2309699292),
    (-1.2684380046, 2.6097574011, -0.3413193965),
    (-0.0041960863, -0.7034186147, 1.7076147010),
)


def linear_srgb_to_oklab(value: Any) -> Array:
    """Convert linear sRGB to Oklab: lightness, and two coordinates of hue and chroma.

    Args:
        value: array of three components, such as `Array3f`, or a tensor whose last
            axis has as many; a fourth one (alpha) stays as it is.

    Raises:
        ArrayTypeError: if there are other numbers of components.

    >>> import lumijit as dr
    >>> dr.linear_srgb_to_oklab(dr.llvm.Array3f(0.1, 0.5, 0.9))
    [[0.757296, -0.0675829, -0.101862]]
    """
    color, alpha = _parts("lumijit.linear_srgb_to_oklab", value)
    cones = [cbrt(c) for c in _mixed(_TO_CONES, color)]
    return _joined(value, _mixed(_TO_OKLAB, cones) + alpha)


def oklab_to_linear_srgb(value: Any) -> Array:
    """Convert Oklab to linear sRGB.

    Args:
        value: array of three components, such as `Array3f`, or a tensor whose last
            axis has as many; a fourth one (alpha) stays as it is.

    Raises:
        ArrayTypeError: if there are other numbers of components.

    >>> import lumijit as dr
    >>> dr.oklab_to_linear_srgb(dr.llvm.Array3f(0.5, 0.1, 0))
    [[0.280158, 0.0662489, 0.119061]]
    """
    color, alpha = _parts("lumijit.oklab_to_linear_srgb", value)
    cones = [c * c * c for c in _mixed(_FROM_OKLAB, color)]
    return _joined(value, _mixed(_FROM_CONES, cones) + alpha)


def _parts(construct: str, value: Any) -> tuple[list[Any], list[Any]]:
    """Return the components of a color, and what is no part of it (alpha)."""
    if is_tensor_v(value):
        count = value.shape[-1] if value.shape else 0
        parts = [value[..., k : k + 1] for k in range(count)]
    else:
        parts = list(value) if hasattr(value, "__iter__") else [value]
    if len(parts) not in (3, 4):
        raise ArrayTypeError(
            construct,
            f"the color has {len(parts)} components (expected 3, or 4 with alpha)",
            "pass an array such as Array3f or Array4f, or a tensor of such rows.",
        )
    return parts[:3], parts[3:]


def _joined(value: Any, parts: list[Any]) -> Any:
    return concat(parts, -1) if is_tensor_v(value) else type(value)(parts)


def _mixed(weights: tuple[tuple[float, ...], ...], value: Any) -> list[Any]:
    """Multiply a matrix of numbers with three components."""
    x, y, z = value
    return [fma(a, x, fma(b, y, c * z)) for a, b, c in weights]
