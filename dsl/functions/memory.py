"""Indirect reads and writes: gather, scatter and the atomic updates.

Owns the rules for nested arrays and PyTrees; the traced operations on flat arrays
are in `compiler.memory`. Nothing is evaluated here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lumijit import promotion
from lumijit.arrays import FlatArray
from lumijit.arrays import wrap as wrap_flat
from lumijit.base import Array, ArrayBase
from lumijit.compiler import memory
from lumijit.enums import ReduceMode, ReduceOp
from lumijit.host import HostArray
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.pytree import child_of, children, is_container, rebuild
from lumijit.runtime.dtypes import BOOL, UINT32, DType
from lumijit.runtime.errors import (
    ArrayIndexError,
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
    _check_mode(mode, "lumijit.gather")
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
    return _gather_parts(dtype, source, positions, mask)


def _gather_parts(dtype: type[Any], source: Array, index: Array, mask: Array) -> Array:
    """Read flat entries, or the consecutive parts of nested ones."""
    outer = dtype._spec.outer
    if not outer:
        node = memory.gather(source._node, index._node, mask._node)
        return wrap_flat(dtype, node)
    first = index * outer[0]
    items = [
        _gather_parts(dtype._item, source, first + k, mask) for k in range(outer[0])
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
        positions, mask = _host_arguments(source, index, active, "lumijit.gather")
        data = np.where(mask, source._data[np.where(mask, positions, 0)], 0)
        return dtype(data.astype(spec.dtype.numpy))
    if DYNAMIC in wanted.outer or isinstance(index, ArrayBase):
        raise _wrong_source(dtype, source)
    size = wanted.outer[0]
    item = dtype._item
    parts = [
        _gather_host(item, source, index * size + k, active) for k in range(size)
    ]
    return dtype(*parts)


def _host_position(index: Any, size: int, construct: str) -> int:
    position = int(index)
    if not 0 <= position < size:
        raise ArrayIndexError(
            message(
                construct,
                f"position {position} is out of bounds (the array is of size {size})",
                "check the indices or mask them with 'active'.",
            )
        )
    return position


def _host_arguments(
    target: Array, index: Any, active: Any, construct: str
) -> tuple[Any, Any]:
    positions = np.atleast_1d(_as_numpy(index)).astype(np.int64)
    mask = np.atleast_1d(_as_numpy(active)).astype(bool)
    positions, mask = np.broadcast_arrays(positions, mask)
    for position in positions[mask].tolist():
        _host_position(position, len(target), construct)
    return positions, mask


def _as_numpy(value: Any) -> Any:
    return value.numpy() if isinstance(value, ArrayBase) else np.asarray(value)


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
    cls = require(ArraySpec(space, UINT32, ()), construct)
    return _flat_argument(cls, index, "index", construct)


def mask_array(space: str, active: Any, construct: str) -> Array:
    """Convert a mask argument to a flat mask of a namespace."""
    cls = require(ArraySpec(space, BOOL, ()), construct)
    return _flat_argument(cls, active, "active", construct)


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


def _check_mode(mode: Any, construct: str) -> None:
    if not isinstance(mode, ReduceMode):
        raise ArrayTypeError(
            message(construct, f"mode is {mode!r}", "pass a member of ReduceMode.")
        )


def scatter(
    target: Any,
    value: Any,
    index: Any,
    active: Any = True,
    mode: ReduceMode = ReduceMode.Auto,
) -> None:
    """Write `target[index] = value`.

    A nested value is written to consecutive entries of a flat target; arrays and
    PyTrees of the target's own type are written part by part. Where indices
    repeat, one of the values stays.

    Args:
        target: flat array, or array or PyTree of the type of `value`; changed.
        value: number, array or PyTree.
        index: positions: UInt32 array, or what converts to one; not negative.
        active: mask of the writes that take place.
        mode: promise about repeated indices.

    Raises:
        ArrayTypeError: if the types don't fit together.
        SymbolicError: if `target` is a symbolic variable.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float, UInt
    >>> x = dr.zeros(Float, 4)
    >>> dr.scatter(x, Float(10, 20), UInt(3, 1))
    >>> x
    [0, 20, 0, 10]
    """
    _scatter("lumijit.scatter", ReduceOp.Identity, target, value, index, active, mode)


def scatter_reduce(
    op: ReduceOp,
    target: Any,
    value: Any,
    index: Any,
    active: Any = True,
    mode: ReduceMode = ReduceMode.Auto,
) -> None:
    """Update `target[index] = op(target[index], value)`, also where indices repeat.

    Args:
        op: how entries are combined; And and Or take integers and masks only.
        target: flat array, or array or PyTree of the type of `value`; changed.
        value: number, array or PyTree.
        index: positions: UInt32 array, or what converts to one; not negative.
        active: mask of the updates that take place.
        mode: strategy for repeated indices.

    Raises:
        ArrayTypeError: if the types don't fit together or to the operation.
        SymbolicError: if `target` is a symbolic variable.

    >>> import lumijit as dr
    >>> from lumijit.llvm import UInt
    >>> x = dr.zeros(UInt, 2)
    >>> dr.scatter_reduce(dr.ReduceOp.Max, x, UInt(5, 7, 3), UInt(0, 0, 1))
    >>> x
    [7, 3]
    """
    if not isinstance(op, ReduceOp):
        raise ArrayTypeError(
            message(
                "lumijit.scatter_reduce",
                f"op is {op!r}",
                "pass a member of ReduceOp.",
            )
        )
    _scatter("lumijit.scatter_reduce", op, target, value, index, active, mode)


def scatter_add(
    target: Any,
    value: Any,
    index: Any,
    active: Any = True,
    mode: ReduceMode = ReduceMode.Auto,
) -> None:
    """Add `value` to `target[index]`, also where indices repeat.

    Args:
        target: flat array, or array or PyTree of the type of `value`; changed.
        value: number, array or PyTree.
        index: positions: UInt32 array, or what converts to one; not negative.
        active: mask of the updates that take place.
        mode: strategy for repeated indices.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float, UInt
    >>> x = dr.zeros(Float, 2)
    >>> dr.scatter_add(x, Float(1, 2, 3), UInt(0, 0, 1))
    >>> x
    [3, 3]
    """
    _scatter("lumijit.scatter_add", ReduceOp.Add, target, value, index, active, mode)


def _scatter(
    construct: str,
    op: ReduceOp,
    target: Any,
    value: Any,
    index: Any,
    active: Any,
    mode: ReduceMode,
) -> None:
    _check_mode(mode, construct)
    if is_container(target):
        for key, part in children(target):
            other = child_of(target, value, key)
            _scatter(construct, op, part, other, index, active, mode)
        return
    if isinstance(target, NestedArray):
        wide = value if type(value) is type(target) else type(target)(value)
        for part, other in zip(target, wide, strict=True):
            _scatter(construct, op, part, other, index, active, mode)
        return
    if not isinstance(target, ArrayBase):
        return
    check_reducible(op, target._spec.dtype, construct)
    if isinstance(target, HostArray):
        _scatter_host(construct, op, target, value, index, active)
        return
    space = target._spec.space
    positions = index_array(space, index, construct)
    mask = mask_array(space, active, construct)
    group = memory.new_group() if isinstance(value, NestedArray) else 0
    how = (op.trace_name, mode.trace_name, group)
    _scatter_parts(construct, target, value, positions, mask, how)


def _scatter_parts(
    construct: str,
    target: FlatArray,
    value: Any,
    index: Array,
    mask: Array,
    how: tuple[str, str, int],
) -> None:
    if isinstance(value, NestedArray):
        size = len(value)
        for k, part in enumerate(value):
            _scatter_parts(construct, target, part, index * size + k, mask, how)
        return
    node = _written(construct, target, value)._node
    memory.scatter(target, node, index._node, mask._node, *how)


def _written(construct: str, target: Array, value: Any) -> Array:
    """Convert a value to the target's class; its entries must not change type."""
    cls = type(target)
    if type(value) is cls:
        return value
    spec = promotion.common_spec((target, value), construct)
    if spec.dtype is not target._spec.dtype or spec.outer != target._spec.outer:
        raise ArrayTypeError(
            message(
                construct,
                f"can't write a value of type {type(value).__name__!r} into "
                f"{cls.__name__}",
                f"convert it to {cls.__name__} first.",
            )
        )
    return cls(value)


