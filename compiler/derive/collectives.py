"""Derivatives of what combines the entries of an array: reductions, prefix sums.

These compute at once and leave an array in memory; what they compute it of is noted
here (`reduce`, `block_reduce`, `prefix_sum`), around the functions that do the work.
"""

from __future__ import annotations

from lumijit.compiler.derive.adjoints import Adjoint
from lumijit.compiler.derive.rules import (
    RULES,
    Rule,
    product_without,
    without_zeros,
    zero_count,
)
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.derive.values import Value
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.ops.arithmetic import INT_DIV, SUB
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.ir.trace import Node
from lumijit.compiler.ir.vertices import Dependence
from lumijit.compiler.record import memory, reductions
from lumijit.runtime.dtypes import UINT32

REDUCE = Dependence("reduce")
PREFIX_SUM = Dependence("prefix_sum")


def reduce(op: str, node: Node) -> Node:
    """Combine all entries to one."""
    result = reductions.reduce(op, node)
    return _tracked(result, REDUCE, node, (op, node.size))


def block_reduce(op: str, node: Node, block: int) -> Node:
    """Combine each run of `block` entries."""
    result = reductions.block_reduce(op, node, block)
    return _tracked(result, REDUCE, node, (op, block))


def prefix_sum(node: Node, exclusive: bool) -> Node:
    """Sum all entries before each, or up to each."""
    result = reductions.prefix_sum(node, exclusive)
    return _tracked(result, PREFIX_SUM, node, exclusive)


def _tracked(result: Node, how: Dependence, node: Node, attr: object) -> Node:
    # One literal may stand for many results: that of empty arrays.
    if node.vertex is not None and result is not node and result.op is not LITERAL:
        vertices.track(result, how, (node,), attr)
    return result


def _spread(node: Node, size: int, block: int) -> Node:
    """Give each entry of an array of results the one of its block."""
    if node.size == 1:
        return trace.resized(node, size)
    place = trace.emit2(INT_DIV, trace.counter(size), trace.literal(UINT32, block))
    return memory.entries(node, place, trace.make_true(1))


def _pull_reduce(step: Step, into: dict[int, Adjoint], by: Node) -> None:
    (node,) = step.deps
    spread = Value(_spread(by, node.size, step.attr[1]))
    into[0].add(_weighted(step, spread).node)


def _weighted(step: Step, spread: Value) -> Value:
    """Multiply a derivative per entry with that of the block's result by the entry."""
    op, block = step.attr
    if op == "add":
        return spread
    (node,) = step.deps
    size = node.size
    value = Value(node)
    if op == "mul":
        product, zeros = (
            Value(_spread(_combined(how, part(value).node, block), size, block))
            for how, part in (("mul", without_zeros), ("add", zero_count))
        )
        return spread * product_without(value, product, zeros)
    result = Value(_spread(step.result, size, block))
    return (value == result).select(spread, 0)


def _combined(op: str, node: Node, block: int) -> Node:
    if block == node.size:
        return reduce(op, node)
    return block_reduce(op, node, block)


def _push_reduce(step: Step, tangents: dict[int, Node]) -> Node:
    (node,) = step.deps
    tangent = Value(trace.resized(tangents[0], node.size))
    return _combined("add", _weighted(step, tangent).node, step.attr[1])


def _reversed(node: Node) -> Node:
    last = trace.literal(UINT32, node.size - 1)
    place = trace.emit2(SUB, last, trace.counter(node.size))
    return memory.entries(node, place, trace.make_true(1))


def _pull_prefix_sum(step: Step, into: dict[int, Adjoint], by: Node) -> None:
    into[0].add(_reversed(prefix_sum(_reversed(by), step.attr)))


def _push_prefix_sum(step: Step, tangents: dict[int, Node]) -> Node:
    tangent = trace.resized(tangents[0], step.size)
    return prefix_sum(tangent, step.attr)


RULES[REDUCE] = Rule(_pull_reduce, _push_reduce)
RULES[PREFIX_SUM] = Rule(_pull_prefix_sum, _push_prefix_sum)
