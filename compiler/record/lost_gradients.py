"""Loops that would lose the gradients which traversals in their bodies have brought."""

from __future__ import annotations

from lumijit.compiler.ir import vertices
from lumijit.compiler.ir.nodes import Scope
from lumijit.compiler.ir.region_types import Nodes
from lumijit.runtime.errors import DerivativeError


def check_isolated(args: Nodes, outputs: Nodes, inner: Scope) -> None:
    """Refuse to lose the gradient that a traversal in a loop's body has brought.

    A variable that stays what it is has that of the loop's start. Of another, the
    gradient is wanted if it depends on what is tracked outside, in whatever turn.
    """
    reached = [k for k, a in enumerate(args) if a.vertex and a.vertex.grad is not None]
    if all(outputs[k] is args[k] for k in reached):
        return
    depth = inner.depth - 1
    dependent = {a.vertex for a in args if a.vertex and a.vertex.attr is not None}
    while True:
        found = {
            arg.vertex
            for arg, out in zip(args, outputs, strict=True)
            if arg.vertex and vertices.depends_on([out], dependent, depth)
        }
        if found <= dependent:
            break
        dependent |= found
    if any(args[k].vertex in dependent and outputs[k] is not args[k] for k in reached):
        raise DerivativeError(
            inner.label or "while_loop",
            "a traversal in the body reaches a loop variable that the loop changes and "
            "that depends on what is tracked outside, so its gradient would be lost, "
            "or the body reads that gradient",
            "detach the variable where the body differentiates, or differentiate the "
            "loop from outside.",
        )
