"""Sorting, ranks and spread, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import (
    ArrayTypeError,
    ArrayValueError,
    SizeError,
    SymbolicError,
)

ENTRIES = ["i8", "u8", "i16", "u16", "i", "u", "i64", "u64", "f16", "f", "f64", "b"]
SIZES = [1, 2, 3, 15, 64, 1000, 16384, 16385, 100_003]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5, -np.nan]


def flat_types(entries):
    return [
        dr.leaf_t(getattr(llvm, f"ArrayX{entries}")),
        getattr(scalar, f"ArrayX{entries}"),
    ]


def random_entries(cls, size, seed=0):
    rng = np.random.default_rng(seed + size)
    dtype = cls(0).numpy().dtype
    if dtype.kind == "b":
        return rng.random(size) < 0.4
    if dtype.kind == "f":
        values = (rng.standard_normal(size) * 100).astype(dtype)
        values[rng.random(size) < 0.1] = rng.choice(SPECIAL)
        values[rng.random(size) < 0.05] = np.nan
        return values
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, size, dtype=dtype, endpoint=True)


def descending(x):
    return len(x) - 1 - np.argsort(x[::-1], kind="stable")[::-1]


@pytest.mark.parametrize("size", [1 << 15, 1 << 18, (1 << 18) - 5, (1 << 20) + 9])
@pytest.mark.parametrize("entries", ["u", "i64", "f", "u16"])
def test_keys_whose_digits_are_equally_frequent(entries, size):
    """Their places share few lines of the caches, and are written to line by line."""
    cls = dr.leaf_t(getattr(llvm, f"ArrayX{entries}"))
    dtype = cls(0).numpy().dtype
    number = np.arange(size, dtype=np.uint32)
    few = np.where(number % 7 < 3, number % 3, number // 5000)
    for keys in (number, number[::-1], number * np.uint32(0x9E3779B1), few):
        x = keys.astype(dtype)
        np.testing.assert_array_equal(dr.sort(cls(x)).numpy(), np.sort(x))
        order = dr.argsort(cls(x)).numpy()
        np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))


@pytest.mark.parametrize("entries", ENTRIES)
def test_sort_and_argsort(entries):
    for cls in flat_types(entries):
        for size in SIZES:
            x = random_entries(cls, size)
            found = dr.sort(cls(x))
            assert type(found) is cls
            np.testing.assert_array_equal(found.numpy(), np.sort(x))
            order = dr.argsort(cls(x))
            assert dr.type_v(order) is dr.VarType.UInt32
            np.testing.assert_array_equal(order.numpy(), np.argsort(x, kind="stable"))
            order = dr.argsort(cls(x), descending=True)
            np.testing.assert_array_equal(order.numpy(), descending(x))
            found = dr.sort(cls(x), descending=True)
            np.testing.assert_array_equal(found.numpy(), x[descending(x)])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(SPECIAL), st.floats(width=32)), max_size=40),
    st.sampled_from([llvm.Float, ad.Float64, scalar.ArrayXf, llvm.Float16]),
)
def test_floats_in_order(values, cls):
    with np.errstate(over="ignore"):
        x = cls(np.array(values).astype(cls(0).numpy().dtype))
    data = np.array(x)
    np.testing.assert_array_equal(dr.sort(x).numpy(), np.sort(data))
    order = np.argsort(data, kind="stable")
    np.testing.assert_array_equal(dr.argsort(x).numpy(), order)
    if values:
        assert int(np.ravel(dr.argmin(x))[0]) == order[0]
        assert int(np.ravel(dr.argmax(x))[0]) == descending(data)[0]
        middle = order[(len(values) - 1) // 2]
        found, place = dr.median(x, return_index=True)
        np.testing.assert_array_equal(np.ravel(found), data[middle : middle + 1])
        assert int(np.ravel(place)[0]) == middle


def test_the_sign_of_zeros_and_nan_stays():
    found = dr.sort(llvm.Float(0.0, dr.nan, -0.0, -dr.inf)).numpy()
    assert np.signbit(found[1:3]).tolist() == [True, False]
    assert np.isnan(found[3])
    assert list(dr.argsort(llvm.Float(0.0, -0.0, 0.0, -0.0))) == [0, 1, 2, 3]


def test_equal_entries_keep_their_order():
    x = np.random.default_rng(3).integers(0, 7, 200_000).astype(np.int32)
    order = dr.argsort(llvm.Int(x))
    np.testing.assert_array_equal(order.numpy(), np.argsort(x, kind="stable"))


def test_arrays_of_one_value_and_ordered_ones():
    n = 50_000
    for x in (np.zeros(n), np.arange(n) * 1.0, -np.arange(n) * 1.0):
        np.testing.assert_array_equal(dr.sort(llvm.Float64(x)).numpy(), np.sort(x))
    lit = dr.full(llvm.Float, 2, 10)
    assert list(dr.sort(lit)) == [2] * 10
    assert list(dr.argsort(lit)) == list(range(10))


@pytest.mark.parametrize("space", [llvm, ad, scalar])
@pytest.mark.parametrize(
    "shape", [(7,), (3, 5), (2, 3, 4), (300, 7), (1, 1), (4, 1, 2)]
)
def test_tensors(space, shape):
    x = np.random.default_rng(5).integers(-9, 9, shape).astype(np.float32)
    t = space.TensorXf(x)
    for axis in (*range(len(shape)), -1):
        found = dr.sort(t, axis)
        assert type(found) is space.TensorXf
        np.testing.assert_array_equal(found.numpy(), np.sort(x, axis))
        order = dr.argsort(t, axis)
        assert type(order) is space.TensorXu
        right = np.argsort(x, axis, kind="stable")
        np.testing.assert_array_equal(order.numpy(), right)
        np.testing.assert_array_equal(dr.argmin(t, axis).numpy(), np.argmin(x, axis))
        kept = dr.argmax(t, axis, keepdims=True)
        np.testing.assert_array_equal(kept.numpy(), np.argmax(x, axis, keepdims=True))
        middle = np.take(np.sort(x, axis), (x.shape[axis] - 1) // 2, axis)
        np.testing.assert_array_equal(dr.median(t, axis).numpy(), middle)
    assert np.ravel(dr.argmin(t))[0] == np.argmin(x)
    ranked = np.sort(x.reshape(-1))
    assert dr.median(t, axis=None).shape == ()
    assert float(dr.median(t, axis=None)) == ranked[(x.size - 1) // 2]
    assert dr.median(t, axis=None, keepdims=True).shape == (1,) * x.ndim


@pytest.mark.parametrize("shape", [(3, 700), (700, 3), (40, 300), (2, 5000, 3)])
@pytest.mark.parametrize("entries", ["u8", "f", "i64", "b"])
def test_long_runs(entries, shape):
    cls = getattr(llvm, f"TensorX{entries}")
    x = np.random.default_rng(4).integers(-9, 9, shape).astype(cls(0).numpy().dtype)
    for axis in range(len(shape)):
        for tensor in (cls(x), getattr(ad, f"TensorX{entries}")(x)):
            found = dr.sort(tensor, axis).numpy()
            np.testing.assert_array_equal(found, np.sort(x, axis))
            down = dr.sort(tensor, axis, descending=True).numpy()
            np.testing.assert_array_equal(down, np.flip(found, axis))
            places = np.argsort(x, axis, kind="stable")
            np.testing.assert_array_equal(dr.argsort(tensor, axis).numpy(), places)


def test_derivatives_of_sorted_columns():
    x = ad.TensorXf64(np.random.default_rng(5).normal(0, 1, (5, 3)))
    weights = ad.TensorXf64(np.arange(15.0).reshape(5, 3))
    assert dr.gradcheck(lambda x: dr.sort(x, 0) * weights, x)


@pytest.mark.parametrize("digits", [[], [0], [1, 6], [0, 3, 7]])
@pytest.mark.parametrize("size", [1 << 16, (1 << 18) + 5])
def test_long_keys_that_differ_in_few_digits(digits, size):
    rng = np.random.default_rng(size)
    x = np.full(size, 0x1122334455667788, np.uint64)
    for digit in digits:
        x ^= rng.integers(0, 256, size, np.uint64) << np.uint64(8 * digit)
    np.testing.assert_array_equal(dr.sort(llvm.UInt64(x)).numpy(), np.sort(x))
    places = dr.argsort(llvm.UInt64(x)).numpy()
    np.testing.assert_array_equal(places, np.argsort(x, kind="stable"))


@pytest.mark.parametrize("axes", [(0, 1), (1,), (2, 0), (-1, 0), (0, 1, 2)])
@pytest.mark.parametrize("space", [llvm, scalar])
def test_medians_over_several_axes(space, axes):
    x = np.random.default_rng(1).permutation(24).reshape(2, 3, 4).astype(np.float32)
    chosen = [a % 3 for a in axes]
    others = [a for a in range(3) if a not in chosen]
    shape = [x.shape[a] for a in others]
    rows = np.transpose(x, others + chosen).reshape(*shape, -1)
    middle = np.sort(rows, -1)[..., (rows.shape[-1] - 1) // 2]
    t = space.TensorXf(x)
    found, place = dr.median(t, axes, return_index=True)
    np.testing.assert_array_equal(found.numpy(), middle)
    at = place.numpy().astype(int)[..., None]
    np.testing.assert_array_equal(np.take_along_axis(rows, at, -1)[..., 0], middle)
    kept = dr.median(t, axes, keepdims=True)
    assert kept.shape == tuple(1 if a in chosen else n for a, n in enumerate(x.shape))
    assert kept.array.numpy().tolist() == middle.ravel().tolist()


def test_derivatives_of_medians_over_several_axes():
    x = ad.TensorXf64(np.random.default_rng(2).permutation(12).reshape(2, 3, 2))
    assert dr.gradcheck(lambda x: dr.median(x, (0, 2)), x)
    with pytest.raises(ArrayTypeError, match=r"median: Array2f takes one axis"):
        dr.median(llvm.Array2f(1, 2), (0, 1))


def test_nested_and_static_arrays():
    v = llvm.Array2f([3, 1, 2], [5, 9, 7])
    assert dr.sort(v).numpy().tolist() == [[1, 2, 3], [5, 7, 9]]
    assert type(dr.argsort(v)) is llvm.Array2u
    assert dr.argsort(v).numpy().tolist() == [[1, 2, 0], [0, 2, 1]]
    assert dr.argmin(v, axis=1).numpy().tolist() == [[1], [0]]
    assert list(dr.sort(scalar.Array3f(3, 1, 2))) == [1, 2, 3]
    assert type(dr.argsort(scalar.Array3f(3, 1, 2))) is scalar.Array3u
    assert dr.argmin(scalar.Array3f(3, 1, 2)) == 1
    assert dr.median(scalar.ArrayXf(3, 1, 2)) == 2.0
    assert len(dr.sort(llvm.Float())) == 0
    assert len(dr.argsort(llvm.Float())) == 0
    assert dr.sort(llvm.TensorXf(np.zeros((0, 3)))).shape == (0, 3)


def test_sorted_entries_pass_derivatives_back():
    x = ad.Float64(3, 1, 2, 5)
    dr.enable_grad(x)
    dr.backward(dr.sum(dr.sort(x) * ad.Float64(1, 10, 100, 1000)))
    assert list(dr.grad(x)) == [100, 1, 10, 1000]
    assert dr.gradcheck(lambda v: dr.sort(v, descending=True) ** 2, x)
    assert dr.gradcheck(dr.median, x)
    t = ad.TensorXf64([[3.0, 1, 2], [9, 7, 8]])
    assert dr.gradcheck(lambda v: dr.sort(v, 0) ** 2 + dr.sort(v, 1), t)


def test_a_sort_within_a_program():
    x = dr.sin(dr.arange(llvm.Float, 1000))
    order = dr.argsort(x * x)
    y = np.sin(np.arange(1000, dtype=np.float32))
    found = dr.gather(llvm.Float, x, order).numpy()
    assert (np.diff(found**2) >= 0).all()
    np.testing.assert_allclose(np.sort(found), np.sort(y), atol=1e-5)


def test_bad_input():
    with pytest.raises(
        ArrayTypeError, match="sort: unsupported argument of type 'list'"
    ):
        dr.sort([3, 1, 2])
    with pytest.raises(ArrayTypeError, match="argmin: unsupported argument"):
        dr.argmin(3)
    with pytest.raises(ArrayTypeError, match="sort: unsupported argument"):
        dr.sort(llvm.Complex2f(1, 2))
    with pytest.raises(ArrayValueError, match="axis 1 doesn't exist"):
        dr.sort(llvm.Float(1), axis=1)
    with pytest.raises(ArrayValueError, match="there is no axis None"):
        dr.sort(llvm.TensorXf([1.0]), axis=None)
    with pytest.raises(ArrayValueError, match="no order along axis 0"):
        dr.argsort(llvm.Array2f(1, 2), axis=0)
    for function in (dr.argmin, dr.argmax, dr.median):
        with pytest.raises(SizeError, match="there are no entries along the axis"):
            function(llvm.Float())
        with pytest.raises(SymbolicError):
            dr.while_loop(
                (llvm.Float(1, 2),),
                lambda x: x < 3,
                lambda x, function=function: (x + function(x),),
                mode="symbolic",
            )


@pytest.mark.parametrize("cls", [llvm.Float64, ad.Float64, scalar.ArrayXf64])
@pytest.mark.parametrize("ddof", [0, 1])
def test_variance(cls, ddof):
    x = np.random.default_rng(2).standard_normal(1001) + 1e3
    for name in ("var", "std"):
        found = np.ravel(getattr(dr, name)(cls(x), ddof=ddof))[0]
        np.testing.assert_allclose(found, getattr(np, name)(x, ddof=ddof), rtol=1e-11)


@pytest.mark.parametrize("space", [llvm, ad, scalar])
@pytest.mark.parametrize("axis", [..., None, 0, 1, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_variance_of_tensors(space, axis, keepdims):
    x = np.random.default_rng(3).standard_normal((3, 4, 5))
    found = dr.var(space.TensorXf64(x), axis=axis, keepdims=keepdims, ddof=1)
    assert type(found) is space.TensorXf64
    axes = None if axis is ... else axis
    right = np.var(x, axis=axes, keepdims=keepdims, ddof=1)
    assert found.shape == right.shape
    np.testing.assert_allclose(found.numpy(), right)


@pytest.mark.parametrize("count", [10, 3001, 70_001])
def test_variance_of_halves(count):
    """Neither the squares, nor their sum, nor their number have to be halves."""
    x = (np.random.default_rng(4).normal(size=count) * 300 + 7).astype(np.float16)
    wide = x.astype(np.float64)
    for space in (llvm, ad, scalar):
        small = space.ArrayXf16(x) if space is scalar else space.Float16(x)
        for value in (small, space.TensorXf16(x)):
            found = dr.std(value)
            assert np.ravel(found)[0] == pytest.approx(wide.std(), rel=1e-3)
            found = np.ravel(dr.var(value / 30))[0]
            assert found == pytest.approx(wide.var() / 900, rel=2e-3)
    pair = [llvm.Float16(x), llvm.Float16(x) + 64]
    np.testing.assert_allclose(dr.std(pair, axis=0).numpy(), np.full(count, 32), 0.05)


def test_variance_of_other_containers():
    v = llvm.Array3f64([1, 2], [3, 4], [8, 0])
    x = v.numpy()
    for axis in (0, 1, None):
        found = np.ravel(dr.var(v, axis=axis))
        np.testing.assert_allclose(found, np.ravel(np.var(x, axis=axis)))
    assert dr.var([1, 2, 3]) == np.var([1, 2, 3])
    assert dr.std(3.0) == 0
    assert np.isnan(dr.var(llvm.Float(1), ddof=1)[0])
    assert np.isnan(dr.var([1.0], ddof=1))
    assert dr.std(llvm.Float(1, 3), ddof=2)[0] == dr.inf
    assert dr.gradcheck(dr.var, ad.Float64(1, 4, 9))
    assert dr.gradcheck(lambda x: dr.std(x, ddof=1), ad.Float64(1, 4, 9))
    with pytest.raises(ArrayTypeError, match="expected floats"):
        dr.var(llvm.Int(1, 2))
    with pytest.raises(ArrayTypeError, match=r"ddof is 0.5"):
        dr.var(llvm.Float(1, 2), ddof=0.5)


def first_extremes(a, op):
    """Return the first place of each row's extreme, where NaN is the largest."""
    if op == "max" or a.dtype.kind != "f":
        return np.argmax(a, 1) if op == "max" else np.argmin(a, 1)
    found = np.argmin(np.where(np.isnan(a), np.inf, a), 1)
    is_inf = np.isnan(a[np.arange(len(a)), found])
    return np.where(is_inf, np.argmax(a == np.inf, 1), found)


