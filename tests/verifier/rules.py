"""What rules of the trace are made of: checks of one fact, and how they fail.

The rules themselves are in `grammar` and `region_grammar`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lumijit.compiler.ir.nodes import Node, Scope


class VerificationError(AssertionError):
    """A node breaks a rule of the trace."""

    def __init__(self, rule: str, node: Node, detail: str = "") -> None:
        found = f" ({detail})" if detail else ""
        super().__init__(f"{rule}{found} at {describe(node)}")
        self.rule = rule
        self.node = node


def describe(node: Node) -> str:
    """Describe a node and its operands in one line."""
    deps = ", ".join(repr(dep) for dep in node.deps[:8])
    more = ", …" if len(node.deps) > 8 else ""
    return f"{node!r}({deps}{more})"


def require(condition: object, rule: str, node: Node, detail: str = "") -> None:
    """Raise unless a rule holds for a node."""
    if not condition:
        raise VerificationError(rule, node, detail)


def open_scopes(scope: Scope | None) -> set[Scope]:
    """Return a scope and those around it."""
    found = set()
    while scope is not None:
        found.add(scope)
        scope = scope.parent
    return found


def check_size(node: Node, operands: Iterable[Node]) -> None:
    """Check that operands broadcast to a node's size."""
    sizes = {dep.size for dep in operands} - {1}
    require(len(sizes) < 2, "operands have one size, or size 1", node)
    size = sizes.pop() if sizes else 1
    detail = f"expected {size}, got {node.size}"
    require(node.size == size, "the size is that of the operands", node, detail)


def check_type(node: Node, operand: Node, expected: Any, role: str) -> None:
    """Check what an operand is of, whose part is told by `role`."""
    detail = f"expected {expected}, got {operand.type}"
    require(operand.type is expected, f"the {role} has the right type", node, detail)
