"""Functions of values that programs rarely have, found by drawing expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import (
    Array2f,
    Array3b,
    Array3f,
    Array22b,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Int,
    Matrix2f,
    Matrix4f,
    Quaternion4f,
    TensorXb,
    TensorXf,
    TensorXi,
    TensorXu,
    UInt,
)
from lumijit.llvm.ad import Float as Tracked


def entries(value: Any) -> Any:
    return np.asarray(value.numpy()).ravel().tolist()


def test_norms_and_variances_are_of_parts() -> None:
    assert entries(dr.squared_norm(Complex2f(-7, -3), axis=0)) == [58]
    assert entries(dr.squared_norm(Quaternion4f(1, 2, 3, 4), axis=0)) == [30]
    assert entries(dr.squared_norm(Matrix2f(1, 2, 3, 4), axis=(0, 1))) == [30]
    assert dr.squared_norm(scalar.Complex2f(-7, -3), axis=0) == 58
    assert entries(dr.var(Quaternion4f(1, 2, 3, 4))) == [1.25]
    assert entries(dr.var(Matrix2f(1, 2, 3, 4), axis=None)) == [1.25]


def test_derivatives_at_the_ends_of_intervals() -> None:
    for function, slopes in (
        (lambda x: dr.clip(x, 0, 1), [1, 1, 0, 0]),
        (lambda x: dr.clip(x, Tracked(0), Tracked(1)), [1, 1, 0, 0]),
        (dr.linear_to_srgb, [12.92, 0.439583, 0, 0]),
    ):
        x = Tracked(0, 1, 2, -1)
        dr.enable_grad(x)
        dr.backward(function(x))
        assert entries(x.grad) == pytest.approx(slopes, rel=1e-4)
    # The rest is as it was.
    assert entries(dr.clip(Matrix2f(1, 2, 3, 4), 2, 3)) == [2, 0, 0, 3]
    assert np.isnan(entries(dr.clip(Float(np.nan), 0, 1))[0])
    assert dr.clip(5, 1, 3) == 3


def test_slices_tiles_and_gradients_of_what_has_no_such_dimension() -> None:
    for value in (scalar.Array3f(1, 2, 3), scalar.Array22f(1), TensorXf([[1, 2]])):
        sliced = dr.slice((value, Float(4, 5)), 1)
        assert sliced[0] is value
        assert sliced[1] == 5
    for value in (scalar.Array3f(1, 2, 3), scalar.Array22f(1)):
        for same in (dr.tile(value, 2), dr.repeat(value, 2)):
            assert type(same) is type(value)
            assert np.array_equal(np.array(same), np.array(value))
    found = dr.grad(scalar.Array3f(1, 2, 3))
    assert type(found) is scalar.Array3f
    assert list(found) == [0, 0, 0]


def test_flat_arrays_of_other_types() -> None:
    assert entries(Float(TensorXi([1, 2]))) == [1, 2]
    assert entries(Bool(TensorXb([True, False]))) == [True, False]
    assert entries(Complex2f(TensorXf([[1, 2], [3, 4]]))) == [1 + 2j, 3 + 4j]
    assert entries(Quaternion4f(TensorXi([[1], [2], [3], [4]]))) == [1, 2, 3, 4]
    assert entries(Matrix2f(TensorXf([[[1], [2]], [[3], [4]]]))) == [1, 2, 3, 4]
    assert entries(scalar.Matrix2f(scalar.TensorXf([[1, 2], [3, 4]]))) == [1, 2, 3, 4]
    found: Any = dr.unravel(Array2f, Int(1, 2, 3, 4))
    assert type(found) is Array2f
    assert entries(found) == [1, 3, 2, 4]
    assert dr.unravel(scalar.Array2f, scalar.ArrayXu(1, 2)).y == 2
    found = dr.reinterpret_array(TensorXf, TensorXu([[0x3F800000, 0]]))
    assert found.shape == (1, 2)
    assert entries(found) == [1, 0]
    with pytest.raises(dr.runtime.errors.ArrayTypeError, match="can't read UInt"):
        dr.reinterpret_array(TensorXf, UInt(1, 2))


def test_products_with_one_item() -> None:
    assert entries(dr.dot(ArrayXf(1, 2), Float(3))) == [9]
    assert entries(dr.dot(ArrayXf(1, 2), ArrayXf(3))) == [9]
    assert entries(dr.dot(ArrayXf(-2), Array3f(1, 2, 3))) == [-12]
    assert entries(dr.dot(Array3f(1, 2, 3), ArrayXf(-2))) == [-12]
    with pytest.raises(dr.runtime.errors.SizeError, match="2 and 3 items"):
        dr.dot(ArrayXf(1, 2), ArrayXf(1, 2, 3))


def test_masks_as_numbers() -> None:
    assert entries(dr.lerp(Bool(True), Bool(False), Float(0.25))) == [0.75]
    assert entries(dr.lerp(UInt(5), Float(1), Float(0.5))) == [3]
    assert entries(dr.lerp(UInt(5), 1, Float(0.5))) == [3]
    assert entries(dr.lerp(Array3b(True), Float(2), Int(6))) == [7, 7, 7]
    a = Array22b([[False, True], [True, False]])
    b = Array22b([[True, True], [False, False]])
    assert entries(a < b) == [True, False, False, False]
    assert entries(a <= b) == [True, True, False, True]
    assert entries(a > b) == [False, False, True, False]
    assert entries(a >= b) == [False, True, True, True]
    assert entries(Bool(True, False) <= True) == [True, True]
    assert type(dr.all_nested(TensorXb([[True]]))) is TensorXb
    assert type(dr.none_nested(scalar.TensorXb([True]))) is scalar.TensorXb


def test_running_sums_of_parts() -> None:
    found: Any = dr.cumsum(scalar.Complex2f(-3, 1))
    assert type(found) is scalar.Complex2f
    assert complex(found.numpy()) == -3 - 2j


def test_types_of_shapes_that_arrays_have() -> None:
    assert dr.replace_shape_t(Array3f, (2, 7)) is Array2f
    assert dr.replace_shape_t(Array3f, Array2f([1, 2], 3).shape) is Array2f
    assert dr.replace_shape_t(Matrix4f, (2,)) is llvm.Float


def test_searches_below_zero() -> None:
    assert dr.binary_search(-5, 10, lambda i: i < -2) == -2
    assert dr.binary_search(-5, -1, lambda i: i < 0) == -1


def test_colors_with_alpha() -> None:
    for function in (dr.linear_srgb_to_oklab, dr.oklab_to_linear_srgb):
        found: Any = function(llvm.Array4f(0.1, 0.2, 0.3, 0.5))
        assert type(found) is llvm.Array4f
        wanted = entries(function(Array3f(0.1, 0.2, 0.3)))
        assert entries(found) == [*wanted, 0.5]
        with pytest.raises(dr.runtime.errors.ArrayTypeError, match="has 2 components"):
            function(Array2f(1, 2))
        rows: Any = function(TensorXf([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0, 1]]))
        assert rows.shape == (3, 3)
        assert entries(rows)[:3] == pytest.approx(wanted)


def test_components_of_nested_arrays_and_numbers() -> None:
    rows: Any = llvm.Array33f([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert type(rows.zyx) is llvm.Array33f
    assert entries(rows.zyx) == [7, 8, 9, 4, 5, 6, 1, 2, 3]
    assert type(rows.zyx.x) is Array3f
    for space in (llvm, scalar):
        found: Any = dr.reverse(space.Complex2f(1, 2))
        assert type(found) is space.Complex2f
        assert complex(np.ravel(found.numpy())[0]) == 2 + 1j


def test_what_matrices_tensors_and_numbers_are_refused() -> None:
    matrix: Any = Matrix2f([1, 2], 2, 3, 4)
    for call, match in (
        (lambda: matrix >> matrix, "operator >>: not defined for matrix arrays"),
        (lambda: matrix & matrix, "operator &: not defined for matrix arrays"),
        (lambda: dr.mul_hi(Float(1), matrix), "mul_hi: not defined for matrix"),
        (lambda: dr.compress(TensorXb([[True]])), "expected a flat mask"),
        (lambda: dr.reshape(int, Float(1, 2), 2), "reshape: the type is 'int'"),
        (lambda: dr.linear_srgb_to_oklab(0.5), "has 1 components"),  # type: ignore[type-var]
    ):
        with pytest.raises(dr.runtime.errors.ArrayTypeError, match=match):
            call()


@pytest.mark.parametrize("space", [llvm, scalar])
def test_blocks_of_tensors(space: Any) -> None:
    rows = space.TensorXf([[1, 2], [3, 4]])
    for size, sums in ((1, [1, 2, 3, 4]), (2, [3, 7]), (4, [10])):
        found: Any = dr.block_sum(rows, size)
        assert type(found) is space.TensorXf
        assert found.shape == (len(sums),)
        assert entries(found) == sums
        in_tree = dr.block_sum([{"a": rows}, space.TensorXf([1, 1, 1, 1])], size)
        assert entries(in_tree[0]["a"]) == sums


def test_derivatives_of_blocks_of_tensors() -> None:
    x = llvm.ad.TensorXf64([[1, 2], [3, 4]])
    assert dr.gradcheck(lambda x: dr.block_sum(x * x, 2), x)


def test_tensors_keep_their_shapes_when_they_are_read() -> None:
    source = TensorXf([1, 2, 3])
    assert entries(dr.gather(TensorXf, source, UInt(2, 0, 1))) == [3, 1, 2]
    for index in (UInt(1), UInt(0, 1), UInt(0, 1, 2, 0)):
        with pytest.raises(dr.runtime.errors.SizeError):
            dr.gather(TensorXf, source, index)
    with pytest.raises(dr.runtime.errors.SizeError, match="takes an index for each"):
        dr.gather(TensorXf, source, 1)
    for target, values in ((TensorXf, Float(1, 2)), (Float, source)):
        with pytest.raises(
            dr.runtime.errors.ArrayTypeError, match="gather: can't read"
        ):
            dr.gather(target, values, UInt(0, 1))
