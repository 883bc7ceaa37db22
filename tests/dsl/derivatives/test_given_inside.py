"""Gradients that control flow gives to arrays from outside, reads and clears."""

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float, UInt
from lumijit.runtime.errors import DerivativeError, SizeError

X = [1.0, -2.0, 3.0]
GIVEN = [7.0, 8.0, 9.0]
BOTH = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])


def variable(given: list[float] | None = None) -> Float:
    x = Float(X)
    dr.enable_grad(x)
    if given is not None:
        dr.set_grad(x, given)
    return x


def in_branch(mode, x, function):
    """Call a function where x is positive."""

    @dr.syntax
    def program(x):
        if dr.hint(x > 0, mode=mode):
            function(x)

    program(x)


def in_loop(mode, x, function, is_state=True):
    """Call a function in two turns of a loop."""

    def body(i, y):
        function(y if is_state else x)
        return i + 1, y

    state = UInt(0), x if is_state else UInt(0)
    dr.while_loop(state, lambda i, _: i < 2, body, mode=mode)


def refused(match="can only be added to"):
    return pytest.raises(DerivativeError, match=match)


@BOTH
def test_gradients_are_added_where_elements_take_part(mode) -> None:
    x = variable(GIVEN)
    in_branch(mode, x, lambda x: dr.accum_grad(x, 1))
    np.testing.assert_array_equal(x.grad, [8, 8, 10])


@BOTH
@pytest.mark.parametrize("is_state", [False, True])
def test_gradients_are_added_in_each_turn(mode, is_state) -> None:
    x = variable(GIVEN)
    weight = Float(1, 2, 3)
    in_loop(mode, x, lambda x: dr.accum_grad(x, weight), is_state)
    np.testing.assert_array_equal(x.grad, [9, 12, 15])


@BOTH
def test_gradients_are_added_in_calls(mode) -> None:
    x = variable(GIVEN)

    def first(y):
        dr.accum_grad(x, 10)
        return y

    def second(y):
        return y * 2

    dr.switch(UInt(0, 1, 0), [first, second], Float(1, 2, 3), mode=mode)
    np.testing.assert_array_equal(x.grad, [17, 8, 19])


@BOTH
@pytest.mark.parametrize("index", [[0, 1, 0], [0, 1, 1], [0, 0, 0], [1, 1, 1]])
def test_arrays_of_all_elements_in_calls_for_some(mode, index) -> None:
    """A function that one element calls gave the gradient to all three."""
    x = variable(GIVEN)

    def given(y: Float) -> Float:
        dr.accum_grad(x, 10)
        return y

    dr.switch(UInt(index), [given, lambda y: y * 2], Float(1, 2, 3), mode=mode)
    np.testing.assert_array_equal(x.grad, np.where(index, GIVEN, np.add(GIVEN, 10)))


@BOTH
def test_each_element_adds_to_an_array_of_one_entry(mode) -> None:
    """In evaluated mode, one of them did."""
    one = Float(1)
    dr.enable_grad(one)
    in_branch(mode, Float(X), lambda x: dr.accum_grad(one, 2))
    np.testing.assert_array_equal(one.grad, [4])


@BOTH
def test_arrays_of_other_sizes_are_refused(mode) -> None:
    """All of their elements got the gradient."""
    four = Float(1, 2, 3, 4)
    dr.enable_grad(four)
    with pytest.raises(SizeError):
        in_branch(mode, Float(X), lambda x: dr.accum_grad(four, 2))
    one = Float(1)
    dr.enable_grad(one)
    for array in (four, one):
        with pytest.raises((SizeError, DerivativeError)):
            in_branch(mode, Float(X), lambda x, array=array: dr.set_grad(array, 1))
        assert not array.grad.numpy().any()


def test_setting_is_for_elements_that_take_part_or_refused() -> None:
    x = variable(GIVEN)
    in_branch("evaluated", x, lambda x: dr.set_grad(x, 1))
    np.testing.assert_array_equal(x.grad, [1, 8, 1])
    with refused():
        in_branch("symbolic", x, lambda x: dr.set_grad(x, 1))
    with refused():
        in_loop("symbolic", x, lambda x: dr.set_grad(x, 1))
    np.testing.assert_array_equal(x.grad, [1, 8, 1])


def test_clearing_is_for_elements_that_take_part_or_refused() -> None:
    x = variable(GIVEN)
    in_branch("evaluated", x, dr.clear_grad)
    np.testing.assert_array_equal(x.grad, [0, 8, 0])
    for construct in (in_branch, in_loop):
        with refused():
            construct("symbolic", x, dr.clear_grad)
    np.testing.assert_array_equal(x.grad, [0, 8, 0])
    for construct in (in_branch, in_loop):
        construct("symbolic", variable(), dr.clear_grad)


def test_what_is_computed_of_others_gets_none_inside() -> None:
    x = variable()
    y = x * x
    for construct in (in_branch, in_loop):
        with refused("was computed of others"):
            construct("symbolic", y, lambda y: dr.accum_grad(y, 1))
    np.testing.assert_array_equal(y.grad, [0, 0, 0])


