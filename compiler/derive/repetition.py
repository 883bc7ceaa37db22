"""Recorded code that is computed again, where its derivative is being traced.

Other nodes (`images`) stand for arguments and captured values, and for what has been
computed again. How derivatives pass along the code is in `blocks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lumijit.compiler.ir import local_types, trace, vertices
from lumijit.compiler.ir.captures import Captures, in_order
from lumijit.compiler.ir.nodes import Node, Scope, begin_walk_after, reached
from lumijit.compiler.ir.ops.structural import CONSUMED, PROJECT, REGIONS
from lumijit.compiler.ir.roles import is_effect, read_deps
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.launch import evaluate
from lumijit.compiler.transform.rewriting import (
    Rewriter,
    pure_nodes,
    without_effects,
)
from lumijit.runtime.errors import DerivativeError

Images = dict[int, Node]


def inside(nodes: Iterable[Node], depth: int) -> list[Node]:
    """Return the nodes that were made in a region, whose surroundings lie so deep."""
    return [node for node in nodes if node.scope.depth > depth]


def home_of(nodes: Iterable[Node], depth: int) -> Scope | None:
    """Return the scope in which code was recorded that nodes result from."""
    for node in nodes:
        if node.scope.depth > depth:
            return node.scope
    return None


def inner_vertices(outputs: Iterable[Node], depth: int) -> list[Vertex]:
    """Return the vertices inside of a region that results depend on."""
    found: dict[int, Vertex] = {}
    stack = [node.vertex for node in outputs if node.vertex is not None]
    while stack:
        vertex = stack.pop()
        if vertex.serial not in found and vertex.scope.depth > depth:
            found[vertex.serial] = vertex
            stack.extend(vertex.parents)
    return list(found.values())


def _needed(
    outputs: Sequence[Node], args: Sequence[Node], depth: int, images: Images
) -> list[Node]:
    """Return the recorded nodes that results need and nothing stands for, in order."""
    home = home_of((*outputs, *args), depth)
    if home is None:
        return []
    inside = [node for node in outputs if node.scope is home]
    # Other threads may differentiate what was recorded, too.
    with evaluate.lock:
        ordered = in_order(inside, home, begin_walk_after(args), Captures())
    left = [node for node in ordered if id(node) not in images]
    return [n for n in pure_nodes(left, inside) if n.op is not CONSUMED]


def _copy(nodes: Sequence[Node], images: Images) -> None:
    """Compute nodes again, operands first; `images` learns what stands for them."""
    rewriter = Rewriter(
        images, is_pure=True, is_tracking=vertices.is_tracking(), is_repeating=True
    )
    copies = rewriter.copy(nodes, trace.state.scope)
    if rewriter.has_lost or any(copy.op is CONSUMED for copy in copies):
        raise DerivativeError(
            "derivative of a region",
            "it needs what an array held that is written to inside, or what a write "
            "returned (lumijit.scatter_inc, scatter_exch), which can't be had again",
            "write outside of what is differentiated, or use evaluated mode "
            "(mode='evaluated').",
        )


def repeat(
    outputs: Sequence[Node], args: Sequence[Node], depth: int, images: Images
) -> None:
    """Compute results of recorded code again; `images` learns what stands for them."""
    _copy(_needed(outputs, args, depth, images), images)


class Code:
    """Recorded code that is computed again bit by bit, as it is needed, in its order.

    `images` learns what stands for its nodes.
    """

    def __init__(
        self, outputs: Sequence[Node], args: Sequence[Node], depth: int, images: Images
    ) -> None:
        """Find the code.

        Args:
            outputs: what may be needed.
            args: the arguments of the region.
            depth: how deep the scope around the region is.
            images: what stands for nodes so far.
        """
        self._images = images
        self._nodes = _needed(outputs, args, depth, images)
        self._places = {id(node): k for k, node in enumerate(self._nodes)}
        self._results: dict[int, list[Node]] = {}
        for node in self._nodes:
            if node.op is PROJECT:
                self._results.setdefault(id(node.deps[0]), []).append(node)
        # Regions for which others stand, with all their results.
        self._replaced: set[int] = set()
        accesses = local_types.accesses(self._nodes) if local_types.in_use() else ()
        self._accesses = {self._places[id(node)] for node in accesses}
        # All before this one have been repeated.
        self._first = 0

    def repeat(self, outputs: Iterable[Node]) -> None:
        """Compute nodes, unless something stands for them.

        Before an access to local memory, what accesses it earlier is repeated, too:
        there, these come first in the code.
        """
        found: set[int] = set()
        stack = list(outputs)
        while stack:
            node = stack.pop()
            k = self._places.get(id(node))
            if k is None or k in found or self._is_known(node):
                continue
            found.add(k)
            stack += read_deps(node)
            stack += self.before(node)
        _copy([self._nodes[k] for k in sorted(found)], self._images)

    def before(self, node: Node) -> list[Node]:
        """Return what accesses local memory earlier than a node does, if it does.

        That is, what nobody has asked for yet.
        """
        k = self._places.get(id(node), 0)
        if k not in self._accesses or k <= self._first:
            return []
        found = self._nodes[self._first : k]
        self._first = k
        return found

    def _is_known(self, node: Node) -> bool:
        return id(node) in self._images or id(node) in self._replaced

    def wanted(self, region: Node) -> list[int]:
        """Return which results of a region may be needed."""
        return [node.attr for node in self._results.get(id(region), ())]

    def replace(self, region: Node, results: Mapping[int, Node]) -> None:
        """Let other nodes stand for the results of a region, by position."""
        self._replaced.add(id(region))
        for node in self._results.get(id(region), ()):
            self._images.setdefault(id(node), results[node.attr])


def arguments_of(
    outputs: Iterable[Node], args: Sequence[Node], depth: int
) -> list[Node]:
    """Return the arguments of a region that results are computed of."""
    known = set(args)

    def below(node: Node) -> list[Node]:
        if node in known or (is_effect(node) and node.op not in REGIONS):
            return []
        deps = without_effects(node)[1] if is_effect(node) else read_deps(node)
        return inside(deps, depth)

    return [node for node in reached(inside(outputs, depth), below) if node in known]
