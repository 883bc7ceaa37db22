"""Lowers calls: each body runs for the lanes that select it.

A few bodies are tried one after the other. Of many, a packet runs those that its
lanes select: it jumps to the body of one lane, runs it for all lanes that want the
same, and repeats that for the rest. A packet whose lanes agree jumps once.

Results that are local buffers get their areas before, and every body leaves its lanes
there. The last body is that of the lanes that call nothing, and returns the buffers
as they were.
"""

from __future__ import annotations

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import CALL
from lumijit.compiler.ir.region_types import Block, Region
from lumijit.compiler.lower.common.scratch import moved_by
from lumijit.compiler.lower.packet.divergence import Divergence, comment, is_flat
from lumijit.runtime.dtypes import UINT32

CHAIN = 8


def lower_call(flow: Divergence, node: Node) -> None:
    """Lower a call and publish its wanted results."""
    assert node.op is CALL
    call: Region = node.attr
    flow.widen_captures(node)
    if call.label:
        flow.b.line(f"; call: {comment(call.label)}")
    homes, outside = flow.scratch.enter_call(node)
    if is_flat(call.bodies, flow.demand):
        results = _flat(flow, node)
    elif len(call.bodies) <= CHAIN:
        results = _chain(flow, node, homes)
    else:
        results = _jumps(flow, node, homes)
    flow.low.values.update(outside)
    flow.low.results[node] = results | homes


def _body(flow: Divergence, body: Block) -> None:
    flow.low.forget(body)
    flow.low.block(body)


def _flat(flow: Divergence, node: Node) -> dict[int, str]:
    """Run all bodies for all lanes and pick; for cheap ones without effects."""
    b, low = flow.b, flow.low
    selector = low.values[node.deps[0]]
    used = flow.demand.results(node)
    results = {k: b.const(node.attr.bodies[0].outputs[k].type, 0) for k in used}
    for position, body in enumerate(node.attr.bodies):
        _body(flow, body)
        chosen = b.compare("eq", UINT32, selector, position + 1)
        for k in used:
            out = body.outputs[k]
            results[k] = b.select(out.type, chosen, low.values[out], results[k])
    return results


def _chain(flow: Divergence, node: Node, homes: dict[int, str]) -> dict[int, str]:
    """Try one body after the other; enter it if a lane wants it."""
    b, low = flow.b, flow.low
    used = [k for k in flow.demand.results(node) if k not in homes]
    outer = low.cross_mask()
    selector = low.values[node.deps[0]]
    if outer is not None:
        selector = b.select(UINT32, outer, selector, 0)
    results = {k: b.const(node.attr.bodies[0].outputs[k].type, 0) for k in used}
    for position, body in enumerate(node.attr.bodies):
        low.mask = outer
        chosen = b.wide(b.compare("eq", UINT32, selector, position + 1))
        low.forget(body)
        moved = moved_by(node, body, homes)
        test = b.any_lane(chosen)
        found = flow.side(body, test, chosen, [*used, *moved], moved)
        for k in used:
            t = body.outputs[k].type
            results[k] = b.select(t, chosen, found[k], results[k])
    low.mask = outer
    return results


def _jumps(flow: Divergence, node: Node, homes: dict[int, str]) -> dict[int, str]:
    """Jump to the body that one lane selects until all lanes are served.

    `rest` holds the selectors of the lanes that are still to be served, and zeros.
    """
    b, low = flow.b, flow.low
    bodies = node.attr.bodies
    used = [k for k in flow.demand.results(node) if k not in homes]
    types = {k: bodies[0].outputs[k].type for k in used}
    outer = low.cross_mask()
    head, join, done = (b.label(s) for s in ("pick", "join", "done"))
    rest = b.label("rest")
    names = {k: b.label("r") for k in used}
    start = low.values[node.deps[0]]
    if outer is not None:
        start = b.select(UINT32, outer, start, 0)
    pre = b.current
    b.branch(head)
    b.block(head)
    vector = b.type(UINT32)
    b.line(f"%{rest} = phi {vector} [ {start}, %{pre} ], [ %{rest}.n, %{join} ]")
    for k in used:
        ty = b.crossing_type(types[k])
        b.line(
            f"%{names[k]} = phi {ty} [ zeroinitializer, %{pre} ], "
            f"[ %{names[k]}.n, %{join} ]"
        )
    name = f"llvm.vector.reduce.umax.{b.suffix(UINT32)}"
    number = b.call("i32", name, (vector, f"%{rest}"))
    lanes = b.compare("eq", UINT32, f"%{rest}", b.splat(UINT32, number))
    wide = b.wide(lanes)
    starts = [b.label("body") for _ in bodies]
    ends = []
    cases = " ".join(f"i32 {k + 1}, label %{s}" for k, s in enumerate(starts))
    b.line(f"switch i32 {number}, label %{done} [ {cases} ]")
    crossing: list[dict[int, str]] = []
    for body, first in zip(bodies, starts, strict=True):
        b.block(first)
        low.mask = wide
        _body(flow, body)
        flow.scratch.leave_call(node, body, homes, wide)
        crossing.append({k: flow.cross(body.outputs[k]) for k in used})
        ends.append(b.current)
        b.branch(join)
    b.block(join)
    found = {}
    for k in used:
        incoming = zip([values[k] for values in crossing], ends, strict=True)
        found[k] = b.phi(b.crossing_type(types[k]), *incoming)
    for k, value in found.items():
        old = b.arrived(types[k], f"%{names[k]}")
        new = b.select(types[k], wide, b.arrived(types[k], value), old)
        flow.cross_as(types[k], new, f"%{names[k]}.n")
    left = b.select(UINT32, wide, 0, f"%{rest}")
    b.line(f"%{rest}.n = bitcast {vector} {left} to {vector}")
    b.branch(head)
    b.block(done)
    low.mask = outer
    return {k: b.arrived(types[k], f"%{names[k]}") for k in used}
