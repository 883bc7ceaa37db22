"""Elementwise functions: against NumPy, on numbers, and across namespaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.functions import selection
from lumijit.runtime.errors import ArrayTypeError, SizeError

UNARY: dict[str, Callable[..., Any]] = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "exp": np.exp,
    "exp2": np.exp2,
    "cbrt": np.cbrt,
    "erf": np.vectorize(math.erf),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "abs": np.abs,
}
POSITIVE: dict[str, Callable[..., Any]] = {
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcp": lambda x: 1 / x,
    "lgamma": np.vectorize(math.lgamma),
}


@pytest.mark.parametrize("name", [*UNARY, *POSITIVE])
@pytest.mark.parametrize("kind", ["Float", "Float64"])
def test_functions_in_all_namespaces(name, kind):
    low = -0.97 if name in UNARY else 0.02
    x = np.linspace(low, 0.97, 41)
    function = getattr(dr, name)
    expected = {**UNARY, **POSITIVE}[name](x)
    suffix = "f" if kind == "Float" else "f64"
    tolerance = 2e-6 if kind == "Float" else 1e-14
    for cls in (getattr(llvm, kind), getattr(scalar, f"ArrayX{suffix}")):
        result = function(cls(x))
        assert type(result) is cls
        np.testing.assert_allclose(
            result.numpy(), expected, rtol=tolerance, atol=tolerance
        )
    assert function(float(x[7])) == pytest.approx(expected[7], rel=1e-13, abs=1e-15)
    nested = function(llvm.Array2f(float(x[0]), float(x[1])))
    np.testing.assert_allclose(np.ravel(nested.numpy()), expected[:2], rtol=1e-5)


@pytest.mark.parametrize("name", ["sin", "sqrt", "floor", "exp", "rcp"])
def test_functions_of_floats_refuse_other_entries(name):
    with pytest.raises(ArrayTypeError, match=f"lumijit.{name}: not defined for.*Int32"):
        getattr(dr, name)(llvm.Int(1))
    with pytest.raises(ArrayTypeError, match=f"lumijit.{name}: unsupported argument"):
        getattr(dr, name)("a")


def test_python_numbers_stay_python_numbers():
    assert dr.fma(1, 2, 3) == 5
    assert isinstance(dr.fma(1, 2, 3), int)
    assert dr.minimum(1, 2.0) == 1.0
    assert isinstance(dr.abs(-1), int)
    assert dr.sign(-2) == -1
    assert dr.clip(5, 2, 3) == 3
    assert dr.lerp(1, 2, 0.5) == 1.5
    assert dr.copysign(1, -2) == -1
    assert dr.power(2, -1) == 0.5
    assert math.isnan(dr.sqrt(-1.0))
    assert dr.round(2.5) == 2
    assert dr.atan2(0.0, -1.0) == math.pi


def test_fma_rounds_once():
    a = np.float32(1 + 2**-12)
    expected = np.float32(float(a) * float(a) - 1)
    assert dr.fma(llvm.Float(float(a)), float(a), -1.0)[0] == expected
    assert float(a * a - np.float32(1)) != expected


def test_signs():
    x = llvm.Float(-2, 0, 3)
    assert list(dr.sign(x)) == [-1, 1, 1]
    assert list(dr.sign(llvm.UInt(0, 3))) == [1, 1]
    assert list(dr.mulsign(x, llvm.Float(-1, -1, 1))) == [2, 0, 3]
    nan = float("nan")
    for cls in (llvm.Float, llvm.Float64, llvm.Float16, scalar.ArrayXf):
        assert list(dr.mulsign(cls(3, 3, 3), cls(-0.0, nan, -1))) == [3, -3, -3]
    assert dr.mulsign(3.0, -0.0) == 3
    assert list(dr.mulsign(llvm.UInt(3), llvm.UInt(2))) == [3]
    assert list(dr.mulsign(llvm.UInt(3), 2)) == [3]
    assert list(dr.mulsign(llvm.Float(-3), llvm.UInt(2, 1))) == [-3, -3]
    assert list(dr.mulsign(llvm.UInt(3), llvm.Bool(True, False))) == [3, 3]
    assert list(dr.mulsign(llvm.UInt(3), llvm.Int(-2))) == [2**32 - 3]
    assert list(dr.copysign(llvm.Int(3, -3), -1)) == [-3, -3]
    assert list(dr.sign(llvm.Bool(True, False))) == [True, True]


@pytest.mark.parametrize("cls", [llvm.Float, scalar.ArrayXf])
def test_nan_is_not_swallowed(cls):
    nan = cls(float("nan"))
    assert dr.isnan(dr.clip(nan, 0, 1))[0]
    assert dr.isnan(dr.safe_sqrt(nan))[0]
    assert dr.isnan(dr.hypot(nan, 1.0))[0]
    assert dr.isnan(dr.hypot(1.0, nan))[0]
    assert list(dr.safe_sqrt(cls(-1, 4))) == [0, 2]
    assert list(dr.safe_acos(cls(2))) == [0]
    assert list(dr.safe_asin(cls(-2))) == pytest.approx([-math.pi / 2])


def test_hypot_does_not_overflow():
    x = llvm.Float(3e30, 0, 3e-30, float("inf"))
    y = llvm.Float(4e30, 0, 4e-30, 1)
    expected = [5e30, 0, 5e-30, float("inf")]
    np.testing.assert_allclose(dr.hypot(x, y).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "cls", [llvm.Float, llvm.Float16, llvm.Float64, scalar.ArrayXf]
)
def test_hypot_at_edges_is_numpys(cls):
    edges = [0, 1, 3, math.inf, -math.inf, math.nan, -0.0]
    a, b = np.repeat(edges, 7), np.tile(edges, 7)
    found = dr.hypot(cls(a), cls(b)).numpy()
    np.testing.assert_allclose(found, np.hypot(a, b), rtol=1e-3)
    assert dr.hypot(math.nan, -math.inf) == math.inf


def test_tests_of_floats():
    x = llvm.Float(1, float("inf"), float("nan"))
    assert list(dr.isnan(x)) == [False, False, True]
    assert list(dr.isinf(x)) == [False, True, False]
    assert list(dr.isfinite(x)) == [True, False, False]
    assert list(dr.isfinite(llvm.Int(1, 2))) == [True, True]
    assert list(dr.isinf(llvm.Int(1))) == [False]
    assert dr.isnan(math.nan)
    assert not dr.isinf(1)
    with pytest.raises(ArrayTypeError, match=r"lumijit\.isnan"):
        dr.isnan("a")  # type: ignore[call-overload]


def test_select():
    mask = llvm.Bool(True, False)
    assert list(dr.select(mask, llvm.Float(1, 2), 5)) == [1, 5]
    assert isinstance(dr.select(mask, 1, 2), llvm.Int)
    assert isinstance(dr.select(mask, 1.0, 2), llvm.Float)
    assert isinstance(dr.select(mask, True, False), llvm.Bool)
    assert str(dr.select(mask, llvm.Array2f(1), 2)) == "[[1, 1],\n [2, 2]]"
    wide = dr.select(llvm.Array2b(True, False), llvm.Float(1, 2), 0)
    assert str(wide) == "[[1, 0],\n [2, 0]]"
    assert dr.select(True, [1], "a") == [1]
    tree = dr.select(mask, {"a": llvm.Float(1)}, {"a": llvm.Float(2)})
    assert list(tree["a"]) == [1, 2]
    assert list(dr.select(scalar.ArrayXb(True, False), 1, 2)) == [1, 2]


@pytest.mark.parametrize("space", [llvm, scalar])
def test_select_by_a_python_bool_promotes(space):
    for mask in (True, False, np.bool_(True)):
        found = dr.select(mask, space.Array2f(1, 2), 0)
        assert type(found) is space.Array2f
        assert str(found) == str(space.Array2f(1, 2) if mask else space.Array2f(0))
        assert type(dr.select(mask, 1.5, space.Array2i(3))) is space.Array2f
    v = space.Array2f(1, 2)
    w = dr.select(True, v, v)
    w += 1
    assert str(v) == str(space.Array2f(1, 2))
    assert list(dr.select(True, 1, scalar.ArrayXf(4, 5))) == [1, 1]
    assert list(dr.select(True, 3, llvm.Float(1, 2))) == [3, 3]
    assert list(dr.select(True, llvm.Float(4), llvm.Float(1, 2))) == [4, 4]
    assert dr.select(False, 1, 2.5) == 2.5
    with pytest.raises(ArrayTypeError, match=r"lumijit\.select"):
        dr.select(True, v, "a")


@pytest.mark.parametrize("space", [llvm, scalar])
def test_sequences_are_compared_as_operators_take_them(space):
    for value, same, other in [
        (space.Array3f(1, 2, 3), [1, 2, 3], (1, 2, 4)),
        (space.Array3f(1, 2, 3), np.array([1, 2, 3]), np.array([1, 3, 3])),
        (space.Quaternion4f(1, 2, 3, 4), [1, 2, 3, 4], [4, 3, 2, 1]),
        (space.Complex2f(1, 2), [1, 2], [2, 1]),
        (space.Matrix2f(1, 2, 3, 4), [[1, 2], [3, 4]], [[1, 3], [2, 4]]),
    ]:
        assert dr.allclose(value, same)
        assert dr.allclose(same, value)
        assert not dr.allclose(value, other)
    lanes = llvm.Array3f([1, 1, 1], [2, 2, 2], [3, 3, 3])
    assert dr.allclose(lanes, [1, 2, 3])
    assert dr.allclose(llvm.Complex2f(1, 2), np.array([1 + 2j]))


@pytest.mark.parametrize("first", ["Float16", "Float", "Float64", "UInt8", "Int64"])
@pytest.mark.parametrize("second", ["Float16", "Float", "Float64", "Int"])
def test_allclose_of_large_arrays_is_that_of_numpy(first, second, monkeypatch):
    rng, size = np.random.default_rng(3), 140_001
    cls, other = getattr(llvm, first), getattr(llvm, second)
    same = rng.integers(0, 100, size)
    near, far, rare = same * (1 + 2e-3), same.copy(), same.astype(np.float64)
    far[size // 2] += 3
    rare[::1000] = np.resize([np.nan, np.inf, -np.inf, -0.0], rare[::1000].shape)
    opposite = np.where(np.isinf(rare), -rare, rare)
    pairs: list[tuple[Any, Any]] = [(same, same), (same, near), (same, far)]
    if dr.is_float_v(cls) and dr.is_float_v(other):
        pairs += [(rare, rare), (rare, opposite), (same, rare), (rare, same)]
    for x, y in pairs:
        a = cls(x.astype(cls(0).numpy().dtype))
        b = other(y.astype(other(0).numpy().dtype))
        for options in ({}, {"equal_nan": True}, {"rtol": 0, "atol": 0}, {"atol": 4}):
            monkeypatch.setattr(selection, "_LARGE", 1 << 17)
            found = dr.allclose(a, b, **options)
            monkeypatch.setattr(selection, "_LARGE", 1 << 40)
            assert found is dr.allclose(a, b, **options)


def test_allclose_of_large_tensors():
    x = llvm.ad.TensorXf(dr.arange(llvm.ad.Float, 160_000), (400, 400))
    dr.enable_grad(x)
    assert dr.allclose(x, x + 1e-6)
    assert not dr.allclose(x, x[::-1])
    with pytest.raises(SizeError, match=r"allclose: the shapes \(400, 400\)"):
        dr.allclose(x, x[:, :399])

    @dr.kernel(graph_breaks=True)
    def is_near(a: llvm.Float, b: llvm.Float) -> llvm.Float:
        return a + 1 if dr.allclose(a, b) else a

    ones = dr.full(llvm.Float, 1, 140_000)
    dr.make_opaque(ones)
    for other in (ones, ones + 5, ones + 1e-7):
        is_same = np.allclose(ones.numpy(), other.numpy(), 1e-3, 1e-5)
        assert is_near(ones, dr.opaque(llvm.Float, other[0], 140_000))[7] == 1 + is_same


F = llvm.Float
ITEMS: list[tuple[Any, Any, bool]] = [
    ([F(1, 2), F(1, 2)], [1, 2], False),
    ([F(1), F(2)], [1, 2], True),
    ((F(1, 1), F(2)), [1, 2.0001], True),
    ([F(1, 2), F(1)], 1, False),
    ([[1, 2], [1]], [[1, 2], [1]], True),
    ([[1, 2], [1, 2]], [1, 2], False),
    ([llvm.Array2f(1, 2), 3], [[1, 2], 3], True),
    (llvm.Array2f([1, 1], [2, 2]), [F(1, 1), 2], True),
    (np.ones((2, 2)), np.ones((2, 2)), True),
]


@pytest.mark.parametrize(("a", "b", "is_close"), ITEMS)
def test_sequences_are_compared_item_by_item(a: Any, b: Any, is_close: bool) -> None:
    assert dr.allclose(a, b) == is_close
    if is_close:
        dr.assert_allclose(a, b)
    else:
        with pytest.raises(AssertionError, match=r"of item \[\d\]"):
            dr.assert_allclose(a, b)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dr.allclose([F(1), F(2), F(3)], [1, 2]), r"shapes \(3,\) and \(2,\)"),
        (lambda: dr.allclose(dr.sin, 1), "of type '(cython_)?function"),
        (lambda: dr.allclose(None, 1), "of type 'NoneType'"),
        (
            lambda: dr.allclose(1, 1, rtol=cast(Any, dr.abs)),
            "a tolerance is <(cy)?function abs",
        ),
    ],
)
def test_what_cannot_be_compared(call: Any, words: str) -> None:
    with pytest.raises((ArrayTypeError, SizeError), match=words):
        call()


def test_allclose():
    assert dr.allclose(llvm.Float(1, 2), [1.000001, 2])
    assert not dr.allclose(llvm.Float(1), 1.1)
    assert dr.allclose(llvm.Float16(1), 1.01)
    assert not dr.allclose([math.nan], [math.nan])
    assert dr.allclose([math.nan], [math.nan], equal_nan=True)
    with pytest.raises(SizeError, match="can't be combined"):
        dr.allclose(llvm.Float(1, 2), [1, 2, 3])
    with pytest.raises(ArrayTypeError, match=r"lumijit\.allclose"):
        dr.allclose("a", 1)


@pytest.mark.parametrize("cls", [llvm.UInt, llvm.UInt64, llvm.Int, llvm.UInt8])
def test_bit_operations(cls):
    bits = 8 * dr.itemsize_v(cls)
    x = cls(0, 1, 6)
    assert list(dr.popcnt(x)) == [0, 1, 2]
    assert list(dr.lzcnt(x)) == [bits, bits - 1, bits - 3]
    assert list(dr.tzcnt(x)) == [bits, 0, 1]
    assert list(dr.log2i(x))[1:] == [0, 2]
    assert list(dr.brev(dr.brev(x))) == [0, 1, 6]


def test_bit_operations_on_numbers():
    assert (dr.popcnt(-1), dr.lzcnt(7), dr.tzcnt(0), dr.brev(1)) == (32, 29, 32, 2**31)
    with pytest.raises(ArrayTypeError, match="more than 32 bits"):
        dr.popcnt(2**40)
    with pytest.raises(ArrayTypeError, match=r"lumijit\.popcnt"):
        dr.popcnt(1.5)
    with pytest.raises(ArrayTypeError, match="not defined for entries of type Float"):
        dr.popcnt(llvm.Float(1))


def test_reinterpretation():
    assert list(dr.reinterpret_array(llvm.UInt, llvm.Float(1))) == [0x3F800000]
    back = dr.reinterpret_array(llvm.Array2f, llvm.Array2u(0x3F800000))
    assert str(back) == "[[1, 1]]"
    host = dr.reinterpret_array(scalar.ArrayXi64, scalar.ArrayXf64(-0.0))
    assert list(host) == [-(2**63)]
    for dtype, value in (
        (llvm.UInt64, llvm.Float(1)),
        (llvm.Array2u, llvm.Float(1)),
        (int, llvm.Float(1)),
        (llvm.UInt, 1.0),
    ):
        with pytest.raises(ArrayTypeError, match="can't read"):
            dr.reinterpret_array(dtype, value)


@pytest.mark.parametrize(
    "cls", [llvm.UInt, llvm.UInt64, llvm.Int, llvm.UInt8, llvm.Int64]
)
@pytest.mark.parametrize("function", [dr.rotl, dr.rotr])
def test_rotations(cls, function):
    bits = 8 * dr.itemsize_v(cls)
    numbers = cls(1, 0x5A, 77, 3)
    for distance in (0, 1, 5, bits - 1, bits, bits + 3):
        up = (distance if function is dr.rotl else -distance) % bits
        raw = numbers.numpy().view(f"u{bits // 8}").tolist()
        right = [(v << up | v >> (bits - up)) & ((1 << bits) - 1) for v in raw]
        expected = np.array(right, f"u{bits // 8}").view(numbers.numpy().dtype)
        opaque = cls(distance, distance, distance, distance)
        dr.make_opaque(opaque)
        for by in (distance, opaque):
            found = function(numbers, by)
            assert type(found) is cls
            assert found.numpy().tolist() == expected.tolist()


def test_rotations_of_numbers():
    assert dr.rotl(0x80000001, 4) == 0x18
    assert dr.rotr(0x18, 4) == 0x80000001
    assert dr.rotr(scalar.ArrayXu(0x18), 4)[0] == 0x80000001
    with pytest.raises(ArrayTypeError, match=r"lumijit\.rotl"):
        dr.rotl(1.5, 1)  # type: ignore[call-overload]
    with pytest.raises(ArrayTypeError, match=r"lumijit\.rotr"):
        dr.rotr(llvm.Float(1), 1)
