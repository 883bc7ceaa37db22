"""Uniform indices: every operation on integers also works as a scalar."""

from __future__ import annotations

import numpy as np
import pytest

from lumijit.compiler import local, regions, trace
from lumijit.compiler.ops import arithmetic as ar
from lumijit.compiler.ops import logic as lo
from lumijit.compiler.ops.record import REGISTRY, Op
from lumijit.compiler.trace import Node, emit1, emit2, emit3
from lumijit.runtime.dtypes import BOOL, INTS, UINT32, DType
from tests.compiler.support import array, check, lit

OPERATIONS = [
    op
    for op in REGISTRY.values()
    if op.lower is not None and not op.accepts.isdisjoint(INTS)
]
pytestmark = pytest.mark.usefixtures("each_target")

TRUE = trace.make_true(1)


def applied(op: Op, i: Node, t: DType) -> Node:
    """Apply an operation to a counter and a constant."""
    x = trace.cast_to(i, t)
    five = lit(t, 5)
    if op in (lo.SHL_BY, lo.SHR_BY):
        return trace.append(op, t, (x,), 3)
    if op is lo.SELECT:
        return emit3(op, emit2(lo.LT, five, x), x, five)
    if op.arity == 1:
        return emit1(op, emit2(ar.ADD, x, five))
    if op.arity == 2:
        return emit2(op, x, five)
    return emit3(op, x, five, x)


@pytest.mark.parametrize("op", OPERATIONS, ids=repr)
def test_operations(op: Op) -> None:
    size = 20
    turns = array(np.arange(size) % 13, UINT32)
    types = [t for t in INTS if t in op.accepts]
    holder = local.allocate(UINT32, 16, lit(UINT32, 0))
    with regions.scope("loop", size, is_loop=True) as body:
        i = regions.argument(UINT32, size, 0)
        for t in types:
            value = applied(op, i, t)
            if value.type is BOOL:
                value = trace.select(value, lit(UINT32, 3), lit(UINT32, 2))
            if not value.type.is_int:
                continue
            index = emit2(lo.AND, trace.cast_to(value, UINT32), lit(UINT32, 15))
            found = local.read(holder, index, TRUE)
            local.write(holder, emit2(ar.ADD, found, i), index, TRUE)
        following = emit2(ar.ADD, i, lit(UINT32, 1))
        cond = emit2(lo.LT, i, turns)
    start = trace.resized(lit(UINT32, 0), size)
    regions.close_loop(body, (start,), (i,), cond, (following,))
    check([local.read(holder, lit(UINT32, k), TRUE) for k in range(16)])


@pytest.mark.parametrize("is_evaluated", [False, True])
def test_counters_start_with_any_uniform_value(is_evaluated: bool) -> None:
    first = array([3], UINT32) if is_evaluated else lit(UINT32, 3)
    lanes = array(np.arange(33), UINT32)
    holder = local.allocate(UINT32, 16, lanes)
    with regions.scope("loop", 33, is_loop=True) as body:
        i = regions.argument(UINT32, 33, 0)
        cond = emit2(lo.LT, i, emit2(ar.MOD, lanes, lit(UINT32, 16)))
        local.write(holder, i, i, TRUE)
        following = emit2(ar.ADD, i, lit(UINT32, 2))
    regions.close_loop(body, (first,), (i,), cond, (following,))
    check([local.read(holder, lit(UINT32, k), TRUE) for k in range(16)])
