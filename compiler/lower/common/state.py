"""The code of a kernel while it is written: its entry, its arguments, its values.

All parts of a lowering share it. What nodes become is up to `lowering`.
"""

from __future__ import annotations

from collections.abc import Mapping

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.roles import is_true
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.signature import Signature


class State:
    """The text of a kernel so far, and the values by node."""

    def __init__(self, program: Program, demand: Demand, b: Builder) -> None:
        self.program = program
        self.signature = Signature.of(program)
        self.demand = demand
        self.b = b
        self.entry: list[str] = []
        self.values: dict[Node, str] = {}
        # The wanted results of each region or product, by position.
        self.results: dict[Node, Mapping[int, str]] = {}
        self.addresses: dict[Node, str] = {}
        # The slots of arrays whose addresses are loaded where entries are read.
        self.late_slots: dict[Node, int] = {}
        # Where what is written to lies, by the first version of each array.
        self.bases: dict[int, str] = {}
        self.index_name = "%index"
        self.loop_depth = 0

    def in_entry(self, text: str) -> str:
        """Append `%new = text` to the kernel's entry and return the name."""
        name = self.b.name()
        self.entry.append(f"  {name} = {text}")
        return name

    def load_slot(self, slot: int, ty: str) -> str:
        """Load a scalar argument in the kernel's entry."""
        address = self.in_entry(f"getelementptr i8, ptr %args, i64 {8 * slot}")
        return self.in_entry(f"load {ty}, ptr {address}, align 8")

    def load_late(self, slot: int) -> str:
        """Load an address where it is used."""
        return self.b.load("ptr", self.b.at("i8", "%args", 8 * slot), 8)

    def address(self, node: Node) -> str:
        """Return where an array lies of which each element reads its entry."""
        slot = self.late_slots.get(node)
        return self.addresses[node] if slot is None else self.load_late(slot)

    def operand(self, node: Node) -> str:
        """Return the value of a node as an operand."""
        return self.values[node]

    def cleared(self, ty: str, value: str, mask: Node) -> str:
        """Set the lanes of a value to zero that a mask leaves out."""
        return value if is_true(mask) else self.b.blend(ty, self.values[mask], value)
