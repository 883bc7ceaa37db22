"""Functions of literals have the bits that kernels compute, on both forms of code."""

from __future__ import annotations

import numpy as np
import pytest

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import mathematics as ma
from lumijit.compiler.ir.ops.record import REGISTRY, Op
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import FLOAT32, FLOATS, INT32, DType
from tests.compiler.support import Array, array, assert_same, data, edge_values, lit

OWN = [op for op in REGISTRY.values() if op.own_rounding and op is not ma.HALF_POWER]
CASES = [pytest.param(op, t, id=f"{op.name}-{t.short}") for op in OWN for t in FLOATS]


def emitted(op: Op, *args: Node) -> Node:
    return trace.emit1(op, *args) if op.arity == 1 else trace.emit2(op, *args)


def test_all_functions_round_in_their_own_way() -> None:
    assert {"sin", "exp", "power", "rsqrt", "mod", "erf"} <= {op.name for op in OWN}
    assert not {"add", "mul", "div", "sqrt", "fma", "rcp"} & {op.name for op in OWN}


@pytest.mark.parametrize(("op", "t"), CASES)
def test_functions_of_literals(op: Op, t: DType, each_target: object) -> None:
    rng = np.random.default_rng(op.index)
    edges = edge_values(t)
    values = np.concatenate([rng.uniform(-9, 9, 40), rng.uniform(0, 1, 20)])
    columns = [np.concatenate([edges, values.astype(t.numpy)]) for _ in range(op.arity)]
    if op.arity == 2:
        rng.shuffle(columns[1])
    expected = data(emitted(op, *[array(c, t) for c in columns]))
    nodes = [emitted(op, *[lit(t, n) for n in row.tolist()]) for row in zip_(columns)]
    assert all(node.op is LITERAL for node in nodes)
    assert_same(np.array([node.attr for node in nodes], t.numpy), expected)


def zip_(columns: list[Array]) -> Array:
    return np.stack(columns, axis=1)


def test_whole_arrays_of_one_number() -> None:
    node = emitted(REGISTRY["sin"], lit(FLOAT32, 0.3, 7))
    assert node.op is LITERAL
    assert node.size == 7


def test_integers_need_no_kernel() -> None:
    assert emitted(REGISTRY["mod"], lit(INT32, 7), lit(INT32, 4)).attr == 3


def test_without_folding() -> None:
    with scoped_set_flag(JitFlag.ConstantPropagation, False):
        node = emitted(REGISTRY["sin"], lit(FLOAT32, 0.3))
    assert node.op is not LITERAL
    folded = emitted(REGISTRY["sin"], lit(FLOAT32, 0.3))
    assert_same(np.array([folded.attr], np.float32), data(node))
