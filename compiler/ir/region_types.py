"""What a region's attribute holds: its code in blocks, its arguments, its operands.

Making regions is the work of `record.regions`; this is what the other passes read.
Nothing changes a block or a region once it is made: other code is another region
(`transform.rewriting`), which its node may have for attribute from then on. Who needs
what was recorded (a derivative does) keeps the value of the attribute and the node's
operands, and with these all nodes inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lumijit.compiler.ir.effects import Reduction, joins
from lumijit.compiler.ir.local_types import access_of
from lumijit.compiler.ir.nodes import Node, begin_walk
from lumijit.compiler.ir.ops.logic import AND, NOT
from lumijit.compiler.ir.ops.record import Op, Operands, region_operands
from lumijit.compiler.ir.ops.structural import BITCAST, CAST, REGIONS
from lumijit.compiler.ir.roles import is_returning
from lumijit.runtime.dtypes import BOOL

Nodes = tuple[Node, ...]


class Block:
    """Straight-line code of a region: nodes in order, then its results."""

    __slots__ = ("_last_access", "_weight", "nodes", "outputs")

    def __init__(self, nodes: Nodes, outputs: Nodes) -> None:
        self.nodes = nodes
        self.outputs = outputs
        self._weight = self._last_access = -1

    @property
    def weight(self) -> int:
        """How many operations there are, in regions inside as well."""
        if self._weight < 0:
            self._weight = sum([operations(node) for node in self.nodes])
        return self._weight

    @property
    def last_access(self) -> int:
        """When its code has accessed local memory last, by number; 0: never."""
        if self._last_access < 0:
            found = [access_of(node) for node in self.nodes]
            self._last_access = max(found, default=0)
        return self._last_access


class Region:
    """A loop, a branch or a call.

    A loop has symbolic arguments, which stand for its state; its blocks are a header,
    which computes whether it goes on, and a body, which computes the next state. The
    blocks of a branch are run where its condition holds, and elsewhere. Of a call's,
    an element runs the one whose position plus 1 is its selector, a UInt32; for any
    other number, nothing runs and the results are zero.

    The operands of the node are the initial state, the condition or the selector, then
    other captured values, arrays read by index, arrays written (`operands`). `key`
    describes the code. What `is_consumed` can't run again, since it needs what a write
    returned that has been carried out. `bound`: how many turns a loop has at most, if
    the program says so.
    """

    __slots__ = (
        "__weakref__",
        "_is_returning",
        "args",
        "blocks",
        "bound",
        "is_consumed",
        "key",
        "label",
        "op",
        "operands",
    )

    def __init__(
        self,
        op: Op,
        args: Nodes,
        blocks: tuple[Block, ...],
        label: str,
        operands: Operands,
        key: Any,
        is_consumed: bool,
        bound: int | None,
    ) -> None:
        self.op = op
        self.args = args
        self.blocks = blocks
        self.label = label
        self.operands = operands
        self.key = key
        self.is_consumed = is_consumed
        self.bound = bound
        self._is_returning: bool | None = None

    @property
    def is_returning(self) -> bool:
        """Whether a write inside returns what it finds."""
        if self._is_returning is None:
            nodes = [node for block in self.blocks for node in block.nodes]
            self._is_returning = any(
                n.attr.is_returning if n.op in REGIONS else is_returning(n)
                for n in nodes
            )
        return self._is_returning

    @property
    def header(self) -> Block:
        """What a loop computes before each turn."""
        return self.blocks[0]

    @property
    def body(self) -> Block:
        """What a loop computes in each turn."""
        return self.blocks[1]

    @property
    def true(self) -> Block:
        """The side of a branch for elements that fulfil its condition."""
        return self.blocks[0]

    @property
    def false(self) -> Block:
        """The side of a branch for all other elements."""
        return self.blocks[1]

    @property
    def bodies(self) -> tuple[Block, ...]:
        """What a call calls."""
        return self.blocks

    @property
    def terms(self) -> list[Node]:
        """The conditions that must all hold for another turn of a loop."""
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
        """The positions of state that ends a loop when set, with the terms.

        None if the header does more than compute: it runs once more when all lanes
        have left, and then no index needs to be right.
        """
        if not all(n.op.lower or n.op in (CAST, BITCAST) for n in self.header.nodes):
            return {}
        found = {term.deps[0]: term for term in self.terms if term.op is NOT}
        return {k: found[arg] for k, arg in enumerate(self.args) if arg in found}


def make_region(
    op: Op,
    args: Nodes,
    blocks: Sequence[Block],
    label: str,
    operands: tuple[Sequence[Node], Sequence[Node], Sequence[Node]],
    is_consumed: bool = False,
    bound: int | None = None,
) -> tuple[Region, Nodes]:
    """Return a region and the operands of its node.

    `operands` are its values, the arrays it reads by index and those it writes.
    """
    values, sources, targets = operands
    deps = (*values, *sources, *targets)
    roles = region_operands(len(values), len(sources), len(targets))
    key = _structure(op, args, blocks, deps)
    made = Region(op, args, tuple(blocks), label, roles, key, is_consumed, bound)
    return made, deps


def _structure(op: Op, args: Nodes, blocks: Sequence[Block], deps: Nodes) -> Any:
    """Describe a region's code by local indices; operands count from -1 down.

    All in one tuple, which is compared and hashed sooner than one for each node.
    """
    # Keyed by nodes: asking for ids takes longer than hashing them.
    known: dict[Node, int] = {d: -1 - k for k, d in enumerate(deps)}
    walk, count = begin_walk(), 0
    for arg in args:
        arg.walk, arg.number = walk, count
        count += 1
    rows: list[Any] = [op.name]
    for block in blocks:
        for node in block.nodes:
            node.walk, node.number = walk, count
            count += 1
            attr = None if node.attr is None else attr_key(node)
            rows.append(node.op.index)
            rows.append(node.type.index)
            rows.append(attr)
            rows.append(len(node.deps))
            for d in node.deps:
                rows.append(d.number if d.walk == walk else known[d])
        rows.append(None)
        for d in block.outputs:
            rows.append(d.number if d.walk == walk else known[d])
        rows.append(None)
    return tuple(rows)


def references_inside(region: Node, position: int) -> int:
    """Count how often the code of a region, or of none, refers to an operand."""
    count, operand = 0, region.deps[position]
    # (Bodies of calls may share nodes.)
    stack, seen = [region], {region}
    while stack:
        node = stack.pop()
        if node.op in REGIONS:
            for block in node.attr.blocks:
                for inner in block.nodes:
                    if inner not in seen:
                        seen.add(inner)
                        count += inner.deps.count(operand)
                        stack.append(inner)
    return count


def operations(node: Node) -> int:
    """Return how many operations a node stands for."""
    if node.op.lower is not None or node.op not in REGIONS:
        return 1
    inside: int = sum([block.weight for block in node.attr.blocks])
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
