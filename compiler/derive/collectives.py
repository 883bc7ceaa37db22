"""Derivatives of what combines the entries of an array: reductions, prefix sums.

These compute at once and leave an array in memory; what they compute it of is noted
here (`reduce`, `block_reduce`, `block_prefix`), around the functions that do the work.
"""

from __future__ import annotations

from typing import Any

from lumijit.compiler.derive.adjoints import Adjoint
from lumijit.compiler.derive.combined import (
    product_without,
    without_zeros,
    zero_count,
    zeros_only,
)
from lumijit.compiler.derive.rules import RULES, Rule
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.derive.values import Value
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import INT_DIV, MOD, SUB
from lumijit.compiler.ir.ops.logic import COPY
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.ir.vertices import Dependence
from lumijit.compiler.record import memory, reductions
from lumijit.runtime.dtypes import UINT32

REDUCE = Dependence("reduce")
PREFIX = Dependence("prefix")


def reduce(op: str, node: Node) -> Node:
    """Combine all entries to one."""
    result = reductions.reduce(op, node)
    return _tracked(result, REDUCE, node, (op, node.size, 1))


def block_reduce(op: str, node: Node, block: int, inner: int = 1) -> Node:
    """Combine each run of `block` entries, or of `block` rows of `inner` entries."""
    result = reductions.block_reduce(op, node, block, inner)
    return _tracked(result, REDUCE, node, (op, block, inner))


def block_prefix(
    op: str, node: Node, block: int, exclusive: bool, inner: int = 1
) -> Node:
    """Combine all entries before each, or up to each, of its run of `block` entries.

    What is `inner` entries apart makes a run.
    """
    if op in ("min", "max") and node.vertex is not None:
        return _running_extreme(op, node, block, exclusive, inner)
    result = reductions.block_prefix(op, node, block, exclusive, inner)
    return _tracked(result, PREFIX, node, (op, block, exclusive, inner))


def _running_extreme(
    op: str, node: Node, block: int, exclusive: bool, inner: int
) -> Node:
    """Read, at each entry, the one that is the extreme so far: the first of equals."""
    before = reductions.block_prefix(op, trace.detached(node), block, True, inner)
    value, place = Value(trace.detached(node)), Value(trace.counter(node.size))
    first = place.map(INT_DIV, inner).map(MOD, block) == 0
    extreme = Value(before)
    is_new = (value < extreme if op == "min" else value > extreme) | first
    places = is_new.select(place, 0).node
    found = reductions.block_prefix("max", places, block, exclusive, inner)
    mask = trace.make_true(node.size)
    if not exclusive:
        return memory.entries(node, found, mask)
    read = memory.entries(node, found, (~first).node)
    return first.select(extreme, Value(read)).node


def _tracked(result: Node, how: Dependence, node: Node, attr: object) -> Node:
    if node.vertex is not None and result is not node:
        if result.op is LITERAL:
            # One may stand for many results: that of empty arrays.
            result = trace.make(COPY, result.type, result.size, (result,), None)
        vertices.track(result, how, (node,), attr)
    return result


def _spread(node: Node, step: Step) -> Node:
    """Give each entry of an array of results the one of its block."""
    _, block, inner = step.attr
    size = step.deps[0].size
    if node.size == 1:
        return trace.resized(node, size)
    place = reductions.result_place(size, block, inner)
    return memory.entries(node, place, trace.make_true(1))


def _pull_reduce(step: Step, into: dict[int, Adjoint], by: Node) -> None:
    into[0].add(_weighted(step, Value(_spread(by, step))).node)


def _weighted(step: Step, spread: Value) -> Value:
    """Multiply a derivative per entry with that of the block's result by the entry."""
    op = step.attr[0]
    if op == "add":
        return spread
    value = Value(step.deps[0])
    if op == "mul":
        parts = [("mul", without_zeros), ("add", zero_count)]
        if vertices.is_tracking():
            parts.append(("add", zeros_only))
        known = [
            Value(_spread(_combined(how, part(value).node, step), step))
            for how, part in parts
        ]
        return spread * product_without(value, *known)
    result = step.held
    if result is None:
        result = _combined(op, value.node, step)
    return (value == Value(_spread(result, step))).select(spread, 0)


