"""Questions about types, types from types, limits of floats, namespaces."""

from __future__ import annotations

import importlib

import pytest

import lumijit as dr
from lumijit import auto, llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError

PREDICATES = {
    "is_array_v": (llvm.Float, ad.Array3f, scalar.Array2i),
    "is_mask_v": (llvm.Bool, llvm.Array3b, bool, True),
    "is_float_v": (llvm.Float, ad.Array3f, float, 1.5),
    "is_half_v": (llvm.Float16, llvm.Array2f16),
    "is_integral_v": (llvm.UInt8, scalar.Array2i, 3, int),
    "is_arithmetic_v": (llvm.UInt8, ad.Array3f, 3, 1.5),
    "is_signed_v": (llvm.Int, ad.Array3f, 3, 1.5),
    "is_unsigned_v": (llvm.UInt8, llvm.Bool, True),
    "is_dynamic_v": (llvm.Float, ad.Array3f, scalar.ArrayXf),
    "is_jit_v": (llvm.Float, ad.Array3f),
    "is_diff_v": (ad.Array3f,),
    "is_vector_v": (ad.Array3f, scalar.Array2i, scalar.ArrayXf),
    "is_struct_v": (llvm.PCG32, scalar.PCG32()),
}


@pytest.mark.parametrize("name", PREDICATES)
def test_predicates(name):
    predicate = getattr(dr, name)
    for value in PREDICATES[name]:
        assert predicate(value) is True
    for other in ("a", None, dict):
        assert predicate(other) is False


def test_properties():
    assert dr.type_v(llvm.Array3i) is dr.VarType.Int32
    assert dr.type_v(1) is dr.VarType.Void
    assert dr.backend_v(ad.Float) is dr.JitBackend.LLVM
    assert dr.backend_v(scalar.Array3f) is dr.JitBackend.Invalid
    assert [dr.size_v(t) for t in (llvm.Array3f, llvm.Float, 1)] == [3, dr.Dynamic, 1]
    assert [dr.depth_v(t) for t in (llvm.Array33f, scalar.Array3f, 1)] == [3, 1, 0]
    assert dr.itemsize_v(llvm.Array3f64) == 8
    with pytest.raises(ArrayTypeError, match="int is no array type"):
        dr.itemsize_v(1)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (dr.value_t(llvm.Array33f), llvm.Array3f),
        (dr.value_t(scalar.Array3f), float),
        (dr.mask_t(scalar.Array3f), scalar.Array3b),
        (dr.scalar_t(llvm.Array3u), int),
        (dr.leaf_t(ad.Array33f), ad.Float),
        (dr.array_t(llvm.Array3f), llvm.Array3f),
        (dr.detached_t(ad.Array3f), llvm.Array3f),
        (dr.detached_t(str), str),
        (dr.diff_array_t(llvm.Array3f), ad.Array3f),
        (dr.diff_array_t(scalar.Array3f), scalar.Array3f),
        (dr.uint32_array_t(float), int),
        (dr.float16_array_t(llvm.Array3i), llvm.Array3f16),
        (dr.int8_array_t(llvm.Array3f), llvm.Array3i8),
        (dr.uint8_array_t(ad.Float), ad.UInt8),
        (dr.int64_array_t(llvm.Float), llvm.Int64),
        (dr.uint64_array_t(llvm.Float), llvm.UInt64),
        (dr.int_array_t(llvm.Float16), llvm.Int16),
        (dr.int_array_t(llvm.Bool), llvm.Int8),
        (dr.uint_array_t(llvm.Array3b), llvm.Array3u8),
        (dr.uint_array_t(llvm.Array2f64), llvm.Array2u64),
        (dr.float_array_t(llvm.Int), llvm.Float),
        (dr.replace_shape_t(scalar.Array3f, (2, 2)), scalar.Array22f),
        (dr.expr_t(llvm.Int), llvm.Int),
        (dr.expr_t(1, 2.0), float),
        (dr.expr_t(llvm.Int, float), llvm.Float),
    ],
)
def test_types_from_types(result, expected):
    assert result is expected


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: dr.float_array_t(llvm.UInt8), "no matching type as wide"),
        (lambda: dr.int_array_t(bool), "no matching type as wide"),
        (lambda: dr.float_array_t(llvm.Bool), "no matching type as wide"),
        (lambda: dr.replace_shape_t(llvm.Array3f, (9, -1)), "there is no array type"),
        (lambda: dr.replace_shape_t(llvm.Array3f, ()), "no vectorized dimension"),
        (lambda: dr.expr_t(), "there are no types"),
        (lambda: dr.expr_t(llvm.Float, str), "can't be made"),
        (lambda: dr.epsilon(llvm.Int), "holds no floats"),
        (lambda: dr.set_backend(3), "pass a name or a member"),  # type: ignore[arg-type]
    ],
)
def test_impossible_types(call, match):
    with pytest.raises(ArrayTypeError, match=match):
        call()


def test_limits_of_floats():
    assert dr.epsilon(llvm.Float) == 2.0**-24
    assert dr.one_minus_epsilon(1.0) == 1 - 2.0**-53
    assert dr.smallest(llvm.Float16) == 2.0**-14
    assert dr.recip_overflow(llvm.Float64) == 2.0**-1024


def test_namespaces_have_the_same_types():
    for space in (llvm, ad, scalar):
        names = set(space.__all__)
        assert names == set(llvm.__all__)
        assert all(hasattr(space, name) for name in names)
    assert llvm.Int32 is llvm.Int
    assert llvm.UInt32 is llvm.UInt
    assert ad.Float32 is ad.Float
    assert (scalar.Float, scalar.UInt32, scalar.Bool) == (float, int, bool)
    assert importlib.import_module("lumijit.llvm.ad") is ad


def test_the_automatic_namespace():
    assert auto.Float is llvm.Float
    assert auto.ad.Array3f is ad.Array3f
    try:
        dr.set_backend("scalar")
        assert auto.Float is float  # type: ignore[comparison-overlap]
        assert auto.ad.Array3f is scalar.Array3f  # type: ignore[comparison-overlap]
    finally:
        dr.set_backend(dr.JitBackend.LLVM)
    assert "Array3f" in dir(auto)
    assert "Array3f" in dir(auto.ad)
    with pytest.raises(ArrayValueError, match="there is no backend 'metal'"):
        dr.set_backend("metal")
    assert not hasattr(auto, "Nonsense")
