"""Derivatives of what loops, branches and calls write to arrays."""

from __future__ import annotations

import numpy as np
import pytest

import lumijit as dr
from lumijit import ReduceOp
from lumijit.llvm.ad import Float64 as Float
from lumijit.llvm.ad import UInt32
from lumijit.runtime.errors import DerivativeError

X = Float(0.5, 1.5, -2, 3, 0.25)


def before(x):
    """An array whose entries all depend on the input."""
    return dr.copy(x * x)


@dr.syntax
def sums_in_a_loop(x):
    y, i = before(x), dr.arange(UInt32, 3)
    v, n = dr.gather(Float, x, i), UInt32(0)
    while n < 3:
        dr.scatter_add(y, dr.sin(v), i + (n & 1))
        v *= 1.5
        n += 1
    return y


@dr.syntax
def kahan(x):
    y, errors = before(x), dr.zeros(Float, 5)
    i = dr.arange(UInt32, 3)
    v, n = dr.gather(Float, x, i), UInt32(0)
    while n < 2:
        dr.scatter_add_kahan(y, errors, v * v, i + n)
        n += 1
    return y


@dr.syntax
def loop_in_a_branch(x):
    """What the loop writes depends on what is outside of the branch, too."""
    y, i = before(x), dr.arange(UInt32, 3)
    v, n = dr.gather(Float, x, i), UInt32(0)
    if v > 0:
        while n < 2:
            dr.scatter_add(y, v * v, i + n)
            n += 1
    return y


@dr.syntax
def overwritten(x):
    """Each turn replaces what the one before has written."""
    y, i = before(x), dr.arange(UInt32, 3)
    v, n = dr.gather(Float, x, i), UInt32(0)
    while n < i + 1:
        dr.scatter(y, v * v, i)
        v = dr.sin(v) + n
        n += 1
    return y


@dr.syntax
def constants(x):
    """What isn't tracked replaces what is."""
    y, i, n = before(x), dr.arange(UInt32, 2), UInt32(0)
    while n < 1:
        dr.scatter(y, Float(7), i + n)
        n += 1
    return y


@dr.syntax
def constants_inside(x):
    """A branch that nothing is tracked in replaces what the loop has written."""
    y, i = dr.zeros(Float, 5), dr.arange(UInt32, 2)
    v, n = dr.gather(Float, x, i), UInt32(0)
    while n < 3:
        if n == 1:
            dr.scatter(y, Float(7), i)
        dr.scatter(y, dr.sin(v), i + n)
        v *= 2
        n += 1
    return y


@dr.syntax
def sides(x):
    y, i = before(x), dr.arange(UInt32, 4)
    v = dr.gather(Float, x, i)
    if i < 2:
        dr.scatter(y, v * v, i)
        dr.scatter(y, dr.exp(v), i)
    elif i == 2:
        dr.scatter(y, 3 * v, UInt32(4))
    else:
        dr.scatter(y, Float(1), i)
    return y


@dr.syntax
def around(x):
    """Writes of one body before, in and after a branch in it."""
    y, i = before(x), dr.arange(UInt32, 5)
    v, n = dr.gather(Float, x, i), UInt32(0)
    while n < 3:
        dr.scatter(y, v * 2, i)
        if (i + n) % 2 == 0:
            dr.scatter(y, dr.cos(v), i)
            v = v + 0.5
        if i == 3:
            dr.scatter(y, v * v, i)
        v *= 1.25
        n += 1
    return y


@dr.syntax
def two_arrays(x):
    """A branch in a loop writes to two arrays, which have other derivatives."""
    y, z, i = before(x), before(x + 1), dr.arange(UInt32, 3)
    v, n = dr.gather(Float, x, i), UInt32(0)
    while n < 2:
        if i != n:
            dr.scatter(y, v * v, i)
            dr.scatter_add(z, dr.sin(v), i)
        v *= 2
        n += 1
    return y, z


@dr.syntax
def nested_loops(x):
    y, i, n = before(x), dr.arange(UInt32, 3), UInt32(0)
    v = dr.gather(Float, x, i)
    while n < 2:
        m = UInt32(0)
        while m < n + 1:
            dr.scatter(y, v * (m + 1), i + m)
            v = v * v
            m += 1
        n += 1
    return dr.sum(y * y)


