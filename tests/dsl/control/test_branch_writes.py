"""Both sides of a branch write to one array, in every nesting."""

from __future__ import annotations

from typing import Any

import pytest

import lumijit as lj
from lumijit.llvm import Float, UInt32

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
