"""Finds what a loop computes alike in each of its turns, and so is computed before it.

LLVM's code generator moves few operations out of a loop, and none that would take a
register from others. What costs more than reading it from the stack is worth that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import BITCAST, CAST, LITERAL, LOOP, REGIONS
from lumijit.compiler.plan.program import iterate_all

#: The cost from which on a value is computed before the loop, in operations.
WORTH = 4
# Elementwise, too, though no rule on the record lowers them.
_WITHOUT_RULE = frozenset({CAST, BITCAST, LITERAL})


def invariants(
    loop: Node, wanted: Collection[Node], fixed: set[Node]
) -> dict[Node, tuple[Node, ...]]:
    """Return what to compute before a loop: operations and state, by their operands.

    They are elementwise, and depend on what is outside only; what stands in a branch or
    in a call isn't computed unless that is entered, but what stands in a loop is. State
    that a loop leaves as it is, is its initial state, the operand.

    Args:
        loop: the loop's node.
        wanted: what is lowered at all.
        fixed: what has to be lowered where it stands.
    """
    inside = _inside(loop)
    operands: dict[Node, tuple[Node, ...]] = {}
    costs: dict[Node, int] = {}
    for node, deps in _each_turn(loop):
        if node not in wanted or node in fixed:
            continue
        if all(dep in costs or dep not in inside for dep in deps):
            operands[node] = deps
            costs[node] = sum(costs.get(dep, 0) for dep in deps)
            if node.op.lower is not None or node.op is CAST:
                costs[node] += node.op.cost
    chosen: set[Node] = set()
    for node, deps in reversed(operands.items()):
        if costs[node] >= WORTH:
            chosen.add(node)
        if node in chosen:
            chosen.update(dep for dep in deps if dep in costs)
    return {node: deps for node, deps in operands.items() if node in chosen}


def staying(loop: Node) -> dict[Node, Node]:
    """Return the state that a loop leaves as it is, and what it is."""
    args, outputs = loop.attr.args, loop.attr.body.outputs
    pairs = zip(args, loop.deps, outputs, strict=False)
    return {arg: init for arg, init, output in pairs if output is arg}


def _inside(loop: Node) -> set[Node]:
    """Return all that a loop's turns consist of."""
    inside = {*loop.attr.args}
    for node in iterate_all((*loop.attr.header.nodes, *loop.attr.body.nodes)):
        inside.add(node)
        if node.op in REGIONS:
            inside.update(node.attr.args)
    return inside


def _each_turn(loop: Node) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """Yield what each turn of a loop, and of those in it, has or computes, by operands.

    Of the operations, those on elements.
    """
    for arg, init in staying(loop).items():
        yield arg, (init,)
    for node in (*loop.attr.header.nodes, *loop.attr.body.nodes):
        if node.op is LOOP:
            yield from _each_turn(node)
        elif node.op.lower is not None or node.op in _WITHOUT_RULE:
            yield node, node.deps
