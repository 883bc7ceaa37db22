"""The grammar of regions: the rules of loops, branches, calls and their blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lumijit.compiler.ir.nodes import ROOT, Node, Scope
from lumijit.compiler.ir.ops.structural import CALL, LOOP, SYMBOLIC, WRITTEN
from lumijit.compiler.ir.region_types import Block, Region
from lumijit.compiler.ir.roles import (
    source_deps,
    target_of,
    value_deps,
    written_deps,
)
from lumijit.runtime.dtypes import BOOL, UINT32, VOID
from tests.verifier.rules import check_type, require

Rule = Callable[[Node], None]


def check_region(node: Node, check_node: Rule) -> None:
    """Check a region and all inside; `check_node` checks one node."""
    region: Region = node.attr
    check_type(node, node, VOID, "region")
    require(isinstance(region, Region), "the attribute is a Region", node)
    require(region.op is node.op, "the attribute is of the node's kind", node)
    heads = len(region.args) if node.op is LOOP else 1
    groups = value_deps(node), source_deps(node), written_deps(node)
    is_ordered = heads <= len(groups[0]) and sum(groups, ()) == node.deps
    require(is_ordered, "operands are values, then sources, then targets", node)
    hash(region.key)
    for dep in (*source_deps(node), *written_deps(node)):
        is_array = dep.scope is ROOT or dep.op is WRITTEN
        require(is_array, "an indexed array has entries", node)
    for dep in value_deps(node):
        fits = dep.size in (1, node.size)
        require(fits, "what a region reads has its size, or size 1", node)
    if node.op is LOOP:
        _check_loop(node, region, check_node)
    else:
        _check_choice(node, region, check_node)


def _check_loop(node: Node, loop: Region, check_node: Rule) -> None:
    count = len(loop.args)
    require(len(loop.body.outputs) == count, "every argument has a next value", node)
    require(len(loop.header.outputs) == 1, "a loop has one condition", node)
    check_type(node, loop.header.outputs[0], BOOL, "condition")
    is_pure = not any(written_deps(inner) for inner in loop.header.nodes)
    require(is_pure, "a condition writes nothing", node)
    scope = _block_scope(node, (*loop.args, *loop.header.nodes, *loop.body.nodes))
    inits = node.deps[:count]
    for arg, init, out in zip(loop.args, inits, loop.body.outputs, strict=True):
        require(arg.op is SYMBOLIC, "arguments are symbolic", arg)
        check_type(node, init, arg.type, "initial value")
        check_type(node, out, arg.type, "next value")
    known = {id(arg) for arg in loop.args}
    chain = _Versions(node)
    _check_block(node, loop.header, scope, known, chain, check_node)
    _check_block(node, loop.body, scope, known, chain, check_node)


def _check_choice(node: Node, region: Region, check_node: Rule) -> None:
    """Check a branch or a call: one block is run, as the first operand says."""
    is_call = node.op is CALL
    check_type(node, node.deps[0], UINT32 if is_call else BOOL, "selector")
    has_blocks = len(region.blocks) == 2 or (is_call and region.blocks)
    require(has_blocks, "a branch has two sides, and a call a body", node)
    first = region.blocks[0].outputs
    for block in region.blocks:
        fits = len(block.outputs) == len(first)
        require(fits, "blocks have as many results", node)
        for a, b in zip(first, block.outputs, strict=True):
            check_type(node, b, a.type, "other block's result")
        scope = _block_scope(node, block.nodes)
        _check_block(node, block, scope, set(), _Versions(node), check_node)


def _block_scope(node: Node, inside: Iterable[Node]) -> Scope | None:
    """Return the one scope of a block's nodes: a child of the region's scope."""
    scopes = {inner.scope for inner in inside}
    require(len(scopes) < 2, "a block is made in one scope", node)
    scope = scopes.pop() if scopes else None
    is_child = scope is None or scope.parent is node.scope
    require(is_child, "a block's scope lies in its region's scope", node)
    return scope


class _Versions:
    """The latest version of every array that a region writes."""

    def __init__(self, region: Node) -> None:
        written = written_deps(region)
        self.latest: dict[int, Node] = {id(t): t for t in written}
        self.roots: dict[int, int] = {id(t): id(t) for t in written}

    def write(self, effect: Node, target: Node) -> None:
        """Check that an effect writes to the latest version."""
        root = self.roots.get(id(target))
        require(root is not None, "written arrays are targets of the region", effect)
        assert root is not None
        is_latest = self.latest[root] is target
        require(is_latest, "effects follow the order of versions", effect)

    def advance(self, version: Node, target: Node) -> None:
        """Note a new version of a target."""
        root = self.roots[id(target)]
        self.roots[id(version)] = root
        self.latest[root] = version


def _check_block(
    region: Node,
    block: Block,
    scope: Scope | None,
    known: set[int],
    versions: _Versions,
    check_node: Rule,
) -> None:
    """Check a block in order; `known` gains its nodes."""
    values = {id(dep) for dep in value_deps(region)}
    arrays = {id(dep) for dep in source_deps(region)}
    for node in block.nodes:
        require(id(node) not in known, "a block computes a node once", node)
        require(node.scope is scope, "a block holds nodes of its own scope", node)
        fits = node.size in (1, region.size) or node.op in (WRITTEN, SYMBOLIC)
        require(fits, "a block's nodes have the region's size, or size 1", node)
        for dep in value_deps(node):
            is_known = id(dep) in (known if dep.scope is scope else values)
            require(is_known, "operands are computed before, or captured", node)
        for source in source_deps(node):
            require(id(source) in arrays, "indexed arrays are captured", node)
        check_node(node)
        for target in written_deps(node):
            versions.write(node, target)
        if node.op is WRITTEN:
            versions.advance(node, target_of(node))
        known.add(id(node))
    for out in block.outputs:
        is_known = id(out) in (known if out.scope is scope else values)
        require(is_known, "a block's results are computed, or captured", out)
