"""Products of matrices that lie in arrays with vectors of values.

A product is one node with a result for each row, however large the matrix is. Arrays
that aren't in memory for it (numbers, single entries) are multiplied entry by entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.effects import Holder, Reduction
from lumijit.compiler.ir.matrices import Matrix
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.arithmetic import FMA
from lumijit.compiler.ir.ops.structural import (
    LITERAL,
    OUTER,
    PRODUCT,
    PROJECT,
    UNDEFINED,
)
from lumijit.compiler.ir.vertices import RESULT
from lumijit.compiler.record import bounds, memory
from lumijit.compiler.record.writes import append_effect, claim
from lumijit.runtime.dtypes import UINT32, VOID


def product(
    source: Node,
    matrix: Matrix,
    values: Sequence[Node],
    start: Sequence[Node] = (),
) -> list[Node]:
    """Multiply a matrix with a vector, and add it to another one (`start`).

    Args:
        source: the array in which the matrix lies.
        matrix: where.
        values: the entries of the vector, one for each column.
        start: what the products are added to, one for each row; or nothing.
    """
    source = bounds.table(source)
    bounds.check_indexable(source, "matvec")
    is_stored = source.op not in (LITERAL, UNDEFINED) and source.size > 1
    if not is_stored or trace.running_lanes:
        return _entry_by_entry(source, matrix, values, start)
    scope = trace.state.scope
    if scope is not ROOT:
        scope.reads[id(source)] = source
    deps = (source, *values, *start)
    size = trace.broadcast_size(PRODUCT, deps[1:])
    made = trace.make(PRODUCT, VOID, size, deps, matrix)
    if vertices.variables:
        vertices.track(made, PRODUCT, deps, matrix)
    return [_result(made, source, k) for k in range(matrix.rows)]


def _result(made: Node, source: Node, position: int) -> Node:
    found = trace.make(PROJECT, source.type, made.size, (made,), position)
    if made.vertex is not None:
        vertices.track(found, RESULT, (made,), position)
    return found


def _entry_by_entry(
    source: Node, matrix: Matrix, values: Sequence[Node], start: Sequence[Node]
) -> list[Node]:
    found = list(start) or [trace.literal(source.type, 0.0)] * matrix.rows
    for i in range(matrix.rows):
        for j, value in enumerate(values):
            place = trace.literal(UINT32, matrix.place(i, j))
            entry = memory.entries(source, place, trace.make_true(1))
            found[i] = trace.emit3(FMA, entry, value, found[i])
    return found


def add_outer(
    holder: Holder, matrix: Matrix, column: Sequence[Node], row: Sequence[Node]
) -> None:
    """Add the product of a column and a row to a matrix, once for each element."""
    factors = (*column, *row)
    size = trace.broadcast_size(OUTER, factors)
    if size == 0:
        return
    mask = trace.under_mask(trace.make_true(1))
    claim(holder)
    deps = (holder._node, mask, *factors)
    size = max(size, mask.size)
    effect = trace.make(OUTER, VOID, size, deps, Reduction("add", "auto", 0, matrix))
    append_effect(holder, effect)
