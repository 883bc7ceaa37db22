"""Derivatives of complex functions where a part is zero, on both sides of cuts."""

from __future__ import annotations

import cmath
from cmath import sqrt
from collections.abc import Callable
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm.ad import Complex2f64


def root_of_sum(z: complex) -> complex:
    """Return sqrt(1 - z) sqrt(1 + z), keeping the signs of zeros."""
    a, b = z.real, z.imag
    return sqrt(complex(1 - a, -b)) * sqrt(complex(1 + a, b))


DERIVATIVES: dict[str, Callable[[complex], complex]] = {
    "sin": cmath.cos,
    "cos": lambda z: -cmath.sin(z),
    "tan": lambda z: 1 + cmath.tan(z) ** 2,
    "sinh": cmath.cosh,
    "cosh": cmath.sinh,
    "tanh": lambda z: 1 - cmath.tanh(z) ** 2,
    "asin": lambda z: 1 / root_of_sum(z),
    "acos": lambda z: -1 / root_of_sum(z),
    "atan": lambda z: 1 / (1 + z * z),
    "asinh": lambda z: 1 / root_of_sum(complex(-z.imag, z.real)),
    "acosh": lambda z: (
        1 / (sqrt(complex(z.real - 1, z.imag)) * sqrt(complex(z.real + 1, z.imag)))
    ),
    "atanh": lambda z: 1 / (1 - z * z),
    "exp": cmath.exp,
    "exp2": lambda z: cmath.exp(z * cmath.log(2)) * cmath.log(2),
    "log": lambda z: 1 / z,
    "sqrt": lambda z: 0.5 / sqrt(z),
    "rsqrt": lambda z: -0.5 / z / sqrt(z),
    "rcp": lambda z: -1 / z / z,
    "square": lambda z: 2 * z,
}
PARTS = (0.0, -0.0, 0.5, -0.5, 1.0, 2.0, -2.0, 1e-3)
POINTS = [complex(a, b) for a in PARTS for b in PARTS if a != 0 or b != 0]


def gradient(function: Any, z: complex, weight: complex) -> complex:
    x = Complex2f64(z.real, z.imag)
    dr.enable_grad(x)
    y = function(x)
    dr.set_grad(y, Complex2f64(weight.real, weight.imag))
    dr.enqueue(dr.ADMode.Backward, y)
    dr.traverse(dr.ADMode.Backward)
    return complex(x.grad.numpy()[0])


@pytest.mark.parametrize("name", DERIVATIVES)
def test_on_the_axes(name: str) -> None:
    for z in POINTS:
        if z in (1, 1j, -1j) and name.startswith("a"):
            continue  # Here are poles.
        slope = DERIVATIVES[name](z)
        for weight in (1, 1j):
            found = gradient(getattr(dr, name), z, weight)
            assert found == pytest.approx(slope.conjugate() * weight, abs=1e-9), z


@pytest.mark.parametrize("power", [0j, 1 + 0j, 2 + 0j, 1j, 0.5 - 1.5j])
def test_powers_on_the_axes(power: complex) -> None:
    for z in POINTS:
        slope = power * cmath.exp((power - 1) * cmath.log(z))
        found = gradient(lambda x: x ** Complex2f64(power), z, 1)
        assert found == pytest.approx(slope.conjugate(), rel=1e-9, abs=1e-9), z
        slope = cmath.exp(power * cmath.log(z)) * cmath.log(z)
        base = Complex2f64(z)
        found = gradient(lambda y, base=base: base**y, power, 1)
        assert found == pytest.approx(slope.conjugate(), rel=1e-9, abs=1e-9), z
