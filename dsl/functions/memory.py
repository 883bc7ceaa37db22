"""Indirect reads: gather, and what it shares with `scattering`.

Owns the rules for nested arrays and PyTrees; the traced operations on flat arrays
are in `compiler.memory`. Nothing is evaluated here.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from lumijit.arrays import FlatArray
from lumijit.arrays import wrap as wrap_flat
from lumijit.base import Array, ArrayBase
from lumijit.compiler import memory, trace
from lumijit.compiler.ops.arithmetic import MIN
from lumijit.compiler.trace import Node
from lumijit.enums import ReduceMode
from lumijit.host import HostArray
from lumijit.indexing import check_bounds, known_position
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.pytree import children, is_container, rebuild
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import BOOL, UINT32, UINT64, DType
from lumijit.runtime.errors import (
    ArrayTypeError,
    message,
)
from lumijit.spec import DYNAMIC, SPACES, ArraySpec, python_type, require


def gather(
    dtype: type[Any],
    source: Any,
    index: Any,
    active: Any = True,
    mode: ReduceMode = ReduceMode.Auto,
) -> Any:
    """Read `source[index]`.

    A nested `dtype` with a flat source reads consecutive entries (x, y, z at
    3 * index + 0, 1, 2). Where `source` is of type `dtype` itself, each part is
    read on its own; so are the parts of PyTrees.

    Args:
        dtype: type of the result.
        source: flat array, or an array or PyTree of type `dtype`.
        index: positions: UInt32 array, or what converts to one; not negative.
        active: mask; the result is 0 where it isn't set.
        mode: how the derivative's updates are combined.

    Returns:
        An instance of `dtype`, as wide as `index` and `active`.

    Raises:
        ArrayTypeError: if the types don't fit together.
        SymbolicError: if `source` is a symbolic variable.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Array2f, Float, UInt
    >>> dr.gather(Float, Float(10, 20, 30), UInt(2, 0))
    [30, 10]
    >>> dr.gather(Array2f, Float(1, 2, 3, 4), UInt(0, 1))
    [[1, 2],
     [3, 4]]
    """
    check_mode(mode, "lumijit.gather")
    if is_container(source):
        if dtype is not type(source):
            raise _wrong_source(dtype, source)
        parts = [gather(type(v), v, index, active, mode) for _, v in children(source)]
        return rebuild(source, parts)
    if not isinstance(source, ArrayBase):
        if dtype is type(source):
            return source
        raise _wrong_source(dtype, source)
    return _gather(dtype, source, index, active)


def _gather(dtype: type[Any], source: Array, index: Any, active: Any) -> Any:
    if isinstance(source, NestedArray):
        if type(source) is not dtype:
            raise _wrong_source(dtype, source)
        items = [_gather(type(v), v, index, active) for v in source]
        return wrap_nested(dtype, items)
    spec = source._spec
    if isinstance(source, HostArray):
        return _gather_host(dtype, source, index, active)
    if not (isinstance(dtype, type) and issubclass(dtype, ArrayBase)):
        raise _wrong_source(dtype, source)
    wanted: ArraySpec = dtype._spec
    if not wanted.is_jit or wanted.dtype is not spec.dtype or DYNAMIC in wanted.outer:
        raise _wrong_source(dtype, source)
    space = max(wanted.space, spec.space, key=SPACES.index)
    positions = index_array(space, index, "lumijit.gather")
    mask = mask_array(space, active, "lumijit.gather")
    check_position(index, active, source, math.prod(wanted.outer), "lumijit.gather")
    return _gather_parts(dtype, source, positions, mask)


def _gather_parts(dtype: type[Any], source: Array, index: Array, mask: Array) -> Array:
    """Read flat entries, or the consecutive parts of nested ones."""
    count = math.prod(dtype._spec.outer)
    first = scaled(index, count) if count > 1 else index
    return _gather_at(dtype, source, first, mask, 0)


def _gather_at(
    dtype: type[Any], source: Array, first: Array, mask: Array, offset: int
) -> Array:
    """Read the parts of a nested array that begin at `first + offset`."""
    outer = dtype._spec.outer
    if not outer:
        node = memory.gather(source._node, first._node, mask._node, offset)
        return wrap_flat(dtype, node)
    step = math.prod(outer[1:])
    items = [
        _gather_at(dtype._item, source, first, mask, offset + k * step)
        for k in range(outer[0])
    ]
    return wrap_nested(dtype, items)


def _gather_host(dtype: type[Any], source: Array, index: Any, active: Any) -> Any:
    """Read from a scalar array: entries at an index array, or one instance."""
    spec = source._spec
    entry = python_type(spec.dtype)
    if dtype is entry and not isinstance(index, ArrayBase):
        if not active:
            return entry(0)
        return source._data[_host_position(index, len(source), "lumijit.gather")].item()
    if not (isinstance(dtype, type) and issubclass(dtype, ArrayBase)):
        raise _wrong_source(dtype, source)
    wanted: ArraySpec = dtype._spec
    if wanted.is_jit or wanted.dtype is not spec.dtype:
        raise _wrong_source(dtype, source)
    if wanted.outer == (DYNAMIC,):
        positions, mask = host_arguments(source, index, active, "lumijit.gather")
        data = np.where(mask, source._data[np.where(mask, positions, 0)], 0)
        return dtype(data.astype(spec.dtype.numpy))
    if DYNAMIC in wanted.outer or isinstance(index, ArrayBase):
        raise _wrong_source(dtype, source)
    size = wanted.outer[0]
    item = dtype._item
    parts = [_gather_host(item, source, index * size + k, active) for k in range(size)]
    return dtype(*parts)


def _host_position(index: Any, size: int, construct: str) -> int:
    position = int(index)
    check_bounds(position, size, construct)
    return position


def check_position(
    index: Any, active: Any, array: Array, count: int, construct: str
) -> None:
    """Refuse a number beyond the end of a flat array; other arrays aren't checked.

    `count` entries are read or written from `index * count` on. An empty array reads
    as zero, and under flag `Debug` the kernel reports what is out of bounds.
    """
    size = len(array)
    if active is not True or not size or flags.debug:
        return
    position = known_position(index)
    if position is not None:
        last = (position + 1) * count - 1
        check_bounds(last if position >= 0 else position, size, construct)


def host_arguments(
    target: Array, index: Any, active: Any, construct: str
) -> tuple[Any, Any]:
    """Convert indices and mask to NumPy and check the positions that are used."""
    positions = np.atleast_1d(_as_numpy(index)).astype(np.int64)
    mask = np.atleast_1d(_as_numpy(active)).astype(bool)
    positions, mask = np.broadcast_arrays(positions, mask)
    for position in positions[mask].tolist():
        _host_position(position, len(target), construct)
    return positions, mask


def _as_numpy(value: Any) -> Any:
    return value._view() if isinstance(value, ArrayBase) else np.asarray(value)


def _wrong_source(dtype: Any, source: Any) -> ArrayTypeError:
    name = getattr(dtype, "__name__", repr(dtype))
    return ArrayTypeError(
        message(
            "lumijit.gather",
            f"can't read {name} from a source of type {type(source).__name__!r}",
            "the source must be of that type, or a flat array with the same entries.",
        )
    )


def index_array(space: str, index: Any, construct: str) -> Array:
    """Convert an index argument to a flat UInt32 array of a namespace."""
    cls = _flat_class(space, UINT32, construct)
    if flags.debug and isinstance(index, FlatArray) and index._spec.dtype.bits == 64:
        index = wrap_flat(cls, _saturated(index._node))
    return _flat_argument(cls, index, "index", construct)


def scaled(index: Array, count: int) -> Array:
    """Return where `count` parts per index begin; too large ones don't wrap around."""
    if flags.debug and isinstance(index, FlatArray):
        last = trace.literal(UINT32, (2**32 - 1) // count - 1)
        index = wrap_flat(type(index), trace.emit2(MIN, index._node, last))
    return index * count


def _saturated(node: Node) -> Node:
    """Convert 64-bit indices; what doesn't fit is out of bounds, not wrapped around."""
    if node.type.is_int:
        last = trace.literal(UINT64, 2**32 - 1)
        node = trace.emit2(MIN, trace.cast_to(node, UINT64), last)
    return trace.cast_to(node, UINT32)


def mask_array(space: str, active: Any, construct: str) -> Array:
    """Convert a mask argument to a flat mask of a namespace."""
    cls = _flat_class(space, BOOL, construct)
    if active is True and issubclass(cls, FlatArray):
        return wrap_flat(cls, cls._literal(True))
    return _flat_argument(cls, active, "active", construct)


@cache
def _flat_class(space: str, dtype: DType, construct: str) -> type[Any]:
    return require(ArraySpec(space, dtype, ()), construct)


def _flat_argument(cls: type[Any], value: Any, name: str, construct: str) -> Array:
    if type(value) is cls:
        return value
    if isinstance(value, NestedArray):
        raise ArrayTypeError(
            message(
                construct,
                f"{name!r} is the nested array type {type(value).__name__} "
                f"(expected {cls.__name__})",
                "pass a flat array.",
            )
        )
    return cls(value)


def check_mode(mode: Any, construct: str) -> None:
    """Raise unless a mode argument is a member of ReduceMode."""
    if not isinstance(mode, ReduceMode):
        raise ArrayTypeError(
            message(construct, f"mode is {mode!r}", "pass a member of ReduceMode.")
        )
