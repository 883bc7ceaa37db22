"""Nested arrays: `Array3f`, `Array22f`, `ArrayXf` and their siblings.

Owns arrays whose items are arrays: static and dynamic ones of the traced
namespaces, and static matrices of components in the scalar one. All operations
run item by item; `operators` has a shorter path for the common static case.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from lumijit import indexing, initialize
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.launch import evaluate
from lumijit.enums import VarState
from lumijit.runtime.dtypes import BOOL
from lumijit.runtime.errors import ArrayTypeError, SizeError
from lumijit.spec import TENSOR

#: Makes an array of a class, without entries.
new_vector = cast(Any, object.__new__)


class NestedArray(ArrayBase):
    """An array of arrays; `_items` are of the class `_item`."""

    __slots__ = ("_items",)
    _items: list[Any]

    def __init__(self, *args: Any) -> None:
        """Make an array of one value for all items, or of one value for each."""
        if len(args) == 1:
            self._items = _one(type(self), args[0])
        elif args:
            self._items = _each(type(self), args)
        else:
            self._items = [self._item() for _ in range(max(self._spec.outer[0], 0))]

    def _map(self, op: Op, *others: Array) -> Array:
        columns = [self._items, *(o._items for o in others)]
        rows = _rows(op.name, columns)
        cls = self._mask_cls if op.result is BOOL else type(self)
        return wrap(cls, [row[0]._map(op, *row[1:]) for row in rows])

    def _select(self, mask: Array, other: Array) -> Array:
        """Take own entries where a mask, also one for all components, is set."""
        if not isinstance(mask, NestedArray):
            pairs = _rows("select", [self._items, other._items])
            return wrap(type(self), [a._select(mask, b) for a, b in pairs])
        rows = _rows("select", [mask._items, self._items, other._items])
        return wrap(type(self), [a._select(m, b) for m, a, b in rows])

    def _cast(self, cls: type[Any]) -> Array:
        return wrap(cls, [v._cast(cls._item) for v in self._items])

    def _assign(self, other: Array) -> None:
        self._items[:] = other._items

    def _copy(self) -> Array:
        return wrap(type(self), [v._copy() for v in self._items])

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        """Return another array; copies share its parts where the originals do."""
        return wrap(type(self), [copy.deepcopy(v, memo) for v in self._items])

    def _is_symbolic(self) -> bool:
        return any(v._is_symbolic() for v in self._items)

    def _raw_shape(self) -> tuple[int, ...] | None:
        shapes = [v._raw_shape() for v in self._items]
        if shapes and shapes.count(shapes[0]) == len(shapes) and shapes[0] is not None:
            return (len(shapes), *shapes[0])
        if any(s is None for s in shapes):
            return None
        inner: list[int] = []
        for sizes in zip(*cast("list[tuple[int, ...]]", shapes), strict=True):
            wide = set(sizes) - {1}
            if len(wide) > 1:
                return None
            inner.append(wide.pop() if wide else 1)
        if not shapes:
            inner = [0] * (len(self._spec.shape) - 1)
        return (len(self._items), *inner)

    def _states(self) -> set[VarState]:
        return {s for v in self._items for s in v._states()}

    def numpy(self) -> np.ndarray[Any, Any]:  # noqa: D102  (see the base class)
        shape = self.shape
        schedule_items(self)
        data = np.empty(shape, dtype=self._spec.dtype.numpy)
        for index, item in enumerate(self._items):
            data[index] = item._view()
        return data

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def __getitem__(self, key: Any) -> Array:
        """Return an item (not a copy), a slice, or an entry for a tuple of keys."""
        return indexing.read_nested(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Replace an item, a slice, or the entries under a mask."""
        indexing.write_nested(self, key, value)


def wrap(cls: type[Any], items: list[Any]) -> Any:
    """Return an instance of a class for items of its item class."""
    array = new_vector(cls)
    array._items = items
    return array


def schedule_items(array: Array) -> None:
    """Schedule all flat parts, so that reading one evaluates all at once."""
    if array._spec.is_jit and not array._is_symbolic():
        evaluate.schedule([leaf._node for leaf in flat_parts(array)])


def flat_parts(array: Array) -> Iterator[Any]:
    """Yield the flat arrays of which an array consists."""
    if not isinstance(array, NestedArray):
        yield array
        return
    for item in array._items:
        yield from flat_parts(item)


def _rows(construct: str, columns: list[list[Any]]) -> Any:
    """Pair the items of operands; a dynamic array of one item broadcasts."""
    sizes = set(map(len, columns))
    if len(sizes) == 1:
        return zip(*columns, strict=True)
    sizes.discard(1)
    if len(sizes) > 1:
        listed = ", ".join(str(len(c)) for c in columns)
        raise SizeError(
            construct,
            f"the operands have incompatible numbers of items ({listed})",
            "use arrays with the same number of items.",
        )
    size = sizes.pop() if sizes else 1
    wide = [c * size if len(c) != size else c for c in columns]
    return zip(*wide, strict=True)


def _each(cls: type[Any], values: Any) -> list[Any]:
    size = cls._spec.outer[0]
    if size >= 0 and len(values) != size:
        raise initialize.size_error(cls.__name__, size, len(values))
    item = cls._item
    return [item(v) for v in values]


def _repeated(cls: type[Any], value: Any) -> list[Any]:
    size = cls._spec.outer[0]
    item = cls._item
    return [item(value) for _ in range(size if size >= 0 else 1)]


def _one(cls: type[Any], value: Any) -> list[Any]:
    if type(value) is cls:
        return [v._copy() for v in value._items]
    if isinstance(value, ArrayBase):
        return _from_array(cls, value)
    if initialize.is_number(value):
        return _repeated(cls, value)
    if isinstance(value, (*initialize.SEQUENCES, Iterator)):
        return _each(cls, list(value))
    if initialize.offers_array(value):
        return _from_numpy(cls, initialize.host_array(value, cls.__name__))
    raise initialize.unsupported(cls.__name__, value)


def _from_array(cls: type[Any], value: Array) -> list[Any]:
    """Convert item by item, or broadcast what has fewer static dimensions."""
    if value._spec.kind is TENSOR:
        return _from_tensor(cls, value)
    mine, theirs = cls._spec.outer, value._spec.outer
    if len(theirs) > len(mine):
        raise ArrayTypeError(
            cls.__name__,
            f"can't be made from {type(value).__name__}, which has more dimensions",
            "select one of its items.",
        )
    if len(theirs) < len(mine):
        return _repeated(cls, value)
    items = list(value)
    if mine[0] >= 0 and len(items) == 1 and theirs[0] < 0:
        items = items * mine[0]
    return _each(cls, items)


def _from_tensor(cls: type[Any], value: Any) -> list[Any]:
    if value.ndim != len(cls._spec.shape):
        raise ArrayTypeError(
            cls.__name__,
            f"the tensor has {value.ndim} dimensions (expected {len(cls._spec.shape)})",
            "the first dimensions must be the static ones of the type.",
        )
    rows = [value[k] for k in range(len(value))]
    return _each(cls, [row.array if row.ndim == 1 else row for row in rows])


def _from_numpy(cls: type[Any], data: Any) -> list[Any]:
    if data.ndim == 0:
        return _repeated(cls, data.item())
    if data.ndim > len(cls._spec.shape):
        raise ArrayTypeError(
            cls.__name__,
            f"the NumPy array has {data.ndim} dimensions "
            f"(expected {len(cls._spec.shape)})",
            "the first dimensions must be the static ones of the type.",
        )
    rows = [np.ascontiguousarray(row) for row in data]
    return _each(cls, rows)
