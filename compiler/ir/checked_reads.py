"""Indexed reads whose mask keeps the index inside: finding the comparison in it.

`record.bounds` makes such masks.
"""

from __future__ import annotations

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import ADD, MUL
from lumijit.compiler.ir.ops.logic import AND, INSIDE
from lumijit.compiler.ir.ops.structural import CAST, LITERAL


def split(node: Node) -> tuple[Node | None, set[Node]]:
    """Take the mask of a read apart.

    Returns:
        The comparison that keeps the index inside, whatever number it is, and what
        else has to hold.
    """
    _, index, mask = node.deps
    inside = None
    others = set()
    stack = [mask]
    while stack:
        part = stack.pop()
        if part.op is AND:
            stack += part.deps
        elif part.op is INSIDE and _is_of(part.deps[0], index, node.attr or 0):
            inside = part
        elif part.op is not LITERAL or not part.attr:
            others.add(part)
    return inside, others


def _is_of(place: Node, index: Node, offset: int) -> bool:
    """Tell whether `place` made `index + offset` what it is."""
    place, index = _uncast(place), _uncast(index)
    if index.op is MUL and _uncast(index.deps[0]) is place:
        return True
    if not offset:
        return place is index
    return place.op is ADD and any(_uncast(d) is index for d in place.deps)


def _uncast(node: Node) -> Node:
    while node.op is CAST and node.deps[0].type.is_int:
        node = node.deps[0]
    return node


def is_checked(node: Node) -> bool:
    """Tell whether the mask of a read alone keeps its index inside."""
    return split(node)[0] is not None
