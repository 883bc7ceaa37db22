"""What custom operations keep for their derivatives, and what stands for it in these.

Owns which arrays an operation can reach; when derivatives run is up to `custom`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.control.reachability import Reach
from lumijit.pytree_walks import flat_map


class KeptArray:
    """An array that an operation has kept, and its contents at that time, detached."""

    def __init__(self, leaf: FlatArray) -> None:
        self.leaf = leaf
        self._before = leaf._node
        self.node = trace.detached(leaf._node)

    def is_current(self, node: Node) -> bool:
        """Tell whether the array still has the contents that a node stands for."""
        return node is self.node and self.leaf._node is self._before


def of_the_region(op: Any, others: Sequence[KeptArray]) -> list[FlatArray]:
    """Return the other arrays that an operation can reach and that a region computes.

    By slots, objects that are no PyTrees, or variables of enclosing functions.
    """
    if trace.state.scope is ROOT:
        return []
    reach = Reach()
    reach.follow(op)
    known = {id(other.leaf) for other in others}
    found = [leaf for leaf in reach.arrays if leaf._node.scope is not ROOT]
    return [leaf for leaf in found if id(leaf) not in known]


@contextmanager
def standing_for(nodes: dict[FlatArray, Node]) -> Iterator[None]:
    """Give arrays of a region other nodes in a `with` block."""
    before = [leaf._node for leaf in nodes]
    for leaf, node in nodes.items():
        leaf._become(node)
    try:
        yield
    finally:
        for leaf, node in zip(nodes, before, strict=True):
            leaf._become(node)


def stand_in(node: Node, grads: dict[int, Node]) -> Node:
    """Return a variable that has the contents of a node, for one run.

    In a region, each element has a gradient of its own.
    """
    if trace.state.scope is not ROOT and node.size == 1:
        node = trace.resized(node, max((n.size for n in grads.values()), default=1))
    made = trace.copied(trace.detached(node))
    with vertices.selecting(None):
        vertices.add_variable(made)
    return made


def with_nodes(value: Any, nodes: dict[int, Node]) -> Any:
    """Return a PyTree of new arrays, which have other nodes if these are given."""

    def renewed(leaf: Any) -> Any:
        if not isinstance(leaf, FlatArray):
            return leaf
        return wrap(type(leaf), nodes.get(id(leaf), leaf._node))

    return flat_map(renewed, value)
