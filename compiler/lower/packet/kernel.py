"""Lowers a program to a kernel that processes packets of lanes (the CPU target).

Owns the shape of the kernel: argument loads, the packet loop, output stores. Loops
are in `loops`, branches in `divergence`, memory access in `access`; what single
operations become is in their records. The kernel's signature is
`void(i64 begin, i64 end, i32 thread, ptr args)`; what `args` holds, its `Signature`
tells.
"""

from __future__ import annotations

from lumijit.compiler.emit import long_blocks
from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.ir.checked_reads import is_checked
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import (
    BRANCH,
    CALL,
    GATHER,
    GATHER_AT,
    LOOP,
    REGIONS,
    SCATTER,
    SCATTER_CAS,
    SCATTER_ERROR,
    SCATTER_FETCH,
    SCATTER_INC,
    SYMBOLIC,
)
from lumijit.compiler.ir.region_types import Block
from lumijit.compiler.ir.roles import is_effect
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.packet.access import Access
from lumijit.compiler.lower.packet.calls import lower_call
from lumijit.compiler.lower.packet.divergence import Divergence
from lumijit.compiler.lower.packet.gathers import Gathers
from lumijit.compiler.lower.packet.invariants import invariants
from lumijit.compiler.lower.packet.late import Late
from lumijit.compiler.lower.packet.loops import lower_loop
from lumijit.compiler.lower.packet.matrices import Matrices
from lumijit.compiler.lower.packet.moves import Moves
from lumijit.compiler.lower.packet.numbers import Numbers
from lumijit.compiler.lower.packet.rows import Rows
from lumijit.compiler.lower.packet.runs import Runs
from lumijit.compiler.lower.packet.scratch import Scratch
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.compiler.lower.packet.stores import Stores
from lumijit.compiler.lower.packet.uniform import Found, Uniform
from lumijit.compiler.plan.program import Program
from lumijit.runtime.dtypes import BOOL, INT32, UINT32


