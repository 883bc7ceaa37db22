"""What a loop's last run found out: later runs trace once, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm import Float, Int, UInt
from lumijit.llvm.ad import Float as TrackedFloat
from lumijit.runtime.errors import LumijitError

# (A number would be one for each element, as in plain Python.)
traces: list[None] = []


def note() -> None:
    traces.append(None)


def count(function: Any, *args: Any) -> tuple[Any, int]:
    """Call a function; return its result, and how often bodies were traced."""
    traces.clear()
    found = function(*args)
    return found, len(traces)


@lj.syntax
def total(x: Any, start: Any, scale: Any, turns: int) -> tuple[Any, Any]:
    k = UInt(0)
    found = start
    factor = scale
    while k < turns:
        note()
        found = found + x * factor
        k += 1
    return found, k


def test_later_runs_trace_once() -> None:
    for size in (1, 7, 7, 300):
        x = lj.arange(Float, size) + 1
        (found, k), turns = count(total, x, Float(0), Float(2), 5)
        np.testing.assert_array_equal(found, 10 * (np.arange(size) + 1))
        np.testing.assert_array_equal(k, 5)
    assert turns == 1


def test_of_loops_in_loops_each_is_traced_once() -> None:
    @lj.syntax
    def nested(x: Any) -> Any:
        k, found = UInt(0), Float(0)
        while k < 3:
            j, inner = UInt(0), Float(1)
            while j < 2:
                note()
                inner *= x
                j += 1
            found += inner
            k += 1
        return found

    x = lj.arange(Float, 5)
    assert [count(nested, x)[1] for _ in range(3)][1:] == [1, 1]
    np.testing.assert_array_equal(nested(x), 3 * np.arange(5) ** 2)


def test_a_variable_that_grew_and_no_longer_does() -> None:
    step = lj.arange(Float, 6)

    def run() -> Any:
        def body(k: Any, a: Any) -> Any:
            return k + 1, a + step

        return lj.while_loop((UInt(0), Float(0)), lambda k, a: k < 3, body)

    for wide in (True, False, True, True, False):
        step = lj.arange(Float, 6) if wide else lj.opaque(Float, 2)
        _, a = run()
        assert len(a) == (6 if wide else 1)
        np.testing.assert_array_equal(a, 3 * np.arange(6) if wide else [6])


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_numbers_that_became_arrays_and_no_longer_do(mode: str) -> None:
    @lj.syntax
    def run(x: Any, is_counting: bool) -> Any:
        n = 5
        while lj.hint(x > 1, mode=mode):
            x = x / 2
            if is_counting:
                n += 1
        return n

    x = Float(1, 2, 4)
    np.testing.assert_array_equal(run(x, True), [5, 6, 7])
    kept = run(x, False)
    assert type(kept) is int
    assert kept == 5
    np.testing.assert_array_equal(run(x, True), [5, 6, 7])


def test_an_array_that_was_indexed_and_is_then_changed() -> None:
    @lj.syntax
    def run(table: Any, x: Any, is_read: bool) -> Any:
        k = UInt(0)
        while k < 3:
            if lj.hint(is_read, mode="scalar"):
                x = x + lj.gather(Float, table, k)
            else:
                table = table * 2
            k += 1
        return table, x

    for is_read in (True, False, True):
        table, x = run(lj.arange(Float, 4) + 1, lj.zeros(Float, 4), is_read)
        expected = np.arange(4) + 1.0
        np.testing.assert_array_equal(table, expected * (1 if is_read else 8))
        np.testing.assert_array_equal(x, [6 if is_read else 0] * 4)


def test_a_literal_that_stayed_constant_and_then_changes() -> None:
    @lj.syntax
    def run(x: Any, step: int) -> Any:
        k, n = UInt(0), Int(3)
        while k < 4:
            x = x * n
            if lj.hint(step != 0, mode="scalar"):
                n = n + step
            k += 1
        return x, n

    for step in (0, 1, 0, 1):
        x, n = run(Int(1, 2), step)
        assert n[0] == 3 + 4 * step
        factor = 3 * 4 * 5 * 6 if step else 81
        np.testing.assert_array_equal(x, [factor, 2 * factor])


def test_a_body_of_any_kind_is_a_body() -> None:
    """Objects that can be called have attributes of their own."""

    class Body:
        memory = "mine"

        def __call__(self, k: Any, x: Any) -> Any:
            return k + 1, x * 2

    for size in (1, 3):
        state = UInt(0), lj.full(Float, 1, size)
        _, x = lj.while_loop(state, lambda k, x: k < 3, Body())
        np.testing.assert_array_equal(x, [8] * size)


def test_variables_and_local_buffers_are_not_each_others_reason_to_grow() -> None:
    @lj.syntax
    def fill(x: Any) -> tuple[Any, Any]:
        buffer = lj.alloc_local(Float, 2)
        buffer[0] = x
        k = UInt(0)
        while k < 2:
            if buffer[k] < 0.5:
                break
            r = UInt(k)
            while r < 2:
                buffer[r] = 2
                r += 1
            k += 1
        return buffer[0], k

    for size in (7, 1, 3, 0, 4, 1):
        x = lj.arange(Float, size)
        first, k = fill(x)
        np.testing.assert_array_equal(first, 2 * np.minimum(x, 1))
        np.testing.assert_array_equal(k, 2 * np.minimum(x, 1))


@lj.syntax
def summed_up(values: Any, turns: int, is_early: bool = False) -> tuple[Any, Any]:
    first = lj.alloc_local(Float, 2, value=Float(1))
    other = lj.alloc_local(Float, 2, value=Float(1))
    k = UInt(0)
    while k < turns:
        note()
        buffer = other if is_early else first
        buffer[k] = buffer[0] + values
        first[1] = first[1] + 1
        k += 1
    return first[0], other[0]


def test_local_buffers_that_grow_are_foreseen() -> None:
    for size in (5, 5, 9, 9):
        values = lj.arange(Float, size)
        (found, other), turns = count(summed_up, values, 1)
        np.testing.assert_array_equal(found, 1 + np.arange(size))
        np.testing.assert_array_equal(other, [1])
    assert turns == 1


@pytest.mark.parametrize("is_early", [False, True])
def test_local_buffers_that_grew_and_no_longer_do(is_early: bool) -> None:
    wide, narrow = lj.arange(Float, 6), lj.opaque(Float, 2)
    for values in (wide, narrow, wide, wide, narrow):
        for early in (False, is_early):
            pair, _ = count(summed_up, values, 1, early)
            changed, other = pair[::-1] if early else pair
            np.testing.assert_array_equal(changed, 1 + np.asarray(values))
            np.testing.assert_array_equal(other, 1)
            assert len(changed) == len(values)
            assert early or len(other) == 1


def test_errors_are_those_of_a_first_run() -> None:
    @lj.syntax
    def run(x: Any, y: Any) -> Any:
        k, found = UInt(0), Float(0)
        while k < 2:
            found = found + x * y
            k += 1
        return found

    run(lj.zeros(Float, 3), lj.zeros(Float, 3))
    for _ in range(2):
        with pytest.raises(
            lj.runtime.errors.SizeError, match=r"incompatible sizes \(3, 4\)"
        ):
            run(lj.zeros(Float, 3), lj.zeros(Float, 4))
        np.testing.assert_array_equal(run(lj.zeros(Float, 3), lj.zeros(Float, 3)), 0)


def test_derivatives_are_those_of_a_first_run() -> None:
    for k in range(3):
        x = TrackedFloat(1, 2, 3)
        lj.enable_grad(x)
        found, _ = total(x, TrackedFloat(0), TrackedFloat(2), 3 + k)
        lj.backward(found)
        np.testing.assert_array_equal(x.grad, [2 * (3 + k)] * 3)


def test_a_condition_is_traced_twice() -> None:
    """Once to tell that it is an array, and once in the loop."""

    def below(i: UInt, n: UInt) -> Any:
        note()
        return i < n

    @lj.syntax
    def last(n: UInt) -> UInt:
        i = UInt(0)
        while below(i, n):
            i += 1
        return i

    last(UInt(3, 5))
    found, traced = count(last, UInt(2, 7))
    assert found.numpy().tolist() == [2, 7]
    assert traced == 2


@lj.syntax
def least(x: Any, found: Any, turns: Any, writes: bool) -> Any:
    i = UInt(0)
    last = UInt(0)
    while i < turns:
        j = UInt(0)
        while j < 2:
            note()
            if writes:
                lj.scatter_reduce(lj.ReduceOp.Min, found, x + i + j, (x + j) % 4)
            else:
                last = found + i
            j += 1
        i += 1
    return last


def test_literals_that_are_written_to_are_remembered() -> None:
    x = lj.arange(UInt, 9)
    for _ in range(3):
        found = lj.full(UInt, 100, 4)
        _, turns = count(least, x, found, UInt(3), True)
        assert list(found) == [0, 1, 2, 3]
    assert turns == 1
    # It now reads what it wrote to before.
    last = least(x[:4], lj.full(UInt, 7, 4), UInt(3), False)
    assert list(last) == [9] * 4
    with pytest.raises(LumijitError, match="written"):
        least_and_read(x[:4], lj.full(UInt, 7, 4))


def test_equal_literals_that_are_written_to_are_two() -> None:
    @lj.syntax
    def counted(n: Any) -> Any:
        i = UInt(0)
        ones, tens = lj.zeros(UInt, 4), lj.zeros(UInt, 4)
        while i < n:
            lj.scatter_add(ones, UInt(1), i)
            lj.scatter_add(tens, UInt(10), i)
            i += 1
        return ones, tens

    for _ in range(3):
        ones, tens = counted(UInt(1, 2, 2))
        assert list(ones) == [3, 2, 0, 0]
        assert list(tens) == [30, 20, 0, 0]


@lj.syntax
def least_and_read(x: Any, found: Any) -> Any:
    i, total = UInt(0), UInt(0)
    while i < 2:
        lj.scatter_reduce(lj.ReduceOp.Min, found, x, x)
        total += found
        i += 1
    return total
