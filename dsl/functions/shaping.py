"""Rearranging arrays: ravel, unravel, reshape, slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from lumijit import initialize, promotion
from lumijit.arrays import FlatArray
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import effects, trace
from lumijit.compiler.record import writes
from lumijit.compiler.record.memory import read_inside
from lumijit.functions.apply import not_numeric
from lumijit.functions.creation import arange, empty
from lumijit.functions.gathering import gather, rearranged
from lumijit.functions.sizes import strides, width
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.pytree import is_container, tree_map
from lumijit.pytree_walks import whole_map
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import (
    ArrayTypeError,
    ArrayValueError,
    SizeError,
)
from lumijit.spec import DYNAMIC, SCALAR, TENSOR, plain_spec, require
from lumijit.type_traits import tensor_t


def _order(order: str, construct: str) -> Any:
    if order not in ("A", "C", "F"):
        raise ArrayValueError(construct, f"order is {order!r}", "pass 'A', 'C' or 'F'.")
    return "F" if order == "A" else order


def ravel(array: Any, order: str = "A") -> Any:
    """Put the entries of an array into a flat one.

    Args:
        array: array, or a sequence of numbers.
        order: "F" (the default, "A"): components alternate. "C": all x, then all y,
            which is the default for tensors.

    Returns:
        A flat array; flat input and numbers are returned as they are, and a tensor's
        own entries.

    Raises:
        SizeError: if the array is ragged.

    >>> import lumijit as dr
    >>> dr.ravel(dr.llvm.Array2f([1, 2], [3, 4]))
    [1, 3, 2, 4]
    """
    construct = "lumijit.ravel"
    ordering = _order(order, construct)
    if isinstance(array, (list, tuple)):
        spec = promotion.common_spec([array], construct)
        dynamic = plain_spec(SCALAR, False, spec.dtype, (DYNAMIC,))
        return require(dynamic, construct)(np.ravel(np.asarray(array), order=ordering))
    if not isinstance(array, ArrayBase):
        if initialize.is_number(array):
            return array
        raise not_numeric(construct, (array,))
    spec = array._spec
    if len(spec.shape) == 1:
        if spec.shape == (DYNAMIC,):
            if array._spec.kind is TENSOR and order == "F":
                array = array.T
            return array.array
        return require(spec.replaced(outer=(DYNAMIC,)), construct)(array)
    if not spec.is_jit:
        data = np.ravel(array._view(), order=ordering)
        return require(spec.replaced(outer=(DYNAMIC,)), construct)(data)
    dimensions = array.shape
    target = empty(require(spec.replaced(outer=()), construct), math.prod(dimensions))
    steps = strides(dimensions, ordering)
    index_cls = require(spec.replaced(dtype=UINT32, outer=()), construct)
    along = arange(index_cls, dimensions[-1]) * steps[-1]
    if target._node.size:
        _write_parts(target, array, along, steps, effects.new_group())
    return target


def _write_parts(
    target: Array, part: Array, index: Array, steps: tuple[int, ...], group: int
) -> None:
    """Write the components of an array; they go to different places."""
    if isinstance(part, NestedArray):
        for k, item in enumerate(part):
            _write_parts(target, item, index + k * steps[0], steps[1:], group)
        return
    mask = trace.make_true(1)
    writes.write(target, part._node, index._node, mask, group=group)


def unravel(dtype: type[Any], array: Array, order: str = "A") -> Any:
    """Read nested arrays from a flat one: the inverse of `ravel`.

    Args:
        dtype: array class of the result.
        array: flat array; its entries are converted to those of `dtype`.
        order: "F" (the default, "A"): components alternate. "C": all x, then all y.

    Returns:
        An instance of `dtype`.

    Raises:
        SizeError: if the number of entries is no multiple of the components.

    >>> import lumijit as dr
    >>> dr.unravel(dr.llvm.Array2f, dr.llvm.Float(1, 2, 3, 4))
    [[1, 2],
     [3, 4]]
    """
    construct = "lumijit.unravel"
    ordering = _order(order, construct)
    is_array = isinstance(array, ArrayBase) and array._spec.shape == (DYNAMIC,)
    is_type = isinstance(dtype, type) and issubclass(dtype, ArrayBase)
    if not is_array or not is_type or array._spec.kind is TENSOR:
        raise ArrayTypeError(
            construct,
            f"can't read {getattr(dtype, '__name__', dtype)} from "
            f"{type(array).__name__}",
            "pass a flat array.",
        )
    if dtype._spec.dtype is not array._spec.dtype:
        flat_spec = array._spec.replaced(dtype=dtype._spec.dtype)
        array = require(flat_spec, construct)(array)
    outer = dtype._spec.outer
    components = math.prod(outer) if DYNAMIC not in outer else 0
    if dtype._spec.shape == (DYNAMIC,):
        return array if type(array) is dtype else dtype(array)
    if components == 0 or len(array) % components:
        raise SizeError(
            construct,
            f"the size {len(array)} is no multiple of the components of "
            f"{dtype.__name__}",
            "use a static type and a suitable size.",
        )
    size = len(array) // components
    if not dtype._spec.is_jit:
        if size != 1:
            raise SizeError(
                construct,
                f"{dtype.__name__} has {components} entries, the array {len(array)}",
                "pass as many entries as the type has.",
            )
        return dtype(np.reshape(array._view(), outer, order=ordering))
    flat = dtype
    while flat._spec.outer:
        flat = flat._item
    index_cls = require(array._spec.replaced(dtype=UINT32, outer=()), construct)
    along = arange(index_cls, size)
    if ordering == "F":
        first = (along * components)._node
        nodes = [read_inside(array._node, first, k) for k in range(components)]
        parts = [effects.wrap(flat, node) for node in nodes]
    else:
        parts = [rearranged(array, along + k * size) for k in range(components)]
    return _arranged(dtype, parts, strides(outer, ordering))


def _arranged(dtype: type[Any], parts: list[Any], steps: tuple[int, ...]) -> Array:
    """Nest flat parts, of which those along each axis are a step apart."""
    if not steps:
        return parts[0]
    items = [
        _arranged(dtype._item, parts[k * steps[0] :], steps[1:])
        for k in range(dtype._spec.outer[0])
    ]
    return wrap_nested(dtype, items)


@overload
def reshape(
    dtype: type[Any],
    value: Any,
    shape: int | Sequence[int],
    order: str = "A",
    shrink: bool = False,
) -> Any: ...


@overload
def reshape(
    value: Any, shape: int | Sequence[int], order: str = "A", shrink: bool = False
) -> Any: ...


def reshape(*args: Any, **options: Any) -> Any:
    """Rearrange an array into another type or size.

    Called as `reshape(dtype, value, shape, order="A", shrink=False)`; without `dtype`,
    the result has the type of the value.

    Args:
        dtype: array class of the result.
        value: array, or a PyTree, whose parts keep their types.
        shape: dimensions of the result; one may be -1 and is found out.
        order: index order, see `ravel`.
        shrink: keep only the first entries along the vectorized dimension; of a tensor
            as many as `shape` has.

    Returns:
        An instance of `dtype`.

    Raises:
        SizeError: if the number of entries would change.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Array2f, Float
    >>> dr.reshape(Array2f, Float(1, 2, 3, 4), (2, -1))
    [[1, 2],
     [3, 4]]
    """
    if args and isinstance(args[0], type):
        return _reshape(*args, **options)
    if "dtype" in options:
        return _reshape(options.pop("dtype"), *args, **options)
    value = args[0] if args else options.get("value")
    return _reshape(type(value), *args, **options)


def _reshape(
    dtype: type[Any],
    value: Any,
    shape: int | Sequence[int],
    order: str = "A",
    shrink: bool = False,
) -> Any:
    construct = "lumijit.reshape"
    if issubclass(dtype, ArrayBase) and _are_numbers(value):
        value = tensor_t(dtype)(value)
    if is_container(value) and not isinstance(value, ArrayBase):
        return tree_map(lambda v: _reshape(type(v), v, shape, order, shrink), value)
    if not isinstance(value, ArrayBase):
        return value
    if not issubclass(dtype, ArrayBase):
        raise ArrayTypeError(
            construct, f"the type is {dtype.__name__!r}", "pass a type of arrays."
        )
    is_size = issubclass(shape.__class__, int)
    wanted = (shape,) if is_size else tuple(initialize.items_of(construct, shape))
    if shrink and value._spec.kind is TENSOR:
        flat = _shrunk(value.array, math.prod(wanted), construct)
        return type(value)(flat, wanted)
    if shrink:
        return _shrunk(value, wanted[-1], construct)
    count = math.prod(value.shape)
    known = math.prod(n for n in wanted if n != -1)
    if wanted.count(-1) > 1 or any(n < -1 for n in wanted):
        raise _bad_shape(construct, value, wanted)
    if -1 in wanted:
        if known == 0 or count % known:
            raise _bad_shape(construct, value, wanted)
        wanted = tuple(count // known if n == -1 else n for n in wanted)
    static = dtype._spec.shape
    fits = len(static) == len(wanted) and all(
        m in (n, DYNAMIC) for m, n in zip(static, wanted, strict=True)
    )
    is_tensor = dtype._spec.kind is TENSOR
    if math.prod(wanted) != count or not (fits or is_tensor):
        raise _bad_shape(construct, value, wanted)
    flat = ravel(value, order)
    if is_tensor:
        return dtype(flat, wanted[::-1]).T if order == "F" else dtype(flat, wanted)
    if dtype._spec.is_jit and DYNAMIC in dtype._spec.outer:
        sized = require(dtype._spec.replaced(outer=wanted[:-1]), construct)
        return dtype(unravel(sized, flat, order))
    return unravel(dtype, flat, order)


def _are_numbers(value: Any) -> bool:
    """Tell whether a value is a NumPy array, or a sequence of numbers."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(initialize.is_number, value))
    return isinstance(value, np.ndarray)


