"""Joining, splitting and repeating tensors along their axes."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lumijit import initialize, promotion
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import trace
from lumijit.functions.axes import checked_axis
from lumijit.functions.creation import arange, empty, full
from lumijit.functions.gathering import gather
from lumijit.functions.scans import prefix_sum
from lumijit.functions.scattering import scatter
from lumijit.functions.searching import binary_search
from lumijit.functions.sizes import strides
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError
from lumijit.tensors.shapes import as_tensor, expand_dims, reshaped
from lumijit.tensors.views import View, index_class, view


def _tensors(construct: str, arrays: Iterable[Any]) -> list[Any]:
    """Return tensors of one type for arrays of any."""
    is_one = isinstance(arrays, ArrayBase)
    listed = [arrays] if is_one else initialize.items_of(construct, arrays)
    if not listed:
        raise ArrayValueError(construct, "there are no arrays", "pass at least one.")
    tensors = [as_tensor(construct, v) for v in listed]
    return list(promotion.promote(construct, *tensors))


def stack(arrays: Sequence[Any], /, axis: int = 0) -> Array:
    """Join tensors of one shape along a new axis.

    Args:
        arrays: tensors, or arrays, which become tensors; promoted to one type.
        axis: where the new axis is in the result, negative ones from the end.

    Returns:
        A tensor with one dimension more.

    Raises:
        SizeError: if the shapes differ.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float
    >>> dr.stack([Float(1, 2), Float(3, 4)], axis=1)
    [[1, 3],
     [2, 4]]
    """
    construct = "lumijit.stack"
    tensors = _tensors(construct, arrays)
    shapes = [t.shape for t in tensors]
    if len(set(shapes)) > 1:
        raise SizeError(
            construct,
            f"the tensors have different shapes ({', '.join(map(str, shapes))})",
            "stack tensors of one shape, or join them with lumijit.concat.",
        )
    place = checked_axis(construct, axis, tensors[0].ndim + 1)
    return joined(construct, [expand_dims(t, place) for t in tensors], place)


def joined(construct: str, tensors: list[Any], axis: int) -> Array:
    """Join tensors of one type along an axis that they have."""
    first = tensors[0]
    place = checked_axis(construct, axis, first.ndim)
    shapes = [t.shape for t in tensors]
    others = {(*s[:place], 0, *s[place + 1 :]) for s in shapes}
    if len(others) > 1:
        raise SizeError(
            construct,
            f"the shapes {', '.join(map(str, shapes))} differ beside axis {place}",
            "join tensors that differ in that axis only.",
        )
    total = sum(s[place] for s in shapes)
    shape = (*first.shape[:place], total, *first.shape[place + 1 :])
    result = empty(type(first), shape)
    steps = strides(shape)
    start = 0
    with trace.unmasked():
        for tensor in tensors:
            if math.prod(tensor.shape):
                part = view(tensor.shape, steps, start * steps[place])
                index = part.positions(index_class(result.array._spec))
                scatter(result.array, tensor.array, index)
            start += tensor.shape[place]
    return result


def concatenated(construct: str, arrays: list[Any], axis: int | None) -> Array:
    """Join arrays, one of them a tensor, along an axis; None makes them flat first."""
    tensors = _tensors(construct, arrays)
    if axis is None:
        return joined(
            construct, [reshaped(t, (len(t.array),)) for t in tensors], 0
        ).array
    return joined(construct, tensors, axis)


def _at_least(ndim: int, tensor: Any) -> Any:
    """Add axes of size 1 until there are as many as `atleast_2d` and `3d` give."""
    if tensor.ndim == 0:
        tensor = reshaped(tensor, (1,))
    if tensor.ndim == 1 and ndim > 1:
        tensor = reshaped(tensor, (1, *tensor.shape))
    if tensor.ndim == 2 and ndim > 2:
        tensor = reshaped(tensor, (*tensor.shape, 1))
    return tensor


def hstack(arrays: Sequence[Any], /) -> Array:
    """Join tensors along axis 1, those with fewer than two dimensions along axis 0.

    Args:
        arrays: tensors, or arrays, which become tensors.

    Returns:
        A tensor.

    >>> import lumijit as dr
    >>> from lumijit.llvm import TensorXf
    >>> dr.hstack([TensorXf([[1], [2]]), TensorXf([[3], [4]])])
    [[1, 3],
     [2, 4]]
    """
    construct = "lumijit.hstack"
    tensors = [_at_least(1, t) for t in _tensors(construct, arrays)]
    return joined(construct, tensors, 0 if tensors[0].ndim == 1 else 1)


def vstack(arrays: Sequence[Any], /) -> Array:
    """Join tensors along axis 0; those with one dimension are rows.

    Args:
        arrays: tensors, or arrays, which become tensors.

    Returns:
        A tensor of at least two dimensions.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float
    >>> dr.vstack([Float(1, 2), Float(3, 4)])
    [[1, 2],
     [3, 4]]
    """
    construct = "lumijit.vstack"
    return joined(construct, [_at_least(2, t) for t in _tensors(construct, arrays)], 0)


row_stack = vstack


def dstack(arrays: Sequence[Any], /) -> Array:
    """Join tensors along axis 2; those with fewer dimensions get some of size 1.

    Args:
        arrays: tensors, or arrays, which become tensors.

    Returns:
        A tensor of at least three dimensions.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float
    >>> dr.dstack([Float(1, 2), Float(3, 4)]).shape
    (1, 2, 2)
    """
    construct = "lumijit.dstack"
    return joined(construct, [_at_least(3, t) for t in _tensors(construct, arrays)], 2)


def column_stack(arrays: Sequence[Any], /) -> Array:
    """Join tensors along axis 1; those with one dimension are columns.

    Args:
        arrays: tensors, or arrays, which become tensors.

    Returns:
        A tensor of at least two dimensions.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float
    >>> dr.column_stack([Float(1, 2), Float(3, 4)])
    [[1, 3],
     [2, 4]]
    """
    construct = "lumijit.column_stack"
    tensors = _tensors(construct, arrays)
    columns = [reshaped(t, (len(t.array), 1)) if t.ndim < 2 else t for t in tensors]
    return joined(construct, columns, 1)


def split(
    value: Any, indices_or_sections: int | Sequence[int], /, axis: int = 0
) -> list[Any]:
    """Cut a tensor into parts along an axis.

    Args:
        value: tensor, or an array, which becomes one.
        indices_or_sections: the number of parts, of equal size; or where parts begin,
            but for the first.
        axis: which axis, negative ones from the end.

    Returns:
        The parts.

    Raises:
        SizeError: if parts of equal size don't come out even.

    >>> import lumijit as dr
    >>> from lumijit.llvm import TensorXf
    >>> dr.split(TensorXf([1, 2, 3, 4]), 2)
    [[1, 2], [3, 4]]
    """
    construct = "lumijit.split"
    value = as_tensor(construct, value)
    if not isinstance(indices_or_sections, (list, tuple)):
        size = value.shape[checked_axis(construct, axis, value.ndim)]
        count = _checked_count(construct, indices_or_sections)
        if size % count:
            raise SizeError(
                construct,
                f"{size} entries can't be cut into {count} equal parts",
                "use lumijit.array_split, or say where the parts begin.",
            )
    return _cut(construct, value, indices_or_sections, axis)


def array_split(
    value: Any, indices_or_sections: int | Sequence[int], /, axis: int = 0
) -> list[Any]:
    """Cut a tensor into parts of about equal size along an axis.

    Args:
        value: tensor, or an array, which becomes one.
        indices_or_sections: the number of parts, the first of which may be longer by
            one than the others; or where parts begin, but for the first.
        axis: which axis, negative ones from the end.

    Returns:
        The parts.

    >>> import lumijit as dr
    >>> from lumijit.llvm import TensorXf
    >>> dr.array_split(TensorXf([1, 2, 3]), 2)
    [[1, 2], [3]]
    """
    construct = "lumijit.array_split"
    return _cut(construct, as_tensor(construct, value), indices_or_sections, axis)


def _checked_count(construct: str, count: Any) -> int:
    try:
        number = operator.index(count)
    except TypeError:
        number = 0
    if number < 1:
        raise ArrayValueError(
            construct,
            f"the number of parts is {count!r}",
            "pass a positive int, or a list of where the parts begin.",
        )
    return number


def _cut(construct: str, value: Any, where: Any, axis: int) -> list[Any]:
    place = checked_axis(construct, axis, value.ndim)
    size = value.shape[place]
    if isinstance(where, (list, tuple)):
        ends = [0, *where, None]
    else:
        count = _checked_count(construct, where)
        ends = [k * (size // count) + min(k, size % count) for k in range(count + 1)]
    before = (slice(None),) * place
    subscripts = [(*before, slice(a, b)) for a, b in pairwise(ends)]
    return [value[subscript] for subscript in subscripts]


def tiled(construct: str, value: Any, counts: Sequence[int]) -> Any:
    """Repeat a tensor as a whole along several axes, as NumPy's `tile` does."""
    value = as_tensor(construct, value)
    ndim = max(value.ndim, len(counts))
    counts = (1,) * (ndim - len(counts)) + tuple(counts)
    shape = (1,) * (ndim - value.ndim) + value.shape
    for count in counts:
        check_count(construct, count)
    runs: list[tuple[int, Any]] = []
    for count, size, step in zip(counts, shape, strides(shape), strict=True):
        runs += [(count, 0), (size, step)]
    wide = tuple(m * n for m, n in zip(counts, shape, strict=True))
    return value._seen(View(wide, 0, tuple(runs)))


