"""Loops that would lose the gradients which traversals in their bodies have brought."""

from __future__ import annotations

from collections.abc import Collection

from lumijit.compiler.ir import blends, trace, vertices
from lumijit.compiler.ir.nodes import ROOT, Node, Scope
from lumijit.compiler.ir.ops.structural import BRANCH, LOOP
from lumijit.compiler.ir.region_types import Nodes
from lumijit.compiler.ir.vertices import Vertex
from lumijit.runtime.errors import DerivativeError

Origins = dict[Vertex, set[Vertex]]
# What the results of regions depend on, by the ids of these.
Known = dict[int, list[set[Vertex]]]


def check_isolated(args: Nodes, outputs: Nodes, inner: Scope) -> None:
    """Refuse to lose the gradient that a traversal in a loop's body has brought.

    A variable that stays what it is has that of the loop's start. Of another, the
    gradient is wanted if it depends on what is tracked outside, in whatever turn. If
    that is a variable of a loop around, whose end tells, the gradient counts as its.
    """
    reached = [k for k, a in enumerate(args) if a.vertex and a.vertex.grad is not None]
    if all(outputs[k] is args[k] for k in reached):
        return
    inside: Known = {}
    origins = _origins_in_loop(args, outputs, inner.depth - 1, inside)
    for k in reached:
        if outputs[k] is not args[k]:
            _hand_on(origins[args[k].vertex], inner, inside)


def _origins_in_loop(args: Nodes, outputs: Nodes, depth: int, inside: Known) -> Origins:
    """Return what a loop's variables depend on outside of it, in whatever turn."""
    found: Origins = {}
    for arg in args:
        if arg.vertex:
            origin = arg.vertex.attr
            found[arg.vertex] = set() if origin is None else {origin}
    is_complete = False
    while not is_complete:
        is_complete = True
        for arg, out in zip(args, outputs, strict=True):
            if arg.vertex and out.vertex:
                more = _origins(out.vertex, found, depth, inside)
                is_complete &= more <= found[arg.vertex]
                found[arg.vertex] |= more
    return found


def _origins(start: Vertex, known: Origins, depth: int, inside: Known) -> set[Vertex]:
    """Return the vertices up to a depth of scopes that another one depends on.

    Args:
        start: the vertex.
        known: what the arguments of the region depend on.
        depth: the depth of the scopes.
        inside: what is known of regions.
    """
    found: set[Vertex] = set()
    seen: set[int] = set()
    stack = [start]
    while stack:
        vertex = stack.pop()
        if vertex in known:
            found |= known[vertex]
        elif vertex.scope.depth <= depth or _is_tracked_inside(vertex):
            found.add(vertex)
        elif vertex.serial not in seen:
            seen.add(vertex.serial)
            stack += _parents(vertex, inside)
    return found


def _is_tracked_inside(vertex: Vertex) -> bool:
    return vertex.serial in vertices.variables or blends.includes(vertex)


def _parents(vertex: Vertex, inside: Known) -> Collection[Vertex]:
    """Return what a vertex depends on; of a region's result, only what that does."""
    if vertex.op is not vertices.RESULT or vertex.deps[0].op not in (LOOP, BRANCH):
        return vertex.parents
    node = vertex.deps[0]
    if id(node) not in inside:
        inside[id(node)] = _results(node, inside)
    found: set[Vertex] = inside[id(node)][vertex.attr]
    return found


def _results(node: Node, inside: Known) -> list[set[Vertex]]:
    """Return what each result of a loop or branch depends on."""
    region, depth = node.attr, node.scope.depth
    if node.op is LOOP:
        outputs = region.blocks[1].outputs
        origins = _origins_in_loop(region.args, outputs, depth, inside)
        return [origins.get(arg.vertex, set()) for arg in region.args]
    pairs = zip(*[block.outputs for block in region.blocks], strict=True)
    found = [[out.vertex for out in pair if out.vertex] for pair in pairs]
    return [
        set().union(*(_origins(v, {}, depth, inside) for v in side)) for side in found
    ]


def _hand_on(origins: set[Vertex], inner: Scope, inside: Known) -> None:
    """Note on variables of loops around that gradients by them are lost."""
    seen: set[Vertex] = set()
    stack = list(origins)
    while stack:
        vertex = stack.pop()
        if vertex.scope is not ROOT and _is_tracked_inside(vertex):
            raise DerivativeError(
                inner.label or "while_loop",
                "the body tracks a loop variable (lumijit.enable_grad) whose gradient "
                "a traversal in the next turn adds to, or the next turn reads, so it "
                "would be lost",
                "call lumijit.enable_grad before the loop, or read the gradient in the "
                "turn that tracks it and detach the variable at its end.",
            )
        if vertex.scope is ROOT:
            raise DerivativeError(
                inner.label or "while_loop",
                "a traversal in the body reaches a loop variable that the loop changes "
                "and that depends on what is tracked outside, so its gradient would be "
                "lost, or the body reads that gradient",
                "detach the variable where the body differentiates, or differentiate "
                "the loop from outside.",
            )
        if vertex not in seen:
            seen.add(vertex)
            stack += _parents(vertex, inside)
            if isinstance(vertex.attr, Vertex):
                stack.append(vertex.attr)
    for vertex in seen:
        if vertex.op is None and vertex.grad is None:
            vertex.give(trace.literal(vertex.type, 0.0))
