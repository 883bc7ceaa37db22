"""Versions of written arrays: nothing else changes, pending reads see the old."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumijit.compiler.ir import effects, trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.trace import emit2
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import memory
from lumijit.runtime import history
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import (
    BOOL,
    FLOAT32,
    INT32,
    UINT32,
)
from tests.compiler.support import (
    Array,
    Holder,
    array,
    assert_same,
    branch,
    check,
    data,
    lit,
    shareable,
)
from tests.compiler.test_memory import expected_scatter, indices

TRUE = trace.make_true(1)


def test_writes_never_change_another_array() -> None:
    x = array(np.arange(6), FLOAT32)
    first, second, plain = Holder(x), Holder(x), Holder(x)
    memory.scatter(first, lit(FLOAT32, 10), lit(UINT32, 1), TRUE)
    memory.scatter(second, lit(FLOAT32, 20), lit(UINT32, 1), TRUE, "add")
    check([first._node, second._node, plain._node])
    assert data(first._node).tolist() == [0, 10, 2, 3, 4, 5]
    assert data(second._node).tolist() == [0, 21, 2, 3, 4, 5]
    assert data(plain._node).tolist() == [0, 1, 2, 3, 4, 5]


def test_equal_literals_are_different_targets() -> None:
    first, second = (Holder(lit(INT32, 0, 8)) for _ in range(2))
    lanes = trace.counter(8)
    memory.scatter(first, lit(INT32, 1), lanes, TRUE)
    memory.scatter(second, lit(INT32, 2), lanes, TRUE, "add")
    with scoped_set_flag(JitFlag.KernelHistory, True):
        history.kernel_history()
        evaluate.evaluate([first._node, second._node])
        assert len(history.kernel_history([history.KernelType.JIT])) == 1
    assert data(first._node).tolist() == [1] * 8
    assert data(second._node).tolist() == [2] * 8
    assert data(lit(INT32, 0, 8)).tolist() == [0] * 8


def test_forks_of_a_written_array() -> None:
    first = Holder(array(np.zeros(4), INT32))
    lanes = trace.counter(4)
    memory.scatter(first, lit(INT32, 1), lanes, TRUE, "add")
    second = Holder(first._node)
    third = Holder(first._node)
    for k, holder in enumerate((first, second, third)):
        memory.scatter(holder, lit(INT32, 10 * k), lit(UINT32, k), TRUE, "add")
    check([first._node, second._node, third._node])
    assert data(first._node).tolist() == [1, 1, 1, 1]
    assert data(second._node).tolist() == [1, 11, 1, 1]
    assert data(third._node).tolist() == [1, 1, 21, 1]


def test_two_literal_targets_in_one_branch() -> None:
    first, second = (Holder(lit(INT32, 0, 8)) for _ in range(2))
    lanes = trace.counter(8)

    def yes() -> tuple[Node, ...]:
        memory.scatter(first, lit(INT32, 1), lanes, TRUE)
        memory.scatter(second, lit(INT32, 2), lanes, TRUE)
        return ()

    branch(emit2(lo.LT, lanes, lit(UINT32, 3)), yes, lambda: (), (first, second))
    check([first._node, second._node])
    assert data(second._node).tolist() == [2, 2, 2, 0, 0, 0, 0, 0]


def test_views_of_evaluated_arrays_stay() -> None:
    x = array(np.arange(4), FLOAT32)
    holder = Holder(x)
    del x
    view = evaluate.data(holder._node)
    memory.scatter(holder, lit(FLOAT32, 9), lit(UINT32, 0), TRUE)
    assert data(holder._node).tolist() == [9, 1, 2, 3]
    assert view.tolist() in ([0, 1, 2, 3], [9, 1, 2, 3])


def test_pending_expressions_see_former_values() -> None:
    holder = Holder(array(np.arange(4), FLOAT32))
    before = emit2(ar.ADD, holder._node, lit(FLOAT32, 0.5))
    read = memory.gather(holder._node, array([3, 0], UINT32), TRUE)
    memory.scatter(holder, lit(FLOAT32, 9), lit(UINT32, 0), TRUE)
    after = emit2(ar.ADD, holder._node, lit(FLOAT32, 0.5))
    memory.scatter(holder, lit(FLOAT32, 7), lit(UINT32, 3), TRUE)
    found = check([holder._node, after, before, read])
    assert [f.tolist() for f in found] == [
        [9, 1, 2, 7],
        [9.5, 1.5, 2.5, 3.5],
        [0.5, 1.5, 2.5, 3.5],
        [3, 0],
    ]


def test_evaluating_the_write_first() -> None:
    holder = Holder(array(np.arange(4), FLOAT32))
    before = emit2(ar.ADD, holder._node, lit(FLOAT32, 0.5))
    memory.scatter(holder, lit(FLOAT32, 9), lit(UINT32, 0), TRUE)
    evaluate.evaluate([holder._node])
    assert data(before).tolist() == [0.5, 1.5, 2.5, 3.5]


def test_value_depends_on_the_target() -> None:
    """x[i] = 2 x[n - 1 - i] reads the array as it was."""
    x = array(np.arange(100), FLOAT32)
    holder = Holder(x)
    del x
    back = emit2(ar.SUB, lit(UINT32, 99), trace.counter(100))
    mirrored = memory.gather(holder._node, back, TRUE)
    value = emit2(ar.MUL, mirrored, lit(FLOAT32, 2))
    memory.scatter(holder, value, trace.counter(100), TRUE)
    (found,) = check([holder._node])
    assert found.tolist() == [2.0 * (99 - k) for k in range(100)]


def test_foreign_memory_is_never_written() -> None:
    mine = shareable(1000)
    holder = Holder(evaluate.from_numpy(mine))
    memory.scatter(holder, lit(FLOAT32, -1), trace.counter(1000), TRUE)
    assert (data(holder._node) == -1).all()
    assert mine.tolist() == list(range(1000))
    again = Holder(evaluate.from_numpy(mine))
    memory.scatter(again, lit(FLOAT32, 1), trace.counter(1000), TRUE, "add")
    assert data(again._node).tolist() == list(range(1, 1001))
    assert mine.tolist() == list(range(1000))


@pytest.mark.parametrize("kind", ["literal", "undefined", "expression", "memory"])
def test_targets_of_all_kinds(kind: str) -> None:
    size = 20
    made = {
        "literal": lambda: lit(FLOAT32, 3, size),
        "undefined": lambda: trace.undefined(FLOAT32, size),
        "expression": lambda: emit2(
            ar.ADD, array(np.full(size, 2), FLOAT32), lit(FLOAT32, 1)
        ),
        "memory": lambda: array(np.full(size, 3), FLOAT32),
    }
    holder = Holder(made[kind]())
    whole = kind == "undefined"
    at = trace.counter(size) if whole else array([0, 19], UINT32)
    memory.scatter(holder, lit(FLOAT32, 8), at, TRUE)
    expected = [8.0] * size if whole else [8.0] + [3.0] * 18 + [8.0]
    assert data(holder._node).tolist() == expected


def test_chains_of_writes_keep_their_order() -> None:
    holder = Holder(array(np.zeros(50), INT32))
    lanes = trace.counter(50)
    expected = np.zeros(50, np.int64)
    for k, op in enumerate(["add", "add", "mul", "identity", "add", "max", "max"]):
        value = emit2(ar.ADD, trace.cast_to(lanes, INT32), lit(INT32, k))
        memory.scatter(holder, value, lanes, TRUE, op)
        values = np.arange(50) + k
        expected = {
            "add": expected + values,
            "mul": expected * values,
            "identity": values,
            "max": np.maximum(expected, values),
        }[op]
    (found,) = check([holder._node])
    assert found.tolist() == expected.tolist()


def test_conflicting_plain_writes_of_two_scatters() -> None:
    """The later scatter wins wherever both write."""
    holder = Holder(array(np.zeros(300), INT32))
    lanes = trace.counter(300)
    back = emit2(ar.SUB, lit(UINT32, 299), lanes)
    memory.scatter(holder, trace.cast_to(lanes, INT32), lanes, TRUE)
    memory.scatter(holder, trace.cast_to(lanes, INT32), back, TRUE)
    (found,) = check([holder._node])
    assert found.tolist() == list(range(299, -1, -1))


def test_disjoint_group_shares_a_kernel() -> None:
    holder = Holder(trace.undefined(FLOAT32, 90))
    group = effects.new_group()
    third = trace.counter(30)
    with scoped_set_flag(JitFlag.KernelHistory, True):
        for k in range(3):
            row = emit2(ar.MUL, third, lit(UINT32, 3))
            at = emit2(ar.ADD, row, lit(UINT32, k))
            value = emit2(ar.ADD, array(np.arange(30), FLOAT32), lit(FLOAT32, 100 * k))
            memory.update(holder, value, at, TRUE, "identity", "auto", group)
        history.kernel_history()
        (found,) = check([holder._node])
        assert len(history.kernel_history([history.KernelType.JIT])) == 1
    assert found.reshape(30, 3).T.tolist() == [
        [100 * k + i for i in range(30)] for k in range(3)
    ]


def test_unread_writes_are_dropped() -> None:
    holder = Holder(array(np.zeros(4), INT32))
    memory.scatter(holder, lit(INT32, 1), trace.counter(4), TRUE)
    holder._become(array(np.zeros(4), INT32))
    assert not evaluate.evaluate_pending()


def test_scheduled_writes_run_with_the_next_evaluation() -> None:
    holder = Holder(array(np.zeros(4), INT32))
    memory.scatter(holder, lit(INT32, 1), trace.counter(4), TRUE)
    data(emit2(ar.ADD, array([1.0], FLOAT32), lit(FLOAT32, 1)))
    assert holder._node.buffer is not None


def test_empty_writes_do_nothing() -> None:
    holder = Holder(array(np.zeros(4), UINT32))
    before = holder._node
    memory.scatter(holder, lit(UINT32, 1), array([], UINT32), TRUE)
    memory.scatter(holder, lit(UINT32, 1), trace.counter(4), lit(BOOL, False))
    empty = Holder(array([], INT32))
    memory.scatter(empty, lit(INT32, 1), lit(UINT32, 0), TRUE)
    nothing = memory.scatter_inc(holder, array([], UINT32), TRUE)
    never = memory.scatter_inc(holder, lit(UINT32, 0), lit(BOOL, False))
    assert data(nothing).size == 0
    assert data(never).tolist() == [0]
    assert data(holder._node).tolist() == data(before).tolist() == [0] * 4
    assert data(empty._node).size == 0


def test_masks_of_evaluated_control_flow() -> None:
    holder = Holder(array(np.zeros(4), INT32))
    with trace.masked(array([1, 0, 1, 0], BOOL)):
        memory.scatter(holder, lit(INT32, 1), trace.counter(4), TRUE)
        with trace.masked(array([1, 1, 0, 0], BOOL)):
            memory.scatter(holder, lit(INT32, 5), trace.counter(4), TRUE, "add")
            table = array([7, 8, 9, 10], INT32)
            read = memory.gather(table, array([3, 2, 1, 0], UINT32), TRUE)
    assert data(holder._node).tolist() == [6, 0, 1, 0]
    assert data(read).tolist() == [10, 0, 0, 0]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "max", "min", "or", "read", "copy", "evaluate"]),
            st.integers(0, 2),
            st.integers(0, 2),
            st.integers(0, 1000),
        ),
        min_size=1,
        max_size=14,
    )
)
def test_random_programs_of_writes(steps: list[tuple[str, int, int, int]]) -> None:
    """Three arrays written, read and shared in any order, against NumPy."""
    size = 24
    models = [np.arange(size, dtype=np.int32) * k for k in range(3)]
    holders = [Holder(array(model, INT32)) for model in models]
    reads: list[tuple[Node, Array]] = []
    for op, i, j, seed in steps:
        if op == "copy":
            holders[i]._node, models[i] = holders[j]._node, models[j].copy()
            continue
        if op == "evaluate":
            evaluate.evaluate([holders[i]._node])
            continue
        at = indices(37, size, seed)
        if op == "read":
            node = memory.gather(holders[i]._node, array(at, UINT32), TRUE)
            reads.append((node, models[i][at]))
            continue
        value = memory.gather(holders[j]._node, array(at[::-1], UINT32), TRUE)
        values = models[j][at[::-1]]
        memory.scatter(holders[i], value, array(at, UINT32), TRUE, op)
        everyone = np.ones(37, np.bool_)
        models[i] = expected_scatter(op, models[i], values, at, everyone)
    for node, expected in reads:
        assert_same(data(node), expected)
    for holder, model in zip(holders, models, strict=True):
        assert_same(data(holder._node), model)