def call(x):
    def squares(y, v, i):
        dr.scatter(y, v * v, i)
        return v

    def sums(y, v, i):
        dr.scatter_add(y, dr.sin(v), i + 2)
        return v * 2

    y, i = before(x), dr.arange(UInt32, 3)
    v = dr.gather(Float, x, i)
    pick = UInt32(0, 0, 1)
    result = dr.switch(pick, [squares, sums], y, v, i)
    return result, y


@dr.syntax
def rounds(x):
    """The results of one loop are what another one reads."""
    y = before(x)
    i = dr.arange(UInt32, 5)
    for _ in range(2):
        z, n = dr.zeros(Float, 5), UInt32(0)
        while n < 2:
            v = dr.gather(Float, y, (i + n) % 5)
            dr.scatter(z, v * v * 0.3, i)
            n += 1
        y = z
    return y


@dr.syntax
def untracked_mixture(x):
    """An array that has no derivatives may be combined in any way."""
    y, total, n = dr.zeros(Float, 5), dr.zeros(Float, 5), UInt32(0)
    i = dr.arange(UInt32, 5)
    while n < 2:
        dr.scatter_reduce(ReduceOp.Max, y, Float(n), i)
        dr.scatter_add(y, Float(1), i)
        total += dr.gather(Float, x, i)
        n += 1
    return y + total


OPERATIONS = (ReduceOp.Mul, ReduceOp.Min, ReduceOp.Max)


def reducing(op):
    """Programs that combine values with entries by one operation."""

    @dr.syntax
    def in_a_loop(x):
        y, i = before(x), dr.arange(UInt32, 3)
        v, n = dr.gather(Float, x, i), UInt32(0)
        while n < 3:
            dr.scatter_reduce(op, y, v, i + (n & 1))
            v = v * 1.5 - 0.3
            n += 1
        return y

    @dr.syntax
    def untracked_array(x):
        """The array begins as numbers; each lane has its own number of turns."""
        y, i = dr.full(Float, 1.3, 7), dr.arange(UInt32, 5)
        v, n = dr.copy(x), UInt32(0)
        while n < i % 3 + 1:
            v = dr.sin(v) * 2
            dr.scatter_reduce(op, y, v * v, i + n)
            n += 1
        return y

    @dr.syntax
    def untracked_values(x):
        y, i, n = before(x), dr.arange(UInt32, 4), UInt32(0)
        while n < 2:
            dr.scatter_reduce(op, y, Float(2.5), i + n)
            n += 1
        return y

    @dr.syntax
    def sides(x):
        y, i = before(x), dr.arange(UInt32, 5)
        v = x + 0.1
        if i < 2:
            dr.scatter_reduce(op, y, v * v, i + 1)
            dr.scatter_reduce(op, y, dr.exp(v), i + 1)
        elif i == 2:
            dr.scatter_reduce(op, y, 3 * v, UInt32(4))
        return y

    @dr.syntax
    def nested(x):
        """A loop in a branch in a loop, with an array for sums besides."""
        y, z, i, n = before(x), before(x + 1), dr.arange(UInt32, 3), UInt32(0)
        v = dr.gather(Float, x, i)
        while n < 2:
            dr.scatter_reduce(op, y, v - 0.7, i + 2)
            if i != n:
                m = UInt32(0)
                while m < n + 1:
                    dr.scatter_reduce(op, y, v * (m + 1), i + m)
                    dr.scatter_add(z, v * v, i)
                    v = dr.cos(v)
                    m += 1
            v = v * 1.25
            n += 1
        return y, z

    def call(x):
        def squares(y, v, i):
            dr.scatter_reduce(op, y, v * v * 0.9, i)
            return v

        @dr.syntax
        def others(y, v, i):
            n = UInt32(0)
            while n < 2:
                dr.scatter_reduce(op, y, dr.sin(v), i + n)
                v *= 0.5
                n += 1
            return v * 2

        y, i = before(x), dr.arange(UInt32, 3)
        v = dr.gather(Float, x, i)
        return dr.switch(UInt32(0, 0, 1), [squares, others], y, v, i), y

    @dr.syntax
    def later_changed(x):
        """The result is changed in place before anybody asks for derivatives."""
        y, i, n = before(x), dr.arange(UInt32, 5), UInt32(0)
        while n < 2:
            dr.scatter_reduce(op, y, dr.gather(Float, x, (i + n) % 5) * 1.1, i)
            n += 1
        dr.eval(y)
        dr.scatter_add(y, x, i)
        dr.scatter(y, Float(3), UInt32(2))
        return y

    @dr.syntax
    def masked(x):
        y, i, n = before(x), dr.arange(UInt32, 5), UInt32(0)
        while n < 2:
            dr.scatter_reduce(op, y, x + 1.5, (i + n) % 5, active=i != n)
            n += 1
        return y

    programs = (
        in_a_loop,
        untracked_array,
        untracked_values,
        sides,
        nested,
        call,
        later_changed,
        masked,
    )
    for program in programs:
        program.__name__ = f"{op.name}_{program.__name__}"
    return programs


