"""Sorts along axes whose runs are short, which each lane does in local memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm
from lumijit.compiler.record import short_sorts
from lumijit.runtime.errors import SymbolicError
from tests.dsl.functions.test_sorting import descending, random_entries

RUNS = [2, 3, 4, 7, 8, 9, 31, 64, 65, 100]


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sort so also what is small."""
    monkeypatch.setattr(short_sorts, "FEWEST_RUNS", 2)
    monkeypatch.setattr(short_sorts, "FEWEST_ENTRIES", 0)


def rows_of(suffix: str, rows: int, run: int, few: bool = False) -> tuple[Any, Any]:
    cls = getattr(llvm, f"TensorX{suffix}")
    entries = random_entries(dr.leaf_t(cls), rows * run)
    if few and entries.dtype.kind != "b":
        entries = (np.arange(rows * run) * 7919 % 4).astype(entries.dtype)
    return cls, entries.reshape(rows, run)


def check(cls: Any, a: Any, axis: int) -> None:
    x = cls(np.ascontiguousarray(a))
    np.testing.assert_array_equal(dr.sort(x, axis=axis).numpy(), np.sort(a, axis))
    places = dr.argsort(x, axis=axis).numpy()
    np.testing.assert_array_equal(places, np.argsort(a, axis, kind="stable"))
    back = dr.argsort(x, axis=axis, descending=True).numpy()
    wanted = np.apply_along_axis(descending, axis, a)
    np.testing.assert_array_equal(back, wanted)


@pytest.mark.usefixtures("each_target")
@pytest.mark.parametrize(
    "suffix", ["f16", "f", "f64", "u8", "i8", "i", "u", "i64", "b"]
)
@pytest.mark.parametrize("run", [2, 7, 64, 100])
def test_types(suffix: str, run: int) -> None:
    for few in (False, True):
        cls, a = rows_of(suffix, 37, run, few)
        check(cls, a, 1)
        check(cls, a.T, 0)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("rows", [2, 31, 32, 33, 130])
def test_numbers_of_runs_and_entries(rows: int, run: int) -> None:
    for suffix in ("f", "u64"):
        check(*rows_of(suffix, rows, run, few=rows % 2 == 0), 1)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_against_numpy(data: st.DataObject) -> None:
    rows = data.draw(st.integers(2, 40))
    run = data.draw(st.integers(2, 90))
    numbers = st.lists(st.integers(0, 9), min_size=rows * run, max_size=rows * run)
    a = np.array(data.draw(numbers), np.int32).reshape(rows, run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(short_sorts, "FEWEST_RUNS", 2)
        check(llvm.TensorXi, a, 1)


@pytest.mark.parametrize("run", [4095, 4096, 4097])
def test_the_longest_runs(run: int) -> None:
    check(*rows_of("f", 3, run), 1)


def test_what_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert short_sorts.is_worth(1 << 20, 1000, 32)
    assert not short_sorts.is_worth(1 << 12, 8, 32)
    assert not short_sorts.is_worth(1 << 20, 1 << 13, 16)
    assert not short_sorts.is_worth(1 << 20, 1, 32)
    check(*rows_of("f", 700, 100), 1)


def test_recorded_and_differentiated() -> None:
    @dr.kernel
    def ordered(x: Any) -> Any:
        return dr.sort(x * 2, axis=1)

    for seed in range(3):
        a = np.random.default_rng(seed).random((50, 20)).astype(np.float32)
        found = ordered(llvm.TensorXf(a)).numpy()
        np.testing.assert_array_equal(found, np.sort(a * 2, 1))
    x = llvm.ad.TensorXf(a)
    dr.enable_grad(x)
    weights = llvm.ad.TensorXf(np.tile(np.arange(20, dtype=np.float32), (50, 1)))
    dr.backward(dr.sum(dr.sort(x, axis=1) * weights))
    ranks = np.argsort(np.argsort(a, 1), 1)
    np.testing.assert_array_equal(dr.grad(x).numpy(), ranks.astype(np.float32))


def test_symbolic_code_is_refused() -> None:
    def body(y: Any) -> Any:
        return (dr.sort(llvm.TensorXf(y, (50, 20)), axis=1).array + 1,)

    start = (dr.zeros(llvm.Float, 1000),)
    with pytest.raises(SymbolicError, match=r"lumijit\.sort.*evaluated mode"):
        dr.while_loop(start, lambda y: y < 2, body, mode="symbolic")
    (found,) = dr.while_loop(start, lambda y: y < 2, body, mode="evaluated")
    assert found.numpy().tolist() == [2] * 1000


@pytest.mark.parametrize("rows", [3, 50])
def test_evaluated_control_flow(rows: int) -> None:
    """Masks and watched writes of what is around concern nothing inside."""
    cls, a = rows_of("f", rows, 20)
    a = np.nan_to_num(a)
    x, i = cls(a), llvm.Int(np.arange(50))
    ordered = np.argsort(a, 1).ravel()

    def first() -> Any:
        return dr.argsort(x, axis=1).array[1]

    found = dr.if_stmt(
        (i,), i < 7, lambda i: i + first(), lambda i: i - first(), mode="evaluated"
    )
    k = np.arange(50)
    np.testing.assert_allclose(found, np.where(k < 7, k + ordered[1], k - ordered[1]))
    calls = [lambda: llvm.Float(first()), lambda: -llvm.Float(first())]
    found = dr.switch(i % 2, calls, mode="evaluated")
    np.testing.assert_allclose(found, np.where(k % 2 == 0, ordered[1], -ordered[1]))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        turns = dr.while_loop(
            (i, llvm.Float(0)),
            lambda i, y: i < 52,
            lambda i, y: (i + 1, y + first()),
            mode="evaluated",
        )[1]
        np.testing.assert_allclose(turns, (52 - k) * ordered[1], rtol=1e-5)
        history = dr.kernel_history()
    # Local memory isn't written out.
    sorts = [h for h in history if h["size"] == rows and not h["output_count"]]
    assert len(sorts) >= 52
