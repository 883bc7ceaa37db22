"""Recursion under array conditions: bounds, and what happens without and past them."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as lj
from lumijit.compiler import pending, trace
from lumijit.llvm import Int, UInt
from lumijit.runtime.errors import RecursionBoundError, SyntaxTransformError

from ..programs.modes import MODES, flags_of

THIS = re.escape(__file__)


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Any:
    yield
    assert trace.state.scope is trace.ROOT
    assert trace.state.mask is None
    assert not pending.queue.reports


@lj.syntax(max_depth=6)
def bounded(n: Any) -> Any:
    if n <= 1:
        return n - n + 1
    return n * bounded(n - 1)


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


@lj.syntax(max_depth=4)
def bounded_loop(n: Any) -> Any:
    total = UInt(1)
    i = UInt(0)
    while i < n:
        i += 1
        total += bounded_loop(n - i)
    return total


def line_of(function: Any, text: str) -> int:
    """Return the line of a function that has a text."""
    lines, first = inspect.getsourcelines(function)
    return first + [text in line for line in lines].index(True)


@pytest.mark.parametrize("mode", MODES)
def test_the_bound_suffices_exactly(mode: str) -> None:
    with flags_of(mode):
        assert list(bounded(UInt(0, 1, 3, 6))) == [1, 1, 6, 720]


@pytest.mark.parametrize("mode", MODES)
def test_an_element_past_the_bound_is_an_error(mode: str) -> None:
    place = rf"^{THIS}:{line_of(bounded, 'def bounded')} in bounded: @syntax: "
    problem = r"the recursion goes deeper than max_depth=6\. Fix: state a larger bound"
    match = place + problem + r".*\(element 2 and 1 more\)"
    with flags_of(mode), pytest.raises(RecursionBoundError, match=match):
        lj.eval(bounded(UInt(1, 6, 7, 2, 9)))
    lj.eval(UInt(1, 2) + 3)


def test_the_next_evaluation_reports_also_what_nobody_asked_for() -> None:
    bounded(UInt(7, 8))
    with pytest.raises(RecursionBoundError, match="max_depth=6"):
        lj.eval(lj.arange(UInt, 5) * 3)
    lj.eval(lj.arange(UInt, 5) * 4)


def test_recursion_is_masked_by_the_branches_around_it() -> None:
    @lj.syntax
    def around(n: Any) -> Any:
        r = UInt(0)
        if n < 7:
            r = bounded(n)
        return r

    for mode in MODES:
        with flags_of(mode):
            assert list(around(UInt(3, 6, 7, 100))) == [6, 720, 0, 0]


@pytest.mark.parametrize("function", [unbounded, in_a_loop, chosen])
def test_no_bound_is_an_error_that_says_how_to_state_one(function: Any) -> None:
    name = function.__name__
    match = (
        rf"(?s)^{THIS}:\d+ in {name}: @syntax: '{name}' calls itself without end.*"
        r"Fix: .*@syntax\(max_depth=8\).*evaluated.*\n    .*\n +\^$"
    )
    with pytest.raises(RecursionBoundError, match=match):
        function(UInt(1, 2, 3))
    assert list(UInt(1, 2) + 1) == [2, 3]


def test_the_error_names_the_line_of_the_condition() -> None:
    line = line_of(unbounded, "if n <= 1")
    with pytest.raises(RecursionBoundError, match=rf":{line} in unbounded.*"):
        unbounded(UInt(1, 2, 3))


@pytest.mark.parametrize("mode", ["evaluated", "compressed"])
def test_evaluated_recursion_ends_with_the_last_element(mode: str) -> None:
    with flags_of(mode):
        assert list(unbounded(UInt(0, 1, 5, 10, 3))) == [1, 1, 120, 3628800, 6]
        assert list(in_a_loop(UInt(0, 1, 2, 5))) == [1, 2, 4, 32]
        assert list(chosen(UInt(0, 1, 20))) == [0, 2, 40]
        assert list(unbounded(UInt(1, 1))) == [1, 1]


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


def test_a_loop_whose_body_always_recurses() -> None:
    for mode in MODES:
        with flags_of(mode):
            assert list(bounded_loop(UInt(0, 1, 2, 3))) == [1, 2, 4, 8]
            with pytest.raises(RecursionBoundError, match=r"max_depth=4.*element 1"):
                lj.eval(bounded_loop(UInt(3, 4)))


def test_plain_recursion_has_no_bound() -> None:
    assert bounded(20) == math.factorial(20)
    assert bounded(UInt(12))[0] == math.factorial(12)
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


@settings(max_examples=20, deadline=None, derandomize=True)
@given(rows=st.lists(st.tuples(*[st.integers(0, 60)] * 2), min_size=1, max_size=8))
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_greatest_common_divisors(mode: str, rows: list[tuple[int, int]]) -> None:
    @lj.syntax(max_depth=10)
    def gcd(a: Any, b: Any) -> Any:
        return a if b == 0 else gcd(b, a % b)

    with flags_of(mode):
        result = gcd(*(UInt(list(column)) for column in zip(*rows, strict=True)))
        assert list(result) == [math.gcd(*row) for row in rows]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_writes_of_calls_past_the_bound_don_t_happen(mode: str) -> None:
    bins = UInt([0] * 10)

    @lj.syntax(max_depth=3)
    def mark(n: Any) -> Any:
        lj.scatter_add(bins, 1, n)
        if n > 0:
            lj.scatter_add(bins, 100, n)
            mark(n - 1)

    with flags_of(mode):
        mark(UInt(0, 1, 2))
        assert list(bins)[:4] == [3, 202, 101, 0]


def test_functions_keep_their_looks() -> None:
    assert bounded.__name__ == "bounded"
    assert list(inspect.signature(bounded).parameters) == ["n"]
    assert lj.syntax(bounded) is bounded


@pytest.mark.parametrize("depth", [0, -1, 2.5, "3", True])
def test_bounds_are_checked_when_decorating(depth: Any) -> None:
    match = rf"'max_depth' must be a positive int \(got {re.escape(repr(depth))}\)"
    with pytest.raises(SyntaxTransformError, match=match):
        lj.syntax(max_depth=depth)(unbounded.__wrapped__)


def test_generators_have_no_bound() -> None:
    def numbers(n: Any) -> Any:
        yield n

    with pytest.raises(SyntaxTransformError, match="not for generators and coroutines"):
        lj.syntax(max_depth=3)(numbers)


def test_methods_with_the_name_of_a_global_function() -> None:
    class Shape:
        @lj.syntax
        def bounded(self, n: Any) -> Any:
            if n > 3:
                n = bounded(n)
            return n

    assert list(Shape().bounded(UInt(2, 4))) == [2, 24]


class Mirror:
    def look(self, n: Any) -> Any:
        return MIRRORS.look(n)


MIRROR = Mirror()
MIRRORS = lj.instance_array_t(UInt, Mirror)([MIRROR, MIRROR])


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_endless_recursion_of_methods(mode: str) -> None:
    match = (
        rf"^{THIS}:{line_of(Mirror, 'return MIRRORS')} in look: Mirror\.look: "
        r"Mirror\.look calls itself without end while it is traced: .* Fix: put the "
        r"recursive call .* @lumijit\.syntax\(max_depth=8\)"
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


@lj.syntax(max_depth=3)
def through_switch(n: Any, k: Any) -> Any:
    r = n
    if n > 0:
        r = lj.switch(k, [_again, lambda n, k: n * 100], n, k) + 1
    return r


def _again(n: Any, k: Any) -> Any:
    return through_switch(n - 1, k)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_only_elements_that_recurse_are_past_the_bound(mode: str) -> None:
    with flags_of(mode):
        found = through_switch(Int(1, 2, 9, 0), UInt(0, 0, 1, 0))
        assert list(found) == [1, 2, 901, 0]
    match = r"max_depth=3\. Fix: .* \(element 1 and 1 more\)$"
    if mode == "symbolic":
        with pytest.raises(RecursionBoundError, match=match):
            lj.eval(through_switch(Int(1, 9, 9, 9), UInt(0, 0, 1, 0)))
    lj.eval(UInt(1, 2) + 4)


def test_a_switch_of_which_every_callable_is_past_the_bound() -> None:
    @lj.syntax(max_depth=2)
    def deep(n: Any) -> Any:
        r = n
        if n > 0:
            r = lj.switch(UInt(0, 1, 0), [lambda n: deep(n - 1)] * 2, n)
        return r

    assert list(deep(Int(0, 1, 0))) == [0, 0, 0]
    with pytest.raises(RecursionBoundError, match=r"max_depth=2.*\(element 1\)"):
        lj.eval(deep(Int(0, 2, 1)))


@lj.syntax(max_depth=7)
def fibonacci(n: Any) -> Any:
    if n < 2:
        result = n
    else:
        result = fibonacci(n - 1) + fibonacci(n - 2)
    return result


def test_all_calls_past_a_bound_share_one_report() -> None:
    n = UInt(0, 1, 2, 5, 7)
    found = fibonacci(n)
    assert len(pending.queue.reports) == 1
    assert found.numpy().tolist() == [0, 1, 1, 5, 13]
    with pytest.raises(RecursionBoundError, match=r"max_depth=7.*\(element 1"):
        lj.eval(fibonacci(UInt(3, 8, 9)))
    assert fibonacci(n).numpy().tolist() == [0, 1, 1, 5, 13]
