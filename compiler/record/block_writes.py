"""What recorded code writes to which arrays, and which of it is tracked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lumijit.compiler.ir.nodes import ROOT, Node, Scope
from lumijit.compiler.ir.ops.structural import (
    OUTER,
    REGIONS,
    SCATTER,
    SCATTER_ERROR,
    SCATTER_FETCH,
    TRACKED_WRITES,
    WRITTEN,
)
from lumijit.compiler.ir.region_types import Block
from lumijit.compiler.ir.roles import is_effect, target_of, value_deps, written_deps
from lumijit.runtime.errors import SymbolicError


def operation(node: Node) -> str:
    """Return what a write does with the entry that it finds."""
    if node.op in (SCATTER, SCATTER_FETCH):
        found: str = node.attr.op
        return found
    return "add" if node.op is SCATTER_ERROR else node.op.name


def check_unread(
    construct: str, blocks: Iterable[Block], scopes: Iterable[Scope]
) -> None:
    """Refuse to compute with the entries of arrays that were written inside."""
    if not any([inner.writes for inner in scopes]):
        return
    for block in blocks:
        read = [dep for node in block.nodes for dep in value_deps(node)]
        for node in (*read, *block.outputs):
            if node.op is WRITTEN and node.scope is not ROOT:
                raise SymbolicError(
                    construct,
                    f"an array of {node.size} entries is written to by index inside "
                    "and then computed with, which would need its evaluation",
                    "compute with it after the construct, use lumijit.alloc_local, or "
                    "evaluated mode (mode='evaluated').",
                )


def writes_to(
    block: Block, targets: Iterable[int]
) -> Iterator[tuple[Node, dict[int, int]]]:
    """Find what writes to some arrays, by id, in order: writes, and regions that do.

    With each, the ids of the arrays, by the ids of what stands for them there.
    """
    keys = set(targets)
    for node in block.nodes if keys else ():
        if is_effect(node):
            mine = {id(dep): id(_original(dep, node)) for dep in written_deps(node)}
            mine = {here: key for here, key in mine.items() if key in keys}
            if mine:
                yield node, mine


def _original(target: Node, effect: Node) -> Node:
    while target.op is WRITTEN and target.scope is effect.scope:
        target = target_of(target)
    return target


def all_writes_to(blocks: Iterable[Block], target: int) -> Iterator[Node]:
    """Find all writes to an array, by id, in regions inside as well."""
    for block in blocks:
        for node, mine in writes_to(block, [target]):
            if node.op in REGIONS:
                for key in mine:
                    yield from all_writes_to(node.attr.blocks, key)
            else:
                yield node


def written_values(node: Node) -> tuple[Node, ...]:
    """Return what a write makes an array depend on."""
    return node.deps[2:] if node.op is OUTER else node.deps[1:2]


def tracked_writes(nodes: Iterable[Node]) -> list[Node]:
    """Return the tracked values that are written to arrays, and regions that do so.

    What a loop writes may depend on what is outside through its operands only.
    """
    found = []
    for node in nodes:
        if node.op in TRACKED_WRITES:
            found += [dep for dep in written_values(node) if dep.vertex is not None]
        elif (
            node.vertex is not None
            and node.op in REGIONS
            and is_effect(node)
            and any(tracked_writes(block.nodes) for block in node.attr.blocks)
        ):
            found.append(node)
    return found
