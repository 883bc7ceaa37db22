"""Containers that control flow changes stay the caller's objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm import PCG32, Float, UInt32

MODES = ["symbolic", "evaluated"]


class Walker:
    """A struct with an array, a generator and a list."""

    DRJIT_STRUCT = {"x": Float, "rng": PCG32, "items": list}

    def __init__(self) -> None:
        self.x = Float(0, 0, 0)
        self.rng = PCG32(size=3)
        self.items = [Float(0, 0, 0), Float(5)]

    def step(self) -> None:
        self.x = self.x + 1

    @lj.syntax
    def loop(self, n: Any, mode: Any) -> None:
        i = UInt32(0)
        while lj.hint(i < n, mode=mode):
            self.x += 1
            self.rng.next_float32()
            self.items[0] += 2
            i += 1

    @lj.syntax
    def branch(self, n: Any, mode: Any) -> None:
        if lj.hint(n > 1, mode=mode):
            self.x = self.x + 10
            self.rng.next_float32()
            self.items[0] += 2

    @lj.syntax
    def called(self, n: Any, mode: Any) -> None:
        while lj.hint(n > 0, mode=mode):
            self.step()
            n -= 1

    @lj.syntax
    def replaced(self, n: Any, mode: Any) -> None:
        while lj.hint(n > 0, mode=mode):
            self.items = [self.items[0] + 1, self.items[1]]
            n -= 1


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def advanced(rng: PCG32, before: PCG32) -> list[bool]:
    return [bool(v) for v in rng.state.numpy() != before.state.numpy()]


def test_loops_change_the_object_and_what_is_in_it(mode: str) -> None:
    walker = Walker()
    rng, items, before = walker.rng, walker.items, PCG32(size=3)
    last = items[1]
    walker.loop(UInt32(1, 2, 0), mode)
    assert walker.rng is rng
    assert walker.items is items
    assert list(walker.x) == [1, 2, 0]
    assert list(items[0]) == [2, 4, 0]
    assert items[1] is last
    assert advanced(rng, before) == [True, True, False]


def test_branches_change_the_object(mode: str) -> None:
    walker = Walker()
    rng, items, before = walker.rng, walker.items, PCG32(size=3)
    walker.branch(UInt32(1, 2, 3), mode)
    assert walker.rng is rng
    assert list(walker.x) == [0, 10, 10]
    assert list(items[0]) == [0, 2, 2]
    assert advanced(rng, before) == [False, True, True]


def test_methods_of_a_struct_change_it(mode: str) -> None:
    walker = Walker()
    walker.called(UInt32(1, 2, 3), mode)
    assert list(walker.x) == [1, 2, 3]


def test_a_container_that_was_replaced_leaves_the_old_one(mode: str) -> None:
    walker = Walker()
    items = walker.items
    walker.replaced(UInt32(1, 2, 3), mode)
    assert list(walker.items[0]) == [1, 2, 3]
    assert walker.items is not items
    assert list(items[0]) == [0, 0, 0]


def test_conditional_expressions_change_what_they_call() -> None:
    @lj.syntax
    def draw(rng: PCG32, n: Any) -> Any:
        return rng.next_float32() if n > 1 else Float(0)

    rng, expected = PCG32(size=3), PCG32(size=3)
    first = draw(rng, UInt32(1, 2, 3)).numpy()
    assert advanced(rng, PCG32(size=3)) == [False, True, True]
    reference = expected.next_float32().numpy()
    np.testing.assert_array_equal(first, np.where([False, True, True], reference, 0))


def test_names_for_one_array_stay_so(mode: str) -> None:
    """As outside of constructs, where `a = b; a += 1` changes what both name."""

    @lj.syntax
    def f(x: Any) -> Any:
        first, second = [x], [x]
        while lj.hint(first[0] < 5, mode=mode):
            first[0] += 1
        return first, second, x

    first, second, x = f(Float(1, 7))
    assert list(first[0]) == [5, 7]
    assert first[0] is second[0] is x


def test_dictionaries_tuples_and_frozen_dataclasses(mode: str) -> None:
    @dataclass(frozen=True)
    class Frozen:
        values: dict[str, Any]

    @lj.syntax
    def f(frozen: Any, pair: Any, n: Any) -> None:
        while lj.hint(n > 0, mode=mode):
            frozen.values["a"] += 1
            pair[1][0] += 2
            n -= 1

    inner, listed = {"a": Float(0, 0)}, [Float(0, 0)]
    frozen, pair = Frozen(inner), (Float(1), listed)
    f(frozen, pair, UInt32(1, 2))
    assert frozen.values is inner
    assert list(inner["a"]) == [1, 2]
    assert pair[1] is listed


def test_names_of_one_list_see_changes(mode: str) -> None:
    @lj.syntax
    def f(values: Any, n: Any) -> Any:
        other = values
        while lj.hint(n > 0, mode=mode):
            values[0] += len(values)
            n -= 1
        return other[0]

    values = [Float(0, 0), Float(1)]
    assert list(f(values, UInt32(1, 2))) == [2, 4]
    assert list(values[0]) == [2, 4]


def test_nested_constructs_change_the_outermost_object(mode: str) -> None:
    @lj.syntax
    def f(walker: Walker, n: Any) -> None:
        while lj.hint(n > 0, mode=mode):
            if lj.hint(n > 1, mode=mode):
                walker.step()
                walker.items[0] += 1
            n -= 1

    walker = Walker()
    items = walker.items
    f(walker, UInt32(1, 2, 3))
    assert list(walker.x) == [0, 1, 2]
    assert list(items[0]) == [0, 1, 2]
