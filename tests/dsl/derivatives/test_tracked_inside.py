"""Derivatives by what a symbolic loop, branch or call makes and tracks itself."""

from __future__ import annotations

import numpy as np

import lumijit as dr
from lumijit.llvm.ad import Array2f64, UInt
from lumijit.llvm.ad import Float64 as Float


@dr.syntax
def fit_each(a: Float, n: UInt) -> Float:
    x, i = Float(0.5), UInt(0)
    while i < n:
        y = Float(x)
        dr.enable_grad(y)
        dr.backward_from(dr.square(y * a - 1))
        x -= 0.1 * dr.grad(y)
        i += 1
    return x


@dr.syntax
def slope_in_a_branch(x: Float) -> Float:
    found = Float(0)
    if x > 1:
        p = Array2f64(x, 2.0)
        dr.enable_grad(p)
        dr.backward_from(p.y * p.y * x + p.x)
        found = dr.grad(p).y
    return found


def slope_of_sin(x: Float) -> Float:
    t = Float(1)
    dr.enable_grad(t)
    dr.backward(dr.sin(x * t))
    return dr.grad(t)


def test_each_element_has_its_derivative_by_what_a_region_makes() -> None:
    """What has one entry when it is tracked there is another one for each element."""
    a, x = np.array([1.0, 2, 3]), np.full(3, 0.5)
    for _ in range(3):
        x -= 0.1 * 2 * (x * a - 1) * a
    for n in (UInt(3), UInt(3, 3, 3)):
        np.testing.assert_allclose(fit_each(Float(a), n), x)
    np.testing.assert_allclose(slope_in_a_branch(Float(a)), [0, 8, 12])
    bodies = [slope_of_sin, lambda x: slope_of_sin(2 * x)]
    found = dr.switch(UInt(0, 1, 0), bodies, Float(a))
    expected = [np.cos(1), np.cos(4) * 4, np.cos(3) * 3]
    np.testing.assert_allclose(found, expected)
