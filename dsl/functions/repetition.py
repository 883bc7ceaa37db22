"""Repeating, joining, reversing and copying arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lumijit import initialize, promotion
from lumijit.arrays import FlatArray
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.functions.apply import not_numeric
from lumijit.functions.creation import arange, empty
from lumijit.functions.gathering import index_array, rearranged
from lumijit.functions.scattering import scatter
from lumijit.functions.sizes import shape, width
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.pytree import tree_map
from lumijit.pytree_walks import flat_map, whole_map
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError
from lumijit.scalar_arrays import HostArray
from lumijit.spec import DYNAMIC, TENSOR
from lumijit.type_traits import tensor_t


def tile(value: Any, count: int | Sequence[int]) -> Any:
    """Repeat an array as a whole along the vectorized dimension.

    Args:
        value: array or PyTree.
        count: how many times; for several axes, along each of a tensor, or of an array,
            which becomes one. A single number is that of the last axis.

    Returns:
        The longer arrays, of the same types.

    Raises:
        SizeError: if `count` is negative.

    >>> import lumijit as dr
    >>> dr.tile(dr.llvm.Float(1, 2), 2)
    [1, 2, 1, 2]
    """
    return whole_map(lambda v: _tiled(v, count), value)


def _tiled(value: Any, count: Any) -> Any:
    construct = "lumijit.tile"
    if isinstance(value, ArrayBase):
        counts = count if isinstance(count, (list, tuple)) else (count,)
        if value._spec.kind is TENSOR or len(counts) > 1:
            return _as_tensor(value)._tiled(construct, counts)
        (count,) = counts or (1,)
    return _spread(construct, value, count, lambda i, n: i % n)


def repeat(value: Any, count: Any, axis: int | None = None) -> Any:
    """Repeat each entry along the vectorized dimension.

    Args:
        value: array or PyTree.
        count: how many times; or an array of integers, one for each entry.
        axis: the axis of a tensor; None makes it flat first.

    Returns:
        The longer arrays, of the same types. With an array of counts or an axis, a
        tensor.

    Raises:
        SizeError: if `count` is negative.

    >>> import lumijit as dr
    >>> dr.repeat(dr.llvm.Float(1, 2), 2)
    [1, 1, 2, 2]
    """
    return whole_map(lambda v: _repeated(v, count, axis), value)


def _repeated(value: Any, count: Any, axis: int | None) -> Any:
    construct = "lumijit.repeat"
    if isinstance(value, ArrayBase):
        is_plain = axis is None and not isinstance(count, (list, tuple, ArrayBase))
        if not is_plain or value._spec.kind is TENSOR:
            return _as_tensor(value)._repeated(construct, count, axis)
    return _spread(construct, value, count, lambda i, n: i // max(count, 1))


def _as_tensor(value: Any) -> Any:
    return value if value._spec.kind is TENSOR else tensor_t(type(value))(value)


def _spread(construct: str, value: Any, count: int, position: Any) -> Any:
    count = initialize.whole_number(construct, "the count", count)
    if count < 0:
        raise SizeError(
            construct, f"the count {count} is negative", "give a count >= 0."
        )
    if not isinstance(value, ArrayBase):
        return value
    if count == 1 or DYNAMIC not in value._spec.shape:
        return value._copy()
    trace.check_size(len(value) * count, construct)
    if isinstance(value, NestedArray):
        items = [_spread(construct, v, count, position) for v in value]
        return wrap_nested(type(value), items)
    size = len(value)
    if isinstance(value, HostArray):
        return type(value)(value._data[position(np.arange(size * count), max(size, 1))])
    if size == 0 or count == 0:
        return type(value)()
    index = arange(type(index_array(value._spec, 0, construct)), size * count)
    return rearranged(value, position(index, size))


def concat(arrays: Any, /, axis: int | None = 0) -> Any:
    """Join arrays along the vectorized dimension, or tensors along an axis.

    Args:
        arrays: list or tuple of arrays (promoted to one type), or of lists.
        axis: the axis of tensors; None joins their entries to a flat array.

    Returns:
        One array of the common type.

    Raises:
        ArrayValueError: if there is nothing to join, or the axis doesn't exist.
        SizeError: if shapes of tensors differ in another axis.

    >>> import lumijit as dr
    >>> dr.concat([dr.llvm.Float(1, 2), dr.llvm.Float(3)])
    [1, 2, 3]
    """
    construct = "lumijit.concat"
    arrays = initialize.items_of(construct, arrays)
    if not arrays:
        raise ArrayValueError(construct, "there are no arrays", "pass at least one.")
    if all(isinstance(a, (list, tuple)) for a in arrays):
        return type(arrays[0])(v for a in arrays for v in a)
    for array in arrays:
        if isinstance(array, ArrayBase) and array._spec.kind is TENSOR:
            return array._concatenated(construct, arrays, axis)
    if axis not in (0, -1, None):
        raise ArrayValueError(
            construct, f"axis {axis} isn't supported for arrays", "use tensors."
        )
    parts = promotion.promote(construct, *arrays)
    first = parts[0]
    if not isinstance(first, ArrayBase):
        raise ArrayTypeError(
            construct,
            f"the items are of type {type(first).__name__!r} (expected arrays)",
            "pass a list of arrays, or of lists.",
        )
    if isinstance(first, NestedArray):
        wide = [widened(p, shape(p)[-1]) for p in parts]
        items = [concat([p[k] for p in wide]) for k in range(len(first))]
        return wrap_nested(type(first), items)
    if isinstance(first, HostArray):
        return type(first)(np.concatenate([p._data for p in parts]))
    result = empty(type(first), int(np.sum([len(p) for p in parts])))
    offset = 0
    index_cls = type(index_array(first._spec, 0, construct))
    with trace.unmasked():
        for part in parts:
            if len(part):
                scatter(result, part, arange(index_cls, len(part)) + offset)
            offset += len(part)
    return result


def widened(array: Array, size: int | None = None) -> Any:
    """Give all flat arrays of a nested one the same size, that of the largest."""
    size = width(array) if size is None else size

    def wide(part: Any) -> Any:
        if not isinstance(part, FlatArray):
            return part
        return wrap_flat(type(part), trace.resized(part._node, size))

    return flat_map(wide, array)


def reverse(value: Any, axis: int = 0) -> Any:
    """Reverse the order of the entries along the outermost dimension.

    Args:
        value: array or sequence.
        axis: 0, or another axis of a tensor.

    Returns:
        The reversed copy.

    >>> import lumijit as dr
    >>> dr.reverse(dr.llvm.Float(1, 2, 3))
    [3, 2, 1]
    """
    ndim = value.ndim if isinstance(value, ArrayBase) else 1
    is_tensor = isinstance(value, ArrayBase) and value._spec.kind is TENSOR
    if is_tensor and -ndim <= axis < ndim:
        chosen = (*[slice(None)] * (axis % ndim), slice(None, None, -1))
        return value[chosen]
    if axis != 0:
        raise ArrayValueError(
            "lumijit.reverse", f"axis {axis} isn't supported", "use axis 0."
        )
    if isinstance(value, ArrayBase) and value._spec.kind.is_number:
        return type(value)(*list(value)[::-1])
    if isinstance(value, (ArrayBase, list, tuple)):
        return value[::-1]
    raise not_numeric("lumijit.reverse", (value,))


def copy(value: Any, /) -> Any:
    """Copy a PyTree deeply.

    Args:
        value: array or PyTree.

    Returns:
        The copy; values that are no arrays are the same objects.

    >>> import lumijit as dr
    >>> x = dr.llvm.Float(1, 2)
    >>> y = dr.copy(x)
    >>> y += 1
    >>> x, y
    ([1, 2], [2, 3])
    """
    return tree_map(_copied, value)


def _copied(value: Any) -> Any:
    if isinstance(value, NestedArray):
        return wrap_nested(type(value), [_copied(v) for v in value])
    if not isinstance(value, FlatArray):
        return value._copy() if hasattr(type(value), "_copy") else value
    node = value._node
    if node.op is not LITERAL:
        node = trace.copied(node)
    return wrap_flat(type(value), node)
