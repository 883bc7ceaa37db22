"""What the operands of a node are: which it reads as values, by index, or writes to.

The one place to ask, for operations and regions alike. It is on the way of every
launch: each answer is two look-ups and a slice.
"""

from __future__ import annotations

from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.record import VALUES_ONLY, Operands, Role
from lumijit.compiler.ir.ops.structural import LITERAL, WRITTEN


def operands(node: Node) -> Operands:
    """Return the roles of a node's operands, as slices."""
    found: Operands = node.op.operands or node.attr.operands
    return found


def value_deps(node: Node) -> tuple[Node, ...]:
    """Return the operands that aren't addressed."""
    found = operands(node)
    return node.deps if found is VALUES_ONLY else node.deps[found.values]


def source_deps(node: Node) -> tuple[Node, ...]:
    """Return the arrays that a node reads by index."""
    found = operands(node)
    return () if found is VALUES_ONLY else node.deps[found.sources]


def written_deps(node: Node) -> tuple[Node, ...]:
    """Return the arrays that a node writes to."""
    found = operands(node)
    return () if found is VALUES_ONLY else node.deps[found.targets]


def read_deps(node: Node) -> tuple[Node, ...]:
    """Return the operands that aren't written to."""
    found = operands(node)
    return node.deps if found is VALUES_ONLY else node.deps[found.reads]


def is_effect(node: Node) -> bool:
    """Tell whether a node writes to an array."""
    return operands(node).writes


def is_returning(node: Node) -> bool:
    """Tell whether a write has a value, too: one that only it can give."""
    return node.op.results > 0 and operands(node).writes


def operand(node: Node, role: Role) -> Node:
    """Return the one operand of a role that a node has."""
    return node.deps[node.op.roles.index(role)]


def target_of(version: Node) -> Node:
    """Return the array that a version is of, as it was before the write."""
    return written_deps(version.deps[0])[version.attr or 0]


def outermost(target: Node) -> Node:
    """Return the array that is written to, as it was outside of all regions."""
    while target.op is WRITTEN and target.scope is not ROOT:
        target = target_of(target)
    return target


def is_true(mask: Node) -> bool:
    """Tell whether a mask is known to be set everywhere."""
    return mask.op is LITERAL and bool(mask.attr)
