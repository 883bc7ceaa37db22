"""Whole programs in idioms of renderers and simulations, written for another library.

They were written against Dr.Jit first, without a look at what is fast here.
"""

from __future__ import annotations

from typing import Any

import lumijit as dr
from lumijit.llvm import Array2f, Array2i, Array3f, Array3i, Float, Int, UInt
from tests.benchmarks.declare import Program, case, ready
from tests.benchmarks.programs.whole import pixels, scattered


def hashed(p: Array3i) -> UInt:
    """Mix the coordinates of a cell."""
    h = UInt(p.x) * 0x8DA6B343 ^ UInt(p.y) * 0xD8163841 ^ UInt(p.z) * 0xCB1AB31F
    h ^= h >> 15
    h *= 0x2C1B3C6D
    h ^= h >> 12
    h *= 0x297A2D39
    h ^= h >> 15
    return h


def slope(h: UInt, d: Array3f) -> Float:
    """Return the product of an offset and one of twelve directions."""
    h = h & 15
    u = dr.select(h < 8, d.x, d.y)
    v = dr.select(h < 4, d.y, dr.select((h == 12) | (h == 14), d.x, d.z))
    return dr.select((h & 1) == 0, u, -u) + dr.select((h & 2) == 0, v, -v)


def perlin(p: Array3f) -> Float:
    """Interpolate the slopes at the corners of a cell."""
    low = dr.floor(p)
    cell, d = Array3i(low), p - low
    w = d * d * d * (d * (d * 6 - 15) + 10)
    corners = [(k & 1, (k >> 1) & 1, k >> 2) for k in range(8)]
    c = [slope(hashed(cell + Array3i(*k)), d - Array3f(*k)) for k in corners]
    x = [dr.lerp(c[2 * k], c[2 * k + 1], w.x) for k in range(4)]
    y = [dr.lerp(x[2 * k], x[2 * k + 1], w.y) for k in range(2)]
    return dr.lerp(y[0], y[1], w.z)


