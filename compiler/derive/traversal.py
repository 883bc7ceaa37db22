"""Propagation of gradients along the graph of vertices, forward and in reverse.

First the vertices that take part are collected (`enqueue`), then derivatives pass
from one to the next in the order of their serial numbers (`traverse`). What this
computes is traced as any other program. Nothing here recurses.

A traversal inside of a region goes as far as the region: gradients of what lies
outside are added up in memory (`border`), and passed on once the region is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from lumijit.compiler.derive import (
    branching,
    cleared,
    finite,
    loops,
    rules,
    siblings,
    written,
)
from lumijit.compiler.derive.adjoints import Adjoint, Places, adding, mark_partial
from lumijit.compiler.derive.border import (
    Border,
    begins_outside,
    note_read,
    passes_outside,
)
from lumijit.compiler.derive.isolation import (
    Found,
    Rest,
    arrived,
    current,
    is_argument,
    is_outside,
    isolating,
    note_arrived,
    outermost,
    postponed,
    resume,
)
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.ir import blends, trace, vertices
from lumijit.compiler.ir.nodes import ROOT, Node, Scope
from lumijit.compiler.ir.ops.structural import BRANCH, CALL, LOOP
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.record import regions
from lumijit.runtime import collector, recorders
from lumijit.runtime.contexts import Variable
from lumijit.runtime.dtypes import VOID
from lumijit.runtime.errors import DerivativeError
from lumijit.runtime.recorders import listening

rules.RULES.update(
    {
        BRANCH: branching.RULE,
        CALL: branching.RULE,
        LOOP: loops.RULE,
        vertices.REGION_WRITE: written.RULE,
    }
)


class Clearing(NamedTuple):
    """What a traversal forgets of the vertices that it went on from."""

    edges: bool = True
    inputs: bool = True
    interior: bool = True


_queue: Variable[Found | None] = Variable("queue", None)
# What of it was found from operands on.
_ahead: Variable[Found | None] = Variable("ahead", None)
# From where reverse mode was asked to go back since the last traversal.
_starts: Variable[tuple[Vertex, ...]] = Variable("starts", ())
# What isn't reached in forward direction, as it has been cleared before.
_beyond: Variable[tuple[Vertex, ...]] = Variable("beyond", ())


def _users(vertex: Vertex) -> Iterator[Vertex]:
    scope = trace.state.scope
    for entry in vertex.users:
        user = entry()
        # What a region computes of it inside belongs to the region's own derivative.
        if user is not None and user.inputs and user.scope in (vertex.scope, scope):
            yield user


def _has_users(vertex: Vertex) -> bool:
    return next(_users(vertex), None) is not None


def _collect(seeds: Iterable[Vertex], is_forward: bool, start: int) -> Found:
    """Return all vertices that can be reached; not beyond those made before `start`."""
    found: Found = {}
    stack = list(seeds)
    while stack:
        vertex = stack.pop()
        serial = vertex.serial
        if serial in found:
            continue
        found[serial] = vertex
        if is_forward:
            stack.extend(_users(vertex))
        elif serial >= start:
            deps = vertex.deps
            for k in vertex.inputs:
                dep = deps[k]
                stack.append(dep.vertex)
            if is_argument(vertex):
                stack.append(vertex.attr)
    return found


def _with_arguments(found: Found) -> Found:
    """Add what depends on vertices by way of what loops' variables were before."""
    scope: Scope | None = trace.state.scope
    entries: list[Any] = []
    while scope is not None:
        entries += scope.arguments
        scope = scope.parent
    inside = [vertex for entry in entries if (vertex := entry()) is not None]
    while True:
        reached = _collect([*found.values(), *map(outermost, found.values())], True, 0)
        begun = [a for a in inside if outermost(a).serial in reached]
        if all(argument.serial in reached for argument in begun):
            return reached
        found = reached | _collect(begun, True, 0)


def depend_on_earlier(found: Iterable[Vertex], serial: int) -> bool:
    """Tell whether derivatives flow to vertices from tracked ones before a number."""
    chosen = vertices.selected() or vertices.EVERYTHING
    reached = _collect(found, False, serial).items()
    return any(known < serial and vertex in chosen for known, vertex in reached)


def depended_on(seeds: Iterable[Vertex]) -> list[Vertex]:
    """Return all vertices that some depend on, these included, in order."""
    found = _collect(seeds, False, 0)
    return [found[serial] for serial in sorted(found)]


def enqueue(
    seeds: list[Vertex],
    is_forward: bool,
    construct: str,
    is_forward_pass: bool | None = None,
) -> None:
    """Have the vertices that can be reached from seeds take part in the next pass.

    Args:
        seeds: where to begin.
        is_forward: whether to look for what depends on them, else for the opposite.
        construct: who asks.
        is_forward_pass: which way the next pass goes; None: that isn't known.
    """
    resume()
    isolation = current.get()
    start = _forward_start()
    if is_forward_pass is False and isolation is not None:
        start = isolation.start
    found = _collect(seeds, is_forward, start)
    siblings.refuse_between(seeds, found, is_forward, is_forward_pass, construct)
    if is_forward:
        _beyond.set((*_beyond.get(), *cleared.beyond(seeds, found)))
        _ahead.set({**(_ahead.get() or {}), **found})
    else:
        cleared.refuse_cleared(seeds, found, construct, bool(is_forward_pass))
        _starts.set((*_starts.get(), *seeds))
    if listening:
        recorders.present().note_traversal(found.values())
    _queue.set({**(_queue.get() or {}), **found})


