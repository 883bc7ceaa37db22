"""Questions about the sizes of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lumijit import initialize
from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.ir import trace
from lumijit.functions.apply import not_numeric
from lumijit.pytree import is_container, tree_leaves
from lumijit.runtime.errors import SizeError


def shape(arg: Any, /) -> tuple[int, ...]:
    """Return the dimensions of an array or of nested sequences.

    Args:
        arg: array, sequence or number.

    Returns:
        One number per dimension.

    Raises:
        SizeError: if the input is ragged.

    >>> import lumijit as dr
    >>> dr.shape(dr.llvm.Array3f([1, 2], 3, 4)), dr.shape([[1, 2], [3, 4]])
    ((3, 2), (2, 2))
    """
    if isinstance(arg, ArrayBase):
        return arg.shape
    if initialize.is_number(arg):
        return ()
    if not isinstance(arg, (list, tuple)):
        raise not_numeric("lumijit.shape", (arg,))
    inner = [shape(v) for v in arg]
    widest = max(inner, key=len, default=())
    for item in inner:
        if item not in ((), widest):
            raise SizeError(
                "lumijit.shape",
                "the input is ragged: its items differ in shape",
                "give all items the same shape.",
            )
    return (len(arg), *widest)


def strides(dimensions: Sequence[int], order: str = "C") -> tuple[int, ...]:
    """Return how far entries are apart along each dimension of what lies in memory.

    The last index varies fastest, in order "F" the first.
    """
    found = [0] * len(dimensions)
    total = 1
    axes = range(len(dimensions))
    for axis in axes if order == "F" else reversed(axes):
        found[axis] = total
        total *= dimensions[axis]
    return tuple(found)


def _leaves(args: tuple[Any, ...]) -> Iterable[Any]:
    if len(args) == 1 and not is_container(args[0]):
        return args
    return (leaf for _, leaf in tree_leaves(args))


def width(*args: Any) -> int:
    """Return the size of the vectorized dimension of arrays and PyTrees.

    Args:
        *args: arrays and PyTrees.

    Returns:
        The common size; 1 if there are no arrays with such a dimension.

    Raises:
        SizeError: if the sizes differ.

    >>> import lumijit as dr
    >>> dr.width([1, dr.llvm.Float(1, 2)]), dr.width(1)
    (2, 1)
    """
    result = 1
    for leaf in _leaves(args):
        if isinstance(leaf, FlatArray):
            size = leaf._node.size
        elif not isinstance(leaf, ArrayBase) or leaf._spec.shape[-1] >= 0:
            continue
        else:
            size = leaf.shape[-1]
        if size == 1 and trace.state.lane is not None and leaf._spec.is_jit:
            size = trace.state.lane.width
        if size != result and 1 not in (size, result):
            raise SizeError(
                "lumijit.width",
                f"the arrays have different sizes ({result} and {size})",
                "pass arrays of the same size.",
            )
        result = size if size != 1 else result
    return result
