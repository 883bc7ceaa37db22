"""Compensated sums: scatter_add_kahan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.runtime.errors import ArrayTypeError, SizeError

TYPES: dict[str, tuple[Any, Any, Any]] = {
    "Float": (llvm.Float, llvm.UInt, np.float32),
    "Float64": (llvm.Float64, llvm.UInt, np.float64),
    "ArrayXf": (scalar.ArrayXf, scalar.ArrayXu, np.float32),
    "ArrayXf64": (scalar.ArrayXf64, scalar.ArrayXu, np.float64),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("size", [1, 7, 64, 3001])
def test_sums_are_nearly_exact(name: str, size: int) -> None:
    cls, index_type, dtype = TYPES[name]
    rng = np.random.default_rng(size)
    values = (rng.uniform(-1, 1, size) * 10.0 ** rng.integers(-6, 7, size)).astype(
        dtype
    )
    places = rng.integers(0, 5, size).astype(np.uint32)
    active = rng.random(size) < 0.8
    sums, errors = dr.zeros(cls, 5), dr.zeros(cls, 5)
    mask = dr.mask_t(cls)(active)
    dr.scatter_add_kahan(sums, errors, cls(values), index_type(places), mask)
    dr.eval(sums)  # carries out the updates of both
    total = sums.numpy().astype(np.float64) + errors.numpy()
    for k in range(5):
        chosen = values[active & (places == k)].astype(np.float64)
        scale = np.finfo(dtype).eps ** 2 * size * np.abs(chosen).sum()
        bound = max(float(scale), abs(math.fsum(chosen)) * 2.0**-52)
        assert abs(total[k] - math.fsum(chosen)) <= bound


def test_inside_a_loop() -> None:
    sums, errors = dr.zeros(llvm.Float, 2), dr.zeros(llvm.Float, 2)
    sums += 1e8
    dr.eval(sums)

    @dr.syntax
    def run(lane: llvm.UInt) -> llvm.UInt:
        i = llvm.UInt(0)
        while i < 10:
            dr.scatter_add_kahan(sums, errors, llvm.Float(1), lane & 1, i < 9)
            i += 1
        return i

    dr.eval(run(dr.arange(llvm.UInt, 20)))
    assert list(sums) == [1e8, 1e8]
    assert list(errors) == [90, 90]


def test_sums_that_overflow_have_no_error() -> None:
    for cls in (llvm.Float, scalar.ArrayXf):
        index = llvm.UInt if cls is llvm.Float else scalar.ArrayXu
        sums, errors = dr.zeros(cls, 2), dr.zeros(cls, 2)
        values = cls(3e38, 3e38, float("nan"))
        dr.scatter_add_kahan(sums, errors, values, index(0, 0, 1))
        assert sums[0] == math.inf
        assert math.isnan(sums[1])
        assert list(errors) == [0, 0]


def test_mistakes() -> None:
    x, y = dr.zeros(llvm.Float, 2), dr.zeros(llvm.Float, 3)
    with pytest.raises(SizeError, match="targets have 2 and 3 entries"):
        dr.scatter_add_kahan(x, y, 1, 0)
    for first, second in (
        (x, x),
        (x, dr.zeros(llvm.Float64, 2)),
        (llvm.UInt(1), llvm.UInt(2)),
        (llvm.Float16(1), llvm.Float16(2)),
        (llvm.Array2f(1), llvm.Array2f(2)),
        (1.0, 2.0),
    ):
        with pytest.raises(ArrayTypeError, match="expected two flat arrays of one"):
            dr.scatter_add_kahan(first, second, 1, 0)


def test_out_of_bounds_is_reported_once() -> None:
    x, y = dr.zeros(llvm.Float, 2), dr.zeros(llvm.Float, 2)
    with dr.scoped_set_flag(dr.JitFlag.Debug, True):
        dr.scatter_add_kahan(x, y, 1, llvm.UInt(1, 7))
        with pytest.warns(
            RuntimeWarning, match="scatter_add_kahan.*position 7"
        ) as seen:
            dr.eval(x, y)
    assert len(seen) == 1
    assert list(x) == [0, 1]
