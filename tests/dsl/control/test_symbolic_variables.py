"""Symbolic variables have no contents: reading them is an error, with the line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

import lumijit as lj
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import ROOT
from lumijit.llvm import Array3f, Bool, Float, Int, UInt
from lumijit.runtime.errors import StateError, SymbolicError

THIS = re.escape(__file__)

READS: dict[str, Callable[[Any], Any]] = {
    "eval": lambda x: lj.eval(x),
    "schedule": lambda x: lj.schedule(x),
    "numpy": lambda x: x.numpy(),
    "item": lambda x: x.item(),
    "entry": lambda x: x[0],
    "iteration": lambda x: list(x),
    "sum": lambda x: lj.sum(x),
    "all": lambda x: lj.all(x > 1),
    "bool": lambda x: bool(lj.any(x > 1)),
    "opaque": lambda x: lj.make_opaque(x),
    "derived": lambda x: (x * 2 + 1).numpy(),
    "gather": lambda x: lj.gather(Float, x * 2, UInt(0)).numpy(),
}


def in_loop(read: Callable[[Any], Any]) -> None:
    def body(x: Any) -> Any:
        read(x)
        return (x + 1,)

    lj.while_loop((Float(1, 2, 3),), lambda x: x < 5, body)


def in_branch(read: Callable[[Any], Any]) -> None:
    i = lj.arange(UInt, 3)

    def body(x: Any) -> Any:
        return lj.if_stmt((x,), x > 2, lambda x: (read(x), x)[1:], lambda x: (x,))

    lj.while_loop((Float(1, 2, 3),), lambda x: x < 5, body)
    del i


@pytest.mark.parametrize("place", [in_loop, in_branch])
@pytest.mark.parametrize("name", READS)
def test_reading_inside(place: Callable[..., None], name: str) -> None:
    with pytest.raises(SymbolicError, match=rf"^{THIS}:\d+ in .*symbolic.*Fix: "):
        place(READS[name])
    assert trace.state.scope is ROOT
    assert list(Float(1, 2) + 1) == [2, 3]


def test_printing_shows_that_it_is_symbolic() -> None:
    texts: list[str] = []
    in_loop(lambda x: texts.append(f"{x} {Array3f(x)!r}"))
    assert texts == ["Float[<symbolic>] Array3f[<symbolic>]"]
    texts.clear()

    def body(x: Any) -> Any:
        texts.append(str(x))
        return (x + 1,)

    lj.while_loop((Float(1, 2),), lambda x: x < 3, body, mode="evaluated")
    assert texts == ["[1, 2]", "[2, 3]"]


def _leak(x: Any) -> None:
    """Leave a variable where nobody looks."""
    sys.modules[__name__].__dict__["".join(("leak", "ed"))][:] = [x]


leaked: list[Any] = []


@pytest.mark.parametrize("name", READS)
def test_use_after_the_region(name: str) -> None:
    in_loop(_leak)
    with pytest.raises(SymbolicError, match=rf"^{THIS}:\d+ in .*symbolic"):
        READS[name](leaked[0])


def test_leaked_into_another_region() -> None:
    in_loop(_leak)
    x = Float(1, 2, 3)
    result = lj.while_loop((x,), lambda x: x < 5, lambda x: (x + leaked[0],))
    with pytest.raises(SymbolicError, match="symbolic"):
        lj.eval(result)
    with pytest.raises(SymbolicError, match="symbolic"):
        lj.gather(Float, leaked[0], UInt(0))


def test_side_effects_do_not_leak() -> None:
    captured = Int(1, 2, 3)

    def body(i: Any) -> Any:
        nonlocal captured
        captured = captured + i
        return (i + 1,)

    with pytest.raises(StateError, match="the body changes 'captured'"):
        lj.while_loop((Int(0, 1, 2),), lambda i: i < 5, body)
    assert list(captured + 1) == [2, 3, 4]


def test_symbolic_conditions_in_plain_python() -> None:
    def body(x: Any) -> Any:
        if x > Bool(True):
            x = x + 1
        return (x,)

    with pytest.raises(TypeError):
        lj.while_loop((Float(1, 2),), lambda x: x < 5, body)
    assert trace.state.scope is ROOT
