"""Reductions of masks: all, any, none, count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lumijit import initialize
from lumijit.base import ArrayBase
from lumijit.enums import ReduceOp
from lumijit.functions.apply import not_numeric
from lumijit.functions.axes import Axis
from lumijit.functions.reductions import reduced
from lumijit.functions.selection import select
from lumijit.pytree import tree_leaves
from lumijit.runtime.dtypes import BOOL, UINT32
from lumijit.runtime.errors import ArrayTypeError
from lumijit.spec import require


def _checked(value: Any, construct: str) -> Any:
    if isinstance(value, ArrayBase):
        if value._spec.dtype is not BOOL:
            raise ArrayTypeError(
                construct,
                f"the argument has type {type(value).__name__} (expected a mask)",
                "compare it first, e.g. 'x != 0'.",
            )
        return value
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    is_text = isinstance(value, (str, bytes))
    if is_text or initialize.is_number(value) or not hasattr(value, "__iter__"):
        raise not_numeric(construct, (value,))
    return [_checked(v, construct) for v in initialize.items_of(construct, value)]


def all(value: Any, axis: Axis = ..., keepdims: bool = False) -> Any:
    """Tell whether all entries along axes are set (see `reduce`).

    Args:
        value: mask, bool or iterable of these.
        axis: axis or axes, as of `reduce`.
        keepdims: whether reduced axes of a tensor stay, with size 1.

    Returns:
        A mask without the reduced axes, or a bool; True for nothing. A mask of one
        entry can stand in a Python `if`, which evaluates it.

    >>> import lumijit as dr
    >>> dr.all(dr.llvm.Bool(True, False)), dr.all([True, True])
    ([False], True)
    """
    return _reduced("lumijit.all", ReduceOp.And, value, axis, keepdims)


def any(value: Any, axis: Axis = ..., keepdims: bool = False) -> Any:
    """Tell whether an entry along axes is set (see `reduce`).

    Args:
        value: mask, bool or iterable of these.
        axis: axis or axes, as of `reduce`.
        keepdims: whether reduced axes of a tensor stay, with size 1.

    Returns:
        A mask without the reduced axes, or a bool; False for nothing.

    >>> import lumijit as dr
    >>> dr.any(dr.llvm.Bool(True, False))
    [True]
    """
    return _reduced("lumijit.any", ReduceOp.Or, value, axis, keepdims)


def none(value: Any, axis: Axis = ..., keepdims: bool = False) -> Any:
    """Tell whether no entry along axes is set (see `reduce`).

    Args:
        value: mask, bool or iterable of these.
        axis: axis or axes, as of `reduce`.
        keepdims: whether reduced axes of a tensor stay, with size 1.

    Returns:
        A mask without the reduced axes, or a bool; True for nothing.

    >>> import lumijit as dr
    >>> dr.none([False, False])
    True
    """
    result = _reduced("lumijit.none", ReduceOp.Or, value, axis, keepdims)
    return not result if isinstance(result, bool) else ~result


def count(value: Any, axis: Axis = ..., keepdims: bool = False) -> Any:
    """Count the entries that are set along axes (see `reduce`).

    Args:
        value: mask, bool or iterable of these; of arrays of numbers, entries count
            that aren't 0.
        axis: axis or axes, as of `reduce`.
        keepdims: whether reduced axes of a tensor stay, with size 1.

    Returns:
        A UInt32 array without the reduced axes, or an int.

    >>> import lumijit as dr
    >>> dr.count(dr.llvm.Bool(True, False, True))
    [2]
    """
    construct = "lumijit.count"
    counts = _as_counts(_checked(_as_masks(value), construct))
    return reduced(construct, ReduceOp.Add, counts, axis, None, keepdims)


def _reduced(
    construct: str, op: ReduceOp, value: Any, axis: Axis, keepdims: bool
) -> Any:
    return reduced(construct, op, _checked(value, construct), axis, None, keepdims)


def _as_masks(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_as_masks(v) for v in value]
    is_mask = not isinstance(value, ArrayBase) or value._spec.dtype.is_bool
    return value if is_mask else value != 0


def _as_counts(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_counts(v) for v in value]
    if isinstance(value, bool):
        return int(value)
    cls = require(value._spec.replaced(dtype=UINT32), "lumijit.count")
    return select(value, cls(1), cls(0))


def _nested(whole: Callable[..., Any], part: Callable[..., Any], value: Any) -> Any:
    """Reduce an array, or the parts of a PyTree and what these are reduced to."""
    if isinstance(value, ArrayBase):
        return whole(value, None)
    return whole([part(leaf, None) for _, leaf in tree_leaves(value)])


def all_nested(value: Any, /) -> Any:
    """Tell whether all entries of a PyTree of masks are set.

    Args:
        value: PyTree of masks.

    Returns:
        A mask of one entry (of a tensor, a tensor), or a bool.

    >>> import lumijit as dr
    >>> dr.all_nested([True, (True, False)])
    False
    """
    return _nested(all, all, value)


def any_nested(value: Any, /) -> Any:
    """Tell whether any entry of a PyTree of masks is set.

    Args:
        value: PyTree of masks.

    Returns:
        A mask of one entry, or a bool.

    >>> import lumijit as dr
    >>> dr.any_nested([True, (True, False)])
    True
    """
    return _nested(any, any, value)


def none_nested(value: Any, /) -> Any:
    """Tell whether no entry of a PyTree of masks is set.

    Args:
        value: PyTree of masks.

    Returns:
        A mask of one entry, or a bool.

    >>> import lumijit as dr
    >>> dr.none_nested([False, (False,)])
    True
    """
    return _nested(none, any, value)
