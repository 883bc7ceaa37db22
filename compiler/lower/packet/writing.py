"""From a program to the code of its kernel: what is found out first, and its text."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.common.effort import Effort, effort
from lumijit.compiler.lower.packet.fold import Fold
from lumijit.compiler.lower.packet.kernel import PacketLowering
from lumijit.compiler.lower.packet.late import Late
from lumijit.compiler.lower.packet.uniform import Found, find_uniform
from lumijit.compiler.lower.packet.width import choose_width
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.target import Code
from lumijit.runtime import collector


class PacketPlan(NamedTuple):
    """What is found out about a program, and how many lanes packets have."""

    demand: Demand
    uniform: Found
    late: Late
    work: Effort
    width: int
    info: TargetInfo


def plan(program: Program, info: TargetInfo) -> PacketPlan:
    """Find what is wanted and uniform, and choose the width."""
    demand = Demand(program)
    work = effort(program, demand)
    uniform = find_uniform(program, demand)
    late = Late(program, demand.wanted, uniform.nodes)
    width = choose_width(program, demand, uniform.nodes, late, work, info)
    return PacketPlan(demand, uniform, late, work, width, info)


def lower(program: Program, plan: PacketPlan, name: str) -> Code:
    """Write a program's kernel."""
    demand, uniform, late, work, width, info = plan
    parts = demand, uniform, late, width, info
    with closing(PacketLowering(program, *parts)) as lowering:
        ir = lowering.lower(name)
        wide = tuple(lowering.numbers.wide.values())
        scratch_bytes = lowering.scratch.thread_bytes
    return Code(ir, width, work.operations, work.cost, scratch_bytes, wide)


def fold(program: Program, info: TargetInfo, op: str, by_rows: bool, name: str) -> str:
    """Write the kernel that combines what a program computes, by runs or by rows."""
    with closing(Fold(program, info)) as lowering:
        return lowering.of_rows(name, op) if by_rows else lowering.of_runs(name, op)


# What the first of kernels imports stays.
collector.keep()
