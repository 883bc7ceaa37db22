"""Combining entries: sums, extremes, masks, prefix sums, compression.

Axis 0 is the outermost dimension. Static dimensions are reduced in the trace; the
vectorized dimension by a kernel of its own, and it stays as a dimension of size 1.
Those of a tensor all lie in memory, and vanish.
"""

from __future__ import annotations

import math
from functools import reduce as fold
from typing import Any

import numpy as np

from lumijit import initialize
from lumijit.arrays import FlatArray
from lumijit.base import Array, ArrayBase, symbolic_error
from lumijit.compiler.derive import collectives
from lumijit.compiler.emit.combine import identity
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.record import reductions
from lumijit.compiler.record.reductions import OPS
from lumijit.enums import ReduceOp, VarState
from lumijit.functions.apply import apply, not_numeric
from lumijit.functions.axes import Axis, reduced_axes
from lumijit.functions.creation import full
from lumijit.functions.scattering import HOST_UPDATES, check_op, check_reducible
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.runtime.dtypes import DType
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.scalar_arrays import HostArray
from lumijit.spec import TENSOR, require

# Larger arrays are reduced where they are computed.
HUGE_BYTES = 1 << 30

_EMPTY: dict[ReduceOp, Any] = {
    ReduceOp.Add: 0,
    ReduceOp.Mul: 1,
    ReduceOp.Min: float("inf"),
    ReduceOp.Max: float("-inf"),
    ReduceOp.And: True,
    ReduceOp.Or: False,
}


def reduce(
    op: ReduceOp,
    value: Any,
    axis: Axis = ...,
    mode: str | None = None,
    keepdims: bool = False,
) -> Any:
    """Combine the entries of an array, sequence or number along axes.

    Args:
        op: how entries are combined.
        value: array, number or iterable of these.
        axis: axis or axes, negative ones from the end; None for all. By default, all
            of a tensor and the outermost of everything else.
        mode: how the vectorized dimension is reduced. "evaluated" computes the
            array and runs a reduction kernel, in a fixed order (one kernel does both
            for what few operations make of few arrays). "symbolic" reduces
            with `scatter_reduce`, in the kernel that computes the array, which
            never lies in memory; floats are rounded in an order that may differ
            from run to run. None takes "evaluated" unless the array isn't in memory
            and would take a GiB there.
        keepdims: whether reduced axes of a tensor stay, with size 1.

    Returns:
        An array without the reduced axes. The vectorized dimension of what is no
        tensor stays, with one entry. Empty arrays give the neutral value.

    Raises:
        ArrayTypeError: if the operation isn't defined for the entries.
        ArrayValueError: if an axis doesn't exist.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Array3f
    >>> dr.reduce(dr.ReduceOp.Mul, Array3f(2, 3, [4, 5]))
    [24, 30]
    """
    construct = f"lumijit.reduce({getattr(op, 'name', op)})"
    return reduced(construct, op, value, axis, mode, keepdims)


def reduced(
    construct: str,
    op: ReduceOp,
    value: Any,
    axis: Axis,
    mode: Any,
    keepdims: bool = False,
) -> Any:
    """Reduce as `reduce` does, on behalf of a function that errors name."""
    check_op(op, construct)
    check_strategy(mode, construct)
    if isinstance(value, ArrayBase):
        if op is ReduceOp.Identity:
            return value._copy()
        axes = reduced_axes(construct, axis, value)
        # Along axis 0, parts of numbers are reduced, which are real.
        is_real = value._spec.kind.is_number and 0 in axes
        spec = value._spec.plain() if is_real else value._spec
        check_reducible(op, spec, construct)
        if value._spec.kind is TENSOR:
            return _of_tensor(op, value, axes, mode, keepdims)
        if keepdims and axes != {value.ndim - 1}:
            raise ArrayTypeError(
                construct,
                f"reduced axes of {type(value).__name__} can't stay with size 1",
                "leave 'keepdims' out, or convert the array to a tensor.",
            )
        return _along(op, value, axes, mode)
    if initialize.is_number(value):
        is_bitwise = op in (ReduceOp.And, ReduceOp.Or)
        if is_bitwise and not isinstance(value, (bool, np.bool_)):
            raise not_numeric(construct, (value,))
        return value
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise not_numeric(construct, (value,))
    if axis is Ellipsis:
        axis = 0
    if axis not in (0, None, (0,)) or keepdims:
        raise ArrayValueError(
            construct,
            f"sequences have no axis {axis} that could be reduced or kept",
            "use axis 0 or None, and no 'keepdims'.",
        )
    return _fold_sequence(construct, op, value, axis, mode)


