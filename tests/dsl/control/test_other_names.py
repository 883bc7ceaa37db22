"""Structs that vectorized code changes under another name than the variable's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm import Float, UInt32


class Declared:
    DRJIT_STRUCT = {"x": Float}

    def __init__(self, x: Any = 0.0) -> None:
        self.x = x

    def bump(self) -> Any:
        self.x = self.x + 1
        return self.x


@dataclass
class Data:
    x: Any

    bump = Declared.bump


@dataclass
class Slots:
    __slots__ = ("x",)

    x: Any

    bump = Declared.bump


def bump_all(balls: Any) -> None:
    for ball in balls:
        ball.bump()


@contextlib.contextmanager
def bumped(ball: Any) -> Iterator[Any]:
    ball.bump()
    yield ball


@lj.syntax
def assigned(a: Any, b: Any, n: Any) -> None:
    k = n * 0
    while k < n:
        c = a
        c.bump()
        if k > 0:
            d, e = c, b
            d.x = d.x * 2
            e.bump()
        k += 1


@lj.syntax
def iterated(a: Any, b: Any, n: Any) -> None:
    k, balls = n * 0, [a, b]
    while k < n:
        for ball in balls:
            ball.bump()
        for ball in (b, a):
            if k == 1:
                ball.bump()
        [ball.bump() for ball in balls]
        k += 1


@lj.syntax
def by_two_names(a: Any, b: Any, n: Any) -> None:
    k, balls = n * 0, [a, b]
    while k < n:
        balls[1].bump()
        if k == 1:
            balls[0].bump()
            a.bump()
        balls[0].bump()
        b.bump()
        k += 1


@lj.syntax
def in_containers(a: Any, b: Any, n: Any) -> None:
    k = n * 0
    while k < n:
        bump_all([a, b])
        bump_all({"key": a}.values())
        bump_all(ball for ball in (a,))
        balls = {"key": b}
        balls["key"].bump()
        k += 1


@lj.syntax
def chosen(a: Any, b: Any, n: Any) -> None:
    k, is_first = n * 0, True
    while k < n:
        (a if is_first else b).bump()
        (a and b).bump()
        (c := a).bump()
        c.bump()
        k += 1


@lj.syntax
def captured(a: Any, b: Any, n: Any) -> None:
    k = n * 0
    while k < n:

        def inner() -> None:
            a.bump()
            b.x = b.x + 2

        inner()
        (lambda: b.bump())()
        (lambda: a)().bump()
        method = a.bump
        method()
        k += 1


@lj.syntax
def matched(a: Any, b: Any, n: Any) -> None:
    k = n * 0
    while k < n:
        match (a, b):
            case (c, d):
                c.bump()
                bump_all([d, d])
        with bumped(a) as c, contextlib.nullcontext(b) as d:
            c.bump()
            d.bump()
        k += 1


@lj.syntax
def branched(a: Any, b: Any, n: Any) -> None:
    if n > 1:
        c = a
        c.bump()
    else:
        for ball in (a, b):
            ball.bump()


PROGRAMS = (
    assigned,
    iterated,
    by_two_names,
    in_containers,
    chosen,
    captured,
    matched,
    branched,
)


@pytest.mark.parametrize("mode", [True, False], ids=["symbolic", "evaluated"])
@pytest.mark.parametrize("cls", [Declared, Data, Slots])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_plain_python(
    program: Callable[..., None], cls: type[Any], mode: bool
) -> None:
    """These changes were lost in silence."""
    expected = []
    for n in (1, 2, 3):
        pair = Data(0.0), Data(10.0)
        program(*pair, n)
        expected.append([ball.x for ball in pair])
    a, b = cls(Float(0)), cls(Float(10))
    flags = lj.JitFlag.SymbolicLoops, lj.JitFlag.SymbolicConditionals
    with (
        lj.scoped_set_flag(flags[0], mode),
        lj.scoped_set_flag(flags[1], mode),
    ):
        program(a, b, UInt32(1, 2, 3))
    first, second = np.transpose(expected)
    np.testing.assert_array_equal(a.x + lj.zeros(Float, 3), first)
    np.testing.assert_array_equal(b.x + lj.zeros(Float, 3), second)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("compress", [False, True])
def test_equal_numbers_become_arrays_of_their_own(mode: str, compress: bool) -> None:
    """An evaluated loop made one array of them."""

    @lj.syntax
    def program(n: Any) -> tuple[Any, Any]:
        a = b = 0
        k = UInt32(0)
        while lj.hint(k < n, mode=mode):
            a = b = 1
            k += 1
        b += 5
        return a, b

    with lj.scoped_set_flag(lj.JitFlag.CompressLoops, compress):
        a, b = program(UInt32(0, 2, 3))
    np.testing.assert_array_equal(a, [0, 1, 1])
    np.testing.assert_array_equal(b, [5, 6, 6])


class Clock:
    """Hands out the very array that it changes."""

    def __init__(self) -> None:
        self.time = UInt32(0)

    def tick(self) -> UInt32:
        self.time += 1
        return self.time


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_what_a_method_hands_out_is_its_own(mode: str) -> None:
    @lj.syntax
    def before(n: UInt32, clock: Clock) -> UInt32:
        total, t = UInt32(0), clock.tick()
        while t < n:
            total += t
            t = clock.tick()
        return total

    @lj.syntax
    def inside(n: UInt32, clock: Clock) -> UInt32:
        total = UInt32(0)
        while (t := clock.tick()) < n:
            total += t
        return total

    n = np.arange(7)
    with lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, mode == "symbolic"):
        for f in (before, inside):
            clock = Clock()
            assert f(UInt32(n), clock).numpy().tolist() == [0, 0, 1, 3, 6, 10, 15]
            assert clock.time.numpy().tolist() == [1, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_what_a_branch_gets_may_be_an_objects_own(mode: str) -> None:
    @lj.syntax
    def f(n: UInt32, clock: Clock) -> UInt32:
        t = clock.tick()
        if n > 2:
            t = clock.tick()
            t += 10
        return t

    n = np.arange(5)
    with lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, mode == "symbolic"):
        clock = Clock()
        assert f(UInt32(n), clock).numpy().tolist() == [1, 1, 1, 12, 12]
        assert clock.time.numpy().tolist() == [1, 1, 1, 12, 12]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_an_object_with_several_names_has_an_array_with_another(mode: str) -> None:
    """The loop's variable and the closure's entry stay one list; `y` goes its way."""

    @lj.syntax
    def f(holder: Holder, d: list[Float], y: Float) -> None:
        i = UInt32(0)
        while i < 3:
            holder.items[0] = holder.items[0] + 1
            d[0] = d[0] * y
            i += 1

    with lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, mode == "symbolic"):
        holder, y = Holder(), Float(1, 2)
        holder.items = [Float(1)]
        d, items = [y], holder.items
        f(holder, d, y)
        assert holder.items is items
        assert list(items[0]) in ([4], [4, 4])
        assert list(d[0]) == [1, 16]
        assert list(y) == [1, 2]


class Holder:
    """An object that isn't a PyTree."""

    items: list[Float]
