"""Operations along the vectorized dimension that keep it: scans, blocks, compress."""

from __future__ import annotations

from typing import Any

import numpy as np

from lumijit import initialize
from lumijit.base import Array, ArrayBase, symbolic_error
from lumijit.compiler.derive import collectives
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.record import reductions
from lumijit.enums import ReduceOp
from lumijit.functions.apply import not_numeric
from lumijit.functions.axes import checked_axis, run_shape
from lumijit.functions.reductions import (
    check_strategy,
    combined,
    combined_runs,
    neutral_entry,
)
from lumijit.functions.repetition import reverse as reversed_
from lumijit.functions.repetition import widened
from lumijit.functions.scattering import HOST_UPDATES, check_op, check_reducible
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.pytree import is_container, tree_map
from lumijit.pytree_walks import whole_map
from lumijit.runtime.dtypes import BOOL, UINT32
from lumijit.runtime.errors import (
    ArrayTypeError,
    SizeError,
)
from lumijit.scalar_arrays import HostArray
from lumijit.spec import TENSOR, require


def prefix_sum(
    value: Any,
    exclusive: bool = True,
    axis: int | tuple[int, ...] | None = 0,
    reverse: bool = False,
) -> Any:
    """Sum all entries before each one, along a dimension.

    Args:
        value: array of numbers, or list or tuple of numbers.
        exclusive: whether an entry's own value is left out.
        axis: which dimension, or a tuple of them, one after the other; None for the
            only one of flat arrays.
        reverse: whether to sum the entries after each one.

    Returns:
        The running sums, of the type of `value`.

    Raises:
        ArrayTypeError: for masks and other things that can't be added.

    >>> import lumijit as dr
    >>> dr.prefix_sum(dr.llvm.UInt(1, 2, 3))
    [0, 1, 3]
    """
    construct = "lumijit.prefix_sum"
    if axis is None and (not isinstance(value, ArrayBase) or value.ndim == 1):
        axis = 0
    return _along_all(construct, ReduceOp.Add, value, axis, exclusive, reverse)


def prefix_reduce(
    op: ReduceOp,
    value: Any,
    axis: Any = 0,
    exclusive: bool = True,
    reverse: bool = False,
) -> Any:
    """Combine all entries before each one, along a dimension.

    Args:
        op: how entries are combined.
        value: array of numbers, or list or tuple of numbers.
        axis: which dimension, or a tuple of them, one after the other.
        exclusive: whether an entry's own value is left out; the first entry then is
            the neutral value of the operation.
        reverse: whether to combine the entries after each one.

    Returns:
        The combinations, of the type of `value`.

    Raises:
        ArrayTypeError: if the operation isn't defined for the entries.
        ArrayValueError: if an axis doesn't exist.

    >>> import lumijit as dr
    >>> dr.prefix_reduce(dr.ReduceOp.Max, dr.llvm.UInt(2, 1, 3), exclusive=False)
    [2, 2, 3]
    """
    construct = "lumijit.prefix_reduce"
    check_op(op, construct)
    return _along_all(construct, op, value, axis, exclusive, reverse)


def _along_all(
    construct: str, op: ReduceOp, value: Any, axis: Any, exclusive: bool, reverse: bool
) -> Any:
    for k in axis if isinstance(axis, tuple) else (axis,):
        value = _prefix(construct, op, value, k, exclusive, reverse)
    return value


def _prefix(
    construct: str, op: ReduceOp, value: Any, axis: Any, exclusive: bool, reverse: bool
) -> Any:
    ndim = value.ndim if isinstance(value, ArrayBase) else 1
    axis = checked_axis(construct, axis, ndim)
    if isinstance(value, (list, tuple)):
        return type(value)(_running(construct, op, list(value), exclusive, reverse))
    if not isinstance(value, ArrayBase):
        raise not_numeric(construct, (value,))
    check_reducible(op, value._spec, construct)

    def scanned(flat: Any, block: int, inner: int = 1) -> Any:
        return _blocks(construct, op, flat, block, exclusive, reverse, inner)

    if value._spec.kind is TENSOR:
        return type(value)(scanned(value.array, *run_shape(value, axis)), value.shape)
    if not isinstance(value, NestedArray):
        if value._spec.kind.is_special:
            entries = value.array
            found = _prefix(construct, op, entries, axis, exclusive, reverse)
            return type(value)(*found)
        return scanned(value, len(value))
    items = list(value)
    if axis == 0:
        items = _running(construct, op, items, exclusive, reverse)
    else:
        items = [_prefix(construct, op, v, axis - 1, exclusive, reverse) for v in items]
    return wrap_nested(type(value), items)


def _running(
    construct: str, op: ReduceOp, items: list[Any], exclusive: bool, reverse: bool
) -> list[Any]:
    found: list[Any] = []
    total: Any = None
    for item in items[::-1] if reverse else items:
        if total is None:
            is_array = isinstance(item, ArrayBase)
            total = neutral_entry(op, item._spec.dtype if is_array else None)
            before, total = type(item)(total) if is_array else total, item
        else:
            before, total = total, combined(construct, op, total, item)
        found.append(before if exclusive else total)
    return found[::-1] if reverse else found


