"""The first steps of the documentation, unchanged but for the imports.

The recorded loop of that text, `Loop("…", lambda: (o, i))`, is of an interface that
Dr.Jit 1.0 replaced by `@syntax`; here it is a `while` of the same body.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import PCG32, Array3f, Float, UInt32


def sdf(p: Array3f) -> Float:
    return dr.norm(p) - 1


def trace(o: Array3f, d: Array3f) -> Array3f:
    for i in range(10):  # noqa: B007
        o = dr.fma(d, sdf(o), o)
    return o


@dr.syntax
def recorded_trace(o: Array3f, d: Array3f) -> Array3f:
    i = UInt32(0)
    while i < 10:
        o = dr.fma(d, sdf(o), o)
        i += 1
    return o


@dr.syntax
def trace_until_hit(o: Array3f, d: Array3f) -> Array3f:
    i = UInt32(0)
    while i < 200 and sdf(o) > 1e-4 and sdf(o) < 10:
        o = dr.fma(d, sdf(o), o)
        i += 1
    return o


def shade(p: Array3f, l: Array3f, eps: float = 1e-3) -> Float:  # noqa: E741
    n = Array3f(
        sdf(p + [eps, 0, 0]) - sdf(p - [eps, 0, 0]),
        sdf(p + [0, eps, 0]) - sdf(p - [0, eps, 0]),
        sdf(p + [0, 0, eps]) - sdf(p - [0, 0, eps]),
    ) / (2 * eps)
    return dr.maximum(0, dr.dot(n, l))


def picture(trace: Any) -> Any:
    x = dr.linspace(Float, -1, 1, 1000)
    x, y = dr.meshgrid(x, x)

    p = trace(o=Array3f(0, 0, -2), d=dr.normalize(Array3f(x, y, 1)))

    sh = shade(p, l=Array3f(0, -1, -1))
    sh[sdf(p) > 0.1] = 0

    img = Array3f(0.1, 0.1, 0.2) + Array3f(0.4, 0.4, 0.2) * sh
    img_flat = dr.ravel(img)
    return img_flat.numpy().reshape(1000, 1000, 3)


def reference() -> Any:
    """Compute the picture in double precision, with the exact normal."""
    x, y = np.meshgrid(*[np.linspace(-1, 1, 1000)] * 2)
    d = np.stack([x, y, np.ones_like(x)])
    d /= np.linalg.norm(d, axis=0)
    p = np.array([0, 0, -2.0])[:, None, None] + 0 * d
    for _ in range(10):
        p = d * (np.linalg.norm(p, axis=0) - 1) + p
    length = np.linalg.norm(p, axis=0)
    shade = np.maximum(0, -(p[1] + p[2]) / length)
    shade[length - 1 > 0.1] = 0
    img = [a + b * shade for a, b in ((0.1, 0.4), (0.1, 0.4), (0.2, 0.2))]
    return np.stack(img, axis=-1)


def test_the_distance_to_a_sphere() -> None:
    assert abs(sdf(Array3f(1, 2, 3))[0] - 2.7416574954986572) < 1e-6
    two = sdf(Array3f([0, 1], [0, 2], [0, 3]))
    assert np.allclose(two, [-1.0, 2.7416574954986572])


@pytest.mark.parametrize("function", [trace, recorded_trace])
def test_the_picture_of_the_sphere(function: Any) -> None:
    img = picture(function)
    error = np.abs(img - reference()).max(axis=-1)
    # Finite differences in single precision; pixels at the threshold may flip.
    assert np.quantile(error, 0.999) < 1e-3
    assert np.mean(error > 2e-3) < 1e-4


def test_both_loops_agree() -> None:
    assert np.abs(picture(trace) - picture(recorded_trace)).max() < 1e-6


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_stopping_early(mode: str) -> None:
    is_symbolic = mode == "symbolic"
    o = Array3f(0, 0, -2) + dr.zeros(Array3f, 3)
    d = dr.normalize(Array3f([0, 0.2, 1], [0, 0.1, 1], 1))
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, is_symbolic):
        distance = sdf(trace_until_hit(o, d))
    assert np.all(np.abs(distance.numpy()[:2]) < 1e-4)
    assert distance[2] > 10


def test_noise() -> None:
    noise = PCG32(size=16 * 16 * 16).next_float32()
    assert dr.width(noise) == 4096
    values = noise.numpy()
    assert 0 <= values.min() < values.max() < 1
    assert abs(values.mean() - 0.5) < 0.02
