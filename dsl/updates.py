"""Writes that take less than a new version of an array: at once, and as updates."""

from __future__ import annotations

from lumijit.base import Array
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops.structural import GATHER, LITERAL
from lumijit.compiler.launch.evaluate import opaque
from lumijit.compiler.record import memory
from lumijit.compiler.record.writes import put

# Operations of which `x[k] = x[k] + y` is an update of entries, and how that combines.
_UPDATES = {ar.ADD: "add", ar.SUB: "add", ar.MUL: "mul"}


def is_update(array: Array, value: Array) -> bool:
    """Tell whether a value may be entries of an array and something, to be written."""
    node, target = value._node, array._node
    return (
        node.op in _UPDATES
        and any(d.op is GATHER and d.deps[0] is target for d in node.deps)
        and node.vertex is None
        and target.vertex is None
        and trace.is_unconditional()
    )


def is_updated(
    array: Array, value: Array, index: Node, mask: Node, same: Node | None = None
) -> bool:
    """Write `x[k] = x[k] + y` as an update, which needs no copy of what it reads.

    The value then stands for the array's entries at the positions, which all differ:
    it reads what is there afterwards, as it is the same.

    Args:
        array: where entries are replaced.
        value: what is written, which `is_update`.
        index: the positions, which `memory.aim` has checked.
        mask: which of them are inside.
        same: the same positions in an order that suits memory, for one value for all.
    """
    now, node = memory.entries(array._node, index, mask), value._node
    op = node.op
    first, second = node.deps
    if second is now and op is not ar.SUB:
        first, second = second, first
    if first is not now or second is now:
        return False
    if op is ar.SUB:
        second = trace.emit1(ar.NEG, second)
    place = index if same is None or second.size != 1 else same
    # Nobody may refer to the entries of before, or they would be kept.
    value._rehouse(second)
    del node, first, now
    is_done = False
    try:
        memory.update(array, second, place, mask, _UPDATES[op], "no_conflicts")
        is_done = True
    finally:
        entries = memory.entries(array._node, index, mask)
        if not is_done:
            joined = ar.MUL if op is ar.MUL else ar.ADD
            entries = trace.emit2(joined, entries, second)
        value._rehouse(entries)
    return True


def is_put(array: Array, position: int, value: Node) -> bool:
    """Write an entry at once, if it is a number and nobody else can tell."""
    spec = array._spec
    is_number = value.op is LITERAL and value.size == 1 and spec.kind.holds is None
    if not is_number or not trace.is_unconditional():
        return False
    is_literal = array._node.op is LITERAL and array._node.vertex is None
    if is_literal and spec.backend.device is None:
        array._rehouse(opaque(array._node))
    return put(array, position, value.attr)