def block_prefix_reduce(
    op: ReduceOp,
    value: Any,
    block_size: int,
    exclusive: bool = True,
    reverse: bool = False,
) -> Any:
    """Combine the entries before each one, in each run of the vectorized dimension.

    Args:
        op: how entries are combined.
        value: array or PyTree of arrays.
        block_size: number of entries in a run; it divides the size.
        exclusive: whether an entry's own value is left out; the first entry of a run
            then is the neutral value of the operation.
        reverse: whether to combine the entries after each one.

    Returns:
        Arrays of the same types and sizes.

    Raises:
        ArrayTypeError: if the operation isn't defined for the entries.
        SizeError: if the block size doesn't divide the size.

    >>> import lumijit as dr
    >>> dr.block_prefix_reduce(dr.ReduceOp.Mul, dr.llvm.UInt(2, 3, 4, 5), 2)
    [1, 2, 1, 4]
    """
    construct = "lumijit.block_prefix_reduce"
    check_op(op, construct)

    def scanned(leaf: Any) -> Any:
        if not isinstance(leaf, ArrayBase):
            return leaf
        check_reducible(op, leaf._spec, construct)
        if isinstance(leaf, NestedArray):
            return wrap_nested(type(leaf), [scanned(v) for v in widened(leaf)])
        return _blocks(construct, op, leaf, block_size, exclusive, reverse)

    return tree_map(scanned, value)


def block_prefix_sum(
    value: Any, block_size: int, exclusive: bool = True, reverse: bool = False
) -> Any:
    """Sum the entries before each one, in each run (see `block_prefix_reduce`).

    Args:
        value: array or PyTree of arrays.
        block_size: number of entries in a run; it divides the size.
        exclusive: whether an entry's own value is left out.
        reverse: whether to sum the entries after each one.

    Returns:
        Arrays of the same types and sizes.

    >>> import lumijit as dr
    >>> dr.block_prefix_sum(dr.llvm.UInt(1, 2, 3, 4), 2)
    [0, 1, 0, 3]
    """
    return block_prefix_reduce(ReduceOp.Add, value, block_size, exclusive, reverse)


def _blocks(
    construct: str,
    op: ReduceOp,
    value: Any,
    block: int,
    exclusive: bool,
    reverse: bool,
    inner: int = 1,
) -> Any:
    """Scan the runs of a flat array, or of one in the scalar namespace.

    What is `inner` entries apart makes a run.
    """
    size = len(value)
    if size == 0 or op is ReduceOp.Identity:
        return value
    block = _checked_block(construct, size, block)
    if isinstance(value, HostArray):
        found = _host_blocks(op, value, block, exclusive, reverse, inner)
        return type(value)(found)
    if value._is_symbolic():
        raise symbolic_error(construct)
    if reverse:
        value = reversed_(value)
    node = value._node
    node = collectives.block_prefix(op.trace_name, node, block, exclusive, inner)
    found = wrap_flat(type(value), node)
    return reversed_(found) if reverse else found


def _checked_block(construct: str, size: int, block: int) -> int:
    block = initialize.whole_number(construct, "the block size", block)
    if block < 1 or size % block:
        raise SizeError(
            construct,
            f"the size {size} is no multiple of the block size {block}",
            "choose a block size that divides the size.",
        )
    return block


def _host_blocks(
    op: ReduceOp,
    value: HostArray,
    block: int,
    exclusive: bool,
    reverse: bool,
    inner: int,
) -> Any:
    rows = value._data.reshape(-1, block, inner)[:, :: -1 if reverse else 1]
    with np.errstate(all="ignore"):
        found = HOST_UPDATES[op].accumulate(rows, axis=1, dtype=rows.dtype)
    if exclusive:
        first = np.full_like(rows[:, :1], neutral_entry(op, value._spec.dtype))
        found = np.concatenate([first, found], axis=1)[:, :-1]
    return found[:, :: -1 if reverse else 1].reshape(-1)


def cumsum(
    value: Any, axis: int | tuple[int, ...] | None = 0, reverse: bool = False
) -> Any:
    """Sum all entries up to each one: an inclusive prefix sum.

    Args:
        value: array of numbers, or list or tuple of numbers.
        axis: which dimension, or a tuple of them, one after the other; None for the
            only one of flat arrays.
        reverse: whether to sum from each entry on.

    Returns:
        The running sums, of the type of `value`.

    >>> import lumijit as dr
    >>> dr.cumsum(dr.llvm.Float(1, 2, 3))
    [1, 3, 6]
    """
    return prefix_sum(value, False, axis, reverse)


def block_reduce(
    op: ReduceOp, value: Any, block_size: int, mode: str | None = None
) -> Any:
    """Combine each run of `block_size` entries of the vectorized dimension.

    Args:
        op: how entries are combined.
        value: array or PyTree of arrays. Of a tensor, the entries in their order in
            memory are reduced, and the result has one dimension.
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
    if isinstance(value, ArrayBase) and value._spec.kind is TENSOR:
        return type(value)(block_reduce(op, value.array, block_size, mode))
    if is_container(value):
        return whole_map(lambda v: block_reduce(op, v, block_size, mode), value)
    if not isinstance(value, ArrayBase):
        return value
    check_op(op, construct)
    check_reducible(op, value._spec, construct)
    if op is ReduceOp.Identity:
        return value
    if isinstance(value, NestedArray):
        items = [block_reduce(op, v, block_size, mode) for v in widened(value)]
        return wrap_nested(type(value), items)
    block_size = _checked_block(construct, len(value), block_size)
    return combined_runs(construct, op, value, block_size, 1, mode)


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
    is_flat = spec is not None and len(spec.shape) == 1 and spec.kind is not TENSOR
    if spec is None or spec.dtype is not BOOL or not is_flat:
        raise ArrayTypeError(
            construct,
            f"the argument has type {type(arg).__name__!r} (expected a flat mask)",
            "pass a mask such as 'x > 0'.",
        )
    if isinstance(arg, HostArray):
        cls = require(spec.replaced(dtype=UINT32, outer=(-1,)), construct)
        return cls(np.flatnonzero(arg._data))
    if arg._is_symbolic():
        raise symbolic_error(construct)
    cls = require(spec.replaced(dtype=UINT32), construct)
    return wrap_flat(cls, reductions.compress(arg._node))
