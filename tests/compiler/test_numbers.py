"""Kernels with many numbers among their arguments: those of one use are widened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.trace import emit1, emit2
from lumijit.compiler.launch import evaluate, kernels
from lumijit.compiler.lower.packet import numbers
from lumijit.compiler.record import memory
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import FLOAT16, FLOAT32, FLOAT64, INT32, INT64, DType
from tests.compiler.support import ODD_SIZES, Holder, array, data, lit

COUNT = numbers.MANY_NUMBERS + 8


def chain(x: Node, dtype: DType, count: int) -> Node:
    """Add numbers that are all different, one by one."""
    for k in range(count):
        x = emit2(ar.ADD, x, lit(dtype, k + 2))
        x = emit2(lo.XOR, x, lit(dtype, 3 * k + 1)) if not dtype.is_float else x
    return x


def expected(x: np.ndarray, dtype: DType, count: int) -> np.ndarray:
    for k in range(count):
        x = x + dtype.numpy.type(k + 2)
        x = x if dtype.is_float else x ^ dtype.numpy.type(3 * k + 1)
    return x


@pytest.mark.parametrize("size", ODD_SIZES)
@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32, FLOAT64, INT32, INT64])
def test_many_numbers(dtype: DType, size: int) -> None:
    start = np.arange(size).astype(dtype.numpy)
    found = data(chain(array(start, dtype), dtype, COUNT))
    np.testing.assert_array_equal(found, expected(start, dtype, COUNT))


@pytest.mark.parametrize("size", ODD_SIZES)
def test_numbers_of_several_sizes_in_one_kernel(size: int) -> None:
    types = (FLOAT32, INT64, FLOAT16, FLOAT64, INT32)
    start = np.arange(size)
    nodes = [chain(array(start, t), t, COUNT // 2) for t in types]
    evaluate.evaluate(nodes)
    for node, t in zip(nodes, types, strict=True):
        reference = expected(start.astype(t.numpy), t, COUNT // 2)
        np.testing.assert_array_equal(data(node), reference)


@pytest.mark.packets("numbers in all lanes")
def test_more_than_the_block_takes(capsys: pytest.CaptureFixture[str]) -> None:
    count = numbers.MAX_WIDE_BYTES // 32 + 10
    start = np.arange(100, dtype=np.float32)
    kernels.flush()
    with scoped_set_flag(JitFlag.PrintIR, True):
        found = data(chain(array(start, FLOAT32), FLOAT32, count))
    ir = capsys.readouterr().out
    assert "shufflevector" in ir[ir.index("packet:") :]
    np.testing.assert_array_equal(found, expected(start, FLOAT32, count))


@pytest.mark.packets("numbers in all lanes")
def test_many_numbers_are_operands_in_memory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kernels.flush()
    with scoped_set_flag(JitFlag.PrintIR, True):
        data(chain(array(np.arange(5), FLOAT32), FLOAT32, COUNT))
    ir = capsys.readouterr().out
    packet = ir[ir.index("packet:") :]
    # With AVX-512, LLVM makes operands of what is spread.
    assert ("shufflevector" in packet) is kernels.target().has_avx512


def test_beside_private_copies_and_math() -> None:
    """The packets lie behind all slots."""
    size = 1000
    start = np.arange(size, dtype=np.float32)
    x = array(start, FLOAT32)
    value = emit1(ar.SQRT, chain(x, FLOAT32, COUNT))
    target = Holder(array(np.zeros(3), FLOAT32))
    index = emit2(ar.MOD, trace.counter(size), lit(trace.counter(size).type, 3))
    memory.scatter(target, value, index, trace.make_true(1), "add")
    sums = data(target._node)
    values = np.sqrt(expected(start, FLOAT32, COUNT).astype(np.float64))
    for k in range(3):
        np.testing.assert_allclose(sums[k], values[k::3].sum(), rtol=1e-5)


@pytest.mark.usefixtures("each_target")
@pytest.mark.parametrize(
    "name", ["Float", "Float16", "Float64", "Int", "UInt8", "Bool"]
)
@pytest.mark.parametrize("count", [5, COUNT])
def test_many_arrays_of_one_entry(name: str, count: int) -> None:
    cls = getattr(llvm, name)
    wanted = np.arange(count) % 3
    entries = [dr.opaque(cls, bool(k) if name == "Bool" else int(k)) for k in wanted]
    for size in (1, 7, 100):
        x = dr.arange(llvm.Int, size) % 2
        found, expected = dr.zeros(llvm.Int, size), np.zeros(size, int)
        for k, entry in enumerate(entries):
            part = entry & (x == 1) if name == "Bool" else cls(x) * entry
            found += dr.select(part, 1, 0) if name == "Bool" else llvm.Int(part)
            number = bool(wanted[k]) if name == "Bool" else wanted[k]
            expected += np.arange(size) % 2 * number
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.usefixtures("each_target")
def test_arrays_of_one_entry_in_regions() -> None:
    entries = [dr.opaque(llvm.Float, k) for k in range(COUNT)]
    x = dr.arange(llvm.Float, 50)

    def turn(i: Any, y: Any) -> tuple[Any, Any]:
        for entry in entries[: COUNT // 2]:
            y = y + entry
        return i + 1, y

    _, y = dr.while_loop((llvm.UInt(0), x), lambda i, y: i < 3, turn)
    either = dr.if_stmt(
        (y,), x < entries[-1], lambda y: y + entries[-2], lambda y: y - entries[-3]
    )
    for entry in entries[COUNT // 2 :]:
        either = either * 0.5 + entry
    k = np.arange(COUNT)
    wanted = np.arange(50) + 3.0 * k[: COUNT // 2].sum()
    wanted = np.where(np.arange(50) < k[-1], wanted + k[-2], wanted - k[-3])
    for entry in k[COUNT // 2 :]:
        wanted = wanted * 0.5 + entry
    np.testing.assert_allclose(either.numpy(), wanted, rtol=1e-5)
