"""Finds what of a program anybody needs, through regions and into their blocks.

A loop's state that nobody reads, a result of a call that nobody uses, and all that
only serves these isn't lowered. Marking starts at the outputs and the effects and
follows single results through regions, so it goes as far as it can.
"""

from __future__ import annotations

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import (
    LOOP,
    PROJECT,
    REGIONS,
    SYMBOLIC,
)
from lumijit.compiler.ir.roles import is_effect, value_deps
from lumijit.compiler.plan.program import Program


class Demand:
    """The nodes of a program that are wanted, and which results of regions are."""

    def __init__(self, program: Program) -> None:
        self.wanted: set[Node] = set()
        self._results: dict[Node, set[int]] = {}
        self._finals: dict[Node, set[int]] = {}
        self._arguments: dict[Node, tuple[Node, int]] = {}
        self._stack: list[Node] = []
        for node in program.all_nodes():
            if node.op is LOOP:
                for k, arg in enumerate(node.attr.args):
                    self._arguments[arg] = node, k
        for node in (*program.outputs, *program.effects):
            self._want(node)
        while self._stack:
            self._follow(self._stack.pop())

    def results(self, region: Node) -> list[int]:
        """Return the positions of a region's results that somebody needs.

        Of a loop, these are the state variables that change and are needed.
        """
        return sorted(self._results.get(region, ()))

    def finals(self, region: Node) -> set[int]:
        """Return the positions of the results that are needed after the region."""
        return self._finals.get(region, set())

    def _want(self, node: Node) -> None:
        if node not in self.wanted:
            self.wanted.add(node)
            self._stack.append(node)

    def _follow(self, node: Node) -> None:
        op = node.op
        if op is PROJECT:
            self._want(node.deps[0])
            if node.deps[0].op not in REGIONS:
                return
            self._finals.setdefault(node.deps[0], set()).add(node.attr)
            self._want_result(node.deps[0], node.attr)
        elif op is SYMBOLIC:
            if node in self._arguments:
                self._want_result(*self._arguments[node])
        elif op in REGIONS:
            self._enter(node)
        else:
            for dep in value_deps(node):
                self._want(dep)

    def _enter(self, region: Node) -> None:
        """Want what a region does in any case: its decisions and its effects."""
        attr = region.attr
        if region.op is LOOP:
            for term in attr.terms:
                self._want(term)
        else:
            self._want(region.deps[0])
        for block in attr.blocks:
            for node in block.nodes:
                if is_effect(node):
                    self._want(node)

    def _want_result(self, region: Node, position: int) -> None:
        found = self._results.setdefault(region, set())
        if position in found:
            return
        attr = region.attr
        if region.op is LOOP:
            self._want(region.deps[position])
            self._want(attr.args[position])
            if attr.body.outputs[position] is attr.args[position]:
                return
            self._want(attr.body.outputs[position])
        else:
            for block in attr.blocks:
                self._want(block.outputs[position])
        found.add(position)
