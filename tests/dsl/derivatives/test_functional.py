"""`jvp`, `vjp`, `value_and_grad`, `hvp`: figures, structures, and what they leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Array3f64, Bool, Float, Float64, UInt32
from lumijit.runtime.errors import ArrayTypeError, DerivativeError


@dataclass
class Pair:
    u: Any
    v: Any


def product(x: Any, y: Any) -> Any:
    return x * x * y


def test_jvp() -> None:
    value, tangent = dr.jvp(product, (Float64(2, 3), Float64(5)), (1, 10))
    assert list(value) == [20, 45]
    assert list(tangent) == [2 * 2 * 5 + 40, 2 * 3 * 5 + 90]


def test_vjp_pulls_back_several_times() -> None:
    value, pullback = dr.vjp(product, Float64(2, 3), Float64(5))
    assert list(value) == [20, 45]
    for factor in (1, 10, 1):
        x, y = pullback(factor)
        assert list(x) == [20 * factor, 30 * factor]
        assert list(y) == [13 * factor]


def test_vjp_takes_and_returns_pytrees() -> None:
    def function(args: dict[str, Any], p: Pair) -> Pair:
        return Pair([args["a"] * p.u, args["b"]], p.v + 1)

    args = {"a": Float64(2), "b": Array3f64(1, 2, 3)}
    value, pullback = dr.vjp(function, args, Pair(Float64(3), UInt32(1)))
    assert value.u[0] == 6
    cotangent = Pair([1, Array3f64(4, 5, 6)], 0)
    first, second = pullback(cotangent)
    assert list(first["a"]) == [3]
    assert [list(v) for v in first["b"]] == [[4], [5], [6]]
    assert list(second.u) == [2]
    assert list(second.v) == [0]


def test_results_that_others_are_computed_of() -> None:
    """Also an argument that is returned, twice."""

    def function(x: Any) -> Any:
        u = x * x
        return x, u, u * x, u, x

    _, tangents = dr.jvp(function, (Float64(3),), (1,))
    assert [t[0] for t in tangents] == [1, 6, 27, 6, 1]
    _, pullback = dr.vjp(function, Float64(3))
    for k, expected in enumerate((1, 6, 27, 6, 1)):
        assert pullback(tuple(float(k == j) for j in range(5)))[0] == expected


def test_results_without_derivatives() -> None:
    _, tangent = dr.jvp(lambda x: (dr.detach(x), x > 1, 3), (Float64(3),), (1,))
    assert list(tangent[0]) == [0]
    assert isinstance(tangent[1], Bool)
    assert tangent[2] == 0


def test_value_and_grad() -> None:
    x, y = Float64(1, 2), Float64(3, 4)
    value, gradient = dr.value_and_grad(product)(x, y)
    assert list(value) == [3, 16]
    assert list(gradient) == [6, 16]
    _, (by_y, by_x) = dr.value_and_grad(product, (1, 0))(x, y)
    assert list(by_y) == [1, 4]
    assert list(by_x) == [6, 16]
    _, by_last = dr.value_and_grad(product, -1)(x, y)
    assert list(by_last) == [1, 4]


def test_value_and_grad_with_keywords_and_aux() -> None:
    def function(x: Any, factor: int) -> Any:
        return dr.sum(x) * factor, {"x": x, "text": "kept"}

    x = Float64(1, 2)
    found = dr.value_and_grad(function, has_aux=True)(x, factor=3)
    (value, aux), gradient = found
    assert value == 9
    assert list(gradient) == [3, 3]
    assert aux["text"] == "kept"
    assert not dr.grad_enabled(aux, value, gradient)


def test_hvp() -> None:
    def function(x: Any, y: Any) -> Any:
        return dr.sum(x * x * x * y)

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    u, v = np.array([0.5, 2.0]), np.array([1.0, -1.0])
    primals = (Float64(x), Float64(y))
    by_x, by_y = dr.hvp(function, primals, (Float64(u), Float64(v)))
    np.testing.assert_allclose(by_x, 6 * x * y * u + 3 * x * x * v)
    np.testing.assert_allclose(by_y, 3 * x * x * u)


def test_the_callers_arrays_stay_as_they_are() -> None:
    x, w = Float64(1, 2), Float64(3, 4)
    dr.enable_grad(w)
    dr.set_grad(w, 7)

    def function(x: Any) -> Any:
        x *= w
        return x

    value, gradient = dr.value_and_grad(function)(x)
    assert list(x) == [1, 2]
    assert list(gradient) == [3, 4]
    assert not dr.grad_enabled(x)
    assert list(w.grad) == [7, 7]
    dr.clear_grad(w)
    dr.backward(value)
    assert list(w.grad) == [1, 2]


def test_gradients_that_arrived_before_take_no_part() -> None:
    x = Float64(3)
    dr.enable_grad(x)
    dr.set_grad(x, 100)
    assert dr.jvp(lambda y: x * y, (x,), (1,))[1] == 3
    assert dr.value_and_grad(lambda y: x * y)(x)[1] == 3
    assert x.grad == 100


def test_results_are_tracked_through_the_callers_arrays_only() -> None:
    other = Float64(0)
    dr.enable_grad(other)
    value, gradient = dr.value_and_grad(lambda x: x * x)(Float64(3))
    assert not dr.grad_enabled(value, gradient)
    x = Float64(3)
    dr.enable_grad(x)
    value, gradient = dr.value_and_grad(lambda x: x * x * x)(x)
    dr.backward(value + 10 * gradient)
    assert x.grad == 3 * 9 + 10 * 6 * 3


def test_derivatives_by_tangents_and_cotangents() -> None:
    t = Float64(2)
    dr.enable_grad(t)
    dr.backward(dr.jvp(dr.sin, (Float64(0),), (t,))[1])
    assert t.grad == 1
    _, pullback = dr.vjp(lambda x: x * x, Float64(5))
    dr.clear_grad(t)
    dr.backward(pullback(t)[0])
    assert t.grad == 10


def test_nesting() -> None:
    def third(x: Any) -> Any:
        first = lambda x: dr.value_and_grad(dr.exp)(x)[1]  # noqa: E731
        second = lambda x: dr.value_and_grad(first)(x)[1]  # noqa: E731
        return dr.value_and_grad(second)(x)[1]

    np.testing.assert_allclose(third(Float64(0.5)), np.exp([0.5]), rtol=1e-14)


def test_scopes_of_the_caller() -> None:
    x = Float64(3)
    dr.enable_grad(x)
    with dr.suspend_grad():
        value, gradient = dr.value_and_grad(lambda y: x * y * y)(Float64(5))
        assert dr.jvp(lambda y: y * y, (Float64(5),), (1,))[1] == 10
    assert not dr.grad_enabled(value, gradient)
    assert gradient == 30
    _, pullback = dr.vjp(lambda y: y * y, Float64(5))
    with dr.suspend_grad(), dr.isolate_grad():
        assert pullback(1)[0] == 10


def test_traversals_of_the_function_dont_count() -> None:
    theta = Float64(2)
    dr.enable_grad(theta)

    def function(x: Any) -> Any:
        y = x * x
        dr.backward(theta * y * y, flags=dr.ADFlag.ClearNone)
        return x * y

    assert list(dr.value_and_grad(function)(Float64(1, 2))[1]) == [3, 12]
    assert list(dr.jvp(function, (Float64(1, 2),), (1,))[1]) == [3, 12]


def test_derivatives_of_derivatives_while_suspended() -> None:
    def cube(x: Any) -> Any:
        return dr.sum(x * x * x)

    def gradient(x: Any) -> Any:
        return dr.value_and_grad(cube)(x)[1]

    x = Float64(1, 2)
    with dr.suspend_grad():
        found = [
            dr.hvp(cube, (x,), (1,))[0],
            dr.value_and_grad(lambda x: dr.sum(gradient(x)))(x)[1],
            dr.value_and_grad(lambda x: dr.jvp(cube, (x,), (Float64(1, 1),))[1])(x)[1],
        ]
    assert [list(v) for v in found] == [[6, 12]] * 3
    assert not dr.grad_enabled(found)


def test_what_the_caller_enqueued_stays_enqueued() -> None:
    x = Float64(3)
    dr.enable_grad(x)
    y = x * x
    dr.set_grad(y, 1)
    dr.enqueue(dr.ADMode.Backward, y)
    dr.value_and_grad(lambda z: z * x)(x)
    assert x.grad == 0
    dr.traverse(dr.ADMode.Backward)
    assert x.grad == 6


def test_arguments_that_cannot_be_differentiated() -> None:
    with pytest.raises(DerivativeError, match=r"jvp: .* no floats \(UInt\)"):
        dr.jvp(lambda x: x, (UInt32(1),), (1,))
    with pytest.raises(DerivativeError, match=r"vjp: .*no traced array"):
        dr.vjp(lambda x: x, 3.0)
    with pytest.raises(DerivativeError, match=r"arrays of lumijit.llvm aren't"):
        dr.value_and_grad(lambda x: x)(dr.llvm.Float(1))


def test_what_does_not_fit() -> None:
    x = Float(1)
    with pytest.raises(ArrayTypeError, match="2 primals and 1 tangents"):
        dr.jvp(product, (x, x), (1,))
    grad = dr.value_and_grad
    with pytest.raises(ArrayTypeError, match=r"returned 'tuple' \(expected an arr"):
        grad(lambda x: (x, x))(x)
    with pytest.raises(ArrayTypeError, match=r"returned 'Float' \(expected a pair"):
        grad(lambda x: x, has_aux=True)(x)
    with pytest.raises(ArrayTypeError, match="structures differ"):
        dr.vjp(lambda x: [x, x], x)[1]((1, 2))


def test_gradients_on_the_way_stay_if_a_derivative_fails() -> None:
    class Fails(dr.CustomOp):
        def eval(self, x):
            return x * 1

        def backward(self):
            raise ValueError

    kept = []

    def f(x):
        kept.append(x * x)
        dr.accum_grad(kept[0], 5)
        return dr.custom(Fails, kept[0])

    with pytest.raises(ValueError):
        dr.value_and_grad(f)(Float(1, 2))
    assert list(kept[0].grad) == [5, 5]


def _slope(x: Any) -> Any:
    return dr.value_and_grad(lambda z: z * z)(x)[1]


DERIVATIVES = {
    "value": (lambda x: dr.value_and_grad(lambda z: z * z)(x)[0], lambda x: 2 * x),
    "gradient": (_slope, lambda x: 2),
    "pulled": (lambda x: dr.vjp(lambda z: z * z * z, x)[1](x)[0], lambda x: 9 * x * x),
    "pushed": (
        lambda x: dr.jvp(lambda z: z * z * z, (x,), (x,))[1],
        lambda x: 9 * x * x,
    ),
    "second": (
        lambda x: dr.hvp(lambda z: z * z * z, (x,), (x,))[0],
        lambda x: 12 * x,
    ),
    "nested": (
        lambda x: dr.value_and_grad(lambda z: z * _slope(z))(x)[1],
        lambda x: 4,
    ),
}


@dr.syntax
def _branch(function: Any, x: Any, mode: str) -> Any:
    if dr.hint(x > 1, mode=mode):
        x = function(x)
    return x


@dr.syntax
def _loop(function: Any, x: Any, mode: str, compress: bool = False) -> Any:
    i = UInt32(0, 1, 1)
    while dr.hint(i < 1, mode=mode, compress=compress):
        x = function(x)
        i += 1
    return x


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize(
    ("run", "given"),
    [
        (_branch, ("symbolic",)),
        (_branch, ("evaluated",)),
        (_loop, ("symbolic",)),
        (_loop, ("evaluated",)),
        (_loop, ("evaluated", True)),
    ],
)
def test_derivatives_in_control_flow_have_derivatives(
    name: str, run: Any, given: tuple[Any, ...]
) -> None:
    """Elements that take no part get nothing of what was computed for the others."""
    function, derivative = DERIVATIVES[name]
    x = Float64(3, 1, 0.5)
    dr.enable_grad(x)
    dr.backward(run(function, x, *given))
    assert dr.allclose(x.grad, [derivative(3), 1, 1])
