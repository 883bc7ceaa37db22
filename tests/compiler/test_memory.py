"""Gathers and scatters: values, versions and aliasing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lumijit.compiler.ir import effects, trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.structural import COUNTER, LITERAL
from lumijit.compiler.ir.trace import emit2
from lumijit.compiler.launch import evaluate
from lumijit.compiler.record import memory
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

pytestmark = pytest.mark.usefixtures("each_target")

TRUE = trace.make_true(1)
SIZES = (1, 8, 33, 67, 1000)
IDS: dict[str, Any] = {"ids": lambda t: t.short}


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
    spread = memory.entries(one, trace.counter(3), array([1, 0, 1], BOOL))
    assert data(spread).tolist() == [7, 0, 7]
    inside = memory.gather(one, trace.counter(3), array([1, 0, 1], BOOL))
    assert data(inside).tolist() == [7, 0, 0]
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
    functions: dict[str, Callable[..., Any]] = {
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
    return effects.OPERATIONS[1:]


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


@pytest.mark.parametrize("op", effects.OPERATIONS)
@pytest.mark.parametrize("dtype", VALUES)
def test_fetch_updates_and_returns_what_was_there(dtype: DType, op: str) -> None:
    """Each entry is hit once, so that the order doesn't matter."""
    if (dtype is BOOL or dtype.is_float) and op in ("and", "or"):
        return
    if dtype is BOOL and op != "identity":
        return
    for size in (1, 37, 1000):
        old = (np.arange(size) % 5 + 1).astype(dtype.numpy)
        new = (np.arange(size) % 3 + 2).astype(dtype.numpy)
        at, active = np.arange(size)[::-1].copy(), mask_of(size)
        holder = Holder(array(old, dtype))
        operands = array(new, dtype), array(at, UINT32), array(active, BOOL)
        found = memory.fetch(holder, *operands, op)
        check([found, holder._node])
        after = old.copy()
        functions: dict[str, Callable[..., Any]] = {
            "identity": lambda a, b: b,
            "add": np.add,
            "mul": np.multiply,
            "min": np.minimum,
            "max": np.maximum,
            "and": np.bitwise_and,
            "or": np.bitwise_or,
        }
        after[at[active]] = functions[op](old[at[active]], new[active])
        np.testing.assert_array_equal(data(found), np.where(active, old[at], 0))
        np.testing.assert_array_equal(data(holder._node), after)


def test_fetches_of_one_entry_form_a_chain() -> None:
    """Each finds what another one has left, and none of it is lost."""
    size = 5000
    holder = Holder(array([7], UINT32))
    numbers = array(np.arange(size) + 100, UINT32)
    found = memory.fetch(holder, numbers, lit(UINT32, 0, size), TRUE, "identity")
    evaluate.evaluate([found, holder._node])
    seen = sorted([*data(found).tolist(), *data(holder._node).tolist()])
    assert seen == [7, *range(100, 100 + size)]


def test_fetches_follow_each_other() -> None:
    holder = Holder(array([1, 2, 3], FLOAT32))
    first = memory.fetch(holder, lit(FLOAT32, 5.0), trace.counter(3), TRUE, "identity")
    second = memory.fetch(holder, lit(FLOAT32, 9.0), trace.counter(3), TRUE, "add")
    evaluate.evaluate([first, second, holder._node])
    assert data(first).tolist() == [1, 2, 3]
    assert data(second).tolist() == [5, 5, 5]
    assert data(holder._node).tolist() == [14, 14, 14]


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

    x = array(np.arange(4), UINT32)
    branch(emit2(lo.LT, x, lit(UINT32, 2)), yes, lambda: ())


def test_too_large_to_be_indexed() -> None:
    huge = trace.make_root(COUNTER, UINT32, (1 << 31) + 1)
    with pytest.raises(SizeError, match="more than 2147483647 entries"):
        memory.gather(huge, trace.counter(2), TRUE)


def test_all_types_are_covered() -> None:
    assert set(VALUES) == {BOOL, *ARITHMETIC}
    assert set(INTS) < set(ARITHMETIC)


def test_lanes_are_combined_under_a_flag() -> None:
    """ScatterReduceLocal decides about lanes that hit one entry."""
    size = 2_000_000
    kernels: list[str] = []
    for is_local in (True, False):
        with (
            scoped_set_flag(JitFlag.ScatterReduceLocal, is_local),
            scoped_set_flag(JitFlag.KernelHistory, True),
            scoped_set_flag(JitFlag.PrintIR, False),
        ):
            history.kernel_history()
            holder = Holder(array(np.zeros(size), UINT32))
            index = emit2(lo.AND, trace.counter(1000), lit(UINT32, 3))
            memory.scatter(holder, lit(UINT32, 1), index, TRUE, "add")
            assert data(holder._node)[:5].tolist() == [250, 250, 250, 250, 0]
            (entry,) = history.kernel_history([history.KernelType.JIT])
            kernels.append(entry["hash"])
    assert kernels[0] != kernels[1]
