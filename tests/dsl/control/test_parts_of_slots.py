"""Objects whose entries called functions change, and which others replace.

What they change is state as a whole then: no array is in two entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm import Array2f, Array22f, Float, UInt

X, K = [1, 2, 200, 5], [2, 0, 1, 3]


class Ball:
    """Has an array, a list or a dictionary that methods change or replace."""

    def __init__(self, x: Any) -> None:
        self.p: Any = self.made(x)

    def made(self, x: Any) -> Any:
        return Array2f(x, x + 1)

    def step(self) -> None:
        self.p += 9

    def reset(self) -> None:
        self.p = self.made(7)

    @lj.syntax
    def reset_if(self, mask: Any) -> None:
        if mask:
            self.p = self.made(7)

    def total(self) -> Any:
        return self.p.x + 3 * self.p.y


class Component(Ball):
    def step(self) -> None:
        self.p.y += 9


class Rows(Ball):
    def made(self, x: Any) -> Any:
        return Array22f(Array2f(x, x + 1), Array2f(x + 2, x + 3))

    def step(self) -> None:
        self.p[1].x += 9

    def total(self) -> Any:
        return self.p.x.y + 3 * self.p.y.x


class Listed(Ball):
    def made(self, x: Any) -> Any:
        return [Float(x), Float(x) + 1]

    def step(self) -> None:
        self.p[0] += 9

    def total(self) -> Any:
        return self.p[0] + 3 * self.p[1]


class Keyed(Listed):
    def made(self, x: Any) -> Any:
        return {0: Float(x), 1: Float(x) + 1}


KINDS = [Ball, Component, Rows, Listed, Keyed]


@lj.syntax
def steps(z: Any, k: Any) -> None:
    for _ in range(k):
        z.step()


@lj.syntax
def in_a_branch(z: Any, x: Any, k: Any) -> None:
    if x < 100:
        for _ in range(k):
            z.step()
        if k == 0:
            z.reset()


@lj.syntax
def in_called_functions(z: Any, x: Any, k: Any) -> None:
    if x < 100:
        steps(z, k)
        z.reset_if(k == 0)


@lj.syntax
def stepped_only(z: Any, x: Any, k: Any) -> None:
    if x < 100:
        steps(z, k)


@lj.syntax
def in_a_loop(z: Any, x: Any, k: Any) -> None:
    j = UInt(0)
    while j < k:
        i = UInt(0)
        while i < 2:
            z.step()
            i += 1
        if j == 1:
            z.reset()
        j += 1


@lj.syntax
def reset_each_turn(z: Any, x: Any, k: Any) -> None:
    j = UInt(0)
    while j < k:
        if j > 0:
            z.step()
        z.reset()
        j += 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "program",
    [in_a_branch, in_called_functions, stepped_only, in_a_loop, reset_each_turn],
)
@pytest.mark.parametrize("symbolic", [True, False])
def test_changed_and_replaced(
    kind: Callable[[Any], Any], program: Any, symbolic: bool
) -> None:
    def run(x: Any, k: Any) -> Any:
        z = kind(x)
        program(z, x, k)
        return z.total()

    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
    ):
        found = run(Float(X), UInt(K)).numpy()
    alone = [run(Float(x), UInt(k))[0] for x, k in zip(X, K, strict=True)]
    wanted = [plain(kind, program, x, k) for x, k in zip(X, K, strict=True)]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(alone, wanted)


def plain(kind: Any, program: Any, x: float, k: int) -> float:
    """Run what the program says by hand, one element at a time."""
    z = kind(float(x))
    if program in (in_a_branch, in_called_functions, stepped_only):
        if x < 100:
            for _ in range(k):
                z.step()
            if k == 0 and program is not stepped_only:
                z.reset()
    else:
        for j in range(k):
            if program is in_a_loop:
                z.step()
                z.step()
                if j == 1:
                    z.reset()
            else:
                if j > 0:
                    z.step()
                z.reset()
    return float(z.total()[0])


@lj.syntax
def left_in_a_loop(z: Any, x: Any, k: Any) -> Any:
    i = UInt(0)
    while i < k:
        if x > 4:
            return z.p
        z.step()
        i += 1
    return z.p


@lj.syntax
def left_at_once(z: Any, x: Any, k: Any) -> Any:
    for _ in range(2):
        if k < 2:
            return z.p
        z.step()
    return z.p


@lj.syntax
def left_in_a_branch(z: Any, x: Any, k: Any) -> Any:
    if k < 3:
        if x > 4:
            return z.p
        z.step()
    z.step()
    return z.p


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", [left_in_a_loop, left_at_once, left_in_a_branch])
@pytest.mark.parametrize("symbolic", [True, False])
def test_returned_before_it_changes(
    kind: Callable[[Any], Any], program: Any, symbolic: bool
) -> None:
    def run(x: Any, k: Any) -> Any:
        z = kind(x)
        z.p = program(z, x, k)
        return z.total()

    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
    ):
        found = run(Float(X), UInt(K)).numpy()
    alone = [run(x, k)[0] for x, k in zip(X, K, strict=True)]
    np.testing.assert_array_equal(found, alone)


@lj.syntax
def both_in_a_loop(s: Any, t: Any, x: Any, k: Any) -> None:
    i = UInt(0)
    while i < k:
        s.step()
        t.step()
        i += 1


@lj.syntax
def both_in_a_branch(s: Any, t: Any, x: Any, k: Any) -> None:
    if x > 4:
        s.step()
        if k > 0:
            t.step()


@lj.syntax
def replaced_between(s: Any, t: Any, x: Any, k: Any) -> None:
    if x > 4:
        s.step()
        t.reset()
        if k > 0:
            t.step()


@pytest.mark.parametrize(
    "program", [both_in_a_loop, both_in_a_branch, replaced_between]
)
@pytest.mark.parametrize("symbolic", [True, False])
def test_two_objects_have_one_array(program: Any, symbolic: bool) -> None:
    def run(x: Any, k: Any) -> Any:
        s, t = Ball(x), Component(x)
        t.p = s.p
        program(s, t, x, k)
        return s.total() + 1000 * t.total()

    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
    ):
        found = run(Float(X), UInt(K)).numpy()
    alone = [run(x, k)[0] for x, k in zip(X, K, strict=True)]
    np.testing.assert_array_equal(found, alone)
