"""`@kernel`: derivatives of results, asked for by the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm.ad import Array3f, Float, Float64, UInt32
from lumijit.runtime.errors import DerivativeError
from tests.dsl.replay.support import array, assert_equal

GAIN = array(2, 3, 4)


class Layer:
    def __init__(self) -> None:
        self.weight = array(0.5, -1, 2)
        self.scale = 1.5

    def plain(self, x: Any) -> Any:
        y = dr.tanh(x * self.weight) * self.scale
        return {"y": y, "sum": dr.sum(y * y), "x": x, "n": 3}

    recorded = dr.kernel(plain)


def pulled(function: Callable[..., Any], x: Any, *others: Any) -> Any:
    """Return derivatives by the inputs of a weighted sum of what a function returns."""
    variables = [x, *others]
    dr.enable_grad(variables)
    result = function(x)
    leaves = list(result.values()) if isinstance(result, dict) else [result]
    total = sum(
        (k + 1) * dr.sum(v * v)
        for k, v in enumerate(leaves)
        if isinstance(v, dr.ArrayBase)
    )
    dr.backward(total)
    found = [+dr.grad(v) for v in variables]
    dr.disable_grad(variables)
    return found


def test_reverse_mode_reaches_arguments_and_what_is_outside() -> None:
    layer = Layer()
    for k in range(4):
        layer.scale += 0.25
        layer.weight += 0.1
        x = array(0.1, k, -0.5)
        found = pulled(layer.recorded, x, layer.weight)
        assert_equal(found, pulled(layer.plain, x, layer.weight))
    text = Layer.recorded.explain()
    assert "in reverse mode: 1. the first call" in text
    assert "replayed 2 times" in text
    assert Layer.recorded.n_recordings == 2
    Layer.recorded.clear()


def test_forward_mode() -> None:
    def plain(x: Float, k: int) -> Any:
        return dr.sin(x * k) * GAIN, dr.mean(x)

    recorded = dr.kernel(plain)
    for k in range(4):
        found = []
        for function in (plain, recorded):
            x, other = array(1, 2, k), array(3, 2, 1)
            dr.enable_grad(x, other)
            dr.set_grad(x, Float(1, k, 2))
            results = function(x + other * 0, k)
            found.append(dr.forward_to(*results))
        assert_equal(*found)
    assert recorded.n_recordings == 2
    assert "in forward mode" in recorded.explain()


def test_control_flow_and_nested_arrays() -> None:
    @dr.syntax
    def plain(x: Float) -> Any:
        v = Array3f(x, 1, 2)
        i = UInt32(0)
        while i < 5:
            if x > 1:
                v = dr.cross(v, Array3f(0.25, x, 1))
            else:
                v = v * x
            i += 1
        return v

    recorded = dr.kernel(plain)
    for k in range(3):
        assert_equal(
            pulled(recorded, array(0.5, 1.5, k)), pulled(plain, array(0.5, 1.5, k))
        )
    assert recorded.n_recordings == 2


def test_second_derivatives() -> None:
    def plain(x: Float64) -> Any:
        return dr.sum(dr.exp(x) * x * x)

    recorded = dr.kernel(plain)
    for k in range(3):
        x, v = Float64(0.5, k, -1), Float64(1, 2, 3)
        (found,) = dr.hvp(recorded, (x,), (v,))
        assert_equal(found, dr.exp(x) * (x * x + 4 * x + 2) * v)


def test_kernels_in_kernels_and_through_each_other() -> None:
    @dr.kernel
    def inner(x: Float) -> Any:
        return dr.sin(x) * x

    @dr.kernel
    def outer(x: Float) -> Any:
        return inner(inner(x)) * 2

    def plain(x: Float) -> Any:
        y = dr.sin(x) * x
        return dr.sin(y) * y * 2

    for k in range(3):
        x = array(0.5, 1, k)
        assert_equal(pulled(outer, +x), pulled(plain, +x))
        assert_equal(pulled(lambda x: inner(inner(x)) * 2, +x), pulled(plain, +x))


def test_parts_of_the_result_may_be_untracked_or_arguments() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        return dr.detach(x), x, x * x, dr.width(x), UInt32(1, 2)

    for k in range(3):
        x = array(1, k)
        dr.enable_grad(x)
        free, same, square, width, index = f(x)
        assert same is x
        assert not dr.grad_enabled(free)
        assert (width, len(index)) == (2, 2)
        dr.backward(dr.sum(square) + dr.sum(same))
        assert_equal(x.grad, 2 * dr.detach(x) + 1)


def test_gradients_of_results_may_be_numbers_that_change() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        return x * x * x

    for k in range(5):
        x = array(1, 2)
        dr.enable_grad(x)
        y = f(x)
        dr.set_grad(y, k)
        dr.enqueue(dr.ADMode.Backward, y)
        dr.traverse(dr.ADMode.Backward)
        assert_equal(x.grad, Float(3, 12) * k)
    assert f.n_recordings == 2
    assert "reverse mode: 2." not in f.explain()


def test_a_literal_gradient_belongs_to_a_recording() -> None:
    @dr.kernel
    def f(x: Float) -> Any:
        return x.grad * 2

    for k in (1, 2, 1, 3):
        x = array(1, 2)
        dr.enable_grad(x)
        dr.set_grad(x, k)
        assert_equal(f(x), Float(2, 2) * k)


def test_what_changes_before_the_derivative_is_an_error() -> None:
    layer = Layer()

    @dr.kernel
    def f(x: Float) -> Any:
        return dr.sin(x) * layer.scale

    for _ in range(2):
        x = array(1, 2)
        dr.enable_grad(x)
        y = f(x)
    layer.scale = 3.0
    with pytest.raises(DerivativeError, match=r"'layer\.scale' has another value"):
        dr.backward(y)
    # Arrays may change: the derivative is that where the function was called.
    layer.scale = 1.5
    x = array(1, 2)
    dr.enable_grad(x)
    y, before = f(x), dr.detach(x) + 0
    x += 5
    z = x * 1
    dr.backward(y)
    assert_equal(dr.detach(z), before + 5)


def test_a_changed_argument_is_differentiated_where_it_was() -> None:
    @dr.kernel
    def f(x: Float, w: Float) -> Any:
        return x * x * w

    for k in range(3):
        x, w = array(1, 2), array(3, k)
        dr.enable_grad(x)
        y = f(x, w)
        w += 10
        dr.backward(y)
        assert_equal(x.grad, Float(2, 4) * Float(3, k))


def test_what_leaves_something_runs_as_it_is() -> None:
    layer = Layer()

    @dr.kernel
    def f(x: Float) -> Any:
        layer.weight = layer.weight + x
        return layer.weight * x

    x = array(1, 2, 3)
    dr.enable_grad(x)
    for _ in range(3):
        y = f(x)
    dr.backward(y)
    assert_equal(x.grad, Float(0.5, -1, 2) + 3 * 2 * Float(1, 2, 3))
    assert "runs as it is, since its results can be differentiated" in f.explain()


def test_what_python_decides_tells_which_results_are_tracked() -> None:
    def plain(x: Float, k: int) -> Any:
        if k > 2:
            return dr.detach(x), x * x
        if k > 1:
            return x * 3
        return x * x * x, dr.detach(x)

    recorded = dr.kernel(plain)
    for k in (1, 1, 3, 3, 2, 2, 1, 3, 2, 0):
        found: list[list[Any]] = []
        for function in (plain, recorded):
            x = array(1, 2 + k)
            dr.enable_grad(x)
            result = function(x, k)
            leaves = [result] if isinstance(result, Float) else list(result)
            found.append([dr.grad_enabled(leaf) for leaf in leaves])
            dr.backward(sum(dr.sum(leaf) for leaf in leaves))
            found[-1] += [x.grad]
        assert found[0][:-1] == found[1][:-1]
        assert_equal(found[0][-1], found[1][-1])


def test_results_of_variables_that_the_function_makes() -> None:
    @dr.kernel
    def alone(x: Float) -> Any:
        own = dr.detach(x) + 0
        dr.enable_grad(own)
        y = own * own
        dr.backward(y, dr.ADFlag.ClearNone)
        return y, dr.grad(own)

    @dr.kernel
    def beside(x: Float) -> Any:
        own = dr.detach(x) + 0
        dr.enable_grad(own)
        return x * own, own

    for k in range(3):
        x = array(3, k)
        y, grad = alone(x)
        assert_equal(y, x * x)
        assert_equal(grad, 2 * x)
        dr.enable_grad(x)
        y, own = beside(x)
        dr.backward(y)
        assert_equal(x.grad, Float(3, k))
        assert_equal(own.grad, Float(3, k))


def chained(x: Any) -> Any:
    inner = x * x
    return dr.sum(inner * inner), inner


def test_a_result_of_which_another_was_computed() -> None:
    recorded = dr.kernel(chained)

    def asked(ask: Callable[[Any, Any, Any], Any], function: Any = recorded) -> Any:
        x = array(1, 2, 3)
        dr.enable_grad(x)
        total, inner = function(x)
        dr.set_grad(total, 1)
        return +dr.grad(ask(x, total, inner))

    def backward(x: Any, total: Any, inner: Any) -> Any:
        dr.backward(total + dr.sum(inner))
        return x

    def from_inner(x: Any, total: Any, inner: Any) -> Any:
        dr.forward(inner)
        return total

    def to_inner(x: Any, total: Any, inner: Any) -> Any:
        dr.backward_to(inner)
        return inner

    def to_total(x: Any, total: Any, inner: Any) -> Any:
        dr.clear_grad(total)
        dr.set_grad(inner, 1)
        dr.forward_to(total)
        return total

    def kept(x: Any, total: Any, inner: Any) -> Any:
        dr.backward(total, flags=dr.ADFlag.ClearEdges)
        return inner

    def forward(x: Any, total: Any, inner: Any) -> Any:
        dr.clear_grad(total)
        dr.set_grad(x, 1)
        dr.forward_to(total)
        return total

    for _ in range(3):
        for ask in (backward, forward):
            assert_equal(asked(ask), asked(ask, chained))
    for ask in (from_inner, to_inner, to_total, kept):
        asked(ask, chained)
        with pytest.raises(DerivativeError, match="one is computed of the other"):
            asked(ask)
