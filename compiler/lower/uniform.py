"""Finds values that are the same in all active lanes, and keeps them as scalars too.

Lanes of a packet run in lockstep: those active in a loop have all made the same
number of turns. So a counter that starts with one number and changes by uniform
steps is uniform, however many turns each lane makes. An index of that kind turns an
access of local memory into one vector access (`scratch`).

Owns the analysis and the scalar copies. It looks only for what indices of local
memory are made of: integers and masks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lumijit.compiler.blocks import Loop
from lumijit.compiler.lower.builder import Builder
from lumijit.compiler.ops.logic import SELECT
from lumijit.compiler.ops.structural import (
    BITCAST,
    CAST,
    EVALUATED,
    LITERAL,
    LOCAL_READ,
    LOCAL_WRITE,
    LOOP,
    REGIONS,
    SYMBOLIC,
)
from lumijit.compiler.program import is_baked

if TYPE_CHECKING:
    from lumijit.compiler.lower.packet import PacketLowering
    from lumijit.compiler.trace import Node


class Uniform:
    """The uniform values of one kernel that indices need, and their scalars."""

    def __init__(self, lowering: PacketLowering) -> None:
        self.low = lowering
        self.needed: set[Node] = set()
        self.scalars: dict[Node, str] = {}
        self._builder = Builder(0, lowering.b.target)
        self._builder.declarations = lowering.b.declarations
        nodes = lowering.program.all_nodes()
        accesses = [n for n in nodes if n.op in (LOCAL_READ, LOCAL_WRITE)]
        indices = [n.deps[1] for n in accesses if n in lowering.demand.wanted]
        if indices:
            self._analyze(nodes, indices)

    def _analyze(self, nodes: list[Node], indices: list[Node]) -> None:
        feeds = _inputs_of_arguments(nodes)
        varying = _varying(nodes, feeds)
        stack = [index for index in indices if index not in varying]
        while stack:
            node = stack.pop()
            if node not in self.needed:
                self.needed.add(node)
                stack.extend(node.deps)
                stack.extend(feeds.get(node, ()))

    def scalar(self, node: Node) -> str | None:
        """Return what a node is in every active lane, or None if they differ."""
        return self.scalars.get(node) if node in self.needed else None

    def lower(self, node: Node) -> None:
        """Compute a needed node once more, for one lane."""
        op = node.op
        if op in (SYMBOLIC, EVALUATED):
            return
        b, outer = self._builder, self.low.b
        b.lines, b._next = outer.lines, outer._next
        args = [self.scalars[dep] for dep in node.deps]
        if op is LITERAL:
            if is_baked(node):
                self.scalars[node] = b.const(node.type, node.attr)
        elif op is CAST:
            self.scalars[node] = b.cast(node.deps[0].type, args[0], node.type)
        elif op is BITCAST:
            self.scalars[node] = b.bitcast(node.deps[0].type, args[0], node.type)
        else:
            assert op.lower is not None
            operand = node.type if op is SELECT else node.deps[0].type
            if node.attr is not None:
                args.append(node.attr)
            self.scalars[node] = op.lower(b, operand, *args)
        outer._next = b._next

    def within(self, scalar: str, last: int) -> str:
        """Return an index that is at most `last`."""
        if scalar.isdigit():
            return str(min(int(scalar), last))
        b = self.low.b
        b.declarations["llvm.umin.i32"] = "declare i32 @llvm.umin.i32(i32, i32)"
        low = b.emit(f"call i32 @llvm.umin.i32(i32 {scalar}, i32 {last})")
        return b.emit(f"zext i32 {low} to i64")


def _inputs_of_arguments(nodes: list[Node]) -> dict[Node, list[Node]]:
    """Return for each argument of a loop its first and its next value."""
    found: dict[Node, list[Node]] = {}
    for node in nodes:
        if node.op is LOOP:
            loop: Loop = node.attr
            for k, arg in enumerate(loop.args):
                found[arg] = [node.deps[k], loop.body.outputs[k]]
    return found


def _is_candidate(node: Node, feeds: dict[Node, list[Node]]) -> bool:
    """Tell whether a node is uniform if what it is made of is."""
    op, t = node.op, node.type
    if not (t.is_int or t.is_bool):
        return False
    if op is EVALUATED:
        return node.size == 1 and t.is_int
    if op is SYMBOLIC:
        return node in feeds
    return op is LITERAL or op is CAST or op is BITCAST or op.lower is not None


def _varying(nodes: list[Node], feeds: dict[Node, list[Node]]) -> set[Node]:
    """Return the nodes that may differ between lanes, and all made of them."""
    users: dict[Node, list[Node]] = {}
    stack: list[Node] = []
    for node in (*nodes, *feeds):
        for dep in feeds.get(node, node.deps):
            users.setdefault(dep, []).append(node)
        if node.op in REGIONS or not _is_candidate(node, feeds):
            stack.append(node)
    varying: set[Node] = set()
    while stack:
        node = stack.pop()
        if node not in varying:
            varying.add(node)
            stack.extend(users.get(node, ()))
    return varying