def _combined(op: str, node: Node, step: Step) -> Node:
    _, block, inner = step.attr
    if block == node.size:
        return reduce(op, node)
    return block_reduce(op, node, block, inner)


def _push_reduce(step: Step, tangents: dict[int, Node]) -> Node:
    (node,) = step.deps
    tangent = Value(trace.resized(tangents[0], node.size))
    return _combined("add", _weighted(step, tangent).node, step)


def _reversed(node: Node) -> Node:
    last = trace.literal(UINT32, node.size - 1)
    place = trace.emit2(SUB, last, trace.counter(node.size))
    return memory.entries(node, place, trace.make_true(1))


def _sums(value: Value, attr: Any, is_reverse: bool = False) -> Value:
    """Add up what is before each entry as a scan does, or what is after it."""
    node = _reversed(value.node) if is_reverse else value.node
    node = block_prefix("add", node, *attr[1:])
    return Value(_reversed(node) if is_reverse else node)


class _RunningProduct:
    """A prefix product: of what isn't 0, and what there is of zeros so far."""

    def __init__(self, step: Step) -> None:
        (node,) = step.deps
        value = Value(node)
        self._attr = step.attr
        self.is_zero = value == 0
        self.factors = without_zeros(value)
        self.product = Value(block_prefix("mul", self.factors.node, *step.attr[1:]))
        zeros = self.sums(zero_count(value))
        self._counts = [zeros == count for count in range(3)]
        # Of one zero, the product is a multiple, where derivatives are tracked.
        self._zero = zeros_only(value) if vertices.is_tracking() else None
        self._total = None if self._zero is None else self.sums(self._zero)

    def sums(self, value: Value, is_reverse: bool = False) -> Value:
        """Add up what is before each entry as the product does, or what is after it."""
        return _sums(value, self._attr, is_reverse)

    def where(self, count: int, value: Value) -> Value:
        """Return a value where there are so many zeros, else 0."""
        return self._counts[count].select(value, 0)

    def pulled(self, by: Value) -> Value:
        """Return the derivative by each factor."""
        change = by * self.product
        rest, alone = self.where(0, change), self.where(1, change)
        if self._total is not None:
            multiple = change * self._total
            rest += self.where(1, multiple)
            alone += self.where(2, multiple)
        rest = self.sums(rest, True) / self.factors
        alone = self.sums(alone, True)
        if self._zero is not None:
            alone -= self._zero * self.sums(self.where(2, change), True)
        return self.is_zero.select(alone, rest)

    def pushed(self, tangent: Value) -> Value:
        """Return the derivative of each product."""
        rest = self.sums(self.is_zero.select(0, tangent / self.factors))
        alone = self.sums(self.is_zero.select(tangent, 0))
        change = self.where(0, rest) + self.where(1, alone)
        if self._zero is not None and self._total is not None:
            change += self.where(1, self._total * rest)
            both = self._total * alone - self.sums(self._zero * tangent)
            change += self.where(2, both)
        return self.product * change


def _pull_prefix(step: Step, into: dict[int, Adjoint], by: Node) -> None:
    if step.attr[0] == "add":
        into[0].add(_sums(Value(by), step.attr, True).node)
        return
    into[0].add(_RunningProduct(step).pulled(Value(by)).node)


def _push_prefix(step: Step, tangents: dict[int, Node]) -> Node:
    tangent = Value(trace.resized(tangents[0], step.size))
    if step.attr[0] == "add":
        return _sums(tangent, step.attr).node
    return _RunningProduct(step).pushed(tangent).node


RULES[REDUCE] = Rule(_pull_reduce, _push_reduce)
RULES[PREFIX] = Rule(_pull_prefix, _push_prefix)
