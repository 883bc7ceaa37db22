"""Results below the normal numbers are zeros; operands and halves are kept."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import Array3f, Float, Float16, Float64, UInt
from lumijit.runtime import cpu

pytestmark = pytest.mark.skipif(
    not cpu.flushes_denormals(), reason="other processors compute denormals as fast"
)

#: At once on this thread, and in blocks by workers.
SIZES = (1, 67, 300_000)
#: A type, a number of it, and what makes of that a denormal one.
TYPES = [(Float, 2.0**-120, 2.0**-10), (Float64, 2.0**-1000, 2.0**-30)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("array", "small", "factor"), TYPES)
def test_results_are_flushed(
    array: Any, small: float, factor: float, size: int
) -> None:
    x = dr.full(array, small, size) * dr.select(dr.arange(UInt, size) % 2 == 0, 1, -1)
    dr.eval(x)
    y = dr.opaque(array, factor, size)
    found = (x * y).numpy()
    assert (found == 0).all()
    assert (np.signbit(found) == np.signbit(x.numpy())).all()
    # What isn't that small is what it was.
    assert ((x * dr.opaque(array, 0.5, size)).numpy() == x.numpy() * 0.5).all()


@pytest.mark.parametrize(("array", "small", "factor"), TYPES)
def test_operands_are_kept(array: Any, small: float, factor: float) -> None:
    numbers = np.array([small, -small]).astype(array(0).numpy().dtype)
    numbers *= numbers.dtype.type(factor)
    x = array(numbers)
    assert dr.all(x != 0)
    np.testing.assert_array_equal((-dr.abs(x)).numpy(), -np.abs(numbers))
    np.testing.assert_array_equal((x / array(factor, factor)).numpy(), [small, -small])
    np.testing.assert_allclose(dr.log2(dr.abs(x)).numpy(), math.log2(small * factor))
    np.testing.assert_array_equal(dr.select(x > 0, x, 0).numpy(), [numbers[0], 0])


@pytest.mark.parametrize(("array", "small", "factor"), TYPES)
def test_literals_do_as_arrays(array: Any, small: float, factor: float) -> None:
    assert (array(small) * array(factor))[0] == 0
    assert math.copysign(1, (array(-small) * array(factor))[0]) == -1
    assert dr.exp(array(math.log(small * factor)))[0] == 0
    assert (-array(small * factor))[0] == -small * factor
    assert dr.minimum(array(small * factor), array(1))[0] == small * factor


def test_conversions() -> None:
    x = dr.opaque(Float64, 1e-40, 5)
    assert dr.all(Float(x) == 0)
    # Halves come from singles, which are normal here.
    half = Float16(dr.opaque(Float, 2.0**-20, 5))
    assert (half.numpy() == np.float16(2.0**-20)).all()
    assert ((half * Float16(0.5)).numpy() == np.float16(2.0**-21)).all()


def test_reductions_and_writes() -> None:
    x = Float(np.full(1000, 2.0**-149, np.float32))
    assert dr.sum(x)[0] in (0, 1000 * 2.0**-149)
    target = dr.zeros(Float, 3)
    dr.scatter_reduce(dr.ReduceOp.Add, target, x * 0.5, UInt(0))
    assert dr.all(target == 0)


def test_python_computes_as_before() -> None:
    smallest = 5e-324
    for size in SIZES:
        dr.eval(dr.arange(Float, size) * 1e-40)
        assert smallest * 3 == 1.5e-323
        assert np.float32(1e-40) * np.float32(0.5) != 0


def test_other_threads_do_alike() -> None:
    found: list[bool] = []

    def compute() -> None:
        x = dr.opaque(Array3f, 2.0**-120, 7) * dr.opaque(Float, 2.0**-10, 7)
        found.append(bool(dr.all(x == 0, axis=None)))
        found.append(5e-324 * 3 == 1.5e-323)

    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    assert found == [True, True]


def test_recorded_functions_do_alike() -> None:
    @dr.kernel
    def product(x: Float, y: Float) -> Float:
        return dr.exp(x * y) * y

    for factor in (2.0**-10, 2.0**-100):
        x = dr.opaque(Float, -50, 9)
        y = dr.opaque(Float, factor, 9)
        found = product(x, y).numpy()
        expected = np.exp(np.float32(-50 * factor)) * np.float32(factor)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    tiny = dr.opaque(Float, 2.0**-120, 9)
    assert dr.all(product(tiny * 0 - 60, dr.opaque(Float, 1, 9)) > 0)
    assert dr.all(product(dr.opaque(Float, -1, 9), dr.opaque(Float, 90, 9)) == 0)
