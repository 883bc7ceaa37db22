"""Sorting and ranks: sort, argsort, argmin, argmax, median."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lumijit import initialize
from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase, symbolic_error
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.record import ranks, sorting
from lumijit.functions.apply import not_numeric
from lumijit.functions.axes import checked_axis, run_shape, side_by_side
from lumijit.functions.creation import arange
from lumijit.functions.gathering import rearranged
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError
from lumijit.scalar_arrays import HostArray
from lumijit.spec import TENSOR, require
from lumijit.type_traits import tensor_t, uint32_array_t

# Takes entries, in runs of a length one after the other, and that length; some also
# how far neighbours of a run lie apart, if not side by side.
OfRuns = Callable[..., Any]


def sort(value: Any, /, axis: int = -1, descending: bool = False) -> Any:
    """Sort entries along an axis; NaN counts as the largest.

    Args:
        value: flat array, tensor, or nested array.
        axis: which one; of nested arrays, the vectorized dimension.
        descending: whether the largest come first.

    Returns:
        The sorted entries, of the type and shape of `value`. Derivatives go where the
        entries come from.

    Raises:
        ArrayTypeError: for what isn't an array of numbers or masks.
        ArrayValueError: if there is no such axis.

    Sorts by the digits of the entries, so the time doesn't depend on their order.

    >>> import lumijit as dr
    >>> dr.sort(dr.llvm.Float(3, dr.nan, 1))
    [1, 3, nan]
    """

    def ordered(flat: Any, length: int, inner: int = 1) -> Any:
        if isinstance(flat, FlatArray) and flat._node.vertex is None:
            found = sorting.sort(flat._node, descending, length, inner)
            return wrap_flat(type(flat), found)
        return rearranged(flat, _places(flat, length, inner, descending))

    return _mapped("lumijit.sort", value, axis, ordered)


def argsort(value: Any, /, axis: int = -1, descending: bool = False) -> Any:
    """Return the positions that sort the entries along an axis.

    Args:
        value: flat array, tensor, or nested array.
        axis: which one; of nested arrays, the vectorized dimension.
        descending: whether the largest come first.

    Returns:
        UInt32 positions along the axis; those of equal entries keep their order. NaN
        counts as the largest value, and both zeros as equal.

    Raises:
        ArrayTypeError: for what isn't an array of numbers or masks.
        ArrayValueError: if there is no such axis.

    >>> import lumijit as dr
    >>> dr.argsort(dr.llvm.Float(3, 1, 2))
    [1, 2, 0]
    """

    def positions(flat: Any, length: int, inner: int = 1) -> Any:
        places = _places(flat, length, inner, descending)
        return places if length == len(flat) else places // inner % length

    return _mapped("lumijit.argsort", value, axis, positions)


def argmin(value: Any, /, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the position of the smallest entry; NaN counts as the largest.

    Args:
        value: flat array, tensor, or nested array.
        axis: along which axis; None for all entries.
        keepdims: whether tensors keep the axis, with one entry.

    Returns:
        UInt32 positions along the axis, of the first of equal entries.

    Raises:
        ArrayTypeError: for what isn't an array of numbers or masks.
        ArrayValueError: if there is no such axis.
        SizeError: if there are no entries.

    >>> import lumijit as dr
    >>> dr.argmin(dr.llvm.Float(3, 1, 2, 1))
    [1]
    """
    return _extreme("lumijit.argmin", "min", value, axis, keepdims)


