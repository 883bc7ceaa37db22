"""Derivatives where functions have kinks, poles and ends, and of nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Array2f64, Bool, Float64, UInt32

INF, NAN = float("inf"), float("nan")
Figures = list[list[float]]


def pulled(function: Callable[..., Any], *points: Any, seed: Any = 1) -> Figures:
    """Return the derivatives in reverse mode."""
    arrays = [Float64(p) for p in points]
    _, pullback = dr.vjp(function, *arrays)
    return [found.numpy().tolist() for found in pullback(seed)]


def pushed(function: Callable[..., Any], *points: Any, seed: Any = 1) -> list[float]:
    """Return the derivatives in forward mode, along all arguments at once."""
    arrays = [Float64(p) for p in points]
    found = dr.jvp(function, arrays, [seed] * len(points))[1]
    return found.numpy().tolist()


EDGES: dict[str, tuple[Callable[..., Any], list[list[float]], Figures]] = {
    "abs at 0": (abs, [[0, -0.0, -1]], [[0, 0, -1]]),
    "sign": (dr.sign, [[0, -1]], [[0, 0]]),
    "minimum of equal": (dr.minimum, [[1, 2], [1, 1]], [[1, 0], [0, 1]]),
    "maximum of equal": (dr.maximum, [[1, 2], [1, 1]], [[0, 1], [1, 0]]),
    "min of ties": (dr.min, [[1, 1, 2]], [[1, 1, 0]]),
    "max of ties": (dr.max, [[2, 1, 2]], [[1, 0, 1]]),
    "product with a zero": (dr.prod, [[0, 3, 2]], [[6, 0, 0]]),
    "product with zeros": (dr.prod, [[0, 0, 2]], [[0, 0, 0]]),
    "safe_sqrt": (dr.safe_sqrt, [[0, -2, 4]], [[0, 0, 0.25]]),
    "safe_asin": (dr.safe_asin, [[-1, 1, 2, 0]], [[0, 0, 0, 1]]),
    "safe_acos": (dr.safe_acos, [[-1, 1, 2, 0]], [[0, 0, 0, -1]]),
    "whole powers at 0": (lambda x: x**2 + x**1, [[0, -3]], [[1, -5]]),
    "exponent of 0": (lambda x: x**0, [[0, 2]], [[0, 0]]),
    "power": (dr.power, [[0, 1, 2], [2, 0, 1]], [[0, 0, 1], [0, 0, 2 * np.log(2)]]),
    "side not taken": (
        lambda x: dr.select(x > 0, dr.sqrt(x) * x, x) + dr.select(x == 0, 0, 1 / x),
        [[0, 4, -1]],
        [[1, 3 - 1 / 16, 0]],
    ),
    "NaN not taken": (lambda x: dr.select(x != x, 1, 2 * x), [[NAN, 4]], [[0, 2]]),
    "no entries": (lambda x: dr.sin(x) * 2, [[]], [[]]),
    "no entries, one for all": (lambda x, w: dr.sum(x * w) + w, [[], [3]], [[], [1]]),
    "sum of nothing": (lambda x: dr.sum(x), [[]], [[]]),
    "nothing read": (
        lambda x: dr.gather(Float64, x, UInt32(0, 1), Bool(0, 0)),
        [[1, 2]],
        [[0, 0]],
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges(name: str) -> None:
    function, points, expected = EDGES[name]
    found = pulled(function, *points)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-14)
    total = sum(sum(row) for row in expected)
    assert sum(pushed(function, *points)) == pytest.approx(total, rel=1e-14)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (dr.ReduceOp.Mul, [[1, 0, 1], [1, 0, 0]]),
        (dr.ReduceOp.Min, [[1, 1, 1], [1, 1, 0]]),
        (dr.ReduceOp.Max, [[1, 0, 1], [1, 0, 1]]),
    ],
)
def test_updates_with_ties_and_zeros(op: Any, expected: Figures) -> None:
    """All that are the extreme get the derivative; zeros are counted in products."""

    def function(t: Any, v: Any) -> Any:
        dr.scatter_reduce(op, t, v, UInt32(0, 1, 1))
        return t

    assert pulled(function, [1, 0, 3], [1, 0, 2]) == expected


POLES: dict[str, Callable[[Any], Any]] = {
    "sqrt": dr.sqrt,
    "reciprocal": lambda x: 1 / x,
    "log": dr.log,
    "cbrt": dr.cbrt,
    "power": lambda x: x**0.5,
    "norm": lambda x: dr.norm(Array2f64(x, x)),
    "asin": lambda x: dr.asin(x - 1),
}


@pytest.mark.parametrize("name", POLES)
def test_where_nothing_arrives_nothing_is_passed_on(name: str) -> None:
    """An infinite factor doesn't make NaN of a derivative that is 0, as in the peer."""
    function = POLES[name]
    seed = Float64(0, 1)
    for found in (
        pulled(function, [0, 0.5], seed=seed)[0],
        pushed(function, [0, 0.5], seed=seed),
    ):
        assert found[0] == 0
        assert np.isfinite(found[1])
        assert found[1] != 0


