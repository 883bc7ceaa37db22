"""Iterators from outside, which a construct can't advance for each of its elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm import Float, UInt
from lumijit.runtime.errors import StateError


def numbers() -> Iterator[int]:
    k = 0
    while True:
        yield k
        k += 1


ITERATORS: dict[str, Callable[[], Iterator[Any]]] = {
    "list": lambda: iter([1] * 6),
    "tuple": lambda: iter((1, 2, 3)),
    "range": lambda: iter(range(9)),
    "dict": lambda: iter({1: 2, 3: 4, 5: 6}),
    "reversed": lambda: reversed([1, 2, 3, 4]),
    "count": itertools.count,
    "generator": numbers,
    "expression": lambda: (1 for _ in range(9)),
    "map": lambda: map(int, "123456"),
    "enumerate": lambda: (k for k, _ in enumerate("abcdef")),
    "zip": lambda: map(sum, zip([1, 1, 1], [1, 1, 1], strict=True)),
    "chain": lambda: itertools.chain([1, 2, 3], [4]),
}


@dr.syntax
def looped(it: Any, n: Any) -> Any:
    i, total = UInt(0), Float(0)
    while i < n:
        total += next(it)
        i += 1
    return total


def functional(it: Any, n: Any) -> Any:
    def body(i: Any, total: Any) -> Any:
        return i + 1, total + next(it)

    return dr.while_loop((UInt(0), Float(0)), lambda i, _: i < n, body)[1]


@pytest.mark.parametrize("name", ITERATORS)
@pytest.mark.parametrize("function", [looped, functional])
def test_advancing_is_refused(name: str, function: Any) -> None:
    with pytest.raises(StateError, match=r"advances 'it': .* take the values before"):
        function(ITERATORS[name](), dr.arange(UInt, 3))


@dr.syntax
def branched(it: Any, x: Any) -> Any:
    y = Float(0)
    if x > 1:
        y = Float(next(it)) + 1
    return y


@dr.syntax
def branched_in_a_loop(it: Any, n: Any) -> Any:
    i, total = UInt(0), Float(0)
    while i < n:
        if i > 0:
            total += next(it)
        i += 1
    return total


@pytest.mark.parametrize("name", ITERATORS)
def test_branches_may_advance(name: str) -> None:
    """Each of their sides is run once, as it is without lanes."""
    expected = next(ITERATORS[name]()) + 1
    x = dr.arange(UInt, 3)
    assert list(branched(ITERATORS[name](), x)) == [0, 0, expected]
    it = ITERATORS[name]()
    found = dr.if_stmt((x,), x > 1, lambda x: Float(next(it)) + 1, lambda x: Float(0))
    assert list(found) == [0, 0, expected]
    with pytest.raises(StateError, match="advances 'it'"):
        branched_in_a_loop(ITERATORS[name](), x)


class Numbered:
    def __init__(self) -> None:
        self.numbers = itertools.count()

    def draw(self, x: Any) -> Any:
        return x + next(self.numbers)


@dr.syntax
def drawn(thing: Any, n: Any) -> Any:
    i, total = UInt(0), Float(0)
    while i < n:
        total = thing.draw(total)
        i += 1
    return total


def test_those_of_objects_are_found() -> None:
    with pytest.raises(StateError, match=r"advances '\w+\.numbers'"):
        drawn(Numbered(), dr.arange(UInt, 3))


@dr.syntax
def inside(n: Any) -> Any:
    i, total = UInt(0), Float(0)
    while i < n:
        total += sum(x for x in (1, 2))
        total += next(iter([3]))
        for k in range(2):
            total += k
        i += 1
    return total


def test_those_made_inside_are_advanced() -> None:
    assert inside(UInt(4))[0] == 28


def test_those_around_stay() -> None:
    it = iter([1, 2])

    def found() -> Iterator[Any]:
        for k in it:
            yield looped(itertools.repeat(k), UInt(3))

    assert [x[0] for x in found()] == [3, 6]
