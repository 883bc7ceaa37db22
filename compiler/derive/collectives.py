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
)
from lumijit.compiler.derive.rules import RULES, Rule
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.derive.values import Value
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import MOD, SUB
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


def block_prefix(op: str, node: Node, block: int, exclusive: bool) -> Node:
    """Combine all entries before each, or up to each, of its run of `block` entries."""
    if op in ("min", "max") and node.vertex is not None:
        return _running_extreme(op, node, block, exclusive)
    result = reductions.block_prefix(op, node, block, exclusive)
    return _tracked(result, PREFIX, node, (op, block, exclusive))


def _running_extreme(op: str, node: Node, block: int, exclusive: bool) -> Node:
    """Read, at each entry, the one that is the extreme so far: the first of equals."""
    before = Value(reductions.block_prefix(op, trace.detached(node), block, True))
    value, place = Value(trace.detached(node)), Value(trace.counter(node.size))
    first = place.map(MOD, block) == 0
    is_new = (value < before if op == "min" else value > before) | first
    places = is_new.select(place, 0).node
    found = Value(reductions.block_prefix("max", places, block, exclusive))
    mask = trace.make_true(node.size)
    if not exclusive:
        return memory.entries(node, found.node, mask)
    read = memory.entries(node, found.node, (~first).node)
    return first.select(before, Value(read)).node


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
        product, zeros = (
            Value(_spread(_combined(how, part(value).node, step), step))
            for how, part in (("mul", without_zeros), ("add", zero_count))
        )
        return spread * product_without(value, product, zeros)
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
    _, block, exclusive = attr
    node = _reversed(value.node) if is_reverse else value.node
    node = block_prefix("add", node, block, exclusive)
    return Value(_reversed(node) if is_reverse else node)


def _running_product(step: Step) -> tuple[Value, Value, Value, Value]:
    """Return the product of what isn't 0 so far, where there is no 0, and one.

    Then the factors without their zeros. A prefix with two zeros has no derivative.
    """
    (node,) = step.deps
    _, block, exclusive = step.attr
    factors = without_zeros(Value(node))
    product = Value(block_prefix("mul", factors.node, block, exclusive))
    zeros = _sums(zero_count(Value(node)), step.attr)
    return product, zeros == 0, zeros == 1, factors


def _pull_prefix(step: Step, into: dict[int, Adjoint], by: Node) -> None:
    change = Value(by)
    if step.attr[0] == "add":
        into[0].add(_sums(change, step.attr, True).node)
        return
    product, none, one, factors = _running_product(step)
    change = change * product
    rest = _sums(none.select(change, 0), step.attr, True) / factors
    alone = _sums(one.select(change, 0), step.attr, True)
    into[0].add((Value(step.deps[0]) == 0).select(alone, rest).node)


def _push_prefix(step: Step, tangents: dict[int, Node]) -> Node:
    tangent = Value(trace.resized(tangents[0], step.size))
    if step.attr[0] == "add":
        return _sums(tangent, step.attr).node
    product, none, one, factors = _running_product(step)
    is_zero = Value(step.deps[0]) == 0
    rest = _sums(is_zero.select(0, tangent / factors), step.attr)
    alone = _sums(is_zero.select(tangent, 0), step.attr)
    return (product * none.select(rest, one.select(alone, 0))).node


RULES[REDUCE] = Rule(_pull_reduce, _push_reduce)
RULES[PREFIX] = Rule(_pull_prefix, _push_prefix)
