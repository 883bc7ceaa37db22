"""Reductions of what isn't in memory: short expressions are computed as they go."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm
from lumijit.compiler.launch import named_kernels
from lumijit.compiler.record import folds
from lumijit.enums import VarState
from lumijit.llvm import Bool, Float, Float64, UInt32, ad

pytestmark = pytest.mark.usefixtures("each_target")
SIZES = (folds.MIN_SIZE, 200_001)
TYPES = ("Float16", "Float", "Float64", "Int8", "UInt8", "Int", "UInt64")
Program = Callable[[], Any]


def numbers(size: int, name: str, seed: int) -> tuple[Any, np.ndarray[Any, Any]]:
    cls = getattr(llvm, name)
    found = np.random.default_rng(seed).integers(0, 100, size)
    entries = found.astype(cls(0).numpy().dtype)
    array = cls(entries)
    dr.eval(array)
    return array, entries


def launched(program: Program) -> list[tuple[dr.KernelType, int]]:
    """Return the types and sizes of what is launched."""
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        dr.eval(program())
        return [(entry["type"], entry["size"]) for entry in dr.kernel_history()]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("size", SIZES)
def test_results_are_those_of_entries_in_memory(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, _ = numbers(size, name, 1)
    y, _ = numbers(size, name, 2)
    mask = (x > 30) ^ (y > 40)
    dr.eval(mask)
    cls = type(x)
    programs: list[Program] = [
        lambda: dr.sum(x * y),
        lambda: dr.prod(x * y + 1),
        lambda: dr.min(x - y),
        lambda: dr.max(y - x[:1]),
        lambda: dr.sum(dr.select(mask, x, y)),
        lambda: dr.sum(Float64(x) * 3),
        lambda: dr.dot(x, y),
        lambda: dr.max(dr.arange(UInt32, size)),
        lambda: dr.sum(dr.arange(cls, size)),
        lambda: dr.count(mask),
        lambda: dr.count((x > y) & (x < 50)),
        lambda: dr.any(x > 99),
        lambda: dr.all(~mask | mask),
    ]
    found = [np.asarray(program().numpy()) for program in programs]
    monkeypatch.setattr(folds, "MIN_SIZE", 1 << 40)
    for program, entry in zip(programs, found, strict=True):
        assert entry.tobytes() == np.asarray(program().numpy()).tobytes()


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    "shape",
    [(400, 401), (3, 70_001), (70_001, 3), (2, 300, 270), (9, 20_000), (20_000, 9)],
)
def test_results_along_axes_are_those_of_entries_in_memory(
    name: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = int(np.prod(shape))
    (x, a), (y, b) = numbers(size, name, 1), numbers(size, name, 2)
    cls = dr.tensor_t(type(x))
    p, q = cls(x, shape), cls(y, shape)
    programs: list[Callable[[int], Any]] = [
        lambda axis: dr.sum(p * q, axis),
        lambda axis: dr.prod(p * q + 1, axis),
        lambda axis: dr.min(p - q, axis),
        lambda axis: dr.max(
            dr.select(p > 7, dr.nan if type(x) is Float else 1, q), axis
        ),
        lambda axis: dr.count(p > q, axis),
        lambda axis: dr.any(p > 98, axis),
        lambda axis: dr.all(q < 98, axis),
    ]
    calls = [partial(program, k) for k in range(len(shape)) for program in programs]
    found = [np.asarray(call().numpy()) for call in calls]
    is_more = (a > b).reshape(shape)
    for k in range(len(shape)):
        counts = found[len(programs) * k + 4]
        np.testing.assert_array_equal(counts, np.count_nonzero(is_more, k))
    monkeypatch.setattr(folds, "MIN_SIZE", 1 << 40)
    for call, entry in zip(calls, found, strict=True):
        assert entry.tobytes() == np.asarray(call().numpy()).tobytes()


@pytest.mark.packets("what is computed as it is reduced")
def test_nothing_lies_in_memory_along_axes() -> None:
    x, _ = numbers(400 * 401, "Float", 4)
    p = dr.tensor_t(Float)(x, (400, 401))
    for axis in (0, 1):
        for program in (lambda k: dr.sum(p * p, k), lambda k: dr.count(p > 5, k)):
            assert (dr.KernelType.JIT, x.shape[0]) not in launched(
                partial(program, axis)
            )


def test_nan_and_nothing_else_behind_the_end() -> None:
    for size in (folds.MIN_SIZE + 1, folds.MIN_SIZE + 63):
        x, a = numbers(size, "Float", 3)
        assert dr.min(x + 5)[0] == a.min() + 5
        assert dr.max(-x - 5)[0] == -a.min() - 5
        assert dr.count(x < 1000)[0] == size
        holes = dr.select(x > 50, Float(dr.nan), x)
        assert dr.max(holes)[0] == a[a <= 50].max()


@pytest.mark.packets("what is computed as it is reduced")
def test_nothing_lies_in_memory() -> None:
    size = folds.MIN_SIZE
    x, _ = numbers(size, "Float", 4)
    y, _ = numbers(size, "Float", 5)
    mask = Bool(np.arange(size) % 3 == 0)
    for program in (
        lambda: dr.sum(x * y),
        lambda: dr.norm(x),
        lambda: dr.count(mask),
        lambda: dr.any(x > 200),
    ):
        assert (dr.KernelType.JIT, size) not in launched(program)
    square = x * x
    total = dr.sum(square)
    assert square.state is VarState.Unevaluated
    np.testing.assert_allclose(square.numpy().sum(), total[0], rtol=1e-6)


@pytest.mark.packets("what is computed as it is reduced")
def test_what_takes_long_or_is_wanted_is_computed_once() -> None:
    size = folds.MIN_SIZE
    x, _ = numbers(size, "Float", 6)
    many = x
    for _ in range(folds.MAX_COST + 1):
        many = many * many + 1
    for value in (dr.erf(x), many, dr.gather(Float, x, UInt32(x))):
        assert (dr.KernelType.JIT, size) in launched(partial(dr.sum, value))
        assert value.state is VarState.Evaluated
    wanted = x * 2
    dr.schedule(wanted)
    dr.sum(wanted)
    assert wanted.state is VarState.Evaluated


@pytest.mark.packets("what is computed as it is reduced")
def test_other_numbers_are_no_other_kernel() -> None:
    x, a = numbers(folds.MIN_SIZE, "Float", 7)
    dr.eval(dr.sum(x * 3))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        total = dr.sum(x * 5)
        assert all(entry["cache_hit"] for entry in dr.kernel_history())
    assert total[0] == a.sum() * 5


def test_arrays_may_be_written_afterwards() -> None:
    x, a = numbers(folds.MIN_SIZE, "Float", 8)
    double = x * 2
    total = dr.sum(double)
    dr.scatter(x, Float(-1), UInt32(0))
    assert total[0] == a.sum() * 2
    assert double[0] == a[0] * 2
    assert x[0] == -1


@pytest.mark.parametrize("mode", ["forward", "backward"])
def test_derivatives(mode: str) -> None:
    size = folds.MIN_SIZE
    x = ad.Float(dr.arange(ad.Float, size) % 7)
    dr.enable_grad(x)
    total = dr.sum(x * x)
    if mode == "backward":
        dr.backward(total)
        np.testing.assert_array_equal(dr.grad(x).numpy(), 2 * (np.arange(size) % 7))
    else:
        dr.forward(x)
        np.testing.assert_allclose(dr.grad(total)[0], 2 * (np.arange(size) % 7).sum())


def test_recorded_functions() -> None:
    @dr.kernel
    def weighted(x: Float, y: Float, factor: float) -> Float:
        return dr.sum(x * y * factor)

    for seed, factor in ((1, 2.0), (2, 3.0), (3, 3.0), (4, 5.0)):
        x, a = numbers(folds.MIN_SIZE, "Float", seed)
        y, b = numbers(folds.MIN_SIZE, "Float", seed + 9)
        wanted = (a.astype(np.float64) * b).sum() * factor
        np.testing.assert_allclose(weighted(x, y, factor)[0], wanted, rtol=1e-5)


def test_kernels_are_forgotten_once_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(named_kernels, "_MOST", 6)
    x, a = numbers(folds.MIN_SIZE, "Float64", 3)
    makes: list[Callable[[Any], Any]] = [
        lambda v: v * 2,
        lambda v: v + v * v,
        lambda v: v * v * v,
        lambda v: abs(v) - v,
        lambda v: 1 - v,
        lambda v: v * v - 3,
    ]
    for _ in range(2):
        for make in makes:
            np.testing.assert_allclose(dr.sum(make(x))[0], make(a).sum(), rtol=1e-9)
            assert len(named_kernels._KERNELS) <= 6


@pytest.mark.host("the host looks at a device's memory nowhere")
def test_a_mask_that_its_first_entries_decide_takes_no_kernel() -> None:
    mask = llvm.Bool(np.arange(1 << 20) == 5)
    assert launched(lambda: dr.any(mask)) == []
    assert launched(lambda: dr.all(~mask)) != []
    assert dr.any(mask)
    assert not dr.all(mask)
    assert dr.any(mask ^ True)
