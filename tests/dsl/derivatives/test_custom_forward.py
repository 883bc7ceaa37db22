"""Forward mode inside of a custom operation's `forward`, along implicit inputs.

How the operation's inputs change is known there, and nothing else of it is passed on.
"""

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float64 as Float
from lumijit.llvm.ad import UInt32
from lumijit.runtime.errors import SizeError

MODES = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
X = np.array([1.0, 10.0])
P = 3.0


class Scene:
    """What an operation reaches besides its arguments."""

    r: Any


@dr.syntax
def tangent(r, x, turns, mode):
    k, total = UInt32(0), Float(0)
    while dr.hint(k < turns, mode=mode):
        with dr.resume_grad():
            total += dr.forward_to(r * x * r)
        k += 1
    return total


class Square(dr.CustomOp):
    """turns · r² x, or r² x without a loop."""

    def eval(self, scene, params, x, turns, mode):
        self.given = scene, x, turns, mode
        return scene.r * scene.r * x * Float(1 if turns is None else turns)

    def forward(self):
        scene, x, turns, mode = self.given
        with dr.suspend_grad():
            if turns is not None:
                self.set_grad_out(tangent(scene.r, x, turns, mode))
                return
            with dr.resume_grad():
                self.set_grad_out(dr.forward_to(scene.r * scene.r * x))

    def name(self):
        return "square"


@MODES
@pytest.mark.parametrize("is_computed", [False, True], ids=["variable", "computed"])
@pytest.mark.parametrize("turns", [None, [2, 2], [1, 3]], ids=str)
def test_tangents_of_implicit_inputs(turns, is_computed, mode) -> None:
    p, scene = Float(P), Scene()
    dr.enable_grad(p)
    scene.r = dr.sin(p) if is_computed else p
    given = None if turns is None else UInt32(turns)
    first = dr.custom(Square, scene, {"r": scene.r}, Float(X), given, mode)
    second = dr.custom(Square, scene, {"r": scene.r}, Float(X), given, mode)
    last = scene.r * 2
    dr.forward(p)
    slope = np.sin(2 * P) if is_computed else 2 * P
    expected = slope * X * (1 if turns is None else np.array(turns))
    np.testing.assert_allclose(first.grad, expected)
    np.testing.assert_allclose(second.grad, expected)
    np.testing.assert_allclose(last.grad, [2 * np.cos(P) if is_computed else 2])
    assert p.grad == 0


class Lookup(dr.CustomOp):
    """Entries of a table, which is an argument as a whole."""

    def eval(self, table, index):
        self.table, self.index = table, index
        return dr.gather(Float, table, index)

    def backward(self):
        found = dr.zeros(Float, 5)
        dr.scatter_add(found, self.grad_out(), self.index)
        self.set_grad_in("table", found)

    def name(self):
        return "lookup"


@MODES
def test_whole_arrays_are_no_inputs_of_elements(mode) -> None:
    @dr.syntax
    def program(table, index):
        found = Float(0)
        if dr.hint(index > 0, mode=mode):
            found = dr.custom(Lookup, table, index)
        return found

    table = Float(1, 2, 3, 4, 5)
    dr.enable_grad(table)
    index = UInt32(0, 1, 4)
    if mode == "symbolic":
        match = r"lookup: an array with 5 entries is an argument, .* of 3 elements"
        with pytest.raises(SizeError, match=match):
            program(table, index)
        return
    dr.backward(program(table, index))
    assert table.grad.numpy().tolist() == [0, 1, 0, 0, 1]
