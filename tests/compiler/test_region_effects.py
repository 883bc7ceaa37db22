"""Writes inside loops and branches: once, in order, and only where active."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.roles import is_effect
from lumijit.compiler.ir.trace import cast_to, emit2
from lumijit.compiler.launch import evaluate
from lumijit.compiler.plan.program import iterate_all
from lumijit.compiler.record import memory
from lumijit.runtime.dtypes import (
    INT32,
    UINT32,
)
from tests.compiler.support import (
    Holder,
    Nodes,
    array,
    branch,
    check,
    data,
    lit,
    loop,
)

pytestmark = pytest.mark.usefixtures("each_target")

TRUE = trace.make_true(1)
SIZES = (1, 5, 33, 64, 200)


@pytest.mark.parametrize("size", SIZES)
def test_writes_inside_a_loop(size: int) -> None:
    """Each lane fills its own row, as many entries as its number modulo 5."""
    holder = Holder(array(np.full(size * 5, 7), INT32))
    lanes = trace.counter(size)
    row = emit2(ar.MUL, lanes, lit(UINT32, 5))
    length = emit2(ar.MOD, lanes, lit(UINT32, 5))

    def body(i: Node) -> Nodes:
        value = cast_to(emit2(ar.MUL, i, i), INT32)
        memory.scatter(holder, value, emit2(ar.ADD, row, i), TRUE)
        return (emit2(ar.ADD, i, lit(UINT32, 1)),)

    counter = lit(UINT32, 0, size)
    (i,) = loop((counter,), lambda i: emit2(lo.LT, i, length), body)
    _, rows = check([i, holder._node])
    expected = [k * k if k < lane % 5 else 7 for lane in range(size) for k in range(5)]
    assert rows.tolist() == expected


@pytest.mark.parametrize("mode", ["auto", "direct", "expand", "local"])
def test_reductions_inside_a_loop(mode: str) -> None:
    size = 100
    holder = Holder(array(np.zeros(4), UINT32))
    lanes = trace.counter(size)

    def body(i: Node) -> Nodes:
        at = emit2(lo.AND, emit2(ar.ADD, lanes, i), lit(UINT32, 3))
        memory.scatter(holder, i, at, TRUE, "add", mode)
        return (emit2(ar.ADD, i, lit(UINT32, 1)),)

    limit = emit2(lo.AND, lanes, lit(UINT32, 7))
    loop((lit(UINT32, 0, size),), lambda i: emit2(lo.LT, i, limit), body)
    (bins,) = check([holder._node])
    expected = [0] * 4
    for lane in range(size):
        for i in range(lane & 7):
            expected[(lane + i) & 3] += i
    assert bins.tolist() == expected


def test_writes_in_a_branch_in_a_loop_in_a_branch() -> None:
    size = 60
    first = Holder(array(np.zeros(size), UINT32))
    second = Holder(array(np.zeros(2), UINT32))
    lanes = trace.counter(size)

    def body(i: Node) -> Nodes:
        def yes() -> Nodes:
            memory.scatter(first, i, lanes, TRUE, "add")
            return ()

        def no() -> Nodes:
            memory.scatter(second, lit(UINT32, 1), lit(UINT32, 1), TRUE, "add")
            return ()

        even = emit2(lo.EQ, emit2(lo.AND, i, lit(UINT32, 1)), lit(UINT32, 0))
        branch(even, yes, no, (first, second))
        return (emit2(ar.ADD, i, lit(UINT32, 1)),)

    def yes() -> Nodes:
        limit = emit2(lo.AND, lanes, lit(UINT32, 7))
        return tuple(
            loop((lit(UINT32, 0, size),), lambda i: emit2(lo.LT, i, limit), body)
        )

    def no() -> Nodes:
        memory.scatter(second, lit(UINT32, 1), lit(UINT32, 0), TRUE, "add")
        return (lanes,)

    cond = emit2(lo.LT, lanes, lit(UINT32, 40))
    found = branch(cond, yes, no, (first, second))
    result, a, b = check([*found, first._node, second._node])
    sums = [sum(range(0, k & 7, 2)) if k < 40 else 0 for k in range(size)]
    assert result.tolist() == [k & 7 if k < 40 else k for k in range(size)]
    assert a.tolist() == sums
    assert b.tolist() == [20, sum((k & 7) // 2 for k in range(40))]


def test_several_writes_to_one_array_inside() -> None:
    """The versions made inside have the array's size, not the region's."""
    lanes = trace.counter(20)
    holder = Holder(array(np.zeros(3), UINT32))

    def yes() -> Nodes:
        for k in (1, 2, 1):
            memory.scatter(holder, lit(UINT32, k), lit(UINT32, k), TRUE, "add")
        return ()

    branch(emit2(lo.LT, lanes, lit(UINT32, 15)), yes, lambda: (), (holder,))
    (found,) = check([holder._node])
    assert found.tolist() == [0, 30, 30]


def test_gather_inside_regions() -> None:
    """Pointer chasing: the index is loop state, the table is captured."""
    table = array(np.array([3, 0, 4, 1, 2]), UINT32)
    size = 50
    start = emit2(ar.MOD, trace.counter(size), lit(UINT32, 5))

    def body(at: Node, i: Node) -> Nodes:
        odd = emit2(lo.EQ, emit2(lo.AND, i, lit(UINT32, 1)), lit(UINT32, 1))
        (following,) = branch(
            odd, lambda: (memory.gather(table, at, TRUE),), lambda: (at,)
        )
        return following, emit2(ar.ADD, i, lit(UINT32, 1))

    limit = emit2(lo.AND, trace.counter(size), lit(UINT32, 15))
    check(
        loop((start, lit(UINT32, 0, size)), lambda at, i: emit2(lo.LT, i, limit), body)
    )


def test_reading_the_former_contents_of_a_target() -> None:
    """What is read inside a region before its write is the array as it was."""
    size = 20
    before = array(np.arange(size), UINT32)
    holder = Holder(before)
    lanes = trace.counter(size)
    mirrored = emit2(ar.SUB, lit(UINT32, size - 1), lanes)

    def yes() -> Nodes:
        old = memory.gather(before, mirrored, TRUE)
        memory.scatter(holder, old, lanes, TRUE)
        return (old,)

    cond = emit2(lo.LT, lanes, lit(UINT32, 15))
    found = branch(cond, yes, lambda: (lanes,), (holder,))
    _, after = check([*found, holder._node])
    assert after.tolist() == [19 - k if k < 15 else k for k in range(size)]
    assert data(before).tolist() == list(range(size))


def test_pending_writes_come_before_a_region() -> None:
    holder = Holder(array(np.zeros(4), UINT32))
    lanes = trace.counter(4)
    memory.scatter(holder, lit(UINT32, 5), lit(UINT32, 1), TRUE)
    written = holder._node

    def yes() -> Nodes:
        old = memory.gather(written, lanes, TRUE)
        memory.scatter(holder, emit2(ar.ADD, lanes, old), lanes, TRUE, "add")
        return ()

    branch(emit2(lo.LT, lanes, lit(UINT32, 3)), yes, lambda: (), (holder,))
    memory.scatter(holder, lit(UINT32, 100), lit(UINT32, 0), TRUE, "add")
    before, after = check([written, holder._node])
    assert before.tolist() == [0, 5, 0, 0]
    assert after.tolist() == [100, 11, 2, 0]


def test_counting_inside_a_loop() -> None:
    size = 64
    holder = Holder(array([5], UINT32))
    lanes = trace.counter(size)
    out = Holder(array(np.zeros(400), UINT32))

    def body(i: Node) -> Nodes:
        slot = memory.scatter_inc(holder, lit(UINT32, 0), TRUE)
        memory.scatter(out, lit(UINT32, 1), slot, TRUE)
        return (emit2(ar.ADD, i, lit(UINT32, 1)),)

    limit = emit2(lo.AND, lanes, lit(UINT32, 3))
    loop((lit(UINT32, 0, size),), lambda i: emit2(lo.LT, i, limit), body)
    evaluate.evaluate([holder._node, out._node])
    total = sum(k & 3 for k in range(size))
    assert data(holder._node).tolist() == [5 + total]
    marks = data(out._node)
    assert marks[5 : 5 + total].all()
    assert marks.sum() == total


def test_effects_happen_once() -> None:
    """Results asked for after the effects have run don't repeat them."""
    holder = Holder(array([0, 0], UINT32))
    lanes = trace.counter(40)

    def body(i: Node, total: Node) -> Nodes:
        memory.scatter(holder, lit(UINT32, 1), lit(UINT32, 1), TRUE, "add")
        return emit2(ar.ADD, i, lit(UINT32, 1)), emit2(ar.ADD, total, lanes)

    zero = lit(UINT32, 0, 40)
    i, total = loop((zero, zero), lambda i, t: emit2(lo.LT, i, lit(UINT32, 3)), body)
    evaluate.evaluate([i])
    assert data(holder._node).tolist() == [0, 120]
    assert data(total).tolist() == [3 * k for k in range(40)]
    assert data(emit2(ar.ADD, total, total)).tolist() == [6 * k for k in range(40)]
    assert data(holder._node).tolist() == [0, 120]


