"""Trigonometric, hyperbolic, exponential and special functions.

The methods and their accuracy are in `compiler.emit.mathlib`; the documented
bounds are the tables of `docs/accuracy.md`.
"""

from __future__ import annotations

import math
from typing import Any

from lumijit import initialize
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import mathematics as ma
from lumijit.functions.apply import (
    apply,
    by_parts,
    check_numeric,
    promoted,
    unary_function,
)
from lumijit.functions.elementwise import fma, rcp, sqrt
from lumijit.functions.selection import isinf, select
from lumijit.runtime.errors import ArrayTypeError
from lumijit.spec import MATRIX

sin = unary_function(
    ma.SIN, "Sine of an angle in radians", "dr.sin(Float(0, 1))", "[0, 0.841471]"
)
cos = unary_function(
    ma.COS, "Cosine of an angle in radians", "dr.cos(Float(0, 1))", "[1, 0.540302]"
)
tan = unary_function(
    ma.TAN, "Tangent of an angle in radians", "dr.tan(Float(0, 1))", "[0, 1.55741]"
)
asin = unary_function(
    ma.ASIN,
    "Inverse sine",
    "dr.asin(Float(0, 1))",
    "[0, 1.5708]",
    "NaN outside of [-1, 1]; `safe_asin` clips.",
)
acos = unary_function(
    ma.ACOS,
    "Inverse cosine",
    "dr.acos(Float(1, 0))",
    "[0, 1.5708]",
    "NaN outside of [-1, 1]; `safe_acos` clips.",
)
atan = unary_function(
    ma.ATAN, "Inverse tangent", "dr.atan(Float(0, 1))", "[0, 0.785398]"
)
sinh = unary_function(ma.SINH, "Hyperbolic sine", "dr.sinh(Float(0, 1))", "[0, 1.1752]")
cosh = unary_function(
    ma.COSH, "Hyperbolic cosine", "dr.cosh(Float(0, 1))", "[1, 1.54308]"
)
tanh = unary_function(
    ma.TANH, "Hyperbolic tangent", "dr.tanh(Float(0, 1))", "[0, 0.761594]"
)
asinh = unary_function(
    ma.ASINH, "Inverse hyperbolic sine", "dr.asinh(Float(0, 1))", "[0, 0.881374]"
)
acosh = unary_function(
    ma.ACOSH,
    "Inverse hyperbolic cosine",
    "dr.acosh(Float(1, 2))",
    "[0, 1.31696]",
    "NaN below 1.",
)
atanh = unary_function(
    ma.ATANH,
    "Inverse hyperbolic tangent",
    "dr.atanh(Float(0, 0.5))",
    "[0, 0.549306]",
    "NaN outside of [-1, 1].",
)
exp = unary_function(
    ma.EXP, "The natural exponential", "dr.exp(Float(0, 1))", "[1, 2.71828]"
)
exp2 = unary_function(
    ma.EXP2, "Two to the power of the argument", "dr.exp2(Float(0, 3))", "[1, 8]"
)
log = unary_function(
    ma.LOG,
    "The natural logarithm",
    "dr.log(Float(1, 2))",
    "[0, 0.693147]",
    "-inf at 0 and NaN below.",
)
log2 = unary_function(
    ma.LOG2,
    "The logarithm to base 2",
    "dr.log2(Float(1, 8))",
    "[0, 3]",
    "-inf at 0 and NaN below.",
)
cbrt = unary_function(ma.CBRT, "The cube root", "dr.cbrt(Float(-8, 27))", "[-2, 3]")
erf = unary_function(
    ma.ERF, "The error function", "dr.erf(Float(0, 1))", "[0, 0.842701]"
)
erfinv = unary_function(
    ma.ERFINV,
    "The inverse error function",
    "dr.erfinv(Float(0, 0.5))",
    "[0, 0.476936]",
    "Infinite at -1 and 1, NaN outside of [-1, 1].",
)
lgamma = unary_function(
    ma.LGAMMA,
    "The logarithm of the absolute gamma function",
    "dr.lgamma(Float(1, 5))",
    "[0, 3.17805]",
)