def as_entries(value: Any) -> Any:
    """Return complex numbers, quaternions and matrices as arrays of their entries."""
    is_special = isinstance(value, ArrayBase) and value._spec.kind.is_special
    return value.array if is_special else value


def _of_tensor(
    op: ReduceOp, value: Any, axes: set[int], mode: Any, keepdims: bool
) -> Any:
    """Reduce axes of a tensor, last ones first; neighbours at once."""
    flat, shape = value.array, value.shape
    result = []
    for k, n in enumerate(shape):
        if k not in axes:
            result.append(n)
        elif keepdims:
            result.append(1)
    axis = len(shape)
    inner = 1
    while axis:
        axis -= 1
        if axis not in axes:
            inner *= shape[axis]
            continue
        length = shape[axis]
        while axis and axis - 1 in axes:
            axis -= 1
            length *= shape[axis]
        count = math.prod(shape[:axis]) * inner
        flat = _of_rows(op, flat, count, length, inner, mode)
    if flat is value.array:
        flat = flat._copy()
    make = value._of if isinstance(flat, FlatArray) else type(value)
    return make(flat, tuple(result))


def _of_rows(
    op: ReduceOp, flat: Any, count: int, length: int, inner: int, mode: Any
) -> Any:
    """Combine each run of `length` rows of `inner` entries of a flat array."""
    if length == 1 or count == 0:
        return flat if count else flat[:0]
    if len(flat) == 0:
        return full(type(flat), neutral_entry(op, flat._spec.dtype), count)
    if count == 1:
        return _along(op, flat, {0}, mode)
    return combined_runs("lumijit.reduce", op, flat, length, inner, mode)


def combined_runs(
    construct: str, op: ReduceOp, flat: Any, length: int, inner: int, mode: Any
) -> Any:
    """Combine each run of `length` rows, of which there is one at least."""
    if isinstance(flat, HostArray):
        rows = flat._data.reshape(-1, length, inner)
        with np.errstate(all="ignore"):
            data = HOST_UPDATES[op].reduce(rows, axis=1, dtype=rows.dtype)
        return type(flat)(data.reshape(-1))
    if flat._is_symbolic():
        raise symbolic_error(construct)
    combine = collectives.block_reduce
    if is_scattered(mode, flat):
        combine = reductions.reduce_symbolically
    return wrap_flat(type(flat), combine(op.trace_name, flat._node, length, inner))


def _fold_sequence(
    construct: str, op: ReduceOp, value: Any, axis: Any, mode: Any
) -> Any:
    items = initialize.items_of(construct, value)
    if axis is None:
        items = [reduced(construct, op, v, None, mode) for v in items]
    if not items:
        return _EMPTY[op]
    if len(items) == 1:
        (item,) = items
        return item._copy() if isinstance(item, ArrayBase) else item
    return fold(lambda a, b: combined(construct, op, a, b), items)


def combined(construct: str, op: ReduceOp, a: Any, b: Any) -> Any:
    """Combine two values, numbers or arrays."""
    if op in (ReduceOp.And, ReduceOp.Or):
        numbers = [v for v in (a, b) if initialize.is_number(v)]
        if any(not isinstance(v, (bool, np.bool_)) for v in numbers):
            raise not_numeric(construct, (a, b))
        return a & b if op is ReduceOp.And else a | b
    return apply(OPS[op.trace_name], construct, a, b)


def _along(
    op: ReduceOp, value: Any, axes: set[int], mode: str | None, depth: int = 0
) -> Any:
    if isinstance(value, FlatArray):
        if depth not in axes:
            return value
        combine = collectives.reduce
        if is_scattered(mode, value):
            combine = reductions.reduce_symbolically
        return wrap_flat(type(value), combine(op.trace_name, value._node))
    if isinstance(value, HostArray):
        return _host_reduce(op, value) if depth in axes else value
    if not isinstance(value, NestedArray):
        return value
    items = value._items
    if depth in axes:
        if not items:
            joined = value._item(neutral_entry(op, value._spec.dtype))
        elif len(items) == 1:
            joined = items[0]._copy()
        else:
            joined = fold(lambda a, b: a._map(OPS[op.trace_name], b), items)
        return _along(op, joined, axes, mode, depth + 1)
    parts = [_along(op, v, axes, mode, depth + 1) for v in items]
    return _regrouped(value, parts)


