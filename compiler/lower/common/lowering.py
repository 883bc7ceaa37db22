"""What writing a program as LLVM IR has in common for all targets.

Owns how arguments are loaded, and which method lowers which operation. How memory is
accessed and what a region becomes is up to the target; what single operations become is
in their records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.mathlib import FUNCTIONS
from lumijit.compiler.ir.local_types import is_local
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import mathematics as m
from lumijit.compiler.ir.ops.logic import SELECT
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    CAST,
    COUNTER,
    EVALUATED,
    LITERAL,
    LOCAL,
    LOCAL_READ,
    LOCAL_WRITE,
    OUTER,
    PRODUCT,
    PROJECT,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.ir.region_types import Block
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.common.matrices import Matrices
from lumijit.compiler.lower.common.outline import Outlined
from lumijit.compiler.lower.common.scratch import Scratch
from lumijit.compiler.lower.common.state import State
from lumijit.compiler.plan.program import Program, is_baked, iterate_all
from lumijit.runtime.dtypes import BOOL, DType

# There are no registers for the addresses of more than these. Each is loaded where it
# is used then: LLVM would store them all again, and take long to find out.
MANY_ARRAYS = 12

_SINCOS = {m.SIN: 0, m.COS: 1}


# What lowers a node of each op: it returns the value, or enters it itself.
Methods = Mapping[Op, Callable[[Any, Node], "str | None"]]


class Lowering(State, ABC):
    """Writes a program as LLVM IR; `methods` are for what targets do in their ways."""

    methods: Methods
    scratch: Scratch
    matrices: Matrices
    cancel_address: str

    def __init__(self, program: Program, demand: Demand, b: Builder) -> None:
        super().__init__(program, demand, b)
        self.pairs: dict[Node, tuple[str, str]] = {}
        self.outlined = Outlined(program)
        arrays = sum(node.op is not LITERAL for node in program.arguments)
        self._has_many_arrays = arrays + len(program.outputs) > MANY_ARRAYS
        # Arrays of one entry that is read where it is used.
        self._left: set[Node] = set()
        self._angles: set[Node] | None = None

    def close(self) -> None:
        """Let go of the program: this and its parts refer to each other.

        What waits for the garbage collector keeps the memory of the program's arrays.
        """
        vars(self).clear()

    # The entry of the function

    def load_entry(self, dtype: DType, address: str) -> str:
        """Load an array's only entry in the kernel's entry."""
        scalar = self.in_entry(f"load {dtype.memory_llvm}, ptr {address}")
        return self.in_entry(f"icmp ne i8 {scalar}, 0") if dtype is BOOL else scalar

    def load_arguments(self) -> None:
        """Load what the slots hold in the kernel's entry."""
        places = self.signature
        for slot, node in enumerate(self.program.arguments):
            if node.op is LITERAL:
                self.bind_literal(node, slot)
                continue
            is_addressed = is_local(node) or node in self.program.pointers
            if self._has_many_arrays and node.size > 1 and not is_addressed:
                self.late_slots[node] = slot
                continue
            if self.leave_entry(node, slot):
                self._left.add(node)
                continue
            address = self.addresses[node] = self.load_slot(slot, "ptr")
            is_value = node.size == 1 and node in self.program.values
            if is_value and not is_local(node):
                self.bind_entry(node, self.load_entry(node.type, address))
        if places.has_cancel:
            self.cancel_address = self.load_slot(places.cancel, "ptr")

    def leave_entry(self, node: Node, slot: int) -> bool:
        """Note where an array is if its only entry is read where it is used."""
        return False

    @abstractmethod
    def bind_literal(self, node: Node, slot: int) -> None:
        """Give a number among the arguments its value."""

    @abstractmethod
    def bind_entry(self, node: Node, scalar: str) -> None:
        """Give an array of one entry its value."""

    def compute_all(self) -> None:
        """Lower the program's nodes, and store each output as soon as it is there.

        At the end, many would have waited on the stack, for which LLVM takes long.
        """
        left = {node: k for k, node in enumerate(self.program.outputs)}
        for node in self.program.nodes:
            self.node(node)
            if node in left and node in self.values and not is_local(node):
                self._store_output(node, left.pop(node))
        self.finish()
        for node, k in left.items():
            self._store_output(node, k)

    def finish(self) -> None:
        """Write what waits, now that all nodes have been lowered."""

    def _store_output(self, node: Node, number: int) -> None:
        slot, is_late = self.signature.output(number), self._has_many_arrays
        address = self.load_late(slot) if is_late else self.load_slot(slot, "ptr")
        if is_local(node):
            self.scratch.store(node, address)
        else:
            self.store(node, address)

    def functions(self, head: str, body: list[str]) -> list[str]:
        """Return the lines of a function, and of what it calls."""
        self.scratch.reserve()
        self.close_entry()
        b = self.b
        parts = [head, "entry:", *self.entry, *body, "}", *b.helpers.values()]
        return parts + list(b.declarations.values())

    def close_entry(self) -> None:
        """Write what the entry ends with, once it is known what is in it."""

    # Nodes

    def block(self, block: Block) -> None:
        """Lower the nodes of a block."""
        for node in block.nodes:
            self.node(node)

    def forget(self, body: Block) -> None:
        """Forget the values of a body's nodes, which an earlier one may have had."""
        for node in iterate_all(body.nodes):
            self.values.pop(node, None)
        self.pairs.clear()

    def node(self, node: Node) -> None:
        """Lower one node, whose operands have been lowered."""
        op = node.op
        if node not in self.demand.wanted:
            return
        if op.lower is not None:
            value = self._compute(node, op)
        else:
            value = (_METHODS.get(op) or self.methods[op])(self, node)
        if value is not None:
            self.values[node] = value

    def _literal(self, node: Node) -> str | None:
        return self.b.const(node.type, node.attr) if is_baked(node) else None

    def _evaluated(self, node: Node) -> str | None:
        if is_local(node):
            self.scratch.bind(node)
        elif not (node in self.values or node in self._left):
            return self.load(node) if node in self.program.values else None
        return None

    def _convert(self, node: Node) -> str:
        return computed(self.b, node, [self.values[node.deps[0]]])

    def _compute(self, node: Node, op: Op) -> str | None:
        if op in _SINCOS and self._sincos(node):
            return None
        args = [self.operand(d) for d in node.deps]
        if self.outlined.wants(op, operand_type(node), self.loop_depth):
            return self.outlined.call(self.b, op, operand_type(node), args)
        return computed(self.b, node, args)

    def _sincos(self, node: Node) -> bool:
        """Compute sine and cosine of one argument together."""
        arg = node.deps[0]
        if arg.type.bits == 16 or arg not in self._angle_pairs():
            return False
        pair = self.pairs.get(arg)
        if pair is None:
            pair = FUNCTIONS["sincos"](self.b, arg.type, self.operand(arg))
            self.pairs[arg] = pair
        self.values[node] = pair[_SINCOS[node.op]]
        return True

    def _angle_pairs(self) -> set[Node]:
        """Return the arguments of which both are wanted in one scope."""
        if self._angles is None:
            seen: dict[Node, set[tuple[int, int]]] = {}
            for node in self.program.all_nodes():
                if node.op in _SINCOS and node in self.demand.wanted:
                    use = (_SINCOS[node.op], id(node.scope))
                    seen.setdefault(node.deps[0], set()).add(use)
            self._angles = {
                arg
                for arg, uses in seen.items()
                if len(uses) == 2 and len({s for _, s in uses}) == 1
            }
        return self._angles

    @abstractmethod
    def counter(self) -> str:
        """Return the index of the element."""

    @abstractmethod
    def load(self, node: Node) -> str:
        """Read the element's entry of an array."""

    @abstractmethod
    def store(self, node: Node, address: str) -> None:
        """Write a value to the element's entry of an array."""


