"""How wide packets are: what a loop keeps in registers, and how long it waits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import numpy as np
import pytest

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.structural import GATHER, LOOP
from lumijit.compiler.ir.quotients import quotient
from lumijit.compiler.ir.trace import emit1, emit2
from lumijit.compiler.launch import kernels
from lumijit.compiler.lower.common.demand import Demand
from lumijit.compiler.lower.packet.shape import is_innermost, shape
from lumijit.compiler.lower.packet.target import PacketTarget
from lumijit.compiler.lower.packet.uniform import find_uniform
from lumijit.compiler.plan.program import Program
from lumijit.compiler.record.memory import gather
from lumijit.runtime.buffers import PADDING_BYTES
from lumijit.runtime.dtypes import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    UINT8,
    UINT16,
    UINT32,
    DType,
)
from tests.compiler.support import Nodes, array, lit, loop

SIZE = 37
VECTORS = TargetInfo(lanes_f32=8)
MASKS = TargetInfo(lanes_f32=16, has_masks=True, has_avx512=True)


def values(count: int, t: DType = FLOAT32) -> Nodes:
    return tuple(array(np.arange(SIZE) + k, t) for k in range(count))


def repeated(body: Callable[..., Nodes], state: Nodes) -> list[Node]:
    """Loop nine times for all lanes."""

    def step(i: Node, *args: Node) -> Nodes:
        return emit2(ar.ADD, i, lit(UINT32, 1)), *body(i, *args)

    start = (lit(UINT32, 0), *state)
    return loop(start, lambda i, *_: emit2(lo.LT, i, lit(UINT32, 9)), step, SIZE)[1:]


def halved(_: Node, *args: Node) -> Nodes:
    return tuple(emit2(ar.MUL, a, lit(a.type, 0.5)) for a in args)


def turned(_: Node, *args: Node) -> Nodes:
    """Make every value of two."""
    after = (*args[1:], args[0])
    return tuple(
        emit2(ar.MUL, emit2(ar.ADD, a, b), lit(a.type, 0.5))
        for a, b in zip(args, after, strict=True)
    )


def rooted(_: Node, *args: Node) -> Nodes:
    return tuple(emit1(ar.SQRT, emit2(ar.DIV, a, lit(a.type, 3))) for a in args)


def width(nodes: list[Node], target: TargetInfo) -> int:
    return PacketTarget().code(Program(SIZE, nodes, [], 0), "kernel", target).width


@pytest.mark.parametrize(
    ("body", "count", "dtype", "narrow", "wide"),
    [
        (halved, 1, FLOAT32, 32, 64),
        (halved, 1, FLOAT64, 32, 64),
        (turned, 5, FLOAT32, 16, 64),
        (turned, 3, FLOAT64, 16, 64),
        (turned, 12, FLOAT32, 8, 32),
        (turned, 24, FLOAT32, 8, 16),
    ],
)
def test_the_more_is_live_the_narrower(
    body: Callable[..., Nodes], count: int, dtype: DType, narrow: int, wide: int
) -> None:
    results = repeated(body, values(count, dtype))
    assert width(results, VECTORS) == narrow
    assert width(results, MASKS) == wide


@pytest.mark.parametrize(
    ("dtype", "narrow", "wide"),
    [
        (FLOAT64, 16, 32),
        (FLOAT32, 16, 32),
        (FLOAT16, 16, 32),
        (UINT16, 32, 64),
        (UINT8, 64, 128),
        (BOOL, 16, 128),
    ],
)
def test_two_registers_of_the_widest_numbers(
    dtype: DType, narrow: int, wide: int
) -> None:
    """Halves are computed as singles, and without mask registers masks are words."""
    a, b = values(2, dtype)
    result = emit2(lo.AND if dtype is BOOL else ar.ADD, a, b)
    assert width([result], VECTORS) == narrow
    assert width([result], MASKS) == wide


def test_four_registers_of_bytes_in_runs() -> None:
    """Without mask registers, and unless many are live at once."""
    number, every = trace.counter(SIZE), trace.make_true(SIZE)
    memory = array(np.zeros(5000), UINT8)
    reads = [
        gather(memory, emit2(ar.ADD, number, lit(UINT32, k)), every) for k in range(5)
    ]
    for count, lanes in ((1, 128), (2, 128), (5, 64)):
        found = reduce(partial(emit2, ar.ADD), reversed(reads[:count]))
        assert width([found], VECTORS) == lanes
        assert width([found], MASKS) == 128


def test_masks_that_are_only_moved_are_bytes() -> None:
    """Also without mask registers, where those that are looked at are words."""
    number, length = trace.counter(SIZE), lit(UINT32, 5)
    row = quotient(number, length)
    assert row is not None
    column = emit2(ar.SUB, number, emit2(ar.MUL, row, length))
    every = trace.make_true(SIZE)
    start = gather(array(np.arange(5000), UINT32), row, every)
    place = emit2(ar.ADD, emit2(ar.MUL, start, length), column)
    mask = array(np.arange(5000) % 3 == 0, BOOL)
    found = gather(mask, place, every)
    assert width([found], VECTORS) == 128
    some = array(np.arange(SIZE) % 2 == 0, BOOL)
    assert width([emit2(lo.XOR, found, some)], VECTORS) == 16
    assert width([gather(mask, place, some)], VECTORS) == 16


@pytest.mark.parametrize(("dtype", "lanes"), [(UINT8, 128), (UINT16, 64)])
def test_what_rows_have_in_common_is_no_number_of_each_lane(
    dtype: DType, lanes: int
) -> None:
    """Bytes of rows that are looked up, as of `x[rows]`."""
    start, length = trace.counter(SIZE), lit(UINT32, 5)
    row = quotient(start, length)
    assert row is not None
    column = emit2(ar.SUB, start, emit2(ar.MUL, row, length))
    rows = array(np.arange(5000), UINT32)
    found = gather(rows, row, trace.make_true(SIZE))
    place = emit2(ar.ADD, emit2(ar.MUL, found, length), column)
    result = gather(array(np.arange(5000), dtype), place, trace.make_true(SIZE))
    assert width([result], MASKS) == lanes
    # Of the sum, each lane has one.
    assert width([emit2(ar.ADD, found, start)], MASKS) == 32


@pytest.mark.parametrize(
    ("dtype", "count", "lanes"),
    [(FLOAT32, 9, 32), (FLOAT32, 24, 16), (FLOAT64, 4, 32), (FLOAT64, 12, 16)],
)
def test_one_register_where_much_is_live(dtype: DType, count: int, lanes: int) -> None:
    halves = halved(trace.make_true(1), *values(count, dtype))
    total = halves[0]
    for half in halves[1:]:
        total = emit2(ar.ADD, total, half)
    results = [emit2(ar.MUL, half, total) for half in halves]
    assert width(results, MASKS) == lanes
    assert width(results, VECTORS) == 16
    places = emit1(ar.NEG, array(np.arange(SIZE), UINT32))
    read = gather(array(np.arange(50), dtype), places, trace.make_true(SIZE))
    assert width([*results, read], MASKS) == 32


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, UINT16, UINT8])
def test_packets_end_within_the_padding(dtype: DType) -> None:
    """What is the same in all lanes is stored as a packet, too."""
    table = array(np.arange(50), dtype)
    result = gather(table, lit(UINT32, 3), trace.make_true(SIZE))
    assert result.size == SIZE
    lanes = width([result], MASKS)
    assert lanes == 32 * max(1, 4 // dtype.size_bytes)
    assert lanes * dtype.size_bytes <= PADDING_BYTES


def test_a_shape_leaves_out_what_is_uniform() -> None:
    table = array(np.arange(50), FLOAT32)

    def body(i: Node, x: Node) -> Nodes:
        one = gather(table, i, trace.make_true(1))
        return (emit2(ar.ADD, x, emit2(ar.MUL, one, one)),)

    program = Program(SIZE, repeated(body, values(1)), [], 0)
    demand = Demand(program)
    (node,) = [n for n in program.nodes if n.op is LOOP]
    turn = shape(node, demand, find_uniform(program, demand).nodes)
    assert is_innermost(node, demand)
    assert (turn.accesses, turn.cost, turn.chain) == (0, 2, 8)


def test_entries_that_differ_between_lanes_keep_loops_from_being_lean() -> None:
    table = array(np.arange(50), UINT32)

    def body(i: Node, x: Node) -> Nodes:
        return (gather(table, x, trace.make_true(1)),)

    assert width(repeated(body, values(1, UINT32)), VECTORS) == 16


def test_waiting_allows_for_more_that_is_live() -> None:
    assert width(repeated(rooted, values(1)), VECTORS) == 32
    program = Program(SIZE, repeated(rooted, values(1)), [], 0)
    demand = Demand(program)
    (node,) = [n for n in program.nodes if n.op is LOOP]
    turn = shape(node, demand, find_uniform(program, demand).nodes)
    assert turn.waits(4)
    assert not turn._replace(cost=100).waits(4)


def test_loops_inside_decide() -> None:
    def outer(i: Node, *args: Node) -> Nodes:
        return tuple(repeated(turned, args))

    results = repeated(outer, values(12))
    program = Program(SIZE, results, [], 0)
    demand = Demand(program)
    loops = [n for n in program.all_nodes() if n.op is LOOP]
    assert [is_innermost(n, demand) for n in loops] == [False, True]
    assert width(results, VECTORS) == 8


def test_the_width_of_this_processor_is_one_of_its_registers() -> None:
    target = kernels.target()
    found = width(repeated(halved, values(1)), target)
    assert found % target.lanes_f32 == 0


@pytest.mark.parametrize(("rows", "wide"), [(1, 32), (2, 16)])
def test_rows_of_neighbours_take_registers(rows: int, wide: int) -> None:
    """With AVX-512 more than one takes one register (docs/decisions/packets.md)."""
    source = array(np.arange(SIZE), FLOAT32)
    nodes = []
    for k in range(rows):
        index = array(np.arange(SIZE) % 7 + k, UINT32)
        mask = trace.make_true(1)
        nodes += [
            trace.append(GATHER, FLOAT32, (source, index, mask), o, SIZE)
            for o in range(3)
        ]
    assert width(nodes, VECTORS) == 16
    assert width(nodes, MASKS) == wide


@pytest.mark.parametrize("is_state", [False, True])
@pytest.mark.parametrize(("stride", "wide"), [(512, 16), (1, 32)])
def test_lanes_that_walk_along_rows_take_one_register(
    stride: int, wide: int, is_state: bool
) -> None:
    """As the index that is passed on, or as one that a counter is added to."""
    table = array(np.arange(50_000), FLOAT32)
    counter = trace.counter(SIZE)
    start = emit2(ar.MUL, counter, lit(UINT32, stride)) if stride > 1 else counter

    def body(i: Node, place: Node, x: Node) -> Nodes:
        at = place if is_state else emit2(ar.ADD, place, i)
        after = emit2(ar.ADD, place, lit(UINT32, 1)) if is_state else place
        read = gather(table, at, trace.make_true(1))
        return after, emit2(ar.ADD, x, read)

    assert width(repeated(body, (start, *values(1)))[-1:], MASKS) == wide
