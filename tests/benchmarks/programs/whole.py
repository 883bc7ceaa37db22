"""Whole programs as users write them, which nothing was tuned for."""

from __future__ import annotations

from typing import Any

import lumijit as dr
from lumijit.llvm import PCG32, Array3f, Bool, Float, Int, TensorXf, Texture3f, UInt
from lumijit.llvm.ad import PCG32 as PCG32D
from lumijit.llvm.ad import Array2f as Array2fD
from lumijit.llvm.ad import Array3f as Array3fD
from lumijit.llvm.ad import Float as FloatD
from lumijit.llvm.ad import UInt as UIntD
from tests.benchmarks.declare import Program, case, ready

SPHERES = 12


def scattered(n: int, low: float, high: float, stream: int) -> Float:
    """Return random numbers, in memory."""
    return ready(PCG32(n, initseq=stream).next_float32() * (high - low) + low)


def pixels(n: int) -> tuple[int, Float, Float]:
    """Return the side of a square picture, and where its pixels lie from -1 to 1."""
    side = max(2, int(n**0.5))
    x, y = dr.meshgrid(dr.linspace(Float, -1, 1, side), dr.linspace(Float, -1, 1, side))
    return side, x, y


@dr.syntax
def nearest_sphere(o: Array3f, d: Array3f, spheres: Any) -> tuple[Float, UInt]:
    """Intersect rays with spheres: how far, and which."""
    x, y, z, radius, _ = spheres
    best, which, k = Float(1e9), UInt(SPHERES), UInt(0)
    while k < SPHERES:
        c = Array3f(*[dr.gather(Float, v, k) for v in (x, y, z)])
        oc = o - c
        b = dr.dot(oc, d)
        disc = b * b - dr.dot(oc, oc) + dr.square(dr.gather(Float, radius, k))
        t = -b - dr.sqrt(dr.maximum(disc, 0))
        hit = (disc > 0) & (t > 1e-3) & (t < best)
        best = dr.select(hit, t, best)
        which = dr.select(hit, k, which)
        k += 1
    return best, which


@dr.syntax
def radiance(o: Array3f, d: Array3f, rng: PCG32, spheres: Any) -> Float:
    """Follow paths of up to six diffuse reflections."""
    x, y, z, radius, albedo = spheres
    through, result, depth, active = Float(1), Float(0), UInt(0), Bool(True)
    while active & (depth < 6):
        t, k = nearest_sphere(o, d, spheres)
        if k == SPHERES:
            result += through * (0.5 + 0.5 * d.y)
            active = Bool(False)
        else:
            c = Array3f(*[dr.gather(Float, v, k) for v in (x, y, z)])
            p = o + d * t
            n = (p - c) / dr.gather(Float, radius, k)
            height = 1 - 2 * rng.next_float32()
            s, co = dr.sincos(6.2831853 * rng.next_float32())
            r = dr.sqrt(dr.maximum(0, 1 - height * height))
            d = dr.normalize(n + Array3f(r * co, r * s, height) * 0.999)
            o = p + n * 1e-3
            through *= dr.gather(Float, albedo, k)
            q = dr.maximum(through, 0.1)
            if depth > 2:
                if rng.next_float32() > q:
                    active = Bool(False)
                through /= q
        depth += 1
    return result


@case("whole", 256 * 256, tiny=16, rtol=1e-2, strays=5e-2)
def path_tracer(n: int) -> Program:
    """Paths among twelve spheres: loops in loops, branches, Russian roulette."""
    bounds = [(-3, 3), (-3, 3), (-3, 3), (0.3, 0.9), (0.2, 0.9)]
    spheres = [scattered(SPHERES, *b, k) for k, b in enumerate(bounds)]

    def run() -> Float:
        side, x, y = pixels(n)
        d = dr.normalize(Array3f(x, y, 2))
        return radiance(Array3f(0, 0, -8), d, PCG32(size=side * side), spheres)

    return run


@dr.syntax
def prices(sigma: Any, rng: Any, turns: int, kind: Any, counter: Any) -> Any:
    """Let a price wander."""
    s, k = kind(100) + 0 * sigma, counter(0)
    while dr.hint(k < turns, max_iterations=turns):
        u, v = dr.maximum(rng.next_float32(), 1e-7), rng.next_float32()
        z = dr.sqrt(-2 * dr.log(u)) * dr.cos(6.2831853 * v)
        s *= dr.exp((0.05 - 0.5 * sigma * sigma) * 0.02 + sigma * 0.1414 * z)
        k += 1
    return s


@case("whole", 200_000, rtol=1e-3, strays=1e-3)
def option_prices(n: int) -> Program:
    """Fifty steps of a random walk for each price."""
    sigma = ready(Float(0.2))
    return lambda: prices(sigma, PCG32(size=n), 50, Float, UInt)


