"""Arrays of a loop's state that its body indexes: read at once, or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

import lumijit as lj
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.control import loop_symbolic
from lumijit.llvm import Array3f, Float, UInt
from lumijit.runtime.errors import StateError, SymbolicError

from ..programs.modes import MODES, flags_of

every_mode = pytest.mark.parametrize("mode", MODES)


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    yield
    assert trace.state.scope is ROOT


@lj.syntax
def total(tables: Any, n: Any) -> Any:
    i, x = n - n, lj.zeros(Float, lj.width(n))
    while i < n:
        for table in tables:
            x += lj.gather(Float, table, i)
        i += 1
    return x


def test_one_trace_for_all_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []

    # (Each attempt calls it once; not `apart`, which compiled modules call in C.)
    monkeypatch.setattr(loop_symbolic, "resume", lambda: attempts.append(1))
    tables = [Float(range(k, k + 4)) for k in range(5)]
    assert list(total(tables, UInt(1, 4))) == [10, 70]
    assert len(attempts) == 1


@every_mode
def test_a_table_that_is_also_read_by_element(mode: str) -> None:
    @lj.syntax
    def f(x: Any, n: Any) -> Any:
        i, y = n - n, lj.zeros(Float, 3)
        while i < n:
            y += lj.gather(Float, x, i) + x
            i += 1
        return y, x

    x = Float(1, 10, 100)
    with flags_of(mode):
        y, same = f(x, UInt(1, 2, 3))
    assert list(y) == [2, 31, 411]
    assert same is x


@every_mode
def test_a_table_in_two_loops(mode: str) -> None:
    @lj.syntax
    def f(table: Any, n: Any) -> Any:
        i, y = n - n, lj.zeros(Float, 3)
        while i < n:
            j = n - n
            while j <= i:
                if j > 0:
                    y += lj.gather(Float, table, j)
                y += lj.gather(Float, table, i)
                j += 1
            i += 1
        return y

    with flags_of(mode):
        assert list(f(Float(1, 10, 100), UInt(1, 2, 3))) == [1, 31, 441]


@every_mode
def test_a_nested_array_as_a_table(mode: str) -> None:
    @lj.syntax
    def f(table: Any, n: Any) -> Any:
        i, y = n - n, lj.zeros(Array3f, 2)
        while i < n:
            y += lj.gather(Array3f, table, i)
            i += 1
        return y

    with flags_of(mode):
        y = f(Array3f([1, 2], [3, 4], [5, 6]), UInt(1, 2))
    assert [list(v) for v in y] == [[1, 3], [3, 7], [5, 11]]


def _replace(x: Any) -> Any:
    return x + 1


def _in_place(x: Any) -> Any:
    x += 1
    return x


def _and_back(x: Any) -> Any:
    y = Float(x)
    x += 1
    return y


@pytest.mark.parametrize("change", [_replace, _in_place, _and_back])
def test_a_table_that_changes(change: Any) -> None:
    """What is read would be the contents before the loop."""

    def body(i: Any, x: Any, y: Any) -> Any:
        y += lj.gather(Float, x, i)
        return i + 1, change(x), y

    x, n = Float(1, 10, 100), UInt(1, 2, 3)
    state = (UInt(0), x, Float(0))
    with pytest.raises(StateError, match="both indexed and"):
        lj.while_loop(state, lambda i, x, y: i < n, body, labels=("i", "x", "y"))
    assert list(x) == [1, 10, 100]


@every_mode
def test_a_table_that_is_written(mode: str) -> None:
    @lj.syntax
    def f(x: Any, n: Any) -> Any:
        i, y = n - n, lj.zeros(Float, 1)
        while i < n:
            y += lj.gather(Float, x, i)
            i += 1
        lj.scatter_add(x, y, UInt(0))
        return y

    x = Float(1, 10, 100)
    with flags_of(mode):
        assert list(f(x, UInt(2))) == [11]
    assert list(x) == [12, 10, 100]


def test_an_argument_that_leaked() -> None:
    """After the loop, nothing tells what an argument stood for."""
    kept: list[Any] = []

    def body(i: Any, x: Any) -> Any:
        kept.append(Float(x))
        return i + 1, x

    x = Float(1, 10, 100)
    state = (UInt(0, 0, 0), x)
    with pytest.raises(StateError, match="kept"):
        lj.while_loop(state, lambda i, x: i < 2, body)


@lj.syntax
def of_a_loop(table: Any, x: Any) -> Any:
    k = UInt(0)
    while k < 3:
        x += lj.gather(Float, table(), k)
        k += 1
    return x


@lj.syntax
def of_a_branch(table: Any, x: Any) -> Any:
    if x > 1:
        x += lj.sum(lj.gather(Array3f, table(), UInt(0)))
    return x


def of_a_call(table: Any, x: Any) -> Any:
    def read(x: Any) -> Any:
        return x + sum(lj.gather(Float, table(), UInt(k)) for k in range(3))

    return lj.switch(UInt(0, 1), [lambda x: x, read], x)


@every_mode
@pytest.mark.parametrize("function", [of_a_loop, of_a_branch, of_a_call])
@pytest.mark.parametrize("is_kept", [False, True])
def test_constants_that_a_region_makes(
    mode: str, function: Callable[..., Any], is_kept: bool
) -> None:
    def table() -> Float:
        halves = lj.detach(lj.linspace(Float, 0, 1, 3)) * 2
        return lj.select(lj.arange(Float, 3) > 1, 10, halves + halves * halves)

    find = cache(table) if is_kept else table
    with flags_of(mode):
        x = Float(1, 2)
        first = 13 if function is of_a_loop else 1
        assert list(function(find, x)) == [first, 14]
        assert list(lj.gather(Float, find(), UInt(0, 1, 2))) == [0, 2, 10]


def test_what_a_region_computes_of_data_is_no_constant() -> None:
    data = Float(1, 2, 3)
    with pytest.raises(SymbolicError, match="gather: the array is symbolic"):
        of_a_loop(lambda: data * 2, Float(1, 2))
