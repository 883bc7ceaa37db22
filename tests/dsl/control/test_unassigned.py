"""Variables that get their first value in a loop, read after it."""

from __future__ import annotations

from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm import Float, UInt
from lumijit.syntax.undefined import UndefinedVariableError

from ..programs.modes import MODES, flags_of


@pytest.fixture(params=MODES, autouse=True)
def flags(request: pytest.FixtureRequest) -> Any:
    with flags_of(request.param):
        yield request.param


def refused(name: str, kind: str) -> Any:
    match = (
        rf"variable '{name}' is read, but it has no value here: elements that don't "
        rf"enter the vectorized loop leave it without one \('{kind}' at .*:\d+\). "
        rf"Fix: assign '{name}' before"
    )
    return pytest.raises(UndefinedVariableError, match=match)


def test_elements_that_never_enter_have_no_value() -> None:
    @dr.syntax
    def loop(n: Any) -> Any:
        i = UInt(0)
        while i < n:
            last = i * 10
            i += 1
        return last

    @dr.syntax
    def counted(n: Any) -> Any:
        for i in range(n):  # noqa: B007
            pass
        return i

    for count in (UInt(0, 3), UInt(2, 3)):
        with refused("last", "while"):
            loop(count)
        with refused("i", "for"):
            counted(count)


def test_reads_in_later_constructs_are_refused() -> None:
    @dr.syntax
    def branch(n: Any) -> Any:
        i, result = UInt(0), UInt(77)
        while i < n:
            last = i
            i += 1
        if n > 0:
            result = last
        return result

    with refused("last", "while"):
        branch(UInt(0, 3))


def test_loops_that_are_surely_entered() -> None:
    @dr.syntax
    def counted(n: Any) -> Any:
        for i in range(n):  # noqa: B007
            pass
        return i

    @dr.syntax
    def until(n: Any) -> Any:
        i = UInt(0)
        while True:
            last = i * 10
            i += 1
            if i >= n:
                break
        return last

    assert counted(3) == 2
    assert list(until(UInt(1, 3))) == [0, 20]


def test_a_condition_that_is_known_to_hold(flags: str) -> None:
    @dr.syntax
    def counted(n: Any) -> Any:
        for i in range(n):  # noqa: B007
            pass
        return i

    if flags == "unfolded":
        return
    assert list(counted(UInt(3))) == [2]
    with refused("i", "for"):
        counted(UInt(0))


def test_what_is_not_read_needs_no_value() -> None:
    @dr.syntax
    def nested(n: Any) -> Any:
        i, total = UInt(0), UInt(0)
        while i < n:
            j = UInt(0)
            while j < i:
                item = j * 2
                total = total + item
                j += 1
            i += 1
        item = total
        return item

    @dr.syntax
    def returned(x: Any) -> Any:
        while True:
            if x > 5:
                return x
            x = x + 1

    assert list(nested(UInt(0, 2, 4))) == [0, 0, 8]
    assert list(returned(Float(1, 7))) == [6, 7]
