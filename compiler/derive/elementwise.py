"""Derivatives of elementwise operations, from the partial ones on their records."""

from __future__ import annotations

import math
from typing import Any

from lumijit.compiler.derive.adjoints import Adjoint, mark_partial, under_both
from lumijit.compiler.derive.steps import Step
from lumijit.compiler.derive.values import Value, literal
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.arithmetic import ABS, ADD, MUL
from lumijit.runtime.dtypes import BOOL


def pull(
    step: Step, into: dict[int, Any], by: Adjoint, partials: tuple[Any, ...]
) -> None:
    """Pass the derivative by a result on to the operands."""
    value = by.value
    if value is None:
        # What depends on the result passed nothing on to it: a constant partial of 0,
        # or a region of which only a condition reads it.
        return
    if value.size != step.size:
        by.complete()
        value = by.value
        assert value is not None
    mask = by.where()
    # What is 0 counts in derivatives of derivatives only: each factor is looked at.
    is_guarded = by.is_partial and value.vertex is not None
    if is_guarded:
        mark_partial(into.values())
    known = _known(step)
    for k, adjoint in into.items():
        partial = partials[k](*known)
        if type(partial) is not Value:
            if partial:
                adjoint.add(_times(value, partial), mask)
        elif partial.node.type is BOOL:
            adjoint.add(value, under_both(partial.node, mask))
        else:
            adjoint.add(_scaled(value, partial, step, is_guarded), mask)


def _known(step: Step) -> list[Any]:
    """Return what partial derivatives are made of."""
    found: list[Any] = [Value(step.result), *map(Value, step.deps)]
    if step.attr is not None:
        found.append(step.attr)
    return found


def _scaled(value: Node, partial: Value, step: Step, is_guarded: bool) -> Node:
    """Multiply a derivative with a partial one, which may be infinite: 0 stays 0.

    Where it is an operand or the result, it is as finite as the program's own values,
    which in elements that were never used (`is_guarded`) may be NaN.
    """
    factor = partial.node
    product = trace.emit2(MUL, value, factor)
    is_finite = partial.is_bounded or factor in step.deps or factor is step.result
    if is_finite and not is_guarded:
        return product
    is_zero = Value(value) == 0
    if value.vertex is not None:
        # What is 0 here may have a derivative, which the partial one is a factor of.
        is_zero = is_zero & ~(partial.map(ABS) < math.inf)
    return is_zero.select(0, Value(product)).node


def _times(value: Node, factor: float) -> Node:
    if factor == 1:
        return value
    if factor == -1:
        return (-Value(value)).node
    return (Value(value) * factor).node


def push(step: Step, tangents: dict[int, Node], partials: tuple[Any, ...]) -> Node:
    """Return the derivative of a result from those of operands."""
    total: Node | None = None
    known = _known(step)
    for k, tangent in tangents.items():
        partial = partials[k](*known)
        if type(partial) is not Value:
            term = _times(tangent, partial)
        elif partial.node.type is BOOL:
            term = trace.select(partial.node, tangent, literal(0, tangent))
        else:
            term = _scaled(tangent, partial, step, False)
        total = term if total is None else trace.emit2(ADD, total, term)
    assert total is not None
    return total