def atan2(y: Any, x: Any, /) -> Array:
    """Angle of the point (x, y), in radians, in the right quadrant.

    Args:
        y: ordinate: float or array of floats.
        x: abscissa: float or array of floats; both are promoted.

    Returns:
        Values in [-pi, pi].

    >>> import lumijit as dr
    >>> dr.atan2(1.0, -1.0)
    2.356194490192345
    """
    return apply(ma.ATAN2, "lumijit.atan2", y, x)


def sincos(arg: Any, /) -> tuple[Array, Array]:
    """Sine and cosine of an angle in radians.

    Args:
        arg: float or array of floats.

    Returns:
        The pair (sine, cosine), which costs less than both apart.

    >>> import lumijit as dr
    >>> dr.sincos(0.0)
    (0.0, 1.0)
    """
    return sin(arg), cos(arg)


def sincosh(arg: Any, /) -> tuple[Array, Array]:
    """Hyperbolic sine and cosine.

    Args:
        arg: float or array of floats.

    Returns:
        The pair (hyperbolic sine, hyperbolic cosine).

    >>> import lumijit as dr
    >>> dr.sincosh(0.0)
    (0.0, 1.0)
    """
    return sinh(arg), cosh(arg)


@by_parts
def power(base: Any, exponent: Any, /) -> Array:
    """Raise a base to a power; the operator `**` does the same.

    Whole Python exponents become multiplications (and a reciprocal below zero). Those
    of matrices are products of matrices; all others act on each entry.

    Args:
        base: number or array; integer arrays take whole exponents >= 0 only.
        exponent: number or array; beside a number, integers count as floats.

    Returns:
        base ** exponent, of the promoted type; NaN for a negative base with a
        fractional exponent. Python numbers give a float.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float
    >>> dr.power(Float(2, 3), -1), Float(2, 3) ** 0.5
    ([0.5, 0.333333], [1.41421, 1.73205])
    """
    if initialize.is_number(base) and isinstance(exponent, ArrayBase):
        # Numbers have negative powers, too.
        base = float(base)
    given = base, exponent
    base, _ = promoted("lumijit.power", base, exponent)
    if not hasattr(base, "_spec"):
        return apply(ma.POWER, "lumijit.power", float(base), float(exponent))
    is_whole = isinstance(exponent, int) or (
        isinstance(exponent, float) and exponent.is_integer()
    )
    if is_whole and exponent < 0 and not base._spec.dtype.is_float:
        raise ArrayTypeError(
            "lumijit.power",
            f"the exponent {exponent} of integers is negative",
            "convert the base to floats first.",
        )
    if is_whole and abs(exponent) <= _LONGEST_CHAIN:
        return _whole_power(base, int(exponent))
    if _is_matrix(base):
        # (A number is one for each entry, not a multiple of the identity.)
        entries = (v.array if _is_matrix(v) else v for v in given)
        return type(base)(apply(ma.POWER, "lumijit.power", *entries))
    return apply(ma.POWER, "lumijit.power", base, exponent)


_LONGEST_CHAIN = 1 << 10


def _whole_power(base: Array, exponent: int) -> Array:
    """Multiply by squaring; integers have no reciprocal."""
    if exponent < 0:
        return rcp(_whole_power(base, -exponent))
    result = None
    factor = base
    while exponent:
        if exponent & 1:
            result = factor if result is None else result * factor
        exponent >>= 1
        if exponent:
            factor = factor * factor
    if result is not None:
        return result._copy() if result is base else result
    one = type(base)(1)
    return one._select(base == base, one)  # as wide as the base


