"""Objects of this package that code names directly are state, like those in attributes.

A generator of random numbers in a global variable, or in one of an enclosing function,
changes when its methods are called, which no assignment tells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lumijit as lj
from lumijit.llvm import PCG32, Float, UInt
from lumijit.runtime.errors import StateError

from ..programs.modes import flags_of

generator = PCG32(2)
numbers = lj.rng(3)


def draw() -> Float:
    """Draw from the global generator."""
    return generator.next_float32()


def draw_others() -> Float:
    """Draw from the other global generator."""
    return numbers.random(Float, 2)


def _of_closure() -> Callable[[], Float]:
    own = PCG32(2)
    return lambda: own.next_float32()


def _directly(n: UInt) -> Float:
    s = Float(0)
    i = UInt(0)
    while i < n:
        s += generator.next_float32()
        i += 1
    return s


def _by(function: Callable[[], Float]) -> Callable[[UInt], Float]:
    def program(n: UInt) -> Float:
        s = Float(0)
        i = UInt(0)
        while i < n:
            s += function()
            i += 1
        return s

    return program


def _expected(draws: Callable[[], Float], counts: list[int]) -> list[float]:
    rows = [draws() for _ in range(max(counts))]
    return [sum(float(row[k]) for row in rows[:n]) for k, n in enumerate(counts)]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("way", ["directly", "helper", "closure", "rng"])
def test_loops(way: str, mode: str) -> None:
    global generator, numbers
    generator, numbers = PCG32(2), lj.rng(3)
    programs: dict[str, Callable[[UInt], Float]] = {
        "directly": _directly,
        "helper": _by(draw),
        "closure": _by(_of_closure()),
        "rng": _by(draw_others),
    }
    counts = [3, 1]
    with flags_of(mode):
        found = lj.syntax(programs[way])(UInt(counts))
    other = lj.rng(3)
    same: Callable[[], Float] = PCG32(2).next_float32
    if way == "rng":
        same = lambda: other.random(Float, 2)  # noqa: E731
    expected = _expected(same, counts)
    assert [float(v) for v in found] == pytest.approx(expected)
    if way == "directly":
        after = PCG32(2)
        steps = [after.next_float32() for _ in range(4)]
        left = generator.next_float32()
        assert [float(v) for v in left] == [steps[n][k] for k, n in enumerate(counts)]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_branches(mode: str) -> None:
    global generator
    generator = PCG32(2)

    @lj.syntax
    def program(c: UInt) -> Float:
        s = Float(0)
        if c < 1:
            s += generator.next_float32()
        return s

    own = PCG32(2)
    first, second = own.next_float32(), own.next_float32()
    with flags_of(mode):
        found = program(UInt(0, 1))
    assert [float(v) for v in found] == [first[0], 0]
    left = generator.next_float32()
    assert [float(v) for v in left] == [second[0], first[1]]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("construct", ["while_loop", "if_stmt", "switch"])
def test_functions_of_constructs(construct: str, mode: str) -> None:
    """They may not change what is no state: an error, and nothing has changed."""
    own = PCG32(2)

    def run() -> Any:
        if construct == "while_loop":
            return lj.while_loop(
                (UInt(0, 0), Float(0)),
                lambda i, _: i < 2,
                lambda i, s: (i + 1, s + own.next_float32()),
                mode=mode,
            )
        if construct == "if_stmt":
            return lj.if_stmt(
                (Float(0),),
                UInt(0, 1) < 1,
                lambda s: s + own.next_float32(),
                lambda s: s,
                mode=mode,
            )
        return lj.switch(
            UInt(0, 1), [lambda: own.next_float32(), lambda: Float(0)], mode=mode
        )

    with pytest.raises(StateError, match=r"changes 'own\.state'"):
        run()
    left = own.next_float32()
    assert list(left) == list(PCG32(2).next_float32())