def _bad_shape(construct: str, value: Array, wanted: tuple[int, ...]) -> SizeError:
    return SizeError(
        construct,
        f"can't rearrange an array of shape {value.shape} to {wanted}",
        "keep the number of entries and the static dimensions of the type.",
    )


def _shrunk(value: Array, size: int, construct: str) -> Any:
    if size > width(value) or size < 0:
        raise SizeError(
            construct,
            f"can't shrink {width(value)} entries to {size}",
            "pass a size that isn't larger.",
        )
    if isinstance(value, NestedArray):
        items = [v if len(v) == 1 else _shrunk(v, size, construct) for v in value]
        return wrap_nested(type(value), items)
    return value[0:size]


def slice(value: Any, index: Any = 0) -> Any:
    """Select entries along the vectorized dimension, in all parts of a PyTree.

    Args:
        value: array or PyTree.
        index: int (evaluates the array) or integer array.

    Returns:
        For an int, arrays of the scalar namespace or Python numbers; else the same
        types as in `value`. Tensors, and arrays of the scalar namespace that have no
        such dimension, are returned as they are.

    >>> import lumijit as dr
    >>> dr.slice(dr.llvm.Array2f([1, 2], [3, 4]), 1)
    [2, 4]
    """
    return whole_map(lambda v: _sliced(v, index), value)


def _sliced(value: Any, index: Any) -> Any:
    if not isinstance(value, ArrayBase):
        return value
    if value._spec.kind is TENSOR or DYNAMIC not in value._spec.shape:
        return value
    if isinstance(index, ArrayBase):
        return gather(type(value), value, index)
    position = initialize.whole_number("lumijit.slice", "the index", index)
    if not isinstance(value, NestedArray) or not value._spec.is_jit:
        is_single = isinstance(value, FlatArray) and len(value) == 1
        return value[0 if is_single and position >= 0 else position]
    cls = require(value._spec.replaced(backend=SCALAR, is_diff=False), "lumijit.slice")
    return cls([_sliced(v, position) for v in value])
