"""Finds values that are the same in all active lanes, and keeps them as scalars.

Lanes of a packet run in lockstep: those active in a loop have all made the same
number of turns. So a counter that starts with one number and changes by uniform
steps is uniform, however many turns each lane makes. Where such a value decides
whether all lanes go on, or where all read, one scalar does: the loop needs no mask,
the read is one load.

*Uniform* means: the same in the lanes that are active where the value is computed. The
others hold anything. That suffices where code acts for active lanes only, and some lane
always is. After a loop more lanes are active than were in its last turn, so its results
are uniform only if all lanes leave it together. The state of the next turn is uniform
if it is in the lanes that go on: not in those for which a `break` has set an exit.

Owns the analysis and the scalars. Floats count as far as their operations are exact
to the last bit on every target.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lumijit.compiler.ir.nodes import Node, reached
from lumijit.compiler.ir.ops.record import Role
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    BRANCH,
    CAST,
    EVALUATED,
    GATHER,
    LITERAL,
    LOCAL_WRITE,
    LOOP,
    PROJECT,
    SCATTER,
    SYMBOLIC,
)
from lumijit.compiler.ir.region_types import Region
from lumijit.compiler.ir.roles import is_true, operand, value_deps
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.packet.gathers import Gathers
from lumijit.compiler.lower.packet.state import PacketState
from lumijit.compiler.plan.program import Program, is_baked
from lumijit.runtime.dtypes import BOOL, FLOAT16, INT32, UINT32, UINT64, DType

# Operations on floats that cost more than this may differ in the last bit.
EXACT_COST = 4
# Reductions that may take the same value any number of times.
IDEMPOTENT = ("min", "max", "and", "or")
_Feeds = dict["Node", "tuple[Node, ...]"]


class Found(NamedTuple):
    """The nodes to compute as scalars; and results of branches, see `_passed`."""

    nodes: set[Node]
    passed: dict[Node, Node]


class Uniform:
    """The uniform values of one kernel that are of use, and their scalars."""

    def __init__(self, low: PacketState, found: Found, gathers: Gathers) -> None:
        self.low = low
        self._gathers = gathers
        self.needed = found.nodes
        # Results of branches that lanes in a loop go on with: as what they leave.
        self.passed = found.passed
        self.scalars = low.scalars

    def scalar(self, node: Node) -> str | None:
        """Return what a node is in every active lane, or None if they differ."""
        return self.scalars.get(node) if node in self.needed else None

    def passing(self, region: Node) -> list[Node]:
        """Return the results of a branch that lanes go on with as scalars."""
        found = []
        for result in self.passed:
            node = result
            while node in self.passed:
                node = self.passed[node]
            if result.deps[0] is region and node in self.needed:
                found.append(result)
        return found

    def going_on(self, node: Node) -> str:
        """Return what a node is in the lanes that go on with a loop."""
        while node in self.passed and node not in self.scalars:
            node = self.passed[node]
        return self.scalars[node]

    def spread(self, dtype: DType, scalar: str) -> str:
        """Return a scalar in all lanes; masks in the form that crosses blocks."""
        b = self.low.b
        start = len(b.lines)
        if dtype is BOOL and not b.has_plain_masks:
            b.splat(INT32, b.emit(f"sext i1 {scalar} to i32"))
            return b.note_wide(self.low.if_used(start))
        b.splat(dtype, scalar)
        return self.low.if_used(start)

    def lower(self, node: Node) -> bool:
        """Compute a needed node; tell whether its value in all lanes is made of it."""
        op = node.op
        if op in (SYMBOLIC, EVALUATED):
            return False
        if op is LITERAL:
            if is_baked(node):
                self.scalars[node] = self.low.scalar_builder.const(node.type, node.attr)
            return False
        if op is PROJECT:
            self.scalars[node] = self.scalars[node.deps[0].attr.args[node.attr]]
            return False
        self.scalars[node] = scalar = self._compute(node)
        self.low.values[node] = self.spread(node.type, scalar)
        return True

    def _compute(self, node: Node) -> str:
        if node.op is GATHER:
            _, index, mask = node.deps
            entry = self.scalars[index], self.scalars[mask]
            return self._gathers.read_one(node, *entry)
        return self.low.compute_scalar(node, [self.scalars[dep] for dep in node.deps])

    def within(self, scalar: str, last: int) -> str:
        """Return an index that is at most `last`."""
        if scalar.isdigit():
            return str(min(int(scalar), last))
        with self.low.scalar_code() as b:
            low = b.binary_intrinsic("umin", UINT32, scalar, last)
            return b.cast(UINT32, low, UINT64)


def find_uniform(program: Program, demand: Demand) -> Found:
    """Return the nodes that a kernel had better compute as scalars."""
    nodes = program.all_nodes()
    found: set[Node] = set()
    passed: dict[Node, Node] = {}
    groups = [g for node in nodes if node in demand.wanted for g in _roots(node)]
    if groups:
        feeds = _feeds(nodes, passed)
        varying = _varying(nodes, feeds)
        fixed = [
            root for group in groups if varying.isdisjoint(group) for root in group
        ]
        found.update(reached(fixed, lambda n: feeds.get(n) or value_deps(n)))
    return Found(found, passed)


def _roots(node: Node) -> Iterable[tuple[Node, ...]]:
    """Return what a node had better have as scalars: groups of which it needs all."""
    op = node.op
    if op is LOCAL_WRITE:
        index = operand(node, Role.INDEX)
        return (index,), (index, operand(node, Role.MASK))
    if Role.BUFFER in op.roles:
        return ((operand(node, Role.INDEX),),)
    if op is GATHER:
        return ((node,),)
    if op is SCATTER and node.attr.op != "identity":
        groups = [(operand(node, Role.INDEX),)]
        return [*groups, node.deps[1:]] if node.attr.op in IDEMPOTENT else groups
    if op is LOOP:
        loop: Region = node.attr
        return ((term,) for term in loop.terms)
    return (node.deps[:1],) if op is BRANCH else ()


def _feeds(nodes: list[Node], passed: dict[Node, Node]) -> _Feeds:
    """Return for nodes that aren't made of their operands what they are made of."""
    found: _Feeds = {}
    for node in nodes:
        if node.op is LOOP:
            loop: Region = node.attr
            for k, arg in enumerate(loop.args):
                # Whether lanes go on isn't told by those that do.
                is_exit = k in loop.exits
                output = loop.body.outputs[k]
                goes_on = output if is_exit else _going_on(loop, k, passed)
                found[arg] = node.deps[k], goes_on
        elif node.op is PROJECT and node.deps[0].op is LOOP:
            loop = node.deps[0].attr
            found[node] = loop.args[node.attr], *loop.terms
    return found


