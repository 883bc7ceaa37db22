"""Running sums, products and extremes, whole and in blocks, with derivatives."""

from __future__ import annotations

from typing import Any

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

OPS = {
    dr.ReduceOp.Add: np.add,
    dr.ReduceOp.Mul: np.multiply,
    dr.ReduceOp.Min: np.minimum,
    dr.ReduceOp.Max: np.maximum,
    dr.ReduceOp.And: np.bitwise_and,
    dr.ReduceOp.Or: np.bitwise_or,
}
BITWISE = (dr.ReduceOp.And, dr.ReduceOp.Or)
ENTRIES = ["i8", "u8", "i16", "u16", "i", "u", "i64", "u64", "f16", "f", "f64", "b"]
SIZES = [1, 2, 3, 16, 17, 100, 4099, 70001]


def test_several_axes():
    grid = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = dr.cumsum(llvm.TensorXf(grid), axis=(0, 1))
    np.testing.assert_array_equal(found.numpy(), grid.cumsum(0).cumsum(1))
    found = dr.prefix_sum(llvm.TensorXf(grid), axis=(-1,), reverse=True)
    np.testing.assert_array_equal(found.numpy(), [[3, 2, 0], [9, 5, 0]])


def neutral(op, dtype):
    if op is dr.ReduceOp.Add:
        return 0
    if op is dr.ReduceOp.Mul:
        return 1
    if dtype.kind == "f":
        return np.inf if op is dr.ReduceOp.Min else -np.inf
    if op in BITWISE:
        return dtype.type(0) if op is dr.ReduceOp.Or else ~dtype.type(0)
    info = np.iinfo(dtype)
    return info.max if op is dr.ReduceOp.Min else info.min


def expected(op, x, block, exclusive, reverse):
    rows = x.reshape(-1, block)[:, :: -1 if reverse else 1]
    with np.errstate(all="ignore"):
        found = OPS[op].accumulate(rows, axis=1, dtype=x.dtype)
    if exclusive:
        first = np.full((len(rows), 1), neutral(op, x.dtype)).astype(x.dtype)
        found = np.concatenate([first, found], axis=1)[:, :-1]
    return found[:, :: -1 if reverse else 1].reshape(-1)


def random_values(cls, size, op):
    """Draw values whose running sums and products stay exact."""
    rng = np.random.default_rng(size)
    dtype = cls(0).numpy().dtype
    if dtype.kind == "b":
        return rng.random(size) < (0.9 if op is dr.ReduceOp.And else 0.1)
    if dtype.kind == "f" and op is dr.ReduceOp.Mul:
        # Halves are multiplied in single precision, which overflows later.
        chances = [0.5, 0.5, 0, 0] if dtype.itemsize == 2 else [0.5, 0.46, 0.02, 0.02]
        found = rng.choice([1, -1, 2, 0.5], size, p=chances)
        exponents = np.cumsum(np.log2(np.abs(found)))
        # So the product of any run is exact, too, in whatever order it is formed.
        assert np.ptp(exponents) < 120
        return found.astype(dtype)
    high = 2 if dtype == np.float16 else 60
    return rng.integers(0, high, size).astype(dtype)


def is_defined(op, entries):
    return not entries.startswith("f") if op in BITWISE else entries != "b"


@pytest.mark.parametrize(
    ("op", "entries"),
    [(op, entries) for op in OPS for entries in ENTRIES if is_defined(op, entries)],
)
def test_prefix_reduce(op, entries):
    for space in ("llvm", "scalar"):
        cls = getattr(scalar, f"ArrayX{entries}")
        if space == "llvm":
            cls = dr.leaf_t(getattr(llvm, f"ArrayX{entries}"))
        for size in SIZES:
            x = random_values(cls, min(size, 1500) if entries == "f16" else size, op)
            for exclusive in (False, True):
                found = dr.prefix_reduce(op, cls(x), exclusive=exclusive)
                assert type(found) is cls
                right = expected(op, x, len(x), exclusive, False)
                np.testing.assert_array_equal(found.numpy(), right)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(OPS)),
    st.integers(1, 40),
    st.integers(1, 300),
    st.booleans(),
    st.booleans(),
    st.sampled_from([llvm.Int, ad.Int, llvm.UInt64, scalar.ArrayXi, llvm.UInt8]),
)
def test_blocks(op, block, count, exclusive, reverse, cls):
    x = random_values(cls, block * count, op)
    found = dr.block_prefix_reduce(op, cls(x), block, exclusive, reverse)
    right = expected(op, x, block, exclusive, reverse)
    np.testing.assert_array_equal(found.numpy(), right)


