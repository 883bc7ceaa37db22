"""Writes by index in blocks of vectorized control flow: what may stand beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lumijit.compiler.ir.nodes import Node, Scope
from lumijit.compiler.ir.ops.structural import WRITTEN
from lumijit.compiler.record import writes
from lumijit.runtime.errors import StateError


def check_writes(
    construct: str,
    active: Node,
    found: Iterable[writes.Writes],
    results: Iterable[tuple[Callable[[], str], Node]],
) -> None:
    """Refuse single writes of an evaluated construct beside wide results.

    The condition has one entry. Symbolic mode would write once per element of the
    results, evaluated mode once in all.
    """
    if active.size != 1 or not any(w.is_single for w in found):
        return
    for name, node in results:
        if node.size > 1:
            raise StateError(
                construct,
                "an array is written to by an index, a value and a condition of "
                f"one entry each, beside '{name()}' of {node.size} entries: "
                "evaluated mode would write once, symbolic mode once per element",
                f"make the index as wide as '{name()}', write outside of the "
                "construct, or use symbolic mode.",
            )


def versions_in(scope: Scope, construct: str) -> dict[int, Node]:
    """Return the arrays written in a scope, which must not be replaced besides."""
    found = {}
    for key, (holder, _) in scope.writes.items():
        node = holder._node
        if node.op is not WRITTEN or node.scope is not scope:
            raise StateError(
                construct,
                "an array is both written by index and changed in place "
                "within one branch",
                "assign the result to another variable.",
            )
        found[key] = node
    return found


def indexed_and_changed(construct: str, name: str) -> StateError:
    """Word the error for a state variable whose entries aren't there to be indexed."""
    return StateError(
        construct,
        f"the state variable '{name}' is both indexed and replaced by the body, so "
        "its entries would have to be in memory before the loop has computed them",
        "index another array, use lumijit.alloc_local, or mode='evaluated'.",
    )
