"""Arrays and lists that a construct gets, and that functions inside reach otherwise."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import pytest

import lumijit as lj
from lumijit.llvm.ad import Array2f64, Float64, Int

from .by_element import Program, check


@dataclass
class Pair:
    a: Any
    b: Any


@dataclass(frozen=True)
class Fixed:
    a: Any
    b: Any


class Holder:
    w: Any
    z: Any

    def set_y(self) -> None:
        self.w.y = 7

    def add(self) -> None:
        self.w += 1

    def add_y(self) -> None:
        self.w.y += 1

    def count(self) -> None:
        self.z[0] += 1
        self.z = [self.z[0] + 1, self.z[1]]

    def replace(self) -> None:
        self.w = Fixed(self.w.a * 0.5 + 1, self.w.b)


def copied_in_a_branch(k: Any, x: Any) -> Any:
    s = Holder()
    z = Array2f64(x, 1)
    s.w = z
    if x > 1.15:
        z = Array2f64(z)
        if k % 2 == 1:
            s.set_y()
    return s.w.x, s.w.y, z.x, z.y


def on_the_other_side(k: Any, x: Any) -> Any:
    s = Holder()
    z = Array2f64(x, 1)
    s.w = z
    if x > 1.15:
        z = Array2f64(z.y, z.x)
    elif k % 2 == 1:
        z = Array2f64(z)
        if k > 4:
            s.add()
    else:
        s.add_y()
    return s.w.x, s.w.y, z.x, z.y


def in_a_loop_inside(k: Any, x: Any) -> Any:
    s = Holder()
    z = Array2f64(x, 1)
    s.w = z
    if x > 0:
        z = Array2f64(z)
        for _ in range(k):
            s.add()
            s.add_y()
    return s.w.x, s.w.y, z.x, z.y


def three_deep(k: Any, x: Any) -> Any:
    s = Holder()
    z = Array2f64(x, 1)
    s.w = [z]
    if x > -1:
        z = Array2f64(z)
        if k > 2:
            z = z + 1
            if k % 2 == 1:
                s.w[0].y += x
    return s.w[0].x, s.w[0].y, z.x, z.y


def component_of_a_struct(k: Any, x: Any) -> Any:
    s = Holder()
    z = Pair(Array2f64(x, 1), x)
    s.w = z.a
    if x > 1.15:
        z = Pair(Array2f64(z.a), z.b)
        if k % 2 == 1:
            s.add()
    return s.w.x, s.w.y, z.a.x, z.a.y


def left_early(k: Any, x: Any) -> Any:
    s = Holder()
    s.z = Array2f64(x, 1)
    w = s.z
    for _ in range(k):
        s.z += 0.5
        if k % 2 == 0:
            continue
        return s.z.y
    for _ in range(2):
        if w.y > 0:
            break
        s.z.y = 1
    return s.z.y


def list_of_numbers(k: Any, x: Any) -> Any:
    s = Holder()
    s.z = [1, 2]
    if x > 0:
        for _ in range(k):
            s.count()
    return s.z[0] * 1.0, s.z[1] * 1.0


def of_two_runs(k: Any, x: Any) -> Any:
    """The list has one name in the loop's first run, and two in the second."""
    s = Holder()
    s.z = [1, 2]
    z = s.z
    if k > 3:
        for _ in range(k - 3):
            s.count()
    return s.z[0] * x, s.z[1] * x, z[0] * x


def found_anew(k: Any, x: Any) -> Any:
    """What is known of a loop's state is of another one after a value has come."""
    s = Holder()
    z = Fixed(Float64(x) + 1, Array2f64(x + 2, 2))
    s.w = z
    if s.w.a < 0.3:
        i = k * 0
        while i < 2:
            return z.a, z.b.x, s.w.a, s.w.b.x
        s.replace()
    return z.a, z.b.x, s.w.a, s.w.b.x


PROGRAMS = [
    copied_in_a_branch,
    on_the_other_side,
    in_a_loop_inside,
    three_deep,
    component_of_a_struct,
    left_early,
    list_of_numbers,
    of_two_runs,
    found_anew,
]


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("symbolic", [True, False])
def test_as_element_by_element(function: Program, symbolic: bool) -> None:
    check(function, symbolic)


@pytest.mark.parametrize("symbolic", [True, False])
def test_an_error_leaves_variables_of_others_as_they_were(symbolic: bool) -> None:
    found = Float64(1, 2)
    before = found

    def fail() -> None:
        raise KeyError("no")

    @lj.syntax
    def program(k: Any) -> None:
        nonlocal found
        i = Int(0)
        while i < k:
            found = found + i
            i += 1
            fail()

    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        pytest.raises(KeyError),
    ):
        program(Int(1, 2))
    assert found is before
    assert list(found) == [1, 2]


@pytest.mark.parametrize("symbolic", [True, False])
def test_an_attempt_leaves_variables_of_others_as_they_were(symbolic: bool) -> None:
    """The loop is traced as it is, then with its first turn apart."""

    def made(x: Any) -> Any:
        values = [x + 1, x + 2]
        first = values

        def step() -> None:
            nonlocal values
            values[0] = values[0] * 0.5 + 1
            values = copy(values)

        def program(k: Any) -> Any:
            nonlocal values
            i = k * 0
            while i < 2:
                i += 1
                step()
            return [*values, *first]

        return program

    x = Float64(0.25, 1.5, -3)
    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
    ):
        found = lj.syntax(made(x))(Int(2, 0, 3))
    for lane, k in enumerate((2, 0, 3)):
        assert [v[lane] for v in found] == made(x[lane])(k)
