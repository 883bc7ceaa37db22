"""Mean, variance and standard deviation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lumijit import initialize
from lumijit.base import ArrayBase
from lumijit.enums import ReduceOp
from lumijit.functions.axes import Axis, reduced_axes
from lumijit.functions.elementwise import sqrt, square
from lumijit.functions.reductions import as_entries, reduced
from lumijit.functions.reductions import sum as sum_
from lumijit.runtime.dtypes import FLOAT16
from lumijit.runtime.errors import ArrayTypeError
from lumijit.traits import is_tensor_v
from lumijit.type_traits import float16_array_t, float32_array_t


def mean(
    value: Any, axis: Axis = ..., mode: str | None = None, keepdims: bool = False
) -> Any:
    """Average entries along axes (see `reduce`).

    Args:
        value: array of floats, number or iterable of these.
        axis: axis or axes, as of `reduce`.
        mode: strategy for the vectorized dimension.
        keepdims: whether reduced axes of a tensor stay, with size 1.

    Returns:
        The means; NaN for nothing.

    Raises:
        ArrayTypeError: if the entries are integers.

    >>> import lumijit as dr
    >>> dr.mean(dr.llvm.Float(1, 2))
    [1.5]
    """
    if initialize.is_number(value):
        return float(value)
    if not isinstance(value, ArrayBase):
        value = initialize.items_of("lumijit.mean", value)
    wide = _widened(value)
    if wide is not None:
        return _as_half(mean(wide, axis, mode, keepdims))
    total = reduced("lumijit.mean", ReduceOp.Add, value, axis, mode, keepdims)
    if isinstance(total, ArrayBase) and not total._spec.dtype.is_float:
        raise ArrayTypeError(
            "lumijit.mean",
            f"the entries have type {total._spec.dtype.name} (expected floats)",
            "convert them first, for example with lumijit.float_array_t.",
        )
    # As an array's quotient, 0 / 0 of nothing is NaN.
    count = _entry_count(value, axis)
    return total / count if count else total * float("nan")


def var(
    value: Any,
    axis: Axis = ...,
    mode: str | None = None,
    keepdims: bool = False,
    ddof: int = 0,
) -> Any:
    """Average the squared distances from the mean along axes (see `reduce`).

    Args:
        value: array of floats, number or iterable of these.
        axis: axis or axes, as of `reduce`.
        mode: strategy for the vectorized dimension.
        keepdims: whether reduced axes of a tensor stay, with size 1.
        ddof: the sum is divided by the number of entries minus this; 1 gives the
            unbiased estimate from a sample.

    Returns:
        The variances; where nothing is left to divide by, infinity, or NaN of equal
        entries.

    Raises:
        ArrayTypeError: if the entries are integers.

    In two passes: first the means, then the distances.

    >>> import lumijit as dr
    >>> dr.var(dr.llvm.Float(1, 2, 3, 4)), dr.var([1.0, 3.0], ddof=1)
    ([1.25], 2.0)
    """
    if not isinstance(value, ArrayBase) and hasattr(value, "__iter__"):
        value = list(value)
    value = as_entries(value)
    wide = _widened(value)
    if wide is not None:
        return _as_half(var(wide, axis, mode, keepdims, ddof))
    center = mean(value, axis, mode, is_tensor_v(value))
    if isinstance(value, list):
        distances: Any = [square(v - center) for v in value]
    else:
        distances = square(value - center)
    divisor = _entry_count(value, axis) - ddof
    total = sum_(distances, axis, mode, keepdims)
    if not issubclass(divisor.__class__, int):
        raise ArrayTypeError("lumijit.var", f"ddof is {ddof!r}", "pass an int.")
    if divisor <= 0:
        # As a quotient by 0.
        return total * math.inf
    return total / divisor


def std(
    value: Any,
    axis: Axis = ...,
    mode: str | None = None,
    keepdims: bool = False,
    ddof: int = 0,
) -> Any:
    """Return the standard deviation, the square root of the variance (see `var`).

    Args:
        value: array of floats, number or iterable of these.
        axis: axis or axes, as of `reduce`.
        mode: strategy for the vectorized dimension.
        keepdims: whether reduced axes of a tensor stay, with size 1.
        ddof: as of `var`.

    Returns:
        The standard deviations.

    Raises:
        ArrayTypeError: if the entries are integers.

    >>> import lumijit as dr
    >>> dr.std([1.0, 5.0])
    2.0
    """
    if not isinstance(value, ArrayBase) and hasattr(value, "__iter__"):
        value = list(value)
    wide = _widened(value)
    if wide is not None:
        return _as_half(std(wide, axis, mode, keepdims, ddof))
    return sqrt(var(value, axis, mode, keepdims, ddof))


def _widened(value: Any) -> Any:
    """Return arrays of halves in single precision, in which their sums are taken.

    The sum of halves, or their number, is beyond their range early. None for arrays
    and lists of others.
    """
    if isinstance(value, ArrayBase):
        return float32_array_t(value)(value) if _is_half(value) else None
    if isinstance(value, list) and value and all(map(_is_half, value)):
        return [float32_array_t(part)(part) for part in value]
    return None


def _as_half(value: Any) -> Any:
    """Round what was computed of `_widened` entries to half precision."""
    if isinstance(value, ArrayBase):
        return float16_array_t(value)(value)
    return FLOAT16.wrap(value)


def _entry_count(value: Any, axis: Axis) -> int:
    """Count the entries that are combined to one."""
    if isinstance(value, ArrayBase):
        axes = reduced_axes("lumijit.mean", axis, value)
        return math.prod([value.shape[k] for k in axes])
    if isinstance(value, list):
        if axis is None:
            return int(np.sum([_entry_count(v, None) for v in value]))
        return len(value)
    return 1


def _is_half(value: Any) -> bool:
    return isinstance(value, ArrayBase) and value._spec.dtype is FLOAT16
