"""Subscripts: `x[key]` and `x[key] = value` for all kinds of arrays.

Keys are integers, slices, index arrays, masks (assignment only) and tuples of
these for nested arrays: `x[a, b]` is `x[a][b]`, for each of the items if `a` is a
slice. Gathers and scatters proper are in `functions.gathering`.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from lumijit import initialize, promotion
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.record import memory
from lumijit.masked_entries import entries_under, unmasked
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import BOOL, INT32, UINT32
from lumijit.runtime.errors import ArrayIndexError, ArrayTypeError, SizeError
from lumijit.spec import require
from lumijit.updates import is_put, is_update, is_updated


def is_mask_key(key: Any) -> bool:
    """Tell whether a key is a mask."""
    return isinstance(key, (bool, np.bool_)) or (
        isinstance(key, ArrayBase) and key._spec.dtype is BOOL
    )


def is_index_array(key: Any) -> bool:
    """Tell whether a key is a one-dimensional array of integers."""
    if not isinstance(key, ArrayBase) or not key._spec.dtype.is_int:
        return False
    return len(key._spec.shape) == 1


def position_of(key: Any, size: int, construct: str) -> int:
    """Return a non-negative position for an integer key, or raise."""
    position = operator.index(key)
    if not -size <= position < size:
        raise ArrayIndexError(
            construct,
            f"entry {position} is out of bounds (the array is of size {size})",
            "use an index below the size.",
        )
    return position % size


def _is_integer(key: Any) -> bool:
    return initialize.is_integer(key) and key.__class__ is not bool


def _bad_key(array: Array, key: Any) -> ArrayTypeError:
    return ArrayTypeError(
        f"{type(array).__name__}[…]",
        f"invalid key of type {type(key).__name__!r}",
        _advice(array, key),
    )


def _advice(array: Array, key: Any) -> str:
    """Tell how to convert what other libraries take as an index."""
    is_listed = isinstance(key, (list, np.ndarray)) and np.ndim(key) > 0
    entry = next(iter(key), None) if is_listed else None
    dtype = BOOL if isinstance(entry, (bool, np.bool_)) else INT32
    if dtype is INT32 and not _is_integer(entry):
        return "use integers, slices, arrays of integers or, to assign, masks."
    outer = () if array._spec.is_jit else (-1,)
    cls = require(array._spec.replaced(dtype=dtype, outer=outer), "index")
    return f"convert it to an array first, here with {cls.__name__}(…)."


# Classes of arrays, and types of values that can be written into them as they are.
_ASSIGNED: set[tuple[type[Any], type[Any]]] = set()


def _rounded(array: Array, value: Any) -> Any:
    """Return a value to write; NumPy's floats, double by default, as the array's."""
    dtype = array._spec.dtype
    is_rounded = dtype.is_float and isinstance(value, np.ndarray)
    return (
        value.astype(dtype.numpy) if is_rounded and value.dtype.kind == "f" else value
    )


def assigned(array: Array, value: Any, construct: str = "") -> Array:
    """Convert a value to the class of the array into which it is written.

    Entries must not change their type.
    """
    cls = type(array)
    kind = type(value)
    if kind is cls:
        return value
    if (cls, kind) in _ASSIGNED:
        return cls(value)
    construct = construct or f"{cls.__name__}[…] = value"
    value = _rounded(array, value)
    spec = promotion.common_spec((array, value), construct)
    if spec.dtype is not array._spec.dtype or spec.outer != array._spec.outer:
        raise ArrayTypeError(
            construct,
            f"can't write a value of type {type(value).__name__!r} into "
            f"{cls.__name__}: together, they have {spec.dtype.name} entries and static "
            f"dimensions {spec.outer}",
            f"convert it to {cls.__name__} first.",
        )
    if promotion.is_told_by_type(kind):
        _ASSIGNED.add((cls, kind))
    return cls(value)


def write_masked(array: Array, mask: Any, value: Any) -> None:
    """Replace the entries under a mask."""
    value = unmasked(value, mask)
    wide = promotion.mask_for(mask, array, f"{type(array).__name__}[mask] = value")
    array._assign(assigned(array, value)._select(wide, array))


def read_flat(array: Array, key: Any) -> Any:
    """Serve `x[key]` for a flat traced array."""
    node = array._node
    name = f"{type(array).__name__}[…]"
    if _is_integer(key):
        position = position_of(key, node.size, name)
        if node.op is LITERAL:
            return node.attr
        return array._entry(position, "__getitem__")
    if is_mask_key(key):
        return entries_under(array, key)
    index = index_node(array, key)
    if isinstance(key, slice):
        return wrap(type(array), memory.read_inside(node, index))
    return wrap(type(array), memory.gather(node, index, trace.make_true(1)))


def index_node(array: Array, key: Any) -> Node:
    """Return the integers that a slice or an index array stands for."""
    if isinstance(key, slice):
        return _progression(range(*key.indices(len(array))))
    if not is_index_array(key):
        raise _bad_key(array, key)
    number = known_position(key)
    if number is not None and not flags.debug:
        check_bounds(number, len(array), f"{type(array).__name__}[…]")
    cls = require(array._spec.replaced(dtype=key._spec.dtype, outer=()), "index")
    node: Node = cls(key)._node
    return node


def known_position(index: Any) -> int | None:
    """Return the position that is surely accessed, if it is known while tracing.

    That is a Python number, or an array of one, where no condition guards it.
    """
    if type(index) is int:
        return index if trace.is_unconditional() else None
    node = getattr(index, "_node", None) if isinstance(index, ArrayBase) else None
    return None if node is None else known_place(node)


def known_place(node: Node) -> int | None:
    """Return the position that nodes of an index surely stand for: `known_position`."""
    if node.op is not LITERAL or not node.size or not trace.is_unconditional():
        return None
    return int(node.attr)


def check_bounds(position: int, size: int, construct: str) -> None:
    """Refuse a position beyond an array, in which negative ones count from the end."""
    if not -size <= position < size:
        raise ArrayIndexError(
            construct,
            f"position {position} is out of bounds (the array is of size {size})",
            "check the indices or mask them with 'active'.",
        )


def _progression(positions: range) -> Node:
    """Return start + step * counter."""
    node = trace.cast_to(trace.counter(len(positions)), INT32)
    if positions.step != 1:
        step = trace.literal(INT32, INT32.wrap(positions.step))
        node = trace.emit2(ar.MUL, node, step)
    if positions.start != 0:
        start = trace.literal(INT32, INT32.wrap(positions.start))
        node = trace.emit2(ar.ADD, node, start)
    return trace.resized(node, len(positions))


def write_flat(array: Array, key: Any, value: Any) -> None:
    """Serve `x[key] = value` for a flat traced array."""
    if is_mask_key(key):
        write_masked(array, key, value)
        return
    if _is_integer(key):
        position = position_of(key, len(array), f"{type(array).__name__}[…]")
        value = assigned(array, value)
        if is_put(array, position, value._node):
            return
        index = trace.literal(UINT32, position)
    else:
        index = index_node(array, key)
        value = assigned(array, value)
    count = value._node.size
    if count not in (1, index.size):
        raise _wrong_count(array, index.size, count)
    is_apart = isinstance(key, slice)
    is_whole = is_apart and key.indices(len(array)) == (0, count, 1)
    if is_whole and count == len(array) and trace.is_unconditional():
        array._assign(value)
        return
    index, mask = memory.aim(array, index, trace.make_true(1), "scatter")
    if is_apart and is_update(array, value) and is_updated(array, value, index, mask):
        return
    memory.update(array, value._node, index, mask)


def _wrong_count(array: Array, expected: int, got: int) -> SizeError:
    return SizeError(
        f"{type(array).__name__}[…] = value",
        f"can't write {got} values to {expected} entries",
        "pass one value, or as many as entries are selected.",
    )


def read_host(array: Array, key: Any) -> Any:
    """Serve `x[key]` for a one-dimensional scalar array."""
    data = array._data
    if _is_integer(key):
        name = f"{type(array).__name__}[…]"
        return data[position_of(key, len(data), name)].item()
    if isinstance(key, slice):
        return _host_slice(array, data[key])
    if is_index_array(key):
        return _host_entries(array, key)
    if is_mask_key(key):
        return entries_under(array, key)
    raise _bad_key(array, key)


def _host_slice(array: Array, part: Any) -> Any:
    cls = type(array)
    if len(part) == len(array._data):
        found = array._copy()
        found._data[:] = part
        return found
    if array._spec.outer[0] >= 0:
        cls = require(array._spec.replaced(outer=(len(part),)), "slice")
    return cls(part.copy())


def _host_entries(array: Array, key: Any) -> Array:
    data = array._data
    where, inside = host_places(key._view(), len(data))
    cls = require(array._spec.replaced(outer=(len(where),)), "subscript")
    if array._spec.outer[0] < 0:
        cls = type(array)
    found = np.zeros(len(where), data.dtype)
    found[inside] = data[where[inside]]
    return cls(found)


def host_places(index: Any, size: int) -> tuple[Any, Any]:
    """Return where integers of a NumPy array lie in a scalar one, and which do.

    The rule is that of `compiler.record.bounds`.
    """
    is_below = index < 0
    inside = (index < size) & (~is_below | (index >= -size))
    where = np.where(inside, index, 0).astype(np.int64)
    return np.where(is_below & inside, where + size, where), inside


def write_host(array: Array, key: Any, value: Any) -> None:
    """Serve `x[key] = value` for a one-dimensional scalar array."""
    if is_mask_key(key):
        write_masked(array, key, value)
        return
    data = array._data
    where: Any = key
    inside: Any = True
    if _is_integer(key):
        where = position_of(key, len(data), f"{type(array).__name__}[…]")
    elif is_index_array(key):
        where, inside = host_places(key._view(), len(data))
    elif not isinstance(key, slice):
        raise _bad_key(array, key)
    dynamic = require(array._spec.replaced(outer=(-1,)), "assignment")
    new = assigned(dynamic(data), value)._data
    count = len(where) if is_index_array(key) else np.size(data[where])
    if len(new) not in (1, count):
        raise _wrong_count(array, count, len(new))
    if is_index_array(key):
        data[where[inside]] = np.broadcast_to(new, count)[inside]
    else:
        data[where] = new[0] if _is_integer(key) else new


def read_nested(array: Array, key: Any) -> Any:
    """Serve `x[key]` for a nested array."""
    if key.__class__ is int and 0 <= key < len(array._items):
        return array._items[key]
    if _is_integer(key):
        name = f"{type(array).__name__}[…]"
        return array._items[position_of(key, len(array), name)]
    if isinstance(key, tuple) and key:
        if is_mask_key(key[0]):
            raise _bad_key(array, key[0])
        rest = key[1:]
        if rest and isinstance(key[0], slice):
            return _from_each(array, key)
        first = read_nested(array, key[0])
        if not rest:
            return first
        if len(rest) == 1 and isinstance(first, ArrayBase):
            if first._spec.is_jit and len(first) == 1 and _is_integer(rest[0]):
                return first[0]  # size 1 broadcasts, so every position is the same
            return first[rest[0]]
        return first[rest]
    if isinstance(key, slice):
        part = array._items[key]
        cls = type(array)
        if array._spec.outer[0] >= 0:
            outer = (len(part), *array._spec.outer[1:])
            cls = require(array._spec.replaced(outer=outer), "slice")
        return cls(list(part))
    if is_mask_key(key):
        return entries_under(array, key)
    raise _bad_key(array, key)


def _rest(key: tuple[Any, ...]) -> Any:
    """Return a key without its first part."""
    return key[1:] if len(key) > 2 else key[1]


def _write_each(array: Array, which: slice, key: tuple[Any, ...], value: Any) -> None:
    """Serve `x[which, key] = value`: in each of the items that a slice selects."""
    positions = range(*which.indices(len(array)))
    has_mask = any(is_mask_key(k) for k in key)
    like = read_nested(array, which if has_mask else (which, *key))
    each = parts(like, value, len(positions))
    for position, part in zip(positions, each, strict=True):
        write_nested(array, (position, *key), part)


def _from_each(array: Array, key: tuple[Any, ...]) -> Array:
    """Return what a key selects from each of the items that its first part does."""
    items = [item[_rest(key)] for item in array._items[key[0]]]
    spec = array._spec
    inner = items[0]._spec.outer if items and isinstance(items[0], ArrayBase) else ()
    size = len(items) if spec.outer[0] >= 0 else spec.outer[0]
    return require(spec.replaced(outer=(size, *inner)), "subscript")(items)


def write_nested(array: Array, key: Any, value: Any) -> None:
    """Serve `x[key] = value` for a nested array."""
    if is_mask_key(key):
        write_masked(array, key, value)
    elif _is_integer(key):
        position = position_of(key, len(array), f"{type(array).__name__}[…]")
        current = array._items[position]
        array._items[position] = assigned(current, value)._copy()
    elif isinstance(key, tuple) and len(key) > 1:
        if isinstance(key[0], slice):
            _write_each(array, key[0], key[1:], value)
        else:
            read_nested(array, key[:1])[_rest(key)] = value
    elif isinstance(key, slice):
        positions = range(*key.indices(len(array)))
        each = parts(array, value, len(positions))
        for position, part in zip(positions, each, strict=True):
            write_nested(array, position, part)
    else:
        raise _bad_key(array, key)


def parts(array: Array, value: Any, count: int) -> Any:
    """Return what several items of an array get: a value for each of them."""
    if isinstance(value, ArrayBase):
        is_sequence = len(value._spec.shape) == len(array._spec.shape)
    else:
        is_sequence = isinstance(value, (list, tuple))
    if not is_sequence:
        return [value] * count
    if len(value) != count:
        raise _wrong_count(array, count, len(value))
    return value
