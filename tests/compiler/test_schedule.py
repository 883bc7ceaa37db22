"""Which kernels run: as few as sizes and phases allow, in the right order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.trace import emit2
from lumijit.compiler.launch import evaluate
from lumijit.compiler.plan import schedule
from lumijit.compiler.record import memory
from lumijit.runtime import history
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import BOOL, FLOAT32, INT32, UINT32
from lumijit.runtime.errors import SymbolicError
from tests.compiler.support import Holder, array, branch, check, data, lit, loop

TRUE = trace.make_true(1)


@pytest.fixture(autouse=True, scope="module")
def _history() -> Iterator[None]:
    with scoped_set_flag(JitFlag.KernelHistory, True):
        yield


def launches(*nodes: Node) -> list[int]:
    """Evaluate nodes and return the sizes of the kernels that ran."""
    history.kernel_history()
    check(nodes)
    found = history.kernel_history([history.KernelType.JIT])
    return [entry["size"] for entry in found]


def floats(size: int = 8) -> Node:
    return array(np.arange(size), FLOAT32)


def test_one_size_is_one_kernel() -> None:
    x, y = floats(), floats()
    nodes = [emit2(op, x, y) for op in (ar.ADD, ar.SUB, ar.MUL)]
    nodes.append(trace.cast_to(nodes[0], INT32))
    assert launches(*nodes) == [8]
    assert launches(*nodes) == []


def test_sizes_are_separate_kernels() -> None:
    nodes = [emit2(ar.ADD, x, x) for x in (floats(8), floats(5), floats(1), floats(8))]
    assert sorted(launches(*nodes)) == [1, 5, 8]


def test_size_one_inside_a_larger_kernel_is_recomputed() -> None:
    scale = emit2(ar.ADD, floats(1), lit(FLOAT32, 2))
    total = emit2(ar.MUL, floats(8), scale)
    assert launches(total) == [8]
    assert scale.buffer is None
    assert sorted(launches(scale, emit2(ar.ADD, total, scale))) == [1, 8]


def test_evaluated_and_literal_nodes_need_no_kernel() -> None:
    assert launches(floats(), lit(FLOAT32, 3)) == []
    assert not evaluate.evaluate([floats(), lit(FLOAT32, 3)])
    assert not evaluate.schedule([floats(), lit(FLOAT32, 3)])


def test_empty_arrays_need_no_kernel() -> None:
    empty = array([], FLOAT32)
    assert launches(emit2(ar.ADD, empty, empty)) == []


def test_scheduled_nodes_join_the_next_kernel() -> None:
    x = floats()
    first, second = emit2(ar.ADD, x, x), emit2(ar.MUL, x, x)
    assert evaluate.schedule([first])
    assert launches(second) == [8]
    assert first.buffer is not None
    third = emit2(ar.SUB, x, x)
    evaluate.schedule([third])
    assert evaluate.evaluate_pending()
    assert third.buffer is not None
    assert not evaluate.evaluate_pending()


def test_forgotten_nodes_are_not_computed() -> None:
    evaluate.schedule([emit2(ar.ADD, floats(), floats())])
    assert not evaluate.evaluate_pending()


def test_phases() -> None:
    """Each indexed expression lies in memory one kernel before its gather."""
    at = array([3, 2, 1, 0], UINT32)
    node = emit2(ar.ADD, floats(4), lit(FLOAT32, 1))
    for _ in range(3):
        node = emit2(ar.ADD, memory.gather(node, at, TRUE), lit(FLOAT32, 1))
    found = schedule.plan([node])
    assert [group.phase for group in found.groups] == [0, 1, 2, 3]
    assert launches(node) == [4] * 4


def test_gathers_from_memory_share_a_kernel() -> None:
    table = floats(100)
    at = trace.counter(8)
    nodes = [
        memory.gather(table, emit2(ar.ADD, at, lit(UINT32, k)), TRUE) for k in range(4)
    ]
    assert launches(*nodes) == [8]


def test_effects_of_one_phase_share_a_kernel() -> None:
    holders = [Holder(array(np.zeros(4), INT32)) for _ in range(3)]
    lanes = trace.counter(50)
    for k, holder in enumerate(holders):
        at = emit2(lo.AND, lanes, lit(UINT32, k))
        memory.scatter(holder, lit(INT32, 1), at, TRUE, "add")
        memory.scatter(holder, lit(INT32, 2), at, TRUE, "add")
    value = emit2(ar.MUL, lanes, lanes)
    assert launches(value, *[holder._node for holder in holders]) == [50]


def test_reading_a_write_is_a_phase_of_its_own() -> None:
    holder = Holder(array(np.zeros(4), INT32))
    memory.scatter(holder, lit(INT32, 1), trace.counter(4), TRUE, "add")
    doubled = emit2(ar.ADD, holder._node, holder._node)
    assert launches(doubled) == [4, 4]


def test_different_reductions_run_one_after_the_other() -> None:
    holder = Holder(array(np.zeros(4), INT32))
    lanes = trace.counter(4)
    memory.scatter(holder, lit(INT32, 3), lanes, TRUE, "add")
    memory.scatter(holder, lit(INT32, 5), lanes, TRUE, "mul")
    assert launches(holder._node) == [4, 4]


def test_region_is_one_kernel() -> None:
    start = trace.counter(30)
    (found,) = loop(
        (start,),
        lambda i: emit2(lo.LT, i, lit(UINT32, 20)),
        lambda i: (emit2(ar.ADD, i, lit(UINT32, 3)),),
    )
    cond = emit2(lo.LT, found, lit(UINT32, 22))
    (chosen,) = branch(cond, lambda: (found,), lambda: (start,))
    assert launches(chosen, found, emit2(ar.ADD, chosen, found)) == [30]


def test_fields_of_the_history() -> None:
    history.kernel_history()
    x = floats(1000)
    data(emit2(ar.DIV, emit2(ar.ADD, x, lit(FLOAT32, 0.1)), lit(FLOAT32, 3.3)))
    (entry,) = history.kernel_history()
    assert entry["backend"] is history.JitBackend.LLVM
    assert entry["type"] is history.KernelType.JIT
    assert entry["size"] == 1000
    assert entry["output_count"] == 1
    assert entry["operation_count"] >= 2
    assert entry["execution_time"] > 0
    assert len(entry["hash"]) >= 16


def test_leaked_symbols_are_named() -> None:
    from lumijit.compiler.record import regions

    with regions.scope("my_loop"):
        arg = regions.argument(BOOL, 4, 0)
    with pytest.raises(SymbolicError, match="a variable of my_loop is symbolic"):
        evaluate.evaluate([trace.append(lo.NOT, BOOL, (arg,))])


def chain(turns: int) -> list[Node]:
    """What follows one another through memory; and the sum of what all turns have."""
    x, y, total = floats(), floats(), lit(FLOAT32, 0)
    index = array(np.arange(8)[::-1], UINT32)
    for _ in range(turns):
        found = memory.gather(x, index, TRUE)
        for _ in range(15):
            y = emit2(ar.MUL, emit2(ar.ADD, y, found), lit(FLOAT32, 0.25))
        x = emit2(ar.ADD, x, y)
        total = emit2(ar.ADD, total, emit2(ar.MUL, y, y))
    return [x, total]


def test_phases_do_not_repeat_what_takes_many_operations() -> None:
    counts = []
    for turns in (5, 10):
        history.kernel_history()
        check(chain(turns))
        found = history.kernel_history([history.KernelType.JIT])
        counts.append(max(entry["operation_count"] for entry in found))
        assert len(found) == turns
    assert counts[0] == counts[1] < 120


def test_loops_are_not_repeated_for_what_is_needed_later() -> None:
    x = dr.arange(llvm.Float, 64)

    def turn(i: Any, a: Any, b: Any) -> Any:
        for _ in range(20):
            a, b = b * 0.5 + a, a * 0.25 - b
        return i + 1, a, b

    state = llvm.UInt(0), x, x + 1
    _, a, b = dr.while_loop(state, lambda i, a, b: i < 9, turn)
    index = dr.arange(llvm.UInt, 64)[::-1]
    found = dr.gather(llvm.Float, a, index) + b
    history.kernel_history()
    dr.eval(found)
    kernels = history.kernel_history([history.KernelType.JIT])
    counts = [entry["operation_count"] for entry in kernels]
    assert len(counts) == 2
    assert counts[0] > 50
    assert counts[1] < 20


def test_what_only_one_kernel_needs_is_computed_there() -> None:
    x, source = floats(), emit2(ar.ADD, floats(), lit(FLOAT32, 1))
    for _ in range(40):
        x = emit2(ar.MUL, emit2(ar.ADD, x, x), lit(FLOAT32, 0.25))
    index = array(np.arange(5) % 3, UINT32)
    result = emit2(ar.ADD, memory.gather(source, index, TRUE), lit(FLOAT32, 1))
    history.kernel_history()
    check([result, emit2(ar.ADD, x, memory.gather(x, lit(UINT32, 3), TRUE))])
    found = history.kernel_history([history.KernelType.JIT])
    # x is in memory, as it is read by index; source and result have a kernel each.
    assert [entry["output_count"] for entry in found] == [2, 1, 1]


def _counted(counter: llvm.UInt, at: llvm.UInt) -> llvm.UInt:
    return dr.scatter_inc(counter, at)


def _exchanged(counter: llvm.UInt, at: llvm.UInt) -> llvm.UInt:
    return dr.scatter_exch(counter, dr.opaque(llvm.UInt, 1), at)


def _under_condition(counter: llvm.UInt, at: llvm.UInt) -> llvm.UInt:
    def write(at: llvm.UInt) -> llvm.UInt:
        dr.scatter_add(counter, at + 1, at)
        return at

    return dr.if_stmt((at,), dr.opaque(llvm.Bool, True), write, lambda at: at + 2)


def _called(counter: llvm.UInt, at: llvm.UInt) -> llvm.UInt:
    def write(at: llvm.UInt) -> llvm.UInt:
        dr.scatter_add(counter, at + 1, at)
        return at

    return dr.switch(at, [write, lambda at: at + 2], at)


@pytest.mark.parametrize("write", [_counted, _exchanged, _under_condition, _called])
@pytest.mark.parametrize("has_write_before", [False, True])
def test_writes_of_one_entry_are_not_repeated_for_more_elements(
    write: Any, has_write_before: bool
) -> None:
    counter = dr.zeros(llvm.UInt, 4)
    rows = dr.arange(llvm.UInt, 5) + 1
    if has_write_before:
        dr.scatter_add(counter, rows * 0, rows & 3)
    found = rows * 10 + write(counter, dr.opaque(llvm.UInt, 0))
    dr.eval(found)
    assert list(found) == [10, 20, 30, 40, 50]
    assert list(counter) == [1, 0, 0, 0]
