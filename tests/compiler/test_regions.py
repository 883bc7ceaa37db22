"""Loops and branches: kernels against the interpreter, in all nestings."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from lumijit.compiler import evaluate, memory, regions, trace
from lumijit.compiler.ops import arithmetic as ar
from lumijit.compiler.ops import logic as lo
from lumijit.compiler.ops import mathematics as ma
from lumijit.compiler.trace import Node, cast_to, emit1, emit2, select
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import (
    ARITHMETIC,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    UINT8,
    UINT32,
    DType,
)
from lumijit.runtime.errors import SizeError, StateError, SymbolicError
from tests.compiler.support import (
    ODD_SIZES,
    Holder,
    Nodes,
    array,
    branch,
    check,
    data,
    lit,
    loop,
    random_values,
)

TRUE = trace.make_true(1)
SIZES = (1, 5, 33, 64, 200)


def collatz_steps(start: Node) -> list[Node]:
    """Count steps to 1: a loop with a branch inside."""
    one, two, three = (lit(UINT32, k) for k in (1, 2, 3))

    def body(n: Node, steps: Node) -> Nodes:
        odd = emit2(lo.NE, emit2(lo.AND, n, one), lit(UINT32, 0))
        (following,) = branch(
            odd,
            lambda: (emit2(ar.ADD, emit2(ar.MUL, n, three), one),),
            lambda: (emit2(ar.INT_DIV, n, two),),
        )
        return following, emit2(ar.ADD, steps, one)

    counts = lit(UINT32, 0, start.size)
    return loop((start, counts), lambda n, steps: emit2(lo.GT, n, one), body)


@pytest.mark.parametrize("size", SIZES)
def test_loop_with_branch(size: int) -> None:
    start = emit2(ar.ADD, array(np.arange(size), UINT32), lit(UINT32, 1))
    _, steps = check(collatz_steps(start))

    def plain(n: int) -> int:
        count = 0
        while n > 1:
            n, count = (3 * n + 1 if n % 2 else n // 2), count + 1
        return count

    assert steps.tolist() == [plain(n + 1) for n in range(size)]


@pytest.mark.parametrize("t", ARITHMETIC, ids=lambda t: t.short)
@pytest.mark.parametrize("size", [1, 77])
def test_state_of_every_type(t: DType, size: int) -> None:
    values = np.arange(size) % 23
    limit = array(values % 7, UINT32)
    found = loop(
        (array(values, t), lit(UINT32, 0, size)),
        lambda x, i: emit2(lo.LT, i, limit),
        lambda x, i: (
            emit2(ar.ADD, x, lit(t, 3)),
            emit2(ar.ADD, i, lit(UINT32, 1)),
        ),
    )
    x, _ = check(found)
    assert x.tolist() == (values + 3 * (values % 7)).astype(t.numpy).tolist()


@pytest.mark.parametrize("size", ODD_SIZES)
def test_bool_state(size: int) -> None:
    """Flags that decide, flip and pass through."""
    numbers = array(np.arange(size), UINT32)
    inits = (lit(BOOL, True, size), lit(BOOL, False, size), lit(UINT32, 0, size))

    def body(going: Node, flipped: Node, i: Node) -> Nodes:
        following = emit2(ar.ADD, i, lit(UINT32, 1))
        return emit2(lo.LT, following, numbers), emit1(lo.NOT, flipped), following

    going, flipped, i = check(loop(inits, lambda g, f, i: g, body))
    steps = np.maximum(np.arange(size), 1)
    assert not going.any()
    assert flipped.tolist() == (steps % 2 == 1).tolist()
    assert i.tolist() == steps.tolist()


@pytest.mark.parametrize("size", SIZES)
def test_nested_loops(size: int) -> None:
    """The inner trip count depends on the outer counter and the lane."""
    lanes = array(np.arange(size), UINT32)
    one = lit(UINT32, 1)

    def outer(i: Node, total: Node) -> Nodes:
        def inner(j: Node, part: Node) -> Nodes:
            return emit2(ar.ADD, j, one), emit2(ar.ADD, part, emit2(ar.MUL, i, j))

        bound = emit2(ar.ADD, i, emit2(lo.AND, lanes, lit(UINT32, 3)))
        zero = lit(UINT32, 0)
        _, found = loop((zero, total), lambda j, p: emit2(lo.LT, j, bound), inner, size)
        return emit2(ar.ADD, i, one), found

    zero = lit(UINT32, 0, size)
    limit = emit2(lo.AND, lanes, lit(UINT32, 7))
    _, total = check(
        loop((zero, zero), lambda i, t: emit2(lo.LT, i, limit), outer, size)
    )
    expected = [
        sum(i * j for i in range(k % 8) for j in range(i + k % 4)) for k in range(size)
    ]
    assert total.tolist() == expected


@pytest.mark.parametrize("size", SIZES)
def test_nested_branches_with_loops(size: int) -> None:
    x = array(random_values(FLOAT32, size), FLOAT32)

    def halved() -> Nodes:
        (small,) = loop(
            (x,),
            lambda v: emit2(lo.GT, v, lit(FLOAT32, 1)),
            lambda v: (emit2(ar.MUL, v, lit(FLOAT32, 0.5)),),
        )
        return (emit1(ma.SIN, small),)

    def negative() -> Nodes:
        (found,) = branch(
            emit2(lo.LT, x, lit(FLOAT32, -20)),
            lambda: (emit1(ar.SQRT, emit1(ar.NEG, x)),),
            lambda: (emit2(ar.ADD, x, lit(FLOAT32, 100)),),
        )
        return (found,)

    check(branch(emit2(lo.GT, x, lit(FLOAT32, 0)), halved, negative), ulps=4)


def test_invariants_and_dead_state() -> None:
    """An argument handed through is its initial value; unread state may vanish."""
    size = 40
    x = array(np.arange(size), FLOAT32)
    y = array(np.arange(size) * 2, FLOAT32)
    inits = (x, y, lit(FLOAT64, 1, size), lit(UINT32, 0, size))

    def body(a: Node, b: Node, dead: Node, i: Node) -> Nodes:
        grown = emit2(ar.MUL, dead, lit(FLOAT64, 3))
        return emit2(ar.ADD, a, b), b, grown, emit2(ar.ADD, i, lit(UINT32, 1))

    results = loop(inits, lambda a, b, d, i: emit2(lo.LT, i, lit(UINT32, 5)), body)
    assert results[1] is y
    (total,) = check(results[:1])
    assert total.tolist() == [k + 10.0 * k for k in range(size)]
    check([results[2], results[0]])


def test_swapped_state() -> None:
    """All next values are computed from the former ones."""
    a, b = array([1, 2, 3], FLOAT32), array([4, 5, 6], FLOAT32)
    i = array([0, 1, 2], UINT32)
    found = loop(
        (a, b, i),
        lambda x, y, k: emit2(lo.LT, k, lit(UINT32, 3)),
        lambda x, y, k: (y, x, emit2(ar.ADD, k, lit(UINT32, 1))),
    )
    x, y, _ = check(found)
    assert (x.tolist(), y.tolist()) == ([4, 2, 6], [1, 5, 3])


def test_loop_that_never_runs() -> None:
    x = array([1, 2, 3], FLOAT32)
    never = trace.append(lo.NOT, BOOL, (array([True] * 3, BOOL),))
    (found,) = check(loop((x,), lambda v: never, lambda v: (emit2(ar.ADD, v, v),)))
    assert found.tolist() == [1, 2, 3]


def test_empty_arrays() -> None:
    x = array([], FLOAT32)
    (found,) = loop(
        (x,),
        lambda v: emit2(lo.LT, v, lit(FLOAT32, 3)),
        lambda v: (emit2(ar.ADD, v, v),),
        0,
    )
    assert data(found).size == 0
    (chosen,) = branch(emit2(lo.LT, x, x), lambda: (x,), lambda: (emit2(ar.ADD, x, x),))
    assert data(chosen).size == 0


def test_region_used_twice() -> None:
    """Results may be evaluated together, one after the other, and be reused."""
    start = emit2(ar.ADD, array(np.arange(50), UINT32), lit(UINT32, 1))
    final, steps = collatz_steps(start)
    doubled = emit2(ar.ADD, steps, steps)
    check([doubled])
    check([steps])
    check([final, emit2(ar.ADD, final, steps)])


def test_region_feeds_region() -> None:
    start = emit2(ar.ADD, array(np.arange(30), UINT32), lit(UINT32, 1))
    _, steps = collatz_steps(start)
    _, again = collatz_steps(emit2(ar.ADD, steps, lit(UINT32, 1)))
    check([again, steps])


def test_halves_and_doubles_in_branches() -> None:
    for t in (FLOAT16, FLOAT64, UINT8):
        x = array(np.arange(70) % 11, t)
        check(
            branch(
                emit2(lo.LT, x, lit(t, 5)),
                lambda x=x, t=t: (emit2(ar.MUL, x, lit(t, 3)), x),
                lambda x=x, t=t: (x, emit2(ar.ADD, x, lit(t, 1))),
            )
        )


def test_uniform_condition_and_results() -> None:
    x = array(np.arange(9), FLOAT32)
    for flag in (True, False):
        cond = array([flag], BOOL)
        found = branch(cond, lambda: (x,), lambda: (emit1(ar.NEG, x),))
        check(found)


# Effects


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


# Errors


def test_different_sizes_in_a_region() -> None:
    a, b = array(np.zeros(8), FLOAT32), array(np.zeros(7), FLOAT32)
    with pytest.raises(SizeError, match=r"branch: .*incompatible sizes"):
        branch(
            emit2(lo.LT, a, a),
            lambda: (emit2(ar.ADD, b, b),),
            lambda: (b,),
        )


def test_two_holders_of_one_array() -> None:
    shared = array([0, 0], UINT32)
    first, second = Holder(shared), Holder(shared)

    def yes() -> Nodes:
        memory.scatter(first, lit(UINT32, 1), lit(UINT32, 0), TRUE)
        memory.scatter(second, lit(UINT32, 2), lit(UINT32, 1), TRUE)
        return ()

    cond = emit2(lo.LT, trace.counter(3), lit(UINT32, 1))
    with pytest.raises(StateError, match="share their contents are both written"):
        branch(cond, yes, lambda: (), (first, second))


def test_symbolic_values_stay_inside() -> None:
    with regions.scope("while_loop") as inner:
        arg = regions.argument(FLOAT32, 8, 0)
        total = emit2(ar.ADD, arg, arg)
        with pytest.raises(SymbolicError, match="a variable of while_loop is symbolic"):
            evaluate.schedule([total])
    assert inner is total.scope
    outside = emit2(ar.ADD, total, lit(FLOAT32, 1))
    with pytest.raises(SymbolicError, match="nor used after the region"):
        evaluate.evaluate([outside])


def test_failed_body_restores_arrays() -> None:
    holder = Holder(array([1, 2], UINT32))
    before = holder._node

    def body(i: Node) -> Nodes:
        memory.scatter(holder, i, lit(UINT32, 0), TRUE)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop((lit(UINT32, 0, 4),), lambda i: emit2(lo.LT, i, i), body)
    assert holder._node is before
    assert trace.state.scope is trace.ROOT


def test_reading_written_contents_inside() -> None:
    holder = Holder(array([1, 2], UINT32))

    def yes() -> Nodes:
        memory.scatter(holder, lit(UINT32, 0), lit(UINT32, 0), TRUE)
        with pytest.raises(SymbolicError, match="was written to inside this symbolic"):
            memory.gather(holder._node, lit(UINT32, 0), TRUE)
        return ()

    cond = emit2(lo.LT, trace.counter(3), lit(UINT32, 1))
    branch(cond, yes, lambda: (), (holder,))


def test_without_value_numbering_and_folding() -> None:
    with (
        scoped_set_flag(JitFlag.ValueNumbering, False),
        scoped_set_flag(JitFlag.ConstantPropagation, False),
    ):
        x = array(np.arange(20), FLOAT32)
        (found,) = loop(
            (x,),
            lambda v: emit2(lo.LT, v, lit(FLOAT32, 30)),
            lambda v: (emit2(ar.ADD, select(TRUE, v, v), lit(FLOAT32, 7)),),
        )
        check([found])
