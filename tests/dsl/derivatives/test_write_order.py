"""Which values are left where regions replace entries: second derivatives, mixtures."""

from __future__ import annotations

import numpy as np
import pytest

import lumijit as dr
from lumijit import ReduceOp
from lumijit.llvm.ad import Float64 as Float
from lumijit.llvm.ad import UInt32
from lumijit.runtime.errors import DerivativeError
from tests.dsl.derivatives import test_writes as writes
from tests.dsl.derivatives.test_writes import (
    DIRECTION,
    X,
    before,
    cases,
    in_step,
    value,
)

FLAGS = (
    dr.JitFlag.SymbolicLoops
    | dr.JitFlag.SymbolicConditionals
    | dr.JitFlag.SymbolicCalls
)


@dr.syntax
def jumps(x):
    """Each lane leaves the loop, and skips writes, on its own."""
    y, i, n = before(x), dr.arange(UInt32, 5), UInt32(0)
    v = dr.copy(x)
    while n < 6:
        n += 1
        v = dr.sin(v) + 0.2
        if n == i:
            continue
        dr.scatter(y, v * v, i)
        if v * n > 2.5:
            break
        dr.scatter_add(y, v * x, i)
    return y


@dr.syntax
def never_entered(x):
    y, i, n = before(x), dr.arange(UInt32, 5), UInt32(0)
    while (i > 7) & (n < 3):
        dr.scatter(y, x * x * x, i)
        n += 1
    return y


@dr.syntax
def only_constants_in_a_branch(x):
    """The branch counts, though its derivative has nothing else to do."""
    y, i, n = before(x), dr.arange(UInt32, 1), UInt32(0)
    v = dr.gather(Float, x, i)
    while n < 2:
        if n == 1:
            dr.scatter(y, Float(7), i)
        dr.scatter(y, dr.sin(v), i + n)
        n += 1
    return y


@dr.syntax
def only_constants_in_a_loop(x):
    y, i, n = before(x), dr.arange(UInt32, 5), UInt32(0)
    v = dr.copy(x)
    while n < 3:
        dr.scatter(y, dr.sin(v), i)
        v = v * 1.5
        m = UInt32(0)
        while (m < i) & (n == i):
            dr.scatter(y, Float(7), i)
            m += 1
        n += 1
    return y


@dr.syntax
def calls_in_a_loop(x):
    """The callables write a different number of times; some lanes call none."""

    def once(y, v, i):
        dr.scatter(y, v * v, i)
        return v * 1.5

    def twice(y, v, i):
        dr.scatter(y, dr.sin(v), i)
        dr.scatter_add(y, v * v, i)
        return v - 0.5

    def constant(y, v, i):
        dr.scatter(y, Float(3), i)
        return v * 1

    y, i, n = before(x), dr.arange(UInt32, 5), UInt32(0)
    v = dr.copy(x)
    while n < 3:
        if i != n:
            v += dr.switch((i + n) % 3, [once, twice, constant], y, v, i)
        n += 1
    return y, v


@dr.syntax
def table(x):
    """Local memory beside writes."""
    y, i, n = before(x), dr.arange(UInt32, 5), UInt32(0)
    local = dr.alloc_local(Float, 3, value=Float(0.5))
    while n < 5:
        local[n % 3] = local[(n + 1) % 3] * x + 0.3
        dr.scatter(y, local[n % 3] * x, (i + n) % 5)
        n += 1
    return y


REPLACED = [
    *writes.REPLACED,
    writes.mixed,
    jumps,
    never_entered,
    only_constants_in_a_branch,
    only_constants_in_a_loop,
    calls_in_a_loop,
]


def mixing(op):
    """Programs that replace entries of an array and reduce into it."""

    @dr.syntax
    def in_a_loop(x):
        y, i, n = before(x), dr.arange(UInt32, 5), UInt32(0)
        v = dr.copy(x)
        while n < 4:
            dr.scatter_reduce(op, y, v * 1.2, i)
            v = dr.cos(v) + 0.1
            if (i + n) % 3 == 0:
                dr.scatter(y, v * x, i)
            n += 1
        return y

    @dr.syntax
    def straight(x):
        y, i = before(x), dr.arange(UInt32, 5)
        if x > 0:
            dr.scatter_reduce(op, y, x - 0.3, i)
            dr.scatter(y, dr.sin(x), i, active=i < 3)
            dr.scatter_reduce(op, y, x * 0.7 + 0.1, i)
            dr.scatter(y, Float(2), i, active=i == 4)
        return y

    @dr.syntax
    def many_lanes(x):
        """Entry 0 is reduced into by all, others are replaced by one."""
        y, i, n = dr.full(Float, 0.5, 8), dr.arange(UInt32, 5), UInt32(0)
        while n < 2:
            dr.scatter_reduce(op, y, x + n, dr.zeros(UInt32, 5))
            dr.scatter(y, x * x, i + 1)
            dr.scatter_reduce(op, y, x * 1.4 + 0.3, i + 1)
            n += 1
        return y

    programs = in_a_loop, straight, many_lanes
    for program in programs:
        program.__name__ = f"{op.name}_{program.__name__}"
    return programs


