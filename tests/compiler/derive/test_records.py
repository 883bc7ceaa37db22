"""Every operation says how derivatives pass it, or why none do."""

from __future__ import annotations

import pytest

import lumijit.compiler.derive.matrices
import lumijit.compiler.derive.traversal  # noqa: F401  (these enter rules)
from lumijit.compiler.derive.rules import RULES
from lumijit.compiler.ir.ops.record import REGISTRY, NotDifferentiable, Op

#: How derivatives pass where neither record nor rule says it.
OTHERWISE = {
    **dict.fromkeys(
        ("literal", "counter", "undefined", "evaluated", "consumed", "symbolic"),
        "depends on nothing",
    ),
    "bitcast": "from floats to integers, or back: integers have no derivatives",
    "gather_at": "takes the place of gather in kernels, after derivatives",
    "scatter_inc": "counts",
    "scatter_cas": "refused where it is traced, if derivatives are tracked",
    "scatter_error": "its version of the array has the rule of scatter",
    "written": "has the rule of scatter, or that of writes in a region",
    "project": "has the rule of results",
}


@pytest.mark.parametrize("name", REGISTRY)
def test_every_operation_has_a_derivative_or_a_reason(name: str) -> None:
    op = REGISTRY[name]
    takes_floats = any(t.is_float for t in op.accepts)
    found = [isinstance(op.derivative, tuple), op in RULES, name in OTHERWISE]
    if isinstance(op.derivative, NotDifferentiable):
        assert op.derivative.why
        assert not any(found)
        return
    assert sum(found) == 1 or not takes_floats
    if isinstance(op.derivative, tuple):
        assert len(op.derivative) == op.arity


def test_an_operation_without_is_found() -> None:
    assert Op("new", 1).derivative is None
    assert set(OTHERWISE) <= set(REGISTRY)
