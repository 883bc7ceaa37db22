"""Lowers loops: in which form their state goes from turn to turn, and who goes on.

A condition that is the same in all lanes decides by a scalar. If all conditions are,
the lanes leave together: those active are the ones outside, and nothing is blended.
Otherwise a phi holds the mask of the lanes that are still in. One that has left stays
out, so its state may become anything, but for what is needed after the loop: this is
blended. State that the active lanes share has a phi as a scalar (`uniform`).
"""

from __future__ import annotations

from dataclasses import dataclass

from lumijit.compiler.ir.local_types import is_local
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.ir.region_types import Region
from lumijit.compiler.lower.packet.divergence import Divergence, comment
from lumijit.runtime.dtypes import BOOL


@dataclass
class Frame:
    """A loop while it is lowered: its labels, and its state by position.

    State is in `vectors`, in `scalars`, or in both; in `kept`, if lanes that have left
    need it as it was. `apart` are the conditions that differ between lanes, `exits` the
    state that ends the loop for a lane as soon as it is set.
    """

    node: Node
    outer: str
    apart: list[Node]
    exits: list[int]
    together: list[Node]
    buffers: list[int]
    vectors: list[int]
    scalars: list[int]
    kept: set[int]
    stem: str

    @property
    def loop(self) -> Region:
        """The loop itself."""
        loop: Region = self.node.attr
        return loop

    @property
    def has_mask(self) -> bool:
        """Whether lanes may leave one by one."""
        return bool(self.apart or self.exits)

    def name(self, k: int | str, kind: str = "s") -> str:
        """Return the name of a phi; `.n` is appended for its next value."""
        return f"%{self.stem}.{kind}{k}"


def lower_loop(flow: Divergence, node: Node) -> None:
    """Lower a loop and publish its wanted results."""
    low, b = flow.low, flow.b
    flow.widen_captures(node)
    frame = _frame(flow, node)
    loop, stem = frame.loop, frame.stem
    flow.scratch.enter_loop(node, frame.buffers)
    active = _phis(flow, frame)
    # Lanes that have left aren't tested again: what they would read at an index that
    # the others share isn't theirs.
    low.mask = active
    low.loop_depth += 1
    low.block(loop.header)
    running = _test(flow, frame, active)
    b.block(f"{stem}.body")
    low.mask = running
    low.block(loop.body)
    flow.scratch.leave_body(node, frame.buffers, running)
    low.loop_depth -= 1
    b.branch(f"{stem}.latch")
    b.block(f"{stem}.latch")
    _advance(flow, frame, active, running)
    b.branch(stem)
    b.block(f"{stem}.done")
    _enter_arguments(flow, frame)
    low.mask = frame.outer
    state = {*frame.buffers, *frame.vectors, *frame.scalars}
    low.results[node] = {k: low.values[loop.args[k]] for k in state}


def _frame(flow: Divergence, node: Node) -> Frame:
    low, b = flow.low, flow.b
    loop: Region = node.attr
    needed = flow.uniform.needed
    terms = loop.terms
    exits = {k: t for k, t in loop.exits.items() if t not in needed}
    apart = [t for t in terms if t not in needed and t not in exits.values()]
    kept = flow.demand.finals(node) if apart or exits else set()
    state = flow.demand.results(node)
    buffers = [k for k in state if is_local(loop.args[k])]
    scalars = [k for k in state if loop.args[k] in needed]
    vectors = [k for k in state if k not in buffers and (k not in scalars or k in kept)]
    outer = low.cross_mask()
    assert outer is not None
    return Frame(
        node,
        outer,
        apart,
        list(exits),
        [term for term in terms if term in needed],
        buffers,
        vectors,
        scalars,
        kept,
        b.label("loop"),
    )


def _phis(flow: Divergence, frame: Frame) -> str:
    """Open the header; return the mask of the lanes that are still in."""
    b = flow.b
    node, loop = frame.node, frame.loop
    inits = {k: flow.cross(node.deps[k]) for k in frame.vectors}
    if loop.label:
        b.line(f"; loop: {comment(loop.label)}")
    first = _without(flow, frame.outer, [node.deps[k] for k in frame.exits])
    before, latch = b.current, f"{frame.stem}.latch"

    def phi(ty: str, init: str, name: str) -> str:
        b.line(f"{name} = phi {ty} [ {init}, %{before} ], [ {name}.n, %{latch} ]")
        return name

    b.branch(frame.stem)
    b.block(frame.stem)
    for k, init in inits.items():
        phi(b.crossing_type(loop.args[k].type), init, frame.name(k))
    for k in frame.scalars:
        arg, init = loop.args[k], flow.uniform.scalars[node.deps[k]]
        flow.uniform.scalars[arg] = phi(arg.type.llvm, init, frame.name(k, "u"))
    active = frame.outer
    if frame.has_mask:
        active = b.note_wide(phi(b.mask_type, first, frame.name("active")))
    _enter_arguments(flow, frame)
    return active


def _enter_arguments(flow: Divergence, frame: Frame) -> None:
    """Give the arguments the values that the current block finds in phis."""
    low, loop = flow.low, frame.loop
    scalars = flow.uniform.scalars
    for k, arg in enumerate(loop.args):
        init = frame.node.deps[k]
        if k in frame.vectors:
            low.values[arg] = flow.b.arrived(arg.type, frame.name(k))
        elif k in frame.scalars:
            low.values[arg] = flow.uniform.spread(arg.type, scalars[arg])
        elif loop.body.outputs[k] is arg and arg in flow.demand.wanted:
            low.bind_argument(arg, init)


def _test(flow: Divergence, frame: Frame, active: str) -> str:
    """Close the header: go on if a lane does; return the mask of those that do."""
    low, b = flow.low, flow.b
    word = b.emit(f"load volatile i32, ptr {low.cancel_address}, align 4")
    goes_on = b.emit(f"icmp eq i32 {word}, 0")
    running = active
    for term in frame.apart:
        running = b.binary("and", BOOL, low.values[term], running)
    if frame.has_mask:
        goes_on = b.emit(f"and i1 {b.any_lane(running)}, {goes_on}")
    for term in frame.together:
        goes_on = b.emit(f"and i1 {flow.uniform.scalars[term]}, {goes_on}")
    b.branch_if(goes_on, f"{frame.stem}.body", f"{frame.stem}.done")
    return b.wide(running)


def _advance(flow: Divergence, frame: Frame, active: str, running: str) -> None:
    """Give the phis their next values."""
    low, b = flow.low, flow.b
    loop = frame.loop
    for k in frame.vectors:
        t, new = loop.args[k].type, low.values[loop.body.outputs[k]]
        if k in frame.kept:
            new = b.select(t, running, new, b.arrived(t, frame.name(k)))
        flow.cross_as(t, new, f"{frame.name(k)}.n")
    for k in frame.scalars:
        ty = loop.args[k].type.llvm
        new = flow.uniform.going_on(loop.body.outputs[k])
        b.line(f"{frame.name(k, 'u')}.n = bitcast {ty} {new} to {ty}")
    if frame.has_mask:
        inside = _without(flow, running, [loop.body.outputs[k] for k in frame.exits])
        flow.cross_as(BOOL, inside, f"{active}.n")


def _without(flow: Divergence, mask: str, exits: list[Node]) -> str:
    """Return a mask without the lanes for which an exit is set."""
    b, values = flow.b, flow.low.values
    for node in exits:
        if not (node.op is LITERAL and not node.attr):
            still = b.binary("xor", BOOL, values[node], True)
            mask = b.wide(b.binary("and", BOOL, mask, still))
    return mask