def traverse(is_forward: bool, clearing: Clearing, is_tracked: bool = False) -> None:
    """Propagate gradients along the vertices that were enqueued.

    Args:
        is_forward: from operands to results, else from results to operands.
        clearing: what to forget.
        is_tracked: whether derivatives of what is computed here are tracked, too.
    """
    found, starts, beyond = _queue.get() or {}, _starts.get(), _beyond.get()
    ahead = _ahead.get() or {}
    if ahead and trace.state.scope is not ROOT:
        known, ahead = ahead, _with_arguments(ahead)
        if is_forward and any(
            is_argument(vertex) and vertex.serial not in known and _has_users(vertex)
            for vertex in ahead.values()
        ):
            raise passes_outside()
        found = found if is_forward else found | ahead
    _queue.set(None)
    _ahead.set(None)
    _starts.set(())
    _beyond.set(())
    if is_forward:
        cleared.note_missed(beyond)
        if any(serial in postponed.sums for serial in found):
            raise begins_outside()
    else:
        cleared.refuse_given_beyond(beyond, "lumijit.traverse")
        if not clearing.interior:
            siblings.refuse_kept(found, "lumijit.traverse")
    if not is_forward and trace.state.scope is not ROOT:
        border = Border()
        # What was enqueued from its operands on begins wherever there is a gradient.
        begin = starts or [v for v in found.values() if v.inputs]
        if any(border.has(v) and v.grad is not None for v in begin):
            raise begins_outside()
    is_kept = clearing.edges and trace.state.scope is ROOT
    memory = cleared.Memory(found, is_forward) if is_kept else None
    _run(found, is_forward, clearing, is_tracked, _left(ahead, starts))
    if memory is not None:
        del starts, beyond
        memory.keep()


def _left(ahead: Found, starts: Iterable[Vertex]) -> Rest:
    """Return what to leave for later if gradients arrive at what was found ahead.

    What `starts` depend on takes part with all behind.
    """
    left, isolation = Rest(), current.get()
    if ahead and (isolation is not None or trace.state.scope is not ROOT):
        start = isolation.start if isolation is not None else 0
        behind = _collect(starts, False, start)
        for serial, vertex in ahead.items():
            (left.behind if serial in behind else left.alone)[serial] = vertex
    return left


def traverse_between(
    sources: Collection[Vertex],
    results: Collection[Vertex],
    is_forward: bool,
    is_tracked: bool,
) -> None:
    """Propagate gradients along all ways from sources to results, and keep the edges.

    Whatever else was enqueued, isolated or has gradients takes no part. All that lies
    between is tracked with the sources, for derivatives of derivatives.
    """
    ahead = _collect(sources, True, 0)
    start = min(ahead, default=0)
    found = {k: v for k, v in _collect(results, False, start).items() if k in ahead}
    ends = {vertex.serial for vertex in (*sources, *results)}
    inner = [vertex for serial, vertex in found.items() if serial not in ends]
    before = [vertex.grad for vertex in inner]
    for vertex in inner:
        vertex.give(None)
    chosen = vertices.selected()
    if chosen is not None:
        chosen = chosen.altered(inner, True)
    try:
        with isolating(None), vertices.selecting(chosen):
            _run(found, is_forward, Clearing(edges=False), is_tracked, Rest())
    finally:
        for vertex, grad in zip(inner, before, strict=True):
            vertex.give(grad)


def _run(
    found: Found,
    is_forward: bool,
    clearing: Clearing,
    is_tracked: bool,
    left: Rest,
) -> None:
    finite.begin()
    if vertices.exposed:
        vertices.protect()
    selection = vertices.selected() if is_tracked else vertices.NOTHING
    with vertices.selecting(selection):
        if is_forward:
            collector.undisturbed(_forward, found, clearing)
        else:
            collector.undisturbed(_backward, found, clearing, left)


def _forward_start() -> int:
    """Return the number of the first vertex to which forward mode may go."""
    isolation = current.get()
    return 0 if isolation is None else isolation.forward_start


def _forward(found: Found, clearing: Clearing) -> None:
    start = _forward_start()
    passed = [found[serial] for serial in sorted(found) if serial >= start]
    for vertex in passed:
        if is_argument(vertex) and vertex.grad is None:
            vertex.give(vertex.attr.grad)
        if vertex.grad is not None and is_argument(vertex):
            continue
        parents = {k: vertex.deps[k].vertex for k in vertex.inputs}
        tangents = {
            k: parent.grad
            for k, parent in parents.items()
            if parent.serial in found and parent.grad is not None
        }
        if tangents:
            with regions.reopened(vertex.scope):
                _push(vertex, tangents)
    sources = {p.serial: p for v in passed for p in _sources(v) if p.serial in found}
    for source in [v for serial, v in sources.items() if serial >= start]:
        if clearing.interior if source.inputs else clearing.inputs:
            source.give(None)
    if clearing.edges:
        sure = vertices.sure(found)
        for vertex in passed:
            if any(p.serial in found for p in vertex.parents):
                vertex.cut(vertex.serial in sure)


