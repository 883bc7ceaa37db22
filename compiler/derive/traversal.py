"""Propagation of gradients along the graph of vertices, forward and in reverse.

First the vertices that take part are collected (`enqueue`), then derivatives pass
from one to the next in the order of their serial numbers (`traverse`). What this
computes is traced as any other program. Nothing here recurses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lumijit.compiler.derive import branching, loops, rules
from lumijit.compiler.derive.adjoints import Adjoint, Places
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.ops.structural import BRANCH, CALL, LOOP
from lumijit.compiler.ir.trace import Node
from lumijit.compiler.ir.vertices import Vertex
from lumijit.runtime.contexts import Variable

Found = dict[int, Vertex]
rules.RULES.update({BRANCH: branching.RULE, CALL: branching.RULE, LOOP: loops.RULE})


@dataclass(frozen=True)
class Clearing:
    """What a traversal forgets of the vertices that it went on from."""

    edges: bool = True
    inputs: bool = True
    interior: bool = True


class Isolation:
    """A boundary: vertices made before it take gradients, but don't pass them on.

    What has arrived there goes on when the boundary is left.
    """

    def __init__(self) -> None:
        self.start = vertices.next_serial()
        self.postponed: Found = {}


_queue: Variable[Found | None] = Variable("queue", None)
_isolation: Variable[Isolation | None] = Variable("isolation", None)
isolating = _isolation.during


def _users(vertex: Vertex) -> Iterator[Vertex]:
    for entry in vertex.users:
        user = entry()
        # What a region computes of it inside belongs to the region's own derivative.
        if user is not None and user.inputs and user.scope is vertex.scope:
            yield user


def _collect(seeds: Iterable[Vertex], is_forward: bool, start: int) -> Found:
    """Return all vertices that can be reached; not beyond those made before `start`."""
    found: Found = {}
    stack = list(seeds)
    while stack:
        vertex = stack.pop()
        if vertex.serial in found:
            continue
        found[vertex.serial] = vertex
        if is_forward:
            stack.extend(_users(vertex))
        elif vertex.serial >= start:
            stack.extend(vertex.parents)
    return found


def enqueue(seeds: list[Vertex], is_forward: bool) -> None:
    """Have the vertices that can be reached from seeds take part in the next pass."""
    isolation = _isolation.get()
    start = isolation.start if isolation is not None else 0
    known = _queue.get() or {}
    _queue.set({**known, **_collect(seeds, is_forward, start)})


def traverse(is_forward: bool, clearing: Clearing, is_tracked: bool = False) -> None:
    """Propagate gradients along the vertices that were enqueued.

    Args:
        is_forward: from operands to results, else from results to operands.
        clearing: what to forget.
        is_tracked: whether derivatives of what is computed here are tracked, too.
    """
    found = _queue.get() or {}
    _queue.set(None)
    run = _forward if is_forward else _backward
    if is_tracked:
        run(found, clearing)
        return
    with vertices.selecting(vertices.NOTHING):
        run(found, clearing)


def _forward(found: Found, clearing: Clearing) -> None:
    passed = [found[serial] for serial in sorted(found)]
    for vertex in passed:
        parents = {k: vertex.deps[k].vertex for k in vertex.inputs}
        tangents = {
            k: parent.grad
            for k, parent in parents.items()
            if parent.serial in found and parent.grad is not None
        }
        if tangents:
            pushed = rules.push(Step(vertex), tangents)
            if isinstance(pushed, Node):
                arrived = Adjoint(vertex, vertex.grad)
                arrived.add(pushed)
                pushed = arrived.complete()
            vertex.grad = pushed
    sources = {p.serial: p for v in passed for p in v.parents if p.serial in found}
    for source in sources.values():
        is_interior = any(p.serial in found for p in source.parents)
        if clearing.interior if is_interior else clearing.inputs:
            source.grad = None
    if clearing.edges:
        for vertex in passed:
            if any(p.serial in found for p in vertex.parents):
                vertex.cut()


def _backward(found: Found, clearing: Clearing) -> None:
    isolation = _isolation.get()
    start = isolation.start if isolation is not None else 0
    places = Places()
    seeds = {serial for serial, v in found.items() if v.grad is not None}
    for serial in seeds:
        places.at(found[serial])
    while places:
        vertex, adjoint = places.pop()
        serial = vertex.serial
        into = {}
        if serial >= start:
            parents = ((k, vertex.deps[k].vertex) for k in vertex.inputs)
            into = {k: places.at(p) for k, p in parents if p.serial in found}
        elif vertex.inputs and isolation is not None:
            isolation.postponed[serial] = vertex
        if not into:
            vertex.grad = adjoint.complete()
            continue
        rules.pull(Step(vertex), into, adjoint)
        is_seed = serial in seeds
        if clearing.inputs if is_seed else clearing.interior:
            vertex.grad = None
        else:
            vertex.grad = adjoint.complete()
        if clearing.edges:
            vertex.cut()


def leave(isolation: Isolation) -> None:
    """Propagate what had to wait for the end of an isolated part, now left."""
    if isolation.postponed:
        enqueue(list(isolation.postponed.values()), False)
        traverse(False, Clearing())


def gradient(node: Node) -> Node:
    """Return the gradient of a node: zeros where nothing has arrived."""
    vertex = node.vertex
    if vertex is None or vertex.grad is None:
        return trace.literal(node.type, 0.0, node.size)
    found: Node = trace.resized(vertex.grad, node.size)
    return found
