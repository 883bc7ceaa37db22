"""The PTX target: kernels in which each thread of a GPU computes one element.

The code of an element is that of the thread target; owns the kernel around it and what
GPUs lack. Translating it is up to `runtime.nvptx`; nothing here runs on a GPU yet.
"""

from __future__ import annotations

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.lower.cooperative import kernels as cooperative
from lumijit.compiler.lower.thread.kernel import ThreadLowering
from lumijit.compiler.lower.thread.target import ThreadPlan, ThreadTarget
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.target import Code

# What GPUs have as memory of a thread.
LOCAL_BYTES = 512 << 10

# A grid has a limit: its threads go on with the elements behind it.
_KERNEL = """
define ptx_kernel void @{name}(i64 %size, ptr %args) {{
entry:
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %threads = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %blocks = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %own = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %before = mul i32 %block, %threads
  %thread = add i32 %before, %own
  %first = zext i32 %thread to i64
  %wide = zext i32 %threads to i64
  %high = zext i32 %blocks to i64
  %grid = mul i64 %wide, %high
  br label %test
test:
  %index = phi i64 [ %first, %entry ], [ %after, %inside ]
  %is_element = icmp ult i64 %index, %size
  br i1 %is_element, label %inside, label %exit
inside:
  call void @element(i64 %index, i32 %thread, ptr %args)
  %after = add i64 %index, %grid
  br label %test
exit:
  ret void
}}
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
"""


class PtxTarget(ThreadTarget):
    """Writes kernels for GPUs, as LLVM IR that `runtime.nvptx` translates."""

    name = "ptx"
    collectives = cooperative.nvvm()

    def plan(self, program: Program, info: TargetInfo) -> ThreadPlan:
        """Find what is wanted; of the processor, nothing is assumed."""
        return super().plan(program, TargetInfo(lanes_f32=1))

    def lower(self, program: Program, plan: ThreadPlan, name: str) -> Code:
        """Write a program's kernel."""
        demand, work, info = plan
        lowering = ThreadLowering(program, demand, info, has_cancel=False)
        lowering.scratch.stack_bytes = LOCAL_BYTES
        lines = lowering.element()
        if lowering.scratch.thread_bytes:
            raise self.lacks(f"more than {LOCAL_BYTES >> 10} KiB of local memory")
        ir = "\n".join([*lines, _KERNEL.format(name=name)])
        return Code(ir, 1, work.operations, work.cost, 0)
