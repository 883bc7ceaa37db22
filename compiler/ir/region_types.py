"""What a region's attribute holds: its code in blocks, its arguments, its layout.

Making regions is the work of `regions`; this is what the other passes read.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from lumijit.compiler.ir.effects import CONSUMED, Reduction, joins
from lumijit.compiler.ir.ops.logic import AND, NOT
from lumijit.compiler.ir.ops.record import Operands, without_targets
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    CAST,
    REGIONS,
    WRITTEN,
)
from lumijit.compiler.ir.roles import is_effect, is_returning, read_deps
from lumijit.compiler.ir.trace import Node
from lumijit.runtime.dtypes import BOOL


class Block:
    """Straight-line code of a region: nodes in order, then its results."""

    __slots__ = ("_weight", "is_consumed", "nodes", "outputs")

    def __init__(
        self,
        nodes: tuple[Node, ...],
        outputs: tuple[Node, ...],
        is_consumed: bool = False,
    ) -> None:
        self.nodes = nodes
        self.outputs = outputs
        self.is_consumed = is_consumed
        self._weight = 0

    @property
    def weight(self) -> int:
        """How many operations there are, in regions inside as well."""
        if not self._weight:
            self._weight = sum(map(weight, self.nodes))
        return self._weight

    def pure(self) -> Block:
        """Return the same code without its writes to memory.

        What counters returned can't be had again: `is_consumed` tells that the code
        refers to it.
        """
        rest = []
        gone: set[int] = set()
        for node in self.nodes:
            if node.op in REGIONS:
                if is_effect(node):
                    node.deps = read_deps(node)
                    node.attr = node.attr.without_effects()
            elif is_effect(node) or node.op is WRITTEN:
                if is_returning(node):
                    node.attr = CONSUMED
                gone.add(id(node))
                continue
            rest.append(node)
        # What served the writes only goes with them: most of all, the positions
        # that counters returned.
        needed = set(map(id, self.outputs))
        kept = []
        for node in reversed(rest):
            if id(node) in needed:
                kept.append(node)
                needed.update(map(id, node.deps))
        nodes = tuple(reversed(kept))
        is_consumed = self.is_consumed or not needed.isdisjoint(gone)
        is_consumed |= any(n.op in REGIONS and n.attr.is_consumed for n in nodes)
        return Block(nodes, self.outputs, is_consumed)


class Loop:
    """A while loop: `args` are its phis; `header` computes `header.outputs[0]`.

    deps of the node: initial values (one per argument), captured values, arrays read by
    index, arrays written (`operands`).
    """

    __slots__ = (
        "args",
        "body",
        "header",
        "key",
        "label",
        "operands",
        "written",
    )
    args: tuple[Node, ...]
    header: Block
    body: Block
    operands: Operands
    label: str
    key: Any
    written: list[ref[Node]]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The code blocks in order."""
        return (self.header, self.body)

    @property
    def terms(self) -> list[Node]:
        """The conditions that must all hold for another turn."""
        inside = set(map(id, self.header.nodes))
        found: dict[int, Node] = {}
        stack = list(self.header.outputs)
        while stack:
            node = stack.pop()
            if node.op is AND and node.type is BOOL and id(node) in inside:
                stack.extend(reversed(node.deps))
            else:
                found[id(node)] = node
        return list(found.values())

    @property
    def exits(self) -> dict[int, Node]:
        """The positions of state that ends the loop when set, with the terms.

        None if the header does more than compute: it runs once more when all lanes
        have left, and then no index needs to be right.
        """
        if not all(n.op.lower or n.op in (CAST, BITCAST) for n in self.header.nodes):
            return {}
        found = {term.deps[0]: term for term in self.terms if term.op is NOT}
        return {k: found[arg] for k, arg in enumerate(self.args) if arg in found}

    @property
    def is_consumed(self) -> bool:
        """Whether the results need counters as they were during an earlier run."""
        return self.header.is_consumed or self.body.is_consumed

    def without_effects(self) -> Loop:
        """Return the same loop without its writes to memory."""
        loop = Loop()
        loop.args, loop.label = self.args, self.label
        loop.header, loop.body = self.header.pure(), self.body.pure()
        loop.operands = without_targets(self.operands)
        loop.key, loop.written = ("pure", self.key), []
        return loop


class Branch:
    """A conditional: deps[0] is the condition, then captures as in `Loop`."""

    __slots__ = ("false", "key", "label", "operands", "true", "written")
    true: Block
    false: Block
    operands: Operands
    label: str
    key: Any
    written: list[ref[Node]]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The code blocks in order."""
        return (self.true, self.false)

    @property
    def is_consumed(self) -> bool:
        """Whether the results need counters as they were during an earlier run."""
        return self.true.is_consumed or self.false.is_consumed

    def without_effects(self) -> Branch:
        """Return the same branch without its writes to memory."""
        branch = Branch()
        branch.label = self.label
        branch.true, branch.false = self.true.pure(), self.false.pure()
        branch.operands = without_targets(self.operands)
        branch.key, branch.written = ("pure", self.key), []
        return branch


class Call:
    """A call of one of several bodies, chosen per element.

    deps[0] is a UInt32: a body's position plus 1; for any other number, nothing runs
    and the results are zero. Captures follow as in `Loop`.
    """

    __slots__ = ("bodies", "key", "label", "operands", "written")
    bodies: tuple[Block, ...]
    operands: Operands
    label: str
    key: Any
    written: list[ref[Node]]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The code blocks in order."""
        return self.bodies

    @property
    def is_consumed(self) -> bool:
        """Whether the results need counters as they were during an earlier run."""
        return any(body.is_consumed for body in self.bodies)

    def without_effects(self) -> Call:
        """Return the same call without its writes to memory."""
        call = Call()
        call.label = self.label
        call.bodies = tuple(body.pure() for body in self.bodies)
        call.operands = without_targets(self.operands)
        call.key, call.written = ("pure", self.key), []
        return call


Region = Loop | Branch | Call


def weight(node: Node) -> int:
    """Return how many operations a node stands for."""
    if node.op not in REGIONS:
        return 1
    inside: int = sum(block.weight for block in node.attr.blocks)
    return 1 + inside


def attr_key(node: Node) -> Any:
    """Return what tells two nodes of one operation apart, besides operands."""
    attr = node.attr
    if attr is None or node.op.is_ordered:
        return None
    if isinstance(attr, Reduction):
        return (*attr.key, joins(node))
    if node.op in REGIONS:
        return attr.key
    return attr
