"""`Value`: a node with operators, in which the rules of derivatives are written."""

from __future__ import annotations

from typing import Any

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.record import Op


class Value:
    """A node with Python's operators; Python numbers become literals of its type."""

    __slots__ = ("is_bounded", "node")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: Node) -> None:
        self.node = node
        self.is_bounded = False

    def bounded(self) -> Value:
        """Say of a partial derivative that it is finite where the values are."""
        self.is_bounded = True
        return self

    def map(self, op: Op, other: Any = None, third: Any = None) -> Value:
        """Apply any operation, with this as its first operand."""
        if other is None:
            return Value(trace.emit1(op, self.node))
        if third is None:
            return Value(trace.emit2(op, self.node, self._wide(other)))
        wide = self._wide(other), self._wide(third)
        return Value(trace.emit3(op, self.node, *wide))

    def like(self, number: float) -> Value:
        """Return a constant of this type."""
        return Value(literal(number, self.node))

    def select(self, yes: Any, no: Any) -> Value:
        """Choose by this mask between two values, at least one of them no number."""
        like = yes if isinstance(yes, Value) else no
        return Value(trace.select(self.node, like._wide(yes), like._wide(no)))

    def _wide(self, other: Any) -> Node:
        if isinstance(other, Value):
            return other.node
        return literal(other, self.node)

    def __add__(self, other: Any) -> Value:
        return self.map(ar.ADD, other)

    def __radd__(self, other: Any) -> Value:
        return self.map(ar.ADD, other)

    def __sub__(self, other: Any) -> Value:
        return self.map(ar.SUB, other)

    def __rsub__(self, other: Any) -> Value:
        return Value(self._wide(other)).map(ar.SUB, self)

    def __mul__(self, other: Any) -> Value:
        return self.map(ar.MUL, other)

    def __rmul__(self, other: Any) -> Value:
        return self.map(ar.MUL, other)

    def __truediv__(self, other: Any) -> Value:
        return self.map(ar.DIV, other)

    def __rtruediv__(self, other: Any) -> Value:
        return Value(self._wide(other)).map(ar.DIV, self)

    def __neg__(self) -> Value:
        return self.map(ar.NEG)

    def __invert__(self) -> Value:
        return self.map(lo.NOT)

    def __and__(self, other: Any) -> Value:
        return self.map(lo.AND, other)

    def __or__(self, other: Any) -> Value:
        return self.map(lo.OR, other)

    def __lt__(self, other: Any) -> Value:
        return self.map(lo.LT, other)

    def __le__(self, other: Any) -> Value:
        return self.map(lo.LE, other)

    def __gt__(self, other: Any) -> Value:
        return self.map(lo.GT, other)

    def __eq__(self, other: Any) -> Value:  # type: ignore[override]
        return self.map(lo.EQ, other)


def literal(number: float, like: Node, size: int = 1) -> Node:
    """Return a literal of the type of a node."""
    return trace.literal(like.type, like.type.wrap(number), size)
