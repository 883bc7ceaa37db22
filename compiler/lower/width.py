"""Chooses how many elements a kernel processes at once, from what its code costs.

What nobody needs inside of regions isn't lowered, so it doesn't count.
"""

from __future__ import annotations

from typing import NamedTuple

from lumijit.compiler.blocks import Block, Loop
from lumijit.compiler.local import is_local
from lumijit.compiler.lower.builder import TargetInfo
from lumijit.compiler.lower.demand import Demand
from lumijit.compiler.ops.structural import (
    CALL,
    LITERAL,
    LOCALS,
    LOOP,
    READS,
    REGIONS,
)
from lumijit.compiler.program import Program
from lumijit.compiler.trace import Node

MANY_OPERATIONS = 1000
SHORT_PROGRAM = 80


class Effort(NamedTuple):
    """What a program asks for: `cost` is per element, and loops count 16 times."""

    operations: int
    cost: int
    gathers: int


def effort(program: Program, demand: Demand) -> Effort:
    """Count a program's operations."""
    count = cost = gathers = 0
    stack = [(program.nodes, 1)]
    while stack:
        nodes, weight = stack.pop()
        for node in nodes:
            count += 1
            cost += weight * node.op.cost
            gathers += node.op in READS or node.op in LOCALS
            if node.op in REGIONS:
                inner = weight * 16 if node.op is LOOP else weight
                stack.extend((_wanted(b, demand), inner) for b in node.attr.blocks)
    return Effort(count, cost, gathers)


def _wanted(block: Block, demand: Demand) -> list[Node]:
    return [node for node in block.nodes if node in demand.wanted]


def choose_width(
    program: Program, demand: Demand, work: Effort, target: TargetInfo
) -> int:
    """Pick the packet width: two registers; four for lean loops; one for huge code.

    Wider than a register hides latency; above some 1,000 operations or 64 gathers
    it only makes the build longer. A lean loop keeps at most eleven of the sixteen
    registers busy at four registers a value; loops of 64-bit integers, which take
    several instructions each, do best at one, and programs with most of their code
    outside of loops build fastest so. Calls run as fast at one register, where lanes
    agree more often, and build in half the time (measured, see docs/decisions.md).
    """
    count, _, gathers = work
    lanes = target.lanes_f32
    if count > MANY_OPERATIONS or gathers > 64:
        return lanes
    found = [n for n in program.all_nodes() if n.op is LOOP]
    loops = [n for n in found if n in demand.wanted]
    if not loops:
        has_calls = any(n.op is CALL for n in program.nodes)
        return lanes if has_calls else 2 * lanes
    if _wide_share(loops, demand) > 0.3 or _is_mostly_outside(loops, count, demand):
        return lanes
    is_lean = gathers == 0 and max(_loop_bytes(n, demand) for n in loops) <= 11
    return 4 * lanes if is_lean else 2 * lanes


def _is_mostly_outside(loops: list[Node], count: int, demand: Demand) -> bool:
    """Tell whether little of the code is in loops, where the time goes.

    Then wide packets would make the build long for code that hardly matters.
    """
    inside = sum(len(_wanted(b, demand)) for n in loops for b in n.attr.blocks)
    return count > SHORT_PROGRAM and 3 * inside < count


def _wide_share(loops: list[Node], demand: Demand) -> float:
    """Return which share of the loops' operations has 64-bit results."""
    nodes: list[Node] = [n for loop in loops for n in _wanted(loop.attr.body, demand)]
    bodies = [n for n in nodes if n.op.lower is not None]
    wide = sum(n.type.size_bytes == 8 for n in bodies)
    return wide / max(1, len(bodies))


def _loop_bytes(node: Node, demand: Demand) -> int:
    """Return the bytes per lane that a loop keeps in registers all the time."""
    loop: Loop = node.attr
    kept = (*loop.args, *node.deps[len(loop.args) : loop.pointers])
    live = [n for n in kept if n in demand.wanted and n.op is not LITERAL]
    return sum(n.type.size_bytes for n in live if not is_local(n))