def operand_type(node: Node) -> DType:
    """Return the type of which an operation takes operands."""
    return node.type if node.op is SELECT else node.deps[0].type


def computed(b: Builder, node: Node, args: list[str]) -> str:
    """Compute what an operation or a conversion is, given its operands."""
    op, t = node.op, operand_type(node)
    if op is CAST:
        return b.cast(t, args[0], node.type)
    if op is BITCAST:
        return b.bitcast(t, args[0], node.type)
    assert op.lower is not None
    attr = () if node.attr is None else (node.attr,)
    return op.lower(b, t, *args, *attr)


# What lowers the ops that are the same for all targets; see `Lowering.methods`.
_METHODS: Methods = {
    LITERAL: Lowering._literal,
    EVALUATED: Lowering._evaluated,
    CAST: Lowering._convert,
    BITCAST: Lowering._convert,
    COUNTER: lambda low, node: low.counter(),
    UNDEFINED: lambda low, node: low.b.const(node.type, 0),
    LOCAL: lambda low, node: low.scratch.allocate(node),
    LOCAL_READ: lambda low, node: low.scratch.read(node),
    LOCAL_WRITE: lambda low, node: low.scratch.write(node),
    PROJECT: lambda low, node: low.results[node.deps[0]][node.attr],
    PRODUCT: lambda low, node: low.matrices.product(node),
    OUTER: lambda low, node: low.matrices.outer(node),
    WRITTEN: lambda low, node: None,
}
