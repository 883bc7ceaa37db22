"""Indirect writes: scatter and the atomic updates.

Owns the rules for nested arrays and PyTrees; the traced operations on flat arrays
are in `compiler.record.memory`. Nothing is evaluated here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lumijit.arrays import FlatArray
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import effects, trace
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.compiler.record import memory
from lumijit.enums import ReduceMode, ReduceOp
from lumijit.functions.gathering import (
    access_nodes,
    check_mode,
    host_arguments,
    host_position,
)
from lumijit.indexing import assigned
from lumijit.nested import NestedArray
from lumijit.pytree import is_container
from lumijit.pytree_walks import matched_leaves
from lumijit.runtime.dtypes import FLOAT32, FLOAT64, UINT32
from lumijit.runtime.errors import ArrayTypeError, SizeError
from lumijit.scalar_arrays import HostArray
from lumijit.spec import DYNAMIC, ArraySpec, require

# What functions here return isn't all that they do (see `syntax.meanings`).
HAS_EFFECTS = True


def scatter(
    target: Any,
    value: Any,
    index: Any,
    active: Any = True,
    mode: ReduceMode = ReduceMode.Auto,
) -> None:
    """Write `target[index] = value`.

    A nested value is written to consecutive entries of a flat target; arrays and
    PyTrees of the target's own type are written part by part. Where indices
    repeat, one of the values stays.

    Args:
        target: flat array, or array or PyTree of the type of `value`; changed.
        value: number, array or PyTree.
        index: positions: integer array, or what converts to one. Negative ones
            count from the end; what lies beyond the ends isn't written.
        active: mask of the writes that take place.
        mode: promise about repeated indices.

    Raises:
        ArrayTypeError: if the types don't fit together.
        SymbolicError: if `target` is a symbolic variable.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float, UInt
    >>> x = dr.zeros(Float, 4)
    >>> dr.scatter(x, Float(10, 20), UInt(3, 1))
    >>> x
    [0, 20, 0, 10]
    """
    _scatter("lumijit.scatter", ReduceOp.Identity, target, value, index, active, mode)


def scatter_reduce(
    op: ReduceOp,
    target: Any,
    value: Any,
    index: Any,
    active: Any = True,
    mode: ReduceMode = ReduceMode.Auto,
) -> None:
    """Update `target[index] = op(target[index], value)`, also where indices repeat.

    Args:
        op: how entries are combined; And and Or take integers and masks only.
        target: flat array, or array or PyTree of the type of `value`; changed.
        value: number, array or PyTree.
        index: positions: integer array, or what converts to one. Negative ones
            count from the end; what lies beyond the ends isn't written.
        active: mask of the updates that take place.
        mode: strategy for repeated indices.

    Raises:
        ArrayTypeError: if the types don't fit together or to the operation.
        SymbolicError: if `target` is a symbolic variable.

    >>> import lumijit as dr
    >>> from lumijit.llvm import UInt
    >>> x = dr.zeros(UInt, 2)
    >>> dr.scatter_reduce(dr.ReduceOp.Max, x, UInt(5, 7, 3), UInt(0, 0, 1))
    >>> x
    [7, 3]
    """
    check_op(op, "lumijit.scatter_reduce")
    _scatter("lumijit.scatter_reduce", op, target, value, index, active, mode)


def scatter_add(
    target: Any,
    value: Any,
    index: Any,
    active: Any = True,
    mode: ReduceMode = ReduceMode.Auto,
) -> None:
    """Add `value` to `target[index]`, also where indices repeat.

    Args:
        target: flat array, or array or PyTree of the type of `value`; changed.
        value: number, array or PyTree.
        index: positions: integer array, or what converts to one. Negative ones
            count from the end; what lies beyond the ends isn't written.
        active: mask of the updates that take place.
        mode: strategy for repeated indices.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float, UInt
    >>> x = dr.zeros(Float, 2)
    >>> dr.scatter_add(x, Float(1, 2, 3), UInt(0, 0, 1))
    >>> x
    [3, 3]
    """
    _scatter("lumijit.scatter_add", ReduceOp.Add, target, value, index, active, mode)


def scatter_add_kahan(
    target_1: Array, target_2: Array, value: Any, index: Any, active: Any = True
) -> None:
    """Add `value` to `target_1[index]`, and what rounding took away to `target_2`.

    `target_1 + target_2` afterwards is the sum almost as if it had been computed in
    twice the precision. Conflicting updates are atomic, lane by lane.

    Args:
        target_1: flat array of floats; changed.
        target_2: another one of the same type and size; changed.
        value: number or array of their type.
        index: positions: integer array, or what converts to one. Negative ones
            count from the end; what lies beyond the ends isn't written.
        active: mask of the updates that take place.

    Raises:
        ArrayTypeError: if the targets aren't flat arrays of Float32 or Float64.
        SizeError: if their sizes differ.
        SymbolicError: if a target is a symbolic variable.

    Source: Neumaier's variant of Kahan's summation (1974).

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float, UInt
    >>> x, error = Float(1e8), Float(0)
    >>> dr.scatter_add_kahan(x, error, Float(1, 1, 1), UInt(0))
    >>> x, error
    ([1e+08], [3])
    """
    construct = "lumijit.scatter_add_kahan"
    spec: Any = getattr(target_1, "_spec", None)
    is_fitting = type(target_1) is type(target_2) and target_1 is not target_2
    if spec is None or spec.dtype not in (FLOAT32, FLOAT64):
        is_fitting = False
    if not is_fitting or len(spec.shape) != 1:
        raise ArrayTypeError(
            construct,
            f"the targets are of types {type(target_1).__name__!r} and "
            f"{type(target_2).__name__!r} (expected two flat arrays of one "
            "type, Float32 or Float64)",
            "pass two arrays, the second one of zeros.",
        )
    if len(target_1) != len(target_2):
        raise SizeError(
            construct,
            f"the targets have {len(target_1)} and {len(target_2)} entries",
            "pass targets of one size.",
        )
    if isinstance(target_1, HostArray):
        _kahan_host(construct, target_1, target_2, value, index, active)
        return
    place, mask = access_nodes(construct, spec, index, active, len(target_1))
    node = assigned(target_1, value, construct)._node
    memory.scatter_kahan(target_1, target_2, node, place, mask)


def _kahan_host(
    construct: str, sums: Array, errors: Array, value: Any, index: Any, active: Any
) -> None:
    (new,), positions, mask = host_write(construct, sums, (value,), index, active)
    with np.errstate(all="ignore"):
        for item, at in zip(new[mask], positions[mask], strict=True):
            old = sums._data[at]
            total = old + item
            large, small = (old, item) if abs(old) >= abs(item) else (item, old)
            if np.isfinite(total):
                errors._data[at] += (large - total) + small
            sums._data[at] = total


def _scatter(
    construct: str,
    op: ReduceOp,
    target: Any,
    value: Any,
    index: Any,
    active: Any,
    mode: ReduceMode,
) -> None:
    check_mode(mode, construct)
    if is_container(target):
        for part, other in matched_leaves(target, value):
            _scatter(construct, op, part, other, index, active, mode)
        return
    if isinstance(target, ArrayBase):
        check_reducible(op, target._spec, construct)
    if isinstance(target, NestedArray):
        wide = value if type(value) is type(target) else type(target)(value)
        size = max(map(len, target), default=1)
        for part, other in zip(target, wide, strict=True):
            if isinstance(part, FlatArray) and len(part) == 1 < size:
                part._rehouse(trace.resized(part._node, size))
            _scatter(construct, op, part, other, index, active, mode)
        return
    if not isinstance(target, ArrayBase):
        _check_unchanged(construct, target, value)
        return
    if not isinstance(target, FlatArray):
        _scatter_host(construct, op, target, value, index, active)
        return
    count = math.prod(_lengths(value)) if isinstance(value, NestedArray) else 1
    size = len(target)
    place, mask = access_nodes(construct, target._spec, index, active, size, count)
    place, mask = memory.aim(target, place, mask, "scatter", count)
    group = effects.new_group() if count > 1 else 0
    how = (op.trace_name, mode.trace_name, group)
    _scatter_parts(construct, target, value, place, mask, how, 0)


def _lengths(value: Any) -> list[int]:
    """Return the lengths of an array's static dimensions."""
    found = []
    while isinstance(value, NestedArray) and len(value):
        found.append(len(value))
        value = value[0]
    return found


