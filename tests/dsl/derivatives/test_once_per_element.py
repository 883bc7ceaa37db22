"""Derivatives of one entry in constructs count as often as elements take part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm.ad import Bool, Float, UInt

MODES = ("symbolic", "evaluated")


def tracked() -> Any:
    w = Float(3)
    dr.enable_grad(w)
    return w


@dr.syntax
def branch(w: Any, mask: Any, mode: str) -> None:
    if dr.hint(mask, mode=mode):
        dr.backward(w * 0.5)


@dr.syntax
def loop(w: Any, n: Any, mode: str) -> None:
    i = UInt(0)
    while dr.hint(i < n, mode=mode):
        dr.backward(w * 0.5)
        i += 1


def switch(w: Any, index: Any, mode: str) -> None:
    def function(x: Any) -> Any:
        dr.backward(w * 0.5)
        return x

    x = dr.arange(Float, dr.width(index))
    dr.switch(index, [function, lambda x: x], x, mode=mode)


CASES: dict[str, tuple[Callable[..., None], Any, float]] = {
    "branch": (branch, Bool(True, False, True), 1),
    "branch of nobody": (branch, Bool(False, False), 0),
    "loop": (loop, UInt(1, 2, 3), 3),
    "loop of nobody": (loop, UInt(0, 0), 0),
    "switch": (switch, UInt(0, 1, 0), 1),
    "switch of nobody": (switch, UInt(1, 1), 0),
    "switch beyond": (switch, UInt(5, 5), 0),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_backward(name: str, mode: str) -> None:
    function, argument, expected = CASES[name]
    w = tracked()
    function(w, argument, mode)
    assert list(w.grad) == [expected]


@pytest.mark.parametrize("mode", MODES)
def test_forward_mode_isn_t_repeated(mode: str) -> None:
    @dr.syntax
    def f(mask: Any, x: Any) -> Any:
        found = Float(0, 0, 0)
        if dr.hint(mask, mode=mode):
            w = Float(3)
            dr.enable_grad(w)
            y = w * x
            dr.forward(w)
            found = dr.grad(y)
        return found

    assert list(f(Bool(True, False, True), Float(1, 2, 3))) == [1, 0, 3]


@pytest.mark.parametrize("mode", MODES)
def test_writes_under_a_condition_of_one_entry(mode: str) -> None:
    """The branch runs over what it reads, and so does its derivative."""

    @dr.syntax
    def f(w: Any, b: Any, mask: Any, x: Any) -> Any:
        if dr.hint(mask, mode=mode):
            dr.scatter_add(b, w * 0.5, UInt(0))
            x += 1
        return x

    w, b = tracked(), dr.zeros(Float, 2)
    f(w, b, dr.opaque(Bool, True), Float(1, 2, 3, 4))
    assert b[0] == 6
    dr.backward(dr.sum(b))
    assert list(w.grad) == [2]
    w, b = tracked(), dr.zeros(Float, 2)
    dr.set_grad(w, 1)
    f(w, b, dr.opaque(Bool, True), Float(1, 2, 3, 4))
    assert list(dr.forward_to(b)) == [2, 0]
