"""Attributes of structs that are no fields: there, and not to be changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm import Array2f, Float, UInt32
from lumijit.runtime.errors import StateError


class Declared:
    DRJIT_STRUCT = {"x": Float}

    def __init__(self) -> None:
        self.x = Float(0)
        self.rate = Float(1)
        self.offset = Array2f(0)
        self.factor = 1

    def step(self) -> None:
        self.x += self.rate * self.factor + self.offset.y


@dataclass
class Data:
    x: Float

    step = Declared.step


class Slotted:
    __slots__ = ("factor", "offset", "rate", "unset", "x")

    DRJIT_STRUCT = {"x": Float}

    def __init__(self, x: Any = 0.0) -> None:
        self.x = x

    step = Declared.step


def made(cls: type[Any]) -> Any:
    ball = cls() if cls is Declared else cls(Float(0))
    ball.x = Float(0)
    ball.rate, ball.offset, ball.factor = Float(0.25), Array2f(1, 0.5), 2
    return ball


@lj.syntax
def loop(ball: Any, limit: Any, mode: str) -> Any:
    while lj.hint(ball.x < limit, mode=mode):
        ball.step()
    return ball


@lj.syntax
def branch(ball: Any, limit: Any, mode: str) -> Any:
    if lj.hint(ball.x < limit, mode=mode):
        ball.step()
    return ball


def switch(ball: Any, limit: Any, mode: str) -> Any:
    def call(ball: Any) -> Any:
        ball.step()
        return ball

    return lj.switch(UInt32(0, 1, 0), [call, call], ball, mode=mode)


EXPECTED = {loop: [1, 2, 4], branch: [1, 1, 1], switch: [1, 1, 1]}


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("cls", [Declared, Data, Slotted])
@pytest.mark.parametrize("construct", EXPECTED)
def test_they_are_found(construct: Any, cls: type[Any], mode: str) -> None:
    """They had the values that the constructor gives them."""
    ball = construct(made(cls), Float(1, 2, 3.5), mode)
    np.testing.assert_array_equal(ball.x, EXPECTED[construct])
    assert ball.rate[0] == 0.25
    assert ball.factor == 2


def more(ball: Any) -> None:
    ball.rate += 1


def other(ball: Any) -> None:
    ball.rate = ball.rate * 3


def component(ball: Any) -> None:
    ball.offset.y += 1


def number(ball: Any) -> None:
    ball.factor += 1


CHANGES = {"rate": (more, other), "offset": (component,), "factor": (number,)}


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("cls", [Declared, Data, Slotted])
@pytest.mark.parametrize("construct", EXPECTED)
@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_refused(
    name: str, construct: Any, cls: type[Any], mode: str, monkeypatch: Any
) -> None:
    """They were lost, or one value for all elements."""
    for change in CHANGES[name]:
        ball = made(cls)
        with monkeypatch.context() as patch:
            patch.setattr(cls, "step", change)
            pattern = (
                rf"the body changes '.*\.{name}', which is no field of '.*Fix: make"
            )
            with pytest.raises(StateError, match=pattern):
                construct(ball, Float(1, 2, 3.5), mode)
        assert (ball.rate[0], ball.factor) == (0.25, 2)
        np.testing.assert_array_equal(ball.offset, [[1], [0.5]])


def test_what_only_a_turn_needs_may_be_left_there() -> None:
    @lj.syntax
    def program(ball: Any) -> Any:
        while ball.x < 3:
            ball.half = ball.x / 2
            ball.x += ball.half + 1
        return ball.x

    np.testing.assert_array_equal(program(made(Data)), [4.75])
