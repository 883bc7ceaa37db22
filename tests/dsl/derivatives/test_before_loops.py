"""Traversals in loops from variables on which others of the loop depended before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float64 as Float
from lumijit.llvm.ad import UInt
from lumijit.runtime.errors import DerivativeError

A, B = np.array([1.0, 2.0]), np.array([0.3, -1.0])


def inputs() -> tuple[Float, Float]:
    a, b = Float(A), Float(B)
    dr.enable_grad(a, b)
    return a, b


@dr.syntax
def reversed_in_turns(a, b):
    v = a * b
    i = UInt(0)
    while i < 2:
        w = v * 2
        dr.accum_grad(w, 1)
        dr.enqueue(dr.ADMode.Forward, b)
        dr.traverse(dr.ADMode.Backward)
        i += 1
    return v


@dr.syntax
def reversed_in_nested_turns(a, b):
    v = a * b
    i = UInt(0)
    while i < 2:
        j = UInt(0)
        while j < 3:
            w = v * 2 + dr.sin(a) + b * b
            dr.accum_grad(w, 1)
            dr.enqueue(dr.ADMode.Forward, b)
            dr.traverse(dr.ADMode.Backward)
            j += 1
        i += 1
    return v


@pytest.mark.parametrize("is_symbolic", [True, False])
@pytest.mark.parametrize(
    ("function", "expected"),
    [(reversed_in_turns, 4 * A), (reversed_in_nested_turns, 12 * A + 12 * B)],
)
def test_reverse_mode_goes_on_before_the_loop(
    function: Any, expected: Any, is_symbolic: bool
) -> None:
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, is_symbolic):
        a, b = inputs()
        function(a, b)
    np.testing.assert_allclose(b.grad, expected)
    np.testing.assert_array_equal(a.grad, 0)


def test_a_gradient_that_is_not_known_yet_cannot_be_read() -> None:
    @dr.syntax
    def function(a, b):
        v = a * b
        i = UInt(0)
        while i < 2:
            w = v * 2
            dr.accum_grad(w, 1)
            dr.backward_to(b)
            i += 1
        return v

    with pytest.raises(DerivativeError, match="isn't known before it is over"):
        function(*inputs())
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        a, b = inputs()
        function(a, b)
    np.testing.assert_allclose(b.grad, 4 * A)


def test_forward_mode_would_have_to_begin_before_the_loop() -> None:
    @dr.syntax
    def function(a, b):
        v = a * b
        i, total = UInt(0), Float(0)
        while i < 2:
            w = v * 2 + b
            dr.forward_from(b, flags=dr.ADFlag.ClearVertices)
            total += dr.grad(w)
            i += 1
        return total

    with pytest.raises(DerivativeError, match="forward mode begins in a symbolic loop"):
        function(*inputs())
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        np.testing.assert_allclose(function(*inputs()), 2 * (2 * A + 1))


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_what_functions_capture_is_reached(mode: str) -> None:
    a, b = inputs()
    v = a * b

    def body(i: UInt, total: Float) -> tuple[UInt, Float]:
        w = v * 2 + b
        dr.forward_from(b, flags=dr.ADFlag.ClearVertices)
        return i + 1, total + dr.grad(w)

    start = (UInt(0), Float(0))
    _, total = dr.while_loop(start, lambda i, _: i < 2, body, mode=mode)
    np.testing.assert_allclose(total, 2 * (2 * A + 1))
