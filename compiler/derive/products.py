"""Derivatives of products of matrices."""

from __future__ import annotations

from lumijit.compiler.derive.adjoints import Adjoint
from lumijit.compiler.derive.rules import RULES, Rule
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.ir import trace, vertices
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import ADD
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.ir.vertices import Dependence
from lumijit.compiler.record import products
from lumijit.compiler.record.products import Sizes

MATMUL = Dependence("matmul")


def matmul(a: Node, b: Node, sizes: Sizes) -> Node:
    """Multiply matrices."""
    result = products.matmul(a, b, sizes)
    is_tracked = a.vertex is not None or b.vertex is not None
    if is_tracked and result.op is not LITERAL:
        vertices.track(result, MATMUL, (a, b), sizes)
    return result


def _pull(step: Step, into: dict[int, Adjoint], by: Node) -> None:
    a, b = step.deps
    s: Sizes = step.attr
    by = trace.resized(by, step.size)
    turned, other = s.is_first_turned, s.is_second_turned
    if 0 in into:
        if turned:
            found = matmul(
                b, by, Sizes(s.batch, s.inner, s.columns, s.rows, other, True)
            )
        else:
            sizes = Sizes(s.batch, s.rows, s.columns, s.inner, False, not other)
            found = matmul(by, b, sizes)
        into[0].add(found)
    if 1 in into:
        if other:
            found = matmul(
                by, a, Sizes(s.batch, s.columns, s.rows, s.inner, True, turned)
            )
        else:
            sizes = Sizes(s.batch, s.inner, s.rows, s.columns, not turned, False)
            found = matmul(a, by, sizes)
        into[1].add(found)


def _push(step: Step, tangents: dict[int, Node]) -> Node:
    total: Node | None = None
    for place, tangent in tangents.items():
        factors = list(step.deps)
        factors[place] = trace.resized(tangent, factors[place].size)
        part = matmul(factors[0], factors[1], step.attr)
        total = part if total is None else trace.emit2(ADD, total, part)
    assert total is not None
    return total


RULES[MATMUL] = Rule(_pull, _push)
