"""`CustomOp` and `custom`: explicit and implicit inputs, loops, mistakes."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.compiler.ir import vertices
from lumijit.llvm.ad import Array2f, Array2f64, UInt
from lumijit.llvm.ad import Float64 as Float
from lumijit.runtime.errors import ArrayTypeError, DerivativeError, SizeError


class Product(dr.CustomOp):
    def eval(self, x, y):
        self.x, self.y = x, y
        return x * y

    def forward(self):
        self.set_grad_out(self.y * self.grad_in("x") + self.x * self.grad_in("y"))

    def backward(self):
        self.set_grad_in("x", self.y * self.grad_out())
        self.set_grad_in("y", self.x * self.grad_out())


def variables(*values: Any) -> list[Float]:
    found = [Float(value) for value in values]
    dr.enable_grad(*found)
    return found


def test_reverse_and_forward() -> None:
    x, y = variables([2, 3], 5)
    z = dr.custom(Product, x, y)
    assert z.numpy().tolist() == [10, 15]
    dr.backward(z)
    assert x.grad.numpy().tolist() == [5, 5]
    assert y.grad.numpy().tolist() == [5]
    x, y = variables([2, 3], 5)
    z = dr.custom(Product, x, y=y)
    dr.forward(x)
    assert z.grad.numpy().tolist() == [5, 5]


def test_arguments_are_detached_and_results_without_variables_too() -> None:
    class Look(dr.CustomOp):
        def eval(self, x):
            assert not dr.grad_enabled(x)
            return x + 1

    (x,) = variables(1)
    assert dr.grad_enabled(dr.custom(Look, x))
    assert not dr.grad_enabled(dr.custom(Look, Float(1)))


@dr.syntax
def powers(x, y):
    i = UInt(0)
    while i < 3:
        x = dr.custom(Product, x, y)
        i += 1
    return x


@pytest.mark.parametrize("is_symbolic", [True, False])
def test_in_a_loop(is_symbolic: bool) -> None:
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, is_symbolic):
        x, y = variables([2, 3], 5)
        dr.backward(powers(x, y))
        np.testing.assert_allclose(x.grad, [125, 125])
        np.testing.assert_allclose(y.grad, [3 * 25 * (2 + 3)])
        x, y = variables([2, 3], 5)
        z = powers(x, y)
        dr.forward(y)
        np.testing.assert_allclose(z.grad, [150, 225])


def test_structures_go_in_and_out() -> None:
    class Pair(dr.CustomOp):
        def eval(self, points, scale):
            self.scale = scale
            return {"sum": points[0] + points[1], "scaled": points[0] * scale}

        def backward(self):
            by = self.grad_out()
            first = by["sum"] + by["scaled"] * self.scale
            self.set_grad_in("points", [first, by["sum"]])

    a, b = Array2f([1, 2], [3, 3]), Array2f([4, 4], [5, 6])
    dr.enable_grad(a, b)
    found = dr.custom(Pair, [a, b], 10)
    dr.backward(found["sum"] + found["scaled"])
    np.testing.assert_allclose(a.grad, 11 * np.ones((2, 2)))
    np.testing.assert_allclose(b.grad, np.ones((2, 2)))


def test_positional_rest_and_keywords() -> None:
    class Sum(dr.CustomOp):
        def eval(self, *args, **others):
            return args[0] + args[1] + others["z"]

        def backward(self):
            self.set_grad_in(0, self.grad_out())
            self.set_grad_in(1, 2 * self.grad_out())
            self.set_grad_in("z", 3 * self.grad_out())

    x, y, z = variables(1, 1, 1)
    dr.backward(dr.custom(Sum, x, y, z=z))
    assert [v.grad[0] for v in (x, y, z)] == [1, 2, 3]


def test_implicit_inputs_and_outputs() -> None:
    (weight,) = variables(3)
    side = Float(0)

    class Weighted(dr.CustomOp):
        def eval(self, x):
            self.add_input(weight)
            self.x = x
            side._become((x * 100)._node)
            self.add_output(side)
            return x * dr.detach(weight)

        def backward(self):
            by = self.grad_out()
            self.set_grad_in("x", by * dr.detach(weight))
            dr.backward(dr.detach(by * self.x) * weight)

    (x,) = variables(2)
    dr.backward(dr.custom(Weighted, x))
    assert dr.grad_enabled(side)
    assert side.numpy().tolist() == [200]
    assert x.grad.numpy().tolist() == [3]
    assert weight.grad.numpy().tolist() == [2]


class _Plain:
    """No PyTree."""

    factor: Any


class HiddenAttribute(dr.CustomOp):
    def eval(self, x):
        self._factor = dr.cos(x)
        return dr.sin(x)

    def backward(self):
        self.set_grad_in("x", self._factor * self.grad_out())


class PlainObject(HiddenAttribute):
    def eval(self, x):
        self.kept = _Plain()
        self.kept.factor = dr.cos(x)
        return dr.sin(x)

    _factor = property(lambda self: self.kept.factor)


class Slot(HiddenAttribute):
    __slots__ = ("_factor",)


def construct(name: str, mode: str, function: Any, x: Any) -> Any:
    """Call a function in a construct, once for each element."""
    if name == "none":
        return function(x)
    if name == "branch":
        return dr.if_stmt((x,), x > 0, function, lambda x: x, mode=mode)
    if name == "call":
        chosen = dr.zeros(UInt, len(x))
        return dr.switch(chosen, [function, lambda x: x], x, mode=mode)
    state = UInt(0), x
    return dr.while_loop(
        state, lambda i, x: i < 1, lambda i, x: (i + 1, function(x)), mode=mode
    )[1]


CONSTRUCTS = pytest.mark.parametrize("name", ["none", "branch", "call", "loop"])
MODES = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])


@MODES
@CONSTRUCTS
@pytest.mark.parametrize("cls", [HiddenAttribute, PlainObject, Slot])
def test_where_operations_keep_arrays(cls: Any, name: str, mode: str) -> None:
    (x,) = variables([0.3, 0.8])
    dr.backward(construct(name, mode, lambda x: dr.custom(cls, x), x))
    np.testing.assert_allclose(x.grad, np.cos([0.3, 0.8]))


@pytest.mark.parametrize("is_derived", [False, True])
@pytest.mark.parametrize("is_traversing", [False, True])
@MODES
@CONSTRUCTS
def test_implicit_inputs_that_are_kept(
    name: str, mode: str, is_traversing: bool, is_derived: bool
) -> None:
    class Scaled(dr.CustomOp):
        def eval(self, x):
            self.x, self.weight = x, weight
            self.add_input(self.weight)
            return x * dr.detach(weight)

        def forward(self):
            self.set_grad_out(self.x * dr.grad(self.weight))

        def backward(self):
            if is_traversing:
                dr.backward(self.weight * self.x * self.grad_out())
            else:
                dr.accum_grad(self.weight, self.x * self.grad_out())

    def run(x):
        return dr.custom(Scaled, x)

    for is_forward in (True, False):
        (variable,) = variables([3, 4])
        weight = variable * 1 if is_derived else variable
        x = Float(1, 2)
        result = construct(name, mode, run, x)
        if is_forward:
            dr.forward(variable)
        else:
            dr.backward(result)
        found = result.grad if is_forward else variable.grad
        assert found.numpy().tolist() == [1, 2]


def test_gradients_that_backward_gives_to_others_itself() -> None:
    class Total(dr.CustomOp):
        def eval(self, weights, x):
            self.x = x
            return dr.sum(weights[0]) * x

        def backward(self):
            dr.backward(dr.sum(weight) * self.x * self.grad_out())

    (weight,) = variables([1, 2])
    dr.backward(dr.custom(Total, [weight], Float(1, 2)))
    assert weight.grad.numpy().tolist() == [3, 3]


def test_changes_in_place_after_eval_dont_count() -> None:
    class Scaled(dr.CustomOp):
        def eval(self, x, given):
            self.given = given
            return x * given["factor"]

        def backward(self):
            self.set_grad_in("x", self.given["factor"] * self.grad_out())

    (x,) = variables(3)
    given = {"factor": Float(5)}
    result = dr.custom(Scaled, x, given)
    given["factor"] += 1
    dr.backward(result)
    assert x.grad == 5


def test_mistakes() -> None:
    class Nothing(dr.CustomOp):
        def eval(self, x):
            return x

    class Forgets(Nothing):
        def backward(self):
            pass

    class Confused(Nothing):
        def backward(self):
            self.set_grad_out(1)

    class Misnamed(Nothing):
        def backward(self):
            self.set_grad_in("q", 1)

    class Unfitting(Nothing):
        def backward(self):
            self.set_grad_in("x", object())

    def differentiate(cls: type[dr.CustomOp]) -> None:
        (x,) = variables(1)
        dr.backward(dr.custom(cls, x))

    with pytest.raises(DerivativeError, match="has no derivative in this mode"):
        differentiate(Nothing)
    with pytest.raises(DerivativeError, match="has set no gradient"):
        differentiate(Forgets)
    with pytest.raises(DerivativeError, match=r"in forward\(\) only"):
        differentiate(Confused)
    with pytest.raises(ArrayTypeError, match="no argument 'q'"):
        differentiate(Misnamed)
    with pytest.raises(ArrayTypeError, match="Unfitting: the gradient has type 'obj"):
        differentiate(Unfitting)
    with pytest.raises(DerivativeError, match="isn't defined"):
        dr.custom(dr.CustomOp)
    with pytest.raises(ArrayTypeError, match="first argument is 3"):
        dr.custom(3)  # type: ignore[arg-type]
    with pytest.raises(DerivativeError, match="no gradients outside"):
        Product().grad_out()


class Cube(dr.CustomOp):
    def eval(self, x: Any) -> Any:
        self.x = x
        return x * x * x

    def forward(self) -> None:
        self.set_grad_out(3 * self.x * self.x * self.grad_in("x"))

    def backward(self) -> None:
        self.set_grad_in("x", 3 * self.x * self.x * self.grad_out())


def cube(x: Any) -> Any:
    return dr.custom(Cube, x)


def cubes(mode: str) -> list[Any]:
    """Functions whose values are cubes, in control flow."""

    def loop(x: Any) -> Any:
        state = (UInt(0), x, x)
        body = lambda i, x, _: (i + 1, x, cube(x))  # noqa: E731
        return dr.while_loop(state, lambda i, *_: i < 2, body, mode=mode)[2]

    return [
        loop,
        lambda x: dr.if_stmt((x,), x > 0, cube, lambda x: x, mode=mode),
        lambda x: dr.switch(UInt(0, 0), [cube, cube], x, mode=mode),
    ]


@pytest.mark.parametrize(
    "function",
    [cube, *cubes("symbolic"), *cubes("evaluated")],
)
def test_second_derivatives_are_an_error(function: Any) -> None:
    """First ones aren't, whatever is tracked."""

    def value(x: Any) -> Any:
        return dr.sum(function(x))

    def by_pulling(x: Any) -> Any:
        return dr.value_and_grad(value)(x)[1]

    def by_pushing(x: Any) -> Any:
        return dr.jvp(value, (x,), (Float(1, 1),))[1]

    x = Float(1, 2)
    dr.enable_grad(x)
    for first, expected in ((by_pulling, [3, 12]), (by_pushing, [15])):
        assert list(first(Float(1, 2))) == expected
        found = first(x)
        assert list(found) == expected
        for second in (
            lambda found=found: dr.backward(found),
            lambda first=first: dr.value_and_grad(first)(Float(1, 2)),
            lambda first=first: dr.jvp(first, (Float(1, 2),), (1,)),
        ):
            with pytest.raises(
                DerivativeError, match="how that of the custom operation 'Cube'"
            ):
                second()


