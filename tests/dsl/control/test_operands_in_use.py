"""Operands that change objects where no method is called by its name.

They do so for the elements that get there: in `and`, `or` and chains, and in conditions
of loops.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.control.in_use import may_act
from lumijit.llvm import Array3f, Float
from lumijit.llvm.ad import PCG32

from .by_element import Program, check


class Walker:
    """Steps along whenever it is asked."""

    def __init__(self, a: Any) -> None:
        self.a = a

    def step(self) -> Any:
        self.a = self.a * 0.75 + 0.5
        return self.a

    @property
    def next(self) -> Any:
        return self.step()

    @property
    def twice(self) -> Any:
        return self.a * 2

    def __getitem__(self, k: Any) -> Any:
        return self.step() * k

    def __lt__(self, other: Any) -> Any:
        return self.step() < other

    def __gt__(self, other: Any) -> Any:
        return self.step() > other


@dataclass
class Struct(Walker):
    a: Any


class Finding(Walker):
    def __getattr__(self, name: str) -> Any:
        if name != "found":
            raise AttributeError(name)
        return self.step()


class Equal(Walker):
    def __eq__(self, other: object) -> Any:
        return self.step() > other


class Slotted(Walker):
    __slots__ = ("a",)


class Scene:
    limit = 1.5

    def __init__(self, walker: Any) -> None:
        self.walkers = {"a": [walker]}


WALKER = Walker(0.0)


def as_condition(k: Any, x: Any, f: Any) -> Any:
    if k < 5 and f.next > 0.75:
        x = x * 2
    return x, f.a


def as_value(k: Any, x: Any, f: Any) -> Any:
    hit = k > 5 or f.next > 0.75 or f.next * x > 1
    return (x * 2 if hit else x), f.a


def negated(k: Any, x: Any, f: Any) -> Any:
    return (x * 2 if not (k < 5 and f[0.5] > 0.75) else x), f.a


def chained(k: Any, x: Any, f: Any) -> Any:
    return (x * 2 if 2 < k < 9 * f.next < 12 * f.next else x), f.a


def compared(k: Any, x: Any, f: Any) -> Any:
    return (x * 2 if k < 5 and f > 0.25 and f < x else x), f.a


def kept_by_name(k: Any, x: Any, f: Any) -> Any:
    if k < 5 and (y := f.next) > 0.75 and y > x:
        x = x * y
    return x, f.a


def turns(k: Any, x: Any, f: Any) -> Any:
    i = 0
    while i < k and f.next * x < 1.25:
        i += 1
        x = x * 1.25
    return x, f.a, i


def only_asked(k: Any, x: Any, f: Any) -> Any:
    i = 0
    while f.next < 1.9:
        i += 1
        x = x + f.a * 0.125
    return x, f.a, i


def left_early(k: Any, x: Any, f: Any) -> Any:
    i = 0
    while f.next < 1.9:
        i += 1
        if i > k:
            break
        if i % 3 == 1:
            continue
        x = x + f.a
        if x > 4 and f[2] > 3:
            return x, f.a, i
    return x, f.a, i


def in_objects(k: Any, x: Any, f: Any) -> Any:
    scene = Scene(f)
    while k > 2 and scene.walkers["a"][0].next < scene.limit:
        k = k - 1
        x = x * 0.75
    return x, f.a


def in_a_closure(k: Any, x: Any, f: Any) -> Any:
    def turn(y: Any) -> Any:
        f.a = f.a * 0.5 + y
        return f.a

    for _ in range(3):
        if k < 5 and f.next > 0.75:
            x = turn(x) * 0.5
    return x, f.a


def in_a_comprehension(k: Any, x: Any, f: Any) -> Any:
    hits = [k < j and f.next > 0.75 for j in range(3, 6)]
    return [x * 2 if hit else x for hit in hits], f.a


def nested(k: Any, x: Any, f: Any) -> Any:
    i = 0
    while i < k:
        if (i < 3 or f.next < 1.5) and not (x > 3 or (x > 2 and f.next > 1)):
            x = x + f.a * 0.5
        i += 1
    return x, f.a


FUNCTIONS = [
    as_condition,
    as_value,
    negated,
    chained,
    compared,
    kept_by_name,
    turns,
    only_asked,
    left_early,
    in_objects,
    in_a_closure,
    in_a_comprehension,
    nested,
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("cls", [Walker, Struct, Slotted])
@pytest.mark.parametrize("symbolic", [True, False])
def test_as_element_by_element(function: Any, cls: Any, symbolic: bool) -> None:
    check(_of(function, cls), symbolic)


def _of(function: Any, cls: Any) -> Program:
    inner = lj.syntax(function)

    def program(k: Any, x: Any) -> Any:
        return (function if isinstance(x, float) else inner)(k, x, cls(x * 0.5))

    return program


@pytest.mark.parametrize("symbolic", [True, False])
def test_attributes_that_are_found_and_globals(symbolic: bool) -> None:
    def found(k: Any, x: Any) -> Any:
        f = Finding(x)
        return (x * 2 if k < 5 and f.found > 0.75 else x), f.a

    def equal(k: Any, x: Any) -> Any:
        f = Equal(x)
        return (x * 2 if k < 5 and f == 0.75 else x), f.a

    def of_the_module(k: Any, x: Any) -> Any:
        WALKER.a = x * 0.5
        while k > 3 and WALKER.next < 1.5:
            k = k - 1
        return k, WALKER.a

    check(found, symbolic)
    check(equal, symbolic)
    check(of_the_module, symbolic)


class Quiet:
    """Nothing that its operators and properties do shows."""

    table = (1, 2)

    def __init__(self, x: Any) -> None:
        self.x = x
        self.rng = PCG32()
        self.numbers = random.Random(0)

    def step(self) -> None:
        self.x = self.x + 1

    @property
    def length(self) -> Any:
        return lj.sqrt(lj.square(self.x)) + self._rest()

    def _rest(self) -> Any:
        return self.table[0]

    def __lt__(self, other: Any) -> Any:
        return self.x < other

    @property
    def drawn(self) -> Any:
        return self.rng.next_float32()

    @property
    def random(self) -> Any:
        return self.numbers.random()

    @property
    def stepped(self) -> Any:
        self.step()
        return self.x

    @property
    def sum(self) -> Any:
        return total(self.x)

    @property
    def noted(self) -> Any:
        return note(self.x)


def total(x: Any) -> Any:
    return lj.sum(x)


NOTES: list[Any] = []


def note(x: Any) -> Any:
    NOTES.append(x)
    return x


def test_what_is_known_to_change_nothing() -> None:
    x, q = Float(1, 2), Quiet(Float(1, 2))
    assert not may_act(lambda q, x: x > 0 and x[0] + 1, (x, 1, Array3f(1), np.ones(3)))
    assert not may_act(lambda q, x: q.x < 1, (q, x))
    assert not may_act(lambda q, x: q.length < 1, (q, x))
    assert not may_act(lambda q, x: q < x, ([{"a": q}], x))
    assert not may_act(lambda q, x: q.sum < x, (q, x))


def test_what_may_change_something() -> None:
    x, q = Float(1, 2), Quiet(Float(1, 2))
    for function in (
        lambda q, x: q.drawn < 1,
        lambda q, x: q.random < 1,
        lambda q, x: q.stepped < 1,
        lambda q, x: q.noted < 1,
        lambda q, x: Quiet(x).noted < 1,
        lambda q, x: WALKER.next < 1,
    ):
        assert may_act(function, (q, x))
    assert may_act(lambda s, x: s.walkers["a"][0] < x, (Scene(Walker(x)), x))
    assert not may_act(lambda s, x: s.limit < x, (Scene(Walker(x)), x))
