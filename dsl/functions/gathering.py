"""Indirect reads: gather, and what it shares with `scattering`.

Owns the rules for nested arrays and PyTrees; the traced operations on flat arrays
are in `compiler.record.memory`. Nothing is evaluated here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np

from lumijit import initialize, promotion
from lumijit.arrays import FlatArray
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import MIN
from lumijit.compiler.record import memory
from lumijit.enums import ReduceMode
from lumijit.indexing import check_bounds, host_places, known_place
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.pytree import Parts, children, is_container, rebuild
from lumijit.runtime.config import flags, unusual
from lumijit.runtime.dtypes import BOOL, INT32, INT64, UINT32, UINT64, DType
from lumijit.runtime.errors import (
    ArrayTypeError,
    SizeError,
)
from lumijit.spec import DYNAMIC, TENSOR, ArraySpec, python_type, require

# (An attribute of an enumeration takes 70 ns to read.)
_AUTO: Final = ReduceMode.Auto
# How many combinations of types are remembered.
_REMEMBERED = 1024


def gather(
    dtype: type[Any],
    source: Any,
    index: Any,
    active: Any = True,
    mode: ReduceMode = ReduceMode.Auto,
    shape: Sequence[int] | None = None,
) -> Any:
    """Read `source[index]`.

    A nested `dtype` with a flat source reads consecutive entries (x, y, z at
    3 * index + 0, 1, 2). Where `source` is of type `dtype` itself, each part is
    read on its own; so are the parts of PyTrees.

    Args:
        dtype: type of the result.
        source: flat array, or an array or PyTree of type `dtype`.
        index: positions: integer array, or what converts to one. Negative ones
            count from the end.
        active: mask; the result is 0 where it isn't set, and beyond the ends.
        mode: how the derivative's updates are combined.
        shape: dimensions of the result, which a nested `dtype` with a dynamic number of
            components needs if `source` is flat. The last one, of the vectorized
            dimension, isn't asked: the index tells it.

    Returns:
        An instance of `dtype`, as wide as `index` and `active`.

    Raises:
        ArrayTypeError: if the types don't fit together.
        ArrayIndexError: if the index is a number beyond the ends.
        SymbolicError: if `source` is a symbolic variable.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Array2f, Float, UInt
    >>> dr.gather(Float, Float(10, 20, 30), UInt(2, 0))
    [30, 10]
    >>> dr.gather(Array2f, Float(1, 2, 3, 4), UInt(0, 1))
    [[1, 2],
     [3, 4]]
    """
    if mode is not _AUTO:
        check_mode(mode, "lumijit.gather")
    if shape is not None and _is_shaped(dtype, source, shape):
        outer = tuple(shape[:-1])
        result = _gather_flat(dtype, source, index, active, 1, outer)
    else:
        result = _gather(dtype, source, index, active, 1)
    if mode is not _AUTO and vertices.variables:
        for leaf in Parts((result,)).leaves:
            if isinstance(leaf, FlatArray) and leaf._node.vertex is not None:
                leaf._node.vertex.mode = mode.trace_name
    return result


def _is_shaped(dtype: Any, source: Any, shape: Sequence[int]) -> bool:
    """Tell whether entries of a flat array become components; check their number."""
    outer = getattr(getattr(dtype, "_spec", None), "outer", ())
    if not isinstance(source, FlatArray):
        return False
    if len(shape) != len(outer) + 1:
        raise SizeError(
            "lumijit.gather",
            f"'shape' has {len(shape)} dimensions and {dtype.__name__} "
            f"{len(outer) + 1}",
            "pass a size for each dimension.",
        )
    for given, size in zip(shape, outer, strict=False):
        if size not in (given, DYNAMIC) or given < 0:
            raise SizeError(
                "lumijit.gather",
                f"'shape' is {tuple(shape)}, and {dtype.__name__} can't have it",
                "pass the static sizes of the type, and others that are >= 0.",
            )
    return bool(outer)


def _gather(dtype: type[Any], source: Any, index: Any, active: Any, width: int) -> Any:
    """Read the parts of an array or a PyTree.

    Parts of one entry have it everywhere, if `width` says that others have more.
    """
    if issubclass(source.__class__, FlatArray):
        return _gather_flat(dtype, source, index, active, width)
    if is_container(source):
        if dtype is not type(source):
            raise _wrong_source(dtype, source)
        width = max(width, _width(source))
        parts = [_gather(type(v), v, index, active, width) for _, v in children(source)]
        if isinstance(source, ArrayBase) and len(parts[0]) < len(source.array):
            raise SizeError(
                "lumijit.gather",
                f"a tensor of shape {source.shape} keeps it, and takes an index for "
                f"each entry (got {len(parts[0])})",
                "read from the entries, '.array', or use lumijit.take.",
            )
        return rebuild(source, parts)
    if not isinstance(source, ArrayBase):
        if dtype is type(source):
            return source
        raise _wrong_source(dtype, source)
    if isinstance(source, NestedArray):
        if type(source) is not dtype:
            raise _wrong_source(dtype, source)
        width = max(width, _width(source))
        items = [_gather(type(v), v, index, active, width) for v in source]
        return wrap_nested(dtype, items)
    return _gather_host(dtype, source, index, active)


def _width(tree: Any) -> int:
    """Return the largest size of the traced arrays in a PyTree."""
    leaves = Parts((tree,)).leaves
    return max((len(v) for v in leaves if isinstance(v, FlatArray)), default=1)


def _gather_flat(
    dtype: Any,
    source: Any,
    index: Any,
    active: Any,
    width: int,
    outer: tuple[int, ...] | None = None,
) -> Array:
    is_type = isinstance(dtype, type)
    facts = _read_facts(dtype, source.__class__, outer) if is_type else None
    if facts is None:
        raise _wrong_source(dtype, source)
    like, count, outer, is_diff = facts
    holder = source
    node, wide = holder._node, None
    size = node.size
    if size == 1 and count == 1 and width > 1:
        size = wide = width
    place, mask = access_nodes("lumijit.gather", like, index, active, size, count)
    position, mask = memory.place(node, place, mask, "gather", count, wide)
    if outer:
        return _gather_parts(dtype, node, position, mask, 0, outer)
    return _entries(dtype, node, position, mask, 0, is_diff)


def rearranged(source: Array, places: Any) -> Any:
    """Read entries of a flat array at places inside, whichever elements take part."""
    if not isinstance(source, FlatArray):
        return type(source)(source._data[places._data])
    node = memory.read_inside(source._node, places._node)
    return wrap_flat(type(source), node)


@lru_cache(_REMEMBERED)
def _read_facts(
    dtype: type[Any], source: type[Any], outer: tuple[int, ...] | None
) -> tuple[ArraySpec, int, tuple[int, ...], bool] | None:
    """Return what types tell of a read, or None if one can't be read from the other.

    That is the namespace, the number of entries that it takes and their dimensions
    (`outer`, if given), and whether derivatives are tracked.
    """
    if not issubclass(dtype, ArrayBase) or dtype._spec.kind is TENSOR:
        return None
    wanted, spec = dtype._spec, source._spec
    if outer is None:
        outer = wanted.outer
    if not wanted.is_jit or wanted.dtype is not spec.dtype or DYNAMIC in outer:
        return None
    like = promotion.joined_namespace(wanted, spec, "lumijit.gather")
    return like, math.prod(outer), outer, wanted.is_diff


def _gather_parts(
    dtype: type[Any],
    source: Node,
    position: Node,
    mask: Node,
    offset: int,
    outer: tuple[int, ...],
) -> Array:
    """Read the parts of an array that begin at `position + offset`."""
    if not outer:
        return _entries(dtype, source, position, mask, offset, dtype._spec.is_diff)
    step = math.prod(outer[1:])
    items = [
        _gather_parts(dtype._item, source, position, mask, offset + k * step, outer[1:])
        for k in range(outer[0])
    ]
    return wrap_nested(dtype, items)


def _entries(
    dtype: type[Any], source: Node, position: Node, mask: Node, offset: int, diff: bool
) -> Array:
    """Read the entries of a flat array that begin at `position + offset`."""
    node = memory.entries(source, position, mask, offset)
    return wrap_flat(dtype, node if diff else trace.detached(node))


def gather_run(
    dtype: type[Any], source: Array, first: Any, count: int, active: Any
) -> list[Any]:
    """Read `count` neighbouring entries of an array, the first of them at `first`.

    They are of type `dtype`: a flat array type, or a Python type in `scalar`.
    """
    # A number of the program may be recorded, and a position in memory is none.
    count = operator.index(count)
    if not isinstance(source, FlatArray):
        return [gather(dtype, source, first + k, active) for k in range(count)]
    construct = "lumijit.gather"
    spec: ArraySpec = dtype._spec
    node = source._node
    index = index_node(spec, first, construct)
    mask = mask_array(spec, active, construct)._node
    starts = max(0, node.size - count + 1)
    position, mask = memory.place(node, index, mask, "gather", 1, starts)
    return [
        wrap_flat(dtype, memory.entries(node, position, mask, k)) for k in range(count)
    ]


def _gather_host(dtype: type[Any], source: Array, index: Any, active: Any) -> Any:
    """Read from a scalar array: entries at an index array, or one instance."""
    spec = source._spec
    construct = "lumijit.gather"
    _check_active(active, construct)
    if dtype is python_type(spec.dtype) and not isinstance(index, ArrayBase):
        if not active:
            return dtype(0)
        return source._data[host_position(index, len(source), construct)].item()
    if not (isinstance(dtype, type) and issubclass(dtype, ArrayBase)):
        raise _wrong_source(dtype, source)
    wanted: ArraySpec = dtype._spec
    if wanted.is_jit or wanted.dtype is not spec.dtype:
        raise _wrong_source(dtype, source)
    if wanted.outer == (DYNAMIC,):
        positions, mask = host_arguments(source, index, active, construct)
        data = np.zeros(len(positions), spec.dtype.numpy)
        data[mask] = source._data[positions[mask]]
        return dtype(data)
    if DYNAMIC in wanted.outer or isinstance(index, ArrayBase):
        raise _wrong_source(dtype, source)
    size = wanted.outer[0]
    item = dtype._item
    rows = len(source) // math.prod(wanted.outer)
    first = host_position(index, rows, construct) * size if active else 0
    parts = [_gather_host(item, source, first + k, active) for k in range(size)]
    return dtype(*parts)


def host_position(index: Any, size: int, construct: str) -> int:
    """Return the position that a number stands for, or raise."""
    position = int(index)
    check_bounds(position, size, construct)
    return position % size


def access_nodes(
    construct: str, like: ArraySpec, index: Any, active: Any, size: int, count: int = 1
) -> tuple[Node, Node]:
    """Return the nodes of an access's index and mask arguments.

    A number beyond the ends of an array of `size` entries is refused; `count` entries
    are read or written from `index * count` on. Other indices aren't checked here, and
    under flag `Debug` the kernel reports what is out of bounds. `like` is the type of
    an array of the wanted namespace.
    """
    own_index, own_mask = _access_facts(like, index.__class__, construct)
    if own_index:
        holder = index
        place = holder._node
    else:
        place = index_node(like, index, construct)
    if active is not True:
        is_own = type(active) is own_mask
        holder = active if is_own else mask_array(like, active, construct)
        return place, holder._node
    position = known_place(place)
    if position is not None and not (unusual and flags.debug):
        rows = size // count
        if not -rows <= position < rows:
            last = (position + 1) * count - 1
            check_bounds(last if position >= 0 else position * count, size, construct)
    return place, trace.make_true(1)


@lru_cache(_REMEMBERED)
def _access_facts(
    like: ArraySpec, index: type[Any], construct: str
) -> tuple[bool, type[Any]]:
    """Tell whether an index of a type is one of `like`'s namespace as it is.

    Return the type of masks there, too.
    """
    is_own = (
        issubclass(index, FlatArray)
        and index._spec.dtype.is_int
        and index is _flat_class(like, index._spec.dtype, construct)
    )
    return is_own, _flat_class(like, BOOL, construct)


def host_arguments(
    target: Array, index: Any, active: Any, construct: str
) -> tuple[Any, Any]:
    """Convert indices and mask to NumPy; leave out positions beyond the ends."""
    _check_active(active, construct)
    positions = np.atleast_1d(_as_numpy(index))
    mask = np.atleast_1d(_as_numpy(active)).astype(bool)
    positions, mask = np.broadcast_arrays(positions, mask)
    if not isinstance(index, ArrayBase):
        positions = positions.astype(np.int64)
        for position in positions[mask].tolist():
            host_position(position, len(target), construct)
    where, inside = host_places(positions, len(target))
    return where, inside & mask


def _as_numpy(value: Any) -> Any:
    return value._view() if isinstance(value, ArrayBase) else np.asarray(value)


def _wrong_source(dtype: Any, source: Any) -> ArrayTypeError:
    name = getattr(dtype, "__name__", repr(dtype))
    return ArrayTypeError(
        "lumijit.gather",
        f"can't read {name} from a source of type {type(source).__name__!r}",
        "the source must be of that type, or a flat array with the same entries (then "
        "pass 'shape', if the number of components is dynamic).",
    )


def index_node(like: ArraySpec, index: Any, construct: str) -> Node:
    """Return the integers of an index argument, which may be of any type.

    `like` is the type of an array of the wanted namespace.
    """
    dtype = INT32
    if isinstance(index, ArrayBase):
        dtype = index._spec.dtype if index._spec.dtype.is_int else INT64
    elif initialize.is_integer(index):
        number = int(index)
        if 0 <= number < 1 << 32:
            dtype = UINT32
        elif not -(1 << 31) <= number < 1 << 31:
            dtype = INT64
    cls = _flat_class(like, dtype, construct)
    node: Node = _flat_argument(cls, index, "index", construct)._node
    return node


def index_array(like: ArraySpec, index: Any, construct: str) -> Array:
    """Convert an index argument to a flat UInt32 array; what is too large stays so."""
    cls = _flat_class(like, UINT32, construct)
    if isinstance(index, FlatArray) and index._spec.dtype.bits == 64:
        index = wrap_flat(cls, _saturated(index._node))
    return _flat_argument(cls, index, "index", construct)


def _saturated(node: Node) -> Node:
    if node.type.is_int:
        last = trace.literal(UINT64, 2**32 - 1)
        node = trace.emit2(MIN, trace.cast_to(node, UINT64), last)
    return trace.cast_to(node, UINT32)


def mask_array(like: ArraySpec, active: Any, construct: str) -> Array:
    """Convert a mask argument to a flat mask of the namespace of `like`."""
    _check_active(active, construct)
    cls = _flat_class(like, BOOL, construct)
    if active is True and issubclass(cls, FlatArray):
        return wrap_flat(cls, cls._literal(True))
    return _flat_argument(cls, active, "active", construct)


def _check_active(active: Any, construct: str) -> None:
    """Refuse a mode in the place of a mask: as a number, one stands for none."""
    if isinstance(active, ReduceMode):
        raise ArrayTypeError(
            construct, f"'active' is {active}", f"pass it by name: mode={active}."
        )


@cache
def _flat_class(like: ArraySpec, dtype: DType, construct: str) -> type[Any]:
    return require(like.flat(dtype), construct)


def _flat_argument(cls: type[Any], value: Any, name: str, construct: str) -> Array:
    if type(value) is cls:
        return value
    if isinstance(value, NestedArray):
        raise ArrayTypeError(
            construct,
            f"{name!r} is the nested array type {type(value).__name__} "
            f"(expected {cls.__name__})",
            "pass a flat array.",
        )
    return cls(value)


def check_mode(mode: Any, construct: str) -> None:
    """Raise unless a mode argument is a member of ReduceMode."""
    if not isinstance(mode, ReduceMode):
        raise ArrayTypeError(
            construct, f"mode is {mode!r}", "pass a member of ReduceMode."
        )