def _check_unchanged(construct: str, target: Any, value: Any) -> None:
    """Raise unless a part that is no array stays what it is."""
    if value is target or (not isinstance(value, ArrayBase) and value == target):
        return
    raise ArrayTypeError(
        construct,
        f"the target has type {type(target).__name__!r} (expected an array)",
        "write to arrays, such as scalar.ArrayXf in the scalar namespace.",
    )


def _scatter_parts(
    construct: str,
    target: Any,
    value: Any,
    place: Node,
    mask: Node,
    how: tuple[str, str, int],
    offset: int,
) -> None:
    """Write the parts of a value to `place + offset` and what follows."""
    if isinstance(value, NestedArray):
        step = math.prod(_lengths(value)[1:])
        for k, part in enumerate(value):
            at = offset + k * step
            _scatter_parts(construct, target, part, place, mask, how, at)
        return
    node = assigned(target, value, construct)._node
    if offset:
        place = trace.emit2(ADD, place, trace.literal(UINT32, offset))
    memory.update(target, node, place, mask, how[0], how[1], how[2])


def check_op(op: Any, construct: str) -> None:
    """Refuse what is no way to combine entries."""
    if not isinstance(op, ReduceOp):
        problem = f"op is {op!r}"
        raise ArrayTypeError(construct, problem, "pass a member of ReduceOp.")