@BOTH
def test_gradients_are_read(mode) -> None:
    out = dr.zeros(Float, 3)
    x = variable(GIVEN)

    def read(x):
        nonlocal out
        dr.scatter_add(out, dr.grad(x), dr.arange(UInt, 3))

    in_branch(mode, x, read)
    in_loop(mode, x, read)
    np.testing.assert_array_equal(out, [21, 16, 27])


@BOTH
def test_gradients_of_one_construct_are_read_in_the_next(mode) -> None:
    """It read those before the former."""
    out = dr.zeros(Float, 3)
    x = variable()
    in_branch(mode, x, lambda x: dr.backward(x * x))
    in_loop(mode, x, lambda x: dr.scatter_add(out, dr.grad(x), dr.arange(UInt, 3)))
    np.testing.assert_array_equal(out, [4, 0, 12])


def test_a_gradient_that_the_construct_adds_to_is_not_read_in_it() -> None:
    """It was that from before the construct, without those of earlier turns."""
    x = variable()

    def both(x):
        dr.backward(x * x)
        dr.grad(x)

    for construct in (in_branch, in_loop):
        with refused("isn't known before it is over"):
            construct("symbolic", x, both)
    out = dr.zeros(Float, 3)

    def total(x):
        dr.backward(x * x)
        dr.scatter_add(out, dr.grad(x), dr.arange(UInt, 3))

    in_loop("evaluated", x, total)
    np.testing.assert_array_equal(out, [6, -12, 18])


def test_the_gradient_of_a_variable_that_changes_is_not_read() -> None:
    """It was 0 in all turns."""
    x = variable(GIVEN)
    with refused("or the body reads that gradient"):
        dr.while_loop(
            (UInt(0), x, dr.zeros(Float, 3)),
            lambda i, *_: i < 2,
            lambda i, x, out: (i + 1, x * 2, out + dr.grad(x)),
            mode="symbolic",
        )


@BOTH
def test_forward_mode_begins_with_one_whatever_there_was(mode) -> None:
    """In a loop, it began with the gradient from before."""

    def forward(x):
        y = x * x
        dr.forward(x)
        dr.scatter(out, dr.grad(y), dr.arange(UInt, 3))

    for construct, expected in ((in_branch, [2, 0, 6]), (in_loop, [2, -4, 6])):
        out = dr.zeros(Float, 3)
        x = variable()
        construct(mode, x, forward)
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(x.grad, [0, 0, 0])
        x = variable(GIVEN)
        if mode == "symbolic":
            with refused():
                construct(mode, x, forward)
            np.testing.assert_array_equal(x.grad, GIVEN)
            continue
        out = dr.zeros(Float, 3)
        construct(mode, x, forward)
        np.testing.assert_array_equal(out, expected)
    in_branch("evaluated", x := variable(GIVEN), forward)
    np.testing.assert_array_equal(x.grad, [0, 8, 0])


@BOTH
def test_forward_mode_goes_on_from_gradients_outside(mode) -> None:
    out = dr.zeros(Float, 3)

    def forward(x):
        y = x * x
        gradient = dr.forward_to(y, flags=dr.ADFlag.ClearNone)
        dr.scatter_add(out, gradient, dr.arange(UInt, 3))

    in_loop(mode, variable(GIVEN), forward)
    np.testing.assert_array_equal(out, [28, -64, 108])


@BOTH
@pytest.mark.parametrize("is_state", [True, False])
@pytest.mark.parametrize("has_arrived", [True, False])
def test_forward_mode_goes_on_from_what_was_computed_outside(
    mode, is_state, has_arrived
) -> None:
    out = dr.zeros(Float, 3)

    def forward(y):
        gradient = dr.forward_to(y * y, flags=dr.ADFlag.ClearInterior)
        dr.scatter_add(out, gradient, dr.arange(UInt, 3))

    for construct in (in_branch, in_loop):
        x = variable()
        y = x + 0
        if has_arrived:
            dr.forward(x, flags=dr.ADFlag.ClearEdges)
        else:
            dr.set_grad(x, 1)
        out = dr.zeros(Float, 3)
        if construct is in_loop:
            in_loop(mode, y, forward, is_state)
            expected = [4, -8, 12]
        else:
            in_branch(mode, y, forward)
            expected = [2, 0, 6]
        np.testing.assert_array_equal(out, expected)


def test_forward_mode_does_not_miss_what_was_added_inside() -> None:
    def forward(x):
        y = x * x
        dr.accum_grad(x, 1)
        dr.forward_to(y)

    with refused("begins at a variable from outside"):
        in_loop("symbolic", variable(), forward)


def test_a_start_that_would_stay_is_refused() -> None:
    """All elements had it afterwards, also those of the other side."""
    x = variable()

    def forward(x):
        y = x * x
        dr.forward(x, dr.ADFlag.ClearNone)
        return y

    with refused():
        in_branch("symbolic", x, forward)
    in_branch("evaluated", x, forward)
    np.testing.assert_array_equal(x.grad, [1, 0, 1])
