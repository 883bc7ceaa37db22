"""Decides which writes to local buffers may happen in place.

A write takes a version of a buffer and gives another one. Both can be the same
memory if nobody reads the older version afterwards. Owns that analysis, over the
order in which a program and its regions are lowered; `scratch` asks for the results
and copies where they say no.

What may be overwritten in a block: buffers made in it, a loop's arguments, and what
the surrounding block no longer needs after the region. Sides of a branch run for
different lanes, so one may overwrite what the other still reads. A loop's body runs
again, so it may not overwrite what it captures. Bodies of a call may share nodes: then
what holds in all of them counts. What nobody wants isn't lowered, and needs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lumijit.compiler.ir.local_types import is_local, local_deps
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import (
    CALL,
    EVALUATED,
    LOCAL_WRITE,
    LOOP,
    REGIONS,
)
from lumijit.compiler.ir.region_types import Region
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.plan.program import Program


class Lifetimes:
    """For each write and region: the operands that it may overwrite."""

    def __init__(self, program: Program, demand: Demand) -> None:
        self._demand = demand
        self._overwritten: dict[Node, set[Node]] = {}
        self._block(program.nodes, program.outputs, set())

    def may_overwrite(self, user: Node, version: Node) -> bool:
        """Tell whether nobody needs an operand of a write or region after it."""
        return version in self._overwritten.get(user, ())

    def _note(self, user: Node, free: set[Node]) -> None:
        known = self._overwritten.get(user)
        self._overwritten[user] = free if known is None else free & known

    def _versions(self, node: Node) -> list[Node]:
        """Return the buffers among a node's operands; a region may want only some."""
        return [dep for dep in local_deps(node) if dep in self._demand.wanted]

    def _block(
        self, nodes: Sequence[Node], outputs: Iterable[Node], owned: set[Node]
    ) -> None:
        nodes = [node for node in nodes if node in self._demand.wanted]
        last: dict[Node, int] = {}
        for k, node in enumerate(nodes):
            for dep in self._versions(node):
                last[dep] = k
        for out in outputs:
            last[out] = len(nodes)
        owned = set(owned)
        for k, node in enumerate(nodes):
            if is_local(node) and node.op is not EVALUATED:
                owned.add(node)
            if node.op is LOCAL_WRITE:
                free = {d for d in node.deps[:1] if d in owned and last[d] == k}
                self._note(node, free)
            elif node.op in REGIONS:
                free = {d for d in self._versions(node) if d in owned and last[d] == k}
                self._region(node, free)

    def _region(self, node: Node, free: set[Node]) -> None:
        region = node.attr
        if node.op is LOOP:
            self._loop(node, region, free)
            return
        self._note(node, free)
        owned = set(free)
        if node.op is CALL:
            # What isn't free of these is copied before (`Scratch.homes`).
            before = region.bodies[-1].outputs
            wanted = (before[k] for k in self._demand.results(node))
            owned.update(out for out in wanted if is_local(out))
        for block in region.blocks:
            self._block(block.nodes, block.outputs, owned)

    def _loop(self, node: Node, loop: Region, free: set[Node]) -> None:
        nodes = (*loop.header.nodes, *loop.body.nodes)
        inits = node.deps[: len(loop.args)]
        captured = {dep for inner in nodes for dep in local_deps(inner)}
        captured.update(loop.body.outputs)
        self._note(node, {d for d in free if d not in captured and inits.count(d) == 1})
        changed = {
            arg
            for arg, out in zip(loop.args, loop.body.outputs, strict=True)
            if is_local(arg) and arg is not out
        }
        self._block(nodes, loop.body.outputs, changed)
