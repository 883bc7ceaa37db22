"""What traversals have cleared: who asks for derivatives along it gets an error."""

from __future__ import annotations

from collections.abc import Iterable

from lumijit.compiler.ir.ops.structural import CONSUMED, SCATTER
from lumijit.compiler.ir.vertices import Vertex
from lumijit.runtime.errors import DerivativeError


def refuse_cleared(
    seeds: Iterable[Vertex], found: dict[int, Vertex], construct: str
) -> None:
    """Raise if results depend on a value that has been cleared.

    What an array held before it was written to doesn't count: programs write to the
    same array again and again.

    Args:
        seeds: the vertices of the results.
        found: all vertices that they depend on.
        construct: who asks.
    """
    if not any(vertex.is_cut for vertex in found.values()):
        return
    seen: set[int] = set()
    stack = list(seeds)
    while stack:
        vertex = stack.pop()
        if vertex.is_cut:
            raise DerivativeError(
                construct,
                "a part of what the argument was computed of has been cleared: an "
                "earlier traversal has gone along there, so gradients would be lost",
                "pass flags=lumijit.ADFlag.ClearVertices to the earlier one, add up "
                "the results and go back once, compute the argument again, or detach "
                "that part.",
            )
        if vertex.serial in seen or vertex.serial not in found:
            continue
        seen.add(vertex.serial)
        if isinstance(vertex.attr, Vertex):
            stack.append(vertex.attr)
        for k, parent in zip(vertex.inputs, vertex.parents, strict=True):
            if not _is_replaced(vertex, k):
                stack.append(parent)


def refuse_ended(seeds: Iterable[Vertex], construct: str) -> None:
    """Raise if all that was computed of variables, and is still there, is cleared."""
    entries = [entry for vertex in seeds for entry in vertex.users]
    users = [user for entry in entries if (user := entry()) is not None]
    if any(user.is_cut for user in users) and not any(user.inputs for user in users):
        raise DerivativeError(
            construct,
            "what was computed of the argument has been cleared: an earlier traversal "
            "has gone along there",
            "pass flags=lumijit.ADFlag.ClearVertices to the earlier one, or compute "
            "the results again.",
        )


def _is_replaced(vertex: Vertex, k: int) -> bool:
    """Tell whether an operand is an array of which entries are replaced, or may be."""
    if vertex.op is SCATTER:
        return k == 0 and vertex.attr.op == "identity"
    return vertex.deps[k].op is CONSUMED
