"""Arrays made of others, which share their contents until one is written to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit import JitFlag, scalar
from lumijit.llvm.ad import Float64 as Float
from lumijit.llvm.ad import UInt32 as UInt
from lumijit.runtime.errors import SymbolicError

DATA = [0.5, 2.0, -1.0, 3.0]
MODES = pytest.mark.parametrize("symbolic", [True, False])


def copies(t: Any, n: Any, kinds: Any) -> Any:
    """Read a table, and write to what was made of it."""
    real, natural = kinds
    image, other = real(t), real(t)
    i = natural(0)
    while i < n:
        lj.scatter_add(image, lj.gather(real, t, i) * 2, i)
        lj.scatter(other, lj.gather(real, t, 3 - i), i)
        i += 1
    return image, other, t


def in_loops(t: Any, n: Any, kinds: Any) -> Any:
    real, natural = kinds
    image = real(t)
    i = natural(0)
    while i < n:
        j = natural(0)
        while j < i:
            if j < 2:
                lj.scatter_add(image, lj.gather(real, t, j), j)
            j += 1
        i += 1
    return image, t


def in_branches(t: Any, n: Any, kinds: Any) -> Any:
    real, natural = kinds
    one, other = real(t), real(t)
    if n > 0:
        lj.scatter_add(one, lj.gather(real, t, natural(1)), natural(0))
        lj.scatter_add(other, lj.gather(real, t, natural(2)), natural(0))
    return one, other, t


PROGRAMS = [copies, in_loops, in_branches]


def expected(function: Any, count: int) -> list[list[float]]:
    kinds = scalar.ArrayXf64, int
    found = function(kinds[0](DATA), count, kinds)
    return [[float(v) for v in array] for array in found]


@MODES
@pytest.mark.parametrize("is_literal", [True, False])
@pytest.mark.parametrize("function", PROGRAMS)
def test_copies_that_are_written_to(
    function: Any, symbolic: bool, is_literal: bool
) -> None:
    """They were one array with what is read, which was refused."""
    table = Float(DATA)
    if is_literal:
        table = table * 1
    with (
        lj.scoped_set_flag(JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(JitFlag.SymbolicConditionals, symbolic),
    ):
        found = lj.syntax(function)(table, UInt(4), (Float, UInt))
    for array, values in zip(found, expected(function, 4), strict=True):
        np.testing.assert_array_equal(array, values)
    assert found[-1] is table


@MODES
def test_derivatives_of_copies(symbolic: bool) -> None:
    table = Float(DATA)
    lj.enable_grad(table)
    with lj.scoped_set_flag(JitFlag.SymbolicLoops, symbolic):
        image, other, _ = lj.syntax(copies)(table, UInt(4), (Float, UInt))
    lj.backward(image + other * Float(1, 10, 100, 1000))
    assert list(table.grad) == [1003, 103, 13, 4]


def test_nothing_is_traced_again_without_need() -> None:
    table = Float(DATA)
    traces = []
    for image in (Float(DATA), Float(DATA), Float(table)):
        count: list[int] = []

        def body(k: Any, image: Any, count: Any = count) -> Any:
            count.append(1)
            lj.scatter_add(image, 1, k)
            return k + 1, image

        _, image = lj.while_loop((UInt(0), image), lambda k, _: k < 3, body)
        assert list(image) == [1.5, 3, 0, 3]
        traces.append(len(count))
    assert traces[1] == traces[2]
    assert list(table) == DATA


def test_reading_what_is_written_is_refused_as_before() -> None:
    table = Float(DATA)
    image = Float(table)

    @lj.syntax
    def add(read: Any, write: Any) -> Any:
        i = UInt(0)
        while i < 4:
            lj.scatter_add(write, lj.gather(Float, read, i), i)
            i += 1
        return write

    with pytest.raises(SymbolicError, match=r"also writes to by index.*Fix: "):
        add(image, image)
    assert list(image) == list(table) == DATA
    assert list(add(table, image)) == [2 * v for v in DATA]
    assert list(table) == DATA
