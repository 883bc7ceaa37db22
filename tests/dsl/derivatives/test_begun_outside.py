"""Reverse mode that begins in control flow, at what was computed around it."""

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float64 as Float
from lumijit.llvm.ad import UInt32
from lumijit.runtime.errors import DerivativeError

X = np.array([1.0, 2.0, 3.0, 4.0])
TURNS = [1, 2, 0, 3]
MODES = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])


@dr.syntax
def in_a_loop(k, h, n, mode):
    i, x = UInt32(0), Float(X)
    while dr.hint(i < n, mode=mode):
        y = x * x * k
        if dr.hint(x > 2, mode=mode):
            dr.backward_from(y)
        else:
            dr.backward_from(y * 0.5 + h)
        x = x * 1.5
        i += 1


@dr.syntax
def in_nested_loops(k, h, n, mode):
    """The variables of both loops are changed, and none depends on k or h."""
    i, x = UInt32(0), Float(X)
    while dr.hint(i < n, mode=mode):
        j = UInt32(0)
        while dr.hint(j < i + 1, mode=mode):
            y = x * x * k
            if dr.hint(x > 2, mode=mode):
                dr.backward_from(y)
            else:
                dr.backward_from(y * 0.5 + h)
            x = x * 1.5
            j += 1
        i += 1


def expected(program):
    by_k, by_h = 0.0, np.zeros(4)
    for lane, (x, turns) in enumerate(zip(X, TURNS, strict=True)):
        count = turns * (turns + 1) // 2 if program is in_nested_loops else turns
        for _ in range(count):
            by_k += x * x * (1 if x > 2 else 0.5)
            by_h[lane] += x <= 2
            x *= 1.5
    return by_k, by_h


@MODES
@pytest.mark.parametrize("program", [in_a_loop, in_nested_loops])
def test_a_branch_begins_at_what_its_turn_has_computed(program, mode) -> None:
    k, h = Float(2), Float(X)
    dr.enable_grad(k, h)
    program(k, h, UInt32(TURNS), mode)
    by_k, by_h = expected(program)
    np.testing.assert_allclose(k.grad, [by_k])
    np.testing.assert_allclose(h.grad, by_h)


@MODES
@pytest.mark.parametrize("start", [dr.backward, dr.backward_from])
def test_a_branch_begins_at_what_was_computed_before(start, mode) -> None:
    x = Float(X)
    dr.enable_grad(x)
    y = x * x

    def begin(x, y):
        start(y)
        return x

    dr.if_stmt((x, y), x > 2, begin, lambda x, _: x, mode=mode)
    np.testing.assert_array_equal(x.grad, [0, 0, 6, 8])


def test_suspended_copies_are_no_start() -> None:
    x = Float(X)
    dr.enable_grad(x)
    y = x * x

    def begin(x, y):
        with dr.suspend_grad():
            dr.backward(y, dr.ADFlag.Default | dr.ADFlag.AllowNoGrad)
        return x

    dr.if_stmt((x, y), x > 2, begin, lambda x, _: x, mode="symbolic")
    np.testing.assert_array_equal(x.grad, [0, 0, 0, 0])


@dr.syntax
def _changed_by_the_outer(k, n):
    i, x = UInt32(0), Float(X)
    while i < n:
        j = UInt32(0)
        while j < 2:
            dr.backward_from(x * x)
            x = x * 1.5
            j += 1
        x = x * k
        i += 1


@dr.syntax
def _changed_by_the_inner(k, n):
    i, x = UInt32(0), Float(X)
    while i < n:
        j = UInt32(0)
        while j < 2:
            dr.backward_from(x * x)
            x = x * k
            j += 1
        i += 1


@dr.syntax
def _begun_in_the_outer(k, n):
    i, x = UInt32(0), Float(X)
    while i < n:
        z, j = x * k, UInt32(0)
        while j < 2:
            dr.backward_from(z * z)
            z = z * 1.5
            j += 1
        i += 1


@pytest.mark.parametrize(
    "program", [_changed_by_the_outer, _changed_by_the_inner, _begun_in_the_outer]
)
def test_gradients_that_would_be_lost_are_refused(program) -> None:
    k = Float(2)
    dr.enable_grad(k)
    with pytest.raises(DerivativeError, match="gradient would be lost"):
        program(k, UInt32(TURNS))


@MODES
@pytest.mark.parametrize("is_state", [False, True], ids=["captured", "state"])
def test_traversals_that_begin_outside(is_state: bool, mode: str) -> None:
    """In each turn anew; in evaluated mode, only one turn counted."""
    x = Float(X)
    dr.enable_grad(x)
    y = x * x

    def body(i, z):
        dr.backward(z if is_state else y)
        return i + 1, z

    state = UInt32(0), y if is_state else Float(X)
    dr.while_loop(state, lambda i, _: i < 3, body, mode=mode)
    np.testing.assert_allclose(dr.grad(x), 3 * 2 * X)


def test_traversals_that_begin_at_one_entry_outside_are_refused() -> None:
    """It may be one for each element, or one for all."""
    x = Float(2)
    dr.enable_grad(x)
    y = x * x

    def body(i, z):
        dr.backward(y)
        return i + 1, z

    with pytest.raises(DerivativeError, match="begins at a variable from outside"):
        dr.while_loop((UInt32(0), Float(X)), lambda i, _: i < 3, body, mode="symbolic")
