"""Traces too long for one kernel: the pieces compute what the whole would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumijit.compiler import evaluate, partition, program
from lumijit.compiler.ops import arithmetic as ar
from lumijit.compiler.ops import logic as lo
from lumijit.compiler.trace import Node, emit2, literal
from lumijit.runtime import history
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import UINT32
from tests.compiler.support import array, data

OPS = (ar.ADD, ar.SUB, ar.MUL, lo.XOR)


def _random_trace(choices: list[tuple[int, int, int]]) -> tuple[list[Node], list]:
    """Grow a trace from arrays of size 1 and 5, next to its NumPy values."""
    inputs = [np.arange(5), np.array([7]), np.arange(5) * 3 + 1, np.array([123])]
    values = [v.astype(np.uint32) for v in inputs]
    nodes = [array(v, UINT32) for v in values]
    functions = (np.add, np.subtract, np.multiply, np.bitwise_xor)
    for kind, left, right in choices:
        a, b = left % len(nodes), right % len(nodes)
        nodes.append(emit2(OPS[kind], nodes[a], nodes[b]))
        values.append(functions[kind](values[a], values[b]))
    return nodes, values


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 60)),
        min_size=12,
        max_size=60,
    )
)
def test_any_cut_gives_the_same(choices: list[tuple[int, int, int]]) -> None:
    nodes, values = _random_trace(choices)
    wanted = [k for k in range(4, len(nodes)) if nodes[k].size == 5][-3:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "MAX_OPERATIONS", 7)
        evaluate.evaluate([nodes[k] for k in wanted])
    for k in wanted:
        np.testing.assert_array_equal(data(nodes[k]), np.broadcast_to(values[k], 5))


def test_chunks_of_a_chain_share_a_kernel() -> None:
    x = array(np.arange(40), UINT32)
    node = x
    length = 10 * partition.MAX_OPERATIONS
    for _ in range(length):
        node = emit2(ar.ADD, node, x)
    with scoped_set_flag(JitFlag.KernelHistory, True):
        history.kernel_history_clear()
        found = data(node)
        launches = history.kernel_history([history.KernelType.JIT])
    np.testing.assert_array_equal(found, np.arange(40) * (length + 1))
    assert len(launches) >= 10
    assert sum(not entry["cache_hit"] for entry in launches) <= 3


def test_cuts_are_where_little_is_alive() -> None:
    """A trace that narrows to one value every ten operations is cut there."""
    x = array(np.arange(8), UINT32)
    node = x
    for _ in range(30):
        parts = [emit2(lo.XOR, node, literal(UINT32, k)) for k in range(1, 6)]
        for part in parts:
            node = emit2(ar.ADD, node, part)
    order = program.elementwise_order([node])
    assert order is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "MAX_OPERATIONS", 40)
        for nodes, outputs in partition.chunks(order, [node]):
            assert len(outputs) <= 2
            assert len(nodes) <= 60
            evaluate._run_elementwise(program.Program(8, outputs, [], 0, nodes))
    assert order == []
