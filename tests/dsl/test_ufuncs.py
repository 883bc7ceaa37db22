"""NumPy's functions of lumijit's arrays, and operators with NumPy's arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.runtime.errors import ArrayTypeError, SymbolicError

NUMBERS = np.array([1.5, -2.0, 0.25], np.float32)
ARRAYS = [llvm.Float(NUMBERS), scalar.Array3f(*NUMBERS.tolist())]
UNARY = [np.sin, np.sqrt, np.exp, np.negative, np.abs, np.isnan, np.sign, np.floor]
BINARY = [np.maximum, np.arctan2, np.hypot, np.logical_and, np.fmod, np.copysign]
OPERATORS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
]


@pytest.mark.parametrize("x", ARRAYS, ids=["llvm", "scalar"])
@pytest.mark.parametrize("function", UNARY)
def test_functions_give_numpy_arrays(function: np.ufunc, x: Any) -> None:
    with np.errstate(invalid="ignore"):
        found, expected = function(x), function(NUMBERS)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("x", ARRAYS, ids=["llvm", "scalar"])
@pytest.mark.parametrize("function", BINARY)
def test_functions_of_two_arrays(function: np.ufunc, x: Any) -> None:
    other = np.array([2.0, 0.5, -1.0], np.float32)
    for found, expected in (
        (function(x, other), function(NUMBERS, other)),
        (function(other, x), function(other, NUMBERS)),
        (function(x, x), function(NUMBERS, NUMBERS)),
        (function(x, 2), function(NUMBERS, 2)),
    ):
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, expected)


def test_methods_of_functions() -> None:
    x = llvm.Float(NUMBERS)
    assert np.sum(x) == NUMBERS.sum()
    assert np.mean(x) == NUMBERS.mean()
    assert np.max(x) == 1.5
    np.testing.assert_array_equal(np.cumsum(x), NUMBERS.cumsum())
    np.testing.assert_array_equal(
        np.multiply.outer(x, NUMBERS), np.outer(NUMBERS, NUMBERS)
    )
    np.testing.assert_array_equal(np.add(x, x, dtype=np.float64), 2.0 * NUMBERS)


def test_nested_arrays_have_their_shape() -> None:
    v = llvm.Array2f([1, 2, 3], [4, 5, 6])
    np.testing.assert_array_equal(np.square(v), [[1, 4, 9], [16, 25, 36]])
    np.testing.assert_array_equal(np.sum(v, axis=1), [6, 15])


@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize("other", [NUMBERS[::-1].copy(), np.float32(0.5)])
@pytest.mark.parametrize("x", ARRAYS, ids=["llvm", "scalar"])
def test_operators_stay_ours_on_either_side(
    x: Any, other: Any, function: Callable[[Any, Any], Any]
) -> None:
    for found, expected in (
        (function(other, x), function(other, NUMBERS)),
        (function(x, other), function(NUMBERS, other)),
    ):
        assert isinstance(found, dr.ArrayBase)
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize(
    "function",
    [
        operator.floordiv,
        operator.mod,
        operator.lshift,
        operator.rshift,
        operator.and_,
        operator.or_,
        operator.xor,
    ],
)
def test_operators_of_integers(function: Callable[[Any, Any], Any]) -> None:
    a = np.array([7, 9, 30], np.uint32)
    x = llvm.UInt32(3, 2, 4)
    found = function(a, x)
    assert type(found) is llvm.UInt32
    np.testing.assert_array_equal(found.numpy(), function(a, x.numpy()))


def test_powers_and_products() -> None:
    a = np.array([1.0, 2.0], np.float32)
    x: Any = llvm.Float(3, 4)
    np.testing.assert_allclose((a**x).numpy(), [1, 16])
    assert a @ x == 11


def test_operators_do_not_evaluate() -> None:
    x: Any = dr.arange(llvm.Float, 3) * 2
    y = NUMBERS * x
    assert y.state == dr.VarState.Unevaluated
    assert x.state == dr.VarState.Unevaluated


def test_numpy_arrays_change_in_place() -> None:
    a = NUMBERS.copy()
    a += llvm.Float(1, 2, 3)
    assert type(a) is np.ndarray
    np.testing.assert_array_equal(a, NUMBERS + np.array([1, 2, 3], np.float32))
    out = np.zeros(3, np.float32)
    assert np.sin(llvm.Float(NUMBERS), out=out) is out
    np.testing.assert_array_equal(out, np.sin(NUMBERS))


def test_ours_can_not_be_written_to() -> None:
    x = llvm.Float(NUMBERS)
    with pytest.raises(ArrayTypeError, match=r"numpy.sin\(\): 'out' is an array of l"):
        np.sin(NUMBERS, out=x)  # type: ignore[call-overload]
    np.testing.assert_array_equal(x.numpy(), NUMBERS)


def test_symbolic_arrays_have_no_contents() -> None:
    def body(i: Any) -> Any:
        return (i + np.sin(i),)

    with pytest.raises(SymbolicError, match="symbolic"):
        dr.while_loop((llvm.Float(0, 1),), lambda i: i < 3, body, mode="symbolic")