def test_components_of_one_entry_are_as_long_as_others():
    x = llvm.Array2f([1, 2, 3, 4], 2)
    assert dr.block_sum(x, 2).numpy().tolist() == [[3, 7], [4, 4]]
    found = dr.block_prefix_reduce(dr.ReduceOp.Mul, x, 2, exclusive=False)
    assert found.numpy().tolist() == [[1, 2, 3, 12], [2, 4, 2, 4]]
    with pytest.raises(SizeError, match="size 1 is no multiple"):
        dr.block_sum(llvm.Array2f(1, 2), 2)


def test_long_blocks_on_several_threads():
    x = random_values(llvm.Int, 6 * 50_000, dr.ReduceOp.Add)
    found = dr.block_prefix_sum(llvm.Int(x), 50_000, exclusive=False)
    right = expected(dr.ReduceOp.Add, x, 50_000, False, False)
    np.testing.assert_array_equal(found.numpy(), right)


def test_other_containers():
    assert dr.prefix_reduce(dr.ReduceOp.Add, [1, 2, 3], reverse=True) == [5, 3, 0]
    assert dr.prefix_reduce(dr.ReduceOp.Max, (2, 1, 3)) == (-dr.inf, 2, 2)
    assert dr.prefix_reduce(dr.ReduceOp.Max, []) == []
    assert len(dr.prefix_reduce(dr.ReduceOp.Max, llvm.Float())) == 0
    assert list(dr.prefix_sum(llvm.Float(1, 2, 3), reverse=True)) == [5, 3, 0]
    v = llvm.Array3f(1, 3, [2, 4])
    found = dr.prefix_reduce(dr.ReduceOp.Mul, v, exclusive=False)
    assert found.numpy().tolist() == [[1, 1], [3, 3], [6, 12]]
    found = dr.prefix_reduce(
        dr.ReduceOp.Max, llvm.Array2u([1, 3, 2], [5, 1, 7]), axis=1
    )
    assert found.numpy().tolist() == [[0, 1, 3], [0, 5, 5]]
    tree: dict[str, Any] = {"a": llvm.Array2u([1, 2], [3, 4]), "b": 3}
    tree = dr.block_prefix_sum(tree, 1)
    assert (tree["a"].numpy().tolist(), tree["b"]) == ([[0, 0], [0, 0]], 3)
    assert list(dr.prefix_sum(scalar.Array3f(1, 2, 3))) == [0, 1, 3]


@pytest.mark.parametrize("space", [llvm, ad, scalar])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, (0, 2)])
def test_tensors(space, axis):
    x = np.random.default_rng(1).integers(0, 9, (2, 3, 4)).astype(np.int32)
    found = dr.prefix_reduce(
        dr.ReduceOp.Add, space.TensorXi(x), axis=axis, exclusive=False
    )
    assert type(found) is space.TensorXi
    for k in axis if isinstance(axis, tuple) else (axis,):
        x = np.cumsum(x, axis=k, dtype=np.int32)
    np.testing.assert_array_equal(found.numpy(), x)


# Rows of less than a vector and longer ones, one run in pieces, several parts of rows.
COLUMNS = [(40, 5), (3, 7, 11), (33_333, 2), (9_000, 21), (5, 30, 17), (2, 3, 40_000)]


