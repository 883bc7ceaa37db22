"""Axes: which is meant, and a tensor's entries along one, side by side in memory."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from lumijit.functions.creation import arange
from lumijit.functions.gathering import gather
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.type_traits import tensor_t, uint32_array_t


def checked_axis(construct: str, axis: Any, ndim: int) -> int:
    """Return an axis counted from the front, or raise."""
    try:
        number = operator.index(axis)
    except TypeError:
        raise ArrayTypeError(
            construct, f"an axis is {axis!r} (expected an int)", "pass whole numbers."
        ) from None
    if not -ndim <= number < ndim:
        raise ArrayValueError(
            construct,
            f"axis {number} doesn't exist (there are {ndim} dimensions)",
            f"use axes from {-ndim} to {ndim - 1}." if ndim else "leave it out.",
        )
    return number % ndim


def runs_along(value: Any, axis: int) -> Any:
    """Return the entries of a tensor, those that differ in `axis` only neighbours."""
    return _regrouped(value.array, value.shape, axis, is_back=False)


def along_axis(value: Any, axis: int, function: Callable[[Any, int], Any]) -> Any:
    """Apply a function to the runs of a tensor's entries along an axis.

    It gets them one after the other in a flat array, and their length; what it returns
    has as many entries, of any type.
    """
    shape = value.shape
    found = function(runs_along(value, axis), shape[axis])
    flat = _regrouped(found, shape, axis, is_back=True)
    return tensor_t(flat)(flat, shape)


def _regrouped(flat: Any, shape: tuple[int, ...], axis: int, is_back: bool) -> Any:
    """Exchange the order of an axis and those behind it, or exchange it back."""
    length, behind = shape[axis], math.prod(shape[axis + 1 :])
    if behind == 1 or length == 1:
        return flat
    inner, outer = (length, behind) if not is_back else (behind, length)
    at = arange(uint32_array_t(type(flat)), len(flat))
    place, column = at // inner, at % inner
    row, rest = place // outer, place % outer
    return gather(type(flat), flat, (row * inner + column) * outer + rest)