def repeated(construct: str, value: Any, repeats: Any, axis: int | None) -> Any:
    """Repeat each entry along an axis of a tensor; None makes it flat first."""
    if axis is None:
        value = reshaped(value, (len(value.array),))
    place = checked_axis(construct, axis or 0, value.ndim)
    shape = value.shape
    if isinstance(repeats, (list, tuple)):
        repeats = index_class(value.array._spec)(repeats)
    if isinstance(repeats, ArrayBase):
        with trace.unmasked():
            index = _repeated_index(construct, shape[place], repeats)
            chosen = (*[slice(None)] * place, index)
            return value[chosen]
    check_count(construct, repeats)
    return stretched(value, [repeats if k == place else 1 for k in range(value.ndim)])


def stretched(tensor: Any, factors: Sequence[int]) -> Any:
    """Repeat each entry of a tensor along its axes, so many times each."""
    shape = tensor.shape
    runs: list[tuple[int, Any]] = []
    for size, factor, step in zip(shape, factors, strides(shape), strict=True):
        runs += [(size, step), (factor, 0)]
    wide = tuple(m * f for m, f in zip(shape, factors, strict=True))
    return tensor._seen(View(wide, 0, tuple(runs)))


def check_count(construct: str, count: Any) -> None:
    """Refuse what is no number of repetitions."""
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
        raise ArrayTypeError(
            construct, f"a count is {count!r} (expected an int)", "pass whole numbers."
        )
    if count < 0:
        raise SizeError(
            construct, f"the count {count} is negative", "give a count >= 0."
        )


def _repeated_index(construct: str, size: int, counts: Any) -> Any:
    """Return which entry stands at each place, if each has a count of its own."""
    flat = counts.array
    if counts.ndim != 1 or not flat._spec.dtype.is_int or len(flat) not in (1, size):
        raise SizeError(
            construct,
            f"the counts are of type {type(counts).__name__} and shape {counts.shape} "
            f"for {size} entries",
            "pass an integer for each entry.",
        )
    dtype = index_class(flat._spec)
    flat = dtype(flat)
    if len(flat) != size:
        flat = view((size,), (0,)).entries(flat)
    if size == 0:
        return dtype()
    ends = prefix_sum(flat, exclusive=False)
    places = arange(dtype, int(ends[size - 1]))
    found = binary_search(
        0, size - 1, lambda middle: gather(dtype, ends, dtype(middle)) <= places
    )
    return full(dtype, found, len(places)) if size == 1 else dtype(found)
