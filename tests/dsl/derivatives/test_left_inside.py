"""Variables that bodies make and leave: gradients there are right, or errors."""

import pytest

import lumijit as dr
from lumijit.llvm.ad import Bool, Float, UInt32
from lumijit.runtime.errors import DerivativeError


class Counted:
    """An object whose counter has every construct begin anew."""

    def __init__(self):
        self.p = Float(1, 2)
        self.k = 0

    def track(self):
        self.k += 1
        dr.enable_grad(self.p)
        dr.backward(dr.sum(self.p**2))

    def descend(self):
        self.track()
        self.p = dr.detach(self.p) - 0.1 * self.p.grad


@dr.syntax
def loop(action, n, mode):
    i = UInt32(0)
    while dr.hint(i < n, mode=mode):
        action()
        i += 1


@dr.syntax
def branch(action, c, mode):
    if dr.hint(c, mode=mode):
        action()


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_steps_of_a_method_count_once(turns):
    one = Counted()
    loop(one.descend, UInt32(turns), "evaluated")
    assert dr.allclose(one.p, [0.8**turns, 2 * 0.8**turns])
    assert not dr.grad_enabled(one.p)


def test_tracking_that_is_undone_leaves_no_gradient():
    one = Counted()
    branch(one.track, Bool(True, True), "evaluated")
    assert dr.allclose(one.p.grad, [2, 4])
    one = Counted()
    x = Float(1, 10)

    def step():
        one.k += 1
        t = one.p
        dr.enable_grad(t)
        dr.backward(t * x)

    loop(step, UInt32(1, 3), "evaluated")
    assert dr.allclose(one.p.grad, [1, 30])


def test_an_error_leaves_arrays_untracked():
    x = Float(1, 2)

    def fail():
        dr.enable_grad(x)
        dr.backward(x * x)
        raise KeyError

    with pytest.raises(KeyError):
        loop(fail, UInt32(1, 3), "evaluated")
    assert not dr.grad_enabled(x)
