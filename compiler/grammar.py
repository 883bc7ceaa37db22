"""The grammar of the trace: the rules that every node must follow.

Owns the rules of single nodes and of regions; `verify` walks a trace and applies
them. A rule is worded as what holds in a right trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lumijit.compiler import trace
from lumijit.compiler.blocks import Block, Branch, Call, Loop, Region, value_deps
from lumijit.compiler.memory import CONSUMED, MODES, OPERATIONS, Reduction
from lumijit.compiler.ops.logic import SELECT, SHL_BY, SHR_BY
from lumijit.compiler.ops.record import Op
from lumijit.compiler.ops.structural import (
    BITCAST,
    BRANCH,
    CALL,
    CAST,
    COUNTER,
    EFFECTS,
    EVALUATED,
    GATHER,
    GATHER_AT,
    LITERAL,
    LOOP,
    PROJECT,
    REGIONS,
    SCATTER,
    SCATTER_ERROR,
    SCATTER_INC,
    SYMBOLIC,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.trace import ROOT, Node, Scope
from lumijit.runtime.dtypes import BOOL, FLOATS, UINT32, UINT64, VALUES, VOID


class VerificationError(AssertionError):
    """A node breaks a rule of the trace."""

    def __init__(self, rule: str, node: Node, detail: str = "") -> None:
        found = f" ({detail})" if detail else ""
        super().__init__(f"{rule}{found} at {describe(node)}")
        self.rule = rule
        self.node = node


def describe(node: Node) -> str:
    """Describe a node and its operands in one line."""
    deps = ", ".join(repr(dep) for dep in node.deps[:8])
    more = ", …" if len(node.deps) > 8 else ""
    return f"{node!r}({deps}{more})"


def require(condition: object, rule: str, node: Node, detail: str = "") -> None:
    """Raise unless a rule holds for a node."""
    if not condition:
        raise VerificationError(rule, node, detail)


def open_scopes(scope: Scope | None) -> set[Scope]:
    """Return a scope and those around it."""
    found = set()
    while scope is not None:
        found.add(scope)
        scope = scope.parent
    return found


def check_node(node: Node) -> None:
    """Check one node against its direct operands."""
    op = node.op
    require(0 <= node.size <= trace.MAX_SIZE, "the size is in range", node)
    for dep in node.deps:
        outer = dep.scope in open_scopes(node.scope)
        require(outer, "operands come from the node's scope or around it", node)
    if op is not EVALUATED:
        require(node.buffer is None, "only evaluated nodes have memory", node)
    check = _CHECKS.get(op)
    if check is not None:
        check(node)
    else:
        _check_elementwise(node)


def _check_size(node: Node, operands: Iterable[Node]) -> None:
    sizes = {dep.size for dep in operands} - {1}
    require(len(sizes) < 2, "operands have one size, or size 1", node)
    size = sizes.pop() if sizes else 1
    detail = f"expected {size}, got {node.size}"
    require(node.size == size, "the size is that of the operands", node, detail)


def _check_type(node: Node, operand: Node, expected: Any, role: str) -> None:
    detail = f"expected {expected}, got {operand.type}"
    require(operand.type is expected, f"the {role} has the right type", node, detail)


def _check_elementwise(node: Node) -> None:
    op = node.op
    require(op.lower is not None, "the operation is known", node)
    require(len(node.deps) == op.arity, "the number of operands is right", node)
    if op in (SHL_BY, SHR_BY):
        is_amount = isinstance(node.attr, int) and 0 <= node.attr < node.type.bits
        require(is_amount, "a constant shift stays within the bits", node)
    else:
        require(node.attr is None, "other operations have no attribute", node)
    operands = node.deps[1:] if op is SELECT else node.deps
    if op is SELECT:
        _check_type(node, node.deps[0], BOOL, "mask")
    operand = operands[-1].type
    require(operand in op.accepts, "the operation takes this type", node)
    for dep in operands:
        _check_type(node, dep, operand, "operand")
    _check_type(node, node, op.result_type(operand), "result")
    _check_size(node, node.deps)


def _check_source(node: Node) -> None:
    require(not node.deps, "a source has no operands", node)
    require(node.type in VALUES, "a source holds values", node)
    in_root = node.op is SYMBOLIC or node.scope is ROOT
    require(in_root, "a source belongs to the program", node)


def _check_literal(node: Node) -> None:
    _check_source(node)
    value, wrapped = node.attr, node.type.wrap(node.attr)
    is_exact = value == wrapped or value != value
    rule = "a literal is a number of its type"
    require(is_exact and type(value) is type(wrapped), rule, node, repr(value))


def _check_counter(node: Node) -> None:
    _check_source(node)
    _check_type(node, node, UINT32, "counter")
    require(node.attr is None, "a counter has no attribute", node)


def _check_evaluated(node: Node) -> None:
    _check_source(node)
    kept = node.attr or ()
    is_kept = all(isinstance(n, Node) and n.op is EVALUATED for n in kept)
    require(is_kept, "its attribute are the arrays whose addresses it holds", node)
    buffer = node.buffer
    size_bytes = node.type.size_bytes * node.size
    fits = buffer is not None and buffer.size_bytes >= size_bytes
    require(fits, "the memory of an evaluated node holds it", node)


def _check_symbolic(node: Node) -> None:
    _check_source(node)
    require(node.scope is not ROOT, "a symbolic node belongs to a region", node)
    require(isinstance(node.attr, int), "its attribute is its position", node)


def _check_cast(node: Node) -> None:
    require(len(node.deps) == 1, "the number of operands is right", node)
    source = node.deps[0].type
    require({source, node.type} <= set(VALUES), "only values are converted", node)
    require(source is not node.type, "a conversion changes the type", node)
    if node.op is BITCAST:
        require(source.bits == node.type.bits, "a bitcast keeps the width", node)
    require(node.attr is None, "a conversion has no attribute", node)
    _check_size(node, node.deps)


def _check_target(node: Node) -> None:
    target = node.deps[0]
    can_be_written = target.scope is ROOT or target.op is WRITTEN
    require(can_be_written, "an indexed array has entries", node)


def _check_gather(node: Node) -> None:
    require(len(node.deps) == 3, "the number of operands is right", node)
    source, index, mask = node.deps
    require(source.scope is ROOT, "an indexed array has entries", node)
    _check_type(node, node, source.type, "result")
    _check_type(node, index, UINT32, "index")
    _check_type(node, mask, BOOL, "mask")
    _check_size(node, (index, mask))


def _check_gather_at(node: Node) -> None:
    require(len(node.deps) == 3, "the number of operands is right", node)
    address, index, mask = node.deps
    _check_type(node, address, UINT64, "address")
    _check_type(node, index, UINT32, "index")
    _check_type(node, mask, BOOL, "mask")
    _check_size(node, node.deps)


def _check_scatter(node: Node) -> None:
    require(len(node.deps) == 4, "the number of operands is right", node)
    target, value, index, mask = node.deps
    _check_target(node)
    _check_type(node, value, target.type, "value")
    _check_type(node, index, UINT32, "index")
    _check_type(node, mask, BOOL, "mask")
    _check_type(node, node, VOID, "result")
    _check_size(node, (value, index, mask))
    reduction = node.attr
    require(isinstance(reduction, Reduction), "the attribute is a Reduction", node)
    is_known = reduction.op in OPERATIONS and reduction.mode in MODES
    require(is_known, "the reduction is known", node, repr(reduction))


def _check_scatter_error(node: Node) -> None:
    require(len(node.deps) == 4, "the number of operands is right", node)
    target, value, index, mask = node.deps
    _check_target(node)
    require(target.type in FLOATS, "the target holds floats", node)
    _check_type(node, value, target.type, "value")
    _check_type(node, index, UINT32, "index")
    _check_type(node, mask, BOOL, "mask")
    _check_type(node, node, target.type, "result")
    _check_size(node, (value, index, mask))
    require(node.attr in (None, CONSUMED), "the attribute is a state", node)


def _check_scatter_inc(node: Node) -> None:
    require(len(node.deps) == 3, "the number of operands is right", node)
    target, index, mask = node.deps
    _check_target(node)
    _check_type(node, target, UINT32, "target")
    _check_type(node, index, UINT32, "index")
    _check_type(node, mask, BOOL, "mask")
    _check_type(node, node, UINT32, "result")
    _check_size(node, (index, mask))
    require(node.attr in (None, CONSUMED), "the attribute is a state", node)


def _check_written(node: Node) -> None:
    require(len(node.deps) == 1, "the number of operands is right", node)
    effect = node.deps[0]
    if effect.op in REGIONS:
        written = effect.deps[effect.attr.targets :]
        require(isinstance(node.attr, int), "its attribute is its position", node)
        require(0 <= node.attr < len(written), "the region writes that array", node)
        target = written[node.attr]
    else:
        require(effect.op in EFFECTS, "a version comes from an effect", node)
        require(node.attr is None, "a single effect's version has no attribute", node)
        target = effect.deps[0]
    _check_type(node, node, target.type, "version")
    require(node.size == target.size, "a version has its target's size", node)


def _check_project(node: Node) -> None:
    require(len(node.deps) == 1, "the number of operands is right", node)
    region = node.deps[0]
    require(region.op in REGIONS, "a projection depends on a region", node)
    outputs = region.attr.blocks[-1].outputs
    is_position = isinstance(node.attr, int) and 0 <= node.attr < len(outputs)
    require(is_position, "the region has that result", node, repr(node.attr))
    _check_type(node, node, outputs[node.attr].type, "projection")
    require(node.size == region.size, "a projection has its region's size", node)


def _check_region(node: Node) -> None:
    region: Region = node.attr
    _check_type(node, node, VOID, "region")
    heads = 1
    if node.op is LOOP:
        require(isinstance(region, Loop), "the attribute is a Loop", node)
        heads = len(region.args) if isinstance(region, Loop) else 0
    elif node.op is CALL:
        require(isinstance(region, Call), "the attribute is a Call", node)
    else:
        require(isinstance(region, Branch), "the attribute is a Branch", node)
    ordered = heads <= region.pointers <= region.targets <= len(node.deps)
    require(ordered, "operands are values, then sources, then targets", node)
    hash(region.key)
    for entry in region.written:
        version = entry()
        if version is not None and version.op is WRITTEN:
            require(version.deps[0] is node, "a region knows its versions", node)
    for dep in node.deps[region.pointers :]:
        is_array = dep.scope is ROOT or dep.op is WRITTEN
        require(is_array, "an indexed array has entries", node)
    for dep in value_deps(node):
        fits = dep.size in (1, node.size)
        require(fits, "what a region reads has its size, or size 1", node)
    if isinstance(region, Loop):
        _check_loop(node, region)
    elif isinstance(region, Call):
        _check_call(node, region)
    else:
        _check_branch(node, region)


def _check_loop(node: Node, loop: Loop) -> None:
    count = len(loop.args)
    require(len(loop.body.outputs) == count, "every argument has a next value", node)
    require(len(loop.header.outputs) == 1, "a loop has one condition", node)
    _check_type(node, loop.header.outputs[0], BOOL, "condition")
    is_pure = not any(targets(inner) for inner in loop.header.nodes)
    require(is_pure, "a condition writes nothing", node)
    scope = _block_scope(node, (*loop.args, *loop.header.nodes, *loop.body.nodes))
    inits = node.deps[:count]
    for arg, init, out in zip(loop.args, inits, loop.body.outputs, strict=True):
        require(arg.op is SYMBOLIC, "arguments are symbolic", arg)
        _check_type(node, init, arg.type, "initial value")
        _check_type(node, out, arg.type, "next value")
    known = {id(arg) for arg in loop.args}
    chain = _Versions(node)
    _check_block(node, loop.header, scope, known, chain)
    _check_block(node, loop.body, scope, known, chain)


def _check_branch(node: Node, branch: Branch) -> None:
    _check_type(node, node.deps[0], BOOL, "condition")
    yes, no = branch.true.outputs, branch.false.outputs
    require(len(yes) == len(no), "both sides have as many results", node)
    for a, b in zip(yes, no, strict=True):
        _check_type(node, b, a.type, "other side's result")
    for block in branch.blocks:
        scope = _block_scope(node, block.nodes)
        _check_block(node, block, scope, set(), _Versions(node))


def _check_call(node: Node, call: Call) -> None:
    _check_type(node, node.deps[0], UINT32, "selector")
    require(bool(call.bodies), "a call has a body", node)
    first = call.bodies[0].outputs
    for body in call.bodies:
        require(len(body.outputs) == len(first), "bodies have as many results", node)
        for a, b in zip(first, body.outputs, strict=True):
            _check_type(node, b, a.type, "other body's result")
        scope = _block_scope(node, body.nodes)
        _check_block(node, body, scope, set(), _Versions(node))


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
        written = region.deps[region.attr.targets :]
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
) -> None:
    """Check a block in order; `known` gains its nodes."""
    values = {id(dep) for dep in value_deps(region)}
    arrays = {id(dep) for dep in sources(region)}
    for node in block.nodes:
        require(id(node) not in known, "a block computes a node once", node)
        require(node.scope is scope, "a block holds nodes of its own scope", node)
        fits = node.size in (1, region.size) or node.op in (WRITTEN, SYMBOLIC)
        require(fits, "a block's nodes have the region's size, or size 1", node)
        for dep in value_deps(node):
            is_known = id(dep) in (known if dep.scope is scope else values)
            require(is_known, "operands are computed before, or captured", node)
        for source in sources(node):
            require(id(source) in arrays, "indexed arrays are captured", node)
        check_node(node)
        for target in targets(node):
            versions.write(node, target)
        if node.op is WRITTEN:
            effect = node.deps[0]
            versions.advance(node, targets(effect)[node.attr or 0])
        known.add(id(node))
    for out in block.outputs:
        is_known = id(out) in (known if out.scope is scope else values)
        require(is_known, "a block's results are computed, or captured", out)


def sources(node: Node) -> tuple[Node, ...]:
    """Return the arrays that a node reads by index."""
    if node.op is GATHER:
        return node.deps[:1]
    if node.op in REGIONS:
        return node.deps[node.attr.pointers : node.attr.targets]
    return ()


def targets(node: Node) -> tuple[Node, ...]:
    """Return the arrays that a node writes."""
    if node.op in EFFECTS:
        return node.deps[:1]
    return node.deps[node.attr.targets :] if node.op in REGIONS else ()


_CHECKS: dict[Op, Callable[[Node], None]] = {
    LITERAL: _check_literal,
    COUNTER: _check_counter,
    UNDEFINED: _check_source,
    EVALUATED: _check_evaluated,
    SYMBOLIC: _check_symbolic,
    CAST: _check_cast,
    BITCAST: _check_cast,
    GATHER: _check_gather,
    GATHER_AT: _check_gather_at,
    SCATTER: _check_scatter,
    SCATTER_ERROR: _check_scatter_error,
    SCATTER_INC: _check_scatter_inc,
    WRITTEN: _check_written,
    LOOP: _check_region,
    BRANCH: _check_region,
    CALL: _check_region,
    PROJECT: _check_project,
}