def _sources(vertex: Vertex) -> list[Vertex]:
    """Return what a tangent comes from: of a loop's variable, from before the loop.

    What is a variable there keeps its gradient, as others in the region do.
    """
    if not is_argument(vertex):
        return vertex.parents
    return [vertex.attr] if vertex.attr.inputs else []


def _push(vertex: Vertex, tangents: dict[int, Any]) -> None:
    pushed = rules.push(Step(vertex), tangents)
    if isinstance(pushed, Node):
        total = Adjoint(vertex, vertex.grad)
        total.add(pushed)
        pushed = total.complete()
    vertex.give(pushed)
    blends.forget(vertex)


def go_on(rest: Rest) -> None:
    """Pass gradients on that have arrived somewhere."""
    isolation = current.get()
    start = isolation.start if isolation is not None else 0
    # More may arrive later.
    clearing = Clearing(edges=False)
    found = _collect(rest.behind.values(), False, start)
    left = Rest()
    for serial, vertex in rest.alone.items():
        (left.behind if serial in found else left.alone)[serial] = vertex
    found.update(left.alone)
    with vertices.selecting(vertices.NOTHING):
        _backward(found, clearing, left)


def _interior(found: Found, clearing: Clearing) -> set[int]:
    """Number the vertices of which something was computed (not inputs), if wanted."""
    if clearing.interior == clearing.inputs:
        return set()
    return {k for k, v in found.items() if _has_users(v)}


def _backward(found: Found, clearing: Clearing, left: Rest) -> None:
    isolation = current.get()
    start = isolation.start if isolation is not None else 0
    arrivals = Rest()
    variables = vertices.variables
    sure = vertices.sure(found) if clearing.edges else found
    with arrived.during(arrivals):
        places = Places()
        border = Border()
        for vertex in found.values():
            if vertex.grad is not None and not border.has(vertex):
                places.at(vertex)
        interior = _interior(found, clearing)
        while places:
            vertex, adjoint = places.pop()
            serial = vertex.serial
            into = {}
            if serial >= start:
                deps = vertex.deps
                for k in vertex.inputs:
                    dep = deps[k]
                    parent: Vertex = dep.vertex
                    if parent.serial in found:
                        is_outside = border.has(parent)
                        if is_outside:
                            postponed.will_change()
                            postponed.rest.note(outermost(parent), left)
                        into[k] = (border if is_outside else places).at(parent)
            elif isolation is not None:
                isolation.has_given = True
                if vertex.inputs:
                    isolation.postponed.note(vertex, left)
            if not into:
                with adding:
                    _add_earlier(vertex, adjoint)
                    vertex.give(adjoint.complete())
                note_arrived(vertex)
                continue
            _add_earlier(vertex, adjoint)
            rules.pull(Step(vertex), into, adjoint)
            is_variable = serial in variables
            is_cleared = clearing.interior if serial in interior else clearing.inputs
            is_cleared = (is_cleared and not is_variable) or vertex.type is VOID
            vertex.give(None if is_cleared else adjoint.complete())
            if clearing.edges and not is_variable:
                vertex.cut(serial in sure)
            if arrivals:
                for other in arrivals.behind.values():
                    found.update(_collect([other], False, start))
                    places.at(other)
                for other in arrivals.alone.values():
                    found[other.serial] = other
                    if other.grad is not None:
                        places.at(other)
                left.alone.update(arrivals.alone)
                arrivals.clear()
        border.settle()


def _add_earlier(vertex: Vertex, adjoint: Any) -> None:
    """Add what a vertex has: from before, or from a traversal inside of this one."""
    if vertex.grad is not None and vertex.type is not VOID:
        adjoint.add(vertex.grad)
        mark_partial((adjoint,))


def gradient(node: Node) -> Node:
    """Return the gradient of a tracked node: zeros where nothing has arrived."""
    resume()
    vertex = node.vertex
    if postponed.sums and is_outside(vertex):
        raise DerivativeError(
            "lumijit.grad",
            "gradients of arrays from outside were added in this symbolic loop, "
            "branch or call, and how much there is isn't known before it is over",
            "read the gradient before the construct or after it, or use evaluated "
            "mode.",
        )
    cleared.refuse_missed(vertex)
    note_read(node)
    if vertex.grad is None:
        return trace.literal(node.type, 0.0, node.size)
    found: Node = vertex.grad
    # (In a region, what has one entry may be another one for each element.)
    return found if found.size > node.size else trace.resized(found, node.size)


# What the first of derivatives imports stays.
collector.keep()
