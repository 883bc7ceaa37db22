"""Derivatives of what regions write to arrays.

An array is written by index only, so the derivative by it is one in memory that the
region's derivative writes to. In reverse, writes are gone through from the last to the
first: what replaced an entry takes its derivative away, and leaves 0 to what was there
before. Forward, derivatives are written as the values are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from lumijit.compiler.derive.steps import Step
from lumijit.compiler.derive.values import literal
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import (
    CONSUMED,
    REGIONS,
    SCATTER,
    SCATTER_ERROR,
    SCATTER_FETCH,
    WRITTEN,
)
from lumijit.compiler.ir.region_types import Block
from lumijit.compiler.ir.roles import is_effect, read_deps, target_of, written_deps
from lumijit.compiler.ir.vertices import Vertex
from lumijit.compiler.record import memory
from lumijit.runtime.errors import DerivativeError

T = TypeVar("T")


class Target:
    """The derivative by an array, as going back through the writes changes it."""

    def __init__(self, by: Node, is_replaced: bool) -> None:
        self.is_replaced = is_replaced
        self._holder = Holder(by)

    def take(self, write: Write, images: Mapping[int, Node]) -> Node:
        """Return the derivative by values that were written."""
        index, mask = write.place(images)
        op = operation(write.node)
        if op not in ("identity", "add") or write.node.op is SCATTER_FETCH:
            raise _not_differentiable(write.node)
        if not self.is_replaced:
            return memory.entries(self._holder._node, index, mask)
        # What is added leaves the entry's derivative to what was there before.
        zero = literal(0, self._holder._node)
        return memory.fetch(self._holder, zero, index, mask, op)

    @property
    def rest(self) -> Node:
        """The derivative by the array before the writes gone through."""
        return self._holder._node


class Tangents(dict[int, Node]):
    """Forward derivatives of a region's results, by position.

    `targets` are those of the arrays that it writes to, by the ids of these.
    """

    def __init__(self, results: Mapping[int, Node], held: dict[int, Holder]) -> None:
        super().__init__(results)
        self.targets = {key: holder._node for key, holder in held.items()}


def places_of_targets(step: Step) -> dict[int, int]:
    """Return the operands that stand for arrays a region writes to, by their ids."""
    deps = enumerate(step.vertex.deps)
    return {dep.attr: k for k, dep in deps if dep.op is CONSUMED and dep.attr}


def held_targets(step: Step, tangents: Mapping[int, Node]) -> dict[int, Holder]:
    """Return holders of the forward derivatives of arrays that a region writes to.

    An outer region has those of its own.
    """
    held = dict(step.targets)
    for key, k in places_of_targets(step).items():
        dep = step.vertex.deps[k]
        held[key] = Holder(trace.resized(tangents.get(k, literal(0, dep)), dep.size))
    return held


class Write:
    """A write in a block, or a region that writes.

    `targets` are the ids by which the block's surroundings know the arrays, by the ids
    of those that stand for them here.
    """

    def __init__(self, node: Node, targets: dict[int, int]) -> None:
        self.node = node
        self.targets = targets
        self.is_region = node.op in REGIONS
        # What has results passes derivatives when their turn comes.
        self.has_results = self.is_region or node.op is SCATTER_FETCH

    @property
    def wanted(self) -> Node:
        """What has to be known to pass derivatives."""
        return self.node if self.has_results else self.node.deps[1]

    @property
    def operands(self) -> Iterable[Node]:
        """What has to be repeated: the place, or what an untracked region reads."""
        return read_deps(self.node) if self.is_region else self.node.deps[2:]

    @property
    def vertex(self) -> Vertex:
        """The vertex of what has results, or one if nothing depends on these."""
        node = self.node
        return node.vertex or Vertex(node, node.op, node.deps, (), node.attr)

    def chosen(self, targets: Mapping[int, T]) -> dict[int, T]:
        """Return what belongs to the arrays, by the ids of those here."""
        return {here: targets[key] for here, key in self.targets.items()}

    def place(self, images: Mapping[int, Node]) -> tuple[Node, Node]:
        """Return index and mask as they are where the derivative is traced."""
        index, mask = (images.get(id(dep), dep) for dep in self.node.deps[-2:])
        return index, mask

    def push(
        self, tangent: Node | None, images: Mapping[int, Node], into: Holder
    ) -> None:
        """Write the forward derivative of a value as the value is written."""
        op = operation(self.node)
        if op not in ("identity", "add"):
            raise _not_differentiable(self.node)
        if tangent is None:
            if op == "add":
                return
            tangent = literal(0, self.wanted)
        mode = self.node.attr.mode if self.node.op is SCATTER else "auto"
        memory.update(into, tangent, *self.place(images), op, mode)


def operation(node: Node) -> str:
    """Return what a write does with the entry that it finds."""
    if node.op in (SCATTER, SCATTER_FETCH):
        found: str = node.attr.op
        return found
    return "add" if node.op is SCATTER_ERROR else node.op.name


def writes_to(block: Block, targets: Iterable[int]) -> list[Write]:
    """Return the writes of a block to some arrays, by id, in order."""
    keys = set(targets)
    found = []
    for node in block.nodes if keys else ():
        if is_effect(node):
            mine = {id(dep): id(_original(dep, node)) for dep in written_deps(node)}
            mine = {here: key for here, key in mine.items() if key in keys}
            if mine:
                found.append(Write(node, mine))
    return found


def _original(target: Node, effect: Node) -> Node:
    while target.op is WRITTEN and target.scope is effect.scope:
        target = target_of(target)
    return target


def is_replaced(blocks: Iterable[Block], target: int) -> bool:
    """Tell whether code does anything but add to the entries of an array."""
    for block in blocks:
        for write in writes_to(block, [target]):
            node = write.node
            if write.is_region:
                if any(is_replaced(node.attr.blocks, key) for key in write.targets):
                    return True
            elif operation(node) != "add":
                return True
    return False


def _not_differentiable(node: Node) -> DerivativeError:
    return DerivativeError(
        "derivative of a write",
        "a symbolic loop, branch or call combines the array's entries by an operation "
        f"({operation(node)}) whose derivative needs what they held in between",
        "use lumijit.scatter or scatter_add, return the values and write them "
        "afterwards, or use evaluated mode (mode='evaluated').",
    )
