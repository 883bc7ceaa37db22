"""Reductions, masks, scans and vector products against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import Array2f, Array3f, Bool, Float, Int, UInt
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError

SIZES = [0, 1, 2, 31, 1000, 70001]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["Int", "UInt64", "Float64"])
def test_reductions_match_numpy(size, name):
    rng = np.random.default_rng(size)
    x = rng.integers(1, 100, size).astype(getattr(llvm, name)(1).numpy().dtype)
    suffix = {"Int": "i", "UInt64": "u64", "Float64": "f64"}[name]
    for cls in (getattr(llvm, name), getattr(scalar, f"ArrayX{suffix}")):
        value = cls(x)
        assert first(dr.sum(value)) == x.sum()
        if size:
            assert first(dr.min(value)) == x.min()
            assert first(dr.max(value)) == x.max()


def first(value):
    return value[0] if isinstance(value, dr.ArrayBase) else value


def test_empty_reductions_give_neutral_values():
    assert list(dr.sum(Float())) == [0]
    assert list(dr.prod(Float())) == [1]
    assert list(dr.min(Float())) == [float("inf")]
    assert list(dr.max(Int())) == [-(2**31)]
    assert list(dr.all(Bool())) == [True]
    assert list(dr.any(Bool())) == [False]
    assert dr.min(scalar.ArrayXu()) == 2**32 - 1
    assert dr.sum([]) == 0
    assert np.isnan(dr.mean([]))
    assert np.isnan(dr.mean(Float()))
    assert len(dr.sum(llvm.ArrayXf())) == 1


def test_integers_wrap_around():
    assert list(dr.sum(llvm.UInt8(200, 100))) == [44]
    assert dr.sum(scalar.ArrayXu(2**32 - 1, 2)) == 1


def test_axes():
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    value = llvm.Array22f(x)
    for axis in (0, 1, -2, (0, 1)):
        result = dr.sum(value, axis=axis)
        np.testing.assert_array_equal(result.numpy(), x.sum(axis=axis))
    last = dr.sum(value, axis=-1)
    np.testing.assert_array_equal(last.numpy()[..., 0], x.sum(axis=-1))
    assert list(dr.sum(value, axis=None)) == [66]
    assert list(dr.max(Array3f(1, [5, 2], 3), axis=None)) == [5]
    assert str(dr.sum(Array3f(1, 2, [3, 4]), axis=1)) == "[[1, 2, 7]]"
    for axis in (3, -4):
        with pytest.raises(ArrayValueError, match="doesn't exist"):
            dr.sum(value, axis=axis)
    with pytest.raises(ArrayTypeError, match="an axis is 'x'"):
        dr.sum(value, axis="x")
    with pytest.raises(ArrayValueError, match="sequences have no axis"):
        dr.sum([1, 2], axis=1)


def test_sequences_and_numbers():
    assert dr.sum(3) == 3
    assert dr.sum((Float(1), Float(2, 3)))[1] == 4
    assert dr.prod([2, 3]) == 6
    assert dr.max([1, 2.5]) == 2.5
    assert dr.mean([1, 2]) == 1.5
    assert dr.mean([Float(1, 3), Float(5, 7)], axis=None)[0] == 4
    assert dr.mean(3.5) == 3.5
    assert dr.sum(i for i in range(4)) == 6
    assert dr.reduce(dr.ReduceOp.Or, [True, False]) is True
    assert dr.reduce(dr.ReduceOp.Identity, Float(1, 2)).shape == (2,)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: dr.sum("ab"), r"lumijit\.sum: unsupported argument"),
        (lambda: dr.sum(None), r"lumijit\.sum: unsupported argument"),
        (lambda: dr.sum(Bool(True)), "Add isn't defined for Bool"),
        (lambda: dr.reduce(dr.ReduceOp.And, Float(1)), "And isn't defined for Float"),
        (lambda: dr.reduce(dr.ReduceOp.And, 3), "unsupported argument"),
        (lambda: dr.reduce(dr.ReduceOp.Or, [1, 2]), "unsupported argument"),
        (lambda: dr.reduce("add", 3), "op is 'add'"),  # type: ignore[arg-type]
        (lambda: dr.mean(Int(1, 2)), "the entries have type Int32"),
        (lambda: dr.mean(llvm.UInt8([1] * 300)), "the entries have type UInt8"),
        (lambda: dr.any(Float(1)), "expected a mask"),
        (lambda: dr.all(1), "unsupported argument"),
        (lambda: dr.compress(Float(1)), "expected a flat mask"),
        (lambda: dr.compress([True]), "expected a flat mask"),
        (lambda: dr.prefix_sum(Bool(True)), "Add isn't defined"),
        (lambda: dr.prefix_sum("a"), "unsupported argument"),
        (lambda: dr.block_reduce("x", Float(1), 1), "op is 'x'"),  # type: ignore[arg-type]
        (lambda: dr.dot("a", 1), "unsupported argument"),  # type: ignore[call-overload]
        (lambda: dr.dot(Array3f(1), Array2f(1)), "incompatible shapes"),  # type: ignore[misc]
        (lambda: dr.cross(Array2f(1), Array2f(1)), "three components"),
        (lambda: dr.normalize([3, 4]), "unsupported argument"),  # type: ignore[call-overload]
    ],
)
def test_wrong_types(call, match):
    with pytest.raises(ArrayTypeError, match=match):
        call()


def test_wrong_values():
    with pytest.raises(ArrayValueError, match="mode is 'fast'"):
        dr.sum(Float(1), mode="fast")
    with pytest.raises(ArrayValueError, match="axis 1 doesn't exist"):
        dr.prefix_sum(Float(1), axis=1)
    with pytest.raises(SizeError, match="no multiple of the block size 3"):
        dr.block_sum(Float(1, 2), 3)
    with pytest.raises(SizeError, match="no multiple of the block size 0"):
        dr.block_sum(Float(1, 2), 0)
    with pytest.raises(SizeError, match="2 and 3 items"):
        dr.dot([1, 2], [1, 2, 3])


def test_masks():
    mask = Bool(True, False, True)
    assert list(dr.count(mask)) == [2]
    assert not dr.all(mask)
    assert dr.any(mask)
    assert not dr.none(mask)
    assert list(dr.all(llvm.Array2b(True, mask))) == [True, False, True]
    assert list(dr.count(llvm.Array2b(True, mask), axis=None)) == [5]
    assert dr.count([True, False]) == 1
    assert dr.any([Bool(False), Bool(True)])
    assert dr.any(scalar.Array3b(False, True, False)) is True
    assert dr.none([])
    assert not dr.all_nested({"a": mask, "b": [True]})
    assert dr.any_nested((Bool(False), [mask]))
    assert not dr.none_nested([mask])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("cls", [UInt, llvm.Float64, scalar.ArrayXi])
def test_prefix_sums(size, cls):
    x = np.random.default_rng(size).integers(0, 9, size)
    total = np.cumsum(x)
    np.testing.assert_array_equal(dr.cumsum(cls(x)).numpy(), total)
    np.testing.assert_array_equal(dr.prefix_sum(cls(x)).numpy(), total - x)
    assert dr.prefix_sum([1, 2, 3]) == [0, 1, 3]
    assert str(dr.cumsum(Array3f(1, 2, 3))) == "[[1, 3, 6]]"


@pytest.mark.parametrize("size", SIZES)
def test_compress(size):
    x = np.random.default_rng(size).integers(0, 2, size).astype(bool)
    for cls in (Bool, scalar.ArrayXb):
        np.testing.assert_array_equal(dr.compress(cls(x)).numpy(), np.flatnonzero(x))


@pytest.mark.parametrize("cls", [Float, scalar.ArrayXf])
def test_blocks(cls):
    x = np.arange(24) % 7
    assert list(dr.block_sum(cls(x), 4)) == list(x.reshape(6, 4).sum(1))
    largest = dr.block_reduce(dr.ReduceOp.Max, [cls(x), 3], 3)
    assert list(largest[0]) == list(x.reshape(8, 3).max(1))
    assert largest[1] == 3
    assert list(dr.block_reduce(dr.ReduceOp.Identity, cls(x), 3)) == list(x)
    nested = dr.block_sum(Array2f([1, 2], [3, 4]), 2)
    assert str(nested) == "[[3, 7]]"


def test_products():
    a, b = Array3f(1, 2, [3, 4]), Array3f(3, 2, 1)
    assert list(dr.dot(a, b)) == [10, 11]
    assert list(dr.dot(a, 2)) == [12, 14]
    assert list(a @ b) == [10, 11]
    assert list(dr.dot(Float(1, 2), Float(3, 4))) == [11]
    assert dr.abs_dot([1, 2], [-3, -4]) == 11
    assert list(dr.squared_norm(llvm.Array3i(1, 2, 3))) == [14]
    assert dr.norm([3, 4]) == dr.norm(value=[3, 4]) == 5
    assert list(dr.norm(Float(3, 4))) == [5]
    np.testing.assert_allclose(dr.norm(dr.normalize(a)).numpy(), [1, 1], rtol=1e-6)
    c = np.cross([1, 2, 3], [3, 2, 1])
    np.testing.assert_array_equal(dr.cross(a, b).numpy()[:, 0], c)
    v = scalar.Array3f(1, 2, 3)
    assert dr.dot(v, v) == 14
    assert list(dr.cross(v, scalar.Array3f(3, 2, 1))) == list(c)


@pytest.mark.parametrize("mode", [None, "evaluated", "symbolic"])
@pytest.mark.parametrize("op", [dr.ReduceOp.Add, dr.ReduceOp.Max, dr.ReduceOp.Mul])
@pytest.mark.parametrize(
    ("size", "block"), [(6, 3), (1001, 7), (5, 1), (4096, 64), (0, 2)]
)
def test_blocks_in_each_mode(mode, op, size, block):
    x = dr.arange(UInt, size) * 7 + 3
    found = dr.block_reduce(op, x, block, mode=mode)
    combine = {"Add": np.add, "Max": np.maximum, "Mul": np.multiply}[op.name]
    rows = np.array(x, np.uint32).reshape(-1, block)
    np.testing.assert_array_equal(found, combine.reduce(rows, axis=1, dtype=np.uint32))


@pytest.mark.parametrize("mode", ["evaluated", "symbolic"])
def test_blocks_of_halves_are_summed_in_single_precision(mode):
    x = dr.full(dr.llvm.Float16, 0.1, 4000)
    rows = np.full((2, 2000), 0.1, np.float16).astype(np.float32)
    found = dr.block_sum(x, 2000, mode=mode)
    np.testing.assert_allclose(found, rows.sum(axis=1), rtol=1e-3)


def test_a_symbolic_reduction_of_blocks_needs_no_memory_for_the_input():
    x = dr.opaque(Float, 2, 64)
    y = x * 3
    total = dr.block_sum(y, 32, mode="symbolic")
    assert list(total) == [192, 192]
    assert y.state is dr.VarState.Unevaluated


def test_blocks_refuse_unknown_modes():
    with pytest.raises(ValueError, match="block_reduce: mode is 'eval'"):
        dr.block_sum(Float(1, 2), 2, mode="eval")


def test_means_of_halves_in_lists_do_not_overflow() -> None:
    big = dr.llvm.Float16(60000, 2)
    found = dr.mean([big, big, big])
    assert type(found) is dr.llvm.Float16
    assert list(found) == [60000, 2]
    assert type(dr.mean([big, dr.llvm.Float(1)])) is dr.llvm.Float


@pytest.mark.parametrize(
    "shape", [(1, 150_001), (3, 70_000), (40, 40_003), (90, 129), (9_000, 65)]
)
def test_masks_that_one_entry_decides(shape):
    # Kernels stop where the result of a run is known.
    rows, run = shape
    places = np.linspace(0, run - 1, rows).astype(int)
    alone = np.arange(run) == places[:, None]
    for x in (alone, ~alone, np.zeros(shape, bool), np.ones(shape, bool)):
        for t in (llvm.TensorXb(x), llvm.TensorXb(np.vstack([~x, x]))[rows:]):
            for name in ("any", "all", "argmax", "argmin"):
                found = getattr(dr, name)(t, axis=1).numpy()
                np.testing.assert_array_equal(found, getattr(np, name)(x, axis=1))
        flat = Bool(x.ravel())
        assert dr.any(flat)[0] == x.any()
        assert dr.all(flat)[0] == x.all()
        assert dr.argmax(flat)[0] == x.argmax()
