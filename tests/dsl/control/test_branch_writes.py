"""Both sides of a branch write to one array, in every nesting."""

from __future__ import annotations

from typing import Any

import pytest

import lumijit as lj
from lumijit.llvm import Float, UInt32
from lumijit.runtime.errors import SymbolicError

MODES = ("symbolic", "evaluated")


def targets() -> list[Any]:
    return [lj.zeros(Float, 8), lj.empty(Float, 8), lj.opaque(Float, 0, 8)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", range(3))
def test_both_sides_write(mode: str, kind: int) -> None:
    array, index = targets()[kind], lj.arange(UInt32, 8)

    def write(value: float) -> Any:
        def side(index: Any) -> Any:
            lj.scatter(array, Float(value), index)
            return index

        return side

    lj.if_stmt((index,), index < 3, write(1), write(2), mode=mode)
    assert list(array) == [1, 1, 1, 2, 2, 2, 2, 2]


@pytest.mark.parametrize("mode", MODES)
def test_both_sides_write_inside_of_a_side(mode: str) -> None:
    array, index = lj.zeros(Float, 8), lj.arange(UInt32, 8)

    def write(value: float) -> Any:
        def side(index: Any) -> Any:
            lj.scatter(array, Float(value), index)
            return index

        return side

    def nested(first: float) -> Any:
        def side(index: Any) -> Any:
            both = write(first), write(first + 1)
            return lj.if_stmt((index,), index % 2 == 0, *both, mode=mode)

        return side

    lj.if_stmt((index,), index < 3, nested(1), nested(3), mode=mode)
    assert list(array) == [1, 2, 1, 4, 3, 4, 3, 4]


def test_a_copy_made_before_stays_as_it_was() -> None:
    array, index = lj.zeros(Float, 4), lj.arange(UInt32, 4)
    copy = Float(array)

    def add(index: Any) -> Any:
        lj.scatter_add(array, Float(1), index)
        return index

    def both(index: Any) -> Any:
        lj.scatter_add(array, Float(5), index)
        lj.scatter_add(copy, Float(7), index)
        return index

    lj.if_stmt((index,), index < 2, add, both)
    assert list(array) == [1, 1, 5, 5]
    assert list(copy) == [0, 0, 7, 7]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", range(3))
def test_loops_that_read_what_they_write(mode: str, kind: int) -> None:
    """What starts as a constant isn't folded where the loop reads it."""
    starts = (lj.zeros(UInt32, 1), UInt32(0), lj.opaque(UInt32, 0))
    total = starts[kind]

    def body(i: Any, seen: Any) -> Any:
        seen = seen + total
        lj.scatter_add(total, UInt32(1), UInt32(0))
        return i + 1, seen

    def run() -> Any:
        state = UInt32(0), UInt32(0)
        return lj.while_loop(state, lambda i, seen: i < 3, body, mode=mode)

    if mode == "symbolic":
        with pytest.raises(SymbolicError, match="reads an array that it also writes"):
            run()
        assert list(total) == [0]
    else:
        assert list(run()[1]) == [3]
        assert list(total) == [3]


@pytest.mark.parametrize("mode", MODES)
def test_nested_loops_that_write_to_zeros(mode: str) -> None:
    total = lj.zeros(Float, 4)

    def inner(j: Any, x: Any) -> Any:
        lj.scatter_add(total, Float(1), x)
        return j + 1, x

    def outer(i: Any, x: Any) -> Any:
        lj.while_loop((UInt32(0), x), lambda j, x: j < x, inner, mode=mode)
        return i + 1, x

    x = UInt32(0, 1, 2, 3)
    lj.while_loop((UInt32(0), x), lambda i, x: i < 3, outer, mode=mode)
    assert list(total) == [0, 3, 6, 9]


def added(buffer: Any, x: Any) -> Any:
    lj.scatter_add(buffer, x * x, UInt32(0, 1))
    return buffer


@lj.syntax
def loop_that_makes_buffers(x: Any) -> Any:
    i = UInt32(0, 0)
    while i < 2:
        x = added(lj.zeros(Float, 2), x) * 0.5
        i += 1
    return x


@lj.syntax
def loop_of_buffers(x: Any) -> Any:
    i = UInt32(0, 0)
    while i < 2:
        x = added(lj.zeros(Float, 2), x)
        i += 1
    return x


@lj.syntax
def loop_over_a_buffer(x: Any) -> Any:
    buffer, i = Float(0, 0), UInt32(0, 0)
    while i < 2:
        x = added(buffer, x) * 0.5
        i += 1
    return x


@lj.syntax
def branch(x: Any) -> Any:
    if x > 0:
        x = added(lj.zeros(Float, 2), x) * 0.5
    return x


@pytest.mark.parametrize(
    "f", [loop_that_makes_buffers, loop_of_buffers, loop_over_a_buffer, branch]
)
def test_what_was_written_inside_is_computed_with(f: Any) -> None:
    message = "(while_loop|if_stmt): an array of 2 entries is written to by index ins"
    with pytest.raises(SymbolicError, match=message):
        f(Float(1, 2))
    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, False),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, False),
    ):
        f(Float(1, 2))
