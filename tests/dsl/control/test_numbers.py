"""Numbers that loops make arrays of are still changed by nothing in place."""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm import Float, UInt
from lumijit.runtime.errors import StateError
from lumijit.standing import STANDING

from ..programs.modes import MODES, flags_of

TURNS = (1, 3, 0, 4)


@pytest.fixture(params=MODES, autouse=True)
def flags(request: pytest.FixtureRequest) -> Any:
    with flags_of(request.param):
        yield request.param


class Plain:
    def __init__(self, n: Any = 0) -> None:
        self.n = n

    def post(self) -> Any:
        before = self.n
        self.n += 1
        return before


@dataclass
class Struct:
    n: Any = 0
    post = Plain.post


class Slots:
    __slots__ = ("n",)
    post = Plain.post

    def __init__(self) -> None:
        self.n = 0


class Default:
    n: Any = 0
    post = Plain.post


class Property:
    _n: Any = 0
    post = Plain.post

    @property
    def n(self) -> Any:
        return self._n

    @n.setter
    def n(self, value: Any) -> None:
        self._n = value


def remembered(o: Any) -> Any:
    old = o.n
    o.n += 1
    return old * 10 + o.n


def twice(o: Any) -> Any:
    first = o.post()
    return first * 10 + o.post()


def in_list(o: Any) -> Any:
    items = [o.n]
    o.n += 2
    items.append(o.n)
    o.n *= 2
    return items[0] * 100 + items[1] * 10 + o.n


def as_variable(o: Any) -> Any:
    a = b = o.n
    a += 1
    o.n = o.n + 1
    c = o.n
    o.n += 1
    return a * 100 + b * 10 + c


def in_dict(o: Any) -> Any:
    entries = {"k": -o.n}
    entries["k"] += 5
    o.n += 1
    return entries["k"] * 10 + o.n


def by_functions(o: Any) -> Any:
    least = a = dr.minimum(o.n, 3)
    a += 5
    most = b = dr.clip(+o.n, 1, 2)
    b += 5
    c = d = dr.select(o.n > 1, o.n, 7)
    c += 5
    o.n += 1
    return least * 100 + most * 10 + d


BODIES = (remembered, twice, in_list, as_variable, in_dict, by_functions)


def plainly(run: Callable[[int], float]) -> list[float]:
    return [float(run(n)) for n in TURNS]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("make", [Plain, Struct, Slots, Default, Property])
def test_attributes(make: Any, body: Any) -> None:
    @dr.syntax
    def loop(o: Any, n: Any, total: Any, k: Any) -> Any:
        while k < n:
            if k != 1:
                total = total * 3 + body(o)
            k += 1
        return total + 1000 * o.n

    found = loop(make(), UInt(*TURNS), Float(0), UInt(0))
    assert list(found) == plainly(lambda n: loop(make(), n, 0, 0))


def test_what_objects_have_goes_on_standing_for_a_number() -> None:
    @dr.syntax
    def loop(n: Any, k: Any, x: Any) -> Any:
        o = Plain()
        while k < n:
            o.post()
            k += 1
        if x > 0:
            o.post()
        return o.post() * 100 + o.post()

    found = loop(UInt(*TURNS), UInt(0), Float(1, -1, 1, -1))
    signs = dict(zip(TURNS, (1, -1, 1, -1), strict=True))
    assert list(found) == plainly(lambda n: loop(n, 0, signs[n]))


def test_nothing_is_kept() -> None:
    before = set(STANDING)

    @dr.syntax
    def loop(o: Any, n: Any, k: Any) -> Any:
        while k < n:
            twice(o)
            k += 1
        return o.n * 2

    loop(Plain(), UInt(*TURNS), UInt(0))
    del loop
    gc.collect()
    assert set(STANDING) <= before


def test_variables_of_numbers_that_others_hold() -> None:
    @dr.syntax
    def loop(n: Any, total: Any) -> Any:
        i = 0
        while i < n:
            o = Plain(i)
            o.post()
            items = [i]
            items[0] += 5
            i += 1
            total = total * 10 + i
        for j in range(n):
            items = [j]
            items[0] += 5
            total = total * 10 + j
        return total

    assert list(loop(UInt(*TURNS), UInt(0))) == plainly(lambda n: loop(n, 0))


