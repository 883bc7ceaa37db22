"""Coordinate grids."""

from __future__ import annotations

from typing import Any

import numpy as np

from lumijit.arrays import FlatArray
from lumijit.base import Array
from lumijit.compiler.ir import placement, trace
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.record import memory
from lumijit.compiler.transform.substitution import at_positions
from lumijit.runtime.dtypes import UINT32
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.scalar_arrays import HostArray
from lumijit.traits import is_tensor_v


def meshgrid(*args: Array, indexing: str = "xy") -> tuple[Any, ...]:
    """Make the flattened coordinates of a grid from one sequence per axis.

    Args:
        *args: flat arrays with the coordinates along each axis, or tensors of one
            dimension.
        indexing: "xy" (the first axis changes fastest) or "ij" (the last one).

    Returns:
        One flat array per axis, as long as the grid has points; for tensors, tensors
        of the grid's shape.

    Raises:
        ArrayValueError: if `indexing` is neither.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float
    >>> dr.meshgrid(Float(1, 2), Float(3, 4, 5))
    ([1, 2, 1, 2, 1, 2], [3, 3, 4, 4, 5, 5])
    """
    construct = "lumijit.meshgrid"
    if indexing not in ("xy", "ij"):
        raise ArrayValueError(
            construct, f"indexing is {indexing!r}", "pass 'xy' or 'ij'."
        )
    if args and all(is_tensor_v(arg) and arg.ndim == 1 for arg in args):
        sizes = [len(arg) for arg in args]
        if indexing == "xy":
            sizes[:2] = sizes[1::-1]
        flat = meshgrid(*[arg.array for arg in args], indexing=indexing)
        return tuple(type(a)(v, sizes) for a, v in zip(args, flat, strict=True))
    for arg in args:
        if not isinstance(arg, (FlatArray, HostArray)):
            raise ArrayTypeError(
                construct,
                f"an argument has type {type(arg).__name__!r}",
                "pass flat arrays, or tensors of one dimension.",
            )
    if len(args) == 1:
        return tuple(arg._copy() for arg in args)
    order = list(range(len(args)))
    if indexing == "xy" and len(args) > 1:
        order[0], order[1] = order[1], order[0]
    strides = {}
    total = 1
    for axis in reversed(order):
        strides[axis] = total
        total *= len(args[axis])
    trace.check_size(total, construct)
    return tuple(_spread(v, strides[k], total) for k, v in enumerate(args))


def _spread(array: Array, stride: int, total: int) -> Array:
    """Read an axis at the coordinate that it has at each point of the grid."""
    size = len(array)
    if isinstance(array, HostArray):
        positions = np.arange(total) // stride % max(size, 1)
        return type(array)(array._data[positions])
    assert isinstance(array, FlatArray)
    index = placement.counter(total, array._spec.backend.device)
    if stride > 1:
        index = trace.emit2(ar.INT_DIV, index, _literal(stride))
    if stride * size < total:
        index = trace.emit2(ar.MOD, index, _literal(size))
    node = at_positions(array._node, index) if size > 1 else None
    if node is None or node.size != total:
        node = memory.read_inside(array._node, index)
    return wrap_flat(type(array), node)


def _literal(value: int) -> Node:
    return trace.literal(UINT32, value)
