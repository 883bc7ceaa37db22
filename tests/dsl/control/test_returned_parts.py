"""Parts of objects that a function returns before or after they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm import Float, UInt

from .holders import KINDS, Ball, Component, K, X


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


@lj.syntax
def left_once_changed(z: Any, x: Any, k: Any) -> Any:
    if k > 1:
        z.step()
        if x > 4:
            return z.p
    return z.p


@lj.syntax
def changed_here(z: Any, x: Any, k: Any) -> Any:
    if k > 1:
        z.p = z.made(x + 1)
        if x > 4:
            return z.p
    return z.p


@lj.syntax
def left_in_some_turn(z: Any, x: Any, k: Any) -> Any:
    for i in range(k):
        z.step()
        if x + i > 5:
            return z.p
    return z.p


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "program", [left_once_changed, changed_here, left_in_some_turn]
)
@pytest.mark.parametrize("symbolic", [True, False])
def test_returned_after_it_changed(
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
    alone = [run(Float(x), UInt(k))[0] for x, k in zip(X, K, strict=True)]
    np.testing.assert_array_equal(found, alone)
