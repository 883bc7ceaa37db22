"""Buffers as values of the trace: order of accesses, copies, kernels, rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumijit.compiler.ir import local_types, trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.trace import emit2
from lumijit.compiler.launch import evaluate, kernels
from lumijit.compiler.lower.packet.target import PacketTarget
from lumijit.compiler.plan.program import Program
from lumijit.compiler.record import local, regions
from lumijit.runtime.dtypes import BOOL, FLOAT32, UINT32
from tests.compiler.support import ODD_SIZES, array, check, data, lit
from tests.tools.printer import format_nodes
from tests.verifier.verify import VerificationError, verify

pytestmark = pytest.mark.usefixtures("each_target")

TRUE = trace.make_true(1)


def u(value: int) -> Node:
    return lit(UINT32, value)


def filled(length: int, value: Node) -> local.Buffer:
    return local.allocate(UINT32, length, value)


def entries(holder: local.Buffer) -> list[Node]:
    return [local.read(holder, u(k), TRUE) for k in range(holder.type.length)]


def lowered(outputs: list[Node]) -> str:
    """Return the IR of the kernel that computes nodes of one size."""
    program = Program(outputs[0].size, outputs, [], 0)
    return PacketTarget().code(program, "kernel", kernels.target()).ir


def goes_lane_by_lane(outputs: list[Node]) -> bool:
    """Tell whether lanes access memory apart, be that by one instruction."""
    code = lowered(outputs)
    return any(
        s in code
        for s in ("extractelement", "@llvm.masked.gather", "@llvm.masked.scatter")
    )


def areas(outputs: list[Node]) -> int:
    """Count the buffers that a kernel has memory for."""
    return lowered(outputs).count("alloca")


@pytest.mark.parametrize("size", ODD_SIZES)
def test_writes_at_varying_positions(size: int) -> None:
    lanes = array(np.arange(size), UINT32)
    holder = filled(7, lanes)
    for k in range(3):
        place = emit2(ar.MOD, emit2(ar.MUL, lanes, u(k + 1)), u(7))
        local.write(holder, emit2(ar.ADD, lanes, u(100 * k)), place, TRUE)
    check(entries(holder))


def test_reads_come_before_the_write_that_follows() -> None:
    lanes = array(np.arange(20), UINT32)
    holder = filled(4, lanes)
    before = local.read(holder, lanes, emit2(lo.LT, lanes, u(4)))
    local.write(holder, u(9), u(1), TRUE)
    after = local.read(holder, u(1), TRUE)
    # The older value is needed last, and yet the write happens in place.
    total = emit2(ar.ADD, emit2(ar.MUL, after, u(2)), before)
    assert areas([total]) == 1
    check([total])


def test_a_version_that_is_read_later_is_copied() -> None:
    lanes = array(np.arange(20), UINT32)
    holder = filled(4, lanes)
    old = local.copy(holder)
    local.write(holder, u(9), u(1), TRUE)
    late = local.read(old, u(1), TRUE)
    new = local.read(holder, u(1), emit2(lo.LT, lanes, u(50)))
    outputs = [emit2(ar.SUB, new, late)]
    assert areas(outputs) == 2
    check(outputs)


def test_loops_and_branches_write_in_place() -> None:
    lanes = array(np.arange(70), UINT32)
    holder = filled(8, lanes)
    old = holder._node
    with regions.scope("loop", 70, is_loop=True) as body:
        i = regions.argument(UINT32, 70, 0)
        cond = emit2(lo.LT, i, emit2(ar.MOD, lanes, u(8)))
        odd = emit2(lo.EQ, emit2(lo.AND, lanes, u(1)), u(1))
        with regions.scope("true", 70) as yes:
            found = local.read(holder, i, TRUE)
            local.write(holder, emit2(ar.ADD, found, i), u(0), TRUE)
        with regions.scope("false", 70) as no:
            local.write(holder, i, i, TRUE)
        regions.close_branch(odd, (yes, no), ((), ()))
        following = emit2(ar.ADD, i, u(1))
    start = trace.resized(u(0), 70)
    regions.close_loop(body, (start,), (i,), cond, (following,))
    results = entries(holder)
    assert areas([emit2(ar.ADD, results[0], results[1])]) == 1
    assert holder._node is not old
    check(results)


def exchange(count: int, order: list[int], turns: list[int]) -> list[Node]:
    """Permute whole buffers in a loop, with a write to the first one in each turn."""
    size = len(turns)
    limit = array(turns, UINT32)
    starts = [filled(3, emit2(ar.ADD, limit, u(10 * k)))._node for k in range(count)]
    with regions.scope("exchange", size, is_loop=True) as body:
        i = regions.argument(UINT32, size, 0)
        args = [
            regions.argument(s.type, size, k) for k, s in enumerate(starts, start=1)
        ]
        cond = emit2(lo.LT, i, limit)
        changed = local.Buffer(args[0])
        local.write(changed, emit2(ar.ADD, i, u(50)), emit2(ar.MOD, i, u(3)), TRUE)
        versions = [changed._node, *args[1:]]
        outputs = [versions[k] for k in order]
        following = emit2(ar.ADD, i, u(1))
    _, results = regions.close_loop(
        body,
        (trace.resized(u(0), size), *starts),
        (i, *args),
        cond,
        (following, *outputs),
    )
    return [e for r in results[1:] for e in entries(local.Buffer(r))]


@settings(max_examples=20, deadline=None)
@given(data=st.data(), count=st.integers(1, 3))
def test_loops_exchange_buffers(data: st.DataObject, count: int) -> None:
    order = data.draw(
        st.lists(st.integers(0, count - 1), min_size=count, max_size=count)
    )
    turns = data.draw(st.lists(st.integers(0, 5), min_size=2, max_size=20))
    check(exchange(count, order, turns))


@pytest.mark.parametrize("size", [5, 40])
@pytest.mark.parametrize("length", [3, 20])
def test_choice_between_buffers(size: int, length: int) -> None:
    lanes = array(np.arange(size), UINT32)
    first, second = filled(length, lanes), filled(length, u(1000))
    odd = emit2(lo.EQ, emit2(lo.AND, lanes, u(1)), u(1))
    with regions.scope("true") as yes:
        pass
    with regions.scope("false") as no:
        inner = local.copy(second)
        local.write(inner, lanes, emit2(ar.MOD, lanes, u(length)), TRUE)
    outputs = ((first._node,), (inner._node,))
    _, (chosen,) = regions.close_branch(odd, (yes, no), outputs)
    picked = local.Buffer(chosen)
    local.write(picked, u(7), u(0), odd)
    check([*entries(picked), *entries(first), *entries(second)])


def test_equal_reads_are_one() -> None:
    holder = filled(4, u(1))
    index = array([1, 2], UINT32)
    assert local.read(holder, index, TRUE) is local.read(holder, index, TRUE)


def test_an_entry_just_written_is_not_read() -> None:
    holder = filled(4, array([1, 2], UINT32))
    index, value = array([1, 2], UINT32), array([5, 6], UINT32)
    local.write(holder, value, index, TRUE)
    assert local.read(holder, index, TRUE) is value


def test_uniform_positions_are_vector_accesses() -> None:
    lanes = array(np.arange(40), UINT32)
    holder = filled(16, lanes)
    with regions.scope("loop", 40, is_loop=True) as body:
        i = regions.argument(UINT32, 40, 0)
        cond = emit2(lo.LT, i, emit2(ar.MOD, lanes, u(9)))
        found = local.read(holder, emit2(ar.ADD, i, u(3)), TRUE)
        local.write(holder, emit2(ar.ADD, found, lanes), i, TRUE)
        following = emit2(ar.ADD, i, u(1))
    start = trace.resized(u(0), 40)
    _, (last,) = regions.close_loop(body, (start,), (i,), cond, (following,))
    results = entries(holder)
    assert not goes_lane_by_lane(results)
    # After the loop, lanes differ in what they counted.
    there = local.read(holder, last, TRUE)
    assert goes_lane_by_lane([there])
    check([*results, there])


def test_counters_that_lanes_change_apart_are_not_uniform() -> None:
    lanes = array(np.arange(40), UINT32)
    holder = filled(16, lanes)
    with regions.scope("loop", 40, is_loop=True) as body:
        i = regions.argument(UINT32, 40, 0)
        j = regions.argument(UINT32, 40, 1)
        cond = emit2(lo.LT, i, u(9))
        local.write(holder, u(1), j, TRUE)
        step = trace.select(emit2(lo.LT, lanes, u(5)), u(1), u(0))
        outputs = (emit2(ar.ADD, i, u(1)), emit2(ar.ADD, j, step))
    start = trace.resized(u(0), 40)
    regions.close_loop(body, (start, start), (i, j), cond, outputs)
    results = entries(holder)
    assert goes_lane_by_lane(results)
    check(results)


def test_dead_accesses_vanish() -> None:
    holder = filled(4, u(1))
    with regions.scope("loop", 4, is_loop=True) as body:
        i = regions.argument(UINT32, 4, 0)
        cond = emit2(lo.LT, i, u(9))
        local.write(holder, i, i, TRUE)
        following = emit2(ar.ADD, i, u(1))
    start = trace.resized(u(0), 4)
    _, (last,) = regions.close_loop(body, (start,), (i,), cond, (following,))
    # What is left is the result.
    assert lowered([last]).count("store") == 1
    assert check([last])[0].tolist() == [9] * 4


def test_large_buffers_are_not_on_the_stack() -> None:
    lanes = array(np.arange(100), UINT32)
    holder = filled(5000, lanes)
    local.write(holder, u(3), emit2(ar.MUL, lanes, u(50)), TRUE)
    found = local.read(holder, emit2(ar.MUL, lanes, u(25)), TRUE)
    ir = lowered([found])
    assert "alloca" not in ir
    assert "%thread" in ir.split("packet:")[0]
    check([found])


def test_buffers_in_memory_are_read_where_they_are() -> None:
    lanes = array(np.arange(100), UINT32)
    holder = filled(5, lanes)
    evaluate.evaluate([holder._node])
    found = local.read(holder, emit2(ar.MOD, lanes, u(5)), TRUE)
    assert areas([found]) == 0
    local.write(holder, u(1), u(1), TRUE)
    assert areas([local.read(holder, u(1), emit2(lo.LT, lanes, u(3)))]) == 1
    check([found, *entries(holder)])


def test_uniform_buffers_in_memory_serve_all_lanes() -> None:
    holder = filled(12, u(4))
    local.write(holder, u(5), u(1), TRUE)
    evaluate.evaluate([holder._node])
    lanes = array(np.arange(30), UINT32)
    found = local.read(holder, emit2(ar.MOD, lanes, u(12)), TRUE)
    assert check([found])[0].tolist() == [5 if n % 12 == 1 else 4 for n in range(30)]


def test_the_key_leaves_out_constant_positions() -> None:
    holder = filled(9, array(np.arange(3), UINT32))
    keys = {
        Program(3, [local.read(holder, u(k), TRUE)], [], 0).key for k in range(1, 9)
    }
    assert len(keys) == 1


def test_types() -> None:
    kind = local_types.local_type(FLOAT32, 10)
    assert kind is local_types.local_type(FLOAT32, 10)
    assert kind.name == "Local[Float32, 10]"
    assert kind.size_bytes == 40
    indices = {
        local_types.local_type(t, n).index
        for t in (BOOL, FLOAT32, UINT32)
        for n in (0, 1, 9)
    }
    assert len(indices) == 9


def test_listing() -> None:
    holder = filled(2, u(0))
    local.write(holder, u(7), u(1), TRUE)
    found = local.read(holder, u(0), TRUE)
    assert format_nodes([found]).splitlines() == [
        "%0 = local u32x2[1] 0",
        "%1 = local_write u32x2[1] %0, 1, 7, true",
        "%2 = local_read u32[1] %1, 0, true",
        "return %2",
    ]


def broken_nodes() -> list[tuple[str, Node]]:
    holder = filled(2, u(0))
    local.write(holder, u(7), u(1), TRUE)

    def read() -> Node:
        return local.read(holder, array([0], UINT32), TRUE)

    def changed(**fields: object) -> Node:
        node = read()
        for name, value in fields.items():
            setattr(node, name, value)
        return node

    first = read()
    buffer, index, mask = first.deps
    return [
        ("the number of operands is right", changed(deps=(buffer, index))),
        ("local memory has buffers", changed(deps=(index, index, mask))),
        ("the index has the right type", changed(deps=(buffer, mask, mask))),
        ("the mask has the right type", changed(deps=(buffer, index, index))),
        ("the result has the right type", changed(type=FLOAT32)),
        ("its attribute is its serial", changed(attr=None)),
        ("accesses are numbered in their order", changed(attr=0)),
    ]


@pytest.mark.parametrize("k", range(7))
def test_rules(k: int) -> None:
    rule, node = broken_nodes()[k]
    with pytest.raises(VerificationError, match=rule):
        verify([node])


def test_threads_have_memory_of_their_own() -> None:
    size = 50_000
    lanes = trace.counter(size)
    holder = filled(2000, u(0))
    with regions.scope("loop", size, is_loop=True) as body:
        i = regions.argument(UINT32, size, 0)
        cond = emit2(lo.LT, i, u(20))
        place = emit2(ar.MOD, emit2(ar.ADD, emit2(ar.MUL, i, u(97)), lanes), u(2000))
        found = local.read(holder, place, TRUE)
        local.write(holder, emit2(ar.ADD, found, lanes), place, TRUE)
        following = emit2(ar.ADD, i, u(1))
    start = trace.resized(u(0), size)
    regions.close_loop(body, (start,), (i,), cond, (following,))
    found = local.read(holder, emit2(ar.MOD, lanes, u(2000)), TRUE)
    assert data(found).tolist() == list(range(size))
