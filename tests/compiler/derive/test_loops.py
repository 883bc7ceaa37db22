"""The kernels of loops' derivatives: what they keep, copy and compute twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.compiler.derive import loops
from lumijit.llvm.ad import Float64 as Float
from lumijit.llvm.ad import Int, UInt, UInt64

X = np.array([0.3, 0.7, 1.1])
TABLE = np.array([0.5, 1.5, -0.5, 2.0, 0.25, -1.0, 0.75])


def ir(*arrays: Any) -> str:
    """Return the code of the kernel that computes arrays."""
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        dr.eval(*arrays)
        (found,) = dr.kernel_history([dr.KernelType.JIT])
        dr.kernel_history_clear()
    return str(found["ir"])


def loop(count: int, state: Any, body: Any, bound: int | None = None) -> Any:
    return dr.while_loop(
        (UInt(0), *state), lambda i, *_: i < count, body, max_iterations=bound
    )[1]


def decaying(x: Any, count: int = 9) -> Any:
    return loop(count, (x + 1, x), lambda i, y, x: (i + 1, y * 0.5 + dr.sin(y * x), x))


def gradient(function: Callable[[Any], Any], x: Any) -> Any:
    dr.enable_grad(x)
    dr.backward(function(x))
    return dr.grad(x)


def check(function: Callable[[Any], Any], rtol: float = 1e-6) -> None:
    """Compare both modes with differences."""
    found = gradient(function, Float(X))
    step = 1e-6
    ahead, behind = (function(Float(X + h)).numpy().copy() for h in (step, -step))
    slopes = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(found, slopes, rtol=rtol)
    _, forward = dr.jvp(function, (Float(X),), (1,))
    np.testing.assert_allclose(forward, slopes, rtol=rtol)


# Forward mode


def moved(function: Callable[[Any], Any]) -> Any:
    return dr.jvp(function, (Float(X),), (1,))[1]


@pytest.mark.packets("loops have a comment")
def test_a_loop_in_a_loop_runs_once() -> None:
    """The inner loop's derivative computes its results as well."""

    def nested(x: Any) -> Any:
        return loop(4, (x,), lambda i, y: (i + 1, dr.sin(decaying(y, 3)) * y))

    assert ir(moved(nested)).count("; loop: ") == 2
    check(nested)


@pytest.mark.packets("branches have a comment")
def test_a_branch_in_a_loop_runs_once() -> None:
    def body(i: Any, y: Any) -> Any:
        z = dr.if_stmt(
            (y,),
            y > 0.8,
            lambda y: dr.tan(dr.sin(y) * dr.exp(y) * 0.1) + dr.log(y),
            lambda y: dr.cos(y * y) * dr.exp(-y),
        )
        return i + 1, dr.sin(z * y)

    def branching(x: Any) -> Any:
        return loop(4, (x,), body)

    assert ir(moved(branching)).count("; branch: ") == 1
    check(branching)


@pytest.mark.packets("how buffers are copied")
@pytest.mark.parametrize("bound", [None, 9], ids=["checkpoints", "tape"])
def test_second_derivatives_copy_no_states(bound: int | None) -> None:
    """Neither in each turn nor before the loops, whose slots begin undefined."""

    def function(x: Any) -> Any:
        body = lambda i, y, x: (i + 1, y * 0.5 + dr.sin(y * x), x)  # noqa: E731
        return loop(9, (x + 1, x), body, bound)

    (product,) = dr.hvp(function, (Float(X),), (Float(1, 1, 1),))
    assert "repeat" not in ir(product)
    step = 1e-6
    ahead, behind = (gradient(function, Float(X + h)) for h in (step, -step))
    slopes = (ahead.numpy() - behind.numpy()) / (2 * step)
    np.testing.assert_allclose(product, slopes, rtol=1e-5)


def test_local_memory_that_is_read_before_it_is_changed() -> None:
    """Its accesses keep their order where they are repeated."""

    def body(i: Any, y: Any, b: Any, x: Any) -> Any:
        before = b[i % 3]
        b[i % 3] = before * y + x
        b[(i + 1) % 3] = dr.sin(b[i % 3])
        return i + 1, y + before * b[(i + 1) % 3], b, x

    def table(x: Any) -> Any:
        b = dr.alloc_local(Float, 3, value=Float(0.5) + 0 * x)
        return loop(6, (x, b, x), body)

    check(table)


# Counters


def read(x: Any) -> Any:
    table = Float(TABLE)

    def body(i: Any, y: Any, x: Any) -> Any:
        return i + 1, y * x * dr.gather(Float, table, i) + 1, x

    return loop(7, (x + 0, x), body)


def by_counter(x: Any) -> Any:
    return loop(9, (x,), lambda i, y: (i + 1, y * Float(i)))


def down(x: Any) -> Any:
    """A counter that falls, below 0, by two."""
    state = (Int(5), x, x)
    return dr.while_loop(
        state,
        lambda i, *_: i > -6,
        lambda i, y, x: (i - 2, y * x * Float(i) * 0.3 + 0.1, x),
    )[1]


