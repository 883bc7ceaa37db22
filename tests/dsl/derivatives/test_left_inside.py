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


@dr.syntax
def descent(q, n, mode="evaluated"):
    i = UInt32(0)
    while dr.hint(i < n, mode=mode):
        dr.backward(q * q)
        g = q.grad
        q = dr.detach(q) - 0.1 * g
        dr.enable_grad(q)
        i += 1
    return q


def tracked(*values):
    x = Float(*values)
    dr.enable_grad(x)
    return x


@pytest.mark.parametrize("turns", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [1, 2])
def test_descent_by_a_local_variable(turns, count):
    q = descent(tracked(3, 4), UInt32([turns] * count))
    assert dr.allclose(q, [3 * 0.8**turns, 4 * 0.8**turns])
    dr.backward(q * q)
    assert dr.allclose(q.grad, 2 * dr.detach(q))


def test_descent_that_some_elements_end_is_refused():
    with pytest.raises(
        DerivativeError, match=r"in descent: .*element by element.* Fix"
    ):
        descent(tracked(3, 4), UInt32(1, 3))
    compressed = dr.scoped_set_flag(dr.JitFlag.CompressLoops)
    with compressed, pytest.raises(DerivativeError, match="element by element"):
        descent(tracked(3, 4, 5), UInt32(1, 3, 3))
    # Where nothing is read afterwards, nothing is lost.
    q = descent(tracked(3, 4), UInt32(1, 2))
    assert dr.allclose(q, [2.4, 4 * 0.8**2])
    with pytest.raises(DerivativeError, match="element by element"):
        dr.grad(q)


def test_descent_is_refused_in_symbolic_loops():
    with pytest.raises(DerivativeError, match="gradients of arrays from outside"):
        descent(tracked(3, 4), UInt32(2, 2), "symbolic")


class Descent:
    """Gradient descent by hand, in several spellings."""

    def __init__(self):
        self.q = tracked(3, 4)
        self.w = Float(3, 4)

    def replaced(self):
        dr.backward(self.q * self.q)
        g = self.q.grad
        self.q = dr.detach(self.q) - 0.1 * g
        dr.enable_grad(self.q)

    def in_place(self):
        dr.enable_grad(self.w)
        dr.backward(self.w * self.w)
        g = self.w.grad
        dr.disable_grad(self.w)
        self.w -= 0.1 * g


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_descent_by_an_attribute(turns):
    one = Descent()
    loop(one.replaced, UInt32(turns, turns), "evaluated")
    assert dr.allclose(one.q, [3 * 0.8**turns, 4 * 0.8**turns])
    loop(one.in_place, UInt32(turns, turns), "evaluated")
    assert dr.allclose(one.w, one.q)
    assert not dr.grad_enabled(one.w)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSProp"])
@pytest.mark.parametrize("count", [1, 2])
def test_optimizers_step_in_evaluated_loops(name, count):
    def run(repeat):
        opt = getattr(dr.opt, name)(lr=0.1, params={"x": Float(1, 2)})

        def step():
            dr.backward(dr.sum(opt["x"] ** 2))
            opt.step()

        repeat(step)
        return opt["x"]

    def repeated(step):
        for _ in range(3):
            step()

    n = UInt32([3] * count)
    x = run(lambda step: loop(step, n, "evaluated"))
    assert dr.allclose(x, run(repeated))


@dr.syntax
def carried(x, y, n, mode):
    s, i = Float(0), UInt32(0)
    while dr.hint(i < n, mode=mode):
        s += dr.grad(y)
        y = dr.detach(y) * 2
        dr.enable_grad(y)
        dr.backward(y * x)
        i += 1
    return y, s


def test_gradients_that_the_next_turn_reads():
    y, s = carried(Float(2, 3), Float(1, 5), UInt32(2, 2), "evaluated")
    assert list(s) == list(y.grad) == [2, 3]
    with pytest.raises(DerivativeError, match=r"next turn.*Fix: call lumijit.enable"):
        carried(Float(2, 3), Float(1, 5), UInt32(2, 2), "symbolic")


def test_gradients_of_what_is_not_tracked():
    @dr.syntax
    def untracked(y, n, mode):
        s, i = Float(0), UInt32(0)
        while dr.hint(i < n, mode=mode):
            dr.accum_grad(y, 1)
            s += dr.grad(y)
            i += 1
        return s

    x = tracked(1)
    assert list(untracked(Float(1, 5), UInt32(2, 2), "evaluated")) == [0, 0]
    with pytest.raises(DerivativeError, match=r"untracked: .*isn't tracked before"):
        untracked(Float(1, 5), UInt32(2, 2), "symbolic")
    assert list(x.grad) == [0]


@dr.syntax
def inline(p, x, n, mode):
    i = UInt32(0)
    while dr.hint(i < n, mode=mode):
        dr.enable_grad(p)
        dr.backward(p * x)
        i += 1


@dr.syntax
def tracks_in_branch(p, x, c, mode):
    if dr.hint(c, mode=mode):
        dr.enable_grad(p)
        dr.backward(p * x)


def test_arrays_from_outside_that_are_tracked_inside():
    p = Float(1, 2)
    inline(p, Float(1, 10), UInt32(1, 3), "evaluated")
    assert list(p.grad) == [1, 30]
    p = Float(1, 2)
    tracks_in_branch(p, Float(1, 10), Bool(True, True), "evaluated")
    assert list(p.grad) == [1, 10]
    with pytest.raises(DerivativeError, match="before the loop"):
        inline(Float(1, 2), Float(1, 10), UInt32(1, 3), "symbolic")
    for mode in ("symbolic", "evaluated"):
        p = Float(1, 2)
        tracks_in_branch(p, Float(1, 10), Bool(True, False), mode)
        with pytest.raises(DerivativeError, match="element by element"):
            dr.grad(p)


@dr.syntax
def untracks(q, n, mode):
    i = UInt32(0)
    while dr.hint(i < n, mode=mode):
        dr.disable_grad(q)
        i += 1


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_tracking_that_ends_inside(mode):
    q = tracked(3, 4)
    untracks(q, UInt32(1, 0), mode)
    dr.backward(q * q)
    with pytest.raises(DerivativeError, match="element by element"):
        dr.grad(q)


def test_tracking_that_ends_for_all():
    q = tracked(3, 4)
    untracks(q, UInt32(1, 2), "evaluated")
    assert not dr.grad_enabled(q)
    branch(lambda: dr.disable_grad(q), Bool(True, True), "evaluated")
    assert not dr.grad_enabled(q)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_what_is_put_together_passes_derivatives_on(mode):
    @dr.syntax
    def some(x, c):
        y = x * 1
        if dr.hint(c, mode=mode):
            y = dr.detach(x) * 2
            dr.enable_grad(y)
        return y

    x = tracked(3, 4)
    y = some(x, Bool(True, False))
    dr.backward(y * y)
    assert list(x.grad) == [0, 8]
    y = some(x, Bool(True, False))
    dr.forward(x)
    assert list(y.grad) == [0, 1]
    y = some(x, Bool(True, False))
    dr.set_grad(y, 5)
    assert list(y.grad) == [5, 5]
