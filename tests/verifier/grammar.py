"""The grammar of the trace: the rules that every node must follow.

Owns the rules of single nodes; those of regions are in `region_grammar`, `verify`
walks a trace and applies them. A rule is worded as what holds in a right trace. What an
access is made of, its roles tell; what attributes are stands in a table at the end.
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
from lumijit.compiler.ir.matrices import Matrix
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.logic import SELECT, SHL_BY, SHR_BY
from lumijit.compiler.ir.ops.mathematics import HALF_POWER
from lumijit.compiler.ir.ops.record import Op, Role
from lumijit.compiler.ir.ops.structural import (
    BITCAST,
    CAST,
    CONSUMED,
    COUNTER,
    EVALUATED,
    GATHER,
    GATHER_AT,
    LEAVES,
    LITERAL,
    LOCAL,
    OUTER,
    PRODUCT,
    PROJECT,
    REGIONS,
    SCATTER,
    SCATTER_ERROR,
    SCATTER_FETCH,
    SCATTER_INC,
    SYMBOLIC,
    TEXEL,
    WRITTEN,
)
from lumijit.compiler.ir.roles import is_effect, target_of, value_deps, written_deps
from lumijit.runtime.device import DeviceId
from lumijit.runtime.dtypes import BOOL, FLOAT32, FLOATS, UINT32, UINT64, VALUES, VOID
from tests.verifier.region_grammar import check_region
from tests.verifier.rules import check_size, check_type, open_scopes, require

_ROLE_TYPES = {Role.INDEX: UINT32, Role.MASK: BOOL, Role.ADDRESS: UINT64}
# What may be the entries of an array, where not every type may.
_ITEM_TYPES = {SCATTER_ERROR: FLOATS, SCATTER_INC: (UINT32,)}


def check_node(node: Node) -> None:
    """Check one node against its direct operands."""
    op = node.op
    require(0 <= node.size <= trace.MAX_SIZE, "the size is in range", node)
    scopes = open_scopes(node.scope)
    is_open = all(dep.scope in scopes for dep in node.deps)
    require(is_open, "operands come from the node's scope or around it", node)
    if op is not EVALUATED:
        require(node.buffer is None, "only evaluated nodes have memory", node)
    if op in REGIONS:
        check_region(node, check_node)
        return
    is_complete = op in LEAVES or op.arity in (-1, len(node.deps))
    require(is_complete, "the number of operands is right", node)
    rule, holds = _ATTRIBUTES.get(op, _SERIAL if op.is_ordered else _NO_ATTRIBUTE)
    require(holds(node), rule, node)
    if op in _CHECKS:
        _CHECKS[op](node)
    elif op in LEAVES:
        _check_source(node)
    elif op.roles:
        _check_access(node)
    else:
        _check_elementwise(node)
    for dep in local_deps(node) if op.is_ordered else ():
        is_ordered = not dep.op.is_ordered or dep.attr < node.attr
        require(is_ordered, "accesses are numbered in their order", node)


def _check_elementwise(node: Node) -> None:
    op = node.op
    require(op.lower is not None, "the operation is known", node)
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
    if node.op is SYMBOLIC:
        require(node.scope is not ROOT, "a symbolic node belongs to a region", node)
    elif node.op is not CONSUMED:
        require(node.scope is ROOT, "a source belongs to the program", node)


def _check_counter(node: Node) -> None:
    _check_source(node)
    check_type(node, node, UINT32, "counter")


def _check_evaluated(node: Node) -> None:
    _check_source(node)
    size_bytes = node.type.size_bytes * stored_lanes(node)
    fits = node.buffer is not None and node.buffer.size_bytes >= size_bytes
    require(fits, "the memory of an evaluated node holds it", node)


def _check_cast(node: Node) -> None:
    source = node.deps[0].type
    require({source, node.type} <= set(VALUES), "only values are converted", node)
    require(source is not node.type, "a conversion changes the type", node)
    if node.op is BITCAST:
        require(source.bits == node.type.bits, "a bitcast keeps the width", node)
    check_size(node, node.deps)


def _check_access(node: Node) -> None:
    """Check an access to memory; what it accesses comes first."""
    first, *roles = node.op.roles
    array, *others = node.deps
    item = result = array.type
    if first is Role.ADDRESS:
        check_type(node, array, UINT64, "address")
        item = result = node.type
    elif first is Role.BUFFER:
        require(isinstance(item, LocalType), "local memory has buffers", node)
        assert isinstance(item, LocalType)
        item = item.element
        result = array.type if Role.VALUE in roles else item
    else:
        is_version = first is Role.TARGET and array.op is WRITTEN
        has_entries = array.scope is ROOT or is_version
        require(has_entries, "an indexed array has entries", node)
    for role, dep in zip(roles, others, strict=True):
        check_type(node, dep, _ROLE_TYPES.get(role, item), role.value)
    is_accepted = item in _ITEM_TYPES.get(node.op, VALUES)
    require(is_accepted, "the operation takes this type", node)
    check_type(node, node, result if node.op.results else VOID, "result")
    check_size(node, value_deps(node))


def _check_texel(node: Node) -> None:
    handle, *position = node.deps
    check_type(node, handle, UINT64, "handle")
    for dep in position:
        check_type(node, dep, FLOAT32, "coordinate")
    check_type(node, node, FLOAT32, "result")
    check_size(node, node.deps)


def _check_written(node: Node) -> None:
    target = target_of(node)
    check_type(node, node, target.type, "version")
    require(node.size == target.size, "a version has its target's size", node)


def _check_local(node: Node) -> None:
    require(len(node.deps) < 2, "the number of operands is right", node)
    require(isinstance(node.type, LocalType), "local memory has buffers", node)
    assert isinstance(node.type, LocalType)
    for value in node.deps:
        check_type(node, value, node.type.element, "value")
    check_size(node, node.deps)


def _check_product(node: Node) -> None:
    array, *values = node.deps
    count, rest = node.attr.columns, node.attr.rows
    require(len(values) in (count, count + rest), "a product has its operands", node)
    _check_matrix(node, node.attr, array, values)


def _check_outer(node: Node) -> None:
    array, mask, *values = node.deps
    matrix = node.attr.matrix
    is_complete = len(values) == matrix.rows + matrix.columns
    require(is_complete, "a product has its operands", node)
    check_type(node, mask, BOOL, "mask")
    _check_matrix(node, matrix, array, values)


def _check_matrix(node: Node, matrix: Matrix, array: Node, values: list[Node]) -> None:
    has_entries = array.scope is ROOT or array.op is WRITTEN
    require(has_entries, "an indexed array has entries", node)
    require(matrix.fits(array.size), "a matrix lies in its array", node)
    require(array.type.is_float, "matrices are of floats", node)
    for value in values:
        check_type(node, value, array.type, "value")
    check_type(node, node, VOID, "result")
    check_size(node, value_deps(node))


def _check_project(node: Node) -> None:
    region = node.deps[0]
    if region.op is PRODUCT:
        output = region.deps[0]
    else:
        output = region.attr.blocks[-1].outputs[node.attr]
    check_type(node, node, output.type, "projection")
    require(node.size == region.size, "a projection has its region's size", node)


_CHECKS: dict[Op, Callable[[Node], None]] = {
    COUNTER: _check_counter,
    EVALUATED: _check_evaluated,
    CAST: _check_cast,
    BITCAST: _check_cast,
    WRITTEN: _check_written,
    TEXEL: _check_texel,
    LOCAL: _check_local,
    PRODUCT: _check_product,
    OUTER: _check_outer,
    PROJECT: _check_project,
}


def _is_literal(node: Node) -> bool:
    value, wrapped = node.attr, node.type.wrap(node.attr)
    is_exact = bool(value == wrapped or value != value)
    return is_exact and type(value) is type(wrapped)


def _keeps_arrays(node: Node) -> bool:
    if _is_placed(node):
        return True
    return all(source.op is EVALUATED and held for source, held, _ in node.attr)


def _is_placed(node: Node) -> bool:
    return node.attr is None or isinstance(node.attr, DeviceId)


def _is_below(limit: int, node: Node) -> bool:
    return isinstance(node.attr, int) and 0 <= node.attr < limit


def _is_reduction(node: Node) -> bool:
    attr = node.attr
    is_one = isinstance(attr, Reduction)
    return is_one and attr.op in OPERATIONS and attr.mode in MODES


def _is_version(node: Node) -> bool:
    effect = node.deps[0]
    if effect.op in REGIONS:
        return _is_below(len(written_deps(effect)), node)
    return is_effect(effect) and node.attr is None


def _is_result(node: Node) -> bool:
    region = node.deps[0]
    if region.op is PRODUCT:
        return _is_below(region.attr.rows, node)
    if region.op not in REGIONS:
        return False
    return _is_below(len(region.attr.blocks[-1].outputs), node)


def _is_shift(node: Node) -> bool:
    return _is_below(node.type.bits, node)


def _is_odd(node: Node) -> bool:
    return isinstance(node.attr, int) and node.attr % 2 == 1


def _is_none(node: Node) -> bool:
    return node.attr is None


def _is_number(node: Node) -> bool:
    return isinstance(node.attr, int)


def _is_offset(node: Node) -> bool:
    return _is_none(node) or _is_number(node)


def _is_texel(node: Node) -> bool:
    return node.attr in range(4, 16)


# What attributes are: the rule, and whether it holds.
_AttributeRule = tuple[str, Callable[[Node], bool]]
_NO_ATTRIBUTE: _AttributeRule = "other operations have no attribute", _is_none
_SERIAL: _AttributeRule = "its attribute is its serial", _is_number
_SHIFT: _AttributeRule = "a constant shift stays within the bits", _is_shift
_REDUCTION: _AttributeRule = "a write is a known reduction", _is_reduction
_OFFSET: _AttributeRule = "what is added to an index is a number", _is_offset
_ATTRIBUTES: dict[Op, _AttributeRule] = {
    LITERAL: ("a literal is a number of its type", _is_literal),
    EVALUATED: (
        "an array keeps those whose addresses it holds, or is to go to a device",
        _keeps_arrays,
    ),
    COUNTER: ("a counter has a device at most", _is_placed),
    SYMBOLIC: ("its attribute is its position", _is_number),
    HALF_POWER: ("twice the exponent is an odd number", _is_odd),
    SHL_BY: _SHIFT,
    SHR_BY: _SHIFT,
    GATHER: _OFFSET,
    GATHER_AT: _OFFSET,
    TEXEL: ("a texture has up to three dimensions and four channels", _is_texel),
    SCATTER: _REDUCTION,
    SCATTER_FETCH: _REDUCTION,
    PRODUCT: ("a product has a matrix", lambda node: isinstance(node.attr, Matrix)),
    OUTER: ("a product has a matrix", lambda node: node.attr.matrix is not None),
    WRITTEN: ("a version comes from an effect", _is_version),
    PROJECT: ("a projection is a result of a region", _is_result),
}
