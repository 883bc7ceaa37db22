"""Collectives by blocks of threads: carried out on the CPU, and assembled for GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.launch import kernels
from lumijit.compiler.lower.cooperative.kernels import (
    GPU,
    Cooperative,
    nvvm,
)
from lumijit.compiler.lower.cooperative.values import Shape
from lumijit.compiler.plan import target
from lumijit.compiler.record import products, reductions, sorting
from lumijit.runtime import nvptx, workers
from lumijit.runtime.dtypes import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    UINT8,
    UINT32,
    UNSIGNED_INTS,
    VALUES,
    DType,
)
from tests.compiler.support import Array, array, assert_same, data, random_values
from tests.compiler.test_collectives import CASES, IDS, exact_values, operations
from tests.emulated_block import EmulatedBlock, emulated
from tests.targets import written_for
from tests.thread_target import ThreadTarget
from tests.tools.assembling import assemble

#: One entry; around a warp, a tile, a block of a reduction, a group of blocks.
SIZES = (1, 2, 33, 127, 128, 129, 128 * 64 - 1, 128 * 64 + 1, 20_001)
SOME = [FLOAT32, FLOAT64, UINT8, INT64]


def on_both(compute: Callable[..., Node], *args: Any) -> tuple[Array, Array]:
    """Return what packets and threads make of the same."""
    found = []
    for name in ("packet", "thread"):
        with written_for(name):
            found.append(data(compute(*args)))
    return found[0], found[1]


class LargeTarget(ThreadTarget):
    """Carries out blocks as large as those of GPUs."""

    name = "large"
    collectives = emulated(GPU)


@pytest.fixture
def large() -> Iterator[None]:
    former = target.in_use()
    kernels.use(LargeTarget())
    yield
    kernels.use(former)


@pytest.mark.parametrize(("op", "t"), CASES)
def test_reductions_and_scans_are_those_of_packets(op: str, t: DType) -> None:
    for size in SIZES:
        x = array(exact_values(op, t, size), t)
        assert_same(*on_both(reductions.reduce, op, x))
        if t.is_bool:
            continue
        expected, found = on_both(reductions.prefix, op, x, size % 2 == 0)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("t", SOME, **IDS)
@pytest.mark.parametrize("block", [2, 5, 31, 32, 33, 100, 1000])
def test_runs_are_those_of_packets(t: DType, block: int) -> None:
    for op in operations(t):
        x = array(exact_values(op, t, block * 67), t)
        both = on_both(reductions.block_reduce, op, x, block)
        assert_same(*both)
    for exclusive in (False, True):
        expected, found = on_both(reductions.block_prefix, "add", x, block, exclusive)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("t", SOME, **IDS)
@pytest.mark.parametrize("inner", [3, 40, 1000])
def test_rows_are_those_of_packets(t: DType, inner: int) -> None:
    for block in (2, 17, 400):
        x = array(exact_values("add", t, 3 * block * inner), t)
        both = on_both(reductions.block_reduce, "add", x, block, inner)
        assert_same(*both)
        args = "add", x, block, block == 17, inner
        expected, found = on_both(reductions.block_prefix, *args)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("t", [FLOAT16, FLOAT32, FLOAT64], **IDS)
def test_special_values(t: DType) -> None:
    values = np.array([1, np.inf, -3, np.nan, -0.0] * 300, t.numpy)
    x, zeros = array(values, t), array(np.full(999, -0.0, t.numpy), t)
    for op in operations(t):
        assert_same(*on_both(reductions.reduce, op, x))
    assert_same(*on_both(reductions.reduce, "add", zeros))
    assert_same(*on_both(reductions.prefix, "add", x, True))
    nothing = array([], t)
    for op in operations(t):
        assert_same(*on_both(reductions.reduce, op, nothing))


def test_running_extremes_pass_nan_over() -> None:
    values = np.array([3, np.nan, 1, np.nan, 2] * 400, np.float32)
    with written_for("thread"):
        found = data(reductions.prefix("min", array(values, FLOAT32), False))
    np.testing.assert_array_equal(found, np.fmin.accumulate(values))


@pytest.mark.parametrize("density", [0.0, 0.02, 0.5, 1.0])
def test_compress(density: float) -> None:
    with written_for("thread"):
        for size in (*SIZES, 0):
            mask = np.random.default_rng(size).random(size) < density
            found = data(reductions.compress(array(mask, BOOL)))
            np.testing.assert_array_equal(found, np.flatnonzero(mask))


@pytest.mark.parametrize("t", UNSIGNED_INTS, **IDS)
def test_sort(t: DType) -> None:
    with written_for("thread"):
        for size in (2, 33, 129, 5000, 20_001):
            values = random_values(t, size, size) >> (t.bits // 2)
            found = data(sorting.sort(array(values, t), False, size))
            assert_same(found, np.sort(values))
            places = data(sorting.argsort_runs(array(values, t), size))
            np.testing.assert_array_equal(places, np.argsort(values, kind="stable"))


@pytest.mark.parametrize("t", [FLOAT32, FLOAT64, UINT32], **IDS)
def test_products_are_those_of_packets(t: DType) -> None:
    for shape in ((1, 1, 1, 1), (2, 5, 7, 33), (1, 37, 20, 70)):
        sizes = products.Sizes(*shape)
        count, rows, inner, columns = shape
        a = array(random_values(t, count * rows * inner, 1), t)
        b = array(random_values(t, count * inner * columns, 2), t)
        both = on_both(products.matmul, a, b, sizes)
        np.testing.assert_array_equal(*both)


@pytest.mark.parametrize("threads", [1, 3, 7])
def test_same_bits_on_any_number_of_threads(threads: int) -> None:
    rng = np.random.default_rng(5)
    x = array(rng.normal(0, 1, 70_000) * 10.0 ** rng.integers(-3, 4, 70_000), FLOAT32)
    before = workers.thread_count()
    results = []
    with written_for("thread"):
        for count in (2, threads):
            workers.set_thread_count(count)
            found = [reductions.reduce("add", x), reductions.prefix("add", x, False)]
            results.append([data(node).tobytes() for node in found])
    workers.set_thread_count(before)
    assert results[0] == results[1]


def test_blocks_as_large_as_those_of_gpus(large: None) -> None:
    size = GPU.tile * (GPU.threads + 3) + 77
    values = random_values(UINT32, size)
    x, mask = array(values, UINT32), values % 3 == 0
    assert data(reductions.reduce("add", x))[0] == np.sum(values, dtype=np.uint32)
    sums = data(reductions.prefix("add", x, False))
    np.testing.assert_array_equal(sums, np.cumsum(values, dtype=np.uint32))
    places = data(reductions.compress(array(mask, BOOL)))
    np.testing.assert_array_equal(places, np.flatnonzero(mask))
    few = random_values(UINT8, 20_001)
    found = data(sorting.sort(array(few, UINT8), False, len(few)))
    np.testing.assert_array_equal(found, np.sort(few))


def test_missing_barriers_are_found() -> None:
    b = EmulatedBlock(Shape(2, 1), "kernel")
    memory, one = b.shared("i64", 64), b.constant("i1", "true")
    b.put(memory, b.thread, b.thread, one)
    with pytest.raises(AssertionError, match="no barrier between a write and a read"):
        b.get(memory, 0)
    b.sync()

    def turn(i: object) -> list[object]:
        b.get(memory, 0)
        b.sync()
        b.put(memory, b.thread, b.thread, one)
        return []

    start, stop = b.constant("i64", "0"), b.constant("i64", "9")
    with pytest.raises(AssertionError, match="no barrier between a write and a read"):
        b.loop(start, stop, 1, [], turn)  # type: ignore[arg-type]


def kernels_of(c: Cooperative, t: DType) -> Iterator[tuple[str, str]]:
    """Write all kernels for a type, with their names."""
    for op in operations(t):
        yield f"reduce_{op}", c.reduce_ir(f"reduce_{op}", op, t)
        for block in (2, 1000):
            how, write, shape = c.blocks_by(t, block)
            yield f"blocks_{how}_{op}", write(f"blocks_{how}_{op}", op, t, shape)
            how, scan = c.runs_by(block)
            yield f"runs_{how}_{op}", scan(f"runs_{how}_{op}", op, t, True)
        yield f"rows_{op}", c.rows_ir(f"rows_{op}", op, t)
        for exclusive in (False, True):
            name = f"scan_{op}_{exclusive}"
            yield name, c.scan_ir(name, op, t, exclusive, False)
    if t in UNSIGNED_INTS:
        yield "count", c.count_ir("count", t)
        for k, (keys, places) in enumerate([(True, ""), (True, "new"), (False, "old")]):
            for alone in (False, True):
                name = f"move{k}{alone}"
                yield name, c.move_ir(name, t, keys, places, alone)
    if not t.is_bool:
        yield "product", c.product_ir("product", t)
    if t is BOOL:
        yield "compress", c.compress_ir("compress")
        yield "copy", c.copy_ir("copy")
        yield "fill", c.fill_ir("fill")
    for bits in (32, 64):
        element = t.memory_llvm if t is FLOAT16 else f"i{8 * t.size_bytes}"
        if (bits == 32 and t.size_bytes <= 4) or (bits == 64 and t.size_bytes == 8):
            yield "collect", c.collect_ir("collect", element, bits)


@pytest.mark.parametrize("t", VALUES, **IDS)
def test_all_kernels_become_ptx(t: DType, tmp_path: Path) -> None:
    for name, ir in kernels_of(nvvm(), t):
        text = nvptx.translate(ir)
        assert f".visible .entry {name}(" in text
        (tmp_path / f"{name}.ptx").write_text(text)
    if nvptx.assembler() is None:
        pytest.skip("translated, but not assembled: ptxas is not installed")
    # `python -m tests.tools.ptx` assembles all.
    left_out = "no kernel" if t in (BOOL, FLOAT32) else "_(add|mul|min|and)"
    for path in tmp_path.glob("*.ptx"):
        if re.search(left_out, path.name):
            continue
        told = assemble(path)
        assert "0 bytes spill stores" in told, (path.name, told)


def test_kernels_wait_and_vote_as_gpus_do() -> None:
    text = nvptx.translate(nvvm().move_ir("move", UINT32, True, "new", True))
    for instruction in ("bar.sync", "bar.warp.sync", "vote.sync.ballot", "popc"):
        assert instruction in text
    for t, told in ((FLOAT32, "relaxed"), (FLOAT64, "")):
        ir = nvvm().scan_ir("scan", "add", t, True, False)
        text = nvptx.translate(ir)
        ways = (told, told) if told else ("acquire", "release")
        for instruction in ("shfl.sync.up", f"ld.{ways[0]}", f"st.{ways[1]}"):
            assert instruction in text
    assert emulated().scan_block(FLOAT32) < nvvm().scan_block(FLOAT32)