def check_reducible(op: ReduceOp, dtype: DType, construct: str) -> None:
    """Raise unless entries of a type can be combined by an operation."""
    bitwise = op in (ReduceOp.And, ReduceOp.Or)
    arithmetic = op in (ReduceOp.Add, ReduceOp.Mul, ReduceOp.Min, ReduceOp.Max)
    if (bitwise and dtype.is_float) or (arithmetic and dtype.is_bool):
        fix = "use Add, Mul, Min or Max." if bitwise else "use And or Or for masks."
        raise ArrayTypeError(
            message(construct, f"{op.name} isn't defined for {dtype.name} entries", fix)
        )


HOST_UPDATES: dict[ReduceOp, Any] = {
    ReduceOp.Add: np.add,
    ReduceOp.Mul: np.multiply,
    ReduceOp.Min: np.minimum,
    ReduceOp.Max: np.maximum,
    ReduceOp.And: np.bitwise_and,
    ReduceOp.Or: np.bitwise_or,
}


def _scatter_host(
    construct: str, op: ReduceOp, target: Array, value: Any, index: Any, active: Any
) -> None:
    if isinstance(value, (NestedArray, HostArray)) and value._spec.outer[0] >= 0:
        for k, part in enumerate(value):
            place = index * len(value) + k
            _scatter_host(construct, op, target, part, place, active)
        return
    dynamic = require(target._spec.replaced(outer=(DYNAMIC,)), construct)
    new = _written(construct, dynamic(target._data), value)._data
    positions, mask = _host_arguments(target, index, active, construct)
    new, positions, mask = np.broadcast_arrays(new, positions, mask)
    if op is ReduceOp.Identity:
        target._data[positions[mask]] = new[mask]
    else:
        with np.errstate(all="ignore"):
            HOST_UPDATES[op].at(target._data, positions[mask], new[mask])


