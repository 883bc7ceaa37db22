"""Lowers numbers: those in the argument block, and arrays of one entry, into all lanes.

A number that several operations use, or an innermost loop, is put into a register in
the kernel's entry. Where there are many, those of one use are left in memory, from
where x86 instructions take operands at no cost: without mask registers, the argument
block has those that are in it as whole packets (`signature`). (Broadcast in the entry,
they would be a quarter of the code of a kernel that computes little with each, and of
the time to compile it, and be stored again.)
"""

from __future__ import annotations

from collections.abc import Collection

from lumijit.compiler.ir.local_types import is_local
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import EVALUATED, LITERAL, LOOP, REGIONS
from lumijit.compiler.lower.common.outline import with_depths
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.signature import Wide
from lumijit.runtime.dtypes import BOOL, DType

# With more numbers than this, those of one use stay in memory.
MANY_NUMBERS = 32
# Memory for widened numbers, which each launch fills.
MAX_WIDE_BYTES = 8192


class Numbers:
    """The numbers among the arguments of one packet kernel."""

    def __init__(self, low: PacketState, uniform: Collection[Node]) -> None:
        """Choose what is loaded late; scalars are made of `uniform` values."""
        self.low = low
        self._uniform = uniform
        program = low.program
        numbers = [n for n in program.arguments if n.op is LITERAL]
        if low.b.target.has_avx512:
            # Operands in memory may be one entry.
            entries = [n for n in program.arguments if _is_entry(program, n)]
            numbers += [n for n in entries if n not in uniform]
        # By node: its slot, once it is known.
        self.late: dict[Node, int] = dict.fromkeys(_of_one_use(program, numbers), -1)
        # By bits of a number: the ranges of slots that are there as packets, too.
        self.wide: dict[int, Wide] = {}
        # By the same, where the packets begin in the argument block.
        self.offsets: dict[int, int] = {}

    def bind(self, node: Node, slot: int) -> None:
        """Note where a number is, or load it in the kernel's entry."""
        low = self.low
        if node in self.late:
            self.late[node] = slot
            return
        with low.writing_entry():
            start = len(low.b.lines)
            value = self._broadcast(node.type, slot)
            # Maybe only the scalar is.
            low.values[node] = low.if_used(start) if node in self._uniform else value

    def bind_entry(self, node: Node, slot: int) -> bool:
        """Note where an array of one entry is; tell whether that is read late."""
        is_late = node in self.late
        if is_late:
            self.late[node] = slot
        return is_late

    def value(self, node: Node) -> str | None:
        """Return a number that is loaded late; None for all other values."""
        slot = self.late.get(node)
        if slot is None:
            return None
        b = self.low.b
        t = node.type
        if node.op is EVALUATED:
            return self._spread(t, self.low.load_late(slot), t.size_bytes)
        if t.bits not in self.wide:
            return self._broadcast(t, slot)
        index = slot - self.wide[t.bits].first
        offset = self.offsets[t.bits] + index * b.width * t.size_bytes
        return b.load(b.type(t), b.at("i8", "%args", offset), 8)

    def _broadcast(self, dtype: DType, slot: int) -> str:
        """Load an argument into all lanes, in as few instructions as LLVM takes."""
        place = self.low.b.at("i8", "%args", 8 * slot)
        return self._spread(dtype, place, 8)

    def _spread(self, dtype: DType, address: str, align: int) -> str:
        b = self.low.b
        one = f"<1 x {dtype.llvm}>"
        entry, lanes = b.load(one, address, align), f"<{b.width} x i32>"
        return b.emit(
            f"shufflevector {one} {entry}, {one} poison, {lanes} zeroinitializer"
        )

    def widen(self, offset: int) -> None:
        """Choose which late numbers the block has as packets, from `offset` on."""
        width = self.low.b.width
        if self.low.b.target.has_avx512:
            # An operand in memory can be one number for all lanes.
            return
        for bits in (32, 64):
            slots = [s for n, s in self.late.items() if n.type.bits == bits]
            # What else is in the range does no harm.
            count = max(slots, default=0) - min(slots, default=0) + 1
            size_bytes = count * width * bits // 8
            if len(slots) > 1 and size_bytes <= MAX_WIDE_BYTES:
                self.wide[bits] = Wide(bits, min(slots), count)
                self.offsets[bits] = offset
                offset += size_bytes


def _of_one_use(program: Program, numbers: list[Node]) -> list[Node]:
    """Return the numbers of one use outside of innermost loops, if there are many.

    Many values that are kept from the kernel's entry on would take LLVM's register
    allocation long, only to end up in memory. What innermost loops use is kept.
    """
    if len(numbers) <= MANY_NUMBERS:
        return []
    uses = dict.fromkeys(numbers, 0)
    nodes = with_depths(program)
    hot = max(1, *(depth for _, depth in nodes))
    for node, depth in nodes:
        weight = 1 if node.op.lower is not None and depth < hot else 2
        used = node.deps
        if node.op in REGIONS:
            # Captures are used inside; what begins or leaves a region is kept.
            heads = len(node.attr.args) if node.op is LOOP else 1
            used = node.deps[:heads]
            used += tuple(n for block in node.attr.blocks for n in block.outputs)
        for dep in used:
            if dep in uses:
                uses[dep] += weight
    return [n for n in numbers if uses[n] == 1]


def _is_entry(program: Program, node: Node) -> bool:
    """Tell whether an array is a number for all elements, of the type in memory."""
    is_value = node in program.values and node not in program.pointers
    return node.size == 1 and is_value and node.type is not BOOL and not is_local(node)
