"""The grammar of the trace: the rules that every node must follow.

Owns the rules of single nodes; those of regions are in `grammar_regions`, `verify`
walks a trace and applies them. A rule is worded as what holds in a right trace.
"""

from __future__ import annotations

from collections.abc import Callable

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import MODES, OPERATIONS, Reduction
from lumijit.compiler.ir.local_types import (
    LocalType,
    is_local,
    local_deps,
    stored_lanes,
)
from lumijit.compiler.ir.ops.logic import SELECT, SHL_BY, SHR_BY
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    CAST,
    CONSUMED,
    COUNTER,
    EVALUATED,
    GATHER,
    GATHER_AT,
    LITERAL,
    LOCAL,
    LOCAL_READ,
    LOCAL_WRITE,
    PROJECT,
    REGIONS,
    SCATTER,
    SCATTER_ERROR,
    SCATTER_INC,
    SYMBOLIC,
    UNDEFINED,
    WRITTEN,
)
from lumijit.compiler.ir.region_grammar import check_region
from lumijit.compiler.ir.roles import is_effect, target_of, written_deps
from lumijit.compiler.ir.rules import check_size, check_type, open_scopes, require
from lumijit.compiler.ir.trace import ROOT, Node
from lumijit.runtime.dtypes import BOOL, FLOATS, UINT32, UINT64, VALUES, VOID


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
    if op in REGIONS:
        check_region(node, check_node)
    elif check is not None:
        check(node)
    else:
        _check_elementwise(node)


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
        check_type(node, node.deps[0], BOOL, "mask")
    operand = operands[-1].type
    require(operand in op.accepts, "the operation takes this type", node)
    for dep in operands:
        check_type(node, dep, operand, "operand")
    check_type(node, node, op.result_type(operand), "result")
    check_size(node, node.deps)


def _check_source(node: Node) -> None:
    require(not node.deps, "a source has no operands", node)
    is_stored = node.op in (EVALUATED, SYMBOLIC) and is_local(node)
    require(node.type in VALUES or is_stored, "a source holds values", node)
    in_root = node.op in (SYMBOLIC, CONSUMED) or node.scope is ROOT
    require(in_root, "a source belongs to the program", node)


def _check_literal(node: Node) -> None:
    _check_source(node)
    value, wrapped = node.attr, node.type.wrap(node.attr)
    is_exact = value == wrapped or value != value
    rule = "a literal is a number of its type"
    require(is_exact and type(value) is type(wrapped), rule, node, repr(value))


def _check_counter(node: Node) -> None:
    _check_source(node)
    check_type(node, node, UINT32, "counter")
    require(node.attr is None, "a counter has no attribute", node)


def _check_evaluated(node: Node) -> None:
    _check_source(node)
    kept = node.attr or ()
    is_kept = all(isinstance(n, Node) and n.op is EVALUATED for n in kept)
    require(is_kept, "its attribute are the arrays whose addresses it holds", node)
    buffer = node.buffer
    size_bytes = node.type.size_bytes * stored_lanes(node)
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
    check_size(node, node.deps)


def _check_target(node: Node) -> None:
    target = node.deps[0]
    can_be_written = target.scope is ROOT or target.op is WRITTEN
    require(can_be_written, "an indexed array has entries", node)


def _check_gather(node: Node) -> None:
    require(len(node.deps) == 3, "the number of operands is right", node)
    source, index, mask = node.deps
    require(source.scope is ROOT, "an indexed array has entries", node)
    check_type(node, node, source.type, "result")
    check_type(node, index, UINT32, "index")
    check_type(node, mask, BOOL, "mask")
    check_size(node, (index, mask))


def _check_gather_at(node: Node) -> None:
    require(len(node.deps) == 3, "the number of operands is right", node)
    address, index, mask = node.deps
    check_type(node, address, UINT64, "address")
    check_type(node, index, UINT32, "index")
    check_type(node, mask, BOOL, "mask")
    check_size(node, node.deps)


