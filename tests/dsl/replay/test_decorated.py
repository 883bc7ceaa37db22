"""What `@kernel` decorates besides functions of the program, as they are written."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float64

WEIGHTS = Float64(2, 3)


def _loss(x: Any) -> Any:
    return dr.sum(x * x * WEIGHTS)


SLOPE = dr.value_and_grad(_loss)


@dr.kernel
def _slope(x: Any) -> Any:
    return SLOPE(x)


@pytest.mark.parametrize("function", [dr.kernel(dr.value_and_grad(_loss)), _slope])
def test_functions_that_are_differentiated_are_looked_into(function: Any) -> None:
    for weights in ([2.0, 3.0], [4.0, 5.0]):
        WEIGHTS[:] = Float64(weights)
        for x in (Float64(1, 2), Float64(3, 1)):
            value, gradient = function(x)
            factors = np.array(weights)
            np.testing.assert_allclose(value, [(x.numpy() ** 2 * factors).sum()])
            np.testing.assert_allclose(gradient, 2 * x.numpy() * factors)
    assert function.n_recordings == 1


@pytest.mark.parametrize("decorator", [dr.kernel, dr.freeze])
def test_functions_in_other_decorators(decorator: Any) -> None:
    def plain(f: Any) -> Any:
        @functools.wraps(f)
        def wrapper(*args: Any) -> Any:
            return f(*args)

        return wrapper

    @decorator
    @plain
    @dr.syntax
    def step(x: Any, w: Any) -> Any:
        if x > 1:
            x *= w
        return x

    for w in (2, 3):
        assert list(step(Float64(1, 2), Float64(w))) == [1, 2 * w]
    assert step.n_recordings == 1


@pytest.mark.parametrize("decorator", [dr.kernel, dr.freeze])
def test_methods_of_objects(decorator: Any) -> None:
    class Scaling:
        def __init__(self, factor: float) -> None:
            self.factor = Float64(factor)

        def scaled(self, x: Any) -> Any:
            if x > 1:
                x *= self.factor
            return x

        @classmethod
        def doubled(cls, x: Any) -> Any:
            return x * 2

    scaling = Scaling(3)
    scaled = decorator(scaling.scaled)
    assert list(scaled(Float64(1, 2))) == [1, 6]
    scaling.factor = Float64(5)
    assert list(scaled(Float64(2, 3))) == [10, 15]
    assert scaled.n_recordings == 1
    assert list(decorator(Scaling.doubled)(Float64(1))) == [2]
