"""Dicts are the same state and the same result whatever the order of their entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import Array3f, Float, UInt32

MODES = ("symbolic", "evaluated")


def given() -> tuple[Float, Float]:
    return dr.opaque(Float, 1, 3) + dr.arange(Float, 3), Float(10, 20, 30)


def forth(x: Any, y: Any) -> dict[str, Any]:
    return {"a": x, "b": {"c": y, "d": [x]}}


def back(x: Any, y: Any) -> dict[str, Any]:
    return {"b": {"d": [x + 1], "c": y + 1}, "a": x + 1}


def check(result: Any, steps: list[int]) -> None:
    x, y = given()
    assert np.array_equal(result["a"], x.numpy() + steps)
    assert np.array_equal(result["b"]["c"], y.numpy() + steps)
    assert np.array_equal(result["b"]["d"][0], x.numpy() + steps)


@pytest.mark.parametrize("mode", MODES)
def test_sides_of_a_branch(mode: str) -> None:
    x, y = given()
    check(dr.if_stmt((x, y), x > 1, forth, back, mode=mode), [1, 0, 0])
    check(dr.if_stmt((x, y), x > 1, back, forth, mode=mode), [0, 1, 1])


@pytest.mark.parametrize("mode", MODES)
def test_callables_of_a_call(mode: str) -> None:
    x, y = given()
    result = dr.switch(UInt32(0, 1, 0), [forth, back], x, y, mode=mode)
    check(result, [0, 1, 0])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("compress", [False, True])
def test_iterations_of_a_loop(mode: str, compress: bool) -> None:
    x, y = given()

    def body(state: Any) -> Any:
        return (back(state["a"], state["b"]["c"]),)

    (result,) = dr.while_loop(
        (forth(x, y),), lambda s: s["a"] < 3, body, mode=mode, compress=compress
    )
    check(result, [2, 1, 0])
    assert list(result) == ["a", "b"]


@pytest.mark.parametrize("mode", MODES)
def test_nested_arrays_in_dicts(mode: str) -> None:
    x, y = given()
    p = Array3f(x, y, x)
    result = dr.if_stmt(
        (p, y),
        x > 1,
        lambda p, y: {"p": p, "y": y},
        lambda p, y: {"y": y, "p": -p},
        mode=mode,
    )
    sign = np.array([-1, 1, 1])
    assert np.array_equal(result["p"], np.array(p) * sign)
    assert np.array_equal(result["y"], y)


def test_changes_in_place_keep_the_order() -> None:
    @dr.syntax
    def program(state: Any, x: Any) -> None:
        if x > 1:
            state["b"] += 1
            state["a"] = x

    x, y = given()
    state = {"b": Float(y), "a": Float(y)}
    before = state
    program(state, x)
    assert state is before
    assert list(state) == ["b", "a"]
    assert np.array_equal(state["b"], [10, 21, 31])
    assert np.array_equal(state["a"], [10, 2, 3])


def test_printing_keeps_the_order() -> None:
    assert dr.format({"b": 1, "a": 2}).split() == ["{", "'b':", "1,", "'a':", "2", "}"]
