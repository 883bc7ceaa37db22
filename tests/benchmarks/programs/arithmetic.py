"""Arithmetic by type and width, without control flow or indexing."""

from __future__ import annotations

import lumijit as dr
from lumijit.llvm import (
    Array3f,
    Float,
    Float16,
    Float64,
    Int,
    Int64,
    UInt,
    UInt8,
    UInt64,
)
from tests.benchmarks.declare import MEMORY, Program, case, ready

M = 1 << 20


@case("arithmetic", 4 * M, MEMORY)
def saxpy(n: int) -> Program:
    """`2.5 x + y` of 4 M values."""
    x, y = ready(dr.arange(Float, n) * 1e-6, dr.arange(Float, n) * 2e-6)
    return lambda: dr.fma(x, 2.5, y)


@case("arithmetic", 2 * M)
def transcend(n: int) -> Program:
    """A mix of transcendental functions of 2 M values."""
    x = ready(dr.arange(Float, n) * 1e-5)

    def program() -> Float:
        s, c = dr.sincos(x)
        return s * dr.exp(-x) + dr.log(x + 1) * c + dr.tanh(x) + dr.atan2(s, c)

    return program


@case("arithmetic", 2 * M)
def decay(n: int) -> Program:
    """Products of 2 M values that fall below the normal numbers."""
    x = ready(dr.arange(Float, n) * (104.0 / n))

    def program() -> Float:
        result = dr.exp(-x)
        for _ in range(10):
            result = result * 0.5 + dr.exp(-x) * 0.25
        return result

    return program


