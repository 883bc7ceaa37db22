"""Flag Debug: accesses out of bounds are masked and reported with the line."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest

import lumijit as lj
from lumijit.compiler.launch import delivery
from lumijit.llvm import Int, UInt

THIS = re.escape(__file__)


@pytest.fixture(autouse=True)
def _debug() -> Any:
    with lj.scoped_set_flag(lj.JitFlag.Debug, True):
        yield
    assert not delivery.waiting().reports


def reported(construct: str, index: int | str, size: int) -> Any:
    text = rf"{THIS}:\d+ in \w+: lumijit\.{construct}\(\): .* position {index} in an "
    return pytest.warns(RuntimeWarning, match=text + f"array of size {size}")


def test_gather() -> None:
    with reported("gather", 7, 3):
        assert list(lj.gather(Int, Int(1, 2, 3), UInt(0, 7, 2))) == [1, 0, 3]


def test_scatter() -> None:
    x = Int(1, 2, 3)
    with reported("scatter", 3, 3):
        lj.scatter(x, 9, UInt(1, 3))
        lj.eval(x)
    assert list(x) == [1, 9, 3]


def test_scatter_add_and_inc() -> None:
    x = UInt(1, 2, 3)
    with reported("scatter", 5, 3):
        lj.scatter_add(x, 9, UInt(1, 5))
        lj.eval(x)
    with reported("scatter_inc", 4, 3):
        lj.scatter_inc(x, UInt(0, 4))
        lj.eval(x)
    assert list(x) == [2, 11, 3]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_in_loops(mode: str) -> None:
    table, bins, counter = Int(1, 2, 3), Int(0, 0), UInt(0)

    def body(i: Any, total: Any) -> Any:
        total = total + lj.gather(Int, table, i)
        return i + 1, total

    state = (UInt(0, 1), Int(0, 0))
    with reported("gather", "[34]", 3):
        _, total = lj.while_loop(state, lambda i, _: i < 5, body, mode=mode)
        assert list(total) == [6, 5]

    def write(i: Any) -> Any:
        lj.scatter_add(bins, 1, i)
        return (i + 1,)

    with reported("scatter", "[23]", 2):
        lj.eval(lj.while_loop((UInt(0, 1),), lambda i: i < 4, write, mode=mode), bins)
    assert list(bins) == [1, 2]

    def count(i: Any) -> Any:
        lj.scatter_inc(counter, i)
        return (i + 1,)

    with reported("scatter_inc", "[12]", 1):
        lj.eval(lj.while_loop((UInt(0, 1),), lambda i: i < 3, count, mode=mode))
        lj.eval(counter)
    assert list(counter) == [1]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_in_branches(mode: str) -> None:
    table = Int(1, 2, 3)
    i = UInt(0, 2, 8, 9)

    def read(i: Any) -> Any:
        return lj.gather(Int, table, i)

    with reported("gather", 8, 3):
        x = lj.if_stmt((i,), i != 9, read, lambda i: Int(-1), mode=mode)
        assert list(x) == [1, 3, 0, -1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = lj.if_stmt((i,), i < 3, read, lambda i: Int(-1), mode=mode)
        assert list(x) == [1, 3, -1, -1]


def test_retraced_loops_report_once() -> None:
    table = Int(1, 2, 3)

    def body(i: Any, k: Any, table: Any) -> Any:
        return i + UInt(lj.gather(Int, table, UInt(3))) + 1, k + 1, table

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result: Any = lj.while_loop((UInt(0, 1), 0, table), lambda i, *_: i < 5, body)
        lj.eval(result)
    assert len(found) == 1
    assert list(result[1]) == [5, 4]
