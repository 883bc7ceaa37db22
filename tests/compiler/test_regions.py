"""Loops and branches: kernels against the interpreter, in all nestings."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT, Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops import mathematics as ma
from lumijit.compiler.ir.trace import emit1, emit2, select
from lumijit.compiler.launch import evaluate, kernels
from lumijit.compiler.lower.packet.target import PacketTarget
from lumijit.compiler.plan.program import Program
from lumijit.compiler.record import memory, regions
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.contexts import apart
from lumijit.runtime.dtypes import (
    ARITHMETIC,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
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

pytestmark = pytest.mark.usefixtures("each_target")

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
        apart(partial(loop, (lit(UINT32, 0, 4),), lambda i: emit2(lo.LT, i, i), body))
    assert holder._node is before
    assert trace.state.scope is ROOT


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


@pytest.mark.parametrize("is_cheap", [True, False])
def test_cheap_branches_in_branches_are_computed_without_tests(is_cheap: bool) -> None:
    x = array(np.arange(77), FLOAT32)
    few, most = (emit2(lo.LT, x, lit(FLOAT32, k)) for k in (20, 50))
    op = ar.NEG if is_cheap else ma.LGAMMA

    def inner() -> Nodes:
        return tuple(
            branch(few, lambda: (emit2(ar.ADD, x, x),), lambda: (emit1(op, x),))
        )

    [result] = branch(most, inner, lambda: (emit1(ar.ABS, x),))
    program = Program(77, [result], [], 0)
    text = PacketTarget().code(program, "kernel", kernels.target()).ir
    assert ("\nenter" in text) is not is_cheap
    check([result], ulps=4)