def test_infinite_derivatives_stay() -> None:
    assert pulled(dr.sqrt, [0, 4]) == [[INF, 0.25]]


def test_zeros_that_have_derivatives_themselves() -> None:
    """The derivative by y = sin(x) - 1/2 of y^2 is 0 there, its own isn't."""
    x = float(np.arcsin(0.5))
    found = dr.hvp(lambda x: (dr.sin(x) - 0.5) ** 2, (Float64(x),), (1,))[0]
    assert found[0] == pytest.approx(2 * np.cos(x) ** 2)
    flat = dr.hvp(lambda x: dr.sum(dr.safe_sqrt(x)), (Float64(-0.5, 1, 0),), (1,))[0]
    assert list(flat) == [0, -0.25, 0]


@pytest.mark.parametrize("op", [dr.ReduceOp.Max, dr.ReduceOp.Min, dr.ReduceOp.Mul])
def test_a_block_result_that_nobody_holds(op: dr.ReduceOp) -> None:
    """The sum needs no operand any more when the extremes' derivatives come."""
    x = Float64(1, 3, 2, 5, 4, 6)
    dr.enable_grad(x)
    dr.backward(dr.sum(dr.block_reduce(op, x, 3)) * 2)
    expected = {
        dr.ReduceOp.Max: [0, 2, 0, 0, 0, 2],
        dr.ReduceOp.Min: [2, 0, 0, 0, 2, 0],
        dr.ReduceOp.Mul: [12, 4, 6, 48, 60, 40],
    }
    assert list(x.grad) == expected[op]


@pytest.mark.parametrize("function", [dr.sum, dr.max, dr.prod, dr.mean, dr.norm])
def test_reductions_of_nothing_are_tracked(function: Callable[..., Any]) -> None:
    """So that a program needn't ask whether there are entries."""
    x = Float64(2)
    dr.enable_grad(x)
    dr.backward(function(dr.zeros(Float64, 0) * x))
    assert list(x.grad) == [0]
    table = Float64(1, 2)
    dr.enable_grad(table)
    none = dr.gather(Float64, table, dr.zeros(UInt32, 0))
    dr.set_grad(table, 1)
    assert list(dr.forward_to(dr.sum(none))) == [0]


@dr.syntax
def powers(x: Any, table: Any) -> tuple[Any, Any]:
    k, y, z = UInt32(0), x + 0, x + 1
    while k < 3:
        y, z = y * x, z * x
        dr.scatter_add(table, y, UInt32(0))
        k += 1
    return y, z


CLEARED_PART = "a part of what the argument was computed of has been cleared"


@pytest.mark.parametrize("first", range(3))
def test_results_that_share_what_an_earlier_traversal_has_cleared(first: int) -> None:
    """Their gradients were lost in silence, or a `KeyError`."""
    x, table = Float64(2, 3), dr.zeros(Float64, 1)
    dr.enable_grad(x)
    results = [*powers(x, table), table]
    dr.backward(results.pop(first))
    found = x.grad
    for other in results:
        with pytest.raises(RuntimeError, match=CLEARED_PART):
            dr.backward(other * 2 + x)
    np.testing.assert_array_equal(x.grad, found)
    dr.backward(x * x)
    np.testing.assert_array_equal(x.grad, found + 2 * x)


