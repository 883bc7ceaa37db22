"""Operators of flat and nested arrays against NumPy, in every namespace."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.runtime.dtypes import ARITHMETIC, FLOATS, INTS, VALUES, DType
from lumijit.spec import DYNAMIC, LLVM, SCALAR, plain_spec, require

ARITHMETIC_OPERATORS = [operator.add, operator.sub, operator.mul]
BIT_OPERATORS = [operator.and_, operator.or_, operator.xor]
COMPARISONS = [
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]


def flat(dtype: DType, space: str = "llvm"):
    if space == "scalar":
        return require(plain_spec(SCALAR, False, dtype, (DYNAMIC,)), "test")
    return require(plain_spec(LLVM, space == "llvm.ad", dtype), "test")


def sample(dtype: DType, seed: int, size: int = 37):
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, size).astype(bool)
    if dtype.is_float:
        return rng.normal(0, 10, size).astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    return rng.integers(info.min, info.max, size, dtype=dtype.numpy, endpoint=True)


def same(result, expected):
    assert result.numpy().dtype == expected.dtype
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("space", ["llvm", "llvm.ad", "scalar"])
@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_arithmetic_matches_numpy(space, dtype):
    cls = flat(dtype, space)
    a, b = sample(dtype, 1), sample(dtype, 2)
    for op in ARITHMETIC_OPERATORS:
        with np.errstate(all="ignore"):
            expected = op(a, b)
        result = op(cls(a), cls(b))
        assert type(result) is cls
        same(result, expected)


@pytest.mark.parametrize("space", ["llvm", "scalar"])
@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_comparisons_match_numpy(space, dtype):
    cls = flat(dtype, space)
    a, b = sample(dtype, 3), sample(dtype, 4)
    b[:5] = a[:5]
    for op in COMPARISONS:
        same(op(cls(a), cls(b)), op(a, b))


@pytest.mark.parametrize("space", ["llvm", "scalar"])
@pytest.mark.parametrize("dtype", [t for t in VALUES if not t.is_float], ids=str)
def test_bit_operators_match_numpy(space, dtype):
    cls = flat(dtype, space)
    a, b = sample(dtype, 5), sample(dtype, 6)
    for op in BIT_OPERATORS:
        same(op(cls(a), cls(b)), op(a, b))
    same(~cls(a), ~a)


@pytest.mark.parametrize("space", ["llvm", "scalar"])
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_shifts_beyond_the_bits_leave_the_sign(space, dtype):
    cls = flat(dtype, space)
    a = sample(dtype, 6)
    info = np.iinfo(dtype.numpy)
    amounts = [0, 1, 3, dtype.bits - 1, dtype.bits, dtype.bits + 1, info.max]
    amounts += [-1, -dtype.bits, info.min] if dtype.is_signed else []
    for amount in amounts:
        by = np.full(len(a), amount, dtype.numpy)
        for wide in (amount, cls(by), dr.opaque(cls, amount)):
            same(cls(a) << wide, np.left_shift(a, by))
            same(cls(a) >> wide, np.right_shift(a, by))
    mixed = np.resize(np.array(amounts, dtype.numpy), len(a))
    same(cls(a) << cls(mixed), np.left_shift(a, mixed))
    same(cls(a) >> cls(mixed), np.right_shift(a, mixed))
    same(cls(1) << cls(mixed), np.left_shift(np.ones_like(mixed), mixed))


@pytest.mark.parametrize("space", ["llvm", "scalar"])
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integer_division_rounds_towards_zero(space, dtype):
    cls = flat(dtype, space)
    a, b = sample(dtype, 8), sample(dtype, 9)
    b[b == 0] = 3
    quotient = [int(abs(int(x)) // abs(int(y))) for x, y in zip(a, b, strict=True)]
    signs = [-1 if (x < 0) != (y < 0) else 1 for x, y in zip(a, b, strict=True)]
    expected = np.array([q * s for q, s in zip(quotient, signs, strict=True)])
    expected = expected.astype(dtype.numpy)
    same(cls(a) // cls(b), expected)
    with np.errstate(over="ignore"):
        same(cls(a) % cls(b), (a - expected * b).astype(dtype.numpy))


@pytest.mark.parametrize("space", ["llvm", "scalar"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_division_of_floats(space, dtype):
    cls = flat(dtype, space)
    a, b = sample(dtype, 10), sample(dtype, 11)
    b[3] = 0
    with np.errstate(all="ignore"):
        same(cls(a) / cls(b), a / b)
        same(1 / cls(b), (dtype.numpy.type(1) / b).astype(dtype.numpy))


@given(
    a=hnp.arrays(np.int32, 5),
    b=st.integers(-(2**31), 2**31 - 1),
    op=st.sampled_from(ARITHMETIC_OPERATORS + BIT_OPERATORS + COMPARISONS),
)
@settings(max_examples=30, deadline=None)
def test_python_ints_on_either_side(a, b, op):
    wide = np.full(5, b, np.int32)
    with np.errstate(all="ignore"):
        same(op(llvm.Int(a), b), op(a, wide))
        same(op(b, llvm.Int(a)), op(wide, a))


def test_literals_keep_the_sign_of_zero():
    x = dr.opaque(llvm.Float, 1.0)
    positive = dr.copysign(x, 0.0)
    negative = dr.copysign(x, -0.0)
    assert positive[0] == 1
    assert negative[0] == -1
    assert np.signbit((llvm.Float(1) * -0.0).numpy()[0])


@pytest.mark.parametrize("space", [llvm, scalar])
def test_nested_operators_work_by_component(space):
    a = space.Array3f(1, 2, 3)
    b = space.Array3f(4, 5, 6)
    np.testing.assert_array_equal(np.ravel((a * b - 1).numpy()), [3, 9, 17])
    np.testing.assert_array_equal(
        np.ravel((2 / a).numpy()), np.array([2, 1, 2 / 3], "f4")
    )
    np.testing.assert_array_equal(np.ravel((a < 2).numpy()), [True, False, False])
    np.testing.assert_array_equal(np.ravel((-a).numpy()), [-1, -2, -3])


def test_in_place_operators_change_the_object():
    a = llvm.Float(1, 2)
    b = a
    b += 1
    assert a is b
    assert list(a) == [2, 3]
    v = llvm.Array3f(1, 2, 3)
    v.x += 10
    v *= 2
    assert str(v) == "[[22, 4, 6]]"
    i: Any = llvm.Int(1)
    j = i
    i += 1.5
    assert isinstance(i, llvm.Float)
    assert list(j) == [1]


def test_masking_with_and():
    assert list(llvm.Float(1, 2) & llvm.Bool(True, False)) == [1, 0]
    assert list(llvm.Int(3, 4) & llvm.Bool(False, True)) == [0, 4]


@pytest.mark.parametrize("space", [llvm, scalar])
def test_powers(space):
    cls = space.ArrayXf if space is scalar else space.Float
    x = cls(-2, 3)
    assert list(x**2) == [4, 9]
    assert list(x**3) == [-8, 27]
    assert list(x**0) == [1, 1]
    assert list(x**-1) == pytest.approx([-0.5, 1 / 3])
    assert list(cls(4, 9) ** 0.5) == pytest.approx([2, 3])
    assert list(2 ** cls(1, 3)) == pytest.approx([2, 8])
    assert np.isnan((cls(-8.0) ** (1 / 3))[0])


def test_numpy_operands_become_arrays():
    result = np.array([1, 2], np.float32) * llvm.Float(3, 4)
    assert isinstance(result, llvm.Float)
    assert list(result) == [3, 8]
    assert isinstance(np.float32(2) * llvm.Float(1), llvm.Float)
    assert isinstance(llvm.Float(1) + np.array([1.0, 2.0]), llvm.Float64)


@pytest.mark.parametrize(
    ("expression", "match"),
    [
        (lambda: llvm.Int(1) / 2, "operator /: not defined for entries of type Int32"),
        (lambda: llvm.Bool(True) + llvm.Bool(True), r"operator \+: not defined.*Bool"),  # type: ignore[operator]
        (lambda: llvm.Float(1) << 1, "operator <<: not defined"),  # type: ignore[operator]
        (lambda: ~llvm.Float(1), "operator ~: not defined"),
        (lambda: -llvm.Bool(True), "operator -: not defined"),
        (lambda: llvm.Array3f(1) + llvm.Array2f(1), "incompatible shapes"),  # type: ignore[operator]
        (lambda: llvm.Int(2) ** llvm.Int(3), "lumijit.power: not defined"),
        (lambda: llvm.Int(2) ** -1, "exponent -1 of integers is negative"),
        (lambda: llvm.Array2i(1) + llvm.Array22f(1) % 2 + "x", "unsupported operand"),  # type: ignore[operator]
    ],
)
def test_wrong_types_are_refused(expression, match):
    with pytest.raises(TypeError, match=match):
        expression()


def test_sizes_must_match():
    with pytest.raises(dr_error("SizeError"), match=r"incompatible sizes \(2, 3\)"):
        llvm.Float(1, 2) + llvm.Float(1, 2, 3)
    with pytest.raises(dr_error("SizeError"), match="incompatible sizes"):
        scalar.ArrayXf(1, 2) + scalar.ArrayXf(1, 2, 3)
    with pytest.raises(dr_error("SizeError"), match="numbers of items"):
        llvm.ArrayXf([1], [2]) + llvm.ArrayXf([1], [2], [3])


def test_numbers_must_fit():
    for expression in (
        lambda: llvm.Int(1) + 2**40,
        lambda: llvm.UInt(1) + -1,
        lambda: llvm.UInt8(1) * 300,
    ):
        with pytest.raises(dr_error("ArrayValueError"), match="doesn't fit into"):
            expression()


def dr_error(name: str):
    from lumijit.runtime import errors

    return getattr(errors, name)


def test_the_reference_of_division_by_zero():
    assert ar.INT_DIV.reference is not None
    assert list(llvm.Int(5, -5) // llvm.Int(0, 0)) == [0, 0]
    assert list(llvm.Int(5, -5) % llvm.Int(0, 0)) == [5, -5]
    assert list(llvm.Int(-(2**31)) // llvm.Int(-1)) == [-(2**31)]


@pytest.mark.parametrize("space", [llvm, scalar])
def test_python_bools_are_masks_of_arrays(space):
    """As in the llvm namespace, where a comparison gives a mask."""
    for mask in (True, np.bool_(True)):
        assert str(space.Array3u(1, 2, 3) & mask) == str(space.Array3u(1, 2, 3))
        assert str(space.Array2f(1, 2) & mask) == str(space.Array2f(1, 2))
    assert str(space.Array3u(1, 2, 3) & False) == str(space.Array3u(0))
    assert str(space.Array2f(1, 2) & False) == str(space.Array2f(0))
    v = space.Array2i(6, 7)
    v &= True
    assert str(v) == str(space.Array2i(6, 7))
    v &= False
    assert str(v) == str(space.Array2i(0))
    assert str(3 & space.Array2b(True, False)) == str(space.Array2i(3, 0))
    assert str(2.5 & space.Array2b(True, False)) == str(space.Array2f(2.5, 0))
    assert str(space.Array2i(6, 7) & 3) == str(space.Array2i(2, 3))
    assert str(space.Array2b(True, False) & True) == str(space.Array2b(True, False))


def test_python_bools_are_masks_of_flat_arrays():
    assert list(llvm.Int(3) & True) == list(llvm.Int(3) & llvm.Bool(True)) == [3]
    assert list(llvm.Int(3) & False) == [0]
    assert list(3 & llvm.Bool(True, False)) == [3, 0]
    assert type(3 & llvm.Bool(True)) is llvm.Int
    assert list(llvm.Int(3) & 1) == [1]
