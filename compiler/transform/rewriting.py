"""The same nodes with other operands, regions and their contents included.

Nodes and regions that exist stay as they are: whoever wants other code makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.local_types import renumbered
from lumijit.compiler.ir.nodes import Node, Scope
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import (
    CONSUMED,
    GATHER_AT,
    LOOP,
    REGIONS,
    WRITTEN,
)
from lumijit.compiler.ir.region_types import Block, Region, make_region
from lumijit.compiler.ir.roles import (
    is_effect,
    operands,
    read_deps,
    source_deps,
    value_deps,
    written_deps,
)
from lumijit.compiler.transform.hidden import with_hidden

Nodes = dict[int, Node]


class Rewriter:
    """Makes nodes again.

    `images` are what stands for nodes, by the ids of the originals. `changes` are
    other operands, by the id of a node and the operand's position; in place of an
    array that is read by index stands its address. A copy has as many elements as its
    operands. If it `is_pure`, regions lose their writes, and what only serves these. If
    it `is_tracking`, copies have derivatives as their originals do, and what only
    these refer to is copied, too (`hidden`). If it `is_repeating`, copies access
    local memory after all that has done so. Whether it `has_lost` something tells that
    derivatives of the copies would need what a write returned.
    """

    __slots__ = (
        "_addresses",
        "_changes",
        "_is_pure",
        "_is_repeating",
        "_is_tracking",
        "has_lost",
        "images",
    )

    def __init__(
        self,
        images: Nodes,
        changes: Mapping[tuple[int, int], Node] | None = None,
        is_pure: bool = False,
        is_tracking: bool = False,
        is_repeating: bool = False,
    ) -> None:
        self.images = images
        self._changes = changes or {}
        self._is_pure = is_pure
        self._is_tracking = is_tracking
        self._is_repeating = is_repeating
        self._addresses: Nodes = {}
        self.has_lost = False

    def copy(self, nodes: Sequence[Node], scope: Scope) -> list[Node]:
        """Copy nodes of one scope, operands first, into a scope."""
        if self._is_tracking:
            listed = with_hidden(nodes, self.images, self._is_pure)
            if listed is not nodes:
                copies = self._copy_all(listed, scope)
                made = [self.images[id(node)] for node in nodes]
                pairs = zip(listed, copies, strict=True)
                lost = {copy for n, copy in pairs if copy.op is CONSUMED is not n.op}
                self.has_lost |= not lost.issubset(made)
                return made
        return self._copy_all(nodes, scope)

    def _copy_all(self, nodes: Sequence[Node], scope: Scope) -> list[Node]:
        made = []
        images, is_tracking = self.images, self._is_tracking
        is_plain = not self._changes
        for node in nodes:
            if is_plain and node.op.lower is not None:
                deps = tuple([images.get(id(dep), dep) for dep in node.deps])
                copy = _node(node, scope, deps)
                if copy.size == 1:
                    copy.size = _lanes(deps)
                if is_tracking and node.vertex is not None:
                    self._track(node, copy, deps)
            else:
                copy = self._copy(node, scope)
            images[id(node)] = copy
            made.append(copy)
        return made

    def _track(self, node: Node, copy: Node, operands: tuple[Node, ...] = ()) -> None:
        """Give a copy a vertex; its operands may be others than images."""
        if not self._is_tracking or node.vertex is None:
            return
        owner = node.vertex.result()
        if owner is not node:
            # A stand-in has the derivatives of another node.
            copy.vertex = node.vertex if owner is None else self.image(owner).vertex
            return
        changed = {
            id(dep): new
            for dep, new in zip(node.deps, operands, strict=True)
            if new is not self.image(dep)
        }
        deps = []
        for k, dep in enumerate(node.vertex.deps):
            is_same = k < len(node.deps) and node.deps[k] is dep
            deps.append(operands[k] if is_same else changed.get(id(dep)))
            deps[k] = deps[k] or self.image(dep)
        node.vertex.copied(copy, tuple(deps))

    def image(self, node: Node) -> Node:
        """Return what stands for a node."""
        return self.images.get(id(node), node)

    def _copy(self, node: Node, scope: Scope) -> Node:
        if self._is_pure and node.op not in REGIONS and is_effect(node):
            return _node(node, scope, (), CONSUMED)
        deps = []
        moved: Nodes = {}
        sources = range(*operands(node).sources.indices(len(node.deps)))
        for k, dep in enumerate(node.deps):
            found = self._changes.get((id(node), k)) if self._changes else None
            if k in sources:
                found = found or self._addresses.get(id(dep))
                if found is not None:
                    moved[id(dep)] = found
                # What is made inside and read by index is a written version.
                found = None
            deps.append(self.image(dep) if found is None else found)
        copy = _node(node, scope, tuple(deps))
        if self._is_repeating and node.op.is_ordered:
            copy.attr = renumbered(node.attr)
        if node.op in REGIONS:
            self._region(node, copy, moved)
        elif moved:
            copy.op = GATHER_AT
            copy.deps = (*moved.values(), *copy.deps[1:])
        if copy.op is not WRITTEN and copy.size == 1:
            copy.size = _lanes(value_deps(copy))
        if node.vertex is not None:
            self._track(node, copy, tuple(deps))
        return copy

    def _region(self, node: Node, copy: Node, addresses: Nodes) -> None:
        """Give a copy of a region copies of its blocks.

        The inner nodes refer to outer ones that images or the copy's operands replace.
        """
        region: Region = node.attr
        outer = self.images, self._addresses
        self.images, self._addresses = dict(self.images), addresses
        values = value_deps(copy)
        wide = _lanes((*values, *addresses.values()))
        # An operand may be both a value, which has changed, and an array that is
        # indexed. Of two values that were one node, `regions` means the last.
        for old, new in zip(value_deps(node), values, strict=True):
            self.images[id(old)] = new
        scope = Scope(copy.scope, region.label, wide)
        args = tuple([_node(arg, scope, ()) for arg in region.args])
        for old, arg in zip(region.args, args, strict=True):
            arg.size = wide if arg.size == 1 else arg.size
            self.images[id(old)] = arg
            self._track(old, arg)
        blocks = []
        entered = self.images
        for k, block in enumerate(region.blocks):
            if k and region.op is not LOOP:
                scope = Scope(copy.scope, region.label, wide)
                # (Bodies of calls may share nodes.)
                self.images = dict(entered)
            nodes: Sequence[Node] = block.nodes
            if self._is_pure:
                nodes = pure_nodes(block.nodes, block.outputs)
            made = tuple(self.copy(nodes, scope))
            blocks.append(Block(made, tuple(map(self.image, block.outputs))))
        self.images, self._addresses = outer
        heads = values[: len(args) if region.op is LOOP else 1]
        found = _captured(args, blocks, heads)
        targets = () if self._is_pure else written_deps(copy)
        copy.attr, copy.deps = make_region(
            region.op,
            args,
            blocks,
            region.label,
            (*found, targets),
            region.is_consumed or any(map(_is_consumed, blocks)),
            region.bound,
        )
        copy.size = wide if node.size == 1 else node.size


def _node(
    node: Node, scope: Scope, deps: tuple[Node, ...], op: Op | None = None
) -> Node:
    attr = None if op else node.attr
    copy = trace.make(op or node.op, node.type, node.size, deps, attr)
    copy.scope = scope
    return copy


def _lanes(values: Iterable[Node]) -> int:
    """Return for how many elements something is computed from values.

    Unless all are uniform, that is their common size, which may be 0.
    """
    for dep in values:
        if dep.size != 1:
            return dep.size
    return 1


def _captured(
    args: tuple[Node, ...], blocks: Iterable[Block], heads: tuple[Node, ...]
) -> tuple[list[Node], list[Node]]:
    """Find the values and the indexed arrays that blocks refer to; `heads` first."""
    inside = set(args)
    values: dict[Node, None] = {}
    sources: dict[Node, None] = {}
    for block in blocks:
        for node in block.nodes:
            inside.add(node)
            if node.op.lower is not None:
                for dep in node.deps:
                    values[dep] = None
            else:
                values.update(dict.fromkeys(value_deps(node)))
                sources.update(dict.fromkeys(source_deps(node)))
        values.update(dict.fromkeys(block.outputs))
    read = [node for node in sources if node not in inside]
    inside.update(heads)
    return [*heads, *[node for node in values if node not in inside]], read


def pure_nodes(nodes: Sequence[Node], results: Iterable[Node]) -> list[Node]:
    """Return the nodes of a block that results need, if nothing is written.

    What served the writes only goes with them: most of all, the positions that
    counters returned.
    """
    needed = set(results)
    kept = []
    for node in reversed(nodes):
        if node in needed:
            kept.append(node)
            if node.op in REGIONS or not is_effect(node):
                needed.update(read_deps(node))
    return kept[::-1]


def _is_consumed(block: Block) -> bool:
    return any(
        n.op is CONSUMED or (n.op in REGIONS and n.attr.is_consumed)
        for n in block.nodes
    )


def without_effects(node: Node) -> tuple[Region, tuple[Node, ...]]:
    """Return a region without its writes to memory, and the operands of its node.

    What writes returned can't be had again: in its place stands a consumed value.
    """
    (copy,) = Rewriter({}, is_pure=True).copy([node], node.scope)
    region: Region = copy.attr
    return region, copy.deps