def test_unread_effects_happen_with_the_next_evaluation() -> None:
    holder = Holder(array([0], UINT32))
    cond = emit2(lo.LT, trace.counter(10), lit(UINT32, 4))

    def yes() -> Nodes:
        memory.scatter(holder, lit(UINT32, 1), lit(UINT32, 0), TRUE, "add")
        return ()

    branch(cond, yes, lambda: (), (holder,))
    evaluate.evaluate_pending()
    assert data(holder._node).tolist() == [4]


def _forgotten_nodes() -> list[weakref.ref[Node]]:
    holder = Holder(array([0] * 8, UINT32))
    arrays = [weakref.ref(holder._node)]

    def body(i: Node) -> Nodes:
        memory.scatter(holder, i, trace.counter(8), TRUE)
        arrays.append(weakref.ref(i))
        return (emit2(ar.ADD, i, lit(UINT32, 1)),)

    zero = lit(UINT32, 0, 8)
    (i,) = loop((zero,), lambda i: emit2(lo.LT, i, lit(UINT32, 3)), body)
    arrays.append(weakref.ref(i))
    return arrays


def test_regions_die_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        assert [entry() for entry in _forgotten_nodes()] == [None] * 3
    finally:
        gc.enable()


def test_empty_regions_write_nothing() -> None:
    holder = Holder(array([5, 6, 7], UINT32))
    empty = array([], UINT32)

    def yes() -> Nodes:
        memory.scatter(holder, lit(UINT32, 9), lit(UINT32, 1), TRUE, "add")
        return (emit2(ar.ADD, empty, lit(UINT32, 1)),)

    cond = emit2(lo.LT, empty, lit(UINT32, 3))
    (found,) = branch(cond, yes, lambda: (empty,), (holder,))
    loop((empty,), lambda i: emit2(lo.LT, i, i), lambda i: yes(), 0)
    evaluate.evaluate([found, holder._node])
    assert data(found).size == 0
    assert data(holder._node).tolist() == [5, 6, 7]