def _check_scatter(node: Node) -> None:
    require(len(node.deps) == 4, "the number of operands is right", node)
    target, value, index, mask = node.deps
    _check_target(node)
    check_type(node, value, target.type, "value")
    check_type(node, index, UINT32, "index")
    check_type(node, mask, BOOL, "mask")
    check_type(node, node, VOID, "result")
    check_size(node, (value, index, mask))
    reduction = node.attr
    require(isinstance(reduction, Reduction), "the attribute is a Reduction", node)
    is_known = reduction.op in OPERATIONS and reduction.mode in MODES
    require(is_known, "the reduction is known", node, repr(reduction))


def _check_scatter_error(node: Node) -> None:
    require(len(node.deps) == 4, "the number of operands is right", node)
    target, value, index, mask = node.deps
    _check_target(node)
    require(target.type in FLOATS, "the target holds floats", node)
    check_type(node, value, target.type, "value")
    check_type(node, index, UINT32, "index")
    check_type(node, mask, BOOL, "mask")
    check_type(node, node, target.type, "result")
    check_size(node, (value, index, mask))
    require(node.attr is None, "such a write has no attribute", node)


def _check_scatter_inc(node: Node) -> None:
    require(len(node.deps) == 3, "the number of operands is right", node)
    target, index, mask = node.deps
    _check_target(node)
    check_type(node, target, UINT32, "target")
    check_type(node, index, UINT32, "index")
    check_type(node, mask, BOOL, "mask")
    check_type(node, node, UINT32, "result")
    check_size(node, (index, mask))
    require(node.attr is None, "such a write has no attribute", node)


def _check_written(node: Node) -> None:
    require(len(node.deps) == 1, "the number of operands is right", node)
    effect = node.deps[0]
    require(is_effect(effect), "a version comes from an effect", node)
    if effect.op in REGIONS:
        count = len(written_deps(effect))
        require(isinstance(node.attr, int), "its attribute is its position", node)
        require(0 <= node.attr < count, "the region writes that array", node)
    else:
        require(node.attr is None, "a single effect's version has no attribute", node)
    target = target_of(node)
    check_type(node, node, target.type, "version")
    require(node.size == target.size, "a version has its target's size", node)


def _check_local(node: Node) -> None:
    if node.op is LOCAL_READ:
        buffer_type = node.deps[0].type if node.deps else VOID
        count = 3
    else:
        buffer_type = node.type
        count = 4 if node.op is LOCAL_WRITE else min(len(node.deps), 1)
    require(len(node.deps) == count, "the number of operands is right", node)
    require(isinstance(buffer_type, LocalType), "local memory has buffers", node)
    assert isinstance(buffer_type, LocalType)
    if node.op is LOCAL:
        for value in node.deps:
            check_type(node, value, buffer_type.element, "value")
    else:
        check_type(node, node.deps[0], buffer_type, "buffer")
        check_type(node, node.deps[1], UINT32, "index")
        check_type(node, node.deps[-1], BOOL, "mask")
    if node.op is LOCAL_READ:
        check_type(node, node, buffer_type.element, "result")
    if node.op is LOCAL_WRITE:
        check_type(node, node.deps[2], buffer_type.element, "value")
    require(isinstance(node.attr, int), "its attribute is its serial", node)
    for dep in local_deps(node):
        is_ordered = not dep.op.is_ordered or dep.attr < node.attr
        require(is_ordered, "accesses are numbered in their order", node)
    check_size(node, node.deps)


def _check_project(node: Node) -> None:
    require(len(node.deps) == 1, "the number of operands is right", node)
    region = node.deps[0]
    require(region.op in REGIONS, "a projection depends on a region", node)
    outputs = region.attr.blocks[-1].outputs
    is_position = isinstance(node.attr, int) and 0 <= node.attr < len(outputs)
    require(is_position, "the region has that result", node, repr(node.attr))
    check_type(node, node, outputs[node.attr].type, "projection")
    require(node.size == region.size, "a projection has its region's size", node)


_CHECKS: dict[Op, Callable[[Node], None]] = {
    LITERAL: _check_literal,
    COUNTER: _check_counter,
    UNDEFINED: _check_source,
    CONSUMED: _check_source,
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
    LOCAL: _check_local,
    LOCAL_READ: _check_local,
    LOCAL_WRITE: _check_local,
    PROJECT: _check_project,
}
