"""Lowers branches to masked execution, and what all regions have in common.

A side of a branch is entered if any lane wants it. What is needed of the results is
found by `demand`, the code inside is lowered by `packet`; `loops` and `calls` have
modules of their own. Masks that cross basic blocks travel in their wide form (see
`builder`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from lumijit.compiler.ir.local_types import is_local
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import BRANCH, READS, REGIONS
from lumijit.compiler.ir.region_types import Block, Region
from lumijit.compiler.ir.roles import is_effect
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.packet.scratch import Scratch
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.compiler.lower.packet.uniform import Uniform
from lumijit.runtime.dtypes import BOOL, DType

FLAT_BRANCH_COST = 24


class Divergence:
    """The control flow of one packet kernel."""

    def __init__(self, low: PacketState, uniform: Uniform, scratch: Scratch) -> None:
        self.low = low
        self.b = low.b
        self.demand = low.demand
        self.uniform = uniform
        self.scratch = scratch

    def cross(self, node: Node) -> str:
        """Return a node's value in its crossing form."""
        return self.b.crossing(node.type, self.low.values[node])

    def cross_as(self, t: DType, value: str, name: str) -> None:
        """Give a value in its crossing form a fixed name."""
        b = self.b
        ty = b.crossing_type(t)
        # A phi needs a fixed name; the bitcast costs no instruction.
        b.line(f"{name} = bitcast {ty} {b.crossing(t, value)} to {ty}")

    def widen_captures(self, node: Node) -> None:
        """Bring the masks that a region refers to into their crossing form."""
        for dep in node.deps:
            if dep.type is BOOL and dep in self.low.values:
                self.low.values[dep] = self.b.wide(self.low.values[dep])

    def branch(self, node: Node) -> None:
        """Lower a branch: both sides flat if they are cheap, else each under a test."""
        branch: Region = node.attr
        self.widen_captures(node)
        condition = self.low.values[node.deps[0]]
        used = self.demand.results(node)
        if is_flat(branch.blocks, self.demand):
            self.low.block(branch.true)
            self.low.block(branch.false)
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
        self.low.results[node] = results

    def _sides(self, node: Node, condition: str, used: list[int]) -> dict[int, str]:
        b = self.b
        branch: Region = node.attr
        outer = self.low.cross_mask()
        wide_condition = b.wide(condition)
        scalar = self.uniform.scalar(node.deps[0])
        if branch.label:
            b.line(f"; branch: {comment(branch.label)}")
        passing = self.uniform.passing(node)
        sides: list[dict[int, str]] = []
        for block, positive in ((branch.true, True), (branch.false, False)):
            self.low.mask = outer
            if scalar is not None:
                test = scalar if positive else b.emit(f"xor i1 {scalar}, true")
                sides.append(self.side(block, test, outer, used, {}, passing))
                continue
            chosen = wide_condition
            if not positive:
                chosen = b.binary("xor", BOOL, chosen, 1)
            chosen = self.low.under_mask(chosen)
            test = b.any_lane(chosen)
            sides.append(self.side(block, test, b.wide(chosen), used, {}, passing))
        self.low.mask = outer
        results = {}
        free = self.scratch.free_areas(node)
        for k in used:
            output = branch.true.outputs[k]
            yes, no = sides[0][k], sides[1][k]
            if is_local(output):
                results[k] = self.scratch.merge(wide_condition, yes, no, free)
            else:
                results[k] = b.select(output.type, wide_condition, yes, no)
        return results

    def side(
        self,
        block: Block,
        test: str,
        mask: str | None,
        used: list[int],
        homes: dict[int, str],
        passing: Iterable[Node] = (),
    ) -> dict[int, str]:
        """Lower one side for the lanes of a mask, entered if a scalar test holds.

        `homes` are the areas in which local buffers are to be left, if that matters;
        `passing` are results with which lanes go on as scalars (see `uniform`).
        """
        b, uniform = self.b, self.uniform
        inside = set(block.nodes)
        direct = {
            k: self.low.values[block.outputs[k]]
            for k in used
            if block.outputs[k] not in inside
        }
        if not any(k not in direct for k in used) and not any(
            is_effect(n) for n in block.nodes
        ):
            return direct
        enter, join = b.label("enter"), b.label("join")
        start = b.current
        b.branch_if(test, enter, join)
        b.block(enter)
        self.low.mask = mask
        self.low.block(block)
        if homes:
            outputs = {k: block.outputs[k] for k in homes}
            self.scratch.leave_block(outputs, homes, mask)
        for k in used:
            if is_local(block.outputs[k]):
                direct[k] = self.low.values[block.outputs[k]]
        crossing = {k: self.cross(block.outputs[k]) for k in used if k not in direct}
        scalars = {
            p: uniform.going_on(uniform.passed[p])
            for p in passing
            if uniform.passed[p] is block.outputs[p.attr]
        }
        leave, nothing = b.current, ("zeroinitializer", start)
        b.branch(join)
        b.block(join)
        for p, scalar in scalars.items():
            uniform.scalars[p] = b.phi(p.type.llvm, (scalar, leave), nothing)
        phis = {}
        for k, value in crossing.items():
            ty = b.crossing_type(block.outputs[k].type)
            phis[k] = b.phi(ty, (value, leave), nothing)
        for k, value in phis.items():
            direct[k] = b.arrived(block.outputs[k].type, value)
        return direct


def comment(label: str) -> str:
    """Return a label as text for one line of the generated code."""
    return label.replace("\n", " ")


def is_flat(blocks: Iterable[Block], demand: Demand) -> bool:
    """Tell whether executing all blocks is cheaper than testing the lanes."""
    return _flat_cost(blocks, demand) <= FLAT_BRANCH_COST


def _flat_cost(blocks: Iterable[Block], demand: Demand) -> float:
    """Return the cost of executing all blocks, infinite where that must not be."""
    cost = 0.0
    for block in blocks:
        if any(is_local(out) for out in block.outputs):
            return math.inf
        for node in block.nodes:
            if node not in demand.wanted:
                continue
            if node.op is BRANCH:
                cost += _flat_cost(node.attr.blocks, demand)
            elif node.op in REGIONS or node.op in READS or is_effect(node):
                # It must not run for lanes that didn't want it, or costs more than
                # a test.
                return math.inf
            else:
                cost += node.op.cost
    return cost
