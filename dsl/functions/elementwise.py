"""Entry by entry: extremes, rounding, signs, roots, fused products, blends."""

from __future__ import annotations

from typing import Any

from lumijit import initialize
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops.record import Op
from lumijit.functions.apply import (
    apply,
    by_parts,
    check_numeric,
    has_array,
    not_numeric,
    promoted,
    unary_function,
)
from lumijit.standing import stand_as

sqrt = unary_function(
    ar.SQRT,
    "The square root",
    "dr.sqrt(Float(4, 9))",
    "[2, 3]",
    "NaN below 0; `safe_sqrt` clips.",
)
rcp = unary_function(
    ar.RCP, "The reciprocal, 1 / arg", "dr.rcp(Float(2, 4))", "[0.5, 0.25]"
)
rsqrt = unary_function(
    ar.RSQRT, "The reciprocal square root", "dr.rsqrt(Float(4, 16))", "[0.5, 0.25]"
)
floor = unary_function(
    ar.FLOOR,
    "The largest integer not above the argument",
    "dr.floor(Float(1.5, -1.5))",
    "[1, -2]",
)
ceil = unary_function(
    ar.CEIL,
    "The smallest integer not below the argument",
    "dr.ceil(Float(1.5, -1.5))",
    "[2, -1]",
)
trunc = unary_function(
    ar.TRUNC,
    "The argument rounded towards zero",
    "dr.trunc(Float(1.5, -1.5))",
    "[1, -1]",
)
round = unary_function(
    ar.ROUND,
    "The argument rounded to nearest, halves to even",
    "dr.round(Float(1.5, 2.5))",
    "[2, 2]",
)


def abs(arg: Any, /) -> Array:
    """Absolute value.

    Args:
        arg: number or array of numbers.

    Returns:
        The values without their signs.

    >>> import lumijit as dr
    >>> dr.abs(dr.llvm.Float(-1, 2))
    [1, 2]
    """
    return apply(ar.ABS, "lumijit.abs", arg)


def minimum(a: Any, b: Any, /) -> Array:
    """The smaller of two values, entry by entry.

    Args:
        a: number or array.
        b: number or array; where a comparison with NaN decides, `b` is returned.

    Returns:
        The minima, of the promoted type.

    >>> import lumijit as dr
    >>> dr.minimum(dr.llvm.Float(1, 5), 3)
    [1, 3]
    """
    return apply(ar.MIN, "lumijit.minimum", a, b)


def maximum(a: Any, b: Any, /) -> Array:
    """The larger of two values, entry by entry.

    Args:
        a: number or array.
        b: number or array; where a comparison with NaN decides, `b` is returned.

    Returns:
        The maxima, of the promoted type.

    >>> import lumijit as dr
    >>> dr.maximum(dr.llvm.Float(1, 5), 3)
    [3, 5]
    """
    return apply(ar.MAX, "lumijit.maximum", a, b)


@by_parts
def fmin(a: Any, b: Any, /) -> Array:
    """The smaller of two values, entry by entry, ignoring NaN.

    Args:
        a: number or array.
        b: number or array.

    Returns:
        The minima, of the promoted type; NaN only where both are.

    >>> import lumijit as dr
    >>> dr.fmin(dr.llvm.Float(1, dr.nan), dr.llvm.Float(dr.nan, 2))
    [1, 2]
    """
    return _without_nan(ar.MIN, "lumijit.fmin", a, b)


@by_parts
def fmax(a: Any, b: Any, /) -> Array:
    """The larger of two values, entry by entry, ignoring NaN.

    Args:
        a: number or array.
        b: number or array.

    Returns:
        The maxima, of the promoted type; NaN only where both are.

    >>> import lumijit as dr
    >>> dr.fmax(dr.llvm.Float(1, dr.nan), 2)
    [2, 2]
    """
    return _without_nan(ar.MAX, "lumijit.fmax", a, b)


def _without_nan(op: Op, construct: str, a: Any, b: Any) -> Array:
    """Combine values by an operation that returns `b` where there is a NaN."""
    a, b = promoted(construct, a, b)
    result = apply(op, construct, a, b)
    if isinstance(b, ArrayBase):
        return a._select(b != b, result) if b._spec.dtype.is_float else result
    return result if b == b else type(result)(a)


def fma(a: Any, b: Any, c: Any, /) -> Array:
    """Fused multiply-add: a * b + c, rounded once.

    Halves are computed in single precision, and rounded to a half at the end.

    Args:
        a: number or array.
        b: number or array.
        c: number or array.

    Returns:
        The values, of the promoted type; integers wrap around.

    >>> import lumijit as dr
    >>> dr.fma(dr.llvm.Float(1, 2), 10, 0.5)
    [10.5, 20.5]
    """
    return apply(ar.FMA, "lumijit.fma", a, b, c)


