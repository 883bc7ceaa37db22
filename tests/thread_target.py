"""The thread target: kernels that compute one element after the other, on the CPU.

It has no packets, masks or private copies: what a thread of a GPU does (`ptx`).
"""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.thread.kernel import ThreadLowering
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.target import Code, Collectives, Target
from tests.emulated_block import emulated

_EMULATED = emulated()
_ELEMENT = (
    "define internal void @element(i64 %index, i32 %thread, "
    "ptr noalias %args) nounwind {"
)
# One element after the other.
_KERNEL = """
define void @{name}(i64 %begin, i64 %end, i32 %thread, ptr noalias %args) nounwind {{
entry:
  br label %next
next:
  %index = phi i64 [ %begin, %entry ], [ %after, %next ]
  call void @element(i64 %index, i32 %thread, ptr %args)
  %after = add nuw i64 %index, 1
  %more = icmp ult i64 %after, %end
  br i1 %more, label %next, label %exit
exit:
  ret void
}}
"""


class ElementLowering(ThreadLowering):
    """Writes a program as a function of an element, and a kernel that calls it."""

    def kernel(self, name: str) -> str:
        """Return a module whose kernel computes elements one after the other."""
        self.write()
        lines = self.functions(_ELEMENT, self.b.lines)
        return "\n".join([*lines, _KERNEL.format(name=name)])

    def begin(self) -> None:
        """Go from the entry to the element."""
        self.b.branch("element")
        self.b.block("element")

    def end(self) -> None:
        """Leave the element."""
        self.b.line("ret void")


class ThreadPlan(NamedTuple):
    """What is found out about a program."""

    demand: Demand
    info: TargetInfo


class ThreadTarget(Target):
    """Writes kernels for threads."""

    name = "thread"
    has_private_copies = False
    has_streaming_stores = False

    @property
    def collectives(self) -> Collectives:
        """The kernels for what isn't elementwise."""
        return _EMULATED

    def plan(self, program: Program, info: TargetInfo) -> ThreadPlan:
        """Find what is wanted."""
        return ThreadPlan(Demand(program), info)

    def lower(self, program: Program, plan: ThreadPlan, name: str) -> Code:
        """Write a program's kernel."""
        with closing(ElementLowering(program, *plan)) as lowering:
            return lowering.code(name)


TARGET = ThreadTarget()
