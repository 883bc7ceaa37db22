"""From subscripts of a multi-dimensional shape to positions in flat storage.

The rules are NumPy's. Subscripts of arrays themselves are in `indexing`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from lumijit.base import ArrayBase
from lumijit.functions.creation import arange, full
from lumijit.functions.gathering import gather
from lumijit.functions.selection import select
from lumijit.indexing import is_index_array, position_of
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import (
    ArrayIndexError,
    ArrayTypeError,
    ArrayValueError,
)

_CONSTRUCT = "lumijit.slice_index"


def slice_index(
    dtype: type[Any], shape: Sequence[int], indices: Sequence[Any]
) -> tuple[tuple[int, ...], Any]:
    """Return which entries of a flat storage a multi-dimensional subscript selects.

    Args:
        dtype: flat dynamic type of the result, with 32-bit unsigned entries.
        shape: sizes of the dimensions, the last one contiguous.
        indices: what stands in the subscript: integers, slices, arrays of integers
            (they broadcast against each other; negative entries count from the
            end, and are not checked), `None` and at most one ellipsis.

    Returns:
        The shape of the selection, as NumPy has it, and the positions of its
        entries.

    Raises:
        ArrayTypeError: if `dtype` or an index has another type.
        ArrayIndexError: if an integer is out of bounds or there are too many.
        ArrayValueError: if index arrays don't broadcast, or a size is negative.

    >>> import lumijit as dr
    >>> from lumijit.scalar import ArrayXu
    >>> dr.slice_index(ArrayXu, (10, 1), (slice(0, 10, 2), 0))
    ((5,), [0, 2, 4, 6, 8])
    """
    spec: Any = getattr(dtype, "_spec", None)
    is_flat = spec is not None and len(spec.shape) == 1 and spec.shape[0] < 0
    if not is_flat or spec.dtype is not UINT32:
        raise ArrayTypeError(
            _CONSTRUCT,
            f"dtype is {getattr(dtype, '__name__', dtype)!r}",
            "pass a flat dynamic type with 32-bit unsigned entries.",
        )
    sizes = tuple(operator.index(s) for s in shape)
    if any(s < 0 for s in sizes):
        raise ArrayValueError(
            _CONSTRUCT, f"shape {sizes} has a negative size", "pass sizes >= 0."
        )
    return _Selection(dtype, sizes).positions(_expanded(sizes, tuple(indices)))


def _expanded(sizes: tuple[int, ...], indices: tuple[Any, ...]) -> list[Any]:
    """Write the ellipsis out as full slices."""
    dots = [k for k, index in enumerate(indices) if index is Ellipsis]
    if len(dots) > 1:
        raise ArrayIndexError(_CONSTRUCT, "several ellipses (...)", "keep one of them.")
    used = sum(index is not None and index is not Ellipsis for index in indices)
    if used > len(sizes):
        raise ArrayIndexError(
            _CONSTRUCT,
            f"{used} indices for {len(sizes)} dimensions",
            "leave the last ones out.",
        )
    at = dots[0] if dots else len(indices)
    rest = [slice(None)] * (len(sizes) - used)
    return [*indices[:at], *rest, *indices[at + 1 :]]


class _Selection:
    """The dimensions of a selection and where the entries along each lie."""

    def __init__(self, dtype: type[Any], sizes: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.sizes = sizes
        self.shape: list[int] = []
        # Per dimension: the distance of its entries, or their offsets in an array.
        self.steps: list[Any] = []
        self.start = 0
        self.arrays: list[tuple[int, Any]] = []
        self.advanced: list[int] = []
        self.place = 0

    def positions(self, indices: list[Any]) -> tuple[tuple[int, ...], Any]:
        """Take the indices one by one and add the offsets up."""
        axis = 0
        for place, index in enumerate(indices):
            if index is None:
                self._dimension(1, 0)
                continue
            stride = math.prod(self.sizes[axis + 1 :])
            self._take(place, index, self.sizes[axis], stride)
            axis += 1
        self._place_arrays()
        total = math.prod(self.shape)
        result = full(self.dtype, self.start % (1 << 32), total)
        inner = total
        counter = arange(self.dtype, total)
        for size, step in zip(self.shape, self.steps, strict=True):
            if total == 0 or (size == 1 and not isinstance(step, ArrayBase)):
                continue
            inner //= size
            coordinate = counter // inner
            if inner * size < total:
                coordinate = coordinate % size
            if isinstance(step, ArrayBase):
                result += gather(self.dtype, step, coordinate)
            else:
                result += coordinate * (step % (1 << 32))
        return tuple(self.shape), result

    def _dimension(self, size: int, step: Any) -> None:
        self.shape.append(size)
        self.steps.append(step)

    def _take(self, place: int, index: Any, size: int, stride: int) -> None:
        if isinstance(index, slice):
            chosen = range(*index.indices(size))
            self.start += chosen.start * stride if chosen else 0
            self._dimension(len(chosen), chosen.step * stride)
            return
        if is_index_array(index):
            self._note_advanced(place)
            self.arrays.append((stride, _wrapped(self.dtype, index, size)))
            return
        if isinstance(index, (bool, np.bool_)) or not hasattr(index, "__index__"):
            raise ArrayTypeError(
                _CONSTRUCT,
                f"an index has type {type(index).__name__!r}",
                "use integers, slices, arrays of integers, None and ...",
            )
        self._note_advanced(place)
        self.start += position_of(index, size, _CONSTRUCT) * stride

    def _note_advanced(self, place: int) -> None:
        if not self.advanced:
            self.place = len(self.shape)
        self.advanced.append(place)

    def _place_arrays(self) -> None:
        """Insert the one dimension of all index arrays where NumPy has it.

        That is the place of the first, or in front if others stand between them.
        """
        if not self.arrays:
            return
        counts = {len(a) for _, a in self.arrays} - {1}
        if len(counts) > 1:
            raise ArrayValueError(
                _CONSTRUCT,
                f"index arrays of {sorted(counts)} entries don't broadcast",
                "pass arrays of one length, or of one entry.",
            )
        offsets = self.dtype(0)
        for stride, array in self.arrays:
            offsets = offsets + array * stride
        is_adjacent = self.advanced[-1] - self.advanced[0] == len(self.advanced) - 1
        at = self.place if is_adjacent else 0
        self.shape.insert(at, counts.pop() if counts else 1)
        self.steps.insert(at, offsets)


def _wrapped(dtype: type[Any], index: Any, size: int) -> Any:
    """Count negative entries from the end, in wrapping arithmetic."""
    positions = dtype(index)
    if not index._spec.dtype.is_signed:
        return positions
    return select(index < 0, positions + size, positions)
