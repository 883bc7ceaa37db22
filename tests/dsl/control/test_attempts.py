"""What an attempt to run a construct did, which is begun anew, hasn't happened.

A construct runs once more when a called function changes what is no state of it.
"""

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float, UInt32

MODES = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
KINDS = pytest.mark.parametrize("kind", ["loop", "branch", "nested"])
N = [1, 2, 3]
# How often each element gets to the body.
TIMES = {"loop": N, "branch": [0, 1, 1], "nested": [0, 2, 3]}


class Sampler:
    """What the construct's function changes, so that it becomes state."""

    def __init__(self) -> None:
        self.seed = UInt32(7, 8, 9)

    def next(self) -> Float:
        self.seed = self.seed * 3 + 1
        return Float(self.seed)


def run(kind, mode, function) -> None:
    """Call a function in a construct that is tried twice."""

    @dr.syntax
    def loop(n, sampler):
        k = UInt32(0)
        while dr.hint(k < n, mode=mode):
            sampler.next()
            function(sampler)
            k += 1

    @dr.syntax
    def branch(n, sampler):
        if dr.hint(n > 1, mode=mode):
            sampler.next()
            function(sampler)

    @dr.syntax
    def nested(n, sampler):
        if dr.hint(n > 1, mode=mode):
            k = UInt32(0)
            while dr.hint(k < n, mode=mode):
                function(sampler)
                sampler.next()
                k += 1

    programs = {"loop": loop, "branch": branch, "nested": nested}
    programs[kind](UInt32(N), Sampler())


def variable(values=(1.0, 1.0, 1.0)) -> Float:
    x = Float(values)
    dr.enable_grad(x)
    return x


def backward(x) -> None:
    dr.backward(x * Float(1, 10, 100))


def backward_from(x) -> None:
    y = x * Float(1, 10, 100)
    dr.backward_from(y)


def enqueued(x) -> None:
    y = x * Float(1, 10, 100)
    dr.set_grad(y, 1)
    dr.enqueue(dr.ADMode.Backward, y)
    dr.traverse(dr.ADMode.Backward)


def forward_then_backward(x) -> None:
    y = x * x
    dr.set_grad(y, 0.5 * Float(1, 10, 100))
    dr.enqueue(dr.ADMode.Backward, y)
    dr.traverse(dr.ADMode.Backward)


@MODES
@KINDS
@pytest.mark.parametrize(
    "give", [backward, backward_from, enqueued, forward_then_backward]
)
def test_gradients_of_all_entries(kind, mode, give) -> None:
    x = variable()
    run(kind, mode, lambda _: give(x))
    expected = np.multiply(TIMES[kind], [1, 10, 100])
    np.testing.assert_array_equal(x.grad, expected)


@MODES
@KINDS
def test_gradients_of_one_entry(kind, mode) -> None:
    x = variable(1.0)
    run(kind, mode, lambda _: backward(x))
    assert x.grad == np.dot(TIMES[kind], [1, 10, 100])


@MODES
@KINDS
def test_gradients_by_what_was_computed_before(kind, mode) -> None:
    x = variable()
    y = x * 2
    run(kind, mode, lambda _: backward(y))
    expected = np.multiply(TIMES[kind], [2, 20, 200])
    np.testing.assert_array_equal(x.grad, expected)


@MODES
@KINDS
def test_gradients_that_were_there(kind, mode) -> None:
    x = variable()
    dr.set_grad(x, 1000)
    run(kind, mode, lambda _: dr.accum_grad(x, Float(1, 10, 100)))
    expected = np.multiply(TIMES[kind], [1, 10, 100]) + 1000
    np.testing.assert_array_equal(x.grad, expected)


@KINDS
def test_gradients_that_are_set(kind) -> None:
    x = variable()
    dr.set_grad(x, 1000)
    run(kind, "evaluated", lambda _: dr.set_grad(x, dr.grad(x) + 1))
    np.testing.assert_array_equal(x.grad, np.add(TIMES[kind], 1000))


@KINDS
def test_gradients_that_are_cleared(kind) -> None:
    x = variable()
    dr.set_grad(x, 1000)
    total = variable([0.0, 0.0, 0.0])

    def take(_) -> None:
        dr.accum_grad(total, x.grad)
        dr.clear_grad(x)

    run(kind, "evaluated", take)
    expected = np.where(np.array(TIMES[kind]) > 0, 1000, 0)
    np.testing.assert_array_equal(total.grad, expected)


def test_edges_that_an_attempt_forgets(capsys) -> None:
    x = variable()
    y = x * 3

    @dr.syntax
    def program(n, sampler):
        if dr.hint(n > 1, mode="evaluated"):
            dr.forward(x)
            print(dr.grad(y))
            sampler.next()

    program(UInt32(N), Sampler())
    # (Python prints in each attempt.)
    assert capsys.readouterr().out == "[0, 3, 3]\n" * 2


