"""Objects that change where no method is called by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

import lumijit as lj
from lumijit.control.in_use import may_change_in_use
from lumijit.control.inert import Inert
from lumijit.llvm import Float, Int
from lumijit.llvm.ad import PCG32, Float64

from .by_element import Program, check


@dataclass
class Filter:
    """Smooths what it is called with."""

    a: Any
    count: Any = 0

    def __call__(self, v: Any) -> Any:
        self.a = self.a * 0.5 + v
        self.count = self.count + 1
        return self.a

    @property
    def next(self) -> Any:
        return self(0.25)

    def __getitem__(self, v: Any) -> Any:
        return self(v)

    def __add__(self, v: Any) -> Any:
        return self(v)

    def __contains__(self, v: Any) -> bool:
        self.a = self.a * v
        return True


@dataclass
class Look:
    a: Any

    def step(self) -> None:
        self.a = self.a + 1


@dataclass
class Vector:
    a: Any

    def __add__(self, other: Vector) -> Vector:
        return Vector(self.a + other.a)

    @property
    def twice(self) -> Any:
        return self.a * 2


class Pair(NamedTuple):
    filter: Any
    scale: Any


KEPT = Look(1.0)


def kept(x: Any, *, look: Look = KEPT) -> Any:
    look.a = look.a * 0.5 + x
    return look.a


def called(k: Any, x: Any) -> Any:
    f = Filter(x)
    for _ in range(k):
        x = x * 0.25 + f(1)
    return x, f.a, f.count


def called_in_a_branch(k: Any, x: Any) -> Any:
    f = Filter(x)
    for i in range(k):
        if x < 2:
            x = x * 0.5 + f(i)
    return x, f.a, f.count


def called_in_conditions(k: Any, x: Any) -> Any:
    f = Filter(x)
    while f(0.5) < 0.7431 and f.count < k:
        x = x + 1
        if f(0.25) > 0.4177:
            x = x + f.a * 0.5
    return x, f.a, f.count


def read(k: Any, x: Any) -> Any:
    f = Filter(x)
    for _ in range(k):
        x = x * 0.25 + f.next
    return x, f.a


def subscripted(k: Any, x: Any) -> Any:
    f = Filter(x)
    if k > 3:
        x = f[2] * 0.5
    return x, f.a


def operated_on(k: Any, x: Any) -> Any:
    f = Filter(x)
    for _ in range(k):
        x = (f + x) * 0.5
    return x, f.a


def searched(k: Any, x: Any) -> Any:
    f = Filter(x)
    for _ in range(k):
        x = x + 1 if 0.5 in f else x
    return x, f.a


def in_trees(k: Any, x: Any) -> Any:
    filters: dict[str, Any] = {"a": [Filter(x)], "b": Pair(Filter(x * 2), x)}
    for _ in range(k):
        x = filters["a"][0](x * 0.25)
        if x < 1:
            x = x + filters["b"].filter.next * filters["b"].scale
    return x, filters["a"][0].a, filters["b"].filter.a


def through_a_lambda(k: Any, x: Any) -> Any:
    f = Filter(x)
    g = lambda v: f(v) * 0.5  # noqa: E731
    for _ in range(k):
        x = x * 0.5 + (lambda: f(1))()
        if x > 1:
            x = g(x)
    return x, f.a


def exchanged(k: Any, x: Any) -> Any:
    """The first turn is another one than those after it."""
    f, look = Filter(x), Look(x)
    for _ in range(k):
        look.step()
        look = Look(look.a * 0.5 + f(1))
    return look.a, f.a


def by_a_default(k: Any, x: Any) -> Any:
    KEPT.a = x
    for _ in range(k):
        if x < 2:
            x = kept(x) * 0.5
    return x, KEPT.a


def noted(x: Any) -> Any:
    KEPT.a = KEPT.a * 0.5 + x
    return x


def beside_a_global(k: Any, x: Any) -> Any:
    """What called functions change is found, whoever calls them."""
    f, KEPT.a = Filter(x), x
    for _ in range(k):
        x = x * 0.25 + f.next
        noted(x)
    if k > 4:
        x = noted(x) + f.next
    return x, f.a, KEPT.a


PROGRAMS = [
    beside_a_global,
    called,
    called_in_a_branch,
    called_in_conditions,
    read,
    subscripted,
    operated_on,
    searched,
    in_trees,
    through_a_lambda,
    exchanged,
    by_a_default,
]


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("symbolic", [True, False])
def test_as_element_by_element(function: Program, symbolic: bool) -> None:
    check(function, symbolic)


def test_which_may_change() -> None:
    x = Float(1)
    assert may_change_in_use((Filter(x),))
    assert may_change_in_use([{"a": (1, Pair(Filter(x), x))}])
    # Methods that are called by their names are seen in the code.
    assert not may_change_in_use((Look(x),))
    assert not may_change_in_use((PCG32(),))
    # Nothing is changed.
    assert not may_change_in_use([Vector(x), Pair(x, 1)])


def test_the_object_stays_what_it_is() -> None:
    f = Filter(Float64(1, 2))

    @lj.syntax
    def program(f: Any, x: Any) -> Any:
        if x > 1:
            x = f(x)
        return x

    held = f.a
    assert list(program(f, Float64(1, 2))) == [1, 3]
    assert list(f.a) == [1, 3]
    assert list(f.count) == [0, 1]
    assert f.a is held or list(held) == [1, 2]


def test_what_defaults_by_name_hold_is_watched() -> None:
    def adds(x: Any, *, look: Look = KEPT) -> Any:
        return x + look.a

    def counts(x: Any, *, by: int = 2) -> Any:
        return x + by

    assert not Inert().are_all((adds,), (Float(1),))
    assert Inert().are_all((counts,), (Int(1),))


@lj.syntax
def told_apart(x: Any, k: Any, change: Any, y: Any) -> Any:
    """Has a variable that is called as one of another function, and holds the same."""
    if k > 2:
        for i in range(k):
            change(x * i)
        return x + y
    return x - y


def changing(x: Any) -> tuple[Any, Any, Any]:
    y = x * 0.5

    def change(v: Any) -> None:
        nonlocal y
        y = v * 2

    return change, lambda: y, y


@pytest.mark.parametrize("symbolic", [True, False])
def test_variables_of_one_name_and_value(symbolic: bool) -> None:
    pairs = list(zip((1.0, 2.0, 3.0), (1, 3, 4), strict=True))
    want = []
    for x, k in pairs:
        change, read, y = changing(x)
        want.append((told_apart(x, k, change, y), read()))
    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
    ):
        change, read, y = changing(Float64(1, 2, 3))
        found = told_apart(Float64(1, 2, 3), Int(1, 3, 4), change, y)
    assert list(zip(found, read(), strict=True)) == want
