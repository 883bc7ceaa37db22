"""Recover a shape from pictures of it, as spheres and as a grid of distances.

A ray walks along the signed distance, through the shape to its far side, in a symbolic
loop of which no derivative is taken. It finds where it first touches the surface, and
where it comes closest to it or deepest below. There the shape is asked once more, with
derivatives: one Newton step along the ray moves the hit with the surface, and the
distance at the closest point gives the pixel's coverage, which fades over a small
width. So rays that just miss say in which direction the outline should move.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import lumijit as dr
from examples.image import to_srgb
from lumijit.llvm.ad import Array3f, Array3u, Float, UInt32

TITLE = "inverse_shape"
SIZE = 64
STEPS = 70

VIEWS = 6
NEAR, FAR = 2.2, 5.4
FIELD_OF_VIEW = 0.36
# The distance over which outlines fade, and the shortest step of a ray.
SOFTNESS = 0.03
STRIDE = 0.04
GRID = 20
EXTENT = 1.25

Ball = tuple[float, float, float, float]
TARGET: tuple[Ball, ...] = (
    (-0.35, -0.25, 0.1, 0.5),
    (0.4, -0.2, -0.25, 0.42),
    (0.1, 0.5, 0.15, 0.36),
)
START: tuple[Ball, ...] = (
    (-0.2, 0.0, 0.0, 0.35),
    (0.2, 0.0, 0.0, 0.35),
    (0.0, 0.2, 0.0, 0.35),
)


# Shapes


@dataclass
class Balls:
    """A smooth union of spheres."""

    centres: list[Array3f]
    radii: list[Float]

    @staticmethod
    def of(balls: tuple[Ball, ...]) -> Balls:
        """Make a shape of centres and radii."""
        return Balls([Array3f(*b[:3]) for b in balls], [Float(b[3]) for b in balls])

    def distance(self, p: Array3f) -> Float:
        """Return the signed distance to the surface."""
        total = Float(0)
        for centre, radius in zip(self.centres, self.radii, strict=True):
            total += dr.exp(-12 * (dr.norm(p - centre) - radius))
        return -dr.log(total) / 12


@dataclass
class Grid:
    """Distances at the points of a grid, interpolated."""

    values: Float

    @staticmethod
    def ball(radius: float) -> Grid:
        """Make the grid of a sphere."""
        k = dr.arange(UInt32, GRID**3)
        z, y, x = k // GRID**2, k // GRID % GRID, k % GRID
        p = (Array3f(Array3u(x, y, z)) / (GRID - 1) * 2 - 1) * EXTENT
        return Grid(dr.norm(p) - radius)

    def distance(self, p: Array3f) -> Float:
        """Interpolate; outside of the grid, add the distance to it."""
        inside = dr.clip(p, -EXTENT, EXTENT)
        q = (inside / EXTENT + 1) * (0.5 * (GRID - 1) * 0.9999)
        corner = Array3u(q)
        w = q - Array3f(corner)
        first = (corner.z * GRID + corner.y) * GRID + corner.x
        rows = []
        for offset in (0, GRID, GRID**2, GRID**2 + GRID):
            a = dr.gather(Float, self.values, first + offset)
            b = dr.gather(Float, self.values, first + (offset + 1))
            rows.append(dr.lerp(a, b, w.x))
        near, far = (dr.lerp(a, b, w.y) for a, b in (rows[:2], rows[2:]))
        return dr.lerp(near, far, w.z) + dr.norm(dr.detach(p - inside))

    def roughness(self) -> Float:
        """Return by how much values differ from the mean of their neighbours."""
        k = dr.arange(UInt32, GRID**3)
        total = Float(0)
        for stride in (1, GRID, GRID**2):
            position = k // stride % GRID
            is_inner = (position > 0) & (position < GRID - 1)
            a, b = (
                dr.gather(Float, self.values, at, is_inner)
                for at in (k - stride, k + stride)
            )
            total += dr.select(is_inner, a + b - 2 * self.values, 0)
        return dr.mean(dr.square(total))


Shape = Balls | Grid


# Pictures


def rays(size: int) -> tuple[Array3f, Array3f]:
    """Return the rays of all pixels of all views, one view after the other."""
    k = dr.arange(UInt32, VIEWS * size * size)
    view, pixel = k // (size * size), k % (size * size)
    angle = Float(view) * (2 * math.pi / VIEWS)
    height = dr.select(view % 2 == 0, 0.45, -0.45)
    back = dr.normalize(Array3f(dr.cos(angle), height, dr.sin(angle)))
    right = dr.normalize(dr.cross(Array3f(0, 1, 0), back))
    x = (Float(pixel % size) + 0.5) * (2 / size) - 1
    y = 1 - (Float(pixel // size) + 0.5) * (2 / size)
    across = FIELD_OF_VIEW * (x * right + y * dr.cross(back, right))
    return 3.8 * back, dr.normalize(across - back)


@dr.syntax
def walk(shape: Any, o: Array3f, d: Array3f) -> tuple[Float, Float]:
    """Return where each ray touches the surface, and where it is deepest below it.

    A ray that misses touches nowhere: then both are where it comes closest.
    """
    t, hit, deepest = Float(NEAR), Float(FAR), Float(NEAR)
    least = Float(dr.inf)
    while t < FAR:
        distance = shape.distance(dr.fma(d, t, o))
        if distance < least:
            least = distance
            deepest = t
        if (distance < 1e-3) & (hit == FAR):
            hit = t
        t += dr.maximum(abs(distance), STRIDE)
    return dr.select(hit < FAR, hit, deepest), deepest


def slope(shape: Any, p: Array3f, eps: float = 0.02) -> Array3f:
    """Return the gradient of the distance, from the corners of a tetrahedron."""
    total = Array3f(0)
    for corner in ((1, -1, -1), (-1, -1, 1), (-1, 1, -1), (1, 1, 1)):
        total += Array3f(*corner) * shape.distance(p + eps * Array3f(*corner))
    return total / (4 * eps)


def render(shape: Any, size: int) -> Array3f:
    """Trace the pictures of all views."""
    o, d = rays(size)
    still = dr.detach(shape)
    hit, deepest = walk(still, o, d)
    # The Newton step: its value lands on the surface, its derivative moves with it.
    p = dr.fma(d, hit, o)
    speed = dr.minimum(dr.dot(slope(still, p), d), -0.2)
    covered = dr.fma(d, deepest, o)
    depth: Float = shape.distance(covered)
    p -= d * dr.select(depth < 0, shape.distance(p) / speed, 0)
    n = dr.normalize(slope(shape, p))
    coverage = 1 / (1 + dr.exp(dr.minimum(depth / SOFTNESS, 30)))
    return coverage * (0.5 + 0.45 * n) * Array3f(1, 0.9, 0.8)


def picture(shape: Shape, size: int) -> np.ndarray:
    """Return all views side by side, as rows of sRGB triples."""
    image = dr.ravel(to_srgb(dr.clip(render(dr.detach(shape), size), 0, 1)))
    views = np.asarray(image.numpy()).reshape(VIEWS, size, size, 3)
    return np.concatenate(views, axis=1)


# Optimization


def begin() -> dict[str, dr.opt.Optimizer]:
    """Return the optimizers of both kinds of shapes, by their names."""
    return {
        "spheres": dr.opt.Adam(lr=0.02, params={"shape": Balls.of(START)}),
        "grid": dr.opt.Adam(lr=0.02, params={"shape": Grid.ball(0.75)}),
    }


def optimize(opt: dr.opt.Optimizer, size: int, steps: int) -> Iterator[float]:
    """Improve the shape step by step; yield the difference of pictures before each."""
    target = render(Balls.of(TARGET), size)
    dr.eval(target)

    @dr.kernel
    def improve(rate: float) -> Float:
        shape = opt["shape"]
        difference = dr.mean(dr.squared_norm(render(shape, size) - target))
        loss = difference
        if isinstance(shape, Grid):
            loss = loss + 0.5 * shape.roughness()
        dr.backward(loss)
        opt.set_learning_rate(rate)
        opt.step()
        return difference

    rate = opt.learning_rate()
    for step in range(steps):
        yield improve(rate * (1 - 0.8 * step / steps))[0]
