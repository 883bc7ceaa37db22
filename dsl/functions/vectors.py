"""Vectors: dot and cross products, norms, directions and angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lumijit import initialize
from lumijit.arrays import FlatArray
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.functions.apply import apply, check_numeric, not_numeric, promoted
from lumijit.functions.axes import Axis
from lumijit.functions.elementwise import abs as abs_
from lumijit.functions.elementwise import fma, minimum, rsqrt, sqrt, square
from lumijit.functions.reductions import as_entries, sum
from lumijit.functions.selection import select
from lumijit.functions.transcendental import asin, sincos
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.operators import check_accepts
from lumijit.runtime.errors import ArrayTypeError, SizeError
from lumijit.spec import DYNAMIC, FLAT, TENSOR, require


def dot(a: Any, b: Any, /) -> Any:
    """Dot product over the outermost dimension.

    Args:
        a: array, number or sequence of these.
        b: array, number or sequence of these.

    Returns:
        The sum of the products of the items, computed with fused multiply-adds; of
        complex numbers and quaternions, these are their parts, and of matrices, rows.
        A number or flat array is multiplied with each item of an array that isn't
        flat. For two flat arrays, an array of one entry; for tensors, the sum over
        axis 0.

    Raises:
        ArrayTypeError: if the types can't be combined.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Array3f
    >>> dr.dot(Array3f(1, 2, 3), Array3f(1, 0, 2)), dr.dot([1, 2], [3, 4])
    ([7], 11)
    """
    if isinstance(a, ArrayBase) or isinstance(b, ArrayBase):
        if type(a) is not type(b):
            if _pairs_items(a, b):
                return dot_any(_items(a, b), _items(b, a))
            a, b = promoted("lumijit.dot", a, b)
        if isinstance(a, NestedArray):
            if a._spec.outer[0] is DYNAMIC and 1 in (len(a), len(b)):
                return sum(a * b, 0)
            return dot_items(a._items, b._items)
        return sum(as_entries(a) * as_entries(b), 0)
    if initialize.is_number(a) and initialize.is_number(b):
        return a * b
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        check_numeric("lumijit.dot", *a, *b)
        return dot_any(a, b)
    raise not_numeric("lumijit.dot", (a, b))


def _pairs_items(a: Any, b: Any) -> bool:
    """Tell whether items broadcast where the operands can't, or would to others."""
    specs = [v._spec for v in (a, b) if isinstance(v, ArrayBase)]
    if any(_is_uniform(v) for v in (a, b)):
        return any(spec.kind.is_special for spec in specs)
    known = {spec.outer[0] for spec in specs if spec.outer} - {DYNAMIC}
    return len(specs) == 2 and specs[0].outer != specs[1].outer and len(known) < 2


def _is_uniform(value: Any) -> bool:
    """Tell whether a value is the same for all items of the other operand."""
    if isinstance(value, ArrayBase):
        return value._spec.kind is FLAT
    return initialize.is_number(value)


def _items(value: Any, other: Any) -> Sequence[Any]:
    """Return the items of an operand, which are as many as the other's."""
    if _is_uniform(value):
        return [value] * len(other)
    items = list(value)
    is_single = value._spec.outer == (DYNAMIC,) and len(items) == 1
    return items * len(other) if is_single else items