def test_a_shared_part_may_be_kept() -> None:
    x = Float64(2)
    dr.enable_grad(x)
    square = x * x
    dr.backward(square + 1, flags=dr.ADFlag.ClearVertices)
    dr.backward(square * 2)
    assert list(x.grad) == [12]
    dr.set_grad(x, 1)
    with pytest.raises(RuntimeError, match=CLEARED_PART):
        dr.forward_to(square * 3)


def test_a_part_that_a_body_has_cleared() -> None:
    @dr.syntax
    def program(x: Any, theta: Any) -> None:
        k = UInt32(0)
        while k < 2:
            shared = theta * x
            dr.backward(shared + 1)
            dr.backward(shared * 2)
            k += 1

    theta = Float64(2)
    dr.enable_grad(theta)
    with pytest.raises(RuntimeError, match=CLEARED_PART):
        program(Float64(1, 2), theta)


def test_an_array_that_is_written_to_again() -> None:
    """What it held before has been cleared, and is replaced."""
    buffer, x = dr.zeros(Float64, 2), Float64(3)
    dr.enable_grad(x)
    for k in range(1, 3):
        dr.scatter(buffer, x * k, dr.arange(UInt32, 2))
        dr.backward(dr.sum(buffer))
        assert list(x.grad) == [k * (k + 1)]
    dr.scatter_add(buffer, x, UInt32(0))
    with pytest.raises(RuntimeError, match=CLEARED_PART):
        dr.backward(buffer)


ENDED = "what was computed of the argument has been cleared"


def test_forward_mode_where_all_has_been_cleared() -> None:
    """What depends on the variable got zeros."""
    x = Float64(2)
    dr.enable_grad(x)
    square = x * x
    dr.backward(square)
    with pytest.raises(RuntimeError, match=ENDED):
        dr.forward(x)
    dr.set_grad(square, 1)
    with pytest.raises(RuntimeError, match=ENDED):
        dr.backward_to(x)
    dr.forward(x, dr.ADFlag.Default | dr.ADFlag.AllowNoGrad)
    cube = x * x * x
    dr.forward(x)
    assert list(cube.grad) == [12]
    del square, cube
    dr.forward(x)


MISSED = "forward mode didn't get here on all ways"


def test_forward_mode_where_a_part_has_been_cleared() -> None:
    """That part got zeros, also where what it was computed of is gone."""
    x = Float64(3)
    dr.enable_grad(x)
    double = x * 2
    first, second, third, other = double * 3, double * 5, double + x, x * 7
    del double
    dr.backward(first)
    dr.forward(x)
    assert list(other.grad) == [7]
    for result in (first, second, third):
        with pytest.raises(RuntimeError, match=MISSED):
            dr.grad(result)
    dr.set_grad(second, 4)
    assert list(second.grad) == [4]
    other = x * 7
    with pytest.raises(RuntimeError, match="arrays with gradients were computed of"):
        dr.backward_to(x)
    dr.clear_grad(third)
    assert list(third.grad) == [0]


def test_forward_mode_again_leaves_what_has_arrived() -> None:
    x, w = Float64(3), Float64(5)
    dr.enable_grad(x, w)
    kept = []
    for k in range(3):
        kept.append(x * x + k)
        dr.forward(x)
    assert [list(y.grad) for y in kept] == [[6]] * 3
    both, other = x * (w * w), w * 2
    dr.forward(x)
    dr.forward(w)
    assert list(other.grad) == [2]
    with pytest.raises(RuntimeError, match=MISSED):
        dr.grad(both)


def test_forward_mode_to_an_array_that_is_written_to_again() -> None:
    buffer, x = dr.zeros(Float64, 2), Float64(3)
    dr.enable_grad(x)
    for k in range(1, 3):
        dr.scatter(buffer, x * k, dr.arange(UInt32, 2))
        dr.forward(x)
        assert list(buffer.grad) == [k, k]
