"""Derivatives of derivatives: forward and reverse mode over either, in regions too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import (
    Complex2f64,
    Float64,
    Quaternion4f64,
    TensorXf64,
    UInt32,
)

Function = Callable[[Any], Any]
X = np.array([0.3, 0.7, 1.1])
V = np.array([1.0, 2.0, 0.5])


def loop(state: Any, body: Any) -> Any:
    return dr.while_loop(state, lambda i, *_: i < 5, body)[-1]


def branch(x: Any) -> Any:
    return dr.if_stmt((x,), x > 0.5, lambda x: dr.sin(x) * x, lambda x: x * x * x)


def powers(x: Any) -> Any:
    state = (UInt32(0), x, dr.zeros(Float64, 3))
    return loop(state, lambda i, x, y: (i + 1, x, y + x * x * x))


def sines(x: Any) -> Any:
    state = (UInt32(0), x, x + 0)
    return loop(state, lambda i, x, y: (i + 1, x, dr.sin(y) * x))


def captured(x: Any) -> Any:
    state = (UInt32(0), dr.ones(Float64, 3))
    return loop(state, lambda i, y: (i + 1, y * dr.sin(x)))


def branches(x: Any) -> Any:
    return loop((UInt32(0), x), lambda i, x: (i + 1, branch(x)))


def loop_in_branch(x: Any) -> Any:
    return dr.if_stmt((x,), x > 0.5, sines, lambda x: x * x * x)


def square(x: Any) -> Any:
    """Only its derivative needs the product: no operand of the value does."""
    return dr.replace_grad(dr.detach(x * x), x * x)


def replaced(x: Any) -> Any:
    return loop((UInt32(3), x), lambda i, x: (i + 1, square(x)))


def replaced_in_branches(x: Any) -> Any:
    def branch(x: Any) -> Any:
        return dr.if_stmt((x,), x > 0.5, square, lambda x: square(x) * x)

    return loop((UInt32(3), x), lambda i, x: (i + 1, branch(x)))


def scattered(x: Any) -> Any:
    target = Float64(1, 2, 3)
    dr.scatter_add(target, x * x * x, UInt32(0, 1, 1))
    return target * target


def read_in_both_ways(x: Any) -> Any:
    """One side reads the whole array, the other an entry."""

    def branch(is_first: Any, x: Any, y: Any) -> Any:
        return dr.if_stmt(
            (x, y),
            is_first,
            lambda x, y: y * x,
            lambda x, y: y + y * y * dr.gather(Float64, x, UInt32(2)),
        )

    state = (UInt32(3), x, dr.opaque(Float64, 0.5, 3))
    return loop(state, lambda i, x, y: (i + 1, x, branch(i == 3, x, y)))


FLAT: dict[str, Function] = {
    "arithmetic": lambda x: dr.sin(x) * x / (1 + x),
    "gather": lambda x: dr.gather(Float64, x * x * x, UInt32(0, 2, 2, 1)) ** 2,
    "scatter": scattered,
    "product": lambda x: dr.prod(x),
    "maximum": lambda x: dr.max(x * x),
    "prefix sum": lambda x: dr.cumsum(x * x) ** 2,
    "blocks": lambda x: dr.block_sum(x * x * x, 3) ** 2,
    "branch": branch,
    "replaced in a branch": lambda x: dr.if_stmt(
        (x,), x > 0.5, lambda x: square(x) * square(x), lambda x: x
    ),
    "call": lambda x: dr.switch(UInt32(0, 1, 1), [lambda x: x * x * x, dr.sin], x),
}
LOOPS: dict[str, Function] = {
    "powers": powers,
    "sines": sines,
    "captured": captured,
    "branches": branches,
    "loop in branch": loop_in_branch,
    "replaced": replaced,
    "replaced in branches": replaced_in_branches,
    "read in both ways": read_in_both_ways,
}


def forward_over_reverse(function: Function) -> np.ndarray[Any, Any]:
    gradient = dr.value_and_grad(function)
    return dr.jvp(lambda x: gradient(x)[1], (Float64(X),), (Float64(V),))[1].numpy()


def reverse_over_reverse(function: Function) -> np.ndarray[Any, Any]:
    gradient = dr.value_and_grad(function)
    return dr.vjp(lambda x: gradient(x)[1], Float64(X))[1](Float64(V))[0].numpy()


def reverse_over_forward(function: Function) -> np.ndarray[Any, Any]:
    def tangent(x: Any) -> Any:
        return dr.jvp(function, (x,), (Float64(V),))[1]

    return dr.vjp(tangent, Float64(X))[1](1)[0].numpy()


def forward_over_forward(function: Function) -> np.ndarray[Any, Any]:
    """Differentiate along V twice."""

    def tangent(x: Any) -> Any:
        return dr.jvp(function, (x,), (Float64(V),))[1]

    return dr.jvp(tangent, (Float64(X),), (Float64(V),))[1].numpy()


def hessian_vector(function: Function) -> np.ndarray[Any, Any]:
    return dr.hvp(function, (Float64(X),), (Float64(V),))[0].numpy()


def differences(function: Function, eps: float = 1e-6) -> np.ndarray[Any, Any]:
    gradient = dr.value_and_grad(function)
    above, below = (gradient(Float64(X + s * V))[1].numpy() for s in (eps, -eps))
    return (above - below) / (2 * eps)


WAYS = [
    hessian_vector,
    forward_over_reverse,
    reverse_over_reverse,
    reverse_over_forward,
]


def check(way: Any, function: Function) -> None:
    np.testing.assert_allclose(
        way(function), differences(function), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("way", WAYS)
def test_second_derivatives(way: Any, name: str) -> None:
    check(way, FLAT[name])


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("way", WAYS)
def test_second_derivatives_of_evaluated_loops(way: Any, name: str) -> None:
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False),
        dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, False),
    ):
        check(way, LOOPS[name])


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("way", WAYS)
def test_second_derivatives_of_loops(way: Any, name: str) -> None:
    check(way, LOOPS[name])


@pytest.mark.parametrize("name", [*FLAT, *LOOPS])
def test_forward_over_forward(name: str) -> None:
    function = {**FLAT, **LOOPS}[name]
    along = float(np.sum(forward_over_forward(function)))
    np.testing.assert_allclose(along, float(np.dot(differences(function), V)), 1e-5)


def turns(x: Any, y: Any, step: Callable[[Any, Any], Any]) -> Any:
    for _ in range(5):
        y = step(x, y)
    return y


@pytest.mark.parametrize(
    ("function", "plain"),
    [
        (sines, lambda x: turns(x, x, lambda x, y: mpmath.sin(y) * x)),
        (captured, lambda x: turns(x, 1, lambda x, y: y * mpmath.sin(x))),
        (
            branches,
            lambda x: turns(
                x, x, lambda _, y: y * (mpmath.sin(y) if y > 0.5 else y * y)
            ),
        ),
    ],
)
def test_third_derivatives_by_reverse_mode_over_itself(
    function: Function, plain: Function
) -> None:
    """Those are loops over large local buffers, which are added and summed."""

    def derivative(f: Function) -> Function:
        return lambda x: dr.value_and_grad(lambda z: dr.sum(f(z)))(x)[1]

    found = derivative(derivative(derivative(function)))(Float64(X)).numpy()
    with mpmath.workdps(40):
        expected = [float(mpmath.diff(plain, x, 3)) for x in X]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def prefix(exclusive: bool, x: Any) -> Any:
    found = dr.block_prefix_reduce(dr.ReduceOp.Mul, x, 3, exclusive=exclusive)
    return found * Float64(1, 2, 3)


def scatter_products(x: Any) -> Any:
    found = Float64(1, 2)
    dr.scatter_reduce(dr.ReduceOp.Mul, found, x, UInt32(0, 1, 0))
    return found


def of_entries(function: Callable[..., Any]) -> Function:
    return lambda x: function(*(dr.gather(Float64, x, k) for k in range(3)))


# Where an entry is 0, what is computed of it isn't constant.
OF_ZEROS: dict[str, Function] = {
    "product": dr.prod,
    "block_product": lambda x: dr.block_reduce(dr.ReduceOp.Mul, x * x + x, 3),
    "tensor": lambda x: dr.prod(TensorXf64(x, (3, 1)), axis=0).array,
    "prefix": lambda x: prefix(False, x),
    "exclusive_prefix": lambda x: prefix(True, x),
    "scatter": scatter_products,
    "power": of_entries(lambda a, b, c: dr.power(b, a) + dr.power(b, c)),
    "hypot": of_entries(lambda a, b, c: dr.hypot(a, b) + dr.hypot(b, c)),
    "complex_log": of_entries(lambda a, b, c: dr.real(dr.log(Complex2f64(a, b) + c))),
    "complex_root": of_entries(lambda a, b, _: dr.real(dr.sqrt(Complex2f64(a, b)))),
    "quaternion": of_entries(lambda a, b, c: dr.abs(Quaternion4f64(a, c, b, c))),
}


@pytest.mark.parametrize("name", OF_ZEROS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at", [(0, 2, 3), (0, 2, 0)])
def test_second_derivatives_at_zeros(way: Any, name: str, at: Any) -> None:
    check(way, lambda x: OF_ZEROS[name](x - Float64(X) + Float64(*at)))
