"""Makes calls of traced callables: which body an element runs, and what for all is one.

`close_call` gets what was traced for each callable. It merges bodies (`merging`),
moves results that all compute alike to the caller, makes the node that selects a
body, and the region. Local buffers from outside that a body writes are results, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.captures import Code
from lumijit.compiler.ir.nodes import ROOT, Node, Scope
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.compiler.ir.ops.logic import AND, EQ, LT, NE
from lumijit.compiler.ir.ops.structural import BITCAST, CAST, GATHER, LITERAL
from lumijit.compiler.ir.region_types import attr_key
from lumijit.compiler.record import local, memory, regions
from lumijit.compiler.record.bodies import Body as Body
from lumijit.compiler.record.merging import Closures, Group, group
from lumijit.runtime.config import flags
from lumijit.runtime.dtypes import UINT32

# Up to so many positions, comparisons tell the body; above, a table.
COMPARED = 8


def close_call(
    index: Node,
    active: Node,
    count: int,
    bodies: Sequence[Body],
    written: Scope,
    label: str,
) -> list[Node]:
    """Make the region that runs `bodies`, and return one node per result.

    Args:
        index: UInt32; the number of the callable that an element calls.
        active: Bool; elements that call.
        count: how many numbers there are; beyond, no callable is called.
        bodies: what was traced. All have results of the same types.
        written: the scope in which it was; it is left, and its writes are those of
            all bodies.
        label: name of the call.

    Returns:
        The results; zero where no callable is called.
    """
    wanted = len(bodies[0].outputs)
    buffers, before = _with_buffers(bodies)
    # What is moved to the caller is other nodes, of which derivatives know nothing.
    is_tracked = bool(vertices.variables) and any(
        n.vertex is not None for b in bodies for n in (*b.code.nodes, *b.outputs)
    )
    groups = group(bodies, flags.merge_functions)
    closures = Closures(groups, count)
    active = trace.emit2(AND, active, trace.emit2(LT, index, _number(count)))
    selector = _select(index, active, count, groups, closures)
    closures.enter(index)
    kept = [found.body for found in groups]
    common: dict[int, Node] = {}
    chosen = _is_set(selector)
    if flags.optimize_calls and len(kept) > 1 and not is_tracked:
        common = _common_results(kept, chosen)
    results = _close(selector, kept, set(common), before, written, label)
    for k, node in common.items():
        results.insert(k, _cleared(chosen, node))
    regions.forget(written)
    local.enter_versions(buffers, results[wanted:])
    return results[:wanted]


def separate(body: Body) -> None:
    """Keep what was traced for a body from what is traced next in its scope."""
    inner = body.scope
    # What comes next sees buffers and arrays as they were before.
    local.suspend(body)
    if inner.writes:
        regions.restore_writes(inner)
        inner.claimed.update((k, node) for k, (_, node) in inner.writes.items())
    inner.effects, inner.writes, inner.locals = [], {}, {}


def close_bodies(
    selector: Node,
    bodies: Sequence[Body],
    written: Scope,
    label: str,
    before: Sequence[Node] = (),
) -> list[Node]:
    """Make the region that runs bodies as they are; return one node per result.

    `selector` is a UInt32: the position of the body that an element runs plus 1. Of
    elements that run none, the last results are what they were `before`.
    """
    wanted = len(bodies[0].outputs)
    buffers, originals = _with_buffers(bodies)
    idle = (*before, *originals)
    results = _close(selector, bodies, set(), idle, written, label)
    local.enter_versions(buffers, results[wanted:])
    return results[:wanted]


def _with_buffers(bodies: Sequence[Body]) -> tuple[local.Sides, tuple[Node, ...]]:
    """Make results of the buffers from outside; return them, and how they were."""
    buffers = local.side_versions(bodies)
    if buffers:
        for k, body in enumerate(bodies):
            body.outputs += tuple([versions[k] for _, versions in buffers])
    return buffers, local.originals(bodies, buffers)


def _close(
    selector: Node,
    bodies: Sequence[Body],
    common: set[int],
    buffers: tuple[Node, ...],
    written: Scope,
    label: str,
) -> list[Node]:
    """Make the region for the results that aren't common: a branch for one body.

    `buffers` are the last results where nothing is called.
    """
    outputs = [body.outputs for body in bodies]
    if common:
        kept = [k for k in range(len(outputs[0])) if k not in common]
        outputs = [tuple([outs[k] for k in kept]) for outs in outputs]
    if not outputs[0] and not written.writes:
        return []
    count = len(outputs[0]) - len(buffers)
    idle = (*(_zero(n) for n in outputs[0][:count]), *buffers)
    if len(bodies) > 1:
        parts = []
        for body, outs in zip(bodies, outputs, strict=True):
            if common:
                body.outputs = outs
                body.changed()
            parts.append((body.code, outs))
        if buffers:
            # Elements that call nothing keep their buffers: a body hands them on.
            with regions.scope(label) as other:
                pass
            parts.append((Code(idle, other), idle))
            last = _number(len(parts))
            selector = trace.select(_is_set(selector), selector, last)
        return regions.close_call(selector, parts, written, label)
    body = bodies[0]
    body.scope.effects, body.scope.writes = body.effects, body.writes
    with regions.scope(label) as other:
        pass
    scopes = body.scope, other
    chosen = _is_set(selector)
    _, results = regions.close_branch(chosen, scopes, (outputs[0], idle))
    return results


def _number(value: int) -> Node:
    return trace.literal(UINT32, value)


def _zero(node: Node) -> Node:
    return trace.literal(node.type, node.type.wrap(0))


def _is_set(selector: Node) -> Node:
    return trace.emit2(NE, selector, _number(0))


def _cleared(chosen: Node, node: Node) -> Node:
    """Return a common result for the elements that call something."""
    return trace.select(chosen, node, _zero(node))


def _select(
    index: Node, active: Node, count: int, groups: list[Group], closures: Closures
) -> Node:
    """Return the number of an element's body plus 1, or 0."""
    listed = [0] * count
    for k, found in enumerate(groups):
        for member in found.members:
            for position in member.positions:
                listed[position] = k + 1
    selector = None
    if not closures.has_data:
        selector = _without_table(index, active, listed)
    if selector is None:
        selector = closures.select(np.array(listed, np.uint32), index, active)
    return selector


