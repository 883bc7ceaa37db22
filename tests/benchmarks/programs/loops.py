"""Loops: lean and fat, uniform and divergent, nested."""

from __future__ import annotations

import lumijit as dr
from lumijit.llvm import PCG32, Array3f, Float, Float64, UInt, UInt64
from tests.benchmarks.declare import Program, case, ready


@dr.syntax
def mandelbrot_count(cx: Float, cy: Float) -> UInt:
    """Count the iterations until a point escapes."""
    i = UInt(0)
    x = Float(0)
    y = Float(0)
    while (x * x + y * y < 4) & (i < 256):
        next_x = x * x - y * y + cx
        y = 2 * x * y + cy
        x = next_x
        i += 1
    return i


@case("loops", 512 * 512, strays=1e-3)
def mandelbrot(n: int) -> Program:
    """512 x 512 points, up to 256 iterations: lean, divergent."""
    side = int(n**0.5)
    cx, cy = dr.meshgrid(
        dr.linspace(Float, -2, 1, side), dr.linspace(Float, -1.5, 1.5, side)
    )
    ready(cx, cy)
    return lambda: mandelbrot_count(cx, cy)


@dr.syntax
def scattered(x: Float, y: Float, turns: UInt) -> Float:
    """Sum what falls off, with all that it depends on written where it is used."""
    i = UInt(0)
    total = Float(0)
    while i < turns:
        width = dr.sqrt(abs(x) + 0.1)
        weight = dr.power(abs(y) + 0.5, 1.7) * dr.exp(-width)
        total = total * 0.5 + weight * dr.sin(y)
        i += 1
    return total


@case("loops", 512 * 1024)
def loop_invariants(n: int) -> Program:
    """Up to 31 turns that compute nearly all alike."""
    x, y = ready(dr.linspace(Float, -2, 2, n), dr.linspace(Float, 0, 9, n))
    turns = ready(dr.arange(UInt, n) * 747796405 >> 27)
    return lambda: scattered(x, y, turns)


@dr.syntax
def julia_count(x: Float64, y: Float64) -> UInt:
    """Count the iterations until a point escapes from a Julia set."""
    i = UInt(0)
    while (x * x + y * y < 4) & (i < 200):
        next_x = x * x - y * y - 0.7269
        y = 2 * x * y + 0.1889
        x = next_x
        i += 1
    return i


@case("loops", 512 * 512, strays=1e-3)
def julia_f64(n: int) -> Program:
    """A Julia set in doubles."""
    side = int(n**0.5)
    x, y = dr.meshgrid(
        dr.linspace(Float64, -1.5, 1.5, side), dr.linspace(Float64, -1, 1, side)
    )
    ready(x, y)
    return lambda: julia_count(x, y)


@dr.syntax
def accelerations(bodies: Array3f, p: Array3f, count: UInt) -> Array3f:
    """Sum the pull of all bodies on each, one after the other."""
    j = UInt(0)
    a = Array3f(0)
    while j < count:
        d = dr.gather(Array3f, bodies, j) - p
        r = dr.rsqrt(dr.dot(d, d) + 1e-4)
        a += d * (r * r * r)
        j += 1
    return a


def random_points(n: int, seed: int = 1) -> Array3f:
    """Return points in the unit cube, in memory."""
    rng = PCG32(size=n, initstate=seed)
    p = Array3f([rng.next_float32() for _ in range(3)])
    return ready(p)


@case("loops", 2048, rtol=2e-3)
def nbody(n: int) -> Program:
    """Forces among 2,048 bodies, read by gathers in a loop."""
    p = random_points(n)
    count = dr.opaque(UInt, n)
    return lambda: accelerations(p, p, count)


@dr.syntax
def nearest_sphere(centers: Array3f, d: Array3f, count: int) -> Float:
    """Return the distance to the first sphere that a ray from the origin hits."""
    nearest = Float(1e6)
    k = UInt(0)
    while k < count:
        center = dr.gather(Array3f, centers, k)
        b = dr.dot(center, d)
        discriminant = b * b - dr.dot(center, center) + 0.04
        t = b - dr.sqrt(dr.maximum(discriminant, 0))
        nearest = dr.select((discriminant > 0) & (t > 0) & (t < nearest), t, nearest)
        k += 1
    return nearest


@case("loops", 1 << 17, rtol=1e-3, strays=1e-3)
def spheres_64(n: int) -> Program:
    """128 K rays against 64 spheres, in a loop."""
    centers = random_points(64) + Array3f(-0.5, -0.5, 1)
    ready(centers)
    d = dr.normalize(random_points(n, 2) + Array3f(-0.5, -0.5, 0.5))
    ready(d)
    return lambda: nearest_sphere(centers, d, 64)


@dr.syntax
def hits_in_circle(rng: PCG32) -> UInt:
    """Count how many of 64 random points per entry fall into the unit circle."""
    i = UInt(0)
    count = UInt(0)
    while i < 64:
        a = rng.next_float32()
        b = rng.next_float32()
        count += dr.select(a * a + b * b < 1, UInt(1), UInt(0))
        i += 1
    return count


@case("loops", 1 << 17)
def pcg32(n: int) -> Program:
    """64 pairs of random numbers (PCG32) for each of 128 K generators."""
    return lambda: hits_in_circle(PCG32(size=n))


