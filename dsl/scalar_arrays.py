"""Arrays of the `scalar` namespace: entries in NumPy memory, computed at once.

Owns one-dimensional static (`scalar.Array3f`) and dynamic (`scalar.ArrayXf`)
arrays. Operations evaluate through the reference of the op record, so that the
scalar namespace agrees with the compiled ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from lumijit import indexing, initialize
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir.ops.record import Op
from lumijit.enums import VarState
from lumijit.runtime.dtypes import BOOL
from lumijit.runtime.errors import SizeError

_new = cast(Any, object.__new__)


class HostArray(ArrayBase):
    """A one-dimensional array of the scalar namespace."""

    __slots__ = ("_data",)
    _data: Any

    def __init__(self, *args: Any) -> None:
        """Make an array of numbers, a sequence, a NumPy array or another array."""
        if len(args) == 1:
            data = _one(type(self), args[0])
        elif args:
            data = _entries(type(self), args)
        else:
            size = max(self._spec.outer[0], 0)
            data = np.zeros(size, dtype=self._spec.dtype.numpy)
        self._data = _fitted(type(self), data)

    def _map(self, op: Op, *others: Array) -> Array:
        operands = [self._data, *(o._data for o in others)]
        _check_sizes(op.name, operands)
        assert op.reference is not None
        is_mask = op.result is BOOL
        cls = self._mask_cls if is_mask else type(self)
        dtype = cls._spec.dtype.numpy
        result = np.asarray(op.reference(*operands)).astype(dtype, copy=False)
        return wrap(cls, result)

    def _select(self, mask: Array, other: Array) -> Array:
        operands = [mask._data, self._data, other._data]
        _check_sizes("select", operands)
        return wrap(type(self), np.where(*operands))

    def _cast(self, cls: type[Any]) -> Array:
        return wrap(cls, initialize.convert(self._data, cls._spec.dtype).copy())

    def _assign(self, other: Array) -> None:
        self._data = other._data

    def _copy(self) -> Array:
        return wrap(type(self), self._data.copy())

    def _raw_shape(self) -> tuple[int, ...] | None:
        return cast("tuple[int, ...]", self._data.shape)

    def _states(self) -> set[VarState]:
        return {VarState.Evaluated if len(self._data) else VarState.Invalid}

    def numpy(self) -> np.ndarray[Any, Any]:  # noqa: D102  (see the base class)
        return cast("np.ndarray[Any, Any]", self._data)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._data)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the entries as Python numbers."""
        return iter(self._data.tolist())

    def __getitem__(self, key: Any) -> Array:
        """Read one entry as a Python number, or several as an array."""
        return indexing.read_host(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write one entry, a slice, entries at an index array or under a mask."""
        indexing.write_host(self, key, value)

    def __bool__(self) -> bool:
        """Convert a dynamic mask of at most one entry."""
        is_dynamic = self._spec.outer[0] < 0
        if self._spec.dtype is BOOL and is_dynamic and len(self._data) <= 1:
            return bool(self._data.any())
        return super().__bool__()


def wrap(cls: type[Any], data: Any) -> Any:
    """Return an instance of a class for NumPy data of its type."""
    array = _new(cls)
    array._data = data
    return array


def _check_sizes(construct: str, operands: list[Any]) -> None:
    sizes = {len(o) for o in operands} - {1}
    if len(sizes) > 1:
        listed = ", ".join(str(len(o)) for o in operands)
        raise SizeError(
            construct,
            f"the operands have incompatible sizes ({listed})",
            "use arrays of the same size; only size 1 broadcasts.",
        )


def _fitted(cls: type[Any], data: Any) -> Any:
    """Broadcast one entry to a static size; raise for any other mismatch."""
    size = cls._spec.outer[0]
    if size < 0 or len(data) == size:
        return data
    if len(data) == 1:
        return np.repeat(data, size)
    raise initialize.size_error(cls.__name__, size, len(data))


def _entries(cls: type[Any], values: Any) -> Any:
    values = [v.item() if isinstance(v, ArrayBase) else v for v in values]
    data = initialize.sequence(values, cls._spec.dtype, cls.__name__)
    size = cls._spec.outer[0]
    if size >= 0 and len(data) != size:
        raise initialize.size_error(cls.__name__, size, len(data))
    return data


def _one(cls: type[Any], value: Any) -> Any:
    dtype = cls._spec.dtype
    if initialize.is_number(value):
        entry = initialize.number(value, dtype, cls.__name__, cuts=True)
        return np.array([entry], dtype=dtype.numpy)
    if isinstance(value, ArrayBase):
        data = value._view()
        if data.ndim == 2 and data.shape[1] == 1:
            data = data[:, 0]
        return initialize.convert(_flat(cls, data), dtype).copy()
    if isinstance(value, (*initialize.SEQUENCES, Iterator)):
        return _entries(cls, list(value))
    if initialize.offers_array(value):
        data = initialize.host_array(value, cls.__name__)
        return initialize.convert(_flat(cls, np.atleast_1d(data)), dtype).copy()
    raise initialize.unsupported(cls.__name__, value)


def _flat(cls: type[Any], data: Any) -> Any:
    if data.ndim != 1:
        raise SizeError(
            cls.__name__,
            f"the input has {data.ndim} dimensions (expected 1)",
            "select one entry or flatten it first.",
        )
    return data
