"""Derivatives of products of matrices in arrays with vectors of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lumijit.compiler.derive.adjoints import Bundle
from lumijit.compiler.derive.rules import RULES, Rule
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder
from lumijit.compiler.ir.matrices import Matrix
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops.structural import OUTER, PRODUCT
from lumijit.compiler.record.matrices import add_outer
from lumijit.compiler.record.matrices import product as product
from lumijit.runtime.dtypes import FLOAT16, FLOAT32


def _pull(step: Step, into: dict[int, Any], by: Bundle) -> None:
    matrix: Matrix = step.attr
    source, *values = step.deps
    zero = trace.literal(source.type, 0.0)
    parts = {k: part.complete() for k, part in by.parts.items()}
    grads = [parts.get(i, zero) for i in range(matrix.rows)]
    count = matrix.columns
    if any(1 <= k <= count for k in into):
        found = [*product(source, matrix.turned, grads), *grads]
    else:
        found = [zero] * count + grads
    for k, adjoint in into.items():
        if k:
            adjoint.add(found[k - 1])
    if 0 in into:
        _pull_matrix(into[0], source, matrix, grads, values[:count])


def _pull_matrix(
    into: Any, source: Node, matrix: Matrix, grads: list[Node], values: list[Node]
) -> None:
    if source.type is FLOAT16 and trace.state.scope is ROOT:
        # Halves would lose what many elements add.
        total = Holder(trace.literal(FLOAT32, 0.0, source.size))
        wide = [[trace.cast_to(n, FLOAT32) for n in part] for part in (grads, values)]
        add_outer(total, matrix, *wide)
        into.add(trace.cast_to(total._node, FLOAT16))
        return
    holder = into.opened()
    if holder is not None:
        add_outer(holder, matrix, grads, values)
        into.close(holder)


def _push(step: Step, tangents: Mapping[int, Node]) -> dict[int, Node]:
    matrix: Matrix = step.attr
    source, *values = step.deps
    zero = trace.literal(source.type, 0.0)
    count = matrix.columns
    changes = [tangents.get(k + 1, zero) for k in range(count + matrix.rows)]
    found = changes[count:]
    if any(1 <= k <= count for k in tangents):
        found = product(source, matrix, changes[:count], found)
    if 0 in tangents:
        change = trace.resized(tangents[0], source.size)
        found = product(change, matrix, values[:count], found)
    return dict(enumerate(found))


# Sums of products: the derivatives by factors are products with the derivative.


def _pull_outer(step: Step, into: dict[int, Any], by: Node) -> None:
    matrix: Matrix = step.attr.matrix
    column, row = _factors(step.deps, matrix)
    by = trace.resized(by, step.size)
    found: dict[int, Node] = {}
    if any(2 <= k < 2 + matrix.rows for k in into):
        found.update(enumerate(product(by, matrix, row), 2))
    if any(k >= 2 + matrix.rows for k in into):
        found.update(enumerate(product(by, matrix.turned, column), 2 + matrix.rows))
    for k, adjoint in into.items():
        adjoint.add(found[k] if k else by)


def _push_outer(step: Step, tangents: dict[int, Node]) -> Node:
    matrix: Matrix = step.attr.matrix
    zero = trace.literal(step.type, 0.0)
    total = Holder(trace.resized(tangents.get(0, zero), step.size))
    changes = [tangents.get(k, zero) for k in range(len(step.deps))]
    old, new = _factors(step.deps, matrix), _factors(changes, matrix)
    add_outer(total, matrix, new[0], old[1])
    add_outer(total, matrix, old[0], new[1])
    return total._node


def _factors(deps: Sequence[Node], matrix: Matrix) -> tuple[list[Node], list[Node]]:
    end = 2 + matrix.rows
    return list(deps[2:end]), list(deps[end:])


RULES[PRODUCT] = Rule(_pull, _push)
RULES[OUTER] = Rule(_pull_outer, _push_outer)