@dr.syntax
def worley(p: Array3f) -> tuple[Float, Float]:
    """Return how far the two nearest points of 27 cells are."""
    cell = Array3i(dr.floor(p))
    best, second, k = Float(10), Float(10), Int(0)
    while k < 27:
        at = cell + Array3i(k % 3 - 1, (k // 3) % 3 - 1, k // 9 - 1)
        h = hashed(at)
        q = Array3f(at) + Array3f(h & 1023, (h >> 10) & 1023, h >> 22) / 1023
        d = dr.norm(q - p)
        if d < best:
            second = Float(best)
            best = d
        elif d < second:
            second = d
        k += 1
    return best, second


@case("whole", 256 * 256, rtol=1e-3, strays=1e-2)
def cell_noise(n: int) -> Program:
    """Cells disturbed by Perlin noise: hashes of integers, branches in a loop."""

    def run() -> Float:
        _, x, y = pixels(n)
        p = Array3f(x * 4 + 4, y * 4 + 4, 0.5)
        best, second = worley(p + 2 * perlin(p) + perlin(p * 2.03))
        return dr.clip(second - best, 0, 1)

    return run


RADIUS, CELLS = 0.04, 25


@dr.syntax
def flock(position: Array2f, velocity: Array2f, grid: Any) -> tuple[Float, Array2f]:
    """Count the neighbours in the cells around, and sum up their velocities."""
    sorted_positions, sorted_velocities, start, end = grid
    cell = Array2i(dr.floor(position * CELLS))
    count, total, dy = Float(0), Array2f(0), Int(-1)
    while dy <= 1:
        dx = Int(-1)
        while dx <= 1:
            c = cell + Array2i(dx, dy)
            inside = dr.all((c >= 0) & (c < CELLS))
            where = UInt(c.y * CELLS + c.x)
            j = dr.gather(UInt, start, where, inside)
            last = dr.gather(UInt, end, where, inside)
            while j < last:
                d = dr.gather(Array2f, sorted_positions, j) - position
                near = dr.squared_norm(d) < RADIUS * RADIUS
                count[near] += 1
                total += dr.select(near, dr.gather(Array2f, sorted_velocities, j), 0)
                j += 1
            dx += 1
        dy += 1
    return count, total


@case("whole", 20_000, rtol=1e-2, strays=5e-2)
def boids(n: int) -> Program:
    """Two steps of a swarm in a grid sorted by counting."""
    first = Array2f(scattered(n, 0, 1, 1), scattered(n, 0, 1, 2))
    speed = Array2f(scattered(n, -1, 1, 3), scattered(n, -1, 1, 4))

    def run() -> tuple[Array2f, Array2f]:
        position, velocity = first, speed
        for _ in range(2):
            cell = Array2i(dr.floor(position * CELLS))
            where = UInt(cell.y * CELLS + cell.x)
            counts = dr.zeros(UInt, CELLS * CELLS)
            rank = dr.scatter_inc(counts, where)
            dr.eval(counts, rank)
            end = dr.cumsum(counts)
            start = end - counts
            dr.eval(start, end)
            order = dr.zeros(UInt, n)
            slot = dr.gather(UInt, start, where) + rank
            dr.scatter(order, dr.arange(UInt, n), slot)
            by_cell = [
                dr.ravel(dr.gather(Array2f, v, order)) for v in (position, velocity)
            ]
            dr.eval(by_cell)
            count, total = flock(position, velocity, (*by_cell, start, end))
            velocity = dr.lerp(velocity, total / count, 0.2)
            position = position + velocity * 0.01
            position = dr.clip(position - dr.floor(position), 0, 0.99999)
            dr.eval(position, velocity)
        return position, velocity

    return run


class Level:
    """A square grid of a multigrid solver."""

    def __init__(self, side: int) -> None:
        self.side = side
        i = dr.arange(Int, side * side)
        self.x, self.y = i % side, i // side

    def around(self, u: Float) -> Float:
        """Sum up the four neighbours, 0 outside."""
        total, side = Float(0), self.side
        for dx, dy in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            x, y = self.x + dx, self.y + dy
            inside = (x >= 0) & (x < side) & (y >= 0) & (y < side)
            total += dr.gather(Float, u, y * side + x, inside)
        return total

    def smoothed(self, u: Float, f: Float, h2: float, turns: int) -> Float:
        """Return the result of damped Jacobi steps."""
        for _ in range(turns):
            u = dr.lerp(u, 0.25 * (self.around(u) + h2 * f), 0.8)
            dr.eval(u)
        return u

    def cycle(self, u: Float, f: Float, h2: float) -> Float:
        """Return the result of a V-cycle."""
        if self.side <= 4:
            return self.smoothed(u, f, h2, 8)
        u = self.smoothed(u, f, h2, 2)
        rest = f - (4 * u - self.around(u)) / h2
        dr.eval(rest)
        coarse, half = Float(0), Level(self.side // 2)
        for a in range(2):
            for b in range(2):
                at = (2 * half.y + a) * self.side + 2 * half.x + b
                coarse += dr.gather(Float, rest, at)
        coarse *= 0.25
        dr.eval(coarse)
        error = half.cycle(dr.zeros(Float, half.side**2), coarse, 4 * h2)
        u += dr.gather(Float, error, (self.y >> 1) * half.side + (self.x >> 1))
        dr.eval(u)
        return self.smoothed(u, f, h2, 2)


@case("whole", 512 * 512)
def multigrid(n: int) -> Program:
    """A V-cycle of a Poisson solver: some 50 launches, most of them small."""
    side = 1 << (int(n**0.5).bit_length() - 1)
    f = scattered(side * side, -0.5, 0.5, 5)

    def run() -> Float:
        return Level(side).cycle(dr.zeros(Float, side * side), f, 1 / side**2)

    return run


@case("whole", 512 * 512, rtol=1e-3)
def marching_squares(n: int) -> Program:
    """The length of a contour, in a queue of the cells that it crosses."""
    side = max(8, int(n**0.5))
    i = dr.arange(UInt, side * side)
    p = Array2f(Float(i % side), Float(i // side)) * (2 / side) - 1
    blobs = [Array2f(dr.cos(k * 1.1), dr.sin(k * 1.7)) * 0.6 for k in range(6)]
    field = ready(sum((0.04 / dr.squared_norm(p - c) for c in blobs), Float(-1)))

    def run() -> tuple[UInt, Float]:
        x, y = i % (side - 1), i // (side - 1)
        inside = y < side - 1
        steps = (0, 1, side + 1, side)
        v = [dr.gather(Float, field, y * side + x + s, inside) for s in steps]
        kind = UInt(0)
        for k in range(4):
            kind |= dr.select(v[k] > 0, 1 << k, 0)
        queue, cells = dr.zeros(UInt, 1), dr.zeros(UInt, side * side)
        found = inside & (kind != 0) & (kind != 15)
        slot = dr.scatter_inc(queue, UInt(0), found)
        dr.scatter(cells, y * side + x, slot, found)
        dr.eval(queue, cells)
        cell = dr.gather(UInt, cells, dr.arange(UInt, queue[0]))
        a, b, c, d = (dr.gather(Float, field, cell + s) for s in steps)
        ends, length = [(a, b), (b, c), (c, d), (d, a)], Float(0)
        t = [dr.select((p > 0) != (q > 0), p / (p - q), 0) for p, q in ends]
        for k in range(4):
            length += dr.sqrt(dr.square(t[k]) + dr.square(t[k - 1]))
        return queue, dr.sum(length)

    return run


def rotated(x: UInt, by: int) -> UInt:
    """Rotate bits to the right."""
    return (x >> by) | (x << (32 - by))


@case("whole", 1 << 17)
def hash_rounds(n: int) -> Program:
    """Sixty-four rounds as of SHA-256, unrolled: two thousand operations."""
    start = [0x6A09E667 * (2 * k + 1) % 2**32 for k in range(8)]

    def run() -> tuple[UInt, UInt]:
        i = dr.arange(UInt, n)
        w = [i, i * 3 + 1, *(UInt(k) for k in range(14))]
        a, b, c, d, e, f, g, h = (UInt(s) for s in start)
        for k in range(64):
            if k >= 16:
                x, y = w[k - 15], w[k - 2]
                x = rotated(x, 7) ^ rotated(x, 18) ^ (x >> 3)
                y = rotated(y, 17) ^ rotated(y, 19) ^ (y >> 10)
                w.append(w[k - 16] + x + w[k - 7] + y)
            s = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)
            t = h + s + ((e & f) ^ (~e & g)) + 0x428A2F98 + w[k]
            s = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)
            s += (a & b) ^ (a & c) ^ (b & c)
            a, b, c, d, e, f, g, h = t + s, a, b, c, d + t, e, f, g
        return a, e

    return run
