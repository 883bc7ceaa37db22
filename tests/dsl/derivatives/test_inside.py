"""Traversals inside of control flow: what lies outside gets its gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Bool, UInt
from lumijit.llvm.ad import Float64 as Float
from lumijit.runtime.errors import DerivativeError


@pytest.fixture(params=[True, False], ids=["symbolic", "evaluated"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, request.param),
        dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, request.param),
        dr.scoped_set_flag(dr.JitFlag.SymbolicCalls, request.param),
    ):
        yield


@dr.syntax
def differentiate_turns(theta, x):
    i = UInt(0)
    while i < 4:
        dr.backward(dr.sin(theta * x * Float(i + 1)))
        i += 1


def test_a_scalar_outside_gets_the_sum_over_elements_and_turns() -> None:
    start = Float(0.5)
    dr.enable_grad(start)
    theta = start * start
    x = np.array([1.0, 2.0, 3.0])
    differentiate_turns(theta, Float(x))
    slope = sum((np.cos(0.25 * x * k) * x * k).sum() for k in range(1, 5))
    np.testing.assert_allclose(start.grad, [slope * 2 * 0.5])


@dr.syntax
def differentiate_reads(texture):
    i, k = UInt(0), dr.arange(UInt, 3)
    while i < 4:
        value = dr.gather(Float, texture, (k + i) % 5)
        dr.backward(value * value)
        i += 1


def test_an_array_that_is_read_by_index() -> None:
    texture = Float(1, 2, 3, 4, 5)
    dr.enable_grad(texture)
    differentiate_reads(texture)
    expected = np.zeros(5)
    for i in range(4):
        for k in range(3):
            expected[(k + i) % 5] += 2 * ((k + i) % 5 + 1)
    np.testing.assert_allclose(texture.grad, expected)


@dr.syntax
def differentiate_changing(theta, x):
    i = UInt(0)
    while i < 3:
        dr.backward(theta * x)
        x = x * 0.5
        i += 1


def test_a_variable_that_changes_and_depends_on_nothing_tracked() -> None:
    theta = Float(2)
    dr.enable_grad(theta)
    differentiate_changing(theta, Float(1, 10))
    np.testing.assert_allclose(theta.grad, [11 * 1.75])


def test_callables_and_branches() -> None:
    theta = Float(2)
    dr.enable_grad(theta)

    def linear(x: Float) -> Float:
        dr.backward(theta * x)
        return x

    def square(x: Float) -> Float:
        dr.backward(theta * theta * x)
        return x

    dr.switch(UInt(0, 1, 0), [linear, square], Float(1, 2, 3))
    np.testing.assert_allclose(theta.grad, [1 + 2 * 2 * 2 + 3])


@dr.syntax
def slopes(p):
    i, total = UInt(0), Float(0)
    while i < 3:
        q = dr.detach(p) * Float(i + 1)
        dr.enable_grad(q)
        value = q * q
        dr.forward(q)
        total += dr.grad(value)
        i += 1
    return total


def test_forward_mode_of_a_turn() -> None:
    np.testing.assert_allclose(slopes(Float(1, 2)), [12, 24])


class Replay(dr.CustomOp):
    """Differentiates a loop turn by turn, as radiative back-propagation does."""

    def eval(self, texture, k):
        self.texture, self.k = texture, k
        return self.run(texture, None)

    def run(self, texture, by):
        return shade(texture, self.k, by)

    def backward(self):
        texture = dr.detach(self.texture)
        dr.enable_grad(texture)
        self.run(texture, self.grad_out())
        self.set_grad_in("texture", texture.grad)


@dr.syntax
def shade(texture, k, by):
    i, light = UInt(0), Float(0)
    while i < 5:
        value = dr.gather(Float, texture, (i * 7 + k) % UInt(4))
        light += value * value
        if dr.hint(by is not None, mode="scalar"):
            dr.backward(by * value * value)
        i += 1
    return light


def test_replaying_a_loop_gives_its_gradients() -> None:
    gradients = []
    for is_replayed in (True, False):
        texture, k = Float(1, 2, 3, 4), dr.arange(UInt, 6)
        dr.enable_grad(texture)
        wide = texture * 2
        light = dr.custom(Replay, wide, k) if is_replayed else shade(wide, k, None)
        dr.backward(dr.sum(light * light))
        gradients.append(texture.grad.numpy())
    np.testing.assert_allclose(gradients[0], gradients[1])


@dr.syntax
def differentiate_powers(theta, x):
    i = UInt(0)
    while i < 3:
        dr.backward(theta * x)
        x = x * theta
        i += 1


def test_a_gradient_that_the_loop_would_lose_is_refused() -> None:
    theta = Float(2)
    dr.enable_grad(theta)
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, True),
        pytest.raises(DerivativeError, match="loop variable that the loop changes"),
    ):
        differentiate_powers(theta, Float(1, 10))


@dr.syntax
def branch_in_loop(theta, x):
    i = UInt(0)
    while i < 4:
        q = theta * x * Float(i + 1)
        if x > 1.5:
            dr.backward(q * q)
        i += 1


@dr.syntax
def several_times(theta, x):
    i = UInt(0)
    while i < 3:
        q = dr.sin(theta * x) * Float(i + 1)
        if x > 1.5:
            dr.backward(q * q)
        elif x > 0.5:
            dr.backward(q * theta)
        dr.backward(theta * x)
        if x < 2.5:
            dr.backward(q * q * q)
        i += 1


@dr.syntax
def three_deep(theta, x):
    """An array that is read by index, values of both loops, and one of none."""
    i = UInt(0)
    while i < 3:
        q = dr.gather(Float, theta, i % 2) * x
        j = UInt(0)
        while j < i + 1:
            r = q * dr.gather(Float, theta, UInt(0))
            if x > 1.5:
                dr.backward(r * q * Float(j + 1))
            j += 1
        i += 1


@dr.syntax
def arguments_of_loops(theta, x):
    """What the loops leave as it is counts as outside of both."""
    i = UInt(0)
    t = theta * 1
    while i < 3:
        j = UInt(0)
        while j < i + 1:
            if x > 1.5:
                dr.backward(t * t * x)
            j += 1
        i += 1


def in_callables(theta, x):
    @dr.syntax
    def sines(x):
        q = dr.sin(theta * x)
        if x > 1.5:
            dr.backward(q * q)
        return x

    @dr.syntax
    def cosines(x):
        q, k = dr.cos(theta * x), UInt(0)
        while k < 2:
            dr.backward(q * q)
            k += 1
        return x

    dr.switch(dr.arange(UInt, len(x)) % 2, [sines, cosines], x)


@dr.syntax
def from_outside_of_a_branch(theta, x):
    q = theta * x
    if x > 1.5:
        dr.backward(q * q)


@dr.syntax
def until_a_lane_leaves(theta, x):
    q, i = theta * x, UInt(0)
    while i < UInt(x):
        dr.backward(q * q)
        i += 1


X = np.array([1.0, 2.0, 3.0])
EXPECTED = {
    branch_in_loop: lambda a: sum((a * X[1:] * k) ** 2 for k in range(1, 5)),
    several_times: lambda a: sum(
        [k**2 * np.sin(a * x) ** 2 for k in (1, 2, 3) for x in (2, 3)]
        + [k * np.sin(a) * a for k in (1, 2, 3)]
        + [k**3 * np.sin(a * x) ** 3 for k in (1, 2, 3) for x in (1, 2)]
        + [3 * a * x for x in (1, 2, 3)]
    ),
    three_deep: lambda a: sum(
        (a * x) ** 2 * a * (j + 1)
        for i in range(3)
        for j in range(i + 1)
        for x in X[1:]
    ),
    arguments_of_loops: lambda a: 6 * a * a * X[1:],
    in_callables: lambda a: np.append(np.sin(a * 3) ** 2, 2 * np.cos(a * 2) ** 2),
    from_outside_of_a_branch: lambda a: (a * X[1:]) ** 2,
    until_a_lane_leaves: lambda a: X * (a * X) ** 2,
}


@pytest.mark.parametrize("program", EXPECTED)
def test_values_of_outer_regions_pass_gradients_on(program) -> None:
    """Their own region does, where the inner ones are over."""
    start = Float(0.5, 0.5) if program is three_deep else Float(0.5)
    dr.enable_grad(start)
    program(start * start, Float(X))
    total = EXPECTED[program]
    step = 1e-6
    slope = np.sum(total(0.25 + step)) - np.sum(total(0.25 - step))
    found = float(dr.sum(dr.grad(start))[0])
    np.testing.assert_allclose(found, slope / (2 * step), rtol=1e-7)


def test_gradients_of_values_of_a_region_can_be_read() -> None:
    @dr.syntax
    def program(theta, x):
        i, total = UInt(0), Float(0)
        while i < 2:
            q = dr.detach(x) * Float(i + 1)
            dr.enable_grad(q)
            if x > 1.5:
                dr.backward(q * q)
            total += dr.grad(q)
            i += 1
        return total

    np.testing.assert_allclose(program(Float(1), Float(X)), [0, 12, 18])


def test_local_buffers_outside_are_refused() -> None:
    @dr.syntax
    def program(theta, x):
        buffer = dr.alloc_local(Float, 2, value=Float(0))
        buffer[0] = theta * x
        if x > 1.5:
            dr.backward(buffer[UInt(x) % 1] * x)

    theta = Float(2)
    dr.enable_grad(theta)
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, True),
        pytest.raises(DerivativeError, match="to a local buffer outside"),
    ):
        program(theta, Float(X))


def test_gradients_outside_are_no_beginning_inside() -> None:
    """A branch that sets one and has it propagated got zeros."""

    @dr.syntax
    def program(x: Float, y: Float) -> Float:
        if x > 1:
            dr.set_grad(y, 1)
            dr.backward_to(x)
        return x

    x = Float(X)
    dr.enable_grad(x)
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, True),
        pytest.raises(DerivativeError, match="can only be added to"),
    ):
        program(x, x * x)


def test_what_had_gradients_before_is_no_start() -> None:
    x = Float(X)
    dr.enable_grad(x)
    y = x * x
    dr.set_grad(y, 1)

    def go_back(i: UInt) -> tuple[UInt]:
        dr.backward(y * 2, dr.ADFlag.ClearVertices)
        return (i + 1,)

    dr.while_loop((UInt(0),), lambda i: i < 3, go_back, mode="symbolic")
    np.testing.assert_allclose(dr.grad(x), (1 + 6) * 2 * X)


@pytest.mark.parametrize("is_other", [False, True], ids=["alone", "beside_others"])
def test_what_is_made_of_loop_variables_is_a_variable_of_its_own(
    is_other: bool,
) -> None:
    """Its gradient was 0: it counted as computed of the loop's variable."""

    def slope(x: Float) -> Float:
        x = Float(x)
        dr.enable_grad(x)
        dr.backward(x * x * x)
        return x.grad

    @dr.syntax
    def program(x: Float, p: Float) -> tuple[Float, Float]:
        i = UInt(0)
        while i < 3:
            x += 0.1 * p
            # Each call has a variable of its own.
            p -= 0.1 * slope(x) + 0.05 * slope(x + p)
            if p > 0.2:
                p -= 0.01 * slope(x * 2)
            i += 1
        return x, p

    if is_other:
        other = Float(1)
        dr.enable_grad(other)
    x, p = program(Float(0.3, 0.4), Float(0.5, 0.6))
    for k in range(2):
        u, v = [0.3, 0.4][k], [0.5, 0.6][k]
        for _ in range(3):
            u += 0.1 * v
            v -= 0.1 * 3 * u**2 + 0.05 * 3 * (u + v) ** 2
            if v > 0.2:
                v -= 0.01 * 3 * (2 * u) ** 2
        np.testing.assert_allclose([x[k], p[k]], [u, v], rtol=1e-12)


