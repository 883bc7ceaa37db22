"""Uniform values: every operation also works as a scalar; what loops gain by them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.record import REGISTRY, Op
from lumijit.compiler.ir.trace import emit1, emit2, emit3
from lumijit.compiler.launch import kernels
from lumijit.compiler.lower.packet.target import PacketTarget
from lumijit.compiler.plan.program import Program
from lumijit.compiler.record import local, memory, regions
from lumijit.compiler.record.memory import gather
from lumijit.runtime.dtypes import BOOL, FLOAT32, INTS, UINT32, DType
from tests.compiler.support import Holder, Nodes, array, branch, check, lit, loop

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


# Loops

SIZE = 37


def u(value: int) -> Node:
    return lit(UINT32, value)


def lanes() -> Node:
    return array(np.arange(SIZE), UINT32)


def code(nodes: list[Node]) -> str:
    """Return the text of a kernel from the first loop on."""
    ir = PacketTarget().code(Program(SIZE, nodes, [], 0), "kernel", kernels.target()).ir
    return ir[ir.index("\nloop") :]


def step(i: Node) -> Node:
    return emit2(ar.ADD, i, u(1))


def test_a_loop_that_all_lanes_leave_together_needs_no_mask() -> None:
    x = lanes()
    results = loop(
        (u(0), x),
        lambda i, _: emit2(lo.LT, i, u(5)),
        lambda i, y: (step(i), emit2(ar.ADD, y, emit2(ar.MUL, y, i))),
        SIZE,
    )
    text = code(results)
    assert " select <" not in text
    assert ".active" not in text
    check(results)


def test_all_lanes_read_one_entry() -> None:
    table, ends = array(np.arange(50) * 3, UINT32), array([4, 9, 2], UINT32)
    x = lanes()

    def body(i: Node, y: Node) -> Nodes:
        return step(i), emit2(ar.ADD, y, gather(table, emit2(ar.MUL, i, u(4)), TRUE))

    def cond(i: Node, _: Node) -> Node:
        # The end is an entry that all lanes read, too.
        return emit2(lo.LT, i, gather(ends, u(1), TRUE))

    results = loop((u(0), x), cond, body, SIZE)
    text = code(results)
    assert "masked.gather" not in text
    assert "extractelement" not in text
    assert " select <" not in text
    check(results)


def test_an_entry_that_all_lanes_leave_out_is_zero() -> None:
    table = array(np.arange(4) + 7, UINT32)

    def body(i: Node, y: Node) -> Nodes:
        inside = emit2(lo.LT, i, u(4))
        # Most of these are far outside of the table.
        place = emit2(ar.MUL, i, trace.select(inside, u(1), u(1 << 28)))
        return step(i), emit2(ar.ADD, y, gather(table, place, inside))

    check(loop((u(0), lanes()), lambda i, _: emit2(lo.LT, i, u(9)), body, SIZE))


def test_only_results_keep_what_they_were_in_lanes_that_left() -> None:
    def cond(i: Node, y: Node) -> Node:
        more = emit2(lo.LT, emit2(ar.MUL, y, y), u(1000))
        return emit2(lo.AND, more, emit2(lo.LT, i, u(20)))

    def body(i: Node, y: Node) -> Nodes:
        return step(i), emit2(ar.ADD, emit2(ar.MUL, y, u(2)), i)

    i, y = loop((u(0), lanes()), cond, body, SIZE)
    assert code([i]).count(" select <") == 1
    assert code([y]).count(" select <") == 1
    assert code([i, y]).count(" select <") == 2
    # The counter is compared once for all lanes.
    assert "icmp ult i32" in code([i])
    check([i, y])


@pytest.mark.parametrize("is_together", [True, False])
def test_results_are_uniform_if_all_lanes_left_together(is_together: bool) -> None:
    table = array(np.arange(50) * 3, UINT32)
    end = u(7) if is_together else emit2(ar.MOD, lanes(), u(9))
    (i,) = loop((u(0),), lambda i: emit2(lo.LT, i, end), lambda i: (step(i),), SIZE)
    total = emit2(ar.ADD, gather(table, i, TRUE), lanes())
    text = code([total])
    assert ("extractelement" in text or "masked.gather" in text) is not is_together
    check([total])


def filled(is_together: bool) -> tuple[Node, list[Node]]:
    """Fill local memory in a loop, up to its third entry; return how many turns."""
    end = u(5) if is_together else emit2(ar.MOD, lanes(), u(6))
    holder = local.allocate(UINT32, 4, u(9))
    with regions.scope("loop", SIZE, is_loop=True) as body:
        i = regions.argument(UINT32, SIZE, 0)
        value = emit2(ar.ADD, lanes(), i)
        local.write(holder, value, i, emit2(lo.LT, i, u(3)))
        args = (trace.resized(u(0), SIZE),), (i,), emit2(lo.LT, i, end), (step(i),)
    (turns,) = regions.close_loop(body, *args)[1]
    return turns, [local.read(holder, u(k), TRUE) for k in range(4)]


@pytest.mark.parametrize("is_together", [True, False])
def test_what_all_lanes_write_at_once_is_one_store(is_together: bool) -> None:
    _, entries = filled(is_together)
    text = code(entries)
    body = text[: text.index(".done:")]
    assert (" select <" not in body) is is_together
    check(entries)


@pytest.mark.parametrize("op", ["min", "max", "and", "or", "add"])
@pytest.mark.parametrize("least", [4, 5, 6])
def test_lanes_update_an_entry_once_by_what_they_share(op: str, least: int) -> None:
    def target() -> Holder:
        return Holder(array([4, 4, 4], UINT32))

    def written(holder: Holder) -> Node:
        turns, _ = filled(True)
        mask = emit2(lo.GE, turns, u(least))
        memory.scatter(holder, trace.resized(turns, SIZE), u(1), mask, op, "direct")
        return holder._node

    node = written(target())
    text = PacketTarget().code(
        Program(SIZE, [], [node.deps[0]], 0), "k", kernels.target()
    )
    assert ("cttz" in text.ir) is (op == "add")
    check([written(target())])


def test_an_inner_counter_goes_on_where_the_last_loop_left_it() -> None:
    table = array(np.arange(99) % 13, UINT32)

    def outer(i: Node, k: Node, y: Node) -> Nodes:
        def inner(j: Node, k: Node, y: Node) -> Nodes:
            return step(j), step(k), emit2(ar.ADD, y, gather(table, k, TRUE))

        _, k, y = loop((u(0), k, y), lambda j, k, y: emit2(lo.LT, j, i), inner, SIZE)
        return step(i), k, y

    start = (u(0), u(0), lanes())
    end = emit2(ar.MOD, lanes(), u(7))
    for limit in (u(8), end):
        check(loop(start, lambda i, k, y, e=limit: emit2(lo.LT, i, e), outer, SIZE))


def test_a_branch_that_all_lanes_take_together_tests_no_lane() -> None:
    def body(i: Node, y: Node) -> Nodes:
        even = emit2(lo.EQ, emit2(lo.AND, i, u(1)), u(0))
        (y,) = branch(
            even,
            lambda: (emit2(ar.INT_DIV, emit2(ar.INT_DIV, y, u(3)), u(2)),),
            lambda: (emit2(ar.MUL, y, u(5)),),
        )
        return step(i), y

    results = loop((u(0), lanes()), lambda i, _: emit2(lo.LT, i, u(9)), body, SIZE)
    assert not re.search(r"bitcast <\d+ x i1>", code(results))
    check(results)


def test_floats_count_where_they_are_exact() -> None:
    def body(t: Node, y: Node) -> Nodes:
        t = emit2(ar.ADD, t, lit(FLOAT32, 0.1))
        return t, emit2(ar.ADD, y, emit2(ar.DIV, t, lit(FLOAT32, 3)))

    x = trace.cast_to(lanes(), FLOAT32)
    start = (lit(FLOAT32, 0), x)
    results = loop(start, lambda t, _: emit2(lo.LT, t, lit(FLOAT32, 1)), body, SIZE)
    assert " select <" not in code(results)
    check(results)


@pytest.mark.parametrize("deep", [False, True])
def test_lanes_that_break_leave_the_counter_to_the_others(deep: bool) -> None:
    table = array(np.arange(50) * 3, UINT32)
    no, yes = lit(BOOL, False), lit(BOOL, True)

    def going_on(i: Node, y: Node) -> Nodes:
        return step(i), emit2(ar.ADD, y, gather(table, i, TRUE)), no

    def body(i: Node, y: Node, _: Node) -> Nodes:
        def rest() -> Nodes:
            if not deep:
                return going_on(i, y)
            odd = emit2(lo.EQ, emit2(lo.AND, y, u(15)), u(7))
            return tuple(branch(odd, lambda: (i, y, yes), lambda: going_on(i, y)))

        far = emit2(lo.LT, u(60), y)
        return tuple(branch(far, lambda: (i, emit2(ar.ADD, y, i), yes), rest))

    def cond(i: Node, _: Node, broke: Node) -> Node:
        return emit2(lo.AND, emit1(lo.NOT, broke), emit2(lo.LT, i, u(9)))

    i, y, _ = loop((u(0), lanes(), no), cond, body, SIZE)
    text = code([i, y])
    assert "extractelement" not in text
    assert "masked.gather" not in text
    assert "icmp ult i32" in text
    check([i, y])
