"""Recover the texture of a globe from one picture of it.

The globe is rendered with several rays per pixel, in a loop that adds them up; the
derivative of the loop is a loop that scatters to the texels that its rays have read.
Texels that no ray has seen stay grey: masked updates leave them alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import lumijit as dr
from examples.image import pixel_index, to_srgb
from examples.materials import marbled
from lumijit.llvm.ad import Array3f, Float, UInt32

TITLE = "inverse_texture"
SIZE = 240
STEPS = 60
SAMPLES = 4

TEXTURE_WIDTH, TEXTURE_HEIGHT = 128, 64
LIGHT = (-0.45, 0.65, -0.61)


def truth() -> Float:
    """Return the texels that are to be recovered."""
    image = marbled(8, (0.45, 0.05, 0.04), (0.95, 0.72, 0.32))[::4, ::4]
    return Float(np.ascontiguousarray(image, np.float32).reshape(-1))


def lookup(texels: Float, u: Float, v: Float) -> Array3f:
    """Interpolate between the four texels around a point of the unit square."""
    x = dr.clip(u * TEXTURE_WIDTH - 0.5, 0, TEXTURE_WIDTH - 1.001)
    y = dr.clip(v * TEXTURE_HEIGHT - 0.5, 0, TEXTURE_HEIGHT - 1.001)
    column, row = UInt32(x), UInt32(y)
    corner = row * TEXTURE_WIDTH + column
    above, below = (
        dr.lerp(
            dr.gather(Array3f, texels, start),
            dr.gather(Array3f, texels, start + 1),
            x - Float(column),
        )
        for start in (corner, corner + TEXTURE_WIDTH)
    )
    return dr.lerp(above, below, y - Float(row))


def globe(texels: Float, x: Float, y: Float) -> Array3f:
    """Return what is seen at a point of the image plane, in [-1, 1]."""
    height = 0.81 - x * x - y * y
    is_hit = height > 0
    n = Array3f(x, y, -dr.sqrt(dr.select(is_hit, height, 1))) / 0.9
    u = 0.5 + dr.atan2(n.x, -n.z) * dr.inv_pi
    v = dr.acos(dr.clip(n.y, -1, 1)) * dr.inv_pi
    facing = dr.maximum(0, dr.dot(n, Array3f(*LIGHT)))
    return dr.select(is_hit, lookup(texels, u, v) * (0.15 + 0.95 * facing), 0.02)


@dr.syntax
def render(texels: Float, size: int) -> Array3f:
    """Average several rays through each pixel."""
    column, row = pixel_index(size, size)
    total = Array3f(0)
    k = UInt32(0)
    while k < SAMPLES:
        # Points of a lattice: evenly spread, without random numbers.
        across = (Float(k) + 0.5) / SAMPLES
        down = across * (SAMPLES // 2 + 1)
        x = (Float(column) + across) * (2 / size) - 1
        y = 1 - (Float(row) + down - dr.floor(down)) * (2 / size)
        total += globe(texels, x, y)
        k += 1
    return total / SAMPLES


def picture(texels: Float, size: int) -> np.ndarray:
    """Return the rendering as rows of sRGB triples."""
    image = dr.ravel(to_srgb(dr.clip(render(dr.detach(texels), size), 0, 1)))
    return np.asarray(image.numpy()).reshape(size, size, 3)


def flat(texels: Float) -> np.ndarray:
    """Return the texture itself as rows of sRGB triples."""
    image = dr.ravel(to_srgb(dr.unravel(Array3f, dr.detach(texels))))
    return np.asarray(image.numpy()).reshape(TEXTURE_HEIGHT, TEXTURE_WIDTH, 3)


def optimize(opt: dr.opt.Optimizer, size: int, steps: int) -> Iterator[float]:
    """Improve the texture step by step; yield the loss before each."""
    target = render(truth(), size)
    dr.eval(target)

    @dr.kernel
    def improve() -> Float:
        loss = dr.mean(dr.squared_norm(render(opt["texels"], size) - target))
        dr.backward(loss)
        opt.step()
        opt["texels"] = dr.clip(opt["texels"], 0, 1)
        return loss

    for _ in range(steps):
        yield improve()[0]


def begin() -> dr.opt.Optimizer:
    """Return the optimizer of a grey texture."""
    texels = dr.full(Float, 0.5, TEXTURE_WIDTH * TEXTURE_HEIGHT * 3)
    return dr.opt.Adam(lr=0.05, params={"texels": texels}, mask_updates=True)
