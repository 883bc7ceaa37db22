"""Names of Python's numbers: `i += 1` leaves other names of the number alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm import Int


def another_name(n: Any) -> Any:
    i = s = 0
    while i < n:
        j = i
        i += 1
        s = s + 10 * j + i
    return s


def the_item_of_a_range(n: Any) -> Any:
    s = 0
    for i in range(n):
        i += 1
        s += i
    return s


def kept_elsewhere(n: Any) -> Any:
    i, t, s = 0, 1.5, 0
    while i < n:
        items, default = [i], lambda i=i: i
        u = t
        t *= 2
        i += 1
        s = s + 100 * items[0] + 10 * default() + i
        if t - u > 6:
            i += 1
    return s, i, t * 4


def of_other_counters(n: Any) -> Any:
    i = step = 1
    s = 0
    while i < n:
        before = step
        step += 1
        i += step - 1
        s = s + before
    return i, s


PROGRAMS = [another_name, the_item_of_a_range, kept_elsewhere, of_other_counters]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_numbers_are_as_in_python(program: Any, mode: str) -> None:
    lanes = range(8)
    expected = np.array([program(n) for n in lanes]).T
    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, mode == "symbolic"),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, mode == "symbolic"),
    ):
        found = lj.syntax(program)(Int(lanes))
    found = np.array([*found]) if isinstance(found, tuple) else found.numpy()
    np.testing.assert_array_equal(found, expected)
