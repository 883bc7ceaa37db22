"""A loop as it was recorded, and how derivatives repeat its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lumijit.compiler.derive import blocks
from lumijit.compiler.derive.adjoints import Adjoint
from lumijit.compiler.derive.branching import Surroundings
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.ops.structural import REGIONS
from lumijit.compiler.ir.region_types import Region
from lumijit.compiler.ir.roles import read_deps
from lumijit.compiler.ir.trace import Node, Scope
from lumijit.compiler.record import regions

Nodes = Sequence[Node]


def traced_loop(
    label: str,
    width: int,
    inits: Nodes,
    cond: Callable[[Nodes], Node],
    body: Callable[[Nodes], Nodes],
) -> list[Node]:
    """Trace a loop over nodes and return the final state."""
    with regions.scope(label, width, is_loop=True) as inner:
        args = tuple(
            regions.argument(node.type, width if node.size == 1 else node.size, k, node)
            for k, node in enumerate(inits)
        )
        condition = cond(args)
        with trace.masked_only(None):
            outputs = tuple(body(args))
    _, results = regions.close_loop(inner, tuple(inits), args, condition, outputs)
    return results


class Recorded:
    """A loop as it was recorded, and how to repeat its parts."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.region: Region = step.attr
        self.args = self.region.args
        self.outputs = self.region.body.outputs
        self.inits = step.deps[: len(self.args)]
        self.depth = step.vertex.scope.depth
        self.label = f"derivative of {self.region.label or 'while_loop'}"
        self.width = step.size

    def images(self, state: dict[int, Node]) -> blocks.Images:
        """Return what stands for nodes if arguments, by position, are these."""
        found = dict(self.step.images)
        found.update((id(self.args[k]), node) for k, node in state.items())
        return found

    def condition(self, state: Nodes) -> Node:
        """Repeat the header: whether there is another turn."""
        (cond,) = self.region.header.outputs
        return self._repeated([cond], dict(enumerate(state)))[0]

    def turn(self, state: dict[int, Node]) -> dict[int, Node]:
        """Repeat the body for some of the state, by position."""
        outputs = [self.outputs[k] for k in state]
        return dict(zip(state, self._repeated(outputs, state), strict=True))

    def _repeated(self, nodes: Nodes, state: dict[int, Node]) -> list[Node]:
        images = self.images(state)
        blocks.repeat(nodes, self.args, self.depth, images)
        return [images.get(id(node), node) for node in nodes]

    def reverse(
        self, state: dict[int, Node], by: dict[int, Node], outside: Surroundings
    ) -> dict[int, Adjoint]:
        """Differentiate a turn; return the adjoints of the arguments, by position."""
        outside.enter()
        seeds = blocks.Seeds(by, outside.targets)
        images = self.images(state)
        found = blocks.reverse(
            self.region.body, seeds, self.args, self.depth, images, outside.at
        )
        serials = {a.vertex.serial: k for k, a in enumerate(self.args) if a.vertex}
        return {serials[s]: adjoint for s, adjoint in found.items() if s in serials}

    def trial(self, run: Callable[[dict[int, Node]], Nodes]) -> tuple[set[int], Nodes]:
        """Trace code of a turn to look at; return which arguments it needs, and it."""
        with regions.scope(self.label, self.width, is_loop=True) as inner:
            args = {
                k: trace.make(a.op, a.type, a.size, (), k)
                for k, a in enumerate(self.args)
            }
            with trace.masked_only(None):
                results = run(args)
            effects = list(inner.effects)
        regions.restore_writes(inner)
        regions.forget(inner)
        needed = _reached((*results, *effects), inner)
        return {k for k, arg in args.items() if id(arg) in needed}, results

    def closure(self, needed: set[int]) -> list[int]:
        """Return the state that computes itself, and what is needed, turn by turn."""
        while True:
            state = sorted(needed)
            more, _ = self.trial(
                lambda args, state=state: [  # type: ignore[misc]
                    self._repeated([self.outputs[k]], args)[0] for k in state
                ]
            )
            if more <= needed:
                return state
            needed = needed | more


def _reached(nodes: Nodes, scope: Scope) -> set[int]:
    """Return the nodes of a scope that others depend on, by id."""
    seen: set[int] = set()
    stack = [node for node in nodes if node.scope is scope]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        deps = read_deps(node) if node.op in REGIONS else node.deps
        stack.extend(dep for dep in deps if dep.scope is scope)
    return seen