def by_lanes(x: Any) -> Any:
    """Lanes begin, step and end each on their own; with a counter of 64 bits."""
    step = UInt64(1, 2, 3)
    return dr.while_loop(
        (UInt64(3, 2, 1), x, x),
        lambda i, *_: i < UInt64(9, 9, 8),
        lambda i, y, x: (i + step, y * 0.5 + x * y / Float(i), x),
    )[1]


def step_in_state(x: Any) -> Any:
    """Of what a turn adds, nobody says that it stays the same but the state."""
    return dr.while_loop(
        (UInt(0), UInt(2), x, x),
        lambda i, *_: i < 9,
        lambda i, n, y, x: (n + i, n, y * x * Float(i + 1) * 0.2, x),
    )[2]


def not_counting(x: Any) -> Any:
    """What is added changes from turn to turn."""
    return dr.while_loop(
        (UInt(0), UInt(1), x, x),
        lambda i, *_: i < 30,
        lambda i, n, y, x: (i + n, n + n, y * x * Float(i + 1) * 0.2, x),
    )[2]


def turned_over(x: Any) -> Any:
    """It is subtracted from: no counter, though it says `-`."""
    return dr.while_loop(
        (UInt(0), Int(2), x, x),
        lambda i, *_: i < 5,
        lambda i, n, y, x: (i + 1, 3 - n, y * x * Float(n + 3) * 0.2, x),
    )[2]


def in_a_loop(x: Any) -> Any:
    """The inner counter begins and steps by what the outer one says."""

    def inner(y: Any, i: Any) -> Any:
        return dr.while_loop(
            (i, y, i),
            lambda j, *_: j < 7,
            lambda j, y, i: (j + i + 1, y * Float(j + 1) * 0.3, i),
        )[1]

    return loop(4, (x, x), lambda i, y, x: (i + 1, inner(y, i) * x + y, x))


COUNTING = [read, down, by_lanes, step_in_state, not_counting, turned_over, in_a_loop]


@pytest.mark.parametrize("function", COUNTING)
def test_counters_are_computed(function: Callable[[Any], Any]) -> None:
    check(function)
    check(lambda x: dr.hvp(function, (x,), (Float(1, 1, 1),))[0], 1e-5)


@pytest.mark.packets("how local memory is written")
@pytest.mark.parametrize(
    "function", [by_counter, lambda x: loop(9, (x,), lambda i, y: (i + 1, y * 0.5))]
)
def test_a_loop_that_needs_its_counter_only_keeps_nothing(
    function: Callable[[Any], Any],
) -> None:
    assert "alloca" not in ir(gradient(function, Float(X)))


def test_where_nothing_is_kept_no_bound_is_needed() -> None:
    found = gradient(
        lambda x: loop(9, (x,), lambda i, y: (i + 1, y * 0.5), 1), Float(X)
    )
    np.testing.assert_allclose(found, 0.5**9)


@pytest.mark.packets("how buffers are copied")
def test_what_comes_before_an_inner_loop_is_repeated_before_its_derivative() -> None:
    """The number is needed last, and yet the inner loop writes in place."""

    def fill(j: Any, z: Any, b: Any) -> Any:
        b[j] = b[j] + UInt(z * 10 + 4.5)
        return j + 1, dr.sin(z) * 2, b

    def body(i: Any, y: Any, b: Any) -> Any:
        before = b[0]
        z = dr.while_loop((UInt(0), y, b), lambda j, *_: j < 3, fill)[1]
        return i + 1, dr.sin(z) * Float(before), b

    def function(x: Any) -> Any:
        return loop(3, (x, dr.alloc_local(UInt, 3, value=UInt(1))), body)

    assert ir(moved(function)).count(" = alloca") == 1
    check(function)


# What tracing a derivative takes


def test_nested_loops_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    analyzed = loops._analyzed

    def noting(loop: Any, *args: Any) -> Any:
        looked.append(loop.region.label)
        return analyzed(loop, *args)

    monkeypatch.setattr(loops, "_analyzed", noting)

    def inner(y: Any, x: Any) -> Any:
        return loop(2, (y, x), lambda k, y, x: (k + 1, y * 0.5 + dr.sin(y * x), x))

    def middle(y: Any, x: Any) -> Any:
        return loop(3, (y, x), lambda j, y, x: (j + 1, inner(y, x) * x, x))

    def outer(x: Any) -> Any:
        return loop(2, (x + 1, x), lambda i, y, x: (i + 1, middle(y, x) - x, x))

    check(outer)
    assert len(looked) == 3
    # Of other results, other state has derivatives.
    x, w = Float(X), Float(X[::-1])
    dr.enable_grad(x, w)
    _, y, z, *_ = dr.while_loop(
        (UInt(0), x + 0, w + 0, x, w),
        lambda i, *_: i < 4,
        lambda i, y, z, x, w: (i + 1, dr.sin(y * x), dr.cos(z * w), x, w),
    )
    looked.clear()
    for result, own, other in ((y, x, w), (z, w, x), (y, x, w)):
        dr.clear_grad(x, w)
        dr.backward(result, flags=dr.ADFlag.ClearInterior)
        assert dr.all(dr.grad(own) != 0)
        assert dr.all(dr.grad(other) == 0)
    assert len(looked) == 2
