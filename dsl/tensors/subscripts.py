"""Subscripts of tensors: from `x[2:, None, index]` to the entries that it selects.

The rules are NumPy's, for integers, slices, `None`, an ellipsis, arrays of integers and
masks. The one function `select` serves reading, assignment and `slice_index`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from lumijit import initialize
from lumijit.base import Array, ArrayBase
from lumijit.functions.creation import full
from lumijit.functions.scans import compress
from lumijit.functions.selection import select as where
from lumijit.functions.sizes import strides
from lumijit.indexing import known_position
from lumijit.runtime.dtypes import BOOL, UINT32
from lumijit.runtime.errors import (
    ArrayIndexError,
    ArrayTypeError,
    ArrayValueError,
    check_nesting,
)
from lumijit.spec import TENSOR
from lumijit.tensors.views import OUTSIDE, Shape, View, broadcast
from lumijit.type_traits import int32_array_t


def slice_index(
    dtype: type[Any], shape: Sequence[int], indices: Sequence[Any]
) -> tuple[tuple[int, ...], Any]:
    """Return which entries of a flat storage a multi-dimensional subscript selects.

    Args:
        dtype: flat dynamic type of the result, with 32-bit unsigned entries.
        shape: sizes of the dimensions, the last one contiguous.
        indices: what stands in the subscript: integers, slices, arrays of integers
            (they broadcast against each other; negative entries count from the
            end), masks, `None` and at most one ellipsis.

    Returns:
        The shape of the selection, as NumPy has it, and the positions of its
        entries. Entries of index arrays that leave their dimension give positions
        from 2**31 on.

    Raises:
        ArrayTypeError: if `dtype` or an index has another type.
        ArrayIndexError: if an integer is out of bounds or there are too many.
        ArrayValueError: if index arrays don't broadcast, or a size is negative.

    >>> import lumijit as dr
    >>> from lumijit.scalar import ArrayXu
    >>> dr.slice_index(ArrayXu, (10, 1), (slice(0, 10, 2), 0))
    ((5,), [0, 2, 4, 6, 8])
    """
    construct = "lumijit.slice_index"
    spec: Any = getattr(dtype, "_spec", None)
    is_flat = spec is not None and len(spec.shape) == 1 and spec.shape[0] < 0
    if not is_flat or spec.dtype is not UINT32 or spec.kind is TENSOR:
        raise ArrayTypeError(
            construct,
            f"dtype is {getattr(dtype, '__name__', dtype)!r}",
            "pass a flat dynamic type with 32-bit unsigned entries.",
        )
    sizes = tuple(operator.index(s) for s in shape)
    if any(s < 0 for s in sizes):
        raise ArrayValueError(
            construct, f"shape {sizes} has a negative size", "pass sizes >= 0."
        )
    view = select(construct, dtype, sizes, tuple(indices))
    return view.shape, view.positions(dtype)


def select(construct: str, dtype: type[Any], sizes: Shape, key: Any) -> View:
    """Return which entries of a tensor a subscript selects.

    Args:
        construct: what is subscripted, for messages.
        dtype: flat 32-bit unsigned type, for positions.
        sizes: the dimensions of the tensor.
        key: what stands in the subscript.
    """
    indices = tuple(key) if isinstance(key, tuple) else (key,)
    return _Selection(construct, dtype, sizes).view(indices)


def is_mask(index: Any, depth: int = 0) -> bool:
    """Tell whether an index is a mask: of us, of NumPy, a bool, or a list of bools."""
    if isinstance(index, ArrayBase):
        return index._spec.dtype is BOOL
    if isinstance(index, list):
        check_nesting(depth)
        for item in index:
            if isinstance(item, ArrayBase) or not is_mask(item, depth + 1):
                return False
        return bool(index)
    if initialize.offers_array(index):
        return bool(np.asarray(index).dtype == np.bool_)
    return isinstance(index, (bool, np.bool_))


def _is_integer(index: Any) -> bool:
    is_array = isinstance(index, (ArrayBase, np.ndarray))
    return not is_array and not is_mask(index) and hasattr(index, "__index__")


def mask_shape(mask: Any) -> Shape:
    """Return the dimensions of a mask."""
    return mask.shape if isinstance(mask, ArrayBase) else np.shape(mask)


class _Selection:
    """The dimensions of a selection, as the indices are taken one by one."""

    def __init__(self, construct: str, dtype: type[Any], sizes: Shape) -> None:
        self.construct = construct
        self.dtype = dtype
        self.sizes = sizes
        self.steps = strides(sizes)
        self.start = 0
        self.runs: list[tuple[int, Any]] = []
        # Index arrays: the step of their dimension, its size, their shape, entries.
        self.arrays: list[tuple[int, int, Shape, Any]] = []
        # Where integers and arrays stand among the indices, and the first of them
        # among the dimensions of the result.
        self.advanced: list[int] = []
        self.place = 0

    def view(self, indices: tuple[Any, ...]) -> View:
        """Take all indices."""
        axis = 0
        for place, index in enumerate(self._expanded(indices)):
            if index is None:
                self.runs.append((1, 0))
                continue
            axis += self._take(place, index, axis)
        shape = [size for size, _ in self.runs]
        if self.arrays:
            is_adjacent = self.advanced[-1] - self.advanced[0] < len(self.advanced)
            at = self.place if is_adjacent else 0
            inner, offsets = self._joined_arrays()
            shape[at:at] = inner
            self.runs.insert(at, (math.prod(inner), offsets))
        return View(tuple(shape), self.start, tuple(self.runs))

    def _expanded(self, indices: tuple[Any, ...]) -> list[Any]:
        """Write the ellipsis out as full slices."""
        dots, used = [], 0
        for k, index in enumerate(indices):
            if index is Ellipsis:
                dots.append(k)
            used += self._count(index)
        if len(dots) > 1:
            raise ArrayIndexError(
                self.construct, "several ellipses (...)", "keep one of them."
            )
        if used > len(self.sizes):
            raise ArrayIndexError(
                self.construct,
                f"{used} indices for {len(self.sizes)} dimensions",
                "leave the last ones out.",
            )
        at = dots[0] if dots else len(indices)
        rest = [slice(None)] * (len(self.sizes) - used)
        return [*indices[:at], *rest, *indices[at + 1 :]]

    def _count(self, index: Any) -> int:
        """Return how many dimensions an index takes."""
        if index is None or index is Ellipsis:
            return 0
        if index.__class__ is slice or not is_mask(index):
            return 1
        return len(mask_shape(index))

    def _take(self, place: int, index: Any, axis: int) -> int:
        """Take one index; return how many dimensions of the tensor it took."""
        if isinstance(index, slice):
            size, step = self.sizes[axis], self.steps[axis]
            chosen = range(*self._bounds(index, size))
            self.start += chosen.start * step if chosen else 0
            self.runs.append((len(chosen), chosen.step * step))
            return 1
        if not self.advanced:
            self.place = len(self.runs)
        self.advanced.append(place)
        if _is_integer(index):
            size, step = self.sizes[axis], self.steps[axis]
            self.start += self._position(operator.index(index), axis) * step
            return 1
        if is_mask(index):
            return self._take_mask(index, axis)
        shape, entries = self._integers(index, axis)
        self.arrays.append((self.steps[axis], self.sizes[axis], shape, entries))
        return 1

    def _bounds(self, index: slice, size: int) -> tuple[int, int, int]:
        try:
            return index.indices(size)
        except (TypeError, ValueError) as error:
            kind = ArrayValueError if isinstance(error, ValueError) else ArrayTypeError
            raise kind(
                self.construct,
                f"{index} is no slice of integers ({error})",
                "use integers that are known while tracing; to start where an array "
                "says, use an index array.",
            ) from None

    def _position(self, position: int, axis: int) -> int:
        size = self.sizes[axis]
        if not -size <= position < size:
            raise ArrayIndexError(
                self.construct,
                f"index {position} is out of bounds for axis {axis} of size {size}",
                "use an index below the size.",
            )
        return position % size

    def _take_mask(self, index: Any, axis: int) -> int:
        """Take a mask over several dimensions: the positions of what is set there."""
        shape = mask_shape(index)
        sizes = self.sizes[axis : axis + len(shape)]
        if shape != sizes:
            raise ArrayIndexError(
                self.construct,
                f"the mask has shape {shape}, the dimensions that it stands for "
                f"{sizes}",
                "use a mask of the tensor's shape, or of its first dimensions.",
            )
        step = self.steps[axis + len(shape) - 1] if shape else 0
        if isinstance(index, ArrayBase):
            positions = self.dtype(compress(index.array))
        else:
            positions = self.dtype(np.flatnonzero(index))
        count = (len(positions),)
        self.arrays.append((step, math.prod(sizes), count, positions))
        return len(shape)

    def _integers(self, index: Any, axis: int) -> tuple[Shape, Any]:
        """Return the shape and the flat entries of an index array."""
        if isinstance(index, ArrayBase):
            shape = index.shape
            if index._spec.dtype.is_int and len(index._spec.shape) == 1:
                return shape, self._counted(index.array, axis)
        elif isinstance(index, list) or initialize.offers_array(index):
            data = self._numbers(index)
            if data.size == 0 or data.dtype.kind in "iu":
                size = self.sizes[axis]
                outside = data[(data < -size) | (data >= size)]
                if outside.size:
                    self._position(int(outside[0]), axis)
                return data.shape, self.dtype(np.asarray(data % max(size, 1)).ravel())
        raise ArrayTypeError(
            self.construct,
            f"an index has type {type(index).__name__!r}",
            "use integers, slices, arrays of integers, masks, None and ...",
        )

    def _numbers(self, index: Any) -> Any:
        if not isinstance(index, list):
            return initialize.host_array(index, self.construct)
        if any(isinstance(item, ArrayBase) for item in index):
            raise ArrayTypeError(
                self.construct,
                "an index is a list of arrays",
                "join them to one array with lumijit.stack or lumijit.concat.",
            )
        try:
            return initialize.host_array(index, self.construct)
        except ValueError:
            raise ArrayValueError(
                self.construct,
                "an index is a ragged list: its items differ in length",
                "give all items the same length.",
            ) from None

    def _counted(self, index: Array, axis: int) -> Any:
        """Count negative entries from the end; what lies outside is too large then."""
        size = self.sizes[axis]
        known = known_position(index)
        if known is not None:
            return full(self.dtype, self._position(known, axis), len(index))
        dtype = index._spec.dtype
        if dtype.bits < 32:
            index = int32_array_t(index)(index)
        if dtype.is_signed:
            index = where(index < 0, index + size, index)
        if dtype.bits > 32:
            index = where((index >= 0) & (index < size), index, OUTSIDE)
        return self.dtype(index)

    def _joined_arrays(self) -> tuple[Shape, Any]:
        """Return the one shape of all index arrays, and offsets of their entries."""
        shapes = [shape for _, _, shape, _ in self.arrays]
        try:
            wide = np.broadcast_shapes(*shapes)
        except ValueError:
            listed = ", ".join(map(str, shapes))
            raise ArrayIndexError(
                self.construct,
                f"the index arrays' shapes {listed} don't broadcast",
                "pass arrays of one shape, or of one entry.",
            ) from None
        offsets: Any = None
        is_inside: Any = True
        for step, size, shape, entries in self.arrays:
            part = broadcast(shape, wide).entries(entries)
            is_inside = (part < size) & is_inside
            offsets = part * step if offsets is None else offsets + part * step
        return wide, where(is_inside, offsets, OUTSIDE)
