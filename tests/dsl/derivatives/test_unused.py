"""What is NaN in elements that nothing uses doesn't get into gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float32, Float64, UInt32

X = np.array([0.31, -1.23, 2.57, 0.73, 1.91])
Y = np.array([1.53, 0.21, -0.77, 1.13, 0.63])
LANES = dr.arange(UInt32, 5)

Program = Callable[[Any, Any], Any]
PROGRAMS: list[Program] = []


def program(function: Program) -> Program:
    PROGRAMS.append(dr.syntax(function))
    return function


def root(x: Any, y: Any) -> Any:
    """NaN where `x` is negative, and so is its derivative by `x`."""
    return dr.sqrt(x) * y


@program
def one_side(x: Any, y: Any) -> Any:
    w, r = root(x, y), Float64(0)
    if x > 0:
        r = w * 2
    return r + y


@program
def two_sides(x: Any, y: Any) -> Any:
    w = root(x, y)
    if x > 0:
        r = w
    else:
        r = y * y
    return r


@program
def captured_by_a_loop(x: Any, y: Any) -> Any:
    w, r, i = root(x, y), Float64(0), dr.zeros(UInt32, 5)
    n = dr.select(x > 0, UInt32(3), UInt32(0))
    while i < n:
        r += w * y
        i += 1
    return r


@program
def state_of_a_loop(x: Any, y: Any) -> Any:
    w, r, i = root(x, y), y * 0, dr.zeros(UInt32, 5)
    n = dr.select(x > 0, UInt32(3), UInt32(0))
    while i < n:
        w = w * y
        r = dr.sin(w) + r * r
        i += 1
    return r


@program
def call(x: Any, y: Any) -> Any:
    callables = [lambda w, y: w * y, lambda w, y: y * y]
    return dr.switch(UInt32(x < 0), callables, root(x, y), y)


@program
def inactive_call(x: Any, y: Any) -> Any:
    def square(w: Any, y: Any, active: Any = True) -> Any:
        return w * w * y

    return dr.switch(UInt32(0), [square], root(x, y), y, active=x > 0)


@program
def masked_gather(x: Any, y: Any) -> Any:
    return dr.gather(Float64, root(x, y), LANES, x > 0) * y


@program
def other_entries(x: Any, y: Any) -> Any:
    return dr.gather(Float64, root(x, y), UInt32(4, 3, 2, 0, 0)) * y


@program
def compressed(x: Any, y: Any) -> Any:
    return dr.gather(Float64, root(x, y), dr.compress(x > 0))


@program
def masked_scatters(x: Any, y: Any) -> Any:
    t, i = y * 1, UInt32(0)
    while i < 2:
        dr.scatter_add(t, root(x, y), LANES, x > 0)
        i += 1
    dr.scatter_add(t, root(x, y), 4 - LANES, x > 0)
    return t * t


@program
def overwritten(x: Any, y: Any) -> Any:
    w = root(x, y)
    dr.scatter(w, y * 3, LANES, x < 0)
    return w


@program
def local_memory(x: Any, y: Any) -> Any:
    buffer, i = dr.alloc_local(Float64, 3, y), dr.zeros(UInt32, 5)
    while i < 3:
        if x < 0:
            buffer[i] = dr.log(-x) * buffer[(i + 1) % 3]
        i += 1
    return buffer[0] * buffer[1] + buffer[2]


@program
def conversions(x: Any, y: Any) -> Any:
    w, r = Float64(Float32(root(x, y))) * y, y * 0
    if x > 0:
        r = w * 2
    return r


@pytest.fixture(params=[True, False], ids=["symbolic", "evaluated"])
def modes(request: pytest.FixtureRequest) -> Iterator[None]:
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, request.param),
        dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, request.param),
        dr.scoped_set_flag(dr.JitFlag.SymbolicCalls, request.param),
    ):
        yield


def gradients(function: Program, x: Any, y: Any) -> Any:
    x, y = Float64(x), Float64(y)
    dr.enable_grad(x, y)
    dr.backward(function(x, y))
    return np.concatenate([x.grad, y.grad])


def differences(function: Callable[[Any, Any], Any], size: float) -> Any:
    """Differences by each entry of `X` and `Y`, in rows."""
    ahead, behind = (
        [function(X + h * e[:5], Y + h * e[5:]) for e in np.eye(10)]
        for h in (size, -size)
    )
    return (np.array(ahead) - np.array(behind)) / (2 * size)


@pytest.mark.usefixtures("modes")
@pytest.mark.parametrize("function", PROGRAMS)
def test_gradients_equal_differences(function: Program) -> None:
    def total(x: Any, y: Any) -> Any:
        return function(Float64(x), Float64(y)).numpy().sum()

    step, tolerance = (1e-2, 1e-2) if "conv" in function.__name__ else (1e-6, 1e-6)
    found = gradients(function, X, Y)
    np.testing.assert_allclose(found, differences(total, step), tolerance, tolerance)


@pytest.mark.usefixtures("modes")
@pytest.mark.parametrize("function", PROGRAMS)
def test_second_derivatives_equal_differences(function: Program) -> None:
    ones = Float64(np.ones(5))
    found = dr.hvp(function, (Float64(X), Float64(Y)), (ones, ones))
    step, tolerance = (1e-2, 2e-2) if "conv" in function.__name__ else (1e-5, 1e-4)
    rows = differences(lambda x, y: gradients(function, x, y), step)
    np.testing.assert_allclose(np.concatenate(found), rows.sum(0), tolerance, tolerance)


def test_gradients_of_0_that_a_program_gives() -> None:
    x, y = Float64(X), Float64(Y)
    dr.enable_grad(x, y)
    w = root(x, y)
    dr.set_grad(w, Float64(X > 0))
    dr.enqueue(dr.ADMode.Backward, w)
    dr.traverse(dr.ADMode.Backward)
    np.testing.assert_allclose(y.grad, np.sqrt(np.maximum(X, 0)))
