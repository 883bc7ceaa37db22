"""`switch` with side effects, inside other control flow, and traced sparingly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

import lumijit as lj
import lumijit.llvm.ad
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.llvm import (
    Bool,
    Float,
    Int,
    UInt,
)
from lumijit.runtime.errors import (
    SymbolicError,
)

from .test_calls import MODES, by_lane, lanes, shifted, square, twice


@pytest.fixture(autouse=True)
def _scope_is_restored() -> Iterator[None]:
    yield
    assert trace.state.scope is ROOT
    assert trace.state.mask is None
    assert trace.state.watched is None
    assert trace.state.guard is None


@pytest.mark.parametrize("mode", MODES)
def test_effects(mode: str) -> None:
    total, log = Float(0, 0), UInt(0, 0, 0, 0, 0)

    def add(k: Any, x: Any) -> Any:
        lj.scatter_add(total, x, UInt(0))
        return x

    def store(k: Any, x: Any) -> Any:
        lj.scatter(log, UInt(x), k)
        lj.scatter_add(total, Float(1), UInt(1))
        return -x

    k, x = UInt(0, 1, 2, 3, 4), Float(1, 2, 3, 4, 5)
    result = lj.switch(UInt(0, 1, 1, 0, 1), [add, store], k, x, mode=mode)
    assert lanes(result) == [1, -2, -3, 4, -5]
    assert lanes(total) == [5, 3]
    assert lanes(log) == [0, 2, 3, 0, 5]


@pytest.mark.parametrize("mode", MODES)
def test_effects_on_arguments(mode: str) -> None:
    def write(out: Any, k: Any) -> Any:
        lj.scatter(out, k * 10, k)
        return k

    out = UInt(1, 1, 1)
    lj.eval(out)
    lj.switch(UInt(0, 1, 0), [write, lambda out, k: k], out, UInt(0, 1, 2), mode=mode)
    assert lanes(out) == [0, 1, 20]


@pytest.mark.parametrize("mode", MODES)
def test_changes_in_place_stay_inside(mode: str) -> None:
    def change(x: Any) -> Any:
        x += 1
        return x

    x = Int(1, 2, 3)
    result = lj.switch(UInt(0, 0, 1), [change, change], x, mode=mode)
    assert lanes(result) == [2, 3, 4]
    assert lanes(x) == [1, 2, 3]
    result += 1
    assert lanes(x) == [1, 2, 3]
    same = lj.switch(UInt(0, 0, 0), [lambda x: x], x, mode=mode)
    same += 1
    assert lanes(x) == [1, 2, 3]


@pytest.mark.parametrize("mode", MODES)
def test_arguments_that_callables_index(mode: str) -> None:
    table, k = Float(1, 2, 3), UInt(2, 0, 1)
    targets = [
        lambda t, k: lj.gather(Float, t, k),
        lambda t, k: lj.gather(Float, t, (k + 1) % 3) * 10,
    ]
    result = lj.switch(UInt(0, 1, 0), targets, table, k, mode=mode)
    assert lanes(result) == [3, 20, 2]


@pytest.mark.parametrize("mode", MODES)
def test_one_array_as_table_and_as_argument(mode: str) -> None:
    x = Int(0, 2, 1)
    targets = [lambda t, k: lj.gather(Int, t, UInt(k)) + 10, lambda t, k: t + k]
    result = lj.switch(UInt(0, 1, 0), targets, x, x, mode=mode)
    assert lanes(result) == [10, 4, 12]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [9, 40, 1000])
def test_many_instances_of_few_functions(mode: str, count: int) -> None:
    index = [(k * 13) % (count + 3) for k in range(130)]
    x = [k % 17 for k in range(130)]
    functions = [twice, square, shifted]
    targets = [functions[(k * k) % 3] for k in range(count)]
    active = [k % 4 != 1 for k in range(130)]
    expected = [
        row if row is not None and is_active else 0
        for row, is_active in zip(by_lane(index, targets, x), active, strict=True)
    ]
    masked = {id(f): lambda v, active, f=f: f(v) for f in functions}
    result = lj.switch(
        UInt(index), [masked[id(f)] for f in targets], Int(x), Bool(active), mode=mode
    )
    assert lanes(result) == expected


@pytest.mark.parametrize("mode", MODES)
def test_returned_array_that_was_written(mode: str) -> None:
    out = Int(5, 5, 5)

    def write(k: Any) -> Any:
        lj.scatter(out, Int(1), k)
        return out

    result = lj.switch(UInt(0, 0, 0), [write], UInt(0, 1, 2), mode=mode)
    assert lanes(result) == [1, 1, 1]


def test_equal_callables_are_traced_once() -> None:
    calls: list[Any] = []

    class Material:
        def eval(self, x: Any) -> Any:
            calls.append(self)
            return x * 3

    def note(x: Any) -> Any:
        calls.append(note)
        return x

    one, other = Material(), Material()
    targets = [note, one.eval, note, one.eval, other.eval]
    index = UInt(0, 1, 2, 3, 4)
    for mode in MODES:
        calls.clear()
        result = lj.switch(index, targets, Int(1, 2, 3, 4, 5), mode=mode)
        assert lanes(result) == [1, 6, 3, 12, 15]
        assert calls == [note, one, other]


def test_callables_without_elements_are_not_called() -> None:
    def never(x: Any) -> Any:
        raise AssertionError

    index = UInt(2, 0, 2)
    result = lj.switch(index, [twice, never, square], Int(1, 2, 3), mode="evaluated")
    assert lanes(result) == [1, 4, 9]


@pytest.mark.parametrize("mode", MODES)
def test_no_element_at_all(mode: str) -> None:
    total = Int(0)

    def effect(x: Any) -> Any:
        lj.scatter_add(total, Int(1), UInt(0))
        return x, 1.5

    for index in (UInt(7, 8), lj.opaque(UInt, 9, 2), UInt()):
        x = lj.zeros(Int, len(index)) + 4
        whole, number = lj.switch(index, [effect, effect], x, mode=mode)
        assert (type(whole), type(number)) == (Int, Float)
        assert lanes(whole) == lanes(number) == [0] * len(index)
    assert lanes(total) == [0]


def test_symbolic_mode_is_one_kernel() -> None:
    index, x = UInt(0, 1, 2, 1), Float(1, 2, 3, 4)
    lj.eval(index, x)
    with lj.scoped_set_flag(lj.JitFlag.KernelHistory, True):
        lj.kernel_history_clear()
        lj.eval(lj.switch(index, [twice, square, shifted], x))
        assert len(lj.kernel_history()) == 1


@pytest.mark.parametrize("mode", MODES)
def test_nested_switch(mode: str) -> None:
    def inner(x: Any, k: Any) -> Any:
        return lj.switch(k, [twice, square, shifted], x, mode=mode)

    index, k, x = [0, 1, 0, 1, 1], [0, 1, 2, 2, 0], [1, 2, 3, 4, 5]
    targets = [inner, lambda x, k: -x]
    result = lj.switch(UInt(index), targets, Int(x), UInt(k), mode=mode)
    assert lanes(result) == [2, -2, 103, -4, -5]


def _walk(i: Any, k: Any, x: Any) -> Any:
    while i < 4:
        if x < 50:
            x = lj.switch(k, [twice, shifted, _count], x)
        else:
            x -= 7
        i += 1
        k = (k + 1) % 3
    return x


@lj.syntax
def _count(x: Any) -> Any:
    steps = x * 0
    while x > 3:
        x -= 3
        steps += 1
    return steps + x


def _count_plain(x: int) -> int:
    steps = 0
    while x > 3:
        x, steps = x - 3, steps + 1
    return steps + x


def _walk_plain(i: int, k: int, x: int) -> int:
    while i < 4:
        x = [twice, shifted, _count_plain][k](x) if x < 50 else x - 7
        i, k = i + 1, (k + 1) % 3
    return x


FLAGS = {
    "symbolic": {},
    "evaluated": {
        lj.JitFlag.SymbolicCalls: False,
        lj.JitFlag.SymbolicLoops: False,
        lj.JitFlag.SymbolicConditionals: False,
    },
    "compressed": {
        lj.JitFlag.SymbolicCalls: False,
        lj.JitFlag.SymbolicLoops: False,
        lj.JitFlag.CompressLoops: True,
        lj.JitFlag.SymbolicConditionals: False,
    },
}


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize("size", [0, 1, 33])
def test_inside_loops_and_conditionals(flags: dict[Any, bool], size: int) -> None:
    rows = [(k % 5, k % 3, 2 * k) for k in range(size)]
    i, k, x = ([row[c] for row in rows] for c in range(3))
    with contextlib.ExitStack() as stack:
        for flag, value in flags.items():
            stack.enter_context(lj.scoped_set_flag(flag, value))
        result = lj.syntax(_walk)(Int(i), UInt(k), Int(x))
        assert lanes(result) == [_walk_plain(*row) for row in rows]


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_many_instances_inside_loops(flags: dict[Any, bool]) -> None:
    targets = [[twice, shifted][k % 2] for k in range(40)]

    @lj.syntax
    def walk(k: Any, x: Any, i: Any) -> Any:
        while i < 5:
            x = lj.switch(k, targets, x)
            k = (k + 7) % 40
            i += 1
        return x

    expected = []
    for lane in range(53):
        x = lane
        for step in range(lane % 4, 5):
            x = targets[(lane + 7 * (step - lane % 4)) % 40](x)
        expected.append(x)
    with contextlib.ExitStack() as stack:
        for flag, value in flags.items():
            stack.enter_context(lj.scoped_set_flag(flag, value))
        k = lj.arange(UInt, 53)
        assert lanes(walk(k % 40, Int(k), Int(k) % 4)) == expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("around", MODES)
def test_effects_inside_conditionals(mode: str, around: str) -> None:
    if (mode, around) == ("evaluated", "symbolic"):
        with pytest.raises(SymbolicError, match="can't be nested"):
            _switch_in_conditional(mode, around)
        return
    result, total = _switch_in_conditional(mode, around)
    assert lanes(result) == [-1, 4, 9, 4, -5]
    assert lanes(total) == [2, 1]


def _switch_in_conditional(mode: str, around: str) -> Any:
    total = UInt(0, 0)

    def count(x: Any, position: int) -> Any:
        lj.scatter_add(total, UInt(1), UInt(position))
        return square(x) if position == 0 else x

    def chosen(x: Any, k: Any) -> Any:
        targets = [lambda x: count(x, 0), lambda x: count(x, 1)]
        return lj.switch(k, targets, x, mode=mode)

    x, k = Int(1, 2, 3, 4, 5), UInt(0, 0, 0, 1, 1)
    active = (x > 1) & (x < 5)
    result = lj.if_stmt((x, k), active, chosen, lambda x, k: -x, mode=around)
    return result, total


@pytest.mark.parametrize("mode", MODES)
def test_callables_that_return_nothing(mode: str) -> None:
    out = Int(0, 0, 0)

    def write(k: Any) -> None:
        lj.scatter(out, Int(k) + 1, k)

    def loop(k: Any) -> None:
        def body(i: Any) -> tuple[Any]:
            lj.scatter_add(out, Int(10), k)
            return (i + 1,)

        lj.while_loop((k * 0,), lambda i: i < 3, body)

    targets = [write, loop]
    assert lj.switch(UInt(0, 1, 0), targets, UInt(0, 1, 2), mode=mode) is None
    assert lanes(out) == [1, 30, 3]
