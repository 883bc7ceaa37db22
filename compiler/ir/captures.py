"""The code of a body: its nodes in order, what they refer to outside, its structure.

Making regions of it is the work of `regions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lumijit.compiler.ir.local_types import accesses, in_use
from lumijit.compiler.ir.nodes import Node, Scope, begin_walk, begin_walk_after
from lumijit.compiler.ir.region_types import attr_key
from lumijit.compiler.ir.roles import source_deps, value_deps, written_deps


class Captures:
    """Collects the outer nodes that a body refers to, by their use."""

    def __init__(self) -> None:
        self.values: dict[Node, None] = {}
        self.pointers: dict[Node, None] = {}
        self.targets: dict[Node, None] = {}

    def include(self, other: Captures) -> None:
        """Add what another body refers to."""
        self.values.update(other.values)
        self.pointers.update(other.pointers)


class Code:
    """The nodes of a scope that some roots need, operands first, and their captures."""

    __slots__ = ("captures", "nodes")

    def __init__(self, roots: Iterable[Node], inner: Scope) -> None:
        self.captures = Captures()
        self.nodes = in_order(roots, inner, begin_walk(), self.captures)


def _linearize(
    roots: Iterable[Node], inner: Scope, walk: int, captures: Captures
) -> tuple[Node, ...]:
    """Order the nodes of a scope that `roots` need; note the outer nodes."""
    order: list[Node] = []
    values = captures.values
    for root in roots:
        if root.scope is not inner:
            values[root] = None
            continue
        stack = [root]
        while stack:
            node = stack[-1]
            if node.walk == walk:
                stack.pop()
                continue
            count = len(stack)
            if node.op.lower is not None:
                deps = node.deps
            else:
                deps = value_deps(node)
                for dep in source_deps(node):
                    captures.pointers[dep] = None
                # Targets are captured by the scope's writes; only versions made
                # inside belong to the body.
                for dep in written_deps(node):
                    if dep.scope is inner and dep.walk != walk:
                        stack.append(dep)
            for dep in deps:
                if dep.scope is not inner:
                    values[dep] = None
                elif dep.walk != walk:
                    stack.append(dep)
            if len(stack) == count:
                stack.pop()
                node.walk = walk
                order.append(node)
    return tuple(order)


def in_order(
    roots: Iterable[Node], inner: Scope, walk: int, captures: Captures
) -> tuple[Node, ...]:
    """Order the nodes of a scope, accesses of local memory as they were made.

    Nodes that carry the mark `walk` are there already; those that are found get it.
    Only one thread may do so at a time: that which records the scope, or who has the
    lock of `evaluate`.
    """
    roots = tuple(roots)
    if not in_use():
        return _linearize(roots, inner, walk, captures)
    # The order of the other operations hardly matters; that of writes to
    # memory follows from the versions that they depend on.
    reached = Captures()
    found = _linearize(roots, inner, walk, reached)
    first = accesses(found)
    if first:
        for node in found:
            node.walk = 0
        return _linearize((*first, *roots), inner, walk, captures)
    captures.include(reached)
    return found


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
    nodes = in_order(roots, inner, begin_walk_after(labels), captures)
    known = labels | {node: k for k, node in enumerate(nodes)}
    rows: list[Any] = []
    for node in nodes:
        attr = None if node.attr is None else attr_key(node)
        refs = [known.get(dep, id(dep)) for dep in node.deps]
        rows.append((node.op.index, node.type.index, attr, *refs))
    rows.append([known.get(root, id(root)) for root in roots])
    return rows, captures
