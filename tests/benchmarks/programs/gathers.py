"""Indexed reads: 1 to 4 components; random, coherent, table-sized; textures by hand."""

from __future__ import annotations

from typing import Any

import lumijit as dr
from lumijit.llvm import (
    PCG32,
    Array2f,
    Array3f,
    Array4f,
    Bool,
    Float,
    Float64,
    UInt,
    UInt8,
)
from tests.benchmarks.declare import MEMORY, Program, case, ready

M = 1 << 20


def random_index(n: int, below: int) -> UInt:
    """Return random indices, in memory."""
    return ready(dr.minimum(UInt(PCG32(size=n).next_float32() * below), below - 1))


@case("gathers", 2 * M, MEMORY)
def gather_random(n: int) -> Program:
    """2 M reads at random places of 2 M values."""
    index, source = random_index(n, n), ready(dr.arange(Float, n) * 1.0)
    return lambda: dr.gather(Float, source, index) * 2


@case("gathers", M, MEMORY)
def gather_random_f64(n: int) -> Program:
    """1 M reads at random places of 1 M doubles."""
    index, source = random_index(n, n), ready(dr.arange(Float64, n) * 1.0)
    return lambda: dr.gather(Float64, source, index) * 2


@case("gathers", 4 * M, MEMORY)
def gather_coherent(n: int) -> Program:
    """Differences of neighbours: indices are positions plus a number."""
    source = ready(dr.arange(Float, n + 2) * 1.5)

    def program() -> Float:
        i = dr.arange(UInt, n)
        before, after = dr.gather(Float, source, i), dr.gather(Float, source, i + 2)
        return after - before

    return program


@case("gathers", 2 * M, MEMORY)
def gather_strided(n: int) -> Program:
    """Every third of 6 M values."""
    source = ready(dr.arange(Float, 3 * n) * 1.5)
    return lambda: dr.gather(Float, source, dr.arange(UInt, n) * 3) + 1


@case("gathers", M, MEMORY)
def gather_backwards(n: int) -> Program:
    """1 M doubles, the last one first."""
    source = ready(dr.arange(Float64, n) * 1.5)
    return lambda: dr.gather(Float64, source, n - 1 - dr.arange(UInt, n)) + 1


@case("gathers", 4 * M)
def gather_table(n: int) -> Program:
    """Look-ups in a table of 256 values."""
    index, table = random_index(n, 256), ready(dr.arange(Float, 256) * 0.5)
    return lambda: dr.gather(Float, table, index) + 1


@case("gathers", 2 * M)
def gather_masked(n: int) -> Program:
    """Reads of every other entry, by a mask."""
    index, table = random_index(n, 4096), ready(dr.arange(Float, 4096) * 0.5)
    active = ready((dr.arange(UInt, n) & 3) < 2)
    return lambda: dr.gather(Float, table, index, active)


@case("gathers", 2 * M)
def gather_u8(n: int) -> Program:
    """Look-ups of bytes."""
    index = random_index(n, 1 << 16)
    source = ready(UInt8(dr.arange(UInt, 1 << 16)))
    return lambda: dr.gather(UInt8, source, index)


@case("gathers", 2 * M)
def gather_bool(n: int) -> Program:
    """Look-ups of masks on one thread."""
    dr.set_thread_count(1)
    index = random_index(n, 1 << 16)
    source = ready((dr.arange(UInt, 1 << 16) & 5) == 1)
    return lambda: dr.gather(Bool, source, index)


def rows(dtype: Any, n: int) -> Program:
    """Return a program that reads rows at random."""
    count = 1 << 16 if n > 1000 else 64
    index = random_index(n, count)
    source = ready(dr.arange(Float, count * dr.size_v(dtype)) * 0.25)
    return lambda: dr.gather(dtype, source, index)


@case("gathers", M)
def gather_array2f(n: int) -> Program:
    """1 M rows of two values of 64 K rows, at random."""
    return rows(Array2f, n)


@case("gathers", M)
def gather_array3f(n: int) -> Program:
    """1 M rows of three values of 64 K rows, at random."""
    return rows(Array3f, n)


@case("gathers", M)
def gather_array4f(n: int) -> Program:
    """1 M rows of four values of 64 K rows, at random."""
    return rows(Array4f, n)


