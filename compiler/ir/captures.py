"""The code of a body: its nodes in order, what they refer to outside, its structure.

Making regions of it is the work of `regions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lumijit.compiler.ir import local_types
from lumijit.compiler.ir.ops.record import region_operands
from lumijit.compiler.ir.region_types import Loop, Region, attr_key
from lumijit.compiler.ir.roles import source_deps, value_deps, written_deps
from lumijit.compiler.ir.trace import Node, Scope


class Captures:
    """Collects the outer nodes that a body refers to, by their use."""

    def __init__(self) -> None:
        self.values: dict[int, Node] = {}
        self.pointers: dict[int, Node] = {}
        self.targets: dict[int, Node] = {}

    def include(self, other: Captures) -> None:
        """Add what another body refers to."""
        self.values.update(other.values)
        self.pointers.update(other.pointers)


class Code:
    """The nodes of a scope that some roots need, operands first, and their captures."""

    __slots__ = ("captures", "nodes")

    def __init__(self, roots: Iterable[Node], inner: Scope) -> None:
        self.captures = Captures()
        self.nodes = in_order(roots, inner, set(), self.captures)


def _linearize(
    roots: Iterable[Node], inner: Scope, done: set[Node], captures: Captures
) -> tuple[Node, ...]:
    """Order the nodes of a scope that `roots` need; note the outer nodes."""
    order: list[Node] = []
    values = captures.values
    for root in roots:
        if root.scope is not inner:
            values[id(root)] = root
            continue
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            if node.op.lower is not None:
                deps = node.deps
            else:
                deps = value_deps(node)
                captures.pointers.update((id(dep), dep) for dep in source_deps(node))
                # Targets are captured by the scope's writes; only versions made
                # inside belong to the body.
                for dep in written_deps(node):
                    if dep.scope is inner and dep not in done:
                        stack.append(dep)
            for dep in deps:
                if dep.scope is not inner:
                    values[id(dep)] = dep
                elif dep not in done:
                    stack.append(dep)
            if stack[-1] is node:
                stack.pop()
                done.add(node)
                order.append(node)
    return tuple(order)


def in_order(
    roots: Iterable[Node], inner: Scope, done: set[Node], captures: Captures
) -> tuple[Node, ...]:
    """Order the nodes of a scope, accesses of local memory as they were made."""
    roots = tuple(roots)
    if local_types.in_use():
        # The order of the other operations hardly matters; that of writes to
        # memory follows from the versions that they depend on.
        found = _linearize(roots, inner, set(done), Captures())
        roots = (*local_types.accesses(found), *roots)
    return _linearize(roots, inner, done, captures)


def shape(
    roots: tuple[Node, ...], inner: Scope, labels: dict[Node, int]
) -> tuple[list[Any], Captures]:
    """Describe the code that some roots need, to compare two traces of one function.

    Args:
        roots: nodes of a scope, or outside of it.
        inner: the scope.
        labels: what stands for the scope's arguments; below 0.

    Returns:
        The description, and what must live as long as it is in use: nodes outside are
        told by their ids.
    """
    captures = Captures()
    nodes = in_order(roots, inner, set(labels), captures)
    known = labels | {node: k for k, node in enumerate(nodes)}
    rows: list[Any] = []
    for node in nodes:
        attr = None if node.attr is None else attr_key(node)
        refs = [known.get(dep, id(dep)) for dep in node.deps]
        rows.append((node.op.index, node.type.index, attr, *refs))
    rows.append([known.get(root, id(root)) for root in roots])
    return rows, captures


def recapture(node: Node) -> None:
    """Find anew what a region refers to, after its nodes got other operands.

    The arrays that it writes stay the same.
    """
    region = node.attr
    heads = len(region.args) if isinstance(region, Loop) else 1
    inside = {id(n) for block in region.blocks for n in block.nodes}
    if isinstance(region, Loop):
        inside.update(map(id, region.args))
    values: dict[int, Node] = {}
    pointers: dict[int, Node] = {}
    for block in region.blocks:
        for inner in block.nodes:
            values.update((id(d), d) for d in value_deps(inner))
            pointers.update((id(d), d) for d in source_deps(inner))
        values.update((id(out), out) for out in block.outputs)
    known = inside | set(map(id, node.deps[:heads]))
    found = [n for key, n in values.items() if key not in known]
    read = [n for key, n in pointers.items() if key not in inside]
    targets = written_deps(node)
    counts = heads + len(found), len(read), len(targets)
    region.operands = region_operands(*counts)
    node.deps = (*node.deps[:heads], *found, *read, *targets)
    region.key = structure(region, node.deps)


def structure(region: Region, deps: tuple[Node, ...]) -> Any:
    """Describe a region's code by local indices; captures count from -1 down."""
    # Keyed by nodes: asking for ids takes longer than hashing them.
    known: dict[Node, int] = {d: -1 - k for k, d in enumerate(deps)}
    count = 0
    if isinstance(region, Loop):
        for arg in region.args:
            known[arg] = count
            count += 1
    rows: list[Any] = [type(region).__name__]
    for block in region.blocks:
        for node in block.nodes:
            known[node] = count
            count += 1
            deps = node.deps
            attr = None if node.attr is None else attr_key(node)
            head = node.op.index, node.type.index, attr
            if len(deps) == 2:
                rows.append((*head, known[deps[0]], known[deps[1]]))
            else:
                rows.append((*head, *[known[d] for d in deps]))
        rows.append(tuple([known[n] for n in block.outputs]))
    return tuple(rows)