@case("arithmetic", M // 2)
def transcend_f64(n: int) -> Program:
    """A mix of transcendental functions of 512 K doubles."""
    x = ready(dr.arange(Float64, n) * 1e-5)

    def program() -> Float64:
        s, c = dr.sincos(x)
        return s * dr.exp(-x) + dr.log(x + 1) * c + dr.tanh(x)

    return program


@case("arithmetic", 2 * M)
def powers(n: int) -> Program:
    """`x ** y`, cube roots and hyperbolic functions of 2 M values."""
    x = ready(dr.arange(Float, n) * 1e-6 + 0.1)
    return lambda: x**1.7 + dr.cbrt(x) + dr.sinh(x) + dr.acos(1 / (1 + x))


@case("arithmetic", 4 * M)
def polynomial_f32(n: int) -> Program:
    """A polynomial of degree 24."""
    x = ready(dr.linspace(Float, -1, 1, n))

    def program() -> Float:
        y = Float(0.1)
        for k in range(24):
            y = dr.fma(y, x, 1.0 / (k + 3))
        return y

    return program


@case("arithmetic", 2 * M)
def polynomial_f64(n: int) -> Program:
    """A polynomial of degree 24 in doubles."""
    x = ready(dr.linspace(Float64, -1, 1, n))

    def program() -> Float64:
        y = Float64(0.1)
        for k in range(24):
            y = dr.fma(y, x, 1.0 / (k + 3))
        return y

    return program


@case("arithmetic", M // 2, rtol=2e-2)
def polynomial_f16(n: int) -> Program:
    """A polynomial of degree 8 in half precision."""
    x = ready(Float16(dr.linspace(Float, -1, 1, n)))

    def program() -> Float16:
        y = Float16(0.5)
        for k in range(8):
            y = dr.fma(y, x, 0.5**k)
        return y

    return program


@case("arithmetic", 4 * M)
def hash_u32(n: int) -> Program:
    """Three rounds of a 32-bit hash."""
    x = ready(dr.arange(UInt, n))

    def program() -> UInt:
        h = x
        for _ in range(3):
            h = (h ^ (h >> 16)) * 0x7FEB352D
            h = (h ^ (h >> 15)) * 0x846CA68B
        return h ^ (h >> 16)

    return program


@case("arithmetic", 2 * M)
def hash_u64(n: int) -> Program:
    """SplitMix64: products and shifts of 64 bits."""
    x = ready(dr.arange(UInt64, n))

    def program() -> UInt64:
        h = x * 0x9E3779B97F4A7C15
        for _ in range(2):
            h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9
            h = (h ^ (h >> 27)) * 0x94D049BB133111EB
        return h ^ (h >> 31)

    return program


@case("arithmetic", 2 * M)
def divide_i32(n: int) -> Program:
    """Quotient and remainder of signed 32-bit integers."""
    x, y = ready(dr.arange(Int, n) * 977 - 100_000_000, dr.arange(Int, n) % 1021 + 1)
    return lambda: x // y + x % y


@case("arithmetic", M)
def divide_u64(n: int) -> Program:
    """Quotient and remainder of unsigned 64-bit integers."""
    x = dr.arange(UInt64, n) * 0x9E3779B97F4A7C15
    y = (dr.arange(UInt64, n) * 0xBF58476D1CE4E5B9 >> 33) + 1
    x, y = ready(x, y)
    return lambda: x // y + x % y


@case("arithmetic", 4 * M)
def divide_by_literal(n: int) -> Program:
    """Pixel coordinates and digits: quotients and remainders by numbers."""
    x = ready(dr.arange(UInt, n))
    return lambda: (x // 1920) ^ (x % 1920) ^ (x // 10) ^ (x % 7)


@case("arithmetic", 4 * M)
def bits_u32(n: int) -> Program:
    """Population counts, leading and trailing zeros, bit reversal."""
    x = ready(dr.arange(UInt, n) * 0x9E3779B1)
    return lambda: dr.popcnt(x) + dr.lzcnt(x) + dr.tzcnt(x) + (dr.brev(x) >> 16)


@case("arithmetic", 4 * M)
def morton_u32(n: int) -> Program:
    """Interleave the bits of two coordinates."""
    x = ready(dr.arange(UInt, n))

    def spread(v: UInt) -> UInt:
        v = (v | (v << 8)) & 0x00FF00FF
        v = (v | (v << 4)) & 0x0F0F0F0F
        v = (v | (v << 2)) & 0x33333333
        return (v | (v << 1)) & 0x55555555

    return lambda: spread(x & 0xFFFF) | (spread(x >> 16) << 1)


@case("arithmetic", 4 * M, MEMORY)
def bytes_to_floats(n: int) -> Program:
    """Bytes to floats between 0 and 1, with a gamma curve's square."""
    x = ready(UInt8(dr.arange(UInt, n)))
    return lambda: dr.square(Float(x) * (1 / 255))


@case("arithmetic", 4 * M, rtol=1e-3)
def convert_f32_u32(n: int) -> Program:
    """Split floats into an integer and a fraction, as texture look-ups do."""
    x = ready(dr.linspace(Float, 0, 1023, n))

    def program() -> Float:
        whole = UInt(x)
        fraction = x - Float(whole)
        return fraction * Float(whole & 15) + Float(Int(dr.floor(x * 0.25)))

    return program


@case("arithmetic", 2 * M)
def convert_f64_i64(n: int) -> Program:
    """Doubles to 64-bit integers and back."""
    x = ready(dr.linspace(Float64, -1e6, 1e6, n))
    return lambda: Float64(Int64(x * 1000.0) & 1023) + x


@case("arithmetic", 4 * M, MEMORY, rtol=2e-3)
def convert_f16(n: int) -> Program:
    """Half precision in memory, single precision in between."""
    x = ready(Float16(dr.linspace(Float, 0, 2, n)))
    return lambda: Float16(dr.sqrt(Float(x)) * 0.5 + 0.25)


@case("arithmetic", 4 * M)
def select_clip(n: int) -> Program:
    """Comparisons, masks combined, selections, minimum and maximum."""
    x = ready(dr.linspace(Float, -2, 2, n))

    def program() -> Float:
        inside = (x > -1) & (x < 1)
        edge = ~inside & (dr.abs(x) < 1.5)
        y = dr.select(inside, x * x, dr.select(edge, 1 - x, dr.minimum(x, 0.5)))
        return dr.clip(y, -0.75, 0.75)

    return program


@case("arithmetic", 8 * M, MEMORY)
def masks_combined(n: int) -> Program:
    """Masks in memory, combined to a mask."""
    x = dr.arange(UInt, n)
    a, b, c = ready((x & 3) == 0, (x & 5) == 1, (x & 9) == 8)
    return lambda: (a & b) | (c ^ ~a)


@case("arithmetic", M, MEMORY)
def normalize_array3f(n: int) -> Program:
    """Normalise vectors."""
    x = dr.arange(Float, n)
    v = ready(Array3f(x + 1, x * 0.5, 3 - x))
    return lambda: dr.normalize(v)


@case("arithmetic", 2 * M, rtol=1e-3, strays=1e-3)
def ray_sphere(n: int) -> Program:
    """One ray against one sphere, for 2 M rays: vectors, a root, selections."""
    x = dr.linspace(Float, -1, 1, n)
    d = ready(dr.normalize(Array3f(x, x * x - 0.5, 1)))

    def program() -> Float:
        o = Array3f(0.1, -0.2, -3)
        b = dr.dot(o, d)
        discriminant = b * b - dr.dot(o, o) + 1
        t = -b - dr.sqrt(dr.maximum(discriminant, 0))
        normal = dr.fma(d, t, o)
        shade = dr.maximum(dr.dot(normal, Array3f(0.6, 0.6, -0.53)), 0)
        return dr.select(discriminant > 0, shade, 0.0)

    return program
