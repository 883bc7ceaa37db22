"""Gathers and scatters: values, versions and aliasing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumijit.compiler import evaluate, memory, trace
from lumijit.compiler.ops import arithmetic as ar
from lumijit.compiler.ops import logic as lo
from lumijit.compiler.ops.structural import LITERAL
from lumijit.compiler.trace import Node, emit2
from lumijit.runtime import buffers, history, workers
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import (
    ARITHMETIC,
    BOOL,
    FLOAT16,
    FLOAT32,
    INT32,
    INTS,
    UINT32,
    VALUES,
    DType,
)
from lumijit.runtime.errors import SizeError, SymbolicError
from tests.compiler.support import (
    ODD_SIZES,
    Array,
    Holder,
    array,
    assert_same,
    branch,
    check,
    data,
    lit,
    random_values,
)

TRUE = trace.make_true(1)
SIZES = (1, 8, 33, 67, 1000)
IDS = {"ids": lambda t: t.short}


def indices(size: int, entries: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(0, entries, size, np.uint32)


def mask_of(size: int, seed: int = 2) -> Array:
    return np.random.default_rng(seed).random(size) < 0.7


# Gather


@pytest.mark.parametrize("t", VALUES, **IDS)
@pytest.mark.parametrize("size", SIZES)
def test_gather(t: DType, size: int) -> None:
    table = random_values(t, 129)
    at, active = indices(size, 129), mask_of(size)
    node = memory.gather(array(table, t), array(at, UINT32), array(active, BOOL))
    (found,) = check([node])
    assert_same(found, np.where(active, table[at], t.numpy.type(0)))


def test_gather_from_an_expression_needs_two_kernels() -> None:
    x = array(np.arange(100), FLOAT32)
    squares = emit2(ar.MUL, x, x)
    found = memory.gather(squares, array(indices(50, 100), UINT32), TRUE)
    with scoped_set_flag(JitFlag.KernelHistory, True):
        history.kernel_history()
        (values,) = check([found])
        assert len(history.kernel_history()) == 2
    assert_same(values, (indices(50, 100) ** 2).astype(np.float32))


def test_gather_shortcuts() -> None:
    x = array(np.arange(5), FLOAT32)
    assert memory.gather(x, trace.counter(5), TRUE) is x
    assert memory.gather(lit(FLOAT32, 3, 9), trace.counter(4), TRUE).op is LITERAL
    one = array([7], FLOAT32)
    spread = memory.gather(one, trace.counter(3), array([1, 0, 1], BOOL))
    assert data(spread).tolist() == [7, 0, 7]
    never = memory.gather(x, trace.counter(4), lit(BOOL, False))
    assert data(never).tolist() == [0] * 4
    empty = memory.gather(array([], FLOAT32), trace.counter(3), TRUE)
    assert data(empty).tolist() == [0] * 3
    nothing = memory.gather(x, array([], UINT32), TRUE)
    assert data(nothing).size == 0


def test_gather_with_index_past_two_gibi_of_bytes() -> None:
    """Indices are unsigned and scaled in 64 bits."""
    t, entries = FLOAT32, (1 << 29) + 64
    buffer = buffers.allocate(entries * 4)
    source = trace.from_buffer(t, buffer, entries)
    holder = Holder(source)
    places = array([0, 5, entries - 1], UINT32)
    del source
    memory.scatter(holder, array([1, 2, 3], t), places, TRUE)
    found = memory.gather(holder._node, places, TRUE)
    assert data(found).tolist() == [1, 2, 3]
    assert holder._node.buffer is buffer


# Scatter


def expected_scatter(
    op: str, start: Array, values: Array, at: Array, active: Array
) -> Array:
    """Apply one update after the other, in double precision for floats."""
    t = start.dtype
    out = start.astype(np.float64) if t.kind == "f" else start.copy()
    functions = {
        "identity": lambda a, b: b,
        "add": np.add,
        "mul": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
    }
    with np.errstate(all="ignore"):
        for k in np.flatnonzero(active):
            out[at[k]] = functions[op](out[at[k]], values[k])
        return out.astype(t)


def operations(t: DType) -> tuple[str, ...]:
    if t.is_bool:
        return ("and", "or")
    if t.is_float:
        return ("add", "mul", "min", "max")
    return memory.OPERATIONS[1:]


REDUCTIONS = [
    pytest.param(op, t, id=f"{op}-{t.short}") for t in VALUES for op in operations(t)
]


def friendly_values(op: str, t: DType, size: int) -> Array:
    """Return values whose products and sums are exact in any order."""
    if t.is_float:
        rng = np.random.default_rng(size)
        if op == "mul":
            factors = [1.0, -1.0] if t is FLOAT16 else [1.0, -1.0, 2.0, 0.5]
            return rng.choice(factors, size).astype(t.numpy)
        return rng.integers(-8, 9, size).astype(t.numpy)
    return random_values(t, size)


@pytest.mark.parametrize("mode", ["auto", "direct", "local", "expand"])
@pytest.mark.parametrize(("op", "t"), REDUCTIONS)
def test_reductions(op: str, t: DType, mode: str) -> None:
    for size, entries in ((67, 5), (1000, 3), (300, 257)):
        at, active = indices(size, entries), mask_of(size)
        values = friendly_values(op, t, size)
        start = friendly_values(op, t, entries)
        holder = Holder(array(start, t))
        args = array(values, t), array(at, UINT32), array(active, BOOL)
        memory.scatter(holder, *args, op, mode)
        (found,) = check([holder._node])
        assert_same(found, expected_scatter(op, start, values, at, active))


@pytest.mark.parametrize("size", ODD_SIZES)
def test_reduction_sizes(size: int) -> None:
    at = indices(size, 4)
    holder = Holder(array(np.zeros(4), INT32))
    memory.scatter(holder, lit(INT32, 3), array(at, UINT32), TRUE, "add")
    assert data(holder._node).tolist() == (np.bincount(at, minlength=4) * 3).tolist()


@pytest.mark.parametrize("t", VALUES, **IDS)
def test_no_conflicts(t: DType) -> None:
    size = 500
    at = np.random.default_rng(3).permutation(700)[:size].astype(np.uint32)
    active = mask_of(size)
    for op in ("identity", *operations(t)):
        for mode in ("no_conflicts", "permute" if op == "identity" else "direct"):
            values, start = friendly_values(op, t, size), friendly_values(op, t, 700)
            holder = Holder(array(start, t))
            args = array(values, t), array(at, UINT32), array(active, BOOL)
            memory.scatter(holder, *args, op, mode)
            (found,) = check([holder._node])
            assert_same(found, expected_scatter(op, start, values, at, active))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("t", [FLOAT32, INT32, FLOAT16], **IDS)
@pytest.mark.parametrize("entries", [7, 40_000])
@pytest.mark.parametrize("mode", ["auto", "direct", "local"])
def test_large_reductions(t: DType, threads: int, entries: int, mode: str) -> None:
    """Private copies and atomic updates of several threads lose nothing."""
    size = 200_003 if t is not FLOAT16 else 2003
    at = indices(size, entries)
    before = workers.thread_count()
    workers.set_thread_count(threads)
    try:
        holder = Holder(array(np.ones(entries), t))
        memory.scatter(holder, lit(t, 1), array(at, UINT32), TRUE, "add", mode)
        found = data(holder._node)
    finally:
        workers.set_thread_count(before)
    counts = np.bincount(at, minlength=entries) + 1
    assert_same(found, counts.astype(t.numpy))


def test_min_and_max_of_signed_zeros_and_nan() -> None:
    for mode in ("auto", "direct"):
        holder = Holder(array([np.nan, 0.0], FLOAT32))
        values = array([1.0, -3.0], FLOAT32)
        memory.scatter(holder, values, array([0, 1], UINT32), TRUE, "min", mode)
        found = data(holder._node)
        assert found[1] == -3.0
        assert np.isnan(found[0]) or found[0] == 1.0


def test_scatter_inc_gives_each_its_own_slot() -> None:
    for size in (1, 64, 1000, 50_000):
        holder = Holder(array([10, 0, 0], UINT32))
        at, active = indices(size, 3), mask_of(size)
        slot = memory.scatter_inc(holder, array(at, UINT32), array(active, BOOL))
        evaluate.evaluate([slot, holder._node])
        slots, counts = data(slot), data(holder._node)
        start = [10, 0, 0]
        for k in range(3):
            mine = slots[(at == k) & active]
            total = len(mine)
            assert counts[k] == start[k] + total
            assert sorted(mine) == list(range(start[k], start[k] + total))


def test_scatter_inc_index_is_stored_with_its_first_use() -> None:
    holder = Holder(array([0], UINT32))
    slot = memory.scatter_inc(holder, lit(UINT32, 0, 10), TRUE)
    doubled = emit2(ar.ADD, slot, slot)
    (found,) = check([doubled])
    assert found.tolist() == list(range(0, 20, 2))
    assert data(slot).tolist() == list(range(10))
    assert data(holder._node).tolist() == [10]


def test_scatter_inc_index_without_a_counter_is_used_once() -> None:
    slot = memory.scatter_inc(Holder(array([0], UINT32)), lit(UINT32, 0, 10), TRUE)
    assert data(emit2(ar.ADD, slot, slot)).tolist() == list(range(0, 20, 2))
    with pytest.raises(SymbolicError, match="the returned index was used up"):
        evaluate.evaluate([slot])


# Versions and aliasing


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
    mine = np.arange(1000, dtype=np.float32)
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
    group = memory.new_group()
    third = trace.counter(30)
    with scoped_set_flag(JitFlag.KernelHistory, True):
        for k in range(3):
            row = emit2(ar.MUL, third, lit(UINT32, 3))
            at = emit2(ar.ADD, row, lit(UINT32, k))
            value = emit2(ar.ADD, array(np.arange(30), FLOAT32), lit(FLOAT32, 100 * k))
            memory.scatter(holder, value, at, TRUE, "identity", "auto", group)
        history.kernel_history()
        (found,) = check([holder._node])
        assert len(history.kernel_history([history.KernelType.JIT])) == 1
    assert found.reshape(30, 3).T.tolist() == [
        [100 * k + i for i in range(30)] for k in range(3)
    ]


def test_unread_writes_are_dropped() -> None:
    holder = Holder(array(np.zeros(4), INT32))
    memory.scatter(holder, lit(INT32, 1), trace.counter(4), TRUE)
    holder._node = array(np.zeros(4), INT32)
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


# Errors


def test_sizes_must_fit() -> None:
    x = array(np.arange(8), FLOAT32)
    with pytest.raises(SizeError, match=r"gather: .*incompatible sizes \(3, 2\)"):
        memory.gather(x, trace.counter(3), array([1, 0], BOOL))
    with pytest.raises(SizeError, match=r"scatter: .*incompatible sizes \(8, 3, 1\)"):
        memory.scatter(Holder(x), x, trace.counter(3), TRUE)


def test_symbolic_arrays_have_no_entries() -> None:
    def yes() -> tuple[Node, ...]:
        inside = emit2(ar.MUL, x, x)
        total = trace.make(ar.ADD, UINT32, 4, (inside, inside), None)
        with pytest.raises(SymbolicError, match="gather: the array is symbolic"):
            memory.gather(total, trace.counter(4), TRUE)
        return ()

    x = trace.counter(4)
    branch(emit2(lo.LT, x, lit(UINT32, 2)), yes, lambda: ())


def test_too_large_to_be_indexed() -> None:
    huge = trace.make_root(trace.COUNTER, UINT32, (1 << 31) + 1)
    with pytest.raises(SizeError, match="more than 2147483647 entries"):
        memory.gather(huge, trace.counter(2), TRUE)


def test_all_types_are_covered() -> None:
    assert set(VALUES) == {BOOL, *ARITHMETIC}
    assert set(INTS) < set(ARITHMETIC)
