"""What a program costs: how many operations it has, and how much work an element is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import (
    LOOP,
    OUTER,
    PRODUCT,
    READS,
    REGIONS,
)
from lumijit.compiler.ir.region_types import Block, Region
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.plan.program import Program


class Effort(NamedTuple):
    """What a program asks for: `cost` is per element, and loops count 16 times."""

    operations: int
    cost: int
    gathers: int


def effort(program: Program, demand: Demand) -> Effort:
    """Count a program's operations."""
    return _counted(program.nodes, demand)


def cost_of_turn(loop: Region, demand: Demand) -> int:
    """Return the cost of a turn of a loop, of an element."""
    nodes = [node for block in loop.blocks for node in wanted_nodes(block, demand)]
    return _counted(nodes, demand).cost


def _counted(nodes: Iterable[Node], demand: Demand) -> Effort:
    count = cost = gathers = 0
    stack = [(nodes, 1)]
    while stack:
        nodes, weight = stack.pop()
        for node in nodes:
            count += 1
            cost += weight * (cost_of_product(node) or node.op.cost)
            gathers += node.op in READS
            if node.op in REGIONS:
                inner = weight * 16 if node.op is LOOP else weight
                stack.extend((wanted_nodes(b, demand), inner) for b in node.attr.blocks)
    return Effort(count, cost, gathers)


def cost_of_product(node: Node) -> int:
    """Return how many products of entries a node computes."""
    if node.op is PRODUCT:
        return int(node.attr.rows * node.attr.columns)
    return int(node.attr.entries) if node.op is OUTER else 0


def wanted_nodes(block: Block, demand: Demand) -> list[Node]:
    """Return the nodes of a block that somebody needs."""
    return [node for node in block.nodes if node in demand.wanted]
