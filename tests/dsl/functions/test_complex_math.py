"""Functions of complex numbers, against higher precision and Python's `cmath`."""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm, scalar

_LOG_TWO = mpmath.log(2)
# Each function, and whether it grows so fast that arguments stay small.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "sqrt": (mpmath.sqrt, False),
    "rsqrt": (lambda z: 1 / mpmath.sqrt(z), False),
    "rcp": (lambda z: 1 / z, False),
    "exp": (mpmath.exp, True),
    "exp2": (lambda z: mpmath.exp(z * mpmath.log(2)), True),
    "log": (mpmath.log, False),
    "log2": (lambda z: mpmath.log(z) / mpmath.log(2), False),
    **{
        name: (getattr(mpmath, name), True)
        for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
    **{
        name: (getattr(mpmath, name), False)
        for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")
    },
}
# In C and Python, too: roots, logarithms and inverse functions have these.
IN_CMATH = sorted(set(FUNCTIONS) - {"rsqrt", "rcp", "exp2", "log2"})


def points(count: int, is_small: bool, seed: int = 0) -> np.ndarray[Any, Any]:
    """Numbers of all sizes and directions, and many near 1."""
    rng = np.random.default_rng(seed)

    def part() -> Any:
        sizes = np.exp2(rng.uniform(-12 if is_small else -30, 4.5 if is_small else 60))
        return sizes * rng.normal(0, 0.3, count)

    spread = part() + 1j * part()
    circle = np.exp(1j * rng.uniform(-3.1, 3.1, count))
    return np.concatenate([spread, circle, circle * (1 + rng.normal(0, 1e-3, count))])


def exact(function: Callable[[Any], Any], z: complex) -> Any:
    with mpmath.workprec(400):
        return function(mpmath.mpc(z.real, z.imag))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("cls", "unit"),
    [
        (llvm.Complex2f, 2.0**-24),
        (llvm.Complex2f64, 2.0**-53),
        (llvm.Complex2f16, 2.0**-11),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_against_higher_precision(name: str, cls: Any, unit: float) -> None:
    """|error| is at most 6 units in the last place of the magnitude."""
    function, is_small = FUNCTIONS[name]
    is_half = cls is llvm.Complex2f16
    z = cls(points(33, is_small or is_half))
    for x, y in zip(z.numpy(), getattr(dr, name)(z).numpy(), strict=True):
        wanted = exact(function, complex(x))
        if is_half and not 1e-3 < abs(wanted) < 6e4:
            continue
        assert abs(complex(y) - wanted) <= 6 * unit * abs(wanted), (x, y, wanted)


def agree(a: float, b: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if a == b == 0:
        return math.copysign(1, a) == math.copysign(1, b)
    return a == b or abs(a - b) <= 1e-15 * abs(b) + 1e-300


@pytest.mark.parametrize("name", IN_CMATH)
def test_special_values_are_those_of_python(name: str) -> None:
    """Zeros of both signs tell the sides of branch cuts, infinities directions."""
    values = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, math.inf, -math.inf]
    pairs = np.array(list(itertools.product(values, values)))
    result = getattr(dr, name)(llvm.Complex2f64(pairs[:, 0], pairs[:, 1]))
    for (x, y), found in zip(pairs, result.numpy(), strict=True):
        try:
            expected = getattr(cmath, name)(complex(x, y))
        except (ValueError, OverflowError):
            continue
        if math.isinf(x) and math.isinf(y) and name in ("tan", "tanh"):
            # The sign of a zero that C leaves open.
            expected, found = abs(expected), abs(found)
        assert agree(found.real, expected.real), (x, y, found, expected)
        assert agree(found.imag, expected.imag), (x, y, found, expected)


def test_poles_and_infinities() -> None:
    zero = llvm.Complex2f(0)
    assert dr.log(zero).numpy()[0] == -math.inf
    assert np.isnan(dr.rcp(zero).numpy()[0].real)
    assert dr.abs(llvm.Complex2f(-math.inf, math.nan))[0] == math.inf
    assert dr.exp(llvm.Complex2f(-math.inf, math.inf)).numpy()[0] == 0
    assert dr.exp(llvm.Complex2f(math.inf, 0)).numpy()[0] == math.inf
    for function in (dr.sqrt, dr.log, dr.sin, dr.tanh, dr.asin):
        assert np.isnan(function(llvm.Complex2f(math.nan, 1)).numpy()[0])


@pytest.mark.parametrize("scale", [1e-45, 1e-40, 1e-38, 1e38, 3e38])
def test_no_overflow_on_the_way(scale: float) -> None:
    z = llvm.Complex2f(scale, scale)
    wide = complex(z)
    assert complex(dr.sqrt(z)) == pytest.approx(wide**0.5, rel=1e-6)
    assert complex(dr.log(z)) == pytest.approx(cmath.log(wide), rel=1e-6)
    assert complex(dr.asinh(z)) == pytest.approx(cmath.asinh(wide), rel=1e-6)
    assert complex(dr.acosh(z)) == pytest.approx(cmath.acosh(wide), rel=1e-6)
    assert complex(dr.asin(z)) == pytest.approx(cmath.asin(wide), rel=1e-6)
    assert complex(dr.atanh(z)) == pytest.approx(cmath.atanh(wide), rel=1e-6)
    # (A quotient's denominator has to be a normal number.)
    if 1e-38 <= scale < 1.5e38:
        assert complex(z / z) == 1


@settings(deadline=None)
@given(*[st.complex_numbers(max_magnitude=50, min_magnitude=0.01)] * 2)
def test_powers(x: complex, y: complex) -> None:
    # mpmath knows no signed zeros, which choose the side of the cut.
    x += 0
    z, w = llvm.Complex2f64(x), llvm.Complex2f64(y / 10)
    with mpmath.workprec(200):
        expected = mpmath.power(mpmath.mpc(x), mpmath.mpc(complex(w)))
        assert abs(complex(z**w) - expected) <= 1e-13 * abs(expected)


@settings(deadline=None)
@given(*[st.complex_numbers(max_magnitude=1e3, allow_nan=False)] * 3)
def test_fma(x: complex, y: complex, z: complex) -> None:
    for module in (llvm, scalar):
        a, b, c = map(module.Complex2f64, (x, y, z))
        bound = 1e-15 * (abs(x) * abs(y) + abs(z))
        assert abs(complex(dr.fma(a, b, c)) - (x * y + z)) <= bound


def test_pairs_of_functions() -> None:
    z = llvm.Complex2f(points(5, is_small=True))
    for pair, parts in (
        (dr.sincos, (dr.sin, dr.cos)),
        (dr.sincosh, (dr.sinh, dr.cosh)),
    ):
        for found, function in zip(pair(z), parts, strict=True):
            assert dr.allclose(found, function(z))


def test_lerp_and_square() -> None:
    a, b = llvm.Complex2f(1, 2), llvm.Complex2f(3, -2)
    assert complex(dr.lerp(a, b, 0.25)) == 1.5 + 1j
    assert complex(dr.square(a)) == -3 + 4j
    assert complex(dr.normalize(llvm.Complex2f(3, 4))) == pytest.approx(0.6 + 0.8j)
    assert dr.hypot(llvm.Complex2f(3, 4), 12)[0] == pytest.approx(13)