def dot_items(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Return the sum of the products of arrays, all of one type."""
    if len(a) == len(b) > 0 and isinstance(a[0], FlatArray):
        return _dot_flat(a, b)
    return dot_any(a, b)


def dot_any(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Return the sum of the products of numbers or arrays of any types."""
    if len(a) != len(b):
        raise SizeError(
            "lumijit.dot",
            f"the operands have {len(a)} and {len(b)} items",
            "use vectors of the same size.",
        )
    if not a:
        return 0
    result = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        result = fma(x, y, result)
    return result


def _dot_flat(a: Sequence[Any], b: Sequence[Any]) -> Array:
    """Trace the products of flat components without making arrays of the steps."""
    cls = type(a[0])
    check_accepts(ar.MUL, cls._spec.dtype, "lumijit.dot")
    node = trace.emit2(ar.MUL, a[0]._node, b[0]._node)
    for k in range(1, len(a)):
        node = trace.emit3(ar.FMA, a[k]._node, b[k]._node, node)
    return wrap_flat(cls, node)


def abs_dot(a: Any, b: Any, /) -> Any:
    """Absolute value of the dot product.

    Args:
        a: array, number or sequence of these.
        b: array, number or sequence of these.

    Returns:
        abs(dot(a, b)).

    >>> import lumijit as dr
    >>> dr.abs_dot([1, 2], [-3, -4])
    11
    """
    return abs_(dot(a, b))


def squared_norm(
    value: Any, axis: Axis = ..., mode: str | None = None, keepdims: bool = False
) -> Any:
    """Squared 2-norm over axes (see `reduce`).

    Args:
        value: array, number or sequence of these.
        axis: axis or axes; by default, all of a tensor, else the outermost.
        mode: strategy for the vectorized dimension.
        keepdims: whether reduced axes of a tensor stay, with size 1.

    Returns:
        The sum of the squares; over the outermost axis, dot(value, value).

    >>> import lumijit as dr
    >>> dr.squared_norm([3, 4])
    25
    """
    is_tensor = isinstance(value, ArrayBase) and value._spec.kind is TENSOR
    if axis is Ellipsis and mode is None and not keepdims and not is_tensor:
        return dot(value, value)
    return sum(square(as_entries(value)), axis, mode, keepdims)


def norm(
    value: Any, axis: Axis = ..., mode: str | None = None, keepdims: bool = False
) -> Any:
    """2-norm over axes (see `reduce`).

    Args:
        value: array of floats, number or sequence of these.
        axis: axis or axes; by default, all of a tensor, else the outermost.
        mode: strategy for the vectorized dimension.
        keepdims: whether reduced axes of a tensor stay, with size 1.

    Returns:
        sqrt(squared_norm(value)).

    >>> import lumijit as dr
    >>> dr.norm(dr.llvm.Array2f(3, 4))
    [5]
    """
    return sqrt(squared_norm(value, axis, mode, keepdims))


def normalize(arg: Array, /) -> Array:
    """Scale a vector to length 1.

    Args:
        arg: array of floats.

    Returns:
        arg * rsqrt(squared_norm(arg)).

    Raises:
        ArrayTypeError: if `arg` is no array.

    >>> import lumijit as dr
    >>> dr.normalize(dr.llvm.Array2f(3, 4))
    [[0.6, 0.8]]
    """
    if not isinstance(arg, ArrayBase):
        raise not_numeric("lumijit.normalize", (arg,))
    return arg * rsqrt(squared_norm(arg))


def cross(a: Any, b: Any, /) -> Array:
    """Cross product of vectors with three components.

    Args:
        a: array with three components.
        b: array with three components.

    Returns:
        The cross product, of the promoted type.

    Raises:
        ArrayTypeError: if the arrays don't have three components.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Array3f
    >>> dr.cross(Array3f(1, 2, 3), Array3f(3, 2, 1))
    [[-4, 8, -4]]
    """
    a, b = promoted("lumijit.cross", a, b)
    if not isinstance(a, ArrayBase) or len(a) != 3 or not a._spec.outer:
        raise ArrayTypeError(
            "lumijit.cross",
            f"the operands are of type {type(a).__name__}",
            "use arrays with three components.",
        )
    first = _turned(a, 1, 2, 0) * _turned(b, 2, 0, 1)
    second = -_turned(a, 2, 0, 1)
    return apply(ar.FMA, "lumijit.cross", second, _turned(b, 1, 2, 0), first)


def _turned(value: Any, *order: int) -> Any:
    """Return an array with the components of another, in another order."""
    if isinstance(value, NestedArray):
        return wrap_nested(type(value), [value._items[k] for k in order])
    return type(value)(*[value[k] for k in order])


def sphdir(theta: Any, phi: Any) -> Array:
    """Return the direction with given spherical coordinates.

    Args:
        theta: angle from the positive z axis in radians, array or number of floats.
        phi: angle from the positive x axis in the xy plane, in radians.

    Returns:
        A vector of length 1 with three components.

    Raises:
        ArrayTypeError: if neither argument is a flat array.

    >>> import lumijit as dr
    >>> dr.sphdir(dr.llvm.Float(0), 1.5)
    [[0, 0, 1]]
    """
    theta, phi = promoted("lumijit.sphdir", theta, phi)
    spec = getattr(theta, "_spec", None)
    if spec is None or spec.outer:
        raise ArrayTypeError(
            "lumijit.sphdir",
            f"the angles are of type {type(theta).__name__!r}",
            "pass flat arrays, such as lumijit.llvm.Float.",
        )
    vector = require(spec.replaced(outer=(3,)), "lumijit.sphdir")
    (sin_theta, cos_theta), (sin_phi, cos_phi) = sincos(theta), sincos(phi)
    return vector(cos_phi * sin_theta, sin_phi * sin_theta, cos_theta)


def unit_angle(a: Array, b: Array) -> Any:
    """Return the angle between two vectors of length 1, also precisely near 0 and pi.

    Args:
        a: vector of length 1.
        b: vector of length 1; both are promoted.

    Returns:
        The angle in radians.

    Source: Hatch, "The Right Way to Calculate Stuff": twice the arc sine of half the
    distance to `b`, or to `-b` where that is nearer.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Array3f
    >>> dr.unit_angle(Array3f(1, 0, 0), Array3f(0, 1, 0))
    [1.5708]
    """
    a, b = promoted("lumijit.unit_angle", a, b)
    is_acute = dot(a, b) >= 0
    half = asin(minimum(norm(b - select(is_acute, a, -a)) * 0.5, 1))
    return select(is_acute, 2 * half, math.pi - 2 * half)
