"""Kernels that combine what a short program computes, which never lies in memory.

The order is that of `collectives.reduce`: a result is the same whether or not the
entries were in memory before.
"""

from __future__ import annotations

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.emit.combine import combine_text
from lumijit.compiler.lower.collectives.pieces import fold_lanes, lanes, neutral
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.packet.kernel import PacketLowering
from lumijit.compiler.lower.packet.late import Late
from lumijit.compiler.lower.packet.uniform import find_uniform
from lumijit.compiler.plan.program import Program


class Fold(PacketLowering):
    """Writes a program with one output, whose entries are combined."""

    def __init__(self, program: Program, target: TargetInfo) -> None:
        demand = Demand(program)
        width = lanes(program.outputs[0].type)
        uniform = find_uniform(program, demand)
        late = Late(program, demand.wanted, uniform.nodes)
        super().__init__(program, demand, uniform, late, width, target)

    def fold(self, name: str, op: str) -> str:
        """Combine the entries of a block to dst[begin / block].

        Slots: the program's, with dst as its output and the block's length as the last.
        """
        b, (node,) = self.b, self.program.outputs
        t = node.type
        ty, nothing = b.memory_type(t), f"splat ({t.memory_llvm} {neutral(op, t)})"
        self.load_arguments()
        block = self.load_slot(self.signature.scratch, "i64")
        b.block("packet")
        b.line("%index = phi i64 [ %begin, %entry ], [ %next, %packet.end ]")
        b.line(f"%total = phi {ty} [ {nothing}, %entry ], [ %combined, %packet.end ]")
        mask = self._tail_mask()
        for inner in self.program.nodes:
            self.node(inner)
        entries = b.blend(ty, mask, b.to_memory(t, self.operand(node)), nothing)
        b.lines.append(combine_text(op, t, ty, "combined", "%total", entries))
        b.branch("packet.end")
        b.block("packet.end")
        b.line(f"%next = add nuw i64 %index, {b.width}")
        b.line("%more = icmp ult i64 %next, %end")
        b.branch_if("%more", "packet", "exit")
        b.block("exit")
        text, result = fold_lanes(op, t, b.width, "%combined")
        b.lines.append(text)
        b.line(f"%number = udiv i64 %begin, {block}")
        (base,) = self.output_addresses
        b.line(f"%place = getelementptr {t.memory_llvm}, ptr {base}, i64 %number")
        b.line(f"store {t.memory_llvm} {result}, ptr %place")
        b.line("ret void")
        head = (
            f"define void @{name}(i64 %begin, i64 %end, i32 %thread, "
            "ptr noalias %args) nounwind {"
        )
        parts = self.functions(head, ["  br label %packet", *b.lines])
        return "\n".join([*parts, "!0 = !{}", "!1 = !{i32 1}"]) + "\n"
