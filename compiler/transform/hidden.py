"""What only vertices refer to: no code of a region, but its derivatives need it.

The step of a custom operation is such a node, as is what that has kept, and what this
is computed of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lumijit.compiler.ir import local_types
from lumijit.compiler.ir.nodes import Node, operands_first, reached
from lumijit.compiler.ir.ops.structural import REGIONS, SYMBOLIC
from lumijit.compiler.ir.region_types import Block, Nodes
from lumijit.compiler.ir.roles import is_effect, read_deps


def with_hidden(
    nodes: Sequence[Node], images: Mapping[int, Node], is_pure: bool = False
) -> Sequence[Node]:
    """Return nodes of a scope with those that only vertices refer to, operands first.

    But for those that have `images`. If it `is_pure`, writes need nothing.
    """
    tracked = [n for n in nodes if n.vertex and n.vertex.deps is not n.deps]
    if not tracked:
        return nodes
    known = {id(node) for node in nodes}
    home = nodes[0].scope

    def deps_of(node: Node) -> Iterable[Node]:
        found = node.deps
        if is_pure and is_effect(node):
            found = read_deps(node) if node.op in REGIONS else ()
        if node.vertex is not None and node.vertex.result() is node:
            found = (*found, *node.vertex.deps)
        # Arguments are up to who copies, as all that has got an image.
        return [d for d in found if d.scope is home and d.op is not SYMBOLIC]

    def is_hidden(node: Node) -> bool:
        return id(node) not in known and id(node) not in images

    if not any(is_hidden(dep) for node in tracked for dep in deps_of(node)):
        return nodes

    def below(node: Node) -> list[Node]:
        return [d for d in deps_of(node) if id(d) in known or is_hidden(d)]

    roots = list(nodes)
    if local_types.in_use():
        roots = [*local_types.accesses(reached(nodes, below)), *nodes]
    return operands_first(roots, below)


def outside(blocks: Iterable[Block], depth: int) -> list[Node]:
    """Return what derivatives of a region's code need of the regions around.

    That is what nothing flows through and the code itself doesn't refer to.
    """
    found: dict[int, Node] = {}
    for block in blocks:
        nodes = with_hidden(block.nodes, {})
        known = None if nodes is block.nodes else set(block.nodes)
        for node in nodes:
            if known is not None and node not in known:
                deps = _all_deps(node)
            elif node.vertex is None or node.vertex.deps is node.deps:
                continue
            else:
                deps = tuple(dep for dep in node.vertex.deps if dep not in node.deps)
            for dep in deps:
                if dep.vertex is None and 0 < dep.scope.depth <= depth:
                    found[id(dep)] = dep
    return list(found.values())


def references(nodes: Sequence[Node]) -> set[Node]:
    """Return what nodes of a scope and their derivatives refer to."""
    return {dep for node in with_hidden(nodes, {}) for dep in _all_deps(node)}


def _all_deps(node: Node) -> Nodes:
    return node.deps if node.vertex is None else (*node.deps, *node.vertex.deps)
