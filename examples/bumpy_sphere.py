"""The quickstart's bumpy sphere: noise from a texture, normals by derivatives.

The last program of the introduction with its numbers as parameters: a tricubic texture
displaces the surface, a recorded loop walks along the rays, and forward mode gives the
slope of the distance towards the light, so that it is computed once instead of six
times.
"""

from __future__ import annotations

from dataclasses import dataclass

import lumijit as dr
from lumijit.llvm.ad import PCG32, Array3f, Float, Loop, TensorXf, Texture3f, UInt32

TITLE = "bumpy_sphere"
SIZE = 1000
ASPECT = 1.0

Vector = tuple[float, float, float]


@dataclass
class Parameters:
    """The numbers of the picture."""

    resolution: int = 16
    bumps: float = 0.1
    steps: int = 10
    light: Vector = (0.0, -1.0, -1.0)
    ambient: Vector = (0.1, 0.1, 0.2)
    diffuse: Vector = (0.4, 0.4, 0.2)


VARIANTS = (
    Parameters(),
    Parameters(
        resolution=12, bumps=0.2, light=(0.3, -0.9, -0.6), diffuse=(0.5, 0.3, 0.2)
    ),
    Parameters(resolution=24, bumps=0.06, light=(0.7, -0.7, -0.8)),
)


def noise(resolution: int) -> Texture3f:
    """Return a texture of random numbers in [0, 1)."""
    values = PCG32(size=resolution**3).next_float32()
    shape = (resolution, resolution, resolution, 1)
    return Texture3f(TensorXf(values, shape=shape))


def sdf(p: Array3f, texture: Texture3f, look: Parameters) -> Float:
    """Return the distance to the bumpy sphere."""
    value = dr.norm(p) - 1
    bumps: Float = texture.eval_cubic(dr.fma(p, 0.5, 0.5))[0]
    return value + bumps * look.bumps


def trace(o: Array3f, d: Array3f, texture: Texture3f, look: Parameters) -> Array3f:
    """Walk along each ray."""
    i = UInt32(0)
    loop = Loop("Sphere tracing", lambda: (o, i))
    while loop(i < look.steps):
        o = dr.fma(d, sdf(o, texture, look), o)
        i += 1
    return o


def shade(p: Array3f, light: Array3f, texture: Texture3f, look: Parameters) -> Float:
    """Return how much a surface faces the light: the slope of the distance there."""
    dr.enable_grad(p)
    value = sdf(p, texture, look)
    dr.set_grad(p, light)
    dr.forward_to(value)
    return dr.maximum(0, dr.grad(value))


def render(width: int, height: int, look: Parameters) -> Float:
    """Trace the whole picture; nothing runs until the result is evaluated."""
    texture = noise(look.resolution)
    x = dr.linspace(Float, -1, 1, width)
    y = dr.linspace(Float, -1, 1, height)
    x, y = dr.meshgrid(x, y)
    rays = dr.normalize(Array3f(x, y, 1))
    p = trace(Array3f(0, 0, -2), rays, texture, look)
    sh = shade(p, Array3f(*look.light), texture, look)
    sh[sdf(p, texture, look) > 0.1] = 0
    return dr.ravel(Array3f(*look.ambient) + Array3f(*look.diffuse) * sh)
