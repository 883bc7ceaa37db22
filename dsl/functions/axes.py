"""Axes: which is meant, and a tensor's entries along one, side by side in memory."""

from __future__ import annotations

import math
import operator
from types import EllipsisType
from typing import Any

from lumijit.base import Array
from lumijit.functions.creation import arange
from lumijit.functions.gathering import rearranged
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.spec import TENSOR
from lumijit.type_traits import uint32_array_t

Axis = int | tuple[int, ...] | EllipsisType | None


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


def reduced_axes(construct: str, axis: Axis, value: Array) -> set[int]:
    """Return which dimensions of an array an `axis` argument means.

    As in NumPy, a tensor's axes can't be given twice, and one without dimensions may be
    reduced along axis 0 or -1, where a tuple of these is an error.
    """
    ndim, is_tensor = value.ndim, value._spec.kind is TENSOR
    if axis is Ellipsis:
        axis = None if is_tensor else 0
    if axis is None:
        return set(range(ndim))
    if not isinstance(axis, tuple):
        if is_tensor and ndim == 0 and axis in (0, -1):
            return set()
        return {checked_axis(construct, axis, ndim)}
    listed = [checked_axis(construct, k, ndim) for k in axis]
    if is_tensor and len(set(listed)) < len(listed):
        raise ArrayValueError(
            construct,
            f"the axes {axis} of a tensor of {ndim} dimensions mean one of them twice",
            "pass each axis once.",
        )
    return set(listed)


def run_shape(value: Any, axis: int) -> tuple[int, int]:
    """Return the length of runs along an axis, and how far neighbours lie apart."""
    return value.shape[axis], math.prod(value.shape[axis + 1 :])


def side_by_side(flat: Any, length: int, inner: int) -> Any:
    """Return entries with those of each run, `inner` apart before, as neighbours."""
    if inner == 1 or length == 1:
        return flat
    at = arange(uint32_array_t(type(flat)), len(flat))
    place, column = at // length, at % length
    row, rest = place // inner, place % inner
    return rearranged(flat, (row * length + column) * inner + rest)
