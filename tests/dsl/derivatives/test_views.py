"""Derivatives of what NumPy, or another framework, can write to."""

from __future__ import annotations

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float64, UInt32
from lumijit.runtime import buffers


def gradient(x, y):
    dr.backward(y)
    return x.grad.numpy()


@pytest.mark.parametrize("is_evaluated", [True, False])
@pytest.mark.parametrize("is_foreign", [True, False])
def test_factors_that_numpy_changes_later(is_evaluated, is_foreign) -> None:
    """The derivative, and the value, are those of what the factor was."""
    source = np.full(20, 3, np.float64)
    a = Float64(source) if is_foreign else Float64(source.copy())
    view = source if is_foreign else a.numpy()
    x = dr.full(Float64, 2, 20)
    dr.enable_grad(x)
    y = x * a
    if is_evaluated:
        dr.eval(y)
    view[:] = 100
    np.testing.assert_equal(gradient(x, y), 3)
    np.testing.assert_equal(y.numpy(), 6)
    # The view is still one of the array (NumPy's memory may have been copied before).
    dr.clear_grad(x)
    if not is_foreign:
        np.testing.assert_equal(gradient(x, x * a), 100)


def test_what_is_not_computed_yet_from_a_viewed_array() -> None:
    a = Float64(np.full(20, 3.0))
    view = a.numpy()
    b = a * 2 + 1
    x = dr.full(Float64, 2, 20)
    dr.enable_grad(x)
    y = x * b
    dr.eval(y)
    view[:] = 100
    np.testing.assert_equal(gradient(x, y), 7)


def test_views_taken_afterwards_are_read_only() -> None:
    a = Float64(1, 2, 3)
    x = Float64(2, 2, 2)
    dr.enable_grad(x)
    y = x * a
    view = a.numpy()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 5
    np.testing.assert_equal(gradient(x, y), [1, 2, 3])


def test_viewed_tables_and_indices() -> None:
    a, i = Float64(1, 2, 3), UInt32(2, 0, 1)
    table, index = a.numpy(), i.numpy()
    x = Float64(2, 2, 2)
    dr.enable_grad(x)
    y = x * dr.gather(Float64, a, i)
    z = dr.gather(Float64, x * x, i) * Float64(1, 10, 100)
    dr.eval(y, z)
    table[:] = 100
    index[:] = 0
    np.testing.assert_equal(gradient(x, y), [3, 1, 2])
    dr.clear_grad(x)
    np.testing.assert_equal(gradient(x, z), [40, 400, 4])


@pytest.mark.parametrize("op", [dr.ReduceOp.Mul, dr.ReduceOp.Max])
def test_viewed_targets(op) -> None:
    y = Float64(3, 3, 3)
    view = y.numpy()
    x = Float64(5, 1, 2)
    dr.enable_grad(x)
    dr.scatter_reduce(op, y, x, dr.arange(UInt32, 3))
    dr.eval(y)
    view[:] = 100
    expected = 3 if op is dr.ReduceOp.Mul else [1, 0, 0]
    np.testing.assert_equal(gradient(x, y), expected)


def test_viewed_arrays_in_regions() -> None:
    a, i = Float64(1, 2, 3), UInt32(2, 0, 1)
    table, index = a.numpy(), i.numpy()
    x = Float64(2, 2, 2)
    dr.enable_grad(x)

    @dr.syntax
    def program(x):
        n, y = UInt32(0), dr.zeros(Float64, 3)
        while n < 2:
            y += x * a + dr.gather(Float64, a, i) * x
            n += 1
        return y

    y = program(x)
    dr.eval(y)
    table[:] = 100
    index[:] = 0
    np.testing.assert_equal(gradient(x, y), [8, 6, 10])


def test_arrays_given_away_by_dlpack() -> None:
    a = Float64(1, 2, 3)
    view = np.from_dlpack(a)
    x = Float64(2, 2, 2)
    dr.enable_grad(x)
    y = x * a
    dr.eval(y)
    if view.flags.writeable:
        view[:] = 100
    np.testing.assert_equal(gradient(x, y), [1, 2, 3])


def test_views_that_are_gone_cost_nothing() -> None:
    a = dr.opaque(Float64, 3, shape=1000)
    assert a.numpy()[0] == 3
    x = dr.opaque(Float64, 2, shape=1000)
    dr.enable_grad(x)
    y = x * a
    assert not buffers.exposed
    assert y._node.deps[1] is a._node
