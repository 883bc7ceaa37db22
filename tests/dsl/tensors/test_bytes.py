"""Bytes go through packets of up to 128 lanes, some of them lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm
from lumijit.llvm import Int8, TensorXb, TensorXu8, UInt, UInt8
from tests import targets

SHAPE = (7, 333)
KEYS = [
    np.s_[1:-1],
    np.s_[:, 1:-1],
    np.s_[:, ::2],
    np.s_[::2, 5:140],
    np.s_[:, ::-1],
    np.s_[2:5, 7:8],
]
TARGETS = pytest.mark.parametrize("target", ["host", "vectors", "masks"])


def bytes_of(shape: tuple[int, ...], seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


@TARGETS
@pytest.mark.parametrize("cls", [TensorXu8, TensorXb])
def test_slices_are_those_of_numpy(target: str, cls: Any) -> None:
    with targets.generating_for(targets.target_of(target)):
        dtype = np.uint8 if cls is TensorXu8 else np.bool_
        a = (bytes_of(SHAPE) % 2).astype(dtype)
        x = cls(a.copy())
        for key in KEYS:
            assert np.array_equal(x[key].numpy(), a[key])
            for value in (dtype(1).item(), bytes_of(a[key].shape, 2).astype(dtype)):
                x[key] = value if np.ndim(value) == 0 else cls(value)
                a[key] = value
                assert np.array_equal(x.numpy(), a)


@TARGETS
@pytest.mark.parametrize("size", [1, 63, 64, 65, 128, 129, 1000])
def test_some_of_the_lanes(target: str, size: int) -> None:
    with targets.generating_for(targets.target_of(target)):
        data, chosen = bytes_of((size,)), bytes_of((size,), 3) % 3 == 0
        x, m = UInt8(data), llvm.Bool(chosen)
        y = dr.full(UInt8, 9, size + 5)
        dr.scatter(y, x, dr.arange(UInt, size) + 3, active=m)
        expected = np.full(size + 5, 9, np.uint8)
        expected[3 : size + 3][chosen] = data[chosen]
        assert np.array_equal(y.numpy(), expected)
        # Each row ends somewhere in a packet.
        place = dr.arange(UInt, size)
        z = dr.full(UInt8, 9, 2 * size)
        dr.scatter(z, x, place + place // 7, active=m)
        expected = np.full(2 * size, 9, np.uint8)
        at = np.arange(size) + np.arange(size) // 7
        expected[at[chosen]] = data[chosen]
        assert np.array_equal(z.numpy(), expected)


@TARGETS
@pytest.mark.parametrize("cls", [UInt8, Int8])
@pytest.mark.parametrize("count", [5, 100_000])
def test_entries_that_are_combined(target: str, cls: Any, count: int) -> None:
    with targets.generating_for(targets.target_of(target)):
        dtype = cls(0).numpy().dtype
        data = bytes_of((1000,)).astype(dtype)
        x, place = cls(data), dr.arange(UInt, 1000)
        for op, combine in (
            (dr.ReduceOp.Add, np.add),
            (dr.ReduceOp.Max, np.maximum),
        ):
            y = dr.zeros(cls, count)
            dr.scatter_reduce(op, y, x, place // 300, place % 3 != 0)
            expected = np.zeros(count, dtype)
            used = np.arange(1000) % 3 != 0
            combine.at(expected, np.arange(1000)[used] // 300, data[used])
            assert np.array_equal(y.numpy(), expected)


@TARGETS
def test_numbers_of_lanes_that_are_counted(target: str) -> None:
    with targets.generating_for(targets.target_of(target)):
        data = bytes_of((1000,))
        queue = UInt(0)
        slot = dr.scatter_inc(queue, UInt(0), UInt8(data) > 100)
        slots = slot.numpy()[data > 100]
        assert sorted(slots) == list(range(int((data > 100).sum())))
        assert queue[0] == len(slots)
