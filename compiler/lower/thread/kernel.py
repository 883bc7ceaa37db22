"""Lowers a program to the code of one thread, which computes one element.

Owns that code, with real branches (`control`) and scalar accesses (here), but for the
kernel around it, which is up to targets (`ptx`; that of the tests computes one element
after the other on the CPU).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

from lumijit.compiler.emit.builder import Builder, TargetInfo
from lumijit.compiler.emit.combine import combine
from lumijit.compiler.ir.effects import Reduction
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import (
    BRANCH,
    CALL,
    GATHER,
    GATHER_AT,
    LOOP,
    SCATTER,
    SCATTER_CAS,
    SCATTER_ERROR,
    SCATTER_FETCH,
    SCATTER_INC,
)
from lumijit.compiler.ir.roles import is_true
from lumijit.compiler.lower.common.atomics import (
    add_with_error,
    atomic,
    entry_address,
    exchange_if,
)
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.common.effort import cost_of_turn, effort
from lumijit.compiler.lower.common.lowering import Lowering
from lumijit.compiler.lower.common.matrices import Matrices
from lumijit.compiler.lower.common.scratch import Scratch
from lumijit.compiler.lower.thread import control
from lumijit.compiler.lower.thread.rows import find_rows, read_row
from lumijit.compiler.plan.program import Destination, Program, target_root
from lumijit.compiler.plan.target import Code
from lumijit.runtime.dtypes import UINT32, DType

T = TypeVar("T")


class ThreadLowering(Lowering):
    """Writes one program as the code of one thread.

    Loops of which a turn costs `polled_cost` or more end by Ctrl-C.
    """

    polled_cost = 0
    #: How many elements a thread computes side by side.
    at_once = 1

    def __init__(self, program: Program, demand: Demand, info: TargetInfo) -> None:
        super().__init__(program, demand, Builder(0, info))
        self.scratch = Scratch(self)
        self.matrices = Matrices(self)
        self._rows = find_rows(program, demand)

    @property
    def scratch_bytes(self) -> int:
        """How much memory of each thread local buffers take that are large."""
        return self.scratch.thread_bytes

    def code(self, name: str) -> Code:
        """Return the kernel, and facts about it."""
        work, ir = effort(self.program, self.demand), self.kernel(name)
        width, scratch_bytes = self.at_once, self.scratch_bytes
        return Code(ir, width, work.operations, work.cost, scratch_bytes)

    @abstractmethod
    def kernel(self, name: str) -> str:
        """Return a module with the kernel."""

    def write(self) -> None:
        """Write what loads the arguments, and what computes an element."""
        self.load_arguments()
        for k, target in enumerate(self.program.targets.values()):
            self.bind_target(target, self.signature.target(k))
        self.begin()
        self.compute_all()
        self.end()

    def bind_target(self, target: Destination, slot: int) -> None:
        """Load where a target lies."""
        self.bases[id(target.root)] = self.load_slot(slot, "ptr")

    @abstractmethod
    def begin(self) -> None:
        """Go from the entry to the element."""

    @abstractmethod
    def end(self) -> None:
        """Leave the element."""

    def bind_literal(self, node: Node, slot: int) -> None:
        """Load a number, in the kernel's entry."""
        self.values[node] = self.load_slot(slot, node.type.llvm)

    def bind_entry(self, node: Node, scalar: str) -> None:
        """Take the entry of an array of one for what it is."""
        self.values[node] = scalar

    def counter(self) -> str:
        """Return the index of the element."""
        return self.b.emit(f"trunc i64 {self.index_name} to i32")

    # Memory

    def _own_address(self, t: DType, base: str) -> str:
        return self.b.at(t.memory_llvm, base, self.index_name)

    def _read(self, t: DType, address: str) -> str:
        return self.b.from_memory(t, self.b.load(t.memory_llvm, address))

    def _write(self, t: DType, address: str, value: str) -> None:
        stored = self.b.to_memory(t, value)
        self.b.line(f"store {t.memory_llvm} {stored}, ptr {address}")

    def load(self, node: Node) -> str:
        """Read the element's entry of an array."""
        return self._read(node.type, self._own_address(node.type, self.address(node)))

    def store(self, node: Node, address: str) -> None:
        """Write a value to the element's entry of an array."""
        place = self._own_address(node.type, address)
        self._write(node.type, place, self.operand(node))

    def _where(self, mask: Node, code: Callable[[], T]) -> tuple[T, str, str]:
        """Run code if a mask is set.

        Returns:
            What the code returns, and the blocks that come from it and past it.
        """
        b = self.b
        before = b.current
        if is_true(mask):
            return code(), "", before
        inside, after = b.label("inside"), b.label("after")
        b.branch_if(self.operand(mask), inside, after)
        b.block(inside)
        value, end = code(), b.current
        b.branch(after)
        b.block(after)
        return value, end, before

    def _value_where(self, mask: Node, t: DType, code: Callable[[], str]) -> str:
        """Run code if a mask is set, and return its value; zero elsewhere."""
        value, end, before = self._where(mask, code)
        if not end:
            return value
        return self.b.phi(t.llvm, (value, end), (self.b.const(t, 0), before))

    def _place(self, node: Node, base: str) -> str:
        """Return the address of the entry that an indexed read asks for."""
        b, index = self.b, self.operand(node.deps[1])
        if node.attr:
            index = b.add(UINT32, index, int(node.attr))
        return entry_address(b, node.type.memory_llvm, base, index)

    def _entry(self, node: Node, base: str) -> str:
        """Read the entry that an indexed read asks for."""
        return self._read(node.type, self._place(node, base))

    def _gather(self, node: Node) -> str | None:
        if node in self._rows:
            if node not in self.values:
                self._gather_row(self._rows[node])
            return None
        base = self.addresses[node.deps[0]]
        return self._value_where(
            node.deps[2], node.type, lambda: self._entry(node, base)
        )

    def _gather_row(self, row: list[Node]) -> None:
        """Read neighbouring entries under one mask."""
        b, t = self.b, row[0].type
        base = self.addresses[row[0].deps[0]]

        def read() -> list[str]:
            return read_row(b, t, self._place(row[0], base), len(row))

        found, end, before = self._where(row[0].deps[2], read)
        if end:
            rest = b.const(t, 0), before
            found = [b.phi(t.llvm, (x, end), rest) for x in found]
        self.values.update(zip(row, found, strict=True))

    def _gather_at(self, node: Node) -> str:

        def read() -> str:
            number = self.operand(node.deps[0])
            return self._entry(node, self.b.emit(f"inttoptr i64 {number} to ptr"))

        return self._value_where(node.deps[2], node.type, read)

    def _target(self, node: Node) -> tuple[DType, Callable[[], str]]:
        """Return the type of an array that is written to, and its entry's address."""
        root = target_root(node.deps[0])
        index = node.deps[-2]
        base = self.bases[id(root)]
        return root.type, lambda: entry_address(
            self.b, root.type.memory_llvm, base, self.operand(index)
        )

    def _scatter(self, node: Node) -> None:
        b = self.b
        reduction: Reduction = node.attr
        t, address = self._target(node)

        def write() -> None:
            item = b.to_memory(t, self.operand(node.deps[1]))
            place = address()
            element = t.memory_llvm
            if reduction.op == "identity":
                b.line(f"store {element} {item}, ptr {place}")
            elif reduction.mode == "no_conflicts":
                old = b.load(element, place)
                item = combine(b, reduction.op, t, element, old, item)
                b.line(f"store {element} {item}, ptr {place}")
            else:
                self.update(node, t, place, item)

        self._where(node.deps[3], write)

    def update(self, node: Node, t: DType, address: str, item: str) -> None:
        """Combine a value with an entry that others may write to, too."""
        atomic(self.b, node.attr.op, t, address, item)

    def _scatter_inc(self, node: Node) -> str:
        """Count an entry up, and return what it was before."""
        _, address = self._target(node)

        def count() -> str:
            place = address()
            return self.b.emit(f"atomicrmw add ptr {place}, i32 1 monotonic, align 4")

        return self._value_where(node.deps[2], UINT32, count)

    def _scatter_fetch(self, node: Node) -> str:
        """Update an entry, and return what it was before."""
        b = self.b
        t, address = self._target(node)

        def update() -> str:
            item = b.to_memory(t, self.operand(node.deps[1]))
            return b.from_memory(t, atomic(b, node.attr.op, t, address(), item))

        return self._value_where(node.deps[3], t, update)

    def _scatter_cas(self, node: Node) -> str:
        """Exchange an entry if it is what is expected; return what it was before."""
        t, address = self._target(node)
        return self._value_where(
            node.deps[-1],
            t,
            lambda: exchange_if(
                self.b, t, address(), *map(self.operand, node.deps[1:3])
            ),
        )

    def _scatter_error(self, node: Node) -> str:
        """Add to an entry, and return what rounding took from the sum."""
        t, address = self._target(node)
        return self._value_where(
            node.deps[3],
            t,
            lambda: add_with_error(self.b, t, address(), self.operand(node.deps[1])),
        )

    def _loop(self, node: Node) -> None:
        is_polled = cost_of_turn(node.attr, self.demand) >= self.polled_cost
        control.lower_loop(self, node, self.cancel_address if is_polled else "")


ThreadLowering.methods = {
    GATHER: ThreadLowering._gather,
    GATHER_AT: ThreadLowering._gather_at,
    SCATTER: ThreadLowering._scatter,
    SCATTER_INC: ThreadLowering._scatter_inc,
    SCATTER_ERROR: ThreadLowering._scatter_error,
    SCATTER_FETCH: ThreadLowering._scatter_fetch,
    SCATTER_CAS: ThreadLowering._scatter_cas,
    LOOP: ThreadLowering._loop,
    BRANCH: control.lower_branch,
    CALL: control.lower_call,
}
