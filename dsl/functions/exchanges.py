"""Atomic exchanges: writes that return what they find."""

from __future__ import annotations

from typing import Any

import numpy as np

from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.ir.ops.logic import AND, EQ
from lumijit.compiler.record import memory
from lumijit.functions.gathering import access_nodes
from lumijit.functions.scattering import host_exchange, host_write
from lumijit.indexing import assigned
from lumijit.nested import NestedArray
from lumijit.runtime.dtypes import BOOL, same_bits
from lumijit.runtime.errors import ArrayTypeError, DerivativeError
from lumijit.scalar_arrays import HostArray
from lumijit.spec import TENSOR
from lumijit.type_traits import mask_t

# What functions here return isn't all that they do (see `syntax.meanings`).
HAS_EFFECTS = True


def scatter_exch(target: Array, value: Any, index: Any, active: Any = True) -> Array:
    """Write `target[index] = value` and return the entries as they were before.

    Where indices repeat, each write finds what another one has left.

    Args:
        target: flat array of numbers; changed.
        value: number or array of its type.
        index: positions: integer array, or what converts to one. Negative ones
            count from the end; what lies beyond the ends isn't written.
        active: mask of the writes that take place.

    Returns:
        The old values (0 where nothing is written); usable in the kernel that writes
        only, unless evaluated together with it.

    Raises:
        ArrayTypeError: if `target` is no flat array, or `value` not of its type.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float, UInt
    >>> x = Float(1, 2, 3)
    >>> dr.scatter_exch(x, Float(10, 20), UInt(2, 0)), x
    ([3, 1], [20, 2, 10])
    """
    construct = "lumijit.scatter_exch"
    _check_target(construct, target)
    if isinstance(target, HostArray):
        (new,), places, mask = host_write(construct, target, (value,), index, active)
        return host_exchange(construct, target, places, mask, lambda k, _: new[k])
    node = assigned(target, value, construct)._node
    place, mask = _aim(construct, target, index, active)
    return wrap_flat(type(target), memory.exchange(target, node, place, mask))


def scatter_cas(
    target: Array, compare: Any, value: Any, index: Any, active: Any = True
) -> tuple[Array, Array]:
    """Write `target[index] = value` where the entry has the bits of `compare`.

    Args:
        target: flat array of numbers; changed.
        compare: number or array of its type: what is to be replaced.
        value: number or array of its type: what is written.
        index: positions: integer array, or what converts to one. Negative ones
            count from the end; what lies beyond the ends isn't written.
        active: mask of the writes that take place.

    Returns:
        The entries before (0 where none was looked at) and a mask of those that were
        replaced; usable in the kernel that writes only, unless evaluated together
        with it.

    Raises:
        ArrayTypeError: if `target` is no flat array, or the values not of its type.
        DerivativeError: if derivatives are tracked.

    >>> import lumijit as dr
    >>> from lumijit.llvm import UInt
    >>> x = UInt(1, 2, 3)
    >>> dr.scatter_cas(x, UInt(1, 7), UInt(10, 20), UInt(0, 1)), x
    (([1, 2], [True, False]), [10, 2, 3])
    """
    construct = "lumijit.scatter_cas"
    _check_target(construct, target)
    if isinstance(target, HostArray):
        return _host_cas(construct, target, (value, compare), index, active)
    new, expected = (assigned(target, v, construct)._node for v in (value, compare))
    if any(node.vertex is not None for node in (target._node, new, expected)):
        raise DerivativeError(
            construct,
            "the derivative would depend on which elements come first",
            "pass what lumijit.detach returns.",
        )
    place, mask = _aim(construct, target, index, active)
    old = memory.exchange_if(target, new, expected, place, mask)
    bits = same_bits(old.type, "u")
    is_same = trace.emit2(
        EQ, trace.bitcast_to(old, bits), trace.bitcast_to(expected, bits)
    )
    replaced = wrap_flat(mask_t(target), trace.emit2(AND, is_same, mask))
    return wrap_flat(type(target), old), replaced


def _host_cas(
    construct: str, target: HostArray, values: Any, index: Any, active: Any
) -> tuple[Any, Any]:
    given = host_write(construct, target, values, index, active)
    (new, expected), places, mask = given
    is_replaced = np.zeros(len(places), bool)

    def replaced(k: int, old: Any) -> Any:
        is_replaced[k] = old.tobytes() == expected[k].tobytes()
        return new[k] if is_replaced[k] else old

    found = host_exchange(construct, target, places, mask, replaced)
    return found, mask_t(found)(is_replaced)


def _check_target(construct: str, target: Any) -> None:
    is_flat = isinstance(target, ArrayBase) and not isinstance(target, NestedArray)
    if not is_flat or target._spec.kind is TENSOR or target._spec.dtype is BOOL:
        raise ArrayTypeError(
            construct,
            f"the target has type {type(target).__name__!r} (expected a flat array of "
            "numbers)",
            "pass one such as llvm.Float; of a tensor, its entries '.array'.",
        )


def _aim(construct: str, target: Any, index: Any, active: Any) -> tuple[Any, Any]:
    place, mask = access_nodes(construct, target._spec, index, active, len(target))
    return memory.aim(target, place, mask, construct.removeprefix("lumijit."))
