"""Reductions, prefix sums and compaction: all types, block boundaries, threads."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.ir.trace import emit2
from lumijit.compiler.launch import named_kernels
from lumijit.compiler.lower import collectives
from lumijit.compiler.plan.program import STREAMING_FROM
from lumijit.compiler.record import glances, reductions, sorting
from lumijit.runtime import workers
from lumijit.runtime.dtypes import (
    ARITHMETIC,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    UINT8,
    UINT32,
    VALUES,
    DType,
)
from lumijit.runtime.errors import SizeError
from tests.compiler.support import Array, array, assert_same, data, lit, random_values
from tests.runtime.support import run_script

SIZES = (1, 2, 63, 64, 65, 255, 257, 16383, 16384, 16385, 65535, 65536, 65537, 200_000)
OPS = {
    "add": ar.ADD,
    "mul": ar.MUL,
    "min": ar.MIN,
    "max": ar.MAX,
    "and": lo.AND,
    "or": lo.OR,
}
IDS: dict[str, Any] = {"ids": lambda t: t.short}


def operations(t: DType) -> tuple[str, ...]:
    if t.is_bool:
        return ("and", "or")
    return ("add", "mul", "min", "max") if t.is_float else tuple(OPS)


CASES = [
    pytest.param(op, t, id=f"{op}-{t.short}") for t in VALUES for op in operations(t)
]


@pytest.fixture(params=[1, 2, 3, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = workers.thread_count()
    workers.set_thread_count(request.param)
    yield request.param
    workers.set_thread_count(before)


def exact_values(op: str, t: DType, size: int) -> Array:
    """Return values whose combination is exact in any order."""
    if not t.is_float:
        return random_values(t, size, size)
    rng = np.random.default_rng(size)
    if op == "mul":
        signs = rng.choice([1.0, -1.0], size)
        signs[: min(size, 5)] *= 2
        return signs.astype(t.numpy)
    return rng.integers(-8, 9, size).astype(t.numpy)


def combined(op: str, values: Array, axis: int | None = None) -> Any:
    wide = values.astype(np.float64) if values.dtype.kind == "f" else values
    function = {
        "add": np.add,
        "mul": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
    }[op]
    kind: dict[str, Any] = {"dtype": wide.dtype} if op in ("add", "mul") else {}
    with np.errstate(all="ignore"):
        return np.asarray(function.reduce(wide, axis=axis, **kind)).astype(values.dtype)


@pytest.mark.parametrize(("op", "t"), CASES)
def test_reduce(op: str, t: DType) -> None:
    for size in SIZES:
        values = exact_values(op, t, size)
        node = reductions.reduce(op, array(values, t))
        assert node.size == 1
        assert node.type is t
        assert_same(data(node), combined(op, values).reshape(1))


@pytest.mark.parametrize(("op", "t"), CASES)
def test_reduce_of_literals(op: str, t: DType) -> None:
    for size, value in ((7, 1), (1000, 3), (5, 0)):
        node = reductions.reduce(op, lit(t, value, size))
        assert node.op is LITERAL
        plain = np.full(size, t.wrap(value), t.numpy)
        with np.errstate(all="ignore"):
            expected = combined(op, plain)
        if op == "mul" and t is FLOAT16 and value == 3:
            expected = np.float16(np.inf)
        assert data(node)[0] == expected


@pytest.mark.parametrize(("op", "t"), CASES)
def test_reduce_of_nothing_is_neutral(op: str, t: DType) -> None:
    neutral = data(reductions.reduce(op, array([], t)))
    value = array(exact_values(op, t, 1), t)
    if t.is_bool:
        assert neutral[0] == (op == "and")
        return
    both = emit2(OPS[op], array(neutral, t), value)
    assert_same(data(both), data(value))


@pytest.mark.parametrize("t", FLOATS, **IDS)
def test_reduce_of_special_values(t: DType) -> None:
    values = np.array([1, np.inf, -3, np.nan] * 40, t.numpy)
    assert np.isnan(data(reductions.reduce("add", array(values, t)))[0])
    assert data(reductions.reduce("max", array(values, t)))[0] == np.inf
    assert data(reductions.reduce("min", array(values, t)))[0] == -3
    zeros = np.full(100, -0.0, t.numpy)
    assert np.signbit(data(reductions.reduce("add", array(zeros, t)))[0])


def test_sum_of_an_expression_is_accurate() -> None:
    size = 200_000
    x = array(np.linspace(0, 1, size), FLOAT32)
    total = reductions.reduce("add", emit2(ar.MUL, x, x))
    exact = np.sum(np.linspace(0, 1, size).astype(np.float32).astype(np.float64) ** 2)
    assert abs(float(data(total)[0]) / exact - 1) < 1e-6


@pytest.mark.parametrize(("op", "t"), CASES)
def test_block_reduce(op: str, t: DType) -> None:
    for size, block in ((12, 3), (256, 64), (65 * 40, 65), (200_000, 1000), (8, 8)):
        values = exact_values(op, t, size)
        node = reductions.block_reduce(op, array(values, t), block)
        expected = combined(op, values.reshape(-1, block), axis=1)
        assert_same(data(node), expected)


@pytest.mark.parametrize(("op", "t"), CASES)
def test_blocks_of_every_length(op: str, t: DType) -> None:
    for block in (*range(2, 35), 48, 63, 64, 65, 96, 127, 129, 200):
        values = exact_values(op, t, block * 37)
        node = reductions.block_reduce(op, array(values, t), block)
        assert_same(data(node), combined(op, values.reshape(-1, block), axis=1))


@pytest.mark.parametrize(("op", "t"), CASES)
@pytest.mark.parametrize(("runs", "block"), [(1, 6 << 16), (3, 5 << 16), (4, 131_101)])
def test_few_long_runs_are_combined_in_pieces(
    runs: int, block: int, op: str, t: DType
) -> None:
    values = exact_values(op, t, runs * block)
    node = reductions.block_reduce(op, array(values, t), block)
    assert_same(data(node), combined(op, values.reshape(runs, block), axis=1))


@pytest.mark.parametrize("block", [2, 3, 7, 9, 16, 24, 33, 64, 100])
def test_special_values_stay_in_their_block(block: int) -> None:
    values = np.full((50, block), -0.0, np.float32)
    values[1::3, block - 1] = np.inf
    values[2::3, 0] = np.nan
    found = data(reductions.block_reduce("add", array(values.ravel(), FLOAT32), block))
    np.testing.assert_array_equal(found, combined("add", values, axis=1))
    assert np.signbit(found[0::3]).all()
    low = data(reductions.block_reduce("min", array(values.ravel(), FLOAT32), block))
    np.testing.assert_array_equal(low[0::3], -0.0)
    np.testing.assert_array_equal(low[1::3], -0.0)


@pytest.mark.parametrize("block", [2, 5, 8, 14, 16, 21, 32])
def test_many_blocks_on_threads(block: int, threads: int) -> None:
    values = random_values(UINT32, 200_000 // block * block)
    found = data(reductions.block_reduce("add", array(values, UINT32), block))
    assert_same(found, combined("add", values.reshape(-1, block), axis=1))


@pytest.mark.parametrize("op", ["and", "or"])
def test_every_byte_but_zero_is_a_set_entry(op: str) -> None:
    """What masks in uninitialised memory hold, or those that NumPy writes to."""
    rng = np.random.default_rng(0)
    for size in (5, 64, 5000, 70_000):
        numbers = rng.integers(0, 256, size, np.uint8)
        numbers[rng.random(size) < 0.5] = 0 if op == "or" else 2
        raw = mask_of_bytes(numbers)
        right = combined(op, numbers != 0)
        assert (data(reductions.reduce(op, raw))[0] != 0) == right
        blocks = data(reductions.block_reduce(op, raw, 5 if size == 5 else 8))
        expected = combined(op, (numbers != 0).reshape(blocks.size, -1), axis=1)
        np.testing.assert_array_equal(blocks.view(np.uint8) != 0, expected)


@pytest.mark.parametrize("size", [2, 8192, 8193, 65_536, 65_537, 200_000])
def test_masks_that_one_entry_decides(size: int) -> None:
    """The host looks at the first entries; kernels at the others."""
    for at in {0, size - 1, min(size, glances.FEW) - 1, glances.FEW % size}:
        values = np.zeros(size, bool)
        values[at] = True
        mask, inverse = array(values, BOOL), array(~values, BOOL)
        assert data(reductions.reduce("or", mask))[0]
        assert not data(reductions.reduce("and", inverse))[0]
        assert reductions.is_any_set(mask)
    unset, full = array(np.zeros(size, bool), BOOL), array(np.ones(size, bool), BOOL)
    assert not reductions.is_any_set(unset)
    assert not data(reductions.reduce("or", unset))[0]
    assert data(reductions.reduce("and", full))[0]


@pytest.mark.parametrize("runs", [1, 3, glances.FEW_RUNS, glances.FEW_RUNS + 1])
@pytest.mark.parametrize("run", [64, 256, 257, 5000])
def test_runs_of_masks_that_one_entry_decides(run: int, runs: int) -> None:
    """A glance at each run tells, or not: the results are the same."""
    few = glances.FEW // runs
    for at in {0, run - 1, min(run, few) - 1, few % run, -1}:
        numbers = np.zeros((runs, run), np.uint8)
        if at >= 0:
            # Any byte but zero is set; one run may tell later than the others, or not.
            numbers[:, at] = 3
            numbers[-1, : at + 1] = numbers[-1, : at + 1][::-1]
        mask, inverse = (
            mask_of_bytes(numbers.ravel()),
            array(numbers.ravel() == 0, BOOL),
        )
        assert_bools(reductions.block_reduce("or", mask, run), (numbers != 0).any(1))
        assert_bools(
            reductions.block_reduce("and", inverse, run), (numbers == 0).all(1)
        )
        largest = data(sorting.extreme_places(mask, run, "max"))
        np.testing.assert_array_equal(largest, (numbers != 0).argmax(1))
        least = data(sorting.extreme_places(inverse, run, "min"))
        np.testing.assert_array_equal(least, (numbers == 0).argmin(1))


def assert_bools(node: Node, expected: Array) -> None:
    np.testing.assert_array_equal(data(node).view(np.uint8) != 0, expected)


def mask_of_bytes(numbers: Array) -> Node:
    node = array(numbers, UINT8)
    assert node.buffer is not None
    return trace.from_buffer(BOOL, node.buffer, node.size)


def test_compress_of_any_bytes(threads: int) -> None:
    rng = np.random.default_rng(threads)
    for size in (1, 63, 64, 65, 1000, 16384, 100_000):
        numbers = rng.integers(0, 256, size, np.uint8)
        numbers[rng.random(size) < rng.random()] = 0
        found = data(reductions.compress(mask_of_bytes(numbers)))
        np.testing.assert_array_equal(found, np.flatnonzero(numbers))


def test_block_reduce_edges() -> None:
    x = array(np.arange(6), INT32)
    assert reductions.block_reduce("add", x, 1) is x
    assert data(reductions.block_reduce("add", array([], INT32), 4)).size == 0
    assert data(reductions.block_reduce("add", lit(INT32, 2, 6), 3)).tolist() == [6, 6]
    for block in (4, 0, -1):
        with pytest.raises(SizeError, match=f"no multiple of the block size {block}"):
            reductions.block_reduce("add", x, block)


@pytest.mark.parametrize("t", ARITHMETIC, **IDS)
@pytest.mark.parametrize("exclusive", [False, True])
def test_prefix_sum(t: DType, exclusive: bool) -> None:
    for size in SIZES:
        values = exact_values("add", t, size)
        if t is FLOAT16:
            values = np.sign(values)
        found = data(reductions.prefix("add", array(values, t), exclusive))
        wide = values.astype(np.float64) if t.is_float else values
        sums = np.cumsum(wide, dtype=wide.dtype)
        if exclusive:
            sums = np.concatenate([[wide.dtype.type(0)], sums[:-1]])
        # A sum of 0 may have either sign.
        np.testing.assert_array_equal(found, sums.astype(t.numpy))
        assert found.dtype == t.numpy


@pytest.mark.parametrize("t", ARITHMETIC, **IDS)
@pytest.mark.parametrize("exclusive", [False, True])
def test_prefix_sums_written_past_the_caches(
    t: DType, exclusive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reductions, "STREAMING_FROM", 0)
    test_prefix_sum(t, exclusive)


def test_a_large_prefix_sum() -> None:
    size = (STREAMING_FROM >> 3) + 5
    values = (np.arange(size, dtype=np.uint32) * 2654435761) >> 7
    found = data(reductions.prefix("add", array(values, UINT32), False))
    np.testing.assert_array_equal(found, np.cumsum(values, dtype=np.uint32))


def test_prefix_sum_of_nothing_and_literals() -> None:
    assert data(reductions.prefix("add", array([], FLOAT32), True)).size == 0
    sums = data(reductions.prefix("add", lit(UINT32, 3, 1000), False))
    assert sums.tolist() == [3 * (k + 1) for k in range(1000)]


@pytest.mark.parametrize("density", [0.0, 0.01, 0.05, 0.2, 0.5, 0.95, 1.0])
def test_compress(density: float) -> None:
    for size in (*SIZES, 0):
        mask = np.random.default_rng(size).random(size) < density
        node = reductions.compress(array(mask, BOOL))
        assert node.type is UINT32
        np.testing.assert_array_equal(data(node), np.flatnonzero(mask))


def test_compress_of_an_expression_and_a_literal() -> None:
    x = array(np.arange(100), UINT8)
    from lumijit.compiler.ir.ops import logic as lo

    node = reductions.compress(emit2(lo.LT, lit(UINT8, 95), x))
    assert data(node).tolist() == [96, 97, 98, 99]
    assert data(reductions.compress(trace.make_true(4))).tolist() == [0, 1, 2, 3]


def results(t: DType, size: int) -> list[Array]:
    """Return all that depends on the order of additions."""
    rng = np.random.default_rng(5)
    x = array(rng.normal(0, 1, size) * 10.0 ** rng.integers(-3, 4, size), t)
    nodes: list[Node] = [
        reductions.reduce("add", x),
        reductions.prefix("add", x, False),
        reductions.prefix("add", x, True),
        reductions.block_reduce("add", x, size // 100),
    ]
    return [data(node) for node in nodes]


@pytest.mark.parametrize("t", [FLOAT32, FLOAT64], **IDS)
def test_same_bits_on_any_number_of_threads(t: DType, threads: int) -> None:
    size = 500_000
    found = results(t, size)
    workers.set_thread_count(1)
    for one, other in zip(results(t, size), found, strict=True):
        assert one.tobytes() == other.tobytes()


def test_all_on_threads(threads: int) -> None:
    size = 300_001
    values = random_values(UINT32, size)
    x = array(values, UINT32)
    mask = values % 3 == 0
    for _ in range(5):
        assert data(reductions.reduce("add", x))[0] == np.sum(values, dtype=np.uint32)
        sums = data(reductions.prefix("add", x, False))
        np.testing.assert_array_equal(sums, np.cumsum(values, dtype=np.uint32))
        places = data(reductions.compress(array(mask, BOOL)))
        np.testing.assert_array_equal(places, np.flatnonzero(mask))


BLOCK = collectives.scan_block(FLOAT32)


@pytest.mark.packets("others wait for earlier blocks")
@pytest.mark.parametrize("t", [FLOAT32, FLOAT64, UINT8, INT32], **IDS)
@pytest.mark.parametrize("order", ["descending", "random"])
def test_blocks_of_a_scan_wait_for_no_other(t: DType, order: str) -> None:
    """A block whose predecessors have not been run adds them up itself."""
    size = 9 * BLOCK + 77
    values = random_values(t, size)
    source, result = array(values, t), array(np.zeros(size), t)
    expected = data(reductions.prefix("add", source, False))
    name = f"scan_add_inclusive_{t.short}"
    kernel = named_kernels.get(name, collectives.scan_ir, "add", t, False, False)
    sums, ready = np.zeros(10, t.numpy), np.zeros(10, np.int32)
    slots: tuple[int, ...]
    slots = (source.buffer.address, result.buffer.address)  # type: ignore[union-attr]
    slots = (*slots, sums.ctypes.data, ready.ctypes.data, BLOCK)
    blocks = np.arange(10)[::-1]
    if order == "random":
        blocks = np.random.default_rng(2).permutation(10)
    _run_blocks(kernel, slots, size, blocks)
    assert ready.all()
    assert_same(data(result), expected)


@pytest.mark.packets("others wait for earlier blocks")
def test_blocks_of_a_compaction_wait_for_no_other() -> None:
    size = 9 * BLOCK + 77
    mask = random_values(BOOL, size)
    source, result = array(mask, BOOL), array(np.zeros(size), UINT32)
    expected = data(reductions.compress(source))
    kernel = named_kernels.get("compress", collectives.compress_ir)
    sums, ready = np.zeros(10, np.uint32), np.zeros(10, np.int32)
    count = np.zeros(1, np.uint32)
    slots: tuple[int, ...]
    slots = (source.buffer.address, result.buffer.address)  # type: ignore[union-attr]
    slots = (*slots, sums.ctypes.data, ready.ctypes.data, BLOCK)
    slots = (*slots, size, count.ctypes.data)
    _run_blocks(kernel, slots, size, np.arange(10)[::-1])
    assert count[0] == mask.sum() == expected.size
    assert_same(data(result)[: expected.size], expected)


def _run_blocks(
    kernel: named_kernels.SpecialKernel, slots: tuple[int, ...], size: int, order: Array
) -> None:
    """Run the blocks of a kernel on this thread, in an order that never occurs."""
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 2, ctypes.c_int32, ctypes.c_char_p)
    function = run(kernel.kernel.address)
    for number in order.tolist():
        begin = number * BLOCK
        function(
            begin, min(begin + BLOCK, size), 0, struct.pack(f"{len(slots)}q", *slots)
        )


@pytest.mark.parametrize("threads", [2, 16])
def test_ctrl_c_in_scans_leaves_a_working_pool(threads: int) -> None:
    run_script(
        f"""
        import random
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        import lumijit as dr
        from lumijit.llvm import Float
        workers.set_thread_count({threads})
        n = 300_000
        x = dr.opaque(Float, 1, n)
        mask = dr.arange(Float, n) < 1000
        dr.eval(mask)
        rng = random.Random(3)
        stopped = 0
        for _ in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + rng.random() * 2e-3)
                for _ in range(20):
                    dr.prefix_sum(x)
                    dr.compress(mask)
                time.sleep(1)
            except KeyboardInterrupt:
                stopped += 1
        assert stopped == 60
        workers.sync()
        assert dr.prefix_sum(x)[n - 1] == n - 1
        assert len(dr.compress(mask)) == 1000
        """
    )