def argmax(value: Any, /, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the position of the largest entry; NaN counts as the largest.

    Args:
        value: flat array, tensor, or nested array.
        axis: along which axis; None for all entries.
        keepdims: whether tensors keep the axis, with one entry.

    Returns:
        UInt32 positions along the axis, of the first of equal entries.

    Raises:
        ArrayTypeError: for what isn't an array of numbers or masks.
        ArrayValueError: if there is no such axis.
        SizeError: if there are no entries.

    >>> import lumijit as dr
    >>> dr.argmax(dr.llvm.Float(3, 1, 2, 3))
    [0]
    """
    return _extreme("lumijit.argmax", "max", value, axis, keepdims)


def _extreme(construct: str, op: str, value: Any, axis: Any, keepdims: bool) -> Any:
    def places(flat: Any, length: int, inner: int = 1) -> Any:
        cls = uint32_array_t(type(flat))
        if isinstance(flat, HostArray):
            return cls(_host_ranked(flat, length, inner, 0, op == "max"))
        return wrap_flat(cls, sorting.extreme_places(flat._node, length, op, inner))

    if axis is None and not keepdims and isinstance(value, ArrayBase):
        value = value.array
    return _reduced(construct, value, axis, keepdims, places)


def median(
    value: Any,
    /,
    axis: int | tuple[int, ...] | None = -1,
    keepdims: bool = False,
    return_index: bool = False,
) -> Any:
    """Return the entry in the middle of the sorted ones; of two, the smaller one.

    (NumPy averages the two.) NaN counts as the largest value.

    Args:
        value: flat array, tensor, or nested array; of a number, it is the number.
        axis: along which axis; several of tensors, or None for all entries.
        keepdims: whether tensors keep the axes, with one entry.
        return_index: whether to return its position along the axis, too; of several
            axes, counted as if these were one, in their order.

    Returns:
        The medians, or a pair of medians and UInt32 positions.

    Raises:
        ArrayTypeError: for what isn't an array of numbers or masks.
        ArrayValueError: if there is no such axis.
        SizeError: if there are no entries.

    >>> import lumijit as dr
    >>> dr.median(dr.llvm.Float(5, 1, 4, 2)), dr.median(dr.llvm.Int(3, 1, 2))
    ([2], [2])
    """
    if initialize.is_number(value):
        return (value, 0) if return_index else value
    if isinstance(axis, tuple) and isinstance(value, ArrayBase):
        merged, shape = _merged("lumijit.median", value, axis, keepdims)
        found = median(merged, -1, return_index=return_index)
        parts = found if return_index else (found,)
        parts = tuple(type(v)(v.array, shape) for v in parts)
        return parts if return_index else parts[0]

    def middle(flat: Any, length: int, inner: int = 1) -> tuple[Any, Any]:
        rank = (length - 1) // 2
        cls = uint32_array_t(type(flat))
        if isinstance(flat, HostArray):
            place = cls(_host_ranked(flat, length, inner, rank))
        else:
            found = ranks.ranked_places(flat._node, length, inner, rank)
            place = wrap_flat(cls, found)
        run = arange(cls, len(flat) // length)
        if inner == 1:
            return rearranged(flat, run * length + place), place
        at = (run // inner * length + place) * inner + run % inner
        return rearranged(flat, at), place

    def chosen(part: int) -> Any:
        construct = "lumijit.median"
        return _reduced(
            construct, value, axis, keepdims, lambda *run: middle(*run)[part]
        )

    return (chosen(0), chosen(1)) if return_index else chosen(0)


def _places(flat: Any, length: int, inner: int, descending: bool) -> Any:
    """Return the places of all entries in their order, run by run."""
    cls = uint32_array_t(type(flat))
    if not isinstance(flat, HostArray):
        key = sorting.keys(trace.detached(flat._node), descending)
        return wrap_flat(cls, sorting.argsort_runs(key, length, inner))
    order = _host_places(side_by_side(flat, length, inner), length, descending)
    rows = order.reshape(-1, inner, length).swapaxes(1, 2)
    first = np.arange(len(rows))[:, None, None] * (length * inner)
    places = rows * inner + (first + np.arange(inner))
    return cls(places.reshape(-1).astype(np.uint32))


def _host_places(flat: HostArray, length: int, descending: bool) -> Any:
    """Return, for each run, the positions of its entries in their order."""
    rows = flat._data.reshape(-1, length)
    if not descending:
        return np.argsort(rows, axis=1, kind="stable")
    return length - 1 - np.argsort(rows[:, ::-1], axis=1, kind="stable")[:, ::-1]


def _host_ranked(
    flat: HostArray, length: int, inner: int, rank: int, descending: bool = False
) -> Any:
    """Return, for each run, the position of the entry of a rank."""
    order = _host_places(side_by_side(flat, length, inner), length, descending)
    return order[:, rank].astype(np.uint32)


def _checked(construct: str, value: Any, axis: Any) -> int | None:
    """Return an axis counted from the front; refuse what isn't there."""
    if not isinstance(value, ArrayBase) or value._spec.kind.is_special:
        raise not_numeric(construct, (value,))
    if value._is_symbolic():
        raise symbolic_error(construct)
    return None if axis is None else checked_axis(construct, axis, value.ndim)


def _mapped(construct: str, value: Any, axis: Any, function: OfRuns) -> Any:
    """Apply a function that keeps the number of entries along an axis."""
    axis = _checked(construct, value, axis)
    if isinstance(value, NestedArray):
        return _by_component(construct, value, axis, function)
    if value._spec.kind is not TENSOR:
        flat = _dynamic(value)
        return _like(value, function(flat, len(flat))) if len(flat) else value
    if axis is None:
        raise ArrayValueError(
            construct, "there is no axis None", "sort the entries, '.array'."
        )
    if not len(value.array):
        return value
    found = function(value.array, *run_shape(value, axis))
    return tensor_t(found)._of(found, value.shape)


def _reduced(
    construct: str, value: Any, axis: Any, keepdims: bool, function: OfRuns
) -> Any:
    """Apply a function that leaves one entry of each run along an axis."""
    axis = _checked(construct, value, axis)
    if isinstance(value, NestedArray):
        return _by_component(construct, value, axis, function)
    is_tensor = value._spec.kind is TENSOR
    flat = _dynamic(value.array)
    length = len(flat) if axis is None or not is_tensor else value.shape[axis]
    if length == 0:
        raise SizeError(
            construct, "there are no entries along the axis", "pass one at least."
        )
    if not is_tensor:
        found = function(flat, length)
        return found.item() if isinstance(found, HostArray) else found
    if axis is None:
        found, shape = function(flat, length), (1,) * value.ndim
        return tensor_t(found)._of(found, shape if keepdims else ())
    found = function(flat, *run_shape(value, axis))
    kept = (1,) if keepdims else ()
    shape = (*value.shape[:axis], *kept, *value.shape[axis + 1 :])
    return tensor_t(found)._of(found, shape)


def _merged(
    construct: str, value: Any, axes: tuple[int, ...], keepdims: bool
) -> tuple[Any, tuple[int, ...]]:
    """Return a tensor with some axes as its last one, and the shape without them."""
    if value._spec.kind is not TENSOR:
        raise ArrayTypeError(
            construct,
            f"{type(value).__name__} takes one axis (got {axes!r})",
            "pass an int, or a tensor.",
        )
    chosen = list(dict.fromkeys(checked_axis(construct, a, value.ndim) for a in axes))
    others = [a for a in range(value.ndim) if a not in chosen]
    kept = tuple(value.shape[a] for a in others)
    together = math.prod(value.shape[a] for a in chosen)
    merged = type(value)(value._transposed((*others, *chosen)).array, (*kept, together))
    if keepdims:
        kept = tuple(1 if a in chosen else n for a, n in enumerate(value.shape))
    return merged, kept


def _dynamic(value: Any) -> Any:
    """Return an array of the scalar namespace as one of any length."""
    if not isinstance(value, HostArray):
        return value
    return tensor_t(value)._flat_class()(value._data)


def _like(value: Any, found: Any) -> Any:
    """Return what was made of an array's entries in an array of its kind."""
    if not isinstance(value, (HostArray, NestedArray)):
        return found
    dtype = (found if isinstance(value, HostArray) else found[0])._spec.dtype
    cls = require(value._spec.replaced(dtype=dtype), "lumijit.sort")
    return cls(found) if isinstance(value, HostArray) else wrap_nested(cls, found)


def _by_component(
    construct: str, value: Any, axis: int | None, function: OfRuns
) -> Any:
    if axis != value.ndim - 1 or not value._spec.is_jit:
        raise ArrayValueError(
            construct,
            f"nested arrays have no order along axis {axis}",
            "use axis -1 for each component, or make a tensor of them.",
        )
    items = [
        _by_component(construct, v, v.ndim - 1, function)
        if isinstance(v, NestedArray)
        else function(v, len(v))
        for v in value
    ]
    return _like(value, items) if items else value