SUMS = [sums_in_a_loop, kahan, loop_in_a_branch]
REPLACED = [
    overwritten,
    constants,
    constants_inside,
    sides,
    around,
    two_arrays,
    nested_loops,
    call,
    rounds,
]
REDUCED = [program for op in OPERATIONS for program in reducing(op)]


@dr.syntax
def extremes_beside_replacements(x):
    y, z, i, n = before(x), before(x + 1), dr.arange(UInt32, 3), UInt32(0)
    v = dr.gather(Float, x, i)
    while n < 2:
        dr.scatter_reduce(ReduceOp.Max, y, dr.sin(v) * 3, i + n)
        if i != n:
            dr.scatter(z, v * v, i)
        v = dr.cos(v) * 1.25
        n += 1
    return y, z


PROGRAMS = SUMS + REPLACED + REDUCED
PROGRAMS += [untracked_mixture, extremes_beside_replacements]


#: Some of their lanes replace the same entries in different turns.
COLLIDING = [constants_inside, nested_loops]
in_step = pytest.mark.packets("lanes of a packet write in step")


def cases(programs, colliding):
    """Mark programs whose results depend on the order of lanes and statements."""
    return [pytest.param(p, marks=[in_step] * (p in colliding)) for p in programs]


@pytest.mark.parametrize("program", cases(PROGRAMS, COLLIDING))
def test_derivatives_equal_finite_differences(program) -> None:
    assert dr.gradcheck(program, X)


# Extremes differ from products in one function; all of it is in the first derivative.
TWICE = [p for p in PROGRAMS if not p.__name__.startswith(("Min", "Max"))]


@pytest.mark.parametrize("program", cases([*TWICE, *REDUCED[-3:]], COLLIDING))
def test_forward_derivatives_differentiate_once_more(program) -> None:
    """The tangent of each result, differentiated in forward mode."""

    def tangents(x):
        _, found = dr.jvp(program, (x,), (x * 0 + 1,))
        return found

    assert dr.gradcheck(tangents, X)


def value(program):
    """The sum of the squares of a program's results."""

    def run(x):
        parts = program(x)
        parts = parts if isinstance(parts, tuple) else (parts,)
        return sum((dr.sum(part * part) for part in parts), Float(0))

    return run


DIRECTION = Float(1, -0.5, 2, 0.25, -1)


@pytest.mark.parametrize("program", SUMS + REDUCED[:8] + REDUCED[-3:])
def test_gradients_of_sums_differentiate_forward(program) -> None:
    """Hessian-vector products, against differences of gradients."""

    def gradient(x):
        return dr.value_and_grad(value(program))(x)[1].numpy()

    (found,) = dr.hvp(value(program), (X,), (DIRECTION,))
    step = 1e-5
    change = gradient(X + step * DIRECTION) - gradient(X - step * DIRECTION)
    np.testing.assert_allclose(found.numpy(), change / (2 * step), rtol=1e-5)


@dr.syntax
def mixed(x):
    y, n = before(x), UInt32(0)
    i = dr.arange(UInt32, 3)
    v = dr.gather(Float, x, i)
    while n < 2:
        dr.scatter_add(y, v, i + n)
        dr.scatter(y, v * v, i)
        n += 1
    return y


@in_step
def test_sums_and_replacements_of_one_array_mix() -> None:
    assert dr.gradcheck(mixed, X)


@dr.syntax
def both(x):
    """Which of the two has the last word depends on what was there in between."""
    y, n = before(x), UInt32(0)
    i = dr.arange(UInt32, 3)
    while n < 2:
        dr.scatter_reduce(ReduceOp.Mul, y, dr.gather(Float, x, i), i + n)
        dr.scatter_add(y, dr.gather(Float, x, i), i)
        n += 1
    return y


@pytest.mark.parametrize("differentiate", [dr.forward_to, dr.backward])
def test_mixed_operations_are_refused(differentiate) -> None:
    x = dr.copy(X)
    dr.enable_grad(x)
    y = both(x)
    dr.set_grad(x if differentiate is dr.forward_to else y, 1)
    with pytest.raises(DerivativeError, match=r"in ways \(add, mul\) whose .* use one"):
        differentiate(y)


