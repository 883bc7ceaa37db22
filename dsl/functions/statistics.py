"""Variance and standard deviation."""

from __future__ import annotations

import math
from typing import Any

from lumijit.base import ArrayBase
from lumijit.functions.axes import Axis
from lumijit.functions.elementwise import sqrt, square
from lumijit.functions.reductions import (
    as_entries,
    as_half,
    entry_count,
    mean,
    widened,
)
from lumijit.functions.reductions import sum as sum_
from lumijit.runtime.errors import ArrayTypeError
from lumijit.traits import is_tensor_v


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
    wide = widened(value)
    if wide is not None:
        return as_half(var(wide, axis, mode, keepdims, ddof))
    center = mean(value, axis, mode, is_tensor_v(value))
    if isinstance(value, list):
        distances: Any = [square(v - center) for v in value]
    else:
        distances = square(value - center)
    divisor = entry_count(value, axis) - ddof
    total = sum_(distances, axis, mode, keepdims)
    if not isinstance(divisor, int):
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
    wide = widened(value)
    if wide is not None:
        return as_half(std(wide, axis, mode, keepdims, ddof))
    return sqrt(var(value, axis, mode, keepdims, ddof))
