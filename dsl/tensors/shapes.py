"""Axes of tensors: moved, exchanged, added and removed. The entries are views."""

from __future__ import annotations

from typing import Any

from lumijit.base import Array, ArrayBase
from lumijit.functions.axes import checked_axis
from lumijit.functions.sizes import strides
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError
from lumijit.spec import TENSOR
from lumijit.tensors.views import Shape, view
from lumijit.type_traits import tensor_t

Axes = int | tuple[int, ...] | list[int]


def as_tensor(construct: str, value: Any) -> Any:
    """Return a tensor of an array's entries and shape; a tensor is one."""
    if not isinstance(value, ArrayBase):
        raise ArrayTypeError(
            construct,
            f"the argument has type {type(value).__name__!r} (expected a tensor)",
            "make a tensor of it first, such as lumijit.llvm.TensorXf.",
        )
    if value._spec.kind is TENSOR:
        return value
    return tensor_t(type(value))(value)


def checked_axes(construct: str, axes: Any, ndim: int) -> list[int]:
    """Return different axes counted from the front, or raise."""
    listed = axes if isinstance(axes, (tuple, list)) else (axes,)
    found = [checked_axis(construct, axis, ndim) for axis in listed]
    if len(set(found)) < len(found):
        raise ArrayValueError(
            construct, f"an axis repeats in {tuple(listed)}", "name each axis once."
        )
    return found


def permuted(tensor: Array, order: list[int]) -> Array:
    """Return a tensor whose axis k is axis `order[k]` of another."""
    shape, steps = tensor.shape, strides(tensor.shape)
    turned = tuple(shape[k] for k in order)
    return tensor._seen(view(turned, tuple(steps[k] for k in order)))


def reshaped(tensor: Array, shape: Shape) -> Array:
    """Return the entries of a tensor in another shape with as many."""
    return tensor._of(tensor.array._copy(), shape)


def transposed(value: Any, axes: Any = None) -> Array:
    """Reverse the order of a tensor's axes, or bring them into another one."""
    construct = "lumijit.transpose"
    value = as_tensor(construct, value)
    if axes is None:
        return permuted(value, list(range(value.ndim))[::-1])
    order = checked_axes(construct, axes, value.ndim)
    if len(order) != value.ndim:
        raise ArrayValueError(
            construct,
            f"there are {len(order)} axes for {value.ndim} dimensions",
            "name each axis once.",
        )
    return permuted(value, order)


def moveaxis(arg: Any, /, source: Axes, destination: Axes) -> Array:
    """Move axes of a tensor to other places; the others keep their order.

    Args:
        arg: tensor, or an array, which becomes one.
        source: axis or axes, negative ones from the end.
        destination: where each of them goes.

    Returns:
        The tensor with its axes in another order.

    Raises:
        ArrayValueError: if an axis doesn't exist or repeats.

    >>> import lumijit as dr
    >>> from lumijit.llvm import TensorXf
    >>> dr.moveaxis(dr.zeros(TensorXf, (2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    construct = "lumijit.moveaxis"
    arg = as_tensor(construct, arg)
    here = checked_axes(construct, source, arg.ndim)
    there = checked_axes(construct, destination, arg.ndim)
    if len(here) != len(there):
        raise ArrayValueError(
            construct,
            f"there are {len(here)} axes for {len(there)} places",
            "name a place for each axis.",
        )
    order = [k for k in range(arg.ndim) if k not in here]
    for place, axis in sorted(zip(there, here, strict=True)):
        order.insert(place, axis)
    return permuted(arg, order)


def swapaxes(value: Any, /, axis1: int, axis2: int) -> Array:
    """Exchange two axes of a tensor.

    Args:
        value: tensor, or an array, which becomes one.
        axis1: an axis, negative ones from the end.
        axis2: the other axis.

    Returns:
        The tensor with its axes in another order.

    >>> import lumijit as dr
    >>> from lumijit.llvm import TensorXf
    >>> dr.swapaxes(TensorXf([[1, 2], [3, 4]]), 0, 1)
    [[1, 3],
     [2, 4]]
    """
    construct = "lumijit.swapaxes"
    value = as_tensor(construct, value)
    first, second = (checked_axis(construct, k, value.ndim) for k in (axis1, axis2))
    order = list(range(value.ndim))
    order[first], order[second] = second, first
    return permuted(value, order)


def squeeze(value: Any, /, axis: Axes | None = None) -> Array:
    """Remove axes of size 1.

    Args:
        value: tensor, or an array, which becomes one.
        axis: axis or axes to remove; None for all of size 1.

    Returns:
        The tensor with fewer dimensions.

    Raises:
        SizeError: if an axis has another size.

    >>> import lumijit as dr
    >>> from lumijit.llvm import TensorXf
    >>> dr.squeeze(TensorXf([[1], [2]]))
    [1, 2]
    """
    construct = "lumijit.squeeze"
    value = as_tensor(construct, value)
    shape = value.shape
    if axis is None:
        gone = [k for k, size in enumerate(shape) if size == 1]
    else:
        gone = checked_axes(construct, axis, len(shape))
    for k in gone:
        if shape[k] != 1:
            raise SizeError(
                construct,
                f"axis {k} of a tensor of shape {shape} has size {shape[k]}",
                "remove axes of size 1 only, or reduce or index the others.",
            )
    return reshaped(value, tuple(n for k, n in enumerate(shape) if k not in gone))


def expand_dims(value: Any, /, axis: Axes) -> Array:
    """Insert axes of size 1.

    Args:
        value: tensor, or an array, which becomes one.
        axis: where they are in the result.

    Returns:
        The tensor with more dimensions.

    >>> import lumijit as dr
    >>> from lumijit.llvm import TensorXf
    >>> dr.expand_dims(TensorXf([1, 2]), (0, -1)).shape
    (1, 2, 1)
    """
    construct = "lumijit.expand_dims"
    value = as_tensor(construct, value)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    new = checked_axes(construct, axis, value.ndim + count)
    sizes = iter(value.shape)
    shape = [1 if k in new else next(sizes) for k in range(value.ndim + count)]
    return reshaped(value, tuple(shape))