@pytest.mark.usefixtures("each_target")
@pytest.mark.parametrize("suffix", ["f16", "f", "f64", "u8", "i", "u", "i64", "b"])
@pytest.mark.parametrize(
    "shape",
    [
        *((5, 4), (4, 8), (3, 9), (3, 65), (2, 127), (1, 1000), (1, 32769)),
        *((2, 99_999), (7, 12_001)),
    ],
)
def test_places_of_extremes(suffix, shape):
    cls = getattr(llvm, f"TensorX{suffix}")
    rng = np.random.default_rng(7)
    numbers = rng.integers(0, 120, shape)
    kinds = [numbers, numbers * 0, np.where(numbers == 3, 1, 0)]
    entries = [k.astype(cls([0]).numpy().dtype) for k in kinds]
    if entries[0].dtype.kind == "f":
        rare, nan = entries[0].copy(), np.full_like(entries[0], np.nan)
        rare[rng.random(shape) < 0.01] = np.nan
        late = nan.copy()
        late[:, shape[1] // 2], late[:, -1] = np.inf, -np.inf
        zeros = np.where(numbers == 3, np.float32(-0.0), 0).astype(nan.dtype)
        entries += [-entries[0], rare, nan, late[:, :-1], late, zeros]
    for a in entries:
        for op, function in (("min", dr.argmin), ("max", dr.argmax)):
            wanted = first_extremes(a, op)
            np.testing.assert_array_equal(function(cls(a), 1).numpy(), wanted)
            turned = cls(np.ascontiguousarray(a.T))
            np.testing.assert_array_equal(function(turned, 0).numpy(), wanted)
            (place,) = first_extremes(a.reshape(1, -1), op)
            assert int(function(cls(a).array)[0]) == place