@by_parts
def clip(value: Any, min: Any, max: Any) -> Array:
    """Limit values to an interval.

    Args:
        value: number or array.
        min: lower end, number or array.
        max: upper end, number or array.

    Returns:
        The limited values; NaN stays NaN. The derivative is 1 at both ends.

    >>> import lumijit as dr
    >>> dr.clip(dr.llvm.Float(1, 5, 9), 2, 8)
    [2, 5, 8]
    """
    given = value, min, max
    if has_array(given):
        value, min, max = promoted("lumijit.clip", *given)
        if value._spec.dtype.is_float and not value._spec.kind.is_special:
            # As `minimum`, but at the end the derivative is that of the value.
            return stand_as(maximum(min, max._select(value > max, value)), *given)
    return stand_as(maximum(min, minimum(max, value)), *given)


clamp = clip


def lerp(a: Any, b: Any, t: Any) -> Array:
    """Blend linearly: (1 - t) a + t b, with two fused multiply-adds.

    Args:
        a: value at t = 0, number or array of floats.
        b: value at t = 1, number or array of floats.
        t: position, not restricted to [0, 1].

    Returns:
        The blend, of the promoted type; exact at both ends.

    >>> import lumijit as dr
    >>> dr.lerp(1.0, 3.0, dr.llvm.Float(0, 0.5, 1))
    [1, 2, 3]
    """
    check_numeric("lumijit.lerp", a, b, t)
    if not has_array((a, b, t)):
        a = float(a) if initialize.is_number(a) else a
    elif isinstance(a, ArrayBase) and not a._spec.dtype.is_float:
        # Of an unsigned number or mask there is no opposite.
        a, b, t = promoted("lumijit.lerp", a, b, t)
    return fma(b, t, fma(-a, t, a))


@by_parts
def sign(arg: Any, /) -> Array:
    """The sign: 1 where the argument is >= 0, else -1.

    Args:
        arg: number or array of numbers.

    Returns:
        1 or -1, of the type of `arg`.

    >>> import lumijit as dr
    >>> dr.sign(dr.llvm.Float(-2, 0, 3))
    [-1, 1, 1]
    """
    if isinstance(arg, ArrayBase):
        cls: Any = type(arg)
        if _is_unsigned(arg):
            return cls(1)._select(arg == arg, cls(1))
        return cls(1)._select(cls.__ge__(arg, 0), cls(-1))
    if not initialize.is_number(arg):
        raise not_numeric("lumijit.sign", (arg,))
    # (Not `1.0 if … else 1`: compiled, that is a C number, always a float.)
    if issubclass(arg.__class__, float):
        return 1.0 if arg >= 0 else -1.0
    return 1 if arg >= 0 else -1


def copysign(a: Any, b: Any, /) -> Array:
    """The magnitude of `a` with the sign of `b`.

    Args:
        a: number or array.
        b: number or array; where `a` has a sign, too. Unsigned numbers are positive.

    Returns:
        The values, of the promoted type.

    >>> import lumijit as dr
    >>> dr.copysign(dr.llvm.Float(1, -2), -0.0)
    [-1, -2]
    """
    if _is_unsigned(b):
        size = a if _is_unsigned(a) else abs(a)
        if _is_unsigned(common := promoted("lumijit.copysign", size, b)[0]):
            return common._select(b == b, common)  # as wide as both
    return apply(ar.COPYSIGN, "lumijit.copysign", a, b)


def mulsign(a: Any, b: Any, /) -> Array:
    """`a` times `sign(b)`.

    Args:
        a: number or array.
        b: number or array; unsigned numbers are positive.

    Returns:
        `a` where `b >= 0`, else `-a`, of the promoted type.

    >>> import lumijit as dr
    >>> dr.mulsign(dr.llvm.Float(1, -2), -3)
    [-1, 2]
    """
    if _is_scaled(a, b) or _is_unsigned(a) or _is_unsigned(b):
        # In the common type (unsigned, complex) `b` may lose its sign, or have several.
        return a * sign(b)
    return apply(ar.MULSIGN, "lumijit.mulsign", a, b)


def _is_scaled(a: Any, b: Any) -> bool:
    """Tell whether a product is one of a complex number, or so, with a real one."""
    is_special = isinstance(a, ArrayBase) and a._spec.kind.is_special
    return is_special and not (isinstance(b, ArrayBase) and b._spec.outer)


def _is_unsigned(value: Any) -> bool:
    """Tell whether a value is an array of entries that have no sign."""
    return isinstance(value, ArrayBase) and not value._spec.dtype.is_signed


def square(arg: Any, /) -> Any:
    """Multiply the argument with itself.

    Args:
        arg: number or array of numbers.

    Returns:
        arg * arg.

    >>> import lumijit as dr
    >>> dr.square(dr.llvm.Float(3, -4)), dr.square(5)
    ([9, 16], 25)
    """
    return apply(ar.MUL, "lumijit.square", arg, arg)


sqr = square