def test_gradients_of_such_variables_add_up_until_they_are_cleared() -> None:
    @dr.syntax
    def program(x: Float) -> tuple[Float, Float]:
        i, first, second = UInt(0), Float(0), Float(0)
        while i < 2:
            x += 1
            y = x * 2
            dr.enable_grad(y)
            dr.backward(y * y)
            dr.backward(3 * y)
            first = y.grad
            dr.clear_grad(y)
            dr.backward(5 * y)
            second = y.grad
            i += 1
        return first, second

    first, second = program(Float(1, 2))
    np.testing.assert_allclose(first, [2 * 6 + 3, 2 * 8 + 3])
    np.testing.assert_allclose(second, [5, 5])


def test_such_variables_in_forward_mode() -> None:
    @dr.syntax
    def program(x: Float) -> Float:
        i, total = UInt(0), Float(0)
        while i < 2:
            x += 1
            y = x * 2
            dr.enable_grad(y)
            z = y * y
            dr.forward(y)
            total += z.grad
            i += 1
        return total

    np.testing.assert_allclose(program(Float(1, 2)), [2 * 4 + 2 * 6, 2 * 6 + 2 * 8])


def test_derivatives_of_the_loop_go_through_such_variables() -> None:
    """What the loop's state depends on isn't known until its end."""

    @dr.syntax
    def program(theta: Float, x: Float) -> Float:
        i = UInt(0)
        while i < 3:
            x = x * theta
            y = x + 1
            dr.enable_grad(y)
            x = y * y
            i += 1
        return x

    def plain(theta: float) -> float:
        x = 0.5
        for _ in range(3):
            x = (x * theta + 1) ** 2
        return x

    theta = Float(0.7)
    dr.enable_grad(theta)
    result = program(theta, Float(0.5))
    dr.backward(result)
    h = 1e-6
    slope = (plain(0.7 + h) - plain(0.7 - h)) / (2 * h)
    np.testing.assert_allclose(theta.grad, [slope], rtol=1e-7)


