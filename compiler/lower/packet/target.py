"""The packet target: kernels that process several elements in vector registers."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.lower import collectives
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.common.effort import Effort, effort
from lumijit.compiler.lower.packet.kernel import PacketLowering
from lumijit.compiler.lower.packet.uniform import Found, find_uniform
from lumijit.compiler.lower.packet.width import choose_width
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.target import Code, Target


class PacketPlan(NamedTuple):
    """What is found out about a program, and how many lanes packets have."""

    demand: Demand
    uniform: Found
    work: Effort
    width: int
    info: TargetInfo


class PacketTarget(Target):
    """Writes kernels for packets of lanes."""

    name = "packet"
    has_private_copies = True
    has_streaming_stores = True
    collectives = collectives

    def plan(self, program: Program, info: TargetInfo) -> PacketPlan:
        """Find what is wanted and uniform, and choose the width."""
        demand = Demand(program)
        work = effort(program, demand)
        uniform = find_uniform(program, demand)
        width = choose_width(program, demand, uniform.nodes, work, info)
        return PacketPlan(demand, uniform, work, width, info)

    def lower(self, program: Program, plan: PacketPlan, name: str) -> Code:
        """Write a program's kernel."""
        demand, uniform, work, width, info = plan
        with closing(PacketLowering(program, demand, uniform, width, info)) as lowering:
            ir = lowering.lower(name)
            wide = tuple(lowering.literals.wide.values())
            scratch_bytes = lowering.scratch.thread_bytes
        return Code(ir, width, work.operations, work.cost, scratch_bytes, wide)


TARGET = PacketTarget()
