"""Lowers a program to a kernel that processes packets of lanes (the CPU target).

Owns the shape of the kernel: argument loads, the packet loop, output stores. Loops
are in `loops`, branches in `divergence`, memory access in `access`; what single
operations become is in their records. The kernel's signature is
`void(i64 begin, i64 end, i32 thread, ptr args)`; what `args` holds, its `Signature`
tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lumijit.compiler.emit.builder import Builder, TargetInfo
from lumijit.compiler.emit.mathlib import FUNCTIONS
from lumijit.compiler.ir.checked_reads import is_checked
from lumijit.compiler.ir.local_types import is_local
from lumijit.compiler.ir.ops import mathematics as m
from lumijit.compiler.ir.ops.logic import SELECT
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    BRANCH,
    CALL,
    CAST,
    COUNTER,
    EVALUATED,
    GATHER,
    GATHER_AT,
    LEAVES,
    LITERAL,
    LOCAL,
    LOCAL_READ,
    LOCAL_WRITE,
    LOOP,
    PROJECT,
    REGIONS,
    SCATTER,
    SCATTER_ERROR,
    SCATTER_INC,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.ir.roles import is_effect
from lumijit.compiler.ir.trace import Node
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.common.outline import Outlined
from lumijit.compiler.lower.packet.access import Access
from lumijit.compiler.lower.packet.calls import lower_call
from lumijit.compiler.lower.packet.divergence import Divergence
from lumijit.compiler.lower.packet.gathers import Gathers
from lumijit.compiler.lower.packet.literals import Literals
from lumijit.compiler.lower.packet.loops import lower_loop
from lumijit.compiler.lower.packet.scratch import Scratch
from lumijit.compiler.lower.packet.stores import Stores
from lumijit.compiler.lower.packet.uniform import Found, Uniform, find_uniform
from lumijit.compiler.lower.packet.width import Effort, choose_width, effort
from lumijit.compiler.plan.program import Program, is_baked
from lumijit.compiler.plan.signature import Signature, Wide
from lumijit.runtime.dtypes import BOOL, INT32, UINT32, DType

_SINCOS = {m.SIN: 0, m.COS: 1}


@dataclass(frozen=True)
class Code:
    """The text of a kernel and facts about it."""

    ir: str
    width: int
    work: Effort
    scratch_bytes: int
    wide: tuple[Wide, ...]


class PacketLowering:
    """Writes one program as LLVM IR."""

    def __init__(
        self,
        program: Program,
        demand: Demand,
        uniform: Found,
        width: int,
        target: TargetInfo,
    ) -> None:
        self.program = program
        self.signature = Signature.of(program)
        self.demand = demand
        self.b = Builder(width, target)
        self.entry: list[str] = []
        self.values: dict[Node, str] = {}
        self.addresses: dict[Node, str] = {}
        self.mask: str | None = None
        # The lanes that are elements: one at least.
        self.tail_mask = ""
        self.count = 0
        self.index_name = "%index"
        # The wanted results of each region, by position.
        self.results: dict[Node, dict[int, str]] = {}
        self.access = Access(self)
        self.stores = Stores(self)
        self.divergence = Divergence(self)
        self.gathers = Gathers(self)
        self.pairs: dict[Node, tuple[str, str]] = {}
        self.loop_depth = 0
        self.literals = Literals(self)
        self.stack: dict[tuple[str, str], str] = {}
        self.outlined = Outlined(program)
        self.scratch = Scratch(self)
        self.uniform = Uniform(self, uniform)

    # The kernel as a whole

    def lower(self, name: str) -> str:
        """Return the module text with one kernel called `name`."""
        b = self.b
        program = self.program
        self._load_arguments()
        b.block("packet")
        b.line("%index = phi i64 [ %begin, %entry ], [ %next, %packet.end ]")
        if self._needs_tail_mask():
            self.tail_mask = self._tail_mask()
            self.set_mask(self.tail_mask)
        for node in program.nodes:
            self.node(node)
        self.stores.flush()
        for k, node in enumerate(program.outputs):
            if is_local(node):
                self.scratch.store(node, self.output_addresses[k])
            else:
                self._store(node, k)
        b.branch("packet.end")
        b.block("packet.end")
        b.line(f"%next = add nuw i64 %index, {b.width}")
        b.line("%more = icmp ult i64 %next, %end")
        b.branch_if("%more", "packet", "exit")
        b.block("exit")
        b.line("ret void")
        return self._module(name)

    def _module(self, name: str) -> str:
        b = self.b
        head = (
            f"define void @{name}(i64 %begin, i64 %end, i32 %thread, "
            "ptr noalias %args) nounwind {"
        )
        self.scratch.reserve()
        entry = ["entry:", *self.entry, "  br label %packet"]
        parts = [head, *entry, *b.lines, "}", *b.helpers.values()]
        parts += b.declarations.values()
        parts.append("!0 = !{}")
        parts.append("!1 = !{i32 1}")
        return "\n".join(parts) + "\n"

    def in_entry(self, text: str) -> str:
        """Append `%new = text` to the kernel's entry and return the name."""
        name = self.b.name()
        self.entry.append(f"  {name} = {text}")
        return name

    def on_stack(self, role: str, ty: str) -> str:
        """Return the address of a vector of the kernel's stack."""
        address = self.stack.get((role, ty))
        if address is None:
            address = self.in_entry(f"alloca {ty}, align 32")
            self.stack[role, ty] = address
        return address

    def slot_pointer(self, slot: int) -> str:
        """Return the address of an argument slot."""
        return self.in_entry(f"getelementptr i8, ptr %args, i64 {8 * slot}")

    def load_slot(self, slot: int, ty: str) -> str:
        """Load a scalar argument in the kernel's entry."""
        return self.in_entry(f"load {ty}, ptr {self.slot_pointer(slot)}, align 8")

    def splat_in_entry(self, dtype: DType, scalar: str) -> str:
        """Broadcast a scalar in the kernel's entry."""
        b = self.b
        lines, b.lines = b.lines, self.entry
        result = b.splat(dtype, scalar)
        b.lines = lines
        return result

    def _load_arguments(self) -> None:
        program = self.program
        for slot, node in enumerate(program.arguments):
            if node.op is LITERAL and node in self.uniform.needed:
                scalar = self.load_slot(slot, node.type.llvm)
                self.uniform.scalars[node] = scalar
            if node.op is LITERAL:
                self.literals.bind(node, slot)
            else:
                address = self.load_slot(slot, "ptr")
                self.addresses[node] = address
                is_value = node.size == 1 and id(node) in program.value_ids
                if is_value and not is_local(node):
                    self.values[node] = self._load_uniform(node, address)
        places = self.signature
        self.output_addresses = [
            self.load_slot(places.output(k), "ptr") for k in range(places.outputs)
        ]
        if places.has_cancel:
            self.cancel_address = self.load_slot(places.cancel, "ptr")
        for k, target in enumerate(program.targets.values()):
            self.access.bind_target(target, places.target(k))
        self.literals.widen(places.size_bytes)

    def _operand(self, node: Node) -> str:
        """Return a value for an operation, loading a late literal."""
        return self.literals.value(node) or self.values[node]

    def _load_uniform(self, node: Node, address: str) -> str:
        dtype = node.type
        scalar = self.in_entry(f"load {dtype.memory_llvm}, ptr {address}")
        if dtype is BOOL:
            scalar = self.in_entry(f"icmp ne i8 {scalar}, 0")
        self.uniform.scalars[node] = scalar
        lines, self.b.lines = self.b.lines, self.entry
        value = self.uniform.spread(dtype, scalar)
        self.b.lines = lines
        return value

    def _needs_tail_mask(self) -> bool:
        return any(
            n.op in (GATHER_AT, LOOP)
            or (n.op is GATHER and not is_checked(n))
            or (n.op not in REGIONS and is_effect(n))
            for n in self.program.all_nodes()
        )

    def lane_numbers(self) -> str:
        """Return the constant vector 0 … W - 1."""
        lanes = ", ".join(f"i32 {k}" for k in range(self.b.width))
        return f"<{lanes}>"

    def counter(self) -> str:
        """Return the element index of every lane."""
        b = self.b
        scalar = b.emit(f"trunc i64 {self.index_name} to i32")
        return b.add(UINT32, b.splat(UINT32, scalar), self.lane_numbers())

    def _tail_mask(self) -> str:
        b = self.b
        left = b.emit(f"sub i64 %end, {self.index_name}")
        most = b.emit(f"call i64 @llvm.umin.i64(i64 {left}, i64 {b.width})")
        b.declarations["llvm.umin.i64"] = "declare i64 @llvm.umin.i64(i64, i64)"
        count = b.splat(INT32, b.emit(f"trunc i64 {most} to i32"))
        return b.compare("sgt", INT32, count, self.lane_numbers())

    # Masks

    def set_mask(self, mask: str | None) -> None:
        """Make a mask that of the active lanes."""
        self.mask = mask

    def under_mask(self, mask: str) -> str:
        """Combine a mask with the active lanes."""
        if self.mask is None:
            return mask
        if mask == self.b.const(BOOL, True):
            return self.mask
        return self.b.binary("and", BOOL, mask, self.mask)

    # Nodes

    def value(self, node: Node) -> str:
        """Return the operand that holds a node's value."""
        return self.values[node]

    def node(self, node: Node) -> None:
        """Lower one node, whose operands have been lowered."""
        op = node.op
        if node not in self.demand.wanted:
            return
        if self.stores.waiting:
            self.stores.before(node)
        if node in self.uniform.needed and self.uniform.lower(node):
            return
        if op.lower is not None:
            self.count += 1
            if op in _SINCOS and self._sincos(node):
                return
            operand_type = node.type if op is SELECT else node.deps[0].type
            args = [self._operand(d) for d in node.deps]
            if node.attr is not None:
                args.append(node.attr)
            if self.outlined.wants(op, operand_type, self.loop_depth):
                self.values[node] = self.outlined.call(self.b, op, operand_type, args)
            else:
                self.values[node] = op.lower(self.b, operand_type, *args)
            return
        self.count += op not in _FREE
        lower = _LOWER.get(op)
        if lower is None:
            raise AssertionError(f"no lowering for {op.name}")
        value = lower(self, node)
        if value is not None:
            self.values[node] = value

    def _literal(self, node: Node) -> str | None:
        return self.b.const(node.type, node.attr) if is_baked(node) else None

    def _evaluated(self, node: Node) -> str | None:
        if is_local(node):
            self.scratch.bind(node)
        elif node not in self.values and id(node) in self.program.value_ids:
            return self._load(node)
        return None

    def _cast(self, node: Node) -> str:
        source = node.deps[0]
        return self.b.cast(source.type, self.values[source], node.type)

    def _bitcast(self, node: Node) -> str:
        source = node.deps[0]
        return self.b.bitcast(source.type, self.values[source], node.type)

    def _sincos(self, node: Node) -> bool:
        """Compute sine and cosine of one argument together."""
        arg = node.deps[0]
        if arg.type.bits == 16 or arg not in self._angle_pairs():
            return False
        pair = self.pairs.get(arg)
        if pair is None:
            pair = FUNCTIONS["sincos"](self.b, arg.type, self._operand(arg))
            self.pairs[arg] = pair
        self.values[node] = pair[_SINCOS[node.op]]
        return True

    def _angle_pairs(self) -> set[Node]:
        """Return the arguments of which both are wanted in one scope."""
        cached: set[Node] | None = getattr(self, "_angles", None)
        if cached is None:
            seen: dict[Node, set[tuple[int, int]]] = {}
            for node in self.program.all_nodes():
                if node.op in _SINCOS and node in self.demand.wanted:
                    use = (_SINCOS[node.op], id(node.scope))
                    seen.setdefault(node.deps[0], set()).add(use)
            cached = {
                arg
                for arg, uses in seen.items()
                if len(uses) == 2 and len({s for _, s in uses}) == 1
            }
            self._angles = cached
        return cached

    def _load(self, node: Node) -> str:
        b = self.b
        t = node.type
        address = b.emit(
            f"getelementptr {t.memory_llvm}, ptr {self.addresses[node]}, "
            f"i64 {self.index_name}"
        )
        ty = f"<{b.width} x {t.memory_llvm}>"
        raw = b.emit(f"load {ty}, ptr {address}, align {t.size_bytes}")
        if t is BOOL:
            return b.emit(f"icmp ne {ty} {raw}, zeroinitializer")
        return raw

    def _store(self, node: Node, position: int) -> None:
        b = self.b
        t = node.type
        base = self.output_addresses[position]
        value = self.values[node]
        ty = f"<{b.width} x {t.memory_llvm}>"
        if t is BOOL:
            value = b.emit(f"zext {b.type(BOOL)} {b.narrow(value)} to {ty}")
        address = b.emit(
            f"getelementptr {t.memory_llvm}, ptr {base}, i64 {self.index_name}"
        )
        streaming = ", !nontemporal !1" if self.program.is_streaming else ""
        align = min(64, b.width * t.size_bytes)
        b.line(f"store {ty} {value}, ptr {address}, align {align}{streaming}")