@dr.syntax
def xorshift_sum(x: UInt, count: int) -> UInt:
    """Advance a generator and sum what it gives."""
    i, total = UInt(0), UInt(0)
    while i < count:
        x = x ^ (x << 13)
        x = x ^ (x >> 17)
        x = x ^ (x << 5)
        total += x >> 8
        i += 1
    return total


@case("loops", 1 << 18)
def lean_uniform_u32(n: int) -> Program:
    """A generator of a few shifts, 128 steps for all: lean, uniform."""
    x = ready(dr.arange(UInt, n) + 1)
    return lambda: xorshift_sum(x, 128)


@dr.syntax
def lorenz(p: Array3f, steps: int) -> Array3f:
    """Follow the Lorenz attractor by the midpoint rule."""

    def slope(q: Array3f) -> Array3f:
        return Array3f(
            10 * (q.y - q.x), q.x * (28 - q.z) - q.y, q.x * q.y - 2.6666667 * q.z
        )

    i = UInt(0)
    while i < steps:
        middle = p + slope(p) * 0.002
        p = p + slope(middle) * 0.004
        i += 1
    return p


@case("loops", 1 << 17, rtol=1e-2, strays=1e-3)
def lorenz_uniform(n: int) -> Program:
    """64 steps of the Lorenz attractor: fat, uniform."""
    p = ready(random_points(n) * 10)
    return lambda: lorenz(p, 64)


@dr.syntax
def march(o: Array3f, d: Array3f) -> Float:
    """Walk along rays through a field of blobs until a surface is near."""
    t, i = Float(0), UInt(0)
    distance = Float(1)
    while (distance > 1e-3) & (t < 8) & (i < 64):
        p = dr.fma(d, t, o)
        wave = dr.sin(3 * p.x) * dr.sin(3 * p.y) * dr.sin(3 * p.z)
        distance = dr.norm(p) - 1 + 0.1 * wave
        t += 0.8 * distance
        i += 1
    return t


@case("loops", 1 << 16, rtol=2e-2, strays=5e-3)
def march_sdf(n: int) -> Program:
    """Sphere tracing of a wavy ball: fat, divergent."""
    d = dr.normalize(random_points(n) + Array3f(-0.5, -0.5, 0.5))
    ready(d)
    return lambda: march(Array3f(0, 0, -3), d)


@dr.syntax
def collatz_steps(x: UInt64) -> UInt:
    """Count steps until 1 is reached."""
    i = UInt(0)
    while x > 1:
        x = dr.select((x & 1) == 0, x >> 1, 3 * x + 1)
        i += 1
    return i


@case("loops", 1 << 16)
def collatz_u64(n: int) -> Program:
    """Collatz sequences in 64 bits: lean, very divergent."""
    x = ready(dr.arange(UInt64, n) + 1)
    return lambda: collatz_steps(x)


@dr.syntax
def count_pairs(limit: UInt) -> UInt:
    """Count pairs (a, b) with b < a whose product leaves 1 by 7."""
    found, a = UInt(0), UInt(1)
    while a < limit:
        b = UInt(1)
        while b < a:
            found += dr.select(a * b % 7 == 1, UInt(1), UInt(0))
            b += 1
        a += 1
    return found


@case("loops", 1 << 13)
def nested_divergent(n: int) -> Program:
    """A loop in a loop, both with bounds that differ from entry to entry."""
    limit = ready(dr.arange(UInt, n) * 0x9E3779B1 >> 26)
    return lambda: count_pairs(limit)


@dr.syntax
def box_filter(image: Float, x: UInt, y: UInt, width: int) -> Float:
    """Sum a window of 5 by 5 texels."""
    total, j = Float(0), UInt(0)
    while j < 5:
        i = UInt(0)
        while i < 5:
            total += dr.gather(Float, image, (y + j) * width + x + i)
            i += 1
        j += 1
    return total


@case("loops", 512 * 512)
def nested_uniform(n: int) -> Program:
    """A box filter of 5 by 5 texels: two uniform loops around a gather."""
    side = int(n**0.5)
    width = side + 4
    image = dr.arange(Float, width * width) * 1e-3
    x, y = dr.meshgrid(dr.arange(UInt, side), dr.arange(UInt, side))
    ready(image, x, y)
    return lambda: box_filter(image, x, y, width)


@dr.syntax
def random_walk(rng: PCG32, steps: int) -> Float:
    """Walk up and down by chance, with a loss above 1."""
    x, i = Float(0), UInt(0)
    while i < steps:
        u = rng.next_float32()
        if u < 0.3:
            x += u
        elif x > 1:
            x = dr.sqrt(x)
        else:
            x -= 0.1 * u
        i += 1
    return x


@case("loops", 1 << 16, rtol=1e-3, strays=2e-3)
def branches_in_loop(n: int) -> Program:
    """A random walk: branches inside of a loop."""
    return lambda: random_walk(PCG32(size=n), 32)


@dr.syntax
def newton_root(c: Float) -> Float:
    """Find a root of `x ** 5 + x - c` by Newton's method."""
    x, change, i = Float(1), Float(1), UInt(0)
    while (dr.abs(change) > 1e-5) & (i < 40):
        x2 = x * x
        x4 = x2 * x2
        change = (x4 * x + x - c) / (5 * x4 + 1)
        x -= change
        i += 1
    return x


@case("loops", 1 << 19, rtol=1e-3)
def newton(n: int) -> Program:
    """Newton's method with divisions; about ten turns each."""
    c = ready(dr.linspace(Float, 0, 50, n))
    return lambda: newton_root(c)
