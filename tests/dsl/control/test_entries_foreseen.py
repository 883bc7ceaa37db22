"""Entries of objects that a construct changed are its state at once the next time.

That shows in how often it is traced only: what an object is like may change from call
to call.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit.control.foresight import entries_at
from lumijit.control.reachability import Reach
from lumijit.llvm.ad import PCG32, Array2f, Float, UInt
from lumijit.runtime.errors import StateError

from ..programs.modes import MODES, flags_of

every_mode = pytest.mark.parametrize("mode", MODES)


class Sampler:
    """Isn't declared to be a PyTree."""

    def __init__(self, size: int = 3) -> None:
        self.rng = PCG32(size=size)
        self.dim = UInt(0)

    def next(self) -> Any:
        self.dim += 1
        return self.rng.next_float32()


class Halton:
    """Changes other entries, and a number."""

    def __init__(self) -> None:
        self.index = UInt(0, 10, 20)
        self.calls = 0
        self.table = dr.arange(Float, 7)

    def next(self) -> Any:
        self.index += 1
        self.calls += 1
        return dr.gather(Float, self.table, self.index % 7) + self.calls


class Still:
    """Has entries that are called like those of another, and leaves them alone."""

    def __init__(self, size: int = 3) -> None:
        self.rng = PCG32(size=size)
        self.dim = dr.arange(UInt, 5)
        self.index = dr.arange(Float, 11)
        self.calls = 1

    def next(self) -> Any:
        return dr.gather(Float, self.index, self.dim[2]) + self.calls


class Failing(Still):
    """Raises an error whatever is state."""

    def next(self) -> Any:
        raise StateError("next", "there is nothing left", "begin anew.")


@dr.syntax
def total(n: Any, sampler: Any) -> Any:
    k, found = UInt(0), Float(0)
    while k < n:
        found += sampler.next()
        k += 1
    return found


@dr.syntax
def some(n: Any, sampler: Any) -> Any:
    found = Float(0)
    if n > 1:
        found += sampler.next()
    return found


@dr.syntax
def both(n: Any, sampler: Any) -> Any:
    k, found = UInt(0), Float(0)
    while k < n:
        if k % 2 == 0:
            found += sampler.next()
        else:
            found *= Array2f(sampler.next(), sampler.next()).y
        k += 1
    return found


@dr.syntax
def chosen(n: Any, sampler: Any) -> Any:
    return sampler.next() if n > 1 else Float(0)


FUNCTIONS = total, some, both, chosen
MAKERS = Sampler, Halton, Still, lambda: Sampler(1), lambda: Still(4)
N = [1, 2, 3]


def state_of(sampler: Any) -> dict[str, Any]:
    """Return what an object holds, as numbers of each element."""

    def numbers(value: Any) -> Any:
        flat = value.state if isinstance(value, PCG32) else value
        found = np.array(flat)
        return np.broadcast_to(found, (3,)) if found.size == 1 else found

    return {name: numbers(value) for name, value in vars(sampler).items()}


def outcome(function: Any, make: Any, mode: str) -> tuple[Any, dict[str, Any]]:
    """Return what a function gives and leaves behind."""
    sampler = make()
    with flags_of(mode):
        found = function(UInt(N), sampler)
        dr.eval(found)
    return np.array(found), state_of(sampler)


def count(function: Any) -> int:
    """Call a function with a new sampler; return how often it asks that.

    (What counts must not be known to the program, or it is undone.)
    """
    calls = 0

    def note(frame: Any, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is Sampler.next.__code__

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function(UInt(N), Sampler())
    finally:
        sys.setprofile(before)
    return calls


def anew(function: Any) -> Any:
    """Return the same function without anything remembered."""
    return dr.syntax(function.__wrapped__)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_later_runs_trace_once(function: Any) -> None:
    function = anew(function)
    first, second, third = (count(function) for _ in range(3))
    assert first > second == third
    assert second == (3 if function.__name__ == "both" else 1)


@every_mode
@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=25, deadline=None)
@given(order=st.lists(st.sampled_from(MAKERS), min_size=2, max_size=5))
def test_whatever_comes_next(mode: str, function: Any, order: list[Any]) -> None:
    remembering = anew(function)
    for make in order:
        expected, held = outcome(anew(function), make, mode)
        found, holds = outcome(remembering, make, mode)
        np.testing.assert_array_equal(found, expected)
        assert holds.keys() == held.keys()
        for name, value in held.items():
            np.testing.assert_array_equal(holds[name], value, err_msg=name)


@every_mode
@pytest.mark.parametrize("function", FUNCTIONS)
def test_errors_are_those_of_the_program(mode: str, function: Any) -> None:
    function = anew(function)
    with flags_of(mode):
        function(UInt(N), Sampler())
        failing = Failing()
        before = state_of(failing)
        with pytest.raises(StateError, match="nothing left"):
            function(UInt(N), failing)
        for name, value in state_of(failing).items():
            np.testing.assert_array_equal(value, before[name])
        expected, _ = outcome(anew(function), Sampler, mode)
        np.testing.assert_array_equal(outcome(function, Sampler, mode)[0], expected)


def test_an_object_lacks_what_another_had() -> None:
    function = anew(total)
    function(UInt(N), Sampler())
    sampler = Sampler()
    del sampler.dim
    with pytest.raises(AttributeError, match="dim"):
        function(UInt(N), sampler)
    assert list(vars(sampler)) == ["rng"]


def test_derivatives_of_entries() -> None:
    class Product:
        def __init__(self, value: Any) -> None:
            self.value = value

        def next(self) -> Any:
            self.value = self.value * self.value
            return self.value

    function = anew(total)
    for start in ([1.1, 1.2, 1.3], [0.5, 0.7, 0.9]):
        x = Float(start)
        dr.enable_grad(x)
        dr.backward(function(UInt(N), Product(x)))
        values = np.array(start)
        powers = [sum(2.0**j * v ** (2**j - 1) for j in range(1, n + 1)) for v, n in
                  zip(values, N, strict=True)]  # fmt: skip
        np.testing.assert_allclose(dr.grad(x), powers, rtol=1e-5)


def test_of_many_lists_none_is_looked_for() -> None:
    class Cells:
        def __init__(self, count: int) -> None:
            self.cells = [[Float(k + 1), Float(1)] for k in range(count)]

        def next(self) -> Any:
            self.cells[-1][0] = self.cells[-1][0] * 0.5
            return self.cells[-1][0]

    function = anew(total)
    for count in (1, 1, 3, 3, 600, 600):
        cells = Cells(count)
        found = function(UInt(N), cells)
        expected = [count * (1 - 0.5**n) for n in N]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        held = [count * 0.5**n for n in N]
        np.testing.assert_allclose(cells.cells[-1][0], held, rtol=1e-6)


def test_entries_come_in_the_order_in_which_they_are_asked_for() -> None:
    reach = Reach()
    reach.follow(Sampler(), "sampler")
    wanted = [("dim", "sampler.dim"), ("state", "sampler.rng.state")]
    for asked in (wanted, wanted[::-1]):
        assert [entry[1:] for entry in entries_at(reach.places, asked)] == asked
    assert entries_at(reach.places, [*wanted, ("inc", "sampler.inc")]) == []