def scatter_inc(target: Array, index: Any, active: Any = True) -> Array:
    """Add 1 to `target[index]` and return the entries as they were before.

    Every update sees a different old value, so this hands out free places.

    Args:
        target: flat UInt32 array; changed.
        index: positions: UInt32 array, or what converts to one.
        active: mask of the updates that take place.

    Returns:
        The old values (undefined where `active` isn't set); usable in the kernel
        that performs the update only, unless evaluated together with it.

    Raises:
        ArrayTypeError: if `target` is not a flat UInt32 array.

    >>> import lumijit as dr
    >>> from lumijit.llvm import UInt
    >>> counter = UInt(0)
    >>> place = dr.scatter_inc(counter, UInt(0, 0, 0))
    >>> sorted(place), counter
    ([0, 1, 2], [3])
    """
    construct = "lumijit.scatter_inc"
    spec = getattr(target, "_spec", None)
    if spec is None or spec.dtype is not UINT32 or len(spec.shape) != 1:
        raise ArrayTypeError(
            message(
                construct,
                f"the target has type {type(target).__name__!r} "
                "(expected a flat UInt32 array)",
                "use lumijit.scatter_reduce for other types.",
            )
        )
    if isinstance(target, HostArray):
        positions, mask = _host_arguments(target, index, active, construct)
        old = np.zeros(len(positions), dtype=np.uint32)
        for k in np.flatnonzero(mask):
            old[k] = target._data[positions[k]]
            target._data[positions[k]] += np.uint32(1)
        return require(spec.replaced(outer=(DYNAMIC,)), construct)(old)
    positions = index_array(spec.space, index, construct)
    mask = mask_array(spec.space, active, construct)
    return wrap_flat(
        type(target), memory.scatter_inc(target, positions._node, mask._node)
    )
