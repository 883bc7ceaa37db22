"""The thread target: kernels that compute one element after the other.

It has no packets, masks or private copies: what a GPU's thread does, on the CPU.
"""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.common.effort import Effort, effort
from lumijit.compiler.lower.cooperative import kernels as cooperative
from lumijit.compiler.lower.thread.kernel import ThreadLowering
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.target import Code, Collectives, Target

_EMULATED = cooperative.emulated()


class ThreadPlan(NamedTuple):
    """What is found out about a program."""

    demand: Demand
    work: Effort
    info: TargetInfo


class ThreadTarget(Target):
    """Writes kernels for threads."""

    name = "thread"
    lowering: type[ThreadLowering] = ThreadLowering
    has_private_copies = False
    has_streaming_stores = False

    @property
    def collectives(self) -> Collectives:
        """The kernels for what isn't elementwise."""
        return _EMULATED

    def plan(self, program: Program, info: TargetInfo) -> ThreadPlan:
        """Find what is wanted."""
        demand = Demand(program)
        return ThreadPlan(demand, effort(program, demand), info)

    def lower(self, program: Program, plan: ThreadPlan, name: str) -> Code:
        """Write a program's kernel."""
        demand, work, info = plan
        with closing(self.lowering(program, demand, info)) as lowering:
            ir = lowering.kernel(name)
            width, scratch_bytes = lowering.at_once, lowering.scratch_bytes
        return Code(ir, width, work.operations, work.cost, scratch_bytes)


TARGET = ThreadTarget()
