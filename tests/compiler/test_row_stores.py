"""Writes of vectors: the entries of a lane side by side, and lanes side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import (
    Array2f,
    Array2u64,
    Array3f,
    Array3f16,
    Array3f64,
    Array4f,
    Array4i,
    Bool,
    Float,
    Matrix2f,
    Matrix3f,
    UInt,
)
from tests.targets import generating_for, target_of

VECTORS = [Array2f, Array3f, Array4f, Array2u64, Array3f16, Array3f64, Array4i]
TARGETS = ["vectors", "masks", "host"]


def entries(cls: Any, size: int) -> np.ndarray[Any, Any]:
    """Return different numbers for each component (first axis) and lane."""
    count = len(cls())
    return np.arange(count * size).reshape(count, size) % 2039


def vector(cls: Any, values: np.ndarray[Any, Any]) -> Any:
    """Return an array of a class with these components."""
    item = dr.value_t(cls)
    return cls(*[item(component) for component in values])


def indices(kind: str, size: int) -> np.ndarray[Any, Any]:
    """Return different places for lanes."""
    i = np.arange(size)
    rng = np.random.default_rng(size)
    return {
        "counter": i,
        "behind": i + 3,
        "every other": 2 * i,
        "backwards": size - 1 - i,
        "permuted": rng.permutation(size),
    }[kind]


def traced(kind: str, size: int) -> UInt:
    """Return the same as a trace, where that is made of a counter."""
    i = dr.arange(UInt, size)
    if kind == "permuted":
        return UInt(indices(kind, size).astype(np.uint32))
    return {
        "counter": i,
        "behind": i + 3,
        "every other": 2 * i,
        "backwards": size - 1 - i,
    }[kind]


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize(
    "kind", ["counter", "behind", "every other", "backwards", "permuted"]
)
@pytest.mark.parametrize("cls", VECTORS)
def test_vectors_are_scattered(cls: Any, kind: str, is_masked: bool, name: str) -> None:
    for size in (1, 31, 32, 33, 100, 1000):
        values, at = entries(cls, size), indices(kind, size)
        chosen = at % 3 > 0 if is_masked else np.full(size, True)
        expected = np.full((2 * size + 4, len(values)), 7)
        expected[at[chosen]] = values.T[chosen]
        with generating_for(target_of(name)):
            item = dr.value_t(cls)
            target = dr.full(item, 7, expected.size)
            mask = Bool(chosen) if is_masked else True
            dr.scatter(target, vector(cls, values), traced(kind, size), mask)
            dr.eval(target)
        np.testing.assert_array_equal(target.numpy(), expected.ravel())


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("cls", VECTORS)
def test_vectors_are_raveled(cls: Any, name: str) -> None:
    for size in (1, 31, 32, 33, 100, 1000):
        values = entries(cls, size)
        with generating_for(target_of(name)):
            found = dr.ravel(vector(cls, values))
            dr.eval(found)
        np.testing.assert_array_equal(found.numpy(), values.T.ravel())


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(("cls", "side"), [(Matrix2f, 2), (Matrix3f, 3)])
def test_matrices_are_raveled(cls: Any, side: int, name: str) -> None:
    values = np.arange(side * side * 100, dtype=np.float32).reshape(side, side, 100)
    with generating_for(target_of(name)):
        matrix = cls(*[Float(row) for row in values.reshape(-1, 100)])
        found = dr.ravel(matrix)
        dr.eval(found)
    np.testing.assert_array_equal(found.numpy(), values.transpose(2, 1, 0).ravel())


@pytest.mark.packets("how packets write entries")
@pytest.mark.parametrize("kind", ["counter", "permuted"])
def test_lanes_write_their_entries_at_once(kind: str) -> None:
    size = 1000
    target, x = dr.zeros(Float, 4 * size), dr.arange(Float, size)
    dr.make_opaque(target, x)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.scatter(target, Array4f(x, x + 1, x + 2, x + 3), traced(kind, size))
        dr.eval(target)
        ir = dr.kernel_history()[-1]["ir"]
    assert ("store <4 x float>" in ir) == (kind == "permuted")


@pytest.mark.parametrize("name", TARGETS)
def test_other_numbers_write_elsewhere(name: str) -> None:
    """A kernel knows what is added to indices from its arguments only."""
    size = 100
    i = np.arange(size)
    for steps in ((0, 1, 2), (0, 2, 4), (2, 1, 0), (0, 1, 3), (5, 6, 7)):
        expected = np.zeros(8 * size + 8)
        with generating_for(target_of(name)):
            target = dr.zeros(Float, expected.size)
            for component, step in enumerate(steps):
                expected[8 * i + step] = i + component
                place = dr.arange(UInt, size) * 8 + step
                dr.scatter(target, Float(i + component), place)
            dr.eval(target)
        np.testing.assert_array_equal(target.numpy(), expected)