def test_what_a_counter_returned_is_stored_with_any_other_result() -> None:
    """Evaluating one result carries out the count: the rest can't be had later."""
    holder = Holder(array([0], UINT32))
    always = trace.make_true(1)

    def body(i: Node, slot: Node, total: Node) -> Nodes:
        fresh = memory.scatter_inc(holder, lit(UINT32, 0), always)
        return emit2(ar.ADD, i, lit(UINT32, 1)), fresh, emit2(ar.ADD, total, i)

    zero = lit(UINT32, 0, 10)
    results = loop(
        (zero, zero, zero), lambda i, s, t: emit2(lo.LT, i, lit(UINT32, 2)), body
    )
    assert data(results[2]).tolist() == [1] * 10
    assert data(holder._node).tolist() == [20]
    assert sorted(data(results[1])) == list(range(10, 20))


def test_what_was_recorded_stays() -> None:
    """Evaluation takes the writes out of a region: of its node, not of the region."""
    numbers = Holder(array(np.zeros(4), UINT32))
    sums = Holder(array(np.zeros(8), UINT32))

    def body(i: Node, found: Node) -> Nodes:
        old = memory.scatter_inc(numbers, emit2(lo.AND, i, lit(UINT32, 3)), TRUE)
        here = emit2(lo.LT, i, lit(UINT32, 2))

        def write() -> Nodes:
            memory.scatter(sums, emit2(ar.ADD, i, lit(UINT32, 1)), i, TRUE, "add")
            return (emit2(ar.MUL, found, lit(UINT32, 3)),)

        (new,) = branch(here, write, lambda: (found,), (sums,))
        memory.scatter(sums, old, i, TRUE, "max")
        return emit2(ar.ADD, i, lit(UINT32, 1)), new

    start = trace.counter(8)
    i, found = loop(
        (lit(UINT32, 0, 8), start), lambda i, _: emit2(lo.LT, i, lit(UINT32, 4)), body
    )
    node = found.deps[0]
    region, deps = node.attr, node.deps
    recorded = [
        (inner, inner.op, inner.deps, inner.attr) for inner in iterate_all([node])
    ]
    evaluate.evaluate([sums._node])
    assert node.attr is not region
    for inner, op, operands, attr in recorded[1:]:
        assert (inner.op, inner.deps, inner.attr) == (op, operands, attr)
    assert data(found).tolist() == [9 * k for k in range(8)]
    assert data(i).tolist() == [4] * 8
    assert is_effect(recorded[0][0]) is False
    assert len(region.blocks) == 2
    assert len(deps) > len(node.deps)
