"""Bit-level operations on integers, and reading bits as another type."""

from __future__ import annotations

from typing import Any

import numpy as np

from lumijit import operators
from lumijit.arrays import FlatArray
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.record import Op
from lumijit.functions.apply import apply, bits_of_number, by_parts
from lumijit.nested import wrap as wrap_nested
from lumijit.promotion import joined_namespace
from lumijit.runtime.errors import ArrayTypeError
from lumijit.scalar_arrays import HostArray
from lumijit.scalar_arrays import wrap as wrap_host
from lumijit.spec import TENSOR
from lumijit.type_traits import array_t


def _count(op: Op, construct: str, arg: Any) -> Array:
    if isinstance(arg, ArrayBase):
        operators.check_accepts(op, arg._spec.dtype, construct)
        return arg._map(op)
    return bits_of_number(op, construct, arg)


@by_parts
def popcnt(arg: Any, /) -> Array:
    """Count the set bits.

    Args:
        arg: integer array, or a Python int of 32 bits.

    Returns:
        The counts, of the type of `arg`.

    >>> import lumijit as dr
    >>> dr.popcnt(7)
    3
    """
    return _count(lo.POPCNT, "lumijit.popcnt", arg)


@by_parts
def lzcnt(arg: Any, /) -> Array:
    """Count the zero bits above the highest set one.

    Args:
        arg: integer array, or a Python int of 32 bits.

    Returns:
        The counts, of the type of `arg`; the number of bits for 0.

    >>> import lumijit as dr
    >>> dr.lzcnt(dr.llvm.UInt(1, 0))
    [31, 32]
    """
    return _count(lo.LZCNT, "lumijit.lzcnt", arg)


@by_parts
def tzcnt(arg: Any, /) -> Array:
    """Count the zero bits below the lowest set one.

    Args:
        arg: integer array, or a Python int of 32 bits.

    Returns:
        The counts, of the type of `arg`; the number of bits for 0.

    >>> import lumijit as dr
    >>> dr.tzcnt(8)
    3
    """
    return _count(lo.TZCNT, "lumijit.tzcnt", arg)


@by_parts
def brev(arg: Any, /) -> Array:
    """Reverse the order of the bits.

    Args:
        arg: integer array, or a Python int of 32 bits.

    Returns:
        The reversed values, of the type of `arg`.

    >>> import lumijit as dr
    >>> dr.brev(1)
    2147483648
    """
    return _count(lo.BREV, "lumijit.brev", arg)


@by_parts
def log2i(arg: Any, /) -> Array:
    """Floor of the logarithm to base 2; 0 gives the largest or -1 value.

    Args:
        arg: integer array, or a Python int of 32 bits.

    Returns:
        The position of the highest set bit.

    >>> import lumijit as dr
    >>> dr.log2i(dr.llvm.UInt(1, 9))
    [0, 3]
    """
    bits = arg._spec.dtype.bits if isinstance(arg, ArrayBase) else 32
    return (bits - 1) - lzcnt(arg)


def _rotate(op: Op, construct: str, arg: Any, distance: Any) -> Array:
    if isinstance(arg, ArrayBase):
        operators.check_accepts(op, arg._spec.dtype, construct)
        return apply(op, construct, arg, distance)
    return bits_of_number(op, construct, arg, distance)


@by_parts
def rotl(arg: Any, distance: Any, /) -> Array:
    """Move the bits up; those that leave at the top come in again from below.

    Args:
        arg: integer array, or a Python int of 32 bits.
        distance: array or int, taken modulo the number of bits.

    Returns:
        The rotated numbers, of the type of `arg`.

    >>> import lumijit as dr
    >>> dr.rotl(dr.llvm.UInt8(0x81, 3), 1)
    [3, 6]
    """
    return _rotate(lo.ROTL, "lumijit.rotl", arg, distance)


@by_parts
def rotr(arg: Any, distance: Any, /) -> Array:
    """Move the bits down; those that leave at the bottom come in again from above.

    Args:
        arg: integer array, or a Python int of 32 bits.
        distance: array or int, taken modulo the number of bits.

    Returns:
        The rotated numbers, of the type of `arg`.

    >>> import lumijit as dr
    >>> dr.rotr(dr.llvm.UInt8(0x81, 3), 1)
    [192, 129]
    """
    return _rotate(lo.ROTR, "lumijit.rotr", arg, distance)


def reinterpret_array(dtype: type[Any], value: Array, /) -> Array:
    """Read the bits of an array as another type of the same width.

    Args:
        dtype: array class of the same shape and entry width.
        value: array.

    Returns:
        An array of class `dtype`.

    Raises:
        ArrayTypeError: if shape or width differ.

    >>> import lumijit as dr
    >>> dr.reinterpret_array(dr.llvm.UInt, dr.llvm.Float(1))
    [1065353216]
    """
    if not isinstance(value, ArrayBase) or not (
        isinstance(dtype, type) and issubclass(dtype, ArrayBase)
    ):
        raise _not_reinterpretable(dtype, value)
    mine, theirs = dtype._spec, value._spec
    same_width = mine.dtype.bits == theirs.dtype.bits
    if mine.outer != theirs.outer or mine.is_jit != theirs.is_jit or not same_width:
        raise _not_reinterpretable(dtype, value)
    joined_namespace(mine, theirs, "lumijit.reinterpret_array")
    if mine.kind is TENSOR or theirs.kind is TENSOR:
        if mine.kind is not theirs.kind:
            raise _not_reinterpretable(dtype, value)
        return dtype(reinterpret_array(array_t(dtype), value.array), value.shape)
    if isinstance(value, FlatArray):
        return wrap_flat(dtype, trace.bitcast_to(value._node, mine.dtype))
    if isinstance(value, HostArray):
        data = np.ascontiguousarray(value._data).view(mine.dtype.numpy)
        return wrap_host(dtype, data.copy())
    items = [reinterpret_array(dtype._item, v) for v in value]
    return wrap_nested(dtype, items)


def _not_reinterpretable(dtype: Any, value: Any) -> ArrayTypeError:
    name = getattr(dtype, "__name__", repr(dtype))
    return ArrayTypeError(
        "lumijit.reinterpret_array",
        f"can't read {type(value).__name__} as {name}",
        "use array types of the same shape whose entries are equally wide.",
    )
