"""Lowers loops and branches to masked execution: what a packet's lanes don't share.

A loop runs while any lane is active and blends the state by the mask of active
lanes; a side of a branch is entered if any lane wants it. Owns which state a loop
must carry; the code inside is lowered by `packet`. Masks that cross basic blocks
travel in their wide form (see `builder`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lumijit.compiler.blocks import Block, Branch, Loop
from lumijit.compiler.local import is_local
from lumijit.compiler.ops.structural import (
    EFFECTS,
    GATHER,
    LOCALS,
    PROJECT,
    REGIONS,
)
from lumijit.compiler.program import iterate_all
from lumijit.compiler.trace import Node
from lumijit.runtime.dtypes import BOOL, DType

if TYPE_CHECKING:
    from lumijit.compiler.lower.packet import PacketLowering

FLAT_BRANCH_COST = 24


class Divergence:
    """The control flow of one packet kernel."""

    def __init__(self, lowering: PacketLowering) -> None:
        self.low = lowering
        self.b = lowering.b
        self._projected: dict[Node, list[Node]] | None = None

    def loop(self, node: Node) -> None:
        """Lower a loop: phis for its live state, the header, the body, a blend."""
        low, b = self.low, self.b
        loop: Loop = node.attr
        self._widen_captures(node)
        state = self._live_state(node)
        buffers = [k for k in state if is_local(loop.args[k])]
        live = [k for k in state if k not in buffers]
        names = {k: b.label("s") for k in live}
        pre, head, body, latch, done = (
            b.label(s) for s in ("pre", "head", "body", "latch", "done")
        )
        outer_mask = low.mask
        outer_wide = None if outer_mask is None else b.wide(outer_mask)
        low.scratch.enter_loop(node, buffers)
        inits = {k: self._cross(node.deps[k]) for k in live}
        if loop.label:
            b.line(f"; loop: {_comment(loop.label)}")
        b.branch(pre)
        b.block(pre)
        b.branch(head)
        b.block(head)
        for k in live:
            ty = self._cross_type(loop.args[k].type)
            b.line(
                f"%{names[k]} = phi {ty} [ {inits[k]}, %{pre} ], "
                f"[ %{names[k]}.n, %{latch} ]"
            )
        scalars = self._scalar_state(node, live, names, pre, latch)
        for k, arg in enumerate(loop.args):
            if k in live:
                low.values[arg] = self._arrive(arg.type, f"%{names[k]}")
            elif loop.body.outputs[k] is arg:
                low.values[arg] = low.values[node.deps[k]]
                scalar = low.uniform.scalar(node.deps[k])
                if scalar is not None:
                    low.uniform.scalars[arg] = scalar
        low.set_mask(outer_wide)
        low.loop_depth += 1
        self._block(loop.header)
        running = low.under_mask(low.values[loop.header.outputs[0]])
        wide = b.wide(running)
        word = b.emit(f"load volatile i32, ptr {low.cancel_address}, align 4")
        alive = b.emit(f"icmp eq i32 {word}, 0")
        goes_on = b.emit(f"and i1 {b.any_lane(running)}, {alive}")
        b.branch_if(goes_on, body, done)
        b.block(body)
        low.set_mask(wide)
        wanted = self._wanted_in_body(loop, state)
        self._block(loop.body, wanted)
        low.scratch.leave_body(node, buffers, wide)
        low.loop_depth -= 1
        b.branch(latch)
        b.block(latch)
        for k in live:
            arg, out = loop.args[k], loop.body.outputs[k]
            old = self._arrive(arg.type, f"%{names[k]}")
            new = b.select(arg.type, wide, low.values[out], old)
            self._cross_as(arg.type, new, f"%{names[k]}.n")
        for k, name in scalars.items():
            out = loop.body.outputs[k]
            ty = out.type.llvm
            b.line(f"{name}.n = bitcast {ty} {low.uniform.scalar(out)} to {ty}")
        b.branch(head)
        b.block(done)
        for k in live:
            arg = loop.args[k]
            low.values[arg] = self._arrive(arg.type, f"%{names[k]}")
        low.set_mask(outer_wide)
        self._publish_results(node, [low.values.get(a, "") for a in loop.args])

    def _scalar_state(
        self, node: Node, live: list[int], names: dict[int, str], pre: str, latch: str
    ) -> dict[int, str]:
        """Write phis for the state that is uniform; active lanes need no blend."""
        uniform = self.low.uniform
        loop: Loop = node.attr
        found: dict[int, str] = {}
        for k in live:
            arg = loop.args[k]
            if arg in uniform.needed:
                found[k] = uniform.scalars[arg] = f"%{names[k]}.u"
                self.b.line(
                    f"{found[k]} = phi {arg.type.llvm} "
                    f"[ {uniform.scalar(node.deps[k])}, %{pre} ], "
                    f"[ {found[k]}.n, %{latch} ]"
                )
        return found

    def _publish_results(self, region: Node, results: list[str]) -> None:
        for node in self._projections(region):
            self.low.values[node] = results[node.attr]

    def _projections(self, region: Node) -> list[Node]:
        """Return the projections of a region that something uses."""
        table = self._projected
        if table is None:
            table = {}
            for node in iterate_all(self.low.program.nodes):
                if node.op is PROJECT:
                    table.setdefault(node.deps[0], []).append(node)
            self._projected = table
        return table.get(region, [])

    def _live_state(self, node: Node) -> list[int]:
        """Return the loop arguments whose values anybody needs."""
        loop: Loop = node.attr
        position = {arg: k for k, arg in enumerate(loop.args)}
        changed = [
            k for k, arg in enumerate(loop.args) if loop.body.outputs[k] is not arg
        ]
        live: set[int] = set()
        reached: set[Node] = set()
        inside = {*loop.header.nodes, *loop.body.nodes}
        stack: list[Node] = [loop.header.outputs[0]]
        stack += [n for n in loop.body.nodes if _has_effect(n)]
        stack += [loop.body.outputs[p.attr] for p in self._projections(node)]
        live.update(p.attr for p in self._projections(node))
        while stack:
            current = stack.pop()
            if current in reached:
                continue
            reached.add(current)
            k = position.get(current)
            if k is not None:
                if k in changed and k not in live:
                    live.add(k)
                if k in changed:
                    stack.append(loop.body.outputs[k])
                continue
            if current in inside:
                stack.extend(current.deps)
        return [k for k in changed if k in live]

    def _wanted_in_body(self, loop: Loop, live: list[int]) -> set[Node] | None:
        """Return the body's nodes that the live state needs; None means all."""
        if len(live) == len(loop.args):
            return None
        stack = [loop.body.outputs[k] for k in live]
        stack += [n for n in loop.body.nodes if _has_effect(n)]
        wanted: set[Node] = set()
        inside = set(loop.body.nodes)
        while stack:
            node = stack.pop()
            if node in inside and node not in wanted:
                wanted.add(node)
                stack.extend(node.deps)
        return wanted

    def _block(self, block: Block, wanted: set[Node] | None = None) -> None:
        for node in block.nodes:
            if wanted is None or node in wanted:
                self.low.node(node)

    def _cross_type(self, t: DType) -> str:
        return self.b.mask_type if t is BOOL else self.b.type(t)

    def _cross(self, node: Node) -> str:
        value = self.low.values[node]
        return self.b.wide(value) if node.type is BOOL else value

    def _cross_as(self, t: DType, value: str, name: str) -> None:
        b = self.b
        ty = self._cross_type(t)
        crossing = b.wide(value) if t is BOOL else value
        # A phi needs a fixed name; the bitcast costs no instruction.
        b.line(f"{name} = bitcast {ty} {crossing} to {ty}")

    def _arrive(self, t: DType, value: str) -> str:
        return self.b.note_wide(value) if t is BOOL else value

    def _widen_captures(self, node: Node) -> None:
        """Bring the masks that a region refers to into their crossing form."""
        for dep in node.deps:
            if dep.type is BOOL and dep in self.low.values:
                self.low.values[dep] = self.b.wide(self.low.values[dep])

    def branch(self, node: Node) -> None:
        """Lower a branch: both sides flat if they are cheap, else each under a test."""
        branch: Branch = node.attr
        self._widen_captures(node)
        condition = self.low.values[node.deps[0]]
        used = sorted({p.attr for p in self._projections(node)})
        if _is_flat(branch):
            self._block(branch.true)
            self._block(branch.false)
            results = {
                k: self.b.select(
                    branch.true.outputs[k].type,
                    condition,
                    self.low.values[branch.true.outputs[k]],
                    self.low.values[branch.false.outputs[k]],
                )
                for k in used
            }
        else:
            results = self._sides(node, condition, used)
        for projection in self._projections(node):
            self.low.values[projection] = results[projection.attr]

    def _sides(self, node: Node, condition: str, used: list[int]) -> dict[int, str]:
        b = self.b
        branch: Branch = node.attr
        outer = self.low.mask
        outer_wide = None if outer is None else b.wide(outer)
        wide_condition = b.wide(condition)
        if branch.label:
            b.line(f"; branch: {_comment(branch.label)}")
        sides: list[dict[int, str]] = []
        for block, positive in ((branch.true, True), (branch.false, False)):
            self.low.set_mask(outer_wide)
            chosen = wide_condition
            if not positive:
                chosen = b.binary("xor", BOOL, chosen, 1)
            chosen = self.low.under_mask(chosen)
            sides.append(self._side(block, chosen, used))
        self.low.set_mask(outer_wide)
        results = {}
        free = self.low.scratch.free_areas(node)
        for k in used:
            output = branch.true.outputs[k]
            yes, no = sides[0][k], sides[1][k]
            if is_local(output):
                results[k] = self.low.scratch.merge(wide_condition, yes, no, free)
            else:
                results[k] = b.select(output.type, wide_condition, yes, no)
        return results

    def _side(self, block: Block, mask: str, used: list[int]) -> dict[int, str]:
        """Lower one side, entered only if some lane wants it."""
        b = self.b
        inside = set(block.nodes)
        direct = {
            k: self.low.values[block.outputs[k]]
            for k in used
            if block.outputs[k] not in inside
        }
        if not any(k not in direct for k in used) and not any(
            _has_effect(n) for n in block.nodes
        ):
            return direct
        start, enter, leave, join = (
            b.label(s) for s in ("test", "enter", "leave", "join")
        )
        wide = b.wide(mask)
        any_lane = b.any_lane(mask)
        b.branch(start)
        b.block(start)
        b.branch_if(any_lane, enter, join)
        b.block(enter)
        self.low.set_mask(wide)
        self._block(block)
        for k in used:
            if is_local(block.outputs[k]):
                direct[k] = self.low.values[block.outputs[k]]
        crossing = {k: self._cross(block.outputs[k]) for k in used if k not in direct}
        b.branch(leave)
        b.block(leave)
        b.branch(join)
        b.block(join)
        phis = {}
        for k, value in crossing.items():
            ty = self._cross_type(block.outputs[k].type)
            phis[k] = b.emit(
                f"phi {ty} [ {value}, %{leave} ], [ zeroinitializer, %{start} ]"
            )
        for k, value in phis.items():
            direct[k] = self._arrive(block.outputs[k].type, value)
        return direct


def _comment(label: str) -> str:
    return label.replace("\n", " ")


def _has_effect(node: Node) -> bool:
    """Tell whether a node, or the region it is, writes to memory."""
    if node.op in EFFECTS:
        return True
    return node.op in REGIONS and bool(len(node.deps) > node.attr.targets)


def _is_flat(branch: Branch) -> bool:
    """Tell whether executing both sides is cheaper than testing the lanes."""
    cost = 0
    for block in branch.blocks:
        if any(is_local(out) for out in block.outputs):
            return False
        for node in block.nodes:
            if node.op in REGIONS or node.op in EFFECTS or node.op is GATHER:
                return False
            if node.op in LOCALS:
                return False
            cost += node.op.cost
    return cost <= FLAT_BRANCH_COST
