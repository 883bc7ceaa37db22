"""Operations along the vectorized dimension that keep it: scans, blocks, compress."""

from __future__ import annotations

from typing import Any

import numpy as np

from lumijit.arrays import FlatArray
from lumijit.base import Array, ArrayBase, symbolic_error
from lumijit.compiler.derive import collectives
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.record import reductions
from lumijit.enums import ReduceOp
from lumijit.functions.apply import not_numeric
from lumijit.functions.reductions import check_strategy, is_scattered
from lumijit.functions.scattering import HOST_UPDATES, check_reducible
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.pytree import is_container, tree_map
from lumijit.runtime.dtypes import BOOL, UINT32
from lumijit.runtime.errors import (
    ArrayTypeError,
    ArrayValueError,
    SizeError,
)
from lumijit.scalar_arrays import HostArray
from lumijit.spec import require


def prefix_sum(value: Any, exclusive: bool = True, axis: int | None = 0) -> Any:
    """Sum all entries before each one, along the outermost dimension.

    Args:
        value: array of numbers, or list or tuple of numbers.
        exclusive: whether an entry's own value is left out.
        axis: only 0 (or None for flat arrays).

    Returns:
        The running sums, of the type of `value`.

    Raises:
        ArrayTypeError: for masks and other things that can't be added.

    >>> import lumijit as dr
    >>> dr.prefix_sum(dr.llvm.UInt(1, 2, 3))
    [0, 1, 3]
    """
    construct = "lumijit.prefix_sum"
    if axis not in (0, None) or (axis is None and isinstance(value, NestedArray)):
        raise ArrayValueError(construct, f"axis {axis} isn't supported", "use axis 0.")
    if isinstance(value, (list, tuple)):
        return type(value)(_running(list(value), exclusive))
    if not isinstance(value, ArrayBase):
        raise not_numeric(construct, (value,))
    check_reducible(ReduceOp.Add, value._spec, construct)
    if isinstance(value, FlatArray):
        _check_readable(value, construct)
        return wrap_flat(type(value), collectives.prefix_sum(value._node, exclusive))
    if isinstance(value, HostArray):
        with np.errstate(all="ignore"):
            total = np.cumsum(value._data, dtype=value._data.dtype)
        if exclusive:
            total = np.concatenate([np.zeros(1, total.dtype), total])[: len(value)]
        return type(value)(total)
    return wrap_nested(type(value), _running(list(value), exclusive))


def _running(items: list[Any], exclusive: bool) -> list[Any]:
    sums: list[Any] = []
    total: Any = items[0] * 0 if items else 0
    for item in items:
        if exclusive:
            sums.append(total)
        total = total + item
        if not exclusive:
            sums.append(total)
    return sums


def _check_readable(value: Array, construct: str) -> None:
    if value._is_symbolic():
        raise symbolic_error(construct)


def cumsum(arg: Any, /) -> Any:
    """Sum all entries up to each one: an inclusive prefix sum.

    Args:
        arg: array of numbers, or list or tuple of numbers.

    Returns:
        The running sums, of the type of `arg`.

    >>> import lumijit as dr
    >>> dr.cumsum(dr.llvm.Float(1, 2, 3))
    [1, 3, 6]
    """
    return prefix_sum(arg, exclusive=False)


def block_reduce(
    op: ReduceOp, value: Any, block_size: int, mode: str | None = None
) -> Any:
    """Combine each run of `block_size` entries of the vectorized dimension.

    Args:
        op: how entries are combined.
        value: array or PyTree of arrays.
        block_size: number of entries in a block; it divides the size.
        mode: "evaluated" computes the array first; "symbolic" adds the entries to
            their blocks, in any order, in the kernel that computes them. None
            chooses the latter for what would take a GiB of memory.

    Returns:
        Arrays of the same type with fewer entries.

    Raises:
        SizeError: if the block size doesn't divide the size.

    >>> import lumijit as dr
    >>> dr.block_reduce(dr.ReduceOp.Max, dr.llvm.UInt(1, 2, 3, 4), 2)
    [2, 4]
    """
    construct = "lumijit.block_reduce"
    check_strategy(mode, construct)
    if is_container(value):
        return tree_map(lambda v: block_reduce(op, v, block_size, mode), value)
    if not isinstance(value, ArrayBase):
        return value
    if not isinstance(op, ReduceOp):
        raise ArrayTypeError(construct, f"op is {op!r}", "pass a ReduceOp.")
    check_reducible(op, value._spec, construct)
    if op is ReduceOp.Identity:
        return value
    if isinstance(value, NestedArray):
        items = [block_reduce(op, v, block_size, mode) for v in value]
        return wrap_nested(type(value), items)
    if block_size < 1 or len(value) % block_size:
        raise SizeError(
            construct,
            f"the size {len(value)} is no multiple of the block size {block_size}",
            "choose a block size that divides the size.",
        )
    if not isinstance(value, FlatArray):
        blocks = value._data.reshape(-1, block_size)
        with np.errstate(all="ignore"):
            data = HOST_UPDATES[op].reduce(blocks, axis=1, dtype=blocks.dtype)
        return type(value)(data)
    _check_readable(value, construct)
    combine = collectives.block_reduce
    if is_scattered(mode, value):
        combine = reductions.reduce_symbolically
    node = combine(op.trace_name, value._node, block_size)
    return wrap_flat(type(value), node)


def block_sum(value: Any, block_size: int, mode: str | None = None) -> Any:
    """Add up each run of `block_size` entries (see `block_reduce`).

    Args:
        value: array or PyTree of arrays.
        block_size: number of entries in a block; it divides the size.
        mode: strategy, as of `block_reduce`.

    Returns:
        Arrays of the same type with fewer entries.

    >>> import lumijit as dr
    >>> dr.block_sum(dr.llvm.Float(1, 2, 3, 4), 2)
    [3, 7]
    """
    return block_reduce(ReduceOp.Add, value, block_size, mode)


def compress(arg: Array, /) -> Array:
    """Return the positions of the set entries of a flat mask; evaluates it.

    Args:
        arg: flat mask.

    Returns:
        A UInt32 array as long as there are set entries.

    Raises:
        ArrayTypeError: if `arg` is no flat mask.

    >>> import lumijit as dr
    >>> dr.compress(dr.llvm.Bool(True, False, True))
    [0, 2]
    """
    construct = "lumijit.compress"
    spec = getattr(arg, "_spec", None)
    if spec is None or spec.dtype is not BOOL or len(spec.shape) != 1:
        raise ArrayTypeError(
            construct,
            f"the argument has type {type(arg).__name__!r} (expected a flat mask)",
            "pass a mask such as 'x > 0'.",
        )
    if isinstance(arg, HostArray):
        cls = require(spec.replaced(dtype=UINT32, outer=(-1,)), construct)
        return cls(np.flatnonzero(arg._data))
    _check_readable(arg, construct)
    cls = require(spec.replaced(dtype=UINT32), construct)
    return wrap_flat(cls, reductions.compress(arg._node))