def test_a_copy_of_a_counter_in_a_nested_loop() -> None:
    @dr.syntax
    def loop(o: Any, n: Any, total: Any, k: Any) -> Any:
        while k < n:
            inner = Plain(o.n)
            j = 0
            while j < k:
                inner.post()
                j += 1
            total += inner.n * 10
            o.post()
            k += 1
        return total

    o = Plain()
    found = loop(o, UInt(*TURNS), UInt(0), UInt(0))
    assert list(found) == plainly(lambda n: loop(Plain(), n, 0, 0))
    assert list(o.n) == list(TURNS)


@pytest.mark.parametrize("make", [Counter, lambda: defaultdict(int)])
def test_entries_that_begin_as_zeros(make: Any) -> None:
    @dr.syntax
    def loop(entries: Any, n: Any, k: Any) -> Any:
        while k < n:
            before = entries["a"]
            entries["a"] += 2
            entries["b"] += before
            k += 1
        return entries["a"] * 100 + entries["b"]

    found = loop(make(), UInt(*TURNS), UInt(0))
    assert list(found) == plainly(lambda n: loop(make(), n, 0))


def test_a_counter_of_a_base_class() -> None:
    class Base:
        count: Any = 0

    class Derived(Base):
        pass

    def bump() -> Any:
        Derived.count += 1
        return Derived.count

    @dr.syntax
    def loop(n: Any, k: Any, total: Any) -> Any:
        while k < n:
            total += bump()
            k += 1
        return total

    assert list(loop(UInt(*TURNS), UInt(0), Float(0))) == [1, 6, 0, 10]
    assert list(Derived.count) == list(TURNS)
    assert Base.count == 0


def test_an_array_of_the_class_is_no_state() -> None:
    class Shared:
        total = Float(0)

        def add(self, x: Any) -> None:
            self.total += x

    shared = Shared()

    @dr.syntax
    def loop(n: Any, k: Any) -> None:
        while k < n:
            shared.add(k)
            k += 1

    with pytest.raises(StateError, match=r"hared\.total'"):
        loop(UInt(*TURNS), UInt(0))
    assert list(Shared.total) == [0]


def test_a_branch_adds_to_what_the_class_has() -> None:
    @dr.syntax
    def branch(o: Any, n: Any) -> Any:
        if n > 1:
            o.post()
        return o.n

    assert list(branch(Default(), UInt(*TURNS))) == [0, 1, 0, 1]


def test_arrays_are_still_changed_in_place() -> None:
    @dr.syntax
    def loop(x: Any, n: Any) -> Any:
        k = 0
        while k < n:
            y = x
            y += k
            k += 1
        return x

    x = UInt(0, 0, 0, 0)
    assert loop(x, UInt(*TURNS)) is x
    assert list(x) == [0, 3, 0, 6]


class Averaged:
    """An attribute whose setter reads what it replaces."""

    def __init__(self) -> None:
        self._kept: Any = 0.0

    @property
    def value(self) -> Any:
        return self._kept

    @value.setter
    def value(self, given: Any) -> None:
        self._kept = given * 0.5 + self._kept * 0.5


@dr.syntax
def differences(n: Any, x: Any) -> Any:
    """Add up what `t` gains, which is an array from the first turn on."""
    t, i, total = 0.0, 0, 0.0
    while i < n:
        before = t
        t += x
        total += t - before
        i += 1
    return total


@dr.syntax
def averages(n: Any, x: Any) -> Any:
    kept, i = Averaged(), 0
    while i < n:
        kept.value += x
        i += 1
    return kept.value


@pytest.mark.parametrize("function", [differences, averages])
def test_a_number_that_an_array_is_added_to(function: Callable[..., Any]) -> None:
    found = function(UInt(TURNS), Float(1, 2, 3, 4))
    assert list(found) == [function(n, float(k + 1)) for k, n in enumerate(TURNS)]