_LINEAR = (ReduceOp.Add, ReduceOp.Identity)
_BITWISE = (ReduceOp.And, ReduceOp.Or)
_ARITHMETIC = (ReduceOp.Add, ReduceOp.Mul, ReduceOp.Min, ReduceOp.Max)


def check_reducible(op: ReduceOp, spec: ArraySpec, construct: str) -> None:
    """Raise unless entries of a type can be combined by an operation."""
    dtype = spec.dtype
    if spec.kind.is_number and op not in _LINEAR:
        raise ArrayTypeError(
            construct,
            f"{op.name} isn't defined for {spec.kind.name} arrays",
            "reduce a list of arrays, or the components '.array'.",
        )
    bitwise = dtype.is_float and op in _BITWISE
    if bitwise or (dtype.is_bool and op in _ARITHMETIC):
        fix = "use Add, Mul, Min or Max." if bitwise else "use And or Or for masks."
        raise ArrayTypeError(
            construct, f"{op.name} isn't defined for {dtype.name} entries", fix
        )


HOST_UPDATES: dict[ReduceOp, Any] = {
    ReduceOp.Add: np.add,
    ReduceOp.Mul: np.multiply,
    ReduceOp.Min: np.minimum,
    ReduceOp.Max: np.maximum,
    ReduceOp.And: np.bitwise_and,
    ReduceOp.Or: np.bitwise_or,
}


def _scatter_host(
    construct: str, op: ReduceOp, target: Array, value: Any, index: Any, active: Any
) -> None:
    if isinstance(value, (NestedArray, HostArray)) and value._spec.outer[0] >= 0:
        rows = len(target) // math.prod(value._spec.outer)
        first = host_position(index, rows, construct) if active else 0
        for k, part in enumerate(value):
            place = first * len(value) + k
            _scatter_host(construct, op, target, part, place, active)
        return
    (new,), positions, mask = host_write(construct, target, (value,), index, active)
    if op is ReduceOp.Identity:
        target._data[positions[mask]] = new[mask]
    else:
        with np.errstate(all="ignore"):
            HOST_UPDATES[op].at(target._data, positions[mask], new[mask])


def host_write(
    construct: str, target: Array, values: Sequence[Any], index: Any, active: Any
) -> tuple[Any, Any, Any]:
    """Return values, positions and mask of a write as NumPy arrays of one length."""
    like = dynamic(construct, target, target._data)
    wide = [assigned(like, v, construct)._data for v in values]
    positions, mask = host_arguments(target, index, active, construct)
    *wide, positions, mask = np.broadcast_arrays(*wide, positions, mask)
    return wide, positions, mask


def host_exchange(
    construct: str,
    target: Array,
    positions: Any,
    mask: Any,
    replaced: Callable[[int, Any], Any],
) -> Array:
    """Write entries one by one; return them as they were, and 0 where nothing is.

    `replaced` tells, by the number of the write and the entry, what takes its place.
    """
    old = np.zeros(len(positions), target._data.dtype)
    for k in np.flatnonzero(mask).tolist():
        old[k] = target._data[positions[k]]
        target._data[positions[k]] = replaced(k, old[k])
    return dynamic(construct, target, old)


def dynamic(construct: str, target: Array, data: Any) -> Array:
    """Return an array of any length with the entries of another's type."""
    cls = require(target._spec.replaced(outer=(DYNAMIC,)), construct)
    result: Array = cls(data)
    return result


def scatter_inc(target: Array, index: Any, active: Any = True) -> Array:
    """Add 1 to `target[index]` and return the entries as they were before.

    Every update sees a different old value, so this hands out free places.

    Args:
        target: flat UInt32 array; changed.
        index: positions: integer array, or what converts to one. Negative ones
            count from the end; what lies beyond the ends isn't counted.
        active: mask of the updates that take place.

    Returns:
        The old values (0 where `active` isn't set or the
        position lies beyond the ends); usable in the kernel
        that performs the update only, unless evaluated together with it.

    Raises:
        ArrayTypeError: if `target` is not a flat UInt32 array.

    >>> import lumijit as dr
    >>> from lumijit.llvm import UInt
    >>> counter = UInt(0)
    >>> place = dr.scatter_inc(counter, UInt(0, 0, 0))
    >>> sorted(place), counter
    ([0, 1, 2], [3])
    """
    construct = "lumijit.scatter_inc"
    spec = getattr(target, "_spec", None)
    if spec is None or spec.dtype is not UINT32 or len(spec.shape) != 1:
        raise ArrayTypeError(
            construct,
            f"the target has type {type(target).__name__!r} "
            "(expected a flat UInt32 array)",
            "use lumijit.scatter_reduce for other types.",
        )
    if isinstance(target, HostArray):
        positions, mask = host_arguments(target, index, active, construct)
        one = np.uint32(1)
        return host_exchange(construct, target, positions, mask, lambda _, x: x + one)
    place, mask = access_nodes(construct, spec, index, active, len(target))
    return wrap_flat(type(target), memory.scatter_inc(target, place, mask))
