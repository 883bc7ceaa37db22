"""Arrays like others: of their types and shapes, or their width as a traced value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumijit import initialize
from lumijit.base import ArrayBase
from lumijit.functions.apply import not_numeric
from lumijit.functions.creation import empty, ones, zeros
from lumijit.functions.evaluation import opaque
from lumijit.functions.sizes import width
from lumijit.pytree import tree_leaves, tree_map
from lumijit.traits import type_of
from lumijit.type_traits import leaf_t, uint32_array_t


def _like(make: Callable[..., Any], construct: str, arg: Any) -> Any:
    def made(leaf: Any) -> Any:
        if isinstance(leaf, ArrayBase):
            return make(type(leaf), leaf.shape)
        if not initialize.is_number(leaf):
            raise not_numeric(construct, (leaf,))
        return make(type_of(leaf))

    return tree_map(made, arg)


def empty_like(arg: Any, /) -> Any:
    """Make an array with arbitrary contents, like another.

    Args:
        arg: number, array or PyTree of these.

    Returns:
        The same types and shapes.

    >>> import lumijit as dr
    >>> len(dr.empty_like(dr.llvm.Float(1, 2)))
    2
    """
    return _like(empty, "lumijit.empty_like", arg)


def zeros_like(arg: Any, /) -> Any:
    """Make an array of zeros (False for masks), like another; takes no memory.

    Args:
        arg: number, array or PyTree of these.

    Returns:
        The same types and shapes.

    >>> import lumijit as dr
    >>> dr.zeros_like(dr.llvm.Float(1, 2))
    [0, 0]
    """
    return _like(zeros, "lumijit.zeros_like", arg)


def ones_like(arg: Any, /) -> Any:
    """Make an array of ones (True for masks), like another; takes no memory.

    Args:
        arg: number, array or PyTree of these.

    Returns:
        The same types and shapes.

    >>> import lumijit as dr
    >>> dr.ones_like([dr.llvm.Int(5, 6), 3.0])
    [[1, 1], 1.0]
    """
    return _like(ones, "lumijit.ones_like", arg)


def opaque_width(arg: Any, /) -> Any:
    """Return the width of an array as a value in memory, which no kernel contains.

    Args:
        arg: traced array, or PyTree with some.

    Returns:
        A UInt32 array of one entry.

    Raises:
        ArrayTypeError: if there is no traced array.

    >>> import lumijit as dr
    >>> dr.opaque_width(dr.llvm.Array3f(1, 2, [3, 4]))
    [2]
    """
    for _, leaf in tree_leaves(arg):
        if isinstance(leaf, ArrayBase) and leaf._spec.is_jit:
            return opaque(uint32_array_t(leaf_t(leaf)), width(arg))
    raise not_numeric("lumijit.opaque_width", (arg,))