@case("gathers", 1024 * 1024, MEMORY)
def transpose(n: int) -> Program:
    """Transpose a matrix by reading columns."""
    side = int(n**0.5)
    matrix = ready(dr.arange(Float, side * side) * 1.0)

    def program() -> Float:
        i = dr.arange(UInt, side * side)
        return dr.gather(Float, matrix, (i % side) * side + i // side)

    return program


def bilinear(texels: Float, width: int, u: Float, v: Float) -> Float:
    """Look a texture up, interpolating between four texels."""
    x = dr.clip(u * width - 0.5, 0, width - 1.001)
    y = dr.clip(v * width - 0.5, 0, width - 1.001)
    i, j = UInt(x), UInt(y)
    fx, fy = x - Float(i), y - Float(j)
    base = j * width + i
    a, b = dr.gather(Float, texels, base), dr.gather(Float, texels, base + 1)
    c = dr.gather(Float, texels, base + width)
    d = dr.gather(Float, texels, base + width + 1)
    return dr.lerp(dr.lerp(a, b, fx), dr.lerp(c, d, fx), fy)


@case("textures", M, rtol=1e-3)
def bilinear_random(n: int) -> Program:
    """Bilinear look-ups at random places of 512 x 512 texels."""
    rng = PCG32(size=n)
    u, v = rng.next_float32(), rng.next_float32()
    texels = dr.sin(dr.arange(Float, 512 * 512) * 1e-2)
    ready(u, v, texels)
    return lambda: bilinear(texels, 512, u, v)


@case("textures", 1024 * 1024, rtol=1e-3)
def bilinear_coherent(n: int) -> Program:
    """Bilinear look-ups along rows: scaling an image up."""
    side = int(n**0.5)
    line = dr.linspace(Float, 0, 1, side)
    u, v = dr.meshgrid(line, line)
    texels = dr.sin(dr.arange(Float, 512 * 512) * 1e-2)
    ready(u, v, texels)
    return lambda: bilinear(texels, 512, u, v)


@case("textures", M // 2, rtol=1e-3)
def bilinear_rgb(n: int) -> Program:
    """Bilinear look-ups of three channels at random places."""
    rng = PCG32(size=n)
    u, v = rng.next_float32(), rng.next_float32()
    width = 256
    texels = dr.sin(dr.arange(Float, 3 * width * width) * 1e-2)
    ready(u, v, texels)

    def program() -> Array3f:
        x = dr.clip(u * width - 0.5, 0, width - 1.001)
        y = dr.clip(v * width - 0.5, 0, width - 1.001)
        i, j = UInt(x), UInt(y)
        fx, fy = x - Float(i), y - Float(j)
        at = j * width + i
        a, b, c, d = (
            dr.gather(Array3f, texels, at + offset)
            for offset in (0, 1, width, width + 1)
        )
        return dr.lerp(dr.lerp(a, b, fx), dr.lerp(c, d, fx), fy)

    return program


@case("textures", M // 2, rtol=1e-3)
def trilinear_random(n: int) -> Program:
    """Trilinear look-ups at random places of 64 x 64 x 64 voxels."""
    rng = PCG32(size=n)
    p = Array3f([rng.next_float32() * 62.5 for _ in range(3)])
    voxels = dr.sin(dr.arange(Float, 64**3) * 1e-2)
    ready(p, voxels)

    def program() -> Float:
        i, j, k = UInt(p.x), UInt(p.y), UInt(p.z)
        fx, fy, fz = p.x - Float(i), p.y - Float(j), p.z - Float(k)
        base = (k * 64 + j) * 64 + i

        def edge(offset: int) -> Float:
            at = base + offset
            return dr.lerp(
                dr.gather(Float, voxels, at), dr.gather(Float, voxels, at + 1), fx
            )

        near = dr.lerp(edge(0), edge(64), fy)
        far = dr.lerp(edge(64 * 64), edge(64 * 64 + 64), fy)
        return dr.lerp(near, far, fz)

    return program


@dr.syntax
def search(table: Float, x: Float, size: int) -> UInt:
    """Find where values belong in a sorted table, by halving."""
    low, high = UInt(0), UInt(size)
    while low < high:
        middle = (low + high) >> 1
        if dr.gather(Float, table, middle) < x:
            low = middle + 1
        else:
            high = middle
    return low


@case("gathers", M // 2)
def search_by_hand(n: int) -> Program:
    """Binary search in 4,096 values, written as a loop."""
    table = ready(dr.square(dr.arange(Float, 4096) / 4096))
    x = ready(PCG32(size=n).next_float32())
    return lambda: search(table, x, 4096)


@case("gathers", M // 2)
def binary_search(n: int) -> Program:
    """`dr.binary_search` in 4,096 values: sampling a distribution."""
    table = ready(dr.square(dr.arange(Float, 4096) / 4096))
    x = ready(PCG32(size=n).next_float32())
    return lambda: dr.binary_search(0, 4095, lambda i: dr.gather(Float, table, i) < x)
