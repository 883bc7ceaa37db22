"""Operations on arrays whose classes are known: node by node, from a memo.

Most operands are flat arrays of one class, vectors of these, and Python numbers. What
they give is looked up by class; no array is made but the result's. All else is for
`promotion`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from lumijit.base import Array
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.trace import emit1, emit2, emit3
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.runtime.dtypes import BOOL

# For each operation, the class of the result for each flat class that it takes.
RESULTS: defaultdict[Op, dict[type[Any], type[Any]]] = defaultdict(dict)
# And what makes nodes of Python numbers beside it, by the types of these.
LITERALS: dict[type[Any], dict[type[Any], Callable[[Any], Node]]] = {}
# And for vectors of these: see `_vector_kind`. Other classes have None.
VECTORS: defaultdict[Op, dict[type[Any], Any]] = defaultdict(dict)
_UNKNOWN = object()


def apply_flat(op: Op, operands: tuple[Any, ...]) -> Array | None:
    """Apply an operation to flat arrays of one class and Python numbers, if so.

    Or to vectors of such a class, and these.
    """
    classes = RESULTS[op]
    for operand in operands:
        cls = type(operand)
        if cls in classes:
            break
    else:
        return _apply_vectors(op, operands)
    literals = LITERALS[cls]
    nodes = []
    for operand in operands:
        kind = type(operand)
        if kind is cls:
            holder = operand
            nodes.append(holder._node)
        else:
            literal = literals.get(kind)
            if literal is None:
                return _apply_vectors(op, operands)
            nodes.append(literal(operand))
    # Not one call with a star, which costs 0.15 µs more.
    if len(nodes) == 2:
        node = emit2(op, nodes[0], nodes[1])
    elif len(nodes) == 3:
        node = emit3(op, nodes[0], nodes[1], nodes[2])
    else:
        node = emit1(op, nodes[0])
    result: Array = wrap(classes[cls], node)
    return result


def _apply_vectors(op: Op, operands: tuple[Any, ...]) -> Array | None:
    kinds = VECTORS[op]
    for operand in operands:
        cls = type(operand)
        kind = kinds.get(cls, _UNKNOWN)
        if kind is _UNKNOWN:
            kind = kinds[cls] = _vector_kind(op, cls)
        if kind is not None:
            break
    else:
        return None
    result, item, item_result, size = kind
    columns = []
    for operand in operands:
        kind = type(operand)
        if kind is cls:
            columns.append([entry._node for entry in operand._items])
        elif kind is item:
            columns.append([operand._node] * size)
        else:
            literal = LITERALS[item].get(kind)
            if literal is None:
                return None
            columns.append([literal(operand)] * size)
    if len(columns) == 1:
        nodes = [emit1(op, a) for a in columns[0]]
    elif len(columns) == 2:
        others = columns[1]
        nodes = [emit2(op, a, others[k]) for k, a in enumerate(columns[0])]
    else:
        nodes = [emit3(op, a, b, c) for a, b, c in zip(*columns, strict=True)]
    found: Array = wrap_nested(result, [wrap(item_result, n) for n in nodes])
    return found


def _vector_kind(op: Op, cls: Any) -> Any:
    """Return what a vector class gives and consists of; None if it is another kind.

    That is the classes of the result, of the components and of the result's, and how
    many there are.
    """
    if not issubclass(cls, NestedArray) or cls._spec.kind.is_special:
        return None
    size = cls._spec.outer[0]
    item_result = RESULTS[op].get(cls._item)
    if size < 0 or item_result is None:
        return None
    result = cls._mask_cls if op.result is BOOL else cls
    return result, cls._item, item_result, size
