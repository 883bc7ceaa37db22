"""Constructs whose condition is a tensor: what all lanes share comes to differ."""

from __future__ import annotations

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float64, TensorXf64, TensorXu, UInt
from lumijit.runtime.errors import SizeError

SHAPES = [(3, 4), (5, 1), (1, 6), (7,), (2, 1, 3), (1, 1)]
MODES = pytest.mark.parametrize("is_symbolic", [True, False])


def entries(shape):
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape) * 0.7


@pytest.fixture(autouse=True)
def mode(request):
    is_symbolic = request.getfixturevalue("is_symbolic")
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, is_symbolic),
        dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, is_symbolic),
    ):
        yield


def per_entry(function, x):
    """Apply a function of numbers to each entry."""
    found = [function(float(v)) for v in x.ravel()]
    if isinstance(found[0], tuple):
        return [np.reshape(column, x.shape) for column in zip(*found, strict=True)]
    return [np.reshape(found, x.shape)]


def check(function, shape):
    x = entries(shape)
    found = dr.syntax(function)(TensorXf64(x))
    found = found if isinstance(found, tuple) else (found,)
    for value, expected in zip(found, per_entry(function, x), strict=True):
        values = value.numpy() if isinstance(value, dr.ArrayBase) else np.array(value)
        if values.shape != x.shape:
            assert values.size in (1, x.size)  # A flat array's own type.
            values = np.broadcast_to(values, x.size).reshape(x.shape)
        np.testing.assert_allclose(values, expected)


def numbers(x):
    i = 0
    while x < 6:
        x = x + 1
        i += 1
    return x * i, i


def chosen_numbers(x):
    s = 0.5
    if x > 2:
        s = 2.0
    elif x > 1:
        s += 0.25
    return x * s, s


def both_conditions(x):
    i = 0
    while x < 6 and not i > 2:
        x = x + i
        i += 1
    if x > 3 or i < 1:
        x = x * 2
    return x * (i + 1)


def nested(x):
    s = 1.0
    i = 0
    while x < 9:
        if x > 2:
            s = s + 1.0
        k = 0
        while k < i:
            x = x + 0.5
            k += 1
        x = x + s
        i += 1
    return x + s * i


@MODES
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("program", [numbers, chosen_numbers, both_conditions, nested])
def test_numbers_become_tensors_like_the_condition(program, shape, is_symbolic):
    check(program, shape)


@MODES
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [UInt, TensorXu, Float64, TensorXf64])
def test_state_of_one_entry(kind, shape, is_symbolic):
    """Flat arrays keep their type, and tensors get the condition's shape."""

    @dr.syntax
    def vectorized(x):
        i = kind(0)
        while (x < 6) & (i < 4):
            x = x + 1
            x = x + i
            i += 1
        return x, i

    def plain(x):
        i = 0
        while x < 6 and i < 4:
            x = x + 1 + i
            i += 1
        return x, i

    x = entries(shape)
    found, count = vectorized(TensorXf64(x))
    expected, turns = per_entry(plain, x)
    np.testing.assert_allclose(found.numpy(), expected)
    assert type(count) is kind
    is_tensor = kind in (TensorXu, TensorXf64)
    if x.size > 1:
        assert count.shape == (shape if is_tensor else (x.size,))
    np.testing.assert_array_equal(np.ravel(count.numpy()), turns.ravel())


@MODES
def test_what_isnt_changed_is_the_same_object(is_symbolic):
    x, y, kept = TensorXf64(entries((3, 4))), TensorXf64(2.0), [Float64(1)]
    mask = x > 3

    def changed(x, y, kept, i):
        return x + 1, y, kept, i + 1

    def left(*state):
        return state

    _, same, held, number = dr.if_stmt((x, y, kept, 0), mask, changed, left)
    assert same.array is y.array
    assert held[0] is kept[0]
    np.testing.assert_array_equal(number.numpy(), entries((3, 4)) > 3)


@MODES
def test_outside_shapes_broadcast_as_ever(is_symbolic):
    x = TensorXf64(entries((3, 4)))
    with pytest.raises(SizeError, match="broadcast"):
        x + Float64(np.arange(12.0))
    assert (TensorXf64(entries((5, 1))) + Float64(np.arange(5.0))).shape == (5, 5)


@MODES
def test_gradients_by_what_has_one_entry(is_symbolic):
    @dr.syntax
    def f(x, s):
        i = 0
        while x < 6:
            x = x + s * (i + 1)
            i += 1
        return x

    x, s = TensorXf64(entries((3, 4))), Float64(1.5)
    dr.enable_grad(x, s)
    dr.backward(dr.sum(f(x, s), axis=None))
    assert dr.grad(x).shape == (3, 4)
    np.testing.assert_array_equal(dr.grad(x).numpy(), np.ones((3, 4)))
    total = 0
    for v in entries((3, 4)).ravel():
        i = 0
        while v < 6:
            v, i = v + 1.5 * (i + 1), i + 1
            total += i
    assert dr.grad(s)[0] == total