def test_operations_and_their_results_are_let_go_together() -> None:
    gc.collect()
    gc.disable()
    try:
        before = set(vertices.variables)
        x = Float(3)
        dr.enable_grad(x)
        y = cube(x)
        del x, y
        assert set(vertices.variables) <= before
    finally:
        gc.enable()


def test_gradients_of_other_sizes() -> None:
    class Wrong(dr.CustomOp):
        def eval(self, x):
            return x + 1

        def forward(self):
            self.set_grad_out([1, 2, 3])

        def backward(self):
            self.set_grad_in("x", [1, 2, 3])

    (x,) = variables([1, 2])
    result = dr.custom(Wrong, x)
    with pytest.raises(
        SizeError, match=r"set_grad_in: the gradient has 3.*argument .*2"
    ):
        dr.backward(result)
    result = dr.custom(Wrong, x)
    with pytest.raises(
        SizeError, match=r"set_grad_out: the gradient has 3.*result .*2"
    ):
        dr.forward(x)


class Area(dr.CustomOp):
    def eval(self, p, more):
        self.p, self.scale = p, more["scale"]
        return p.x * p.y * self.scale

    def forward(self):
        g = self.grad_in("p")
        self.set_grad_out((g.x * self.p.y + g.y * self.p.x) * self.scale)

    def backward(self):
        g = self.grad_out() * self.scale
        self.set_grad_in("p", Array2f64(g * self.p.y, g * self.p.x))


