"""Random arrays: known answers, distributions, and use in symbolic code."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.random.generator import philox
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError

ONES = (1 << 32) - 1
ANSWERS = [
    (7, [0] * 6, "5f6fb709 0d893f64 4f121f81 4f730a48"),
    (7, [ONES] * 6, "5207ddc2 45165e59 4d8ee751 8c52f662"),
    (10, [0] * 6, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (10, [ONES] * 6, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
]


@pytest.mark.parametrize("cls", [llvm.UInt, ad.UInt, scalar.ArrayXu])
@pytest.mark.parametrize(("rounds", "given", "words"), ANSWERS)
def test_known_answers(cls, rounds, given, words):
    values = [cls(v) for v in given]
    found = philox(tuple(values[:4]), tuple(values[4:]), rounds)
    assert " ".join(f"{word[0]:08x}" for word in found) == words


@pytest.mark.parametrize("seed", [0, 1, 1 << 40, -5])
def test_the_same_in_all_namespaces(seed):
    arrays = []
    for space in (llvm, ad, scalar):
        rng = dr.rng(seed)
        cls = scalar.ArrayXf if space is scalar else space.Float
        arrays.append([rng.random(cls, 100).numpy() for _ in range(3)])
    np.testing.assert_array_equal(arrays[0], arrays[1])
    np.testing.assert_array_equal(arrays[0], arrays[2])
    assert len(np.unique(arrays[0])) > 290


def test_entries_by_place():
    first = dr.rng(2).random(llvm.Float, 12).numpy()
    for dtype, shape in ((llvm.Array3f, (3, 4)), (llvm.TensorXf, (2, 3, 2))):
        found = dr.rng(2).random(dtype, shape)
        assert type(found) is dtype
        np.testing.assert_array_equal(found.numpy().ravel(), first)
    static = dr.rng(2).random(scalar.Array3f, 3)
    np.testing.assert_array_equal(static, first[:3])
    number = dr.rng(2).random(float)
    assert type(number) is float
    assert len(dr.rng(2).random(llvm.Float, 0)) == 0
    rng = dr.rng(2)
    rng.random(llvm.Float)
    twin = rng.clone()
    np.testing.assert_array_equal(twin.normal(llvm.Float, 5), rng.normal(llvm.Float, 5))


N = 100_000


@pytest.mark.parametrize("cls", [llvm.Float16, llvm.Float, llvm.Float64])
def test_distributions(cls):
    rng = dr.rng(7)
    x = rng.random(cls, N).numpy().astype(np.float64)
    assert x.min() >= 0
    assert x.max() < 1
    if cls is not llvm.Float16:
        assert scipy.stats.kstest(x, "uniform").pvalue > 1e-3
    x = rng.normal(cls, N, 2, 3).numpy().astype(np.float64)
    assert abs(x.mean() - 2) < 0.05
    assert abs(x.std() - 3) < 0.05
    if cls is not llvm.Float16:
        assert scipy.stats.kstest(x, scipy.stats.norm(2, 3).cdf).pvalue > 1e-3
    x = rng.uniform(cls, N, -2, 5).numpy()
    assert x.min() >= -2
    assert x.max() < 5
    assert abs(x.mean() - 1.5) < 0.05


@pytest.mark.parametrize(
    "name", ["Int8", "UInt8", "Int16", "Int", "UInt", "Int64", "UInt64"]
)
def test_integers(name):
    cls = getattr(llvm, name)
    rng = dr.rng(11)
    counts = np.bincount(rng.integers(cls, N, 7).numpy(), minlength=7)
    assert len(counts) == 7
    assert scipy.stats.chisquare(counts).pvalue > 1e-3
    x = rng.integers(cls, 1000, 3, 5, endpoint=True).numpy()
    assert set(x.tolist()) == {3, 4, 5}
    info = np.iinfo(cls(0).numpy().dtype)
    x = rng.integers(cls, N, info.min, info.max, endpoint=True).numpy()
    whole = x.astype(np.float64) - float(info.min)
    assert abs(whole.mean() / (2.0**info.bits) - 0.5) < 0.01
    if info.min < 0:
        x = rng.integers(cls, 1000, -3, 0).numpy()
        assert set(x.tolist()) == {-3, -2, -1}


def test_integers_of_wide_ranges_and_arrays():
    rng = dr.rng(3)
    top = 3 << 62
    x = rng.integers(llvm.UInt64, N, top).numpy()
    assert x.max() < top
    # A product with 64 random bits only would give some numbers twice as often.
    assert scipy.stats.kstest(x.astype(np.float64) / top, "uniform").pvalue > 1e-3
    x = rng.integers(llvm.Int, 3, llvm.Int(-5, 0, 100), llvm.Int(-4, 1, 101))
    assert list(x) == [-5, 0, 100]
    assert type(rng.integers(int, high=10)) is int


def test_arrays_differ_and_do_not_correlate():
    rng = dr.rng(1)
    rows = [rng.random(llvm.Float64, N).numpy() for _ in range(3)]
    rows.append(dr.rng(2).random(llvm.Float64, N).numpy())
    rows.append(np.roll(rows[0], 1))
    correlation = np.corrcoef(rows) - np.eye(5)
    assert np.abs(correlation).max() < 0.02


def test_permutations():
    rng = dr.rng(5)
    order = rng.permutation(llvm.UInt, 1000).numpy()
    assert sorted(order.tolist()) == list(range(1000))
    assert (order[:-1] > order[1:]).mean() > 0.4
    assert type(rng.permutation(llvm.Int, 3)) is llvm.Int
    x = llvm.Float(1, 2, 3, 4)
    assert sorted(rng.permutation(x)) == [1, 2, 3, 4]
    t = np.arange(12).reshape(4, 3)
    found = rng.permutation(llvm.TensorXi(t)).numpy()
    assert sorted(found.tolist()) == t.tolist()
    counts = np.bincount([rng.permutation(llvm.UInt, 3)[0] for _ in range(300)])
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_in_loops(mode):
    def body(rng, total, i):
        total = total + rng.random(llvm.Float, 8)
        return rng, total, i + 1

    rng, total, _ = dr.while_loop(
        (dr.rng(4), dr.zeros(llvm.Float, 8), llvm.UInt([0] * 8)),
        lambda rng, total, i: i < 3,
        body,
        mode=mode,
    )
    other = dr.rng(4)
    right = sum(other.random(llvm.Float, 8).numpy() for _ in range(3))
    np.testing.assert_allclose(total, right, rtol=1e-6)
    following = rng.random(llvm.Float, 8)
    np.testing.assert_array_equal(following, other.random(llvm.Float, 8))


@dr.syntax
def points_within(rng, n):
    hits = dr.zeros(llvm.UInt, n)
    i = llvm.UInt(0)
    while i < 400:
        x, y = rng.random(llvm.Float), rng.random(llvm.Float)
        if x * x + y * y < 1:
            hits += 1
        i += 1
    return hits


def test_a_seed_for_each_element():
    n = 500
    hits = points_within(dr.rng(dr.arange(llvm.UInt64, n)), n).numpy()
    assert abs(hits.sum() * 4 / (400 * n) - np.pi) < 0.02
    assert len(np.unique(hits)) > 20


def test_what_is_drawn_passes_derivatives_to_its_parameters():
    def function(loc, scale):
        return dr.rng(1).normal(ad.Float64, 5, loc, scale)

    assert dr.gradcheck(function, ad.Float64(1.0), ad.Float64(2.0))


def test_bad_input():
    rng = dr.rng()
    with pytest.raises(ArrayTypeError, match=r"rng.random: the type is 'UInt'"):
        rng.random(llvm.UInt, 3)
    with pytest.raises(ArrayTypeError, match=r"rng.integers: .* \(expected integers\)"):
        rng.integers(llvm.Float, 3)
    with pytest.raises(ArrayTypeError, match="expected floats"):
        rng.normal(int)
    with pytest.raises(ArrayValueError, match="there is nothing from 9 to 3"):
        rng.integers(llvm.Int, 3, 9, 3)
    with pytest.raises(ArrayValueError, match="there is nothing from 0 to 0"):
        rng.integers(llvm.Int, 3, 0)
    with pytest.raises(ArrayValueError, match=r"there is nothing from 2 to 1"):
        rng.uniform(llvm.Float, 3, 2, 1)
    with pytest.raises(ArrayTypeError, match="permutation"):
        rng.permutation([1, 2])
    with pytest.raises(ArrayValueError, match="the method is 'pcg'"):
        dr.rng(0, "pcg")
    with pytest.raises(ArrayTypeError, match=r"the seed is 1.5"):
        dr.rng(1.5)
