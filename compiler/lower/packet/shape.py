"""What code asks of the processor: registers; and a loop, operations and waiting.

Estimates from the nodes, of a loop those of one turn, in registers of `lanes_f32`
lanes: a double takes two, a mask none (it is short-lived, or in a mask register).
Uniform values take none. `width` draws the conclusions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from lumijit.compiler.ir.local_types import is_local
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import (
    CAST,
    LITERAL,
    LOOP,
    READS,
    REGIONS,
)
from lumijit.compiler.ir.region_types import Block, Region
from lumijit.compiler.lower.common.demand import Demand
from lumijit.runtime.dtypes import DType

# Cycles until the result of an operation of cost 1 is there; of an access to memory.
FLOAT_LATENCY = 4
ACCESS_LATENCY = 12


class Shape(NamedTuple):
    """One turn of a loop: `live` registers, `cost` of operations, longest `chain`."""

    live: float
    cost: float
    chain: int
    accesses: int

    def waits(self, registers: int) -> bool:
        """Tell whether values of so many registers leave the units idle.

        Two units start an operation each cycle.
        """
        return 2 * self.chain >= registers * self.cost


def shape(node: Node, demand: Demand, uniform: Collection[Node]) -> Shape:
    """Estimate the shape of a loop, given the nodes that scalars stand for."""
    loop: Region = node.attr
    nodes = [n for block in loop.blocks for n in flat(block, demand)]
    vectors = [n for n in nodes if n not in uniform]
    state = [a for a in loop.args if a in demand.wanted and not is_local(a)]
    depths: dict[Node, int] = {}
    for n in vectors:
        depths[n] = _latency(n) + max((depths.get(d, 0) for d in n.deps), default=0)
    chain = max((depths.get(out, 0) for out in loop.body.outputs), default=0)
    cost = sum(n.op.cost * _weight(n) for n in vectors if _computes(n))
    accesses = sum(n.op in READS for n in vectors)
    kept = demand.finals(node)
    results = [a for k, a in enumerate(loop.args) if a in uniform and k in kept]
    inside = {*nodes, *loop.args}
    used = {d for n in vectors for d in n.deps if d not in inside and d not in uniform}
    captured = [d for d in used if d.op is not LITERAL and not is_local(d)]
    varying = [a for a in state if a not in uniform]
    live = live_registers(vectors, loop.body.outputs, varying, captured)
    return Shape(live + sum(map(_weight, results)), cost, chain, accesses)


def flat(block: Block, demand: Demand) -> Iterator[Node]:
    """Yield the nodes of a block that somebody needs, and those of its regions."""
    for node in block.nodes:
        if node in demand.wanted:
            yield node
            if node.op in REGIONS:
                for inner in node.attr.blocks:
                    yield from flat(inner, demand)


def is_innermost(node: Node, demand: Demand) -> bool:
    """Tell whether a loop has none inside."""
    blocks = node.attr.blocks
    return not any(n.op is LOOP for block in blocks for n in flat(block, demand))


def _registers(t: DType) -> float:
    return 0 if t.is_bool else max(1, t.size_bytes / 4)


def _weight(node: Node) -> float:
    return max(1, _registers(node.type), *(_registers(d.type) for d in node.deps))


def _computes(node: Node) -> bool:
    return node.op.lower is not None or node.op is CAST


def _latency(node: Node) -> int:
    if node.op in READS:
        return ACCESS_LATENCY
    if not _computes(node):
        return 0
    is_float = any(n.type.is_float for n in (node, *node.deps))
    return node.op.cost * (FLOAT_LATENCY if is_float else 1)


def live_registers(
    nodes: Sequence[Node],
    outputs: Iterable[Node] = (),
    state: Sequence[Node] = (),
    captured: Sequence[Node] = (),
) -> float:
    """Return the most registers in use at once, if nodes are computed in order.

    Args:
        nodes: what is computed.
        outputs: what is still needed in the end.
        state: what is there at first, until it is used last.
        captured: what is there all the time.
    """
    last: dict[Node, int] = {}
    for k, node in enumerate(nodes):
        last.update(dict.fromkeys(node.deps, k))
    for out in outputs:
        last[out] = len(nodes)
    count = most = sum(_registers(n.type) for n in (*captured, *state))
    ends: dict[int, list[Node]] = {}
    for node in (*state, *nodes):
        if not is_local(node) and node in last:
            ends.setdefault(last[node], []).append(node)
    for k, node in enumerate(nodes):
        if node in last and not is_local(node):
            count += _registers(node.type)
        most = max(most, count)
        count -= sum(_registers(n.type) for n in ends.get(k, ()))
    return most
