"""Entries of tensors along one axis, by position: also between them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from lumijit.base import ArrayBase
from lumijit.compiler.ir import trace
from lumijit.functions.axes import checked_axis
from lumijit.functions.elementwise import floor, fma, maximum, minimum
from lumijit.runtime.errors import SizeError
from lumijit.tensors.shapes import as_tensor, reshaped
from lumijit.type_traits import int32_array_t


def take(value: Any, index: Any, axis: int = 0) -> Any:
    """Select entries of a tensor along an axis: `value[..., index, ...]`.

    Args:
        value: tensor, or an array, which becomes one.
        index: int, or an array of integers of any shape.
        axis: which axis, negative ones from the end.

    Returns:
        A tensor with the shape of `index` in place of the axis.

    Raises:
        ArrayIndexError: if a number is out of bounds.

    >>> import lumijit as dr
    >>> from lumijit.llvm import TensorXf, UInt
    >>> dr.take(TensorXf([[1, 2], [3, 4]]), UInt(1, 0), axis=1)
    [[2, 1],
     [4, 3]]
    """
    construct = "lumijit.take"
    value = as_tensor(construct, value)
    place = checked_axis(construct, axis, value.ndim)
    chosen = (*[slice(None)] * place, index)
    return value[chosen]


def take_interp(value: Any, pos: Any, axis: int = 0) -> Any:
    """Interpolate linearly between the entries of a tensor along an axis.

    Args:
        value: tensor of floats, or an array, which becomes one.
        pos: float, or an array of floats of any shape: positions, where 0 is the first
            entry and 0.5 half way to the second. Outside, the ends are taken.
        axis: which axis, negative ones from the end.

    Returns:
        A tensor with the shape of `pos` in place of the axis.

    Raises:
        SizeError: if the axis has no entries.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float, TensorXf
    >>> dr.take_interp(TensorXf([0, 10, 40]), Float(0.5, 1.5))
    [5, 25]
    """
    construct = "lumijit.take_interp"
    value = as_tensor(construct, value)
    place = checked_axis(construct, axis, value.ndim)
    size = value.shape[place]
    if size == 0:
        raise SizeError(
            construct, f"axis {place} has no entries", "pass a tensor with entries."
        )
    position = pos if isinstance(pos, ArrayBase) else type(value)(pos)
    position = as_tensor(construct, position)
    position = maximum(minimum(position, size - 1), 0)
    below = minimum(floor(position), max(size - 2, 0))
    index = int32_array_t(type(below))(below)
    weight = position - below
    weight = reshaped(weight, (*weight.shape, *[1] * (value.ndim - place - 1)))
    # A number isn't a position of each element's own.
    with nullcontext() if isinstance(pos, ArrayBase) else trace.unmasked():
        low = take(value, index, place)
        high = take(value, minimum(index + 1, size - 1), place)
    return fma(high - low, weight, low)
