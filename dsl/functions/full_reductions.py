"""Reductions of everything: all entries of all arrays in a PyTree to one.

Reductions along axes, which these are made of, are in `reductions`.
"""

from __future__ import annotations

from typing import Any

from lumijit.base import ArrayBase
from lumijit.enums import ReduceOp
from lumijit.functions.reductions import reduce
from lumijit.pytree import tree_leaves


def _whole(op: ReduceOp, value: Any) -> Any:
    if isinstance(value, ArrayBase):
        return reduce(op, value, None)
    leaves = [leaf for _, leaf in tree_leaves(value)]
    return reduce(op, [reduce(op, leaf, None) for leaf in leaves])


def sum_nested(value: Any, /) -> Any:
    """Add up all entries of a PyTree.

    Args:
        value: PyTree of arrays and numbers.

    Returns:
        The sum: an array of one entry, or a number; 0 for nothing.

    >>> import lumijit as dr
    >>> dr.sum_nested([1, (2, 3)]), dr.sum_nested(dr.llvm.Array2f(1, [2, 3]))
    (6, [7])
    """
    return _whole(ReduceOp.Add, value)


def prod_nested(value: Any, /) -> Any:
    """Multiply all entries of a PyTree.

    Args:
        value: PyTree of arrays and numbers.

    Returns:
        The product: an array of one entry, or a number; 1 for nothing.

    >>> import lumijit as dr
    >>> dr.prod_nested({"a": 2, "b": (3, 4)})
    24
    """
    return _whole(ReduceOp.Mul, value)


def min_nested(value: Any, /) -> Any:
    """Find the smallest entry in a PyTree.

    Args:
        value: PyTree of arrays and numbers.

    Returns:
        The minimum: an array of one entry, or a number; infinity for nothing.

    >>> import lumijit as dr
    >>> dr.min_nested([3, dr.llvm.Int(5, 2)])
    [2]
    """
    return _whole(ReduceOp.Min, value)


def max_nested(value: Any, /) -> Any:
    """Find the largest entry in a PyTree.

    Args:
        value: PyTree of arrays and numbers.

    Returns:
        The maximum: an array of one entry, or a number; -infinity for nothing.

    >>> import lumijit as dr
    >>> dr.max_nested([3, dr.llvm.Int(5, 2)])
    [5]
    """
    return _whole(ReduceOp.Max, value)
