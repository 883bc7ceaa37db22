"""Writes to parts of large arrays by what these arrays hold: no copy, nothing lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import Float, TensorXf, UInt32
from lumijit.llvm.ad import TensorXf as TensorXfD

pytestmark = pytest.mark.usefixtures("each_target")

SHAPE = (500, 700)


def both() -> tuple[TensorXf, np.ndarray[Any, Any]]:
    """Return a tensor in memory, and the same for NumPy."""
    values = np.random.default_rng(1).random(SHAPE, dtype=np.float32)
    x = TensorXf(values) + 0
    dr.eval(x)
    return x, values


def launched(x: Any) -> list[int]:
    """Evaluate; return how many entries each launch computed."""
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        dr.eval(x)
        return [entry["size"] for entry in dr.kernel_history()]


def close(x: Any, expected: Any) -> None:
    np.testing.assert_allclose(x.numpy(), expected, rtol=2e-6)


@pytest.mark.packets("sizes of launches, and which are made")
@pytest.mark.parametrize("key", [(slice(None), 5), 3, (slice(None), slice(0, 90, 2))])
def test_part_is_written_in_place(key: Any) -> None:
    x, a = both()
    x[key] = dr.sqrt(x[key])
    part = a[key].size
    assert launched(x) == [part, part]
    a[key] = np.sqrt(a[key])
    close(x, a)


@pytest.mark.packets("sizes of launches, and which are made")
def test_known_positions_need_no_check() -> None:
    x, a = both()
    x[::2] += 1
    assert launched(x) == [a[::2].size]
    a[::2] += 1
    close(x, a)


def test_who_read_before_sees_the_old_entries() -> None:
    x, a = both()
    column = x[:, 7] * 3
    x[:, 7] = column + 1
    old, everything = column - 1, x + 0
    x[:, 7] = dr.sqrt(column) + x[:, 8]
    close(column, a[:, 7] * 3)
    close(old, a[:, 7] * 3 - 1)
    b = a.copy()
    b[:, 7] = a[:, 7] * 3 + 1
    close(everything, b)
    b[:, 7] = np.sqrt(a[:, 7] * 3) + a[:, 8]
    close(x, b)


def test_other_names_keep_their_entries() -> None:
    x, a = both()
    y = TensorXf(x)
    x[2] = x[2] * x[3]
    close(y, a)
    a[2] *= a[3]
    close(x, a)


def test_several_writes_in_one_evaluation() -> None:
    x, a = both()
    y, b = both()
    x[:, 1] = dr.exp(x[:, 1])
    y[:, 2] = x[:, 2] + dr.exp(y[:, 2])
    dr.eval(x, y, x)
    a[:, 1] = np.exp(a[:, 1])
    b[:, 2] = a[:, 2] + np.exp(b[:, 2])
    close(x, a)
    close(y, b)


def test_sums_at_places_that_depend_on_the_array() -> None:
    x = dr.arange(Float, 400_000) * 0.5
    dr.eval(x)
    a = x.numpy().copy()
    i = UInt32(5, 7, 9)
    dr.scatter_add(x, dr.gather(Float, x, i) + 1, UInt32(dr.gather(Float, x, i)))
    new = a[[5, 7, 9]] + 1
    np.add.at(a, a[[5, 7, 9]].astype(int), new)
    close(x, a)


def test_recorded_functions_leave_their_inputs() -> None:
    @dr.kernel
    def step(x: TensorXf) -> TensorXf:
        x = TensorXf(x)
        x[:, 5] = dr.sqrt(x[:, 5])
        return x

    x, a = both()
    for _ in range(3):
        y = step(x)
        close(x, a)
        b = a.copy()
        b[:, 5] = np.sqrt(b[:, 5])
        close(y, b)


def test_gradients() -> None:
    values = np.random.default_rng(1).random(SHAPE, dtype=np.float32) + 1
    x = TensorXfD(values)
    dr.enable_grad(x)
    y = x * 2
    dr.eval(y)
    y[:, 5] = dr.sqrt(y[:, 5])
    dr.backward(dr.sum(y * y))
    expected = 8 * values
    expected[:, 5] = 2
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)
