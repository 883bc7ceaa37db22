"""Traces too long for one kernel: the pieces compute what the whole would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as lj
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.trace import emit2, literal
from lumijit.compiler.launch import evaluate
from lumijit.compiler.plan import partition, schedule
from lumijit.llvm import Float, UInt32
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


@settings(deadline=None)
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
        patch.setattr(partition, "STORE_COST", 1)
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
    group = schedule.Group(0, 8)
    group.outputs = [node]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "MAX_OPERATIONS", 40)
        for piece in partition.pieces(group):
            assert len(piece.outputs) <= 2
            assert len(partition.in_order(piece.outputs)) <= 60
            evaluate._run(piece.outputs)
    assert len(partition.in_order([node])) <= 60


def _indexed_program(choices: list[tuple[int, int, int]]) -> list[np.ndarray]:
    """Run a program of gathers, scatters, counters, loops and branches."""
    n = 9
    data = lj.arange(UInt32, n) * 3 + 1
    lj.make_opaque(data)
    targets = [lj.zeros(UInt32, n), lj.opaque(UInt32, 5, n)]
    counter = lj.zeros(UInt32, 2)
    values = [data + 1, data ^ 5, lj.opaque(UInt32, 11)]
    for kind, left, right in choices:
        a, b = values[left % len(values)], values[right % len(values)]
        target = targets[right % 2]
        if kind == 0:
            values.append(lj.gather(UInt32, data, (a + b) % n))
        elif kind == 1:
            lj.scatter_add(target, a, b % n)
        elif kind == 2:
            lj.scatter(target, b % 7, lj.arange(UInt32, n))
        elif kind == 3:
            slots = lj.scatter_inc(counter, UInt32(right % 2), lj.arange(UInt32, n) < 5)
            values.append(lj.max(slots) + a)
        elif kind == 4:
            values += lj.while_loop(
                (a % 16, b), lambda i, x: i < 16, lambda i, x: (i + 3, x * i + 1)
            )
        elif kind == 5:
            values += lj.if_stmt(
                (a, b), a < b, lambda x, y: (x + 1, y), lambda x, y: (y, x * 2)
            )
        elif kind == 6:
            values.append(lj.gather(UInt32, target, a % n))
        else:
            values.append(a * b + 3)
    lj.eval(values[-4:], targets, counter)
    return [v.numpy() for v in (*values[-4:], *targets, counter)]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 60), st.integers(0, 60)),
        min_size=8,
        max_size=30,
    )
)
def test_any_cut_of_a_program_with_indexing_gives_the_same(
    choices: list[tuple[int, int, int]],
) -> None:
    expected = _indexed_program(choices)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "MAX_OPERATIONS", 9)
        found = _indexed_program(choices)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", ["gather", "scatter", "loop"])
def test_long_traces_with_indexing_are_cut(kind: str) -> None:
    x = lj.arange(UInt32, 40)
    lj.make_opaque(x)
    y = x
    target = lj.zeros(UInt32, 40)
    for k in range(partition.MAX_OPERATIONS):
        y = y * 3 + x
        if kind == "gather" and k % 500 == 0:
            y += lj.gather(UInt32, x, y % 40)
        elif kind == "scatter" and k % 500 == 0:
            lj.scatter_add(target, y, x)
        elif kind == "loop" and k % 500 == 0:
            _, y = lj.while_loop(
                (x, y), lambda i, y: i < 9, lambda i, y: (i + 1, y * 3)
            )
    with scoped_set_flag(JitFlag.KernelHistory, True):
        history.kernel_history_clear()
        lj.eval(y, target)
        launches = history.kernel_history([history.KernelType.JIT])
    assert len(launches) >= 3
    counts = [entry["operation_count"] for entry in launches]
    assert max(counts) <= 1.5 * partition.MAX_OPERATIONS


def test_many_arrays_to_store_are_several_kernels() -> None:
    """Their addresses alone would take LLVM's register allocation long."""
    x = array(np.arange(5), UINT32)
    nodes = [emit2(ar.ADD, x, literal(UINT32, k + 1)) for k in range(500)]
    with scoped_set_flag(JitFlag.KernelHistory, True):
        history.kernel_history_clear()
        evaluate.evaluate(nodes)
        found = history.kernel_history([history.KernelType.JIT])
    assert 2 <= len(found) <= 6
    for k in (0, 1, 250, 499):
        np.testing.assert_array_equal(data(nodes[k]), np.arange(5) + k + 1)


@pytest.mark.parametrize("kind", ["gather", "local", "loop"])
def test_long_traces_of_what_is_not_there_yet(kind: str) -> None:
    """A gather's source, or a loop with a buffer, far away from what is wanted."""
    n, index = 100, np.arange(100)
    x = lj.arange(Float, n) / n
    if kind == "gather":
        z = lj.gather(Float, x + 1, n - 1 - lj.arange(UInt32, n))
        wanted = (n - 1 - index) / n + 1
    elif kind == "local":
        buffer = lj.alloc_local(Float, 4, value=Float(0.5))
        buffer[lj.arange(UInt32, n) & 1] = x
        z, wanted = buffer[UInt32(1)] + x, np.where(index & 1, index / n, 0.5)
        wanted = wanted + index / n
    else:

        def step(i: Any, b: Any) -> Any:
            b[i] = b[i] + x
            return i + 1, b

        state = UInt32(0), lj.alloc_local(Float, 3, value=Float(1))
        _, b = lj.while_loop(state, lambda i, b: i < 3, step)
        z, wanted = b[UInt32(2)] + 0, 1 + index / n
    for _ in range(partition.MAX_OPERATIONS * 2 // 3):
        z = z * x + 1
        wanted = wanted * (index / n) + 1
    np.testing.assert_allclose(z.numpy(), wanted, rtol=1e-4)
