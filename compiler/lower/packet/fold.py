"""Kernels that combine what a short program computes, which never lies in memory.

The order is that of `collectives`: a result is the same whether or not
the entries were in memory before.
"""

from __future__ import annotations

from collections.abc import Callable

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.emit.combine import combine_text
from lumijit.compiler.lower.collectives import rows
from lumijit.compiler.lower.collectives.pieces import fold_lanes, lanes, neutral
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.packet.kernel import PacketLowering
from lumijit.compiler.lower.packet.late import Late
from lumijit.compiler.lower.packet.uniform import find_uniform
from lumijit.compiler.plan.program import Program


class Fold(PacketLowering):
    """Writes a program whose one output is combined, by runs or by rows."""

    def __init__(self, program: Program, target: TargetInfo) -> None:
        demand = Demand(program)
        width = lanes(program.outputs[0].type)
        uniform = find_uniform(program, demand)
        late = Late(program, demand.wanted, uniform.nodes)
        super().__init__(program, demand, uniform, late, width, target)

    def of_runs(self, name: str, op: str) -> str:
        """Set dst[r] to the combination of entries r * block … (r + 1) * block.

        Slots: the program's, with dst as its output, then the length of blocks, but for
        the last one, and how many entries there are.
        """
        b, (node,) = self.b, self.program.outputs
        t = node.type
        ty = b.memory_type(t)
        base, block, size = self._slots()
        b.declarations["llvm.umin.i64"] = "declare i64 @llvm.umin.i64(i64, i64)"
        b.block("run")
        b.line("%e = phi i64 [ %begin, %entry ], [ %e.n, %run.end ]")
        b.line(f"%start = mul i64 %e, {block}")
        b.line(f"%behind = add i64 %start, {block}")
        b.line(f"%stop = call i64 @llvm.umin.i64(i64 %behind, i64 {size})")
        self._packets(op, "run", "run.end")
        b.block("run.end")
        b.line(f"%all = phi {ty} [ %whole.total, %tail ], [ %tail.total, %tail.end ]")
        text, result = fold_lanes(op, t, b.width, "%all")
        b.lines.append(text)
        b.line(f"%place = getelementptr {t.memory_llvm}, ptr {base}, i64 %e")
        b.line(f"store {t.memory_llvm} {result}, ptr %place")
        b.line("%e.n = add i64 %e, 1")
        return self._finish(name, "run")

    def of_rows(self, name: str, op: str) -> str:
        """Set dst[o * row + j] to the combination of entries o * period + i * row + j.

        As `collectives.rows_ir`. Slots: the program's, with dst as its output, then the
        length of rows and the period.
        """
        b, (node,) = self.b, self.program.outputs
        t = node.type
        base, row, period = self._slots()
        for slot, value in (("row", row), ("period", period)):
            self.entry.append(f"  %{slot} = add i64 {value}, 0")
        self.entry.append(f"  %dst = getelementptr i8, ptr {base}, i64 0")
        self.entry.append(rows.totals(t))
        for line in rows.declarations(t):
            b.declarations[line.split("@")[1].split("(")[0]] = line
        b.block("tile")
        b.line("%e = phi i64 [ %begin, %entry ], [ %e.n, %done ]")
        b.lines.append(rows.tile_start(op, t, "tile", "each"))
        b.block("each")
        b.line("%has.part = icmp ne i64 %last, 0")
        b.line("%part = zext i1 %has.part to i64")
        b.line("%all.rows = add i64 %count, %part")
        b.branch("row.start")
        b.block("row.start")
        b.line("%i = phi i64 [ 0, %each ], [ %i.n, %row.end ]")
        b.line("%row.at = mul i64 %i, %row")
        b.line("%start = add i64 %base, %row.at")
        b.line("%is.whole = icmp ult i64 %i, %count")
        b.line("%columns = select i1 %is.whole, i64 %n, i64 %last")
        b.line("%stop = add i64 %start, %columns")
        self._packets(op, "row.start", "row.end", self._total_of_column)
        b.block("row.end")
        b.line("%i.n = add i64 %i, 1")
        b.line("%more.rows = icmp ult i64 %i.n, %all.rows")
        b.branch_if("%more.rows", "row.start", "write")
        b.lines.append(rows.tile_end(t))
        b.line("%e.n = add i64 %e, %n")
        return self._finish(name, "tile")

    def _slots(self) -> tuple[str, str, str]:
        """Load all arguments; return the address of the output and two numbers."""
        self.load_arguments()
        last = self.signature.scratch
        base = self.load_slot(self.signature.output(0), "ptr")
        return base, self.load_slot(last, "i64"), self.load_slot(last + 1, "i64")

    def _packets(
        self, op: str, before: str, after: str, at: Callable[[], str] | None = None
    ) -> None:
        """Combine entries %start to %stop: whole packets, then what is left of one.

        `at` writes the address of a packet's totals. Without it, there is one, that
        begins neutral and ends as %whole.total, or as %tail.total if a part was left.
        """
        b, (node,) = self.b, self.program.outputs
        t = node.type
        ty, nothing = b.memory_type(t), f"splat ({t.memory_llvm} {neutral(op, t)})"
        b.line("%length = sub i64 %stop, %start")
        b.line(f"%length.whole = and i64 %length, -{b.width}")
        b.line("%full = add i64 %start, %length.whole")
        b.line("%is.any = icmp ult i64 %start, %full")
        b.branch_if("%is.any", "packet", "tail")
        b.block("packet")
        b.line(f"%index = phi i64 [ %start, %{before} ], [ %next, %packet.end ]")
        if at is None:
            b.line(f"%total = phi {ty} [ {nothing}, %{before} ], [ %sum, %packet.end ]")
        self._combine(op, self._entries(), "sum", "%total", at)
        b.branch("packet.end")
        b.block("packet.end")
        b.line(f"%next = add nuw i64 %index, {b.width}")
        b.line("%more = icmp ult i64 %next, %full")
        b.branch_if("%more", "packet", "tail")
        b.block("tail")
        if at is None:
            from_packets = f"[ {nothing}, %{before} ], [ %sum, %packet.end ]"
            b.line(f"%whole.total = phi {ty} {from_packets}")
        b.line("%is.tail = icmp ult i64 %full, %stop")
        b.branch_if("%is.tail", "tail.start", after)
        b.block("tail.start")
        self.index_name = "%full"
        part = b.blend(ty, self._tail_mask("%stop"), self._entries(), nothing)
        self._combine(op, part, "tail.total", "%whole.total", at)
        b.branch("tail.end")
        b.block("tail.end")
        b.branch(after)

    def _entries(self) -> str:
        """Compute a packet's entries, as they would lie in memory.

        What is computed for it is forgotten: the last packet has a block of its own.
        """
        (node,) = self.program.outputs
        outside = set(self.values)
        for inner in self.program.nodes:
            self.node(inner)
        value = self.b.to_memory(node.type, self.operand(node))
        self.values = {n: v for n, v in self.values.items() if n in outside}
        self.pairs.clear()
        return value

    def _combine(
        self, op: str, value: str, name: str, total: str, at: Callable[[], str] | None
    ) -> None:
        """Combine entries with a total, or with those in memory."""
        b, (node,) = self.b, self.program.outputs
        t = node.type
        ty = b.memory_type(t)
        place = None if at is None else at()
        if place is not None:
            total = b.load(ty, place, t.size_bytes)
        b.lines.append(combine_text(op, t, ty, name, total, value))
        if place is not None:
            b.line(f"store {ty} %{name}, ptr {place}, align {t.size_bytes}")

    def _total_of_column(self) -> str:
        """Return where the totals of a packet's columns lie."""
        b, (node,) = self.b, self.program.outputs
        column = b.emit(f"sub i64 {self.index_name}, %start")
        return b.at(node.type.memory_llvm, "%totals", column)

    def _finish(self, name: str, first: str) -> str:
        """End the loop over %e, which begins in a block, and the module."""
        b = self.b
        b.line("%goes.on = icmp ult i64 %e.n, %end")
        b.branch_if("%goes.on", first, "exit")
        b.block("exit")
        b.line("ret void")
        return self.module(name, first, b.lines)
