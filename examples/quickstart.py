"""The quickstart's sphere: a signed distance function, sphere traced and shaded.

The program of the introduction with its numbers as parameters: a symbolic loop of
ten steps, normals by central differences, a masked assignment for the background.
"""

from __future__ import annotations

from dataclasses import dataclass

import lumijit as dr
from lumijit.llvm import Array3f, Float, UInt32

TITLE = "quickstart"
SIZE = 1000
ASPECT = 1.0

Vector = tuple[float, float, float]


@dataclass
class Parameters:
    """The numbers of the picture."""

    radius: float = 0.99
    camera_distance: float = 2.02
    light: Vector = (-0.07, -0.94, -0.97)
    ambient: Vector = (0.11, 0.13, 0.21)
    diffuse: Vector = (0.41, 0.43, 0.24)


VARIANTS = (
    Parameters(),
    Parameters(radius=0.9, diffuse=(0.52, 0.31, 0.23)),
    Parameters(
        camera_distance=2.6,
        light=(0.6, -0.7, -0.83),
        ambient=(0.12, 0.16, 0.14),
        diffuse=(0.27, 0.53, 0.38),
    ),
)


def sdf(p: Array3f, look: Parameters) -> Float:
    """Return the distance to the sphere."""
    return dr.norm(p) - look.radius


@dr.syntax
def trace(o: Array3f, d: Array3f, look: Parameters) -> Array3f:
    """Walk along each ray, ten steps."""
    i = UInt32(0)
    while i < 10:
        o = dr.fma(d, sdf(o, look), o)
        i += 1
    return o


def shade(p: Array3f, light: Array3f, look: Parameters, eps: float = 1e-3) -> Float:
    """Return how much a surface faces the light, by central differences."""
    n = Array3f(
        sdf(p + [eps, 0, 0], look) - sdf(p - [eps, 0, 0], look),
        sdf(p + [0, eps, 0], look) - sdf(p - [0, eps, 0], look),
        sdf(p + [0, 0, eps], look) - sdf(p - [0, 0, eps], look),
    ) / (2 * eps)
    return dr.maximum(0, dr.dot(n, light))


def render(width: int, height: int, look: Parameters) -> Float:
    """Trace the whole picture; nothing runs until the result is evaluated."""
    x = dr.linspace(Float, -1, 1, width)
    y = dr.linspace(Float, -1, 1, height)
    x, y = dr.meshgrid(x, y)
    p = trace(
        o=Array3f(0, 0, -look.camera_distance),
        d=dr.normalize(Array3f(x, y, 1)),
        look=look,
    )
    sh = shade(p, Array3f(*look.light), look)
    sh[sdf(p, look) > 0.1] = 0
    return dr.ravel(Array3f(*look.ambient) + Array3f(*look.diffuse) * sh)
