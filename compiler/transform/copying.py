"""Copies of nodes with other operands, regions and their contents included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import ref

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.captures import recapture
from lumijit.compiler.ir.ops.structural import GATHER_AT, REGIONS, WRITTEN
from lumijit.compiler.ir.region_types import Block, Branch, Call, Loop
from lumijit.compiler.ir.roles import operands, value_deps
from lumijit.compiler.ir.trace import Node, Scope

Nodes = dict[int, Node]


def copy_nodes(
    nodes: Sequence[Node], scope: Scope, replaced: Mapping[tuple[int, int], Node]
) -> Nodes:
    """Copy nodes into a scope.

    Args:
        nodes: nodes of one scope, operands first.
        scope: where the copies belong.
        replaced: other operands, by the id of a node and the operand's position. In
            place of an array that is read by index stands its address.

    Returns:
        The copies by the id of the original. A copy has as many elements as its
        operands.
    """
    made: Nodes = {}
    for node in nodes:
        changes = {
            k: replaced[id(node), k]
            for k in range(len(node.deps))
            if (id(node), k) in replaced
        }
        made[id(node)] = _copy(node, scope, made, {}, changes)
    return made


def _copy(
    node: Node, scope: Scope, made: Nodes, addresses: Nodes, changes: Nodes
) -> Node:
    """Copy a node; `changes` are operands by position, `made` by their ids."""
    deps = []
    moved: Nodes = {}
    indexed = range(*operands(node).sources.indices(len(node.deps)))
    for k, dep in enumerate(node.deps):
        found = changes.get(k)
        if k in indexed:
            found = found or addresses.get(id(dep))
            if found is not None:
                moved[id(dep)] = found
            # What is made inside and read by index is a written version.
            deps.append(made.get(id(dep), dep))
        else:
            deps.append(found or made.get(id(dep), dep))
    copy = _node(node, scope, tuple(deps))
    if node.op in REGIONS:
        _copy_region(node, copy, made, moved)
    elif moved:
        copy.op = GATHER_AT
        copy.deps = (next(iter(moved.values())), *copy.deps[1:])
    if copy.op is WRITTEN:
        if copy.deps[0].op in REGIONS:
            copy.deps[0].attr.written.append(ref(copy))
    elif copy.size == 1:
        copy.size = _lanes(copy)
    return copy


def _node(node: Node, scope: Scope, deps: tuple[Node, ...]) -> Node:
    copy = trace.make(node.op, node.type, node.size, deps, node.attr)
    copy.scope = scope
    return copy


def _lanes(node: Node, addresses: Iterable[Node] = ()) -> int:
    """Return for how many elements a node is computed: not how many it indexes."""
    sizes = (dep.size for dep in (*value_deps(node), *addresses))
    # Unless all are uniform, that is their common size, which may be 0.
    return next((size for size in sizes if size != 1), 1)


def _copy_region(node: Node, copy: Node, made: Nodes, addresses: Nodes) -> None:
    """Give a copy of a region copies of its blocks.

    The inner nodes refer to outer ones that `made` or the copy's operands replace.
    """
    region = node.attr
    known = dict(made)
    wide = _lanes(copy, addresses.values())
    # An operand may be both a value, which has changed, and an array that is indexed.
    # Of two values that were one node, `regions` means the last.
    for old, new in zip(value_deps(node), value_deps(copy), strict=True):
        known[id(old)] = new
    inner_args: tuple[Node, ...] = ()
    scope = Scope(copy.scope, region.label, wide)
    if isinstance(region, Loop):
        inner_args = tuple(_node(arg, scope, ()) for arg in region.args)
        for arg in inner_args:
            arg.size = wide if arg.size == 1 else arg.size
        known.update(
            (id(old), new) for old, new in zip(region.args, inner_args, strict=True)
        )
    blocks = []
    for k, block in enumerate(region.blocks):
        if k and not isinstance(region, Loop):
            scope = Scope(copy.scope, region.label, wide)
        nodes = []
        for inner in block.nodes:
            made_now = _copy(inner, scope, known, addresses, {})
            known[id(inner)] = made_now
            nodes.append(made_now)
        outputs = tuple(known.get(id(out), out) for out in block.outputs)
        blocks.append(Block(tuple(nodes), outputs, block.is_consumed))
    copy.attr = _with_blocks(region, inner_args, blocks)
    copy.size = wide if node.size == 1 else node.size
    recapture(copy)


def _with_blocks(region: Any, args: tuple[Node, ...], blocks: list[Block]) -> Any:
    new: Any = type(region)()
    if isinstance(region, Loop):
        new.args, (new.header, new.body) = args, blocks
    elif isinstance(region, Branch):
        new.true, new.false = blocks
    else:
        assert isinstance(region, Call)
        new.bodies = tuple(blocks)
    new.label = region.label
    new.operands = region.operands
    new.written = []
    return new
