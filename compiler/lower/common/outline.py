"""Decides which math functions a kernel calls instead of repeating their code.

Writing a function out at every use is fastest to run, but LLVM's time grows with
the code. A function that is used several times becomes an internal function where
the call is rare: heavy functions everywhere, lighter ones outside of the innermost
loops of kernels that have loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.registers import joined, parts
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import LOOP, REGIONS
from lumijit.compiler.plan.program import Program
from lumijit.runtime.dtypes import DType

HEAVY_COST = 40
HEAVY_USES = 2
LIGHT_COST = 12
LIGHT_USES = 3

Key = tuple[Op, DType]


def with_depths(program: Program) -> list[tuple[Node, int]]:
    """Return all nodes with the number of loops that each is in."""
    found: list[tuple[Node, int]] = []
    stack: list[tuple[Sequence[Node], int]] = [(program.nodes, 0)]
    while stack:
        nodes, depth = stack.pop()
        for node in nodes:
            found.append((node, depth))
            if node.op in REGIONS:
                inner = depth + (node.op is LOOP)
                stack += [(block.nodes, inner) for block in node.attr.blocks]
    return found


class Outlined:
    """The math functions of one kernel that are called."""

    def __init__(self, program: Program) -> None:
        uses: dict[Key, int] = {}
        nodes = with_depths(program)
        self.deepest = max((depth for _, depth in nodes), default=0)
        for node, _ in nodes:
            if node.op.cost >= LIGHT_COST and node.op.lower is not None:
                key = (node.op, node.deps[0].type)
                uses[key] = uses.get(key, 0) + 1
        self.heavy = {
            k for k, n in uses.items() if n >= HEAVY_USES and k[0].cost >= HEAVY_COST
        }
        self.light = {k for k, n in uses.items() if n >= LIGHT_USES}

    def wants(self, op: Op, dtype: DType, loop_depth: int) -> bool:
        """Tell whether a use at some depth of loops should be a call."""
        if op.cost < LIGHT_COST:
            return False
        key = (op, dtype)
        return key in self.heavy or (loop_depth < self.deepest and key in self.light)

    def call(self, b: Builder, op: Op, dtype: DType, args: list[str]) -> str:
        """Write a call, and the function with its first call.

        Functions of packets work on one register of lanes, so a wider packet calls
        several times: what counts here is the size of the code.
        """
        name = f"math_{op.name}_{dtype.short}"
        width = min(b.width, b.target.lanes_f32)
        if name not in b.helpers:
            b.helpers[name] = self._function(b, op, dtype, name, len(args), width)
        inner = Builder(width, b.target)
        ty, result = inner.type(dtype), inner.type(op.result_type(dtype))
        found = []
        for pieces in zip(*(parts(b, dtype.llvm, a, width) for a in args), strict=True):
            passed = ", ".join(f"{ty} {piece}" for piece in pieces)
            found.append(b.emit(f"call fastcc {result} @{name}({passed})"))
        return joined(b, op.result_type(dtype).llvm, found, width)

    def _function(
        self, outer: Builder, op: Op, dtype: DType, name: str, arity: int, width: int
    ) -> str:
        b = Builder(width, outer.target)
        names = [f"%a{k}" for k in range(arity)]
        assert op.lower is not None
        value = op.lower(b, dtype, *names)
        outer.declarations.update(b.declarations)
        result = b.type(op.result_type(dtype))
        params = ", ".join(f"{b.type(dtype)} {n}" for n in names)
        head = f"define internal fastcc {result} @{name}({params}) nounwind {{"
        return "\n".join([head, *b.lines, f"  ret {result} {value}", "}"])
