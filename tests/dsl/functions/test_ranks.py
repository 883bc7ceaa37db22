"""Medians along runs of all lengths, against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm
from lumijit.compiler.record import ranks
from lumijit.llvm import ad
from tests.dsl.functions.test_sorting import ENTRIES, SPECIAL, random_entries


def middle(x, axis):
    """Return the smaller entry in the middle, the first such, and its place."""
    order = np.argsort(x, axis, kind="stable")
    place = np.take(order, [(x.shape[axis] - 1) // 2], axis)
    return np.take_along_axis(x, place, axis).squeeze(axis), place.squeeze(axis)


def few_values(cls, size):
    """Return entries of which most are equal to others, zeros of both signs, NaN."""
    rng = np.random.default_rng(size)
    if dr.is_float_v(cls):
        return rng.choice(np.array(SPECIAL), size).astype(cls(0).numpy().dtype)
    return rng.integers(0, 3, size).astype(cls(0).numpy().dtype)


SHAPES = [
    (1,),
    (2,),
    (8,),
    (9,),
    (65,),
    (1000,),
    (65537,),
    (3, 2001),
    (2001, 3),
    (7, 20, 9),
    (2, 2, 3),
]


@pytest.mark.usefixtures("each_target")
@pytest.mark.parametrize("entries", ENTRIES)
def test_medians(entries):
    cls = dr.leaf_t(getattr(llvm, f"ArrayX{entries}"))
    tensor = dr.tensor_t(cls)
    for shape in SHAPES:
        size = int(np.prod(shape))
        for x in (random_entries(cls, size), few_values(cls, size)):
            x = x.reshape(shape)
            for axis in range(len(shape)):
                found, place = dr.median(tensor(x), axis, return_index=True)
                values, places = middle(x, axis)
                assert place.numpy().tolist() == places.tolist()
                np.testing.assert_array_equal(found.numpy(), values)
                if dr.is_float_v(cls):
                    signs = np.signbit(found.numpy()), np.signbit(values)
                    np.testing.assert_array_equal(*signs)


def test_long_runs_in_pieces(monkeypatch):
    monkeypatch.setattr(ranks, "MOST_ALONE", 1000)
    x = np.random.default_rng(1).integers(0, 500, (3, 70_001)).astype(np.float64)
    x[0] = 7
    found, place = dr.median(llvm.TensorXf64(x), 1, return_index=True)
    values, places = middle(x, 1)
    assert place.numpy().tolist() == places.tolist()
    assert found.numpy().tolist() == values.tolist()


@pytest.mark.parametrize("shape", [(9,), (40,), (3, 11), (11, 3), (2, 5, 3)])
def test_derivatives_go_where_medians_come_from(shape):
    x = np.random.default_rng(2).permutation(np.prod(shape)).reshape(shape) * 1.0
    for axis in (*range(len(shape)), None):
        t = ad.TensorXf64(x)
        assert dr.gradcheck(lambda v, axis=axis: dr.median(v, axis) ** 2, t)