MIXED = [program for op in writes.OPERATIONS for program in mixing(op)]
COLLIDING = [*writes.COLLIDING, writes.mixed, table]


@pytest.mark.parametrize("is_symbolic", [True, False])
@pytest.mark.parametrize("program", cases([*REPLACED[10:], table, *MIXED], COLLIDING))
def test_derivatives_equal_finite_differences(program, is_symbolic) -> None:
    with dr.scoped_set_flag(FLAGS, is_symbolic):
        assert dr.gradcheck(program, X)


def forward_over_reverse(program):
    return dr.hvp(value(program), (X,), (DIRECTION,))[0]


def reverse_over_reverse(program):
    gradient = dr.value_and_grad(value(program))
    return dr.vjp(lambda x: gradient(x)[1], X)[1](DIRECTION)[0]


def reverse_over_forward(program):
    def tangent(x):
        return dr.jvp(value(program), (x,), (DIRECTION,))[1]

    return dr.vjp(tangent, X)[1](1)[0]


WAYS = [forward_over_reverse, reverse_over_reverse]


def change_of_gradient(program):
    """How the gradient changes along the direction, by differences."""

    def gradient(x):
        return dr.value_and_grad(value(program))(x)[1].numpy()

    step = 1e-5
    ahead, behind = (gradient(X + s * DIRECTION) for s in (step, -step))
    return (ahead - behind) / (2 * step)


@pytest.mark.parametrize("program", cases([*REPLACED, *MIXED], COLLIDING))
def test_second_derivatives(program) -> None:
    expected = change_of_gradient(program)
    for way in WAYS:
        np.testing.assert_allclose(way(program), expected, rtol=1e-5, atol=1e-8)


def test_other_second_derivatives() -> None:
    expected = change_of_gradient(jumps)
    found = reverse_over_forward(jumps)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


@in_step
def test_local_memory_beside_writes() -> None:
    expected = change_of_gradient(table)
    found = forward_over_reverse(table)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("program", [jumps, calls_in_a_loop, MIXED[0]])
def test_second_derivatives_of_evaluated_regions(program) -> None:
    with dr.scoped_set_flag(FLAGS, False):
        found = forward_over_reverse(program)
        expected = change_of_gradient(program)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


def test_third_derivatives() -> None:
    def slope(function):
        return lambda x: dr.value_and_grad(function)(x)[1]

    @dr.syntax
    def cubes(x):
        y, i, n = dr.zeros(Float, 5), dr.arange(UInt32, 5), UInt32(0)
        while n < 2:
            dr.scatter(y, x * x * x, i)
            n += 1
        return dr.sum(y)

    np.testing.assert_allclose(slope(slope(slope(cubes)))(X), np.full(5, 6))


@pytest.mark.parametrize("lanes", [3, 5000])
def test_one_of_several_lanes_has_the_derivative(lanes) -> None:
    """All replace entry 0, in each turn."""

    @dr.syntax
    def collide(x):
        y, n = dr.zeros(Float, 2), UInt32(0)
        v = dr.gather(Float, x, dr.arange(UInt32, lanes) % 5)
        while n < 2:
            dr.scatter(y, v**3, dr.zeros(UInt32, lanes))
            n += 1
        return y

    def run(x):
        return dr.gather(Float, collide(x), UInt32(0))

    slope = dr.value_and_grad(run)
    assert np.count_nonzero(slope(X)[1]) == 1
    forward = dr.hvp(run, (X,), (dr.ones(Float, 5),))[0].numpy()
    reverse = dr.vjp(lambda x: slope(x)[1], X)[1](1)[0].numpy()
    for found in (forward, reverse):
        (place,) = np.nonzero(found)
        assert len(place) == 1
        np.testing.assert_allclose(found[place], 6 * X.numpy()[place])


def test_no_elements() -> None:
    @dr.syntax
    def program(x):
        y, n = dr.copy(x * x), UInt32(0)
        i = dr.arange(UInt32, len(x))
        while n < 2:
            dr.scatter(y, x * x * x, i)
            n += 1
        return dr.sum(y * y)

    empty = dr.zeros(Float, 0)
    assert len(dr.hvp(program, (empty,), (empty,))[0]) == 0


@dr.syntax
def clamped(x):
    y, i, n = before(x), dr.arange(UInt32, 5), UInt32(0)
    while n < 2:
        dr.scatter_reduce(ReduceOp.Max, y, x - n, i)
        dr.scatter_reduce(ReduceOp.Min, y, x + n, i)
        n += 1
    return y


def test_two_reductions_of_one_array_are_refused() -> None:
    with pytest.raises(DerivativeError, match=r"in ways \(max, min\) whose"):
        dr.value_and_grad(value(clamped))(X)


def test_exchanges_are_refused() -> None:
    @dr.syntax
    def program(x):
        y, i, n = before(x), dr.arange(UInt32, 5), UInt32(0)
        while n < 2:
            dr.scatter_exch(y, x + n, i)
            n += 1
        return y

    for differentiate in (forward_over_reverse, lambda p: dr.jvp(p, (X,), (1,))):
        with pytest.raises(DerivativeError, match="depends on the order of all"):
            differentiate(program)
