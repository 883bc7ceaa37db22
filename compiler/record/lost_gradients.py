"""Loops that would lose the gradients which traversals in their bodies have brought."""

from __future__ import annotations

from collections.abc import Collection

from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.nodes import ROOT, Scope
from lumijit.compiler.ir.ops.structural import BRANCH, LOOP
from lumijit.compiler.ir.region_types import Nodes
from lumijit.compiler.ir.vertices import Vertex
from lumijit.runtime.errors import DerivativeError

Origins = dict[Vertex, set[Vertex]]


def check_isolated(args: Nodes, outputs: Nodes, inner: Scope) -> None:
    """Refuse to lose the gradient that a traversal in a loop's body has brought.

    A variable that stays what it is has that of the loop's start. Of another, the
    gradient is wanted if it depends on what is tracked outside, in whatever turn. If
    that is a variable of a loop around, whose end tells, the gradient counts as its.
    """
    reached = [k for k, a in enumerate(args) if a.vertex and a.vertex.grad is not None]
    if all(outputs[k] is args[k] for k in reached):
        return
    origins = _origins_in_loop(args, outputs, inner.depth - 1)
    for k in reached:
        if outputs[k] is not args[k]:
            _hand_on(origins[args[k].vertex], inner)


def _origins_in_loop(args: Nodes, outputs: Nodes, depth: int) -> Origins:
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
                more = _origins(out.vertex, found, depth)
                is_complete &= more <= found[arg.vertex]
                found[arg.vertex] |= more
    return found


def _origins(start: Vertex, known: Origins, depth: int) -> set[Vertex]:
    """Return the vertices up to a depth of scopes that another one depends on.

    Args:
        start: the vertex.
        known: what the arguments of the region depend on.
        depth: the depth of the scopes.
    """
    found: set[Vertex] = set()
    seen: set[int] = set()
    stack = [start]
    while stack:
        vertex = stack.pop()
        if vertex in known:
            found |= known[vertex]
        elif vertex.scope.depth <= depth:
            found.add(vertex)
        elif vertex.serial not in seen:
            seen.add(vertex.serial)
            stack += _parents(vertex)
    return found


def _parents(vertex: Vertex) -> Collection[Vertex]:
    """Return what a vertex depends on; of a region's result, only what that does."""
    if vertex.op is not vertices.RESULT or vertex.deps[0].op not in (LOOP, BRANCH):
        return vertex.parents
    region, k = vertex.deps[0].attr, vertex.attr
    depth = vertex.deps[0].scope.depth
    if vertex.deps[0].op is LOOP:
        origins = _origins_in_loop(region.args, region.blocks[1].outputs, depth)
        return origins.get(region.args[k].vertex, ())
    outputs = [block.outputs[k].vertex for block in region.blocks]
    return set().union(*(_origins(v, {}, depth) for v in outputs if v))


def _hand_on(origins: set[Vertex], inner: Scope) -> None:
    """Note on variables of loops around that gradients by them are lost."""
    seen: set[Vertex] = set()
    stack = list(origins)
    while stack:
        vertex = stack.pop()
        if vertex.scope is ROOT or vertex.serial in vertices.variables:
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
            stack += _parents(vertex)
            if isinstance(vertex.attr, Vertex):
                stack.append(vertex.attr)
    for vertex in seen:
        if vertex.op is None and vertex.grad is None:
            vertex.give(trace.literal(vertex.type, 0.0))