def test_an_untracked_array_stays_untracked() -> None:
    @dr.syntax
    def program(x):
        y, z, n = dr.zeros(Float, 5), dr.zeros(Float, 5), UInt32(0)
        i, total = dr.arange(UInt32, 5), dr.zeros(Float, 5)
        while n < 2:
            dr.scatter(z, Float(2), i)
            total = total + dr.gather(Float, x, i)
            n += 1
        return y, z, total

    x = dr.copy(X)
    dr.enable_grad(x)
    _, z, total = program(x)
    assert not dr.grad_enabled(z)
    assert dr.grad_enabled(total)


def test_empty_and_masked() -> None:
    x = dr.copy(X)
    dr.enable_grad(x)

    @dr.syntax
    def program(x, active):
        y, n = before(x), UInt32(0)
        i = dr.arange(UInt32, 5)
        while n < 2:
            dr.scatter(y, Float(3), i, active=active)
            n += 1
        return y

    dr.backward(program(x, False))
    np.testing.assert_allclose(x.grad, 2 * X.numpy())
    dr.backward(program(x, dr.arange(UInt32, 5) < 3))
    np.testing.assert_allclose(x.grad.numpy(), 2 * X.numpy() * [1, 1, 1, 2, 2])


@dr.syntax
def read_and_summed(x):
    """The loop's result and what the loop reads have the same derivative."""
    total, i, n = dr.zeros(Float, 5), dr.arange(UInt32, 5), UInt32(0)
    while n < 2:
        total += dr.gather(Float, x, (i + n) % 5) ** 2
        n += 1
    return total + x


@dr.syntax
def copies(x):
    """Arrays that are written to begin as what the loop reads."""
    y, z, i, n = dr.copy(x), dr.copy(x), dr.arange(UInt32, 5), UInt32(0)
    while n < 2:
        v = dr.gather(Float, x, (i + n) % 5)
        dr.scatter(y, v * v, i)
        dr.scatter_add(z, v * v * v, i)
        n += 1
    return y + z + x


@pytest.mark.parametrize("program", [read_and_summed, copies])
def test_what_is_read_and_written_may_have_one_derivative(program) -> None:
    assert dr.gradcheck(program, X)


@pytest.mark.parametrize("op", OPERATIONS)
def test_what_is_computed_again_is_the_same_number(op) -> None:
    """The kernel of the derivative has the cosine beside the sine."""

    def program(x):
        y = dr.full(Float, 0.1, 5)
        dr.scatter_reduce(op, y, 2 * dr.sin(x) ** 2, dr.arange(UInt32, 5))
        return y

    assert dr.gradcheck(program, X)


@pytest.mark.parametrize("op", OPERATIONS)
def test_an_array_may_begin_as_the_values_that_a_region_reads(op) -> None:
    @dr.syntax
    def program(x):
        y, n = Float(x), UInt32(0)
        while n < 3:
            if x > 0:
                value = x * dr.sin(x + 0.3 * Float(n))
                dr.scatter_reduce(op, y, value, dr.arange(UInt32, 5))
            n += 1
        return y

    assert dr.gradcheck(program, X)


@pytest.mark.parametrize("op", OPERATIONS)
def test_a_reduced_array_may_change_afterwards(op) -> None:
    def program(x):
        y = before(x)
        v = dr.gather(Float, x, UInt32(1, 2, 3))
        dr.scatter_reduce(op, y, v * 2, UInt32(0, 1, 1))
        dr.eval(y)
        dr.scatter_add(y, x, dr.arange(UInt32, 5))
        return y

    assert dr.gradcheck(program, X)


def test_gradients_are_read_one_after_the_other() -> None:
    """What the derivative finds in memory can't be had once more for the second."""

    @dr.syntax
    def program(x, y):
        image, n = y * 1, UInt32(0)
        while n < 2:
            if x > 0.5:
                dr.scatter(image, x * x * y, dr.arange(UInt32, 3))
            n += 1
        return image * image

    x, y = Float(1, 0.2, 3), Float(1, 2, -1)
    dr.enable_grad(x, y)
    dr.backward(program(x, y))
    np.testing.assert_allclose(x.grad, [4, 0, 108])
    np.testing.assert_allclose(y.grad, [2, 4, -162])