def _regrouped(value: Array, parts: list[Any]) -> Array:
    """Collect reduced items in the array type that their type asks for."""
    if not parts or isinstance(parts[0], type(value._items[0])):
        return wrap_nested(type(value), parts)
    inner = parts[0]._spec.outer if isinstance(parts[0], ArrayBase) else ()
    outer = (value._spec.outer[0], *inner)
    return require(value._spec.replaced(outer=outer), "lumijit.reduce")(*parts)


def check_strategy(mode: Any, construct: str) -> None:
    """Refuse an unknown way to reduce the vectorized dimension."""
    if mode not in (None, "evaluated", "symbolic"):
        raise ArrayValueError(
            construct, f"mode is {mode!r}", "pass None, 'evaluated' or 'symbolic'."
        )


def is_scattered(mode: str | None, value: FlatArray) -> bool:
    """Tell whether an array is reduced by scattering, not once it is in memory.

    If nobody says, that is for what isn't in memory yet and would take a GiB there.
    """
    node = value._node
    size_bytes = node.size * node.type.size_bytes
    is_huge = size_bytes >= HUGE_BYTES and value.state is VarState.Unevaluated
    return mode == "symbolic" or (mode is None and is_huge)


def neutral_entry(op: ReduceOp, dtype: DType | None) -> Any:
    """Return the neutral value of an operation, for entries or Python numbers."""
    return _EMPTY[op] if dtype is None else identity(op.trace_name, dtype)


def _host_reduce(op: ReduceOp, value: Array) -> Any:
    data = value._data
    if len(data) == 0:
        return neutral_entry(op, value._spec.dtype)
    with np.errstate(all="ignore"):
        return HOST_UPDATES[op].reduce(data, dtype=data.dtype).item()


def sum(
    value: Any, axis: Axis = ..., mode: str | None = None, keepdims: bool = False
) -> Any:
    """Add up entries along axes (see `reduce`).

    Args:
        value: array, number or iterable of these.
        axis: axis or axes, as of `reduce`.
        mode: strategy for the vectorized dimension.
        keepdims: whether reduced axes of a tensor stay, with size 1.

    Returns:
        The sums; 0 for nothing. Floats are summed in a fixed order.

    >>> import lumijit as dr
    >>> dr.sum(dr.llvm.Float(1, 2, 3)), dr.sum([1, 2, 3])
    ([6], 6)
    """
    return reduced("lumijit.sum", ReduceOp.Add, value, axis, mode, keepdims)


def prod(
    value: Any, axis: Axis = ..., mode: str | None = None, keepdims: bool = False
) -> Any:
    """Multiply entries along axes (see `reduce`).

    Args:
        value: array, number or iterable of these.
        axis: axis or axes, as of `reduce`.
        mode: strategy for the vectorized dimension.
        keepdims: whether reduced axes of a tensor stay, with size 1.

    Returns:
        The products; 1 for nothing.

    >>> import lumijit as dr
    >>> dr.prod(dr.llvm.Float(2, 3, 4))
    [24]
    """
    return reduced("lumijit.prod", ReduceOp.Mul, value, axis, mode, keepdims)


def min(
    value: Any, axis: Axis = ..., mode: str | None = None, keepdims: bool = False
) -> Any:
    """Find the smallest entry along axes (see `reduce`).

    Args:
        value: array, number or iterable of these.
        axis: axis or axes, as of `reduce`.
        mode: strategy for the vectorized dimension.
        keepdims: whether reduced axes of a tensor stay, with size 1.

    Returns:
        The minima; the largest value of the type for nothing.

    >>> import lumijit as dr
    >>> dr.min(dr.llvm.Float(3, 1, 2))
    [1]
    """
    return reduced("lumijit.min", ReduceOp.Min, value, axis, mode, keepdims)


def max(
    value: Any, axis: Axis = ..., mode: str | None = None, keepdims: bool = False
) -> Any:
    """Find the largest entry along axes (see `reduce`).

    Args:
        value: array, number or iterable of these.
        axis: axis or axes, as of `reduce`.
        mode: strategy for the vectorized dimension.
        keepdims: whether reduced axes of a tensor stay, with size 1.

    Returns:
        The maxima; the smallest value of the type for nothing.

    >>> import lumijit as dr
    >>> dr.max(dr.llvm.Float(3, 1, 2))
    [3]
    """
    return reduced("lumijit.max", ReduceOp.Max, value, axis, mode, keepdims)
