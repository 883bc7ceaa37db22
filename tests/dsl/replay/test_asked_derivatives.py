"""`@kernel`: functions that ask for derivatives of what comes from outside.

Replays are right, or the function runs as it is.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float
from lumijit.runtime.errors import DerivativeError
from tests.dsl.replay.support import array

PARAMETER = array(1, 2, 3)


@pytest.fixture(autouse=True)
def _untracked() -> Iterator[None]:
    """Leave nothing tracked: others may ask for NumPy views that they can write to."""
    global PARAMETER
    yield
    PARAMETER = array(1, 2, 3)
    gc.collect()


def asks_whether_tracked(x: Any) -> Any:
    return x * 10 if dr.grad_enabled(x) else x * 1


def asks_of_computed(x: Any) -> Any:
    y = x * PARAMETER
    return y + dr.grad_enabled(y)


def reads_gradient(x: Any) -> Any:
    return x * PARAMETER + dr.detach(dr.grad(PARAMETER))


def sets_gradient(x: Any) -> Any:
    dr.set_grad(PARAMETER, Float(1))
    return x * PARAMETER


def adds_gradient(x: Any) -> Any:
    dr.accum_grad(PARAMETER, 2)
    return x * PARAMETER


def clears_gradient(x: Any) -> Any:
    dr.clear_grad(PARAMETER)
    return x * PARAMETER


def goes_backward(x: Any) -> Any:
    dr.backward(dr.sum(PARAMETER * dr.detach(x)))
    return x * PARAMETER


def tracks_inside(x: Any) -> Any:
    own = dr.detach(x) * 1
    dr.enable_grad(own)
    dr.backward(own * own)
    return x * dr.grad(own)


def returns_nothing_tracked(x: Any) -> Any:
    dr.backward(dr.sum(x * PARAMETER))
    return dr.detach(x) * 2


FUNCTIONS = (
    asks_whether_tracked,
    asks_of_computed,
    reads_gradient,
    sets_gradient,
    adds_gradient,
    clears_gradient,
    goes_backward,
    tracks_inside,
    returns_nothing_tracked,
)
# What an argument is, given a variable.
MAKERS: dict[str, Callable[[Any], Any]] = {
    "variable": lambda a: a,
    "multiple": lambda a: a * 3,
    "other multiple": lambda a: a * 5,
    "square": lambda a: a * a,
    "plain": lambda a: dr.detach(a) * 1,
    "parameter": lambda a: PARAMETER,
}


def outcome(function: Callable[..., Any], make: Callable[[Any], Any]) -> list[Any]:
    """Return what a call gives, and gradients: at once, and of what it returns."""
    dr.enable_grad(PARAMETER)
    dr.set_grad(PARAMETER, Float(5, 6, 7))
    a = array(0.5, -1, 2)
    dr.enable_grad(a)
    result = function(make(a))
    found = [result, dr.grad(a), dr.grad(PARAMETER)]
    if dr.grad_enabled(result):
        dr.backward(dr.sum(result * result))
        found += [dr.grad(a), dr.grad(PARAMETER)]
    return [np.array(v) for v in found]


@pytest.mark.parametrize("order", [list(MAKERS), list(MAKERS)[::-1]])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_calls_agree_with_the_function(function: Any, order: list[str]) -> None:
    kernel = dr.kernel(warn_after=-1)(function)
    for name in [name for name in order for _ in range(3)]:
        expected = outcome(function, MAKERS[name])
        for found, value in zip(outcome(kernel, MAKERS[name]), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-5, err_msg=name)


def test_what_goes_on_outside_is_told() -> None:
    kernel = dr.kernel(returns_nothing_tracked)
    for name in ("variable", "variable", "square", "square"):
        outcome(kernel, MAKERS[name])
    text = kernel.explain()
    assert "derivatives go on to what was computed outside" in text
    assert text.count("replayed") == 1


def test_results_that_the_function_went_back_through() -> None:
    @dr.kernel
    def function(x: Any) -> Any:
        y = x * PARAMETER
        dr.backward(y * 1.0)
        return y

    dr.enable_grad(PARAMETER)
    for _ in range(3):
        y = function(array(1, 1, 2))
        assert dr.grad_enabled(y)
        with pytest.raises(DerivativeError, match="has been cleared"):
            dr.backward(y * 10)
    assert "runs as it is" not in function.explain()
