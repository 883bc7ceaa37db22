"""`and` and `or`: the right operand changes objects for those who get there only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import PCG32, Bool, Float, UInt
from lumijit.runtime.errors import ArrayTypeError

SIZE = 40
MODES = ("symbolic", "evaluated")


class Counter:
    """Counts how often it was asked, and answers by a threshold."""

    DRJIT_STRUCT = {"asked": UInt, "limit": UInt}

    def __init__(self, limit: Any = 0) -> None:
        self.asked = UInt(0)
        self.limit = UInt(limit)

    def ask(self) -> Bool:
        self.asked += 1
        return self.asked <= self.limit


class Lane:
    """The same for one element in plain Python."""

    def __init__(self, limit: int) -> None:
        self.asked, self.limit = 0, limit

    def ask(self) -> bool:
        self.asked += 1
        return self.asked <= self.limit


def ask(counter: Any) -> Any:
    return counter.ask()


def function(k: Any, c: Any) -> Any:
    return k % 2 == 1 and ask(c)


def both(k: Any, c: Any) -> Any:
    return k % 2 == 1 and c.ask()


def either(k: Any, c: Any) -> Any:
    return k % 2 == 1 or c.ask()


def several(k: Any, c: Any) -> Any:
    return k % 2 == 1 and k % 3 != 0 and c.ask() and c.ask()


def mixed(k: Any, c: Any) -> Any:
    return (k % 5 == 1 and c.ask()) or (k % 3 == 1 and not c.ask()) or c.ask()


def inside(k: Any, c: Any) -> Any:
    return (1 if k % 2 == 1 and c.ask() else 2) > 1 and c.ask()


def chained(k: Any, c: Any) -> Any:
    return 1 < k % 5 < (3 if c.ask() else 4)


CASES = (chained, function, both, either, several, mixed, inside)


def expected(f: Any) -> tuple[list[int], list[int]]:
    values, asked = [], []
    for k in range(SIZE):
        lane = Lane(k % 7)
        values.append(int(bool(f(k, lane))))
        asked.append(lane.asked)
    return values, asked


@pytest.mark.parametrize("f", CASES)
@pytest.mark.parametrize("mode", MODES)
def test_expressions(f: Any, mode: str) -> None:
    counter = Counter(dr.arange(UInt, SIZE) % 7)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, mode == "symbolic"):
        found = dr.syntax(f)(dr.arange(UInt, SIZE), counter)
        found = dr.select(found, UInt(1), UInt(0))
        values, asked = expected(f)
        np.testing.assert_array_equal(found.numpy(), values)
        np.testing.assert_array_equal(counter.asked.numpy(), asked)


def walk(k: Any, n: Any, c: Any) -> Any:
    while k < n and c.ask():
        k += 1
    return k


def walk_by_function(k: Any, n: Any, c: Any) -> Any:
    while ask(c):
        k += 1
        if k > n:
            break
    return k


def stroll(k: Any, n: Any, c: Any) -> Any:
    while ask(c) or k < n:
        k += 1
        if k % 3 == 0:
            continue
        k += 1
        if k > 9 and not ask(c):
            break
    return k


@pytest.mark.parametrize("walk", [walk, walk_by_function, stroll])
@pytest.mark.parametrize("mode", MODES)
def test_loops(walk: Any, mode: str) -> None:
    counter = Counter(dr.arange(UInt, SIZE) % 7)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, mode == "symbolic"):
        found = dr.syntax(walk)(UInt(0), dr.arange(UInt, SIZE) % 5, counter)
        lanes = [Lane(k % 7) for k in range(SIZE)]
        wanted = [walk(0, k % 5, lane) for k, lane in enumerate(lanes)]
        np.testing.assert_array_equal(found.numpy(), wanted)
        asked = [lane.asked for lane in lanes]
        np.testing.assert_array_equal(counter.asked.numpy(), asked)


@pytest.mark.parametrize("mode", MODES)
def test_generators_advance_for_those_who_draw(mode: str) -> None:
    @dr.syntax
    def f(k: UInt, rng: PCG32) -> UInt:
        r = UInt(0)
        if k < 3 and rng.next_float32() < 2:
            r = UInt(1)
        return r

    with dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, mode == "symbolic"):
        rng, once = PCG32(size=6), PCG32(size=6)
        before = once.state.numpy().copy()
        found = f(dr.arange(UInt, 6), rng)
        once.next_float32()
        assert found.numpy().tolist() == [1, 1, 1, 0, 0, 0]
        after = once.state.numpy()
        np.testing.assert_array_equal(rng.state.numpy()[:3], after[:3])
        np.testing.assert_array_equal(rng.state.numpy()[3:], before[3:])


def test_methods_that_change_nothing() -> None:
    class Vector:
        DRJIT_STRUCT = {"x": Float, "y": Float}

        def __init__(self) -> None:
            self.x = Float(1, 2, 3)
            self.y = Float(2, 2, 9)

        def is_steep(self) -> Bool:
            return self.y > self.x

    @dr.syntax
    def g(x: Float, v: Any) -> Float:
        return x * 2 if x > 0 and v.is_steep() else x

    assert g(Float(1, 2, -3), Vector()).numpy().tolist() == [2, 2, -3]


def test_writes() -> None:
    @dr.syntax
    def f(hit: Bool, count: UInt) -> Bool:
        return hit and dr.scatter_inc(count, UInt(0)) < 2

    count = UInt(0)
    found = f(Bool(True, False, True, False, True), count)
    assert dr.count(found).numpy().tolist() == [2]
    assert count.numpy().tolist() == [3]


def test_operands_that_are_no_masks_are_refused() -> None:
    class Box:
        def value(self) -> Float:
            return Float(1, 2)

    @dr.syntax
    def f(x: Float, box: Any) -> Any:
        return x > 0 and box.value()

    with pytest.raises(TypeError):
        f(Float(1, -1), Box())


def test_plain_operands_are_pythons() -> None:
    class Box:
        asked = 0

        def value(self) -> str:
            self.asked += 1
            return "asked"

    @dr.syntax
    def f(x: Any, box: Any) -> Any:
        return x and box.value(), x or box.value()

    box = Box()
    assert f(0, box) == (0, "asked")
    assert f("x", box) == ("asked", "x")
    assert f([], box) == ([], "asked")
    assert box.asked == 3


def counts_in_a_condition(k: Any, zero: Any) -> Any:
    count, r, i = zero, zero, zero

    def add(value: Any) -> Any:
        nonlocal count
        count = count + value
        return count

    while i < k:
        if i % 2 == 0 and add(i) > 3:
            r = r + 1
        i = i + 1
    return r * 1000 + count


def counts_in_an_expression(k: Any, zero: Any) -> Any:
    count, r, i = zero, zero, zero

    def add(value: Any) -> Any:
        nonlocal count
        count = count + value
        return count

    while i < k:
        r = r + (add(i) if i % 2 == 0 else 0)
        i = i + 1
    return r * 1000 + count


@pytest.mark.parametrize("f", [counts_in_a_condition, counts_in_an_expression])
@pytest.mark.parametrize("mode", MODES)
def test_variables_that_inner_functions_change(f: Any, mode: str) -> None:
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, mode == "symbolic"),
        dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, mode == "symbolic"),
    ):
        for zero in (0, UInt(0)):
            found = UInt(dr.syntax(f)(dr.arange(UInt, 9), zero))
            assert found.numpy().tolist() == [f(k, 0) for k in range(9)]


def a_number(x: Any) -> Any:
    return x > 1 and 5


def a_float(x: Any) -> Any:
    return x > 1 or 7.5


def chosen(x: Any) -> Any:
    return (x > 1 and 5) or 7


def nothing(x: Any) -> Any:
    return x > 1 or None


def an_array(x: Any) -> Any:
    return x > 1 and x * 2


def bits(x: Any) -> Any:
    return UInt(x) or UInt(x) + 1


def a_test(x: Any) -> Any:
    return 1 if x > 1 and x else 2


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (a_number, "'and': .* has type 'int' .*'a if condition else b', or pass"),
        (a_float, "'or': .* has type 'float'"),
        (chosen, "'and': .* has type 'int'"),
        (nothing, "'or': .* has type 'NoneType'"),
        (an_array, r"'and': .* has type 'Float' .* or compare it \(x != 0\)"),
        (bits, "'or': .* has type 'UInt'"),
        (a_test, "'and': .* has type 'Float'"),
    ],
)
def test_operands_that_are_values_are_refused(f: Any, message: str) -> None:
    with pytest.raises(ArrayTypeError, match=f"in {f.__name__}: operator {message}"):
        dr.syntax(f)(Float(1, 2, 0.25))


def test_truth_of_operands_counts_in_tests() -> None:
    def plain(x: Any, items: list[int]) -> Any:
        if x > 1 and items:
            x += 10
        while (x < 8 and items) or False:
            x *= 2
        x += 0.5 if (x > 9 or items) and len(items) else 0
        assert x > 0 or items
        found = [k for k in items if Bool(True) and k]
        return x, not (x > 10 and items), found

    function = dr.syntax(plain)
    for items in ([], [1, 2]):
        expected = [plain(float(v), items) for v in (1, 2, 4)]
        x, mask, found = function(Float(1, 2, 4), items)
        assert list(x) == [row[0] for row in expected]
        assert list(Bool(mask)) in ([row[1] for row in expected], [mask])
        assert found == items


@pytest.mark.parametrize("value", [True, np.bool_(True), Bool(True), Bool(1, 1, 1)])
def test_operands_that_are_masks_or_bools(value: Any) -> None:
    @dr.syntax
    def function(x: Any) -> Any:
        return x > 1 and value, value and x > 1, x > 1 or not value

    for mask in function(Float(1, 2, 0.25)):
        assert list(mask) == [False, True, False]
