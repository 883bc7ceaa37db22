"""Recursion under array conditions: evaluated, it ends; symbolic, it is an error."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as lj
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.llvm import Int, UInt
from lumijit.runtime.errors import RecursionBoundError

from ..programs.modes import flags_of

THIS = re.escape(__file__)
EVALUATED = ("evaluated", "compressed")


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Any:
    yield
    assert trace.state.scope is ROOT
    assert trace.state.mask is None


@lj.syntax
def unbounded(n: Any) -> Any:
    if n <= 1:
        return n - n + 1
    return n * unbounded(n - 1)


@lj.syntax
def in_a_loop(n: Any) -> Any:
    total = UInt(1)
    i = UInt(0)
    while i < n:
        i += 1
        total += in_a_loop(n - i)
    return total


@lj.syntax
def chosen(n: Any) -> Any:
    return chosen(n - 1) + 2 if n > 0 else n


def line_of(function: Any, text: str) -> int:
    """Return the line of a function that has a text."""
    lines, first = inspect.getsourcelines(function)
    return first + [text in line for line in lines].index(True)


@pytest.mark.parametrize("function", [unbounded, in_a_loop, chosen])
def test_symbolic_recursion_is_an_error(function: Any) -> None:
    name = function.__name__
    match = (
        rf"(?s)^{THIS}:\d+ in {name}: @syntax: '{name}' calls itself without end.*"
        r"Fix: use evaluated mode.*alloc_local.*\n    .*\n +\^$"
    )
    with pytest.raises(RecursionBoundError, match=match):
        function(UInt(1, 2, 3))
    assert list(UInt(1, 2) + 1) == [2, 3]


def test_the_error_names_the_line_of_the_condition() -> None:
    line = line_of(unbounded, "if n <= 1")
    with pytest.raises(RecursionBoundError, match=rf":{line} in unbounded.*"):
        unbounded(UInt(1, 2, 3))


@pytest.mark.parametrize("mode", EVALUATED)
def test_evaluated_recursion_ends_with_the_last_element(mode: str) -> None:
    with flags_of(mode):
        assert list(unbounded(UInt(0, 1, 5, 10, 3))) == [1, 1, 120, 3628800, 6]
        assert list(in_a_loop(UInt(0, 1, 2, 5))) == [1, 2, 4, 32]
        assert list(chosen(UInt(0, 1, 20))) == [0, 2, 40]
        assert list(unbounded(UInt(1, 1))) == [1, 1]


@pytest.mark.host("a GPU builds 1,000 kernels for two minutes")
def test_evaluated_recursion_that_never_ends() -> None:
    @lj.syntax
    def endless(n: Any) -> Any:
        if n > 0:
            return endless(n + 1)
        return n

    with (
        flags_of("evaluated"),
        pytest.raises(RecursionBoundError, match="'endless' calls itself without end"),
    ):
        endless(UInt(0, 1))


def test_plain_recursion_ends() -> None:
    assert unbounded(20) == math.factorial(20)
    assert unbounded(UInt(12))[0] == math.factorial(12)


def test_plain_recursion_inside_of_a_branch() -> None:
    @lj.syntax
    def power(x: Any, n: int) -> Any:
        if n == 0:
            return x - x + 1
        r = power(x, n - 1)
        if r < 1000:
            r = r * x
        return r

    assert list(power(Int(2, 3, 10), 20)) == [1024, 2187, 1000]


@lj.syntax
def fibonacci(n: Any) -> Any:
    if n < 2:
        result = n
    else:
        result = fibonacci(n - 1) + fibonacci(n - 2)
    return result


@lj.syntax
def ackermann(m: Any, n: Any) -> Any:
    if m == 0:
        result = n + 1
    elif n == 0:
        result = ackermann(m - 1, n + 1)
    else:
        result = ackermann(m - 1, ackermann(m, n - 1))
    return result


@pytest.mark.parametrize("mode", EVALUATED)
def test_several_calls_in_one_activation(mode: str) -> None:
    with flags_of(mode):
        assert list(fibonacci(UInt(0, 1, 2, 5, 9))) == [0, 1, 1, 5, 34]
        assert list(ackermann(UInt(0, 1, 2, 1), UInt(3, 2, 2, 0))) == [4, 4, 7, 2]


def test_all_activations_of_a_level_share_their_kernels() -> None:
    with flags_of("evaluated"), lj.scoped_set_flag(lj.JitFlag.KernelHistory, True):
        lj.kernel_history_clear()
        lj.eval(fibonacci(UInt(0, 1, 2, 9)))
        history = lj.kernel_history()
    # Nine levels: what each computes of the first arguments is a program of its own.
    assert len(history) > 200
    assert len({entry["hash"] for entry in history}) <= 16


@settings(max_examples=20, deadline=None, derandomize=True)
@given(rows=st.lists(st.tuples(*[st.integers(0, 60)] * 2), min_size=1, max_size=8))
@pytest.mark.parametrize("mode", EVALUATED)
def test_greatest_common_divisors(mode: str, rows: list[tuple[int, int]]) -> None:
    @lj.syntax
    def gcd(a: Any, b: Any) -> Any:
        return a if b == 0 else gcd(b, a % b)

    with flags_of(mode):
        result = gcd(*(UInt(list(column)) for column in zip(*rows, strict=True)))
        assert list(result) == [math.gcd(*row) for row in rows]


@pytest.mark.parametrize("mode", EVALUATED)
def test_writes_of_calls_that_nobody_makes_don_t_happen(mode: str) -> None:
    bins = UInt([0] * 10)

    @lj.syntax
    def mark(n: Any) -> Any:
        lj.scatter_add(bins, 1, n)
        if n > 0:
            lj.scatter_add(bins, 100, n)
            mark(n - 1)

    with flags_of(mode):
        mark(UInt(0, 1, 2))
        assert list(bins)[:4] == [3, 202, 101, 0]


class Mirror:
    def look(self, n: Any) -> Any:
        return MIRRORS.look(n)


MIRROR = Mirror()
MIRRORS = lj.instance_array_t(UInt, Mirror)([MIRROR, MIRROR])


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_endless_recursion_of_methods(mode: str) -> None:
    match = (
        rf"^{THIS}:{line_of(Mirror, 'return MIRRORS')} in look: Mirror\.look: "
        r"Mirror\.look calls itself without end while it is traced: .* Fix: use "
        r"evaluated mode, and leave out elements"
    )
    with flags_of(mode), pytest.raises(RecursionBoundError, match=match):
        MIRRORS.look(UInt(1, 2))

    def again(self: Any, n: Any) -> Any:
        return lj.dispatch(MIRRORS, again, n)

    with flags_of(mode), pytest.raises(RecursionBoundError, match="dispatch: Mirror"):
        lj.dispatch(MIRRORS, again, UInt(1, 2))
    assert list(UInt(1, 2) + 1) == [2, 3]


def test_recursion_errors_of_the_user_come_through() -> None:
    def endless(n: Any) -> Any:
        return endless(n)

    with pytest.raises(RecursionError) as caught:
        lj.switch(UInt(0, 0), [endless], UInt(1, 2))
    assert not isinstance(caught.value, RecursionBoundError)


@lj.syntax
def through_switch(n: Any, k: Any) -> Any:
    r = n
    if n > 0:
        r = lj.switch(k, [_again, lambda n, k: n * 100], n, k) + 1
    return r


def _again(n: Any, k: Any) -> Any:
    return through_switch(n - 1, k)


@pytest.mark.parametrize("mode", EVALUATED)
def test_recursion_through_a_switch(mode: str) -> None:
    with flags_of(mode):
        found = through_switch(Int(1, 2, 9, 0), UInt(0, 0, 1, 0))
        assert list(found) == [1, 2, 901, 0]


def test_recursion_that_no_element_enters() -> None:
    # No element selects a function, so the first one tells the types.
    @lj.syntax
    def down(n: Any) -> Any:
        i = UInt(0)
        while i < n:
            n = lj.switch(UInt(5, 5), [down], n)
        return n

    match = "'down' calls itself for no element.* Fix: put the recursive call"
    with flags_of("evaluated"), pytest.raises(RecursionBoundError, match=match):
        down(UInt(1, 2))