def _without_table(index: Node, active: Node, numbers: list[int]) -> Node | None:
    """Return the selector as an expression, if that is short."""
    zero = _number(0)
    if numbers.count(numbers[0]) == len(numbers):
        return trace.select(active, _number(numbers[0]), zero)
    if index.op is LITERAL and index.attr < len(numbers):
        return trace.select(active, _number(numbers[index.attr]), zero)
    if numbers == list(range(1, len(numbers) + 1)):
        return trace.select(active, trace.emit2(ADD, index, _number(1)), zero)
    if len(numbers) > COMPARED:
        return None
    chosen = zero
    for k, number in enumerate(numbers):
        is_here = trace.emit2(EQ, index, _number(k))
        chosen = trace.select(is_here, _number(number), chosen)
    return trace.select(active, chosen, zero)


def _common_results(bodies: list[Body], chosen: Node) -> dict[int, Node]:
    """Find results that all bodies compute alike; repeat them outside."""
    first = bodies[0]
    roots = zip(*(body.outputs for body in bodies), strict=True)
    if not any(_may_be_common(outputs) for outputs in roots):
        return {}
    numbers: dict[Any, int] = {}
    listed = []
    for k, body in enumerate(bodies):
        known: dict[int, int] = {}
        for node in body.code.nodes:
            known[id(node)] = _value_number(node, k, known, numbers)
        listed.append([known.get(id(n), ("outer", id(n))) for n in body.outputs])
    found = {}
    for k, results in enumerate(zip(*listed, strict=True)):
        if all(result == results[0] for result in results):
            found[k] = _repeated(first.outputs[k], first, chosen)
    return found


def _may_be_common(outputs: tuple[Node, ...]) -> bool:
    """Tell from the last operations whether one result may be common to all bodies."""
    first = outputs[0]
    return all(
        node is first
        or (node.op is first.op and node.attr == first.attr and len(node.deps) > 0)
        for node in outputs
    )


def _value_number(
    node: Node, body: int, known: dict[int, int], numbers: dict[Any, int]
) -> int:
    """Return a number that equal computations share, if they can be repeated."""
    key: Any = ("own", id(node), body)
    if _can_repeat(node):
        refs = tuple(known.get(id(d), ("outer", id(d))) for d in node.deps)
        key = (node.op.index, node.type.index, attr_key(node), node.size, refs)
    return numbers.setdefault(key, len(numbers))


def _can_repeat(node: Node) -> bool:
    if node.op is GATHER:
        return node.deps[0].scope is ROOT
    return node.op.lower is not None or node.op in (CAST, BITCAST)


def _repeated(root: Node, body: Body, chosen: Node) -> Node:
    """Compute a body's result in the current scope."""
    made: dict[int, Node] = {}
    for node in Code((root,), body.scope).nodes:
        deps = tuple(made.get(id(d), d) for d in node.deps)
        if node.op is GATHER:
            source, index, mask = deps
            with trace.unmasked(), trace.guarded(None):
                mask = trace.emit2(AND, mask, chosen)
                made[id(node)] = memory.entries(source, index, mask, node.attr or 0)
            continue
        made[id(node)] = trace.append(node.op, node.type, deps, node.attr)
    return made.get(id(root), root)