@pytest.mark.parametrize("is_forward", [True, False])
@pytest.mark.parametrize("change", ["whole", "part", "entry"])
def test_arguments_that_change_in_place_later(change: str, is_forward: bool) -> None:
    (x,) = variables(3)
    p, more = Array2f64(x, 2 * x), {"scale": x * 0 + 5}
    area = dr.custom(Area, p, more)
    if change == "whole":
        p += 1
    elif change == "part":
        p.x += 1
    else:
        more["scale"] = Float(0)
        p[1] = Float(0)
    if is_forward:
        dr.forward(x)
        assert area.grad == 60
    else:
        dr.backward(area)
        assert x.grad == 60


@pytest.mark.parametrize("is_symbolic", [True, False])
def test_arguments_that_change_in_place_in_loops(is_symbolic: bool) -> None:
    @dr.syntax
    def f(x, is_custom):
        p, total, i = Array2f64(x, 2 * x), Float(0), UInt(0)
        while i < 3:
            more = {"scale": Float(0.5)}
            total += dr.custom(Area, p, more) if is_custom else p.x * p.y * 0.5
            p += Array2f64(p.y, 0.1)
            i += 1
        return total

    found = []
    for is_custom in (True, False):
        (x,) = variables([3, -1])
        with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, is_symbolic):
            dr.backward(f(x, is_custom))
        found.append(x.grad.numpy())
    assert np.allclose(found[0], found[1], rtol=1e-12)