def _going_on(loop: Region, position: int, passed: dict[Node, Node]) -> Node:
    """Return what a loop's output is in the lanes that take no exit.

    A branch of which one side sets an exit is passed by the other side: `passed`
    gets its results with what they are there.
    """
    node = loop.body.outputs[position]
    exits = [loop.body.outputs[k] for k in loop.exits]
    while node.op is PROJECT and node.deps[0].op is BRANCH:
        region = node.deps[0]
        flags = [e.attr for e in exits if e.op is PROJECT and e.deps[0] is region]
        open_sides = [
            side
            for side in region.attr.blocks
            if not any(is_true(side.outputs[k]) for k in flags)
        ]
        if len(open_sides) != 1:
            break
        outputs = open_sides[0].outputs
        passed[node] = outputs[node.attr]
        exits = [outputs[k] for k in flags]
        node = outputs[node.attr]
    return node


def _is_candidate(node: Node, feeds: _Feeds) -> bool:
    """Tell whether a node is uniform if what it is made of is."""
    op, t = node.op, node.type
    if op is GATHER:
        return True
    operands = [dep.type for dep in node.deps]
    if not (t.is_int or t.is_bool or t.is_float) or FLOAT16 in (t, *operands):
        return False
    if op is EVALUATED:
        return node.size == 1
    if op is SYMBOLIC or op is PROJECT:
        return node in feeds
    if op.lower is None:
        return op is LITERAL or op is CAST or op is BITCAST
    is_float = any(operand.is_float for operand in operands)
    return not is_float or op.cost <= EXACT_COST


def _varying(nodes: list[Node], feeds: _Feeds) -> set[Node]:
    """Return the nodes that may differ between lanes, and all made of them."""
    users: dict[Node, list[Node]] = {}
    changing: list[Node] = []
    for node in dict.fromkeys((*nodes, *feeds)):
        for dep in feeds.get(node) or value_deps(node):
            users.setdefault(dep, []).append(node)
        if not _is_candidate(node, feeds):
            changing.append(node)
    return set(reached(changing, lambda node: users.get(node, ())))