def lower(program: Program, name: str, target: TargetInfo) -> Code:
    """Lower a program to LLVM IR text."""
    demand = Demand(program)
    work = effort(program, demand)
    uniform = find_uniform(program, demand)
    width = choose_width(program, demand, uniform.nodes, work, target)
    lowering = PacketLowering(program, demand, uniform, width, target)
    ir = lowering.lower(name)
    scratch_bytes = lowering.scratch.thread_bytes
    wide = tuple(lowering.literals.wide.values())
    return Code(ir, width, work, scratch_bytes, wide)


_Low = PacketLowering
# What lowers a node of each structural op: it returns the value, or enters it itself.
_LOWER: dict[Op, Callable[[PacketLowering, Node], str | None]] = {
    LITERAL: _Low._literal,
    EVALUATED: _Low._evaluated,
    CAST: _Low._cast,
    BITCAST: _Low._bitcast,
    COUNTER: lambda low, node: low.counter(),
    UNDEFINED: lambda low, node: low.b.const(node.type, 0),
    GATHER: lambda low, node: low.gathers.lower(node),
    GATHER_AT: lambda low, node: low.gathers.read_at(node),
    SCATTER: lambda low, node: low.access.scatter(node),
    SCATTER_INC: lambda low, node: low.access.scatter_inc(node),
    SCATTER_ERROR: lambda low, node: low.access.scatter_error(node),
    LOCAL: lambda low, node: low.scratch.allocate(node),
    LOCAL_READ: lambda low, node: low.scratch.read(node),
    LOCAL_WRITE: lambda low, node: low.scratch.write(node),
    LOOP: lambda low, node: lower_loop(low.divergence, node),
    BRANCH: lambda low, node: low.divergence.branch(node),
    CALL: lambda low, node: lower_call(low.divergence, node),
    PROJECT: lambda low, node: low.results[node.deps[0]][node.attr],
    WRITTEN: lambda low, node: None,
}
# What is no operation of the kernel's count.
_FREE = {*LEAVES, *REGIONS, BITCAST, PROJECT, WRITTEN}