class PacketLowering(PacketState):
    """Writes one program as LLVM IR."""

    def __init__(
        self,
        program: Program,
        demand: Demand,
        uniform: Found,
        late: Late,
        width: int,
        target: TargetInfo,
    ) -> None:
        super().__init__(program, demand, width, target)
        self.numbers = Numbers(self, uniform.nodes)
        self.runs = runs = Runs(self, late)
        rows = Rows(self, runs)
        self.stores = Stores(self, rows)
        self.gathers = Gathers(self, rows)
        self.moves = Moves(self, self.gathers, self.store_packet)
        self.uniform = Uniform(self, uniform, self.gathers)
        self.access = Access(self, self.gathers, self.stores, self.uniform)
        self.matrices = Matrices(self, self.stores, self.access)
        scratch = Scratch(self, self.uniform)
        self.scratch = scratch
        self.divergence = Divergence(self, self.uniform, scratch)
        # What has been computed before the loops that are being lowered.
        self.early: set[Node] = set()

    # The kernel as a whole

    def lower(self, name: str) -> str:
        """Return the module text with one kernel called `name`."""
        b = self.b
        program = self.program
        self.moves.find()
        self.load_arguments()
        for k, target in enumerate(program.targets.values()):
            self.access.bind_target(target, self.signature.target(k))
        self.numbers.widen(self.signature.size_bytes)
        b.block("packet")
        b.line("%index = phi i64 [ %begin, %entry ], [ %next, %packet.end ]")
        if self._needs_tail_mask():
            start = len(b.lines)
            self._tail_mask()
            self.mask = self.tail_mask = self.if_used(start)
        self.compute_all()
        b.branch("packet.end")
        b.block("packet.end")
        b.line(f"%next = add nuw i64 %index, {b.width}")
        b.line("%more = icmp ult i64 %next, %end")
        b.branch_if("%more", "packet", "exit")
        b.block("exit")
        b.line("ret void")
        code = long_blocks.cut(
            b.lines, "slt i64 %end, 0", "exit", not b.has_plain_masks
        )
        return self.module(name, "packet", code)

    def module(self, name: str, first: str, code: list[str]) -> str:
        """Return the module text of a kernel, whose code begins in a block."""
        head = (
            f"define void @{name}(i64 %begin, i64 %end, i32 %thread, "
            "ptr noalias %args) nounwind {"
        )
        parts = self.functions(head, [f"  br label %{first}", *code])
        parts = [*self.used(parts), "!0 = !{}", "!1 = !{i32 1}", long_blocks.WEIGHTS]
        return "\n".join(parts) + "\n"

    def bind_literal(self, node: Node, slot: int) -> None:
        """Load a number in the kernel's entry, or note where it is."""
        if node in self.uniform.needed:
            self.uniform.scalars[node] = self.load_slot(slot, node.type.llvm)
        self.numbers.bind(node, slot)

    def bind_entry(self, node: Node, scalar: str) -> None:
        """Spread an array's only entry in the kernel's entry."""
        self.uniform.scalars[node] = scalar
        with self.writing_entry():
            self.values[node] = self.uniform.spread(node.type, scalar)

    def leave_entry(self, node: Node, slot: int) -> bool:
        """Note where an array is if its only entry is read where it is used."""
        return self.numbers.bind_entry(node, slot)

    def operand(self, node: Node) -> str:
        """Return the value of a node as an operand, loading a late number."""
        return self.numbers.value(node) or self.values[node]

    def _needs_tail_mask(self) -> bool:
        return any(
            n.op in (GATHER_AT, LOOP)
            or (n.op is GATHER and not is_checked(n))
            or (n.op not in REGIONS and is_effect(n))
            for n in self.program.all_nodes()
        )

    def counter(self) -> str:
        """Return the element index of every lane."""
        b = self.b
        scalar = b.emit(f"trunc i64 {self.index_name} to i32")
        return b.add(UINT32, b.splat(UINT32, scalar), self.lane_numbers())

    def _tail_mask(self, end: str = "%end") -> str:
        b = self.b
        left = b.emit(f"sub i64 {end}, {self.index_name}")
        most = b.call("i64", "llvm.umin.i64", ("i64", left), ("i64", str(b.width)))
        count = b.splat(INT32, b.emit(f"trunc i64 {most} to i32"))
        return b.compare("sgt", INT32, count, self.lane_numbers())

    # Nodes

    def finish(self) -> None:
        """Write what waits."""
        self.stores.flush()

    def block(self, block: Block) -> None:
        """Lower the nodes of a block."""
        with self.runs.ends.inside():
            super().block(block)
            self.stores.flush()

    def node(self, node: Node) -> None:
        """Lower one node, whose operands have been lowered."""
        if node not in self.demand.wanted or node in self.runs.late.nodes:
            return
        if node in self.moves.nodes or node in self.early:
            return
        if self.stores.waiting:
            self.stores.before(node)
        if node not in self.uniform.needed or not self.uniform.lower(node):
            super().node(node)

    def loop(self, node: Node) -> None:
        """Lower a loop, and before it what it computes alike in each of its turns."""
        fixed = {*self.runs.late.nodes, *self.moves.nodes}
        found = invariants(node, self.demand.wanted, fixed)
        # (What is before a loop around this one isn't computed again.)
        early = [inner for inner in found if inner not in self.early]
        for inner in early:
            if inner.op is SYMBOLIC:
                self.bind_argument(inner, found[inner][0])
            else:
                self.node(inner)
            if inner.type is BOOL and inner in self.values:
                self.values[inner] = self.b.wide(self.values[inner])
        self.early.update(early)
        lower_loop(self.divergence, node)
        self.early.difference_update(early)

    def load(self, node: Node) -> str:
        """Read the lanes' entries of an array."""
        b = self.b
        t = node.type
        address = b.at(t.memory_llvm, self.address(node), self.index_name)
        raw = b.load(b.memory_type(t), address, t.size_bytes)
        return b.from_memory(t, raw)

    def store(self, node: Node, address: str) -> None:
        """Write a value to the lanes' entries of an array."""
        if node in self.moves.nodes:
            self.moves.add(node, address)
        else:
            self.store_packet(node, address)

    def store_packet(self, node: Node, address: str) -> None:
        """Write a packet."""
        b = self.b
        t = node.type
        value = b.to_memory(t, self.values[node])
        ty = b.memory_type(t)
        place = b.at(t.memory_llvm, address, self.index_name)
        streaming = ", !nontemporal !1" if self.program.is_streaming else ""
        align = min(64, b.width * t.size_bytes)
        b.line(f"store {ty} {value}, ptr {place}, align {align}{streaming}")


PacketLowering.methods = {
    GATHER: lambda low, node: low.gathers.lower(node),
    GATHER_AT: lambda low, node: low.gathers.read_at(node),
    SCATTER: lambda low, node: low.access.scatter(node),
    SCATTER_INC: lambda low, node: low.access.scatter_inc(node),
    SCATTER_ERROR: lambda low, node: low.access.scatter_error(node),
    SCATTER_FETCH: lambda low, node: low.access.scatter_fetch(node),
    SCATTER_CAS: lambda low, node: low.access.scatter_cas(node),
    LOOP: lambda low, node: low.loop(node),
    BRANCH: lambda low, node: low.divergence.branch(node),
    CALL: lambda low, node: lower_call(low.divergence, node),
}
