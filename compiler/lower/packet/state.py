"""What all parts of a packet kernel share: the mask of active lanes, and the stack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lumijit.compiler.emit.builder import Builder, TargetInfo
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.common.lowering import Lowering, computed
from lumijit.compiler.plan.program import Program
from lumijit.runtime.dtypes import BOOL, DType


class PacketState(Lowering):
    """The state of a packet kernel while it is written."""

    def __init__(
        self, program: Program, demand: Demand, width: int, target: TargetInfo
    ) -> None:
        super().__init__(program, demand, Builder(width, target))
        #: The active lanes; None if all are.
        self.mask: str | None = None
        #: The lanes that are elements: one at least.
        self.tail_mask = ""
        #: What nodes are in every active lane, by those for which it is known.
        self.scalars: dict[Node, str] = {}
        self.scalar_builder = Builder(0, target)
        self.scalar_builder.declarations = self.b.declarations
        self._stack: dict[tuple[str, str], str] = {}
        self._order: dict[Node, int] = {}
        # By what they compute, lines that are left out unless it is used.
        self._spare: dict[str, list[str]] = {}

    @property
    def order(self) -> dict[Node, int]:
        """The places of arguments (their slots) and nodes in the program."""
        if not self._order:
            nodes = (*self.program.arguments, *self.program.all_nodes())
            self._order = {node: k for k, node in enumerate(dict.fromkeys(nodes))}
        return self._order

    def compute(self, node: Node) -> None:
        """Lower a node, whose operands have been lowered, wherever it is wanted."""
        super().node(node)

    def bind_argument(self, arg: Node, init: Node) -> None:
        """Give a loop's argument that stays as it is its value."""
        self.values[arg] = self.values[init]
        if init in self.scalars:
            self.scalars[arg] = self.scalars[init]

    @contextmanager
    def scalar_code(self) -> Iterator[Builder]:
        """Write code of scalars, among that of packets."""
        b, outer = self.scalar_builder, self.b
        b.lines, b._next = outer.lines, outer._next
        yield b
        outer._next = b._next

    def compute_scalar(self, node: Node, args: list[str]) -> str:
        """Compute what an operation or a conversion is in one lane, or in all."""
        with self.scalar_code() as b:
            return computed(b, node, args)

    def if_used(self, start: int) -> str:
        """Have the lines from `start` on left out unless what they compute is used.

        Returns its name, which is in no other one.
        """
        lines = self.b.lines
        name, _, text = lines[-1].lstrip().partition(" = ")
        name += "u"
        lines[-1] = f"  {name} = {text}"
        self._spare[name] = lines[start:]
        return name

    def used(self, parts: list[str]) -> list[str]:
        """Return a function's lines without those that are left out."""
        text = "\n".join(parts)
        unused = [code for n, code in self._spare.items() if text.count(n) == 1]
        left_out = {line for code in unused for line in code}
        return [line for line in parts if line not in left_out]

    def is_full_packet(self) -> str:
        """Return whether all lanes are elements."""
        b = self.b
        left = b.emit(f"sub i64 %end, {self.index_name}")
        return b.emit(f"icmp uge i64 {left}, {b.width}")

    def under_mask(self, mask: str) -> str:
        """Combine a mask with the active lanes."""
        if self.mask is None:
            return mask
        if mask == self.b.const(BOOL, True):
            return self.mask
        return self.b.binary("and", BOOL, mask, self.mask)

    def has_all_elements(self) -> bool:
        """Tell whether all lanes are active that are elements."""
        return self.mask is None or self.b.origin(self.mask) == self.tail_mask

    def cross_mask(self) -> str | None:
        """Bring the mask into the form that other blocks take, and return it."""
        if self.mask is not None:
            self.mask = self.b.wide(self.mask)
        return self.mask

    @contextmanager
    def writing_entry(self) -> Iterator[None]:
        """Have the builder append to the kernel's entry."""
        lines, self.b.lines = self.b.lines, self.entry
        yield
        self.b.lines = lines

    def splat_in_entry(self, dtype: DType, scalar: str) -> str:
        """Broadcast a scalar in the kernel's entry."""
        with self.writing_entry():
            return self.b.splat(dtype, scalar)

    def on_stack(self, role: str, ty: str) -> str:
        """Return the address of a vector of the kernel's stack."""
        address = self._stack.get((role, ty))
        if address is None:
            address = self.in_entry(f"alloca {ty}, align 32")
            self._stack[role, ty] = address
        return address

    def lane_numbers(self) -> str:
        """Return the constant vector 0 … W - 1."""
        lanes = ", ".join(f"i32 {k}" for k in range(self.b.width))
        return f"<{lanes}>"