@by_parts
def hypot(a: Any, b: Any) -> Array:
    """Length of the hypotenuse, sqrt(a² + b²), without overflow or underflow.

    Args:
        a: float or array of floats.
        b: float or array of floats.

    Returns:
        The lengths, of the promoted type.

    >>> import lumijit as dr
    >>> dr.hypot(3.0, 4.0)
    5.0
    """
    sizes = [apply(ar.ABS, "lumijit.hypot", side) for side in (a, b)]
    # Signs stay, where there is one: at 0, sizes have no second derivatives.
    pairs = zip((a, b), sizes, strict=True)
    sides = [side if type(side) is type(size) else size for side, size in pairs]
    a, b = promoted("lumijit.hypot", *sides)
    if _is_matrix(a):
        return type(a)(hypot(a.array, b.array))
    size_a, size_b = promoted("lumijit.hypot", *sizes)
    is_lower = size_a < size_b
    low, high = select(is_lower, a, b), select(is_lower, b, a)
    flat = (high == 0) | isinf(high)
    ratio = low / select(flat, 1.0, high)
    length = select(is_lower, size_b, size_a) * sqrt(fma(ratio, ratio, 1.0))
    finite = select(flat, size_a + size_b, length)
    # As C has it, the other side of an infinite one doesn't matter, not even NaN.
    return select(isinf(a), size_a, select(isinf(b), size_b, finite))


def safe_sqrt(arg: Any, /) -> Array:
    """Square root of the argument, or 0 where it is negative.

    Args:
        arg: float or array of floats.

    Returns:
        The roots.

    >>> import lumijit as dr
    >>> dr.safe_sqrt(-1.0)
    0.0
    """
    # At the ends, too, the derivative is that of the constant: 0, not infinity.
    return sqrt(_within("lumijit.safe_sqrt", arg, 0.0))


def safe_asin(arg: Any, /) -> Array:
    """Inverse sine of the argument clipped to [-1, 1].

    Args:
        arg: float or array of floats.

    Returns:
        Angles in radians.

    >>> import lumijit as dr
    >>> dr.safe_asin(2.0)
    1.5707963267948966
    """
    return asin(_within("lumijit.safe_asin", arg, -1.0, 1.0))


def safe_acos(arg: Any, /) -> Array:
    """Inverse cosine of the argument clipped to [-1, 1].

    Args:
        arg: float or array of floats.

    Returns:
        Angles in radians.

    >>> import lumijit as dr
    >>> dr.safe_acos(2.0)
    0.0
    """
    return acos(_within("lumijit.safe_acos", arg, -1.0, 1.0))


def _is_matrix(arg: Any) -> bool:
    """Tell whether there is no order, but functions act on each entry."""
    return isinstance(arg, ArrayBase) and arg._spec.kind is MATRIX


def _within(construct: str, arg: Any, low: float, high: float | None = None) -> Any:
    """Clip to an interval, with no derivative at its ends; numbers part by part."""
    check_numeric(construct, arg)
    if _is_matrix(arg):
        return type(arg)(_clipped(arg.array, low, high))
    if isinstance(arg, ArrayBase) and arg._spec.kind.is_special:
        cls: Any = type(arg)
        ends = cls(low).array, None if high is None else cls(high).array
        return cls(_clipped(arg.array, *ends))
    return _clipped(arg, low, high)


def _clipped(arg: Any, low: Any, high: Any) -> Any:
    below = arg if high is None else select(arg >= high, high, arg)
    return select(arg <= low, low, below)


def rad2deg(arg: Any, /) -> Array:
    """Convert angles from radians to degrees.

    Args:
        arg: float or array of floats.

    Returns:
        The angles in degrees.

    >>> import lumijit as dr
    >>> dr.rad2deg(dr.pi)
    180.0
    """
    check_numeric("lumijit.rad2deg", arg)
    return arg * (180.0 / math.pi)


def deg2rad(arg: Any, /) -> Array:
    """Convert angles from degrees to radians.

    Args:
        arg: float or array of floats.

    Returns:
        The angles in radians.

    >>> import lumijit as dr
    >>> dr.deg2rad(180.0)
    3.141592653589793
    """
    check_numeric("lumijit.deg2rad", arg)
    return arg * (math.pi / 180.0)