def test_such_variables_in_nested_loops() -> None:
    """Whether the outer loop's variable is tracked, its end tells."""

    @dr.syntax
    def program(x: Float) -> Float:
        i = UInt(0)
        while i < 2:
            j = UInt(0)
            while j < 2:
                y = x * 2
                dr.enable_grad(y)
                dr.backward(y * y)
                x = x - 0.1 * y.grad
                j += 1
            i += 1
        return x

    other = Float(1)
    dr.enable_grad(other)
    np.testing.assert_allclose(program(Float(1, 2)), [0.6**4, 2 * 0.6**4])


@pytest.mark.parametrize("give", [dr.set_grad, dr.accum_grad])
def test_gradients_are_given_to_elements_that_take_part(give) -> None:
    @dr.syntax
    def propagate(x: Float) -> None:
        if x > 0:
            y = x * x
            give(y, 3)
            dr.enqueue(dr.ADMode.Backward, y)
            dr.traverse(dr.ADMode.Backward)

    x = Float(1, -2, 3, -4)
    dr.enable_grad(x)
    propagate(x)
    np.testing.assert_array_equal(x.grad, [6, 0, 18, 0])

    @dr.syntax
    def turns(x: Float, count: UInt) -> None:
        i = UInt(0)
        while i < count:
            y = x * x
            give(y, 3)
            dr.enqueue(dr.ADMode.Backward, y)
            dr.traverse(dr.ADMode.Backward)
            i += 1

    dr.clear_grad(x)
    turns(x, UInt(0, 1, 2, 3))
    np.testing.assert_array_equal(x.grad, [0, -12, 36, -72])