@MODES
@KINDS
def test_writes_and_counters(kind, mode) -> None:
    film, counter = dr.zeros(Float, 16), dr.zeros(UInt32, 2)

    def write(sampler) -> None:
        slot = dr.scatter_inc(counter, UInt32(1))
        dr.scatter(film, Float(1), slot)
        dr.scatter_add(film, Float(1), UInt32(15))

    run(kind, mode, write)
    count = sum(TIMES[kind])
    assert counter.numpy().tolist() == [0, count]
    assert film.numpy().tolist() == [1] * count + [0] * (15 - count) + [count]


def test_writes_that_are_evaluated() -> None:
    film = dr.zeros(Float, 3)

    def write(_) -> None:
        dr.scatter_add(film, Float(1, 10, 100), UInt32(0, 1, 2))
        dr.eval(film)

    run("loop", "evaluated", write)
    assert film.numpy().tolist() == [1, 20, 300]


@MODES
@KINDS
def test_random_generators(kind, mode) -> None:
    generator = dr.llvm.PCG32(3)
    other = dr.llvm.PCG32(3)
    drawn = dr.zeros(Float, 3)

    def draw(_) -> None:
        dr.scatter_add(drawn, generator.next_float32(), dr.arange(UInt32, 3))

    run(kind, mode, draw)
    expected = np.zeros(3)
    for turn in range(max(TIMES[kind])):
        is_active = np.array(TIMES[kind]) > turn
        expected += np.where(is_active, other.next_float32().numpy(), 0)
    np.testing.assert_allclose(drawn.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["loop", "branch", "nested"])
def test_prints_appear_once(kind, capsys) -> None:
    run(kind, "evaluated", lambda sampler: dr.print("{}", sampler.seed))
    count = max(TIMES[kind])
    assert len(capsys.readouterr().out.splitlines()) == count


def test_prints_appear_turn_by_turn(capsys) -> None:
    @dr.syntax
    def program(sampler):
        k = UInt32(0)
        while dr.hint(k < 3, mode="evaluated"):
            print("turn")
            sampler.next()
            dr.print("{}", k)
            k += 1

    program(Sampler())
    found = capsys.readouterr().out.splitlines()
    # (Python prints in each attempt.)
    assert found == ["turn", "turn", "[0]", "turn", "[1]", "turn", "[2]"]


def test_prints_appear_before_an_error(capsys) -> None:
    def fail(_) -> None:
        dr.print("{}", Float(1))
        raise KeyError

    with pytest.raises(KeyError):
        run("branch", "evaluated", fail)
    assert capsys.readouterr().out == "[1, 1]\n"


def test_symbolic_prints_in_an_evaluated_loop_appear_once(capsys) -> None:
    @dr.syntax
    def inner(x):
        if dr.hint(x > 1, mode="symbolic"):
            dr.print("{}", x)

    def show(_) -> None:
        inner(Float(N))
        dr.eval()

    run("loop", "evaluated", show)
    text = capsys.readouterr().out
    assert text == "[2, 3]\n[2, 3]\n[3]\n"


def test_compressed_turns_that_need_all_elements() -> None:
    """The body fails for the active elements alone, after a traversal."""
    x = variable(1.0)
    other = Float(1, 1, 1)

    def body(k, n, y):
        dr.backward(x * dr.select(n == 3, Float(100), Float(10)))
        return k + 1, n, y + other

    state = UInt32(0), UInt32(N), Float(0, 0, 0)
    dr.while_loop(state, lambda k, n, _: k < n, body, mode="evaluated", compress=True)
    assert x.grad == 10 + 20 + 300


@pytest.mark.parametrize("turns", [[1, 2, 3], [3, 3, 4], [4, 5, 5], [0, 1, 2]])
@pytest.mark.parametrize("kind", ["switch", "if", "loop", "direct"])
def test_compressed_turns_that_add_to_an_array_of_as_many_entries(kind, turns) -> None:
    """An array of two entries is indexed when two elements are left."""
    x = variable((1.0, 1.0))

    def add(y):
        dr.backward(y * dr.gather(Float, x, UInt32(0)))
        return y

    def once(k, y):
        return k + 1, add(y)

    def body(k, y):
        if kind == "switch":
            dr.switch(UInt32(y < 0), [add, lambda y: y], y)
        elif kind == "if":
            dr.if_stmt((y,), y > 0, add, lambda y: y)
        elif kind == "loop":
            dr.while_loop((UInt32(0) * UInt32(y), y), lambda k, _: k < 1, once)
        else:
            add(y)
        return k + 1, y

    n, state = UInt32(turns), (UInt32(0, 0, 0), Float(1, 10, 100))
    dr.while_loop(state, lambda k, _: k < n, body, mode="evaluated", compress=True)
    np.testing.assert_array_equal(x.grad, [np.dot(turns, [1, 10, 100]), 0])


def test_errors_leave_gradients_as_they_were() -> None:
    x = variable()
    dr.set_grad(x, 7)

    @dr.syntax
    def program(n):
        k = UInt32(0)
        while dr.hint(k < n, mode="evaluated"):
            dr.backward(x * 2)
            k += 1
            if bool(dr.all(k == 2)):
                raise KeyError

    with pytest.raises(KeyError):
        program(UInt32(N))
    np.testing.assert_array_equal(x.grad, [7, 7, 7])