@pytest.mark.parametrize("shape", COLUMNS)
@pytest.mark.parametrize("entries", ["u8", "f16", "i", "f", "f64"])
def test_columns_of_tensors(shape, entries):
    cls = getattr(llvm, f"TensorX{entries}")
    dtype = cls(0).numpy().dtype
    size = np.prod(shape)
    for axis in range(len(shape) - 1):
        for op in (dr.ReduceOp.Add, dr.ReduceOp.Max):
            x = random_values(llvm.Float64, size, op) % (2 if entries == "f16" else 60)
            if entries == "f16":
                x *= np.arange(size) % 97 == 0
            x = x.reshape(shape).astype(dtype)
            for exclusive, reverse in ((False, False), (True, False), (True, True)):
                found = dr.prefix_reduce(op, cls(x), axis, exclusive, reverse)
                runs = np.moveaxis(x, axis, -1)
                right = expected(op, runs.reshape(-1), shape[axis], exclusive, reverse)
                right = np.moveaxis(right.reshape(runs.shape), -1, axis)
                np.testing.assert_array_equal(found.numpy(), right)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("op", list(OPS)[:4], ids=lambda op: op.name)
def test_derivatives_of_columns(op, exclusive, axis):
    def function(x):
        found = dr.prefix_reduce(op, x, axis, exclusive, reverse=axis == 0)
        return dr.select(dr.isfinite(found), found, 0) ** 2

    x = ad.TensorXf64(ad.Float64(VALUES + [0.75 * v for v in VALUES[:4]]), (2, 3, 2))
    assert dr.gradcheck(function, x)


VALUES = [1.5, -0.5, 2.0, 0.25, 3.0, -1.0, 0.5, 2.5]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("block", [8, 4, 1])
@pytest.mark.parametrize("op", list(OPS)[:4], ids=lambda op: op.name)
def test_derivatives(op, block, exclusive, reverse):
    def function(x):
        found = dr.block_prefix_reduce(op, x, block, exclusive, reverse)
        return dr.select(dr.isfinite(found), found, 0) ** 2

    assert dr.gradcheck(function, ad.Float64(VALUES))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("zeros", [[3], [0], [2, 5], [0, 1, 7]])
def test_derivatives_of_products_with_zeros(zeros, exclusive):
    values = np.array(VALUES)
    values[zeros] = 0

    def function(x):
        return dr.prefix_reduce(dr.ReduceOp.Mul, x, exclusive=exclusive)

    assert dr.gradcheck(function, ad.Float64(values))


def test_second_derivatives_of_products():
    def function(x):
        return dr.sum(dr.prefix_reduce(dr.ReduceOp.Mul, x, exclusive=False) ** 2)

    x, v = ad.Float64(VALUES[:4]), ad.Float64(1, 0.5, -1, 2)
    step = 1e-5
    slopes = []
    for sign in (1, -1):
        _, gradient = dr.value_and_grad(function)(x + sign * step * v)
        slopes.append(gradient.numpy())
    expected = (slopes[0] - slopes[1]) / (2 * step)
    np.testing.assert_allclose(
        dr.hvp(function, [x], [v])[0].numpy(), expected, rtol=1e-6
    )


def test_bad_input():
    add = dr.ReduceOp.Add
    with pytest.raises(ArrayValueError, match="axis 2 doesn't exist"):
        dr.prefix_reduce(add, llvm.Array3f(1), axis=2)
    with pytest.raises(ArrayTypeError, match="op is 'add'"):
        dr.prefix_reduce("add", llvm.Float(1))  # type: ignore[arg-type]
    with pytest.raises(ArrayTypeError, match="op is 'add'"):
        dr.block_prefix_reduce("add", llvm.Float(1), 1)  # type: ignore[arg-type]
    with pytest.raises(ArrayTypeError, match="prefix_reduce: unsupported argument"):
        dr.prefix_reduce(add, 3)
    with pytest.raises(ArrayTypeError, match="And isn't defined for Float32"):
        dr.prefix_reduce(dr.ReduceOp.And, llvm.Float(1))
    with pytest.raises(SizeError, match="4 is no multiple of the block size 3"):
        dr.block_prefix_sum(llvm.Float(1, 2, 3, 4), 3)
    with pytest.raises(SymbolicError):
        dr.while_loop(
            (llvm.Float(1, 2),),
            lambda x: x < 3,
            lambda x: (dr.prefix_reduce(add, x) + 1,),
            mode="symbolic",
        )