@pytest.mark.parametrize("index", [[0, 0, 1], [1, 0, 1], [0, 1, 2]])
@pytest.mark.parametrize("is_forward", [False, True])
def test_functions_that_one_element_calls(index: list[int], is_forward: bool) -> None:
    """What one element has isn't a write of one entry that all elements share."""

    @dr.syntax
    def differentiate(x, index):
        found, i = Float(0, 0, 0), UInt(0)
        while i < 1:
            q = dr.detach(x)
            dr.enable_grad(q)
            value = dr.switch(index, [lambda q: q * q, dr.sin, lambda q: 3 * q], q)
            if dr.hint(is_forward, mode="scalar"):
                dr.forward(q)
                found = dr.grad(value)
            else:
                dr.backward(value)
                found = dr.grad(q)
            i += 1
        return found

    x = np.array([0.5, 1.5, 2])
    slopes = np.choose(index, [2 * x, np.cos(x), np.full(3, 3.0)])
    np.testing.assert_allclose(differentiate(Float(x), UInt(index)), slopes)


@pytest.mark.parametrize("index", [[0, 1], [7, 9], [0]])
@pytest.mark.parametrize("first", [lambda x, _: x * x, lambda x, _: Float(2)])
def test_functions_that_no_element_calls(index: list[int], first: Any) -> None:
    """What they return is tracked wherever there are elements."""
    x = Float(1, 2)
    dr.enable_grad(x)
    functions = [first, lambda x, _: 2 * x]
    is_called = Bool(max(index) > 1)
    number = UInt(index)
    dr.make_opaque(number, is_called)
    y = dr.switch(number, functions, x, is_called)
    dr.backward(y)
    assert list(x.grad) == [0, 0]
    assert set(y) == {0}


def test_functions_that_no_element_calls_in_a_branch() -> None:
    @dr.syntax
    def function(x, weight):
        if x > 5:
            found = dr.switch(UInt(0, 1), [lambda x: x * weight, lambda x: x * 2], x)
            dr.backward(found)

    x, weight = Float(1, 2), Float(3)
    dr.enable_grad(x, weight)
    function(x, weight)
    assert list(x.grad) == [0, 0]
    assert list(weight.grad) == [0]