@case("whole", 100_000, rtol=1e-2)
def option_gradient(n: int) -> Program:
    """The derivative of a mean price by its volatility, in reverse mode."""

    def run() -> FloatD:
        sigma = FloatD(0.2)
        dr.enable_grad(sigma)
        final = prices(sigma, PCG32D(size=n), 30, FloatD, UIntD)
        dr.backward(dr.mean(dr.maximum(final - 100, 0)))
        return dr.grad(sigma)

    return run


@dr.syntax
def assigned(x: Float, y: Float, cx: Float, cy: Float, count: int) -> UInt:
    """Find the nearest of some centres."""
    best, which, k = Float(1e9), UInt(0), UInt(0)
    while k < count:
        d = dr.square(x - dr.gather(Float, cx, k))
        d += dr.square(y - dr.gather(Float, cy, k))
        if d < best:
            best = d
            which = UInt(k)
        k += 1
    return which


@case("whole", 300_000, rtol=1e-3, strays=0.2)
def k_means(n: int) -> Program:
    """Two turns of k-means with sixteen centres."""
    x, y = scattered(n, 0, 1, 1), scattered(n, 0, 1, 2)

    def run() -> tuple[Float, Float]:
        first = dr.arange(UInt, 16)
        cx, cy = dr.gather(Float, x, first), dr.gather(Float, y, first)
        for _ in range(2):
            which = assigned(x, y, cx, cy, 16)
            sums = [dr.zeros(Float, 16) for _ in range(3)]
            for total, value in zip(sums, (x, y, Float(1)), strict=True):
                dr.scatter_add(total, value, which)
            cx, cy = sums[0] / sums[2], sums[1] / sums[2]
            dr.eval(cx, cy)
        return cx, cy

    return run


@dr.syntax
def blurred(source: Float, position: UInt, step: int, side: int) -> Float:
    """Average 17 neighbours in a row or column."""
    i = Int(dr.arange(UInt, side * side))
    total, weights, k = Float(0), Float(0), Int(-8)
    while k <= 8:
        q = Int(position) + k
        inside = (q >= 0) & (q < side)
        w = dr.exp(-0.03 * Float(k * k))
        total += dr.select(
            inside, w * dr.gather(Float, source, i + k * step, inside), 0
        )
        weights += dr.select(inside, w, 0)
        k += 1
    return total / weights


@case("whole", 512 * 512)
def gaussian_blur(n: int) -> Program:
    """A picture blurred along rows, then along columns."""
    side = max(2, int(n**0.5))
    picture = scattered(side * side, 0, 1, 3)

    def run() -> Float:
        i = dr.arange(UInt, side * side)
        rows = blurred(picture, i % side, 1, side)
        dr.eval(rows)
        return blurred(rows, i // side, side, side)

    return run


@dr.syntax
def first_collision(x: Float, y: Float, rng: PCG32, texture: Texture3f) -> Float:
    """Track particles through a volume until one collides."""
    z, found, active = Float(0), Float(-1), Bool(True)
    while active:
        z -= dr.log(1 - rng.next_float32()) * 0.1
        if z > 1:
            active = Bool(False)
        elif rng.next_float32() < texture.eval(Array3f(x, y, z))[0]:
            found = Float(z)
            active = Bool(False)
    return found


@case("whole", 256 * 256, tiny=16, rtol=1e-2, strays=5e-2)
def delta_tracking(n: int) -> Program:
    """Collisions in a volume of 16³ texels, until each particle has left or met one."""
    texture = Texture3f(TensorXf(scattered(4096, 0, 1, 4), shape=(16, 16, 16, 1)))

    def run() -> Float:
        side, x, y = pixels(n)
        x, y = x * 0.5 + 0.5, y * 0.5 + 0.5
        return first_collision(x, y, PCG32(size=side * side), texture)

    return run


def splatted(position: Array2fD, colour: Array3fD, side: int) -> Array3fD:
    """Draw points as Gaussians on nine pixels each, and divide by their weights."""
    sums, weights = dr.zeros(Array3fD, side * side), dr.zeros(FloatD, side * side)
    corner = dr.floor(position * side)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            pixel = corner + Array2fD(dx, dy)
            w = dr.exp(-dr.squared_norm(position * side - (pixel + 0.5)))
            inside = (
                (pixel.x >= 0) & (pixel.x < side) & (pixel.y >= 0) & (pixel.y < side)
            )
            index = UIntD(pixel.y * side + pixel.x)
            dr.scatter_reduce(dr.ReduceOp.Add, sums, colour * w, index, inside)
            dr.scatter_add(weights, w, index, inside)
    return sums / (weights + 1e-3)


@case("whole", 100_000, rtol=1e-2, strays=1e-3)
def soft_rasteriser(n: int) -> Program:
    """The gradient of a picture of points by where they lie."""
    x, y = FloatD(scattered(n, 0, 1, 5)), FloatD(scattered(n, 0, 1, 6))
    colour = Array3fD(x, y, 0.5)

    def run() -> FloatD:
        position = Array2fD(x, y)
        dr.enable_grad(position)
        picture = splatted(position, colour, 64)
        dr.backward(dr.sum(dr.squared_norm(picture - 0.4)))
        return dr.grad(position).x

    return run
