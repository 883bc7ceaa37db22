"""Tracing alone, long traces, and builds of large kernels."""

from __future__ import annotations

from dataclasses import dataclass

import lumijit as dr
from lumijit.llvm import Array3f, Float, Float64, UInt
from tests.benchmarks.declare import LAUNCH, Program, case, ready
from tests.benchmarks.programs.gathers import search
from tests.benchmarks.programs.loops import julia_count, nearest_sphere, random_points


def opaque(value: float) -> Float:
    """Return four entries that don't fold."""
    return ready(dr.full(Float, value, 4) + dr.opaque(Float, 0, 4))


def forgotten(trace: Program) -> Program:
    """Return a program that traces something and drops it."""

    def program() -> None:
        trace()

    return program


@case("tracing", 20_000, LAUNCH, tiny=2000)
def trace_arith(n: int) -> Program:
    """A chain of 20,000 products and sums."""
    x, y = opaque(1.5), opaque(0.5)

    def program() -> None:
        a = x
        for _ in range(n // 2):
            a = a * x + y

    return program


@case("tracing", 20_000, LAUNCH, tiny=2000)
def trace_numbers(n: int) -> Program:
    """A chain with Python numbers as second operands."""
    x = opaque(1.5)

    def program() -> None:
        a = x
        for _ in range(n // 2):
            a = a * 1.5 + 0.25

    return program


@case("tracing", 20_000, LAUNCH, tiny=2000)
def trace_functions(n: int) -> Program:
    """A chain of calls of free functions."""
    x, y = opaque(1.5), opaque(0.5)

    def program() -> None:
        a = x
        for _ in range(n // 2):
            a = dr.sqrt(dr.fma(a, x, y))

    return program


@case("tracing", 20_000, LAUNCH, tiny=2000)
def trace_again(n: int) -> Program:
    """Operations traced before, on operands used many times."""
    x = opaque(1.5)
    parts = [x + k for k in range(20)]
    products = [x * part for part in parts]

    def program() -> None:
        assert products
        for _ in range(n // 20):
            for part in parts:
                x * part

    return program


@case("tracing", 2000, LAUNCH, tiny=200)
def trace_vectors(n: int) -> Program:
    """Products and sums of vectors of three."""
    v = Array3f(opaque(1.5), opaque(0.5), opaque(2.5))

    def program() -> None:
        a = v
        for _ in range(n):
            a = a + v * dr.dot(a, v)

    return program


@case("tracing", 16, LAUNCH)
def trace_julia(n: int) -> Program:
    """A small loop, traced and dropped."""
    x, y = ready(dr.arange(Float64, n), dr.arange(Float64, n) + 1)
    return forgotten(lambda: julia_count(x, y))


@case("tracing", 16, LAUNCH)
def trace_spheres(n: int) -> Program:
    """A loop of thirty operations and gathers, traced and dropped."""
    centers, d = random_points(64), random_points(n)
    return forgotten(lambda: nearest_sphere(centers, d, 64))


@case("tracing", 16, LAUNCH)
def trace_search(n: int) -> Program:
    """A loop with a branch and a gather, traced and dropped."""
    table, x = ready(dr.arange(Float, 64), dr.arange(Float, n))
    return forgotten(lambda: search(table, x, 64))


@dr.syntax
def sides(x: Float) -> Float:
    """Take one of two sides."""
    if x > 2:
        x = x * 2
    else:
        x = 1 - x
    return x


@case("tracing", 16, LAUNCH)
def trace_branch(n: int) -> Program:
    """A small branch, traced and dropped."""
    x = ready(dr.arange(Float, n))
    return forgotten(lambda: sides(x))


@dataclass
class Ray:
    """A ray, which loops change or make anew."""

    o: Array3f
    d: Array3f


@dataclass
class Look:
    """Settings, which loops read."""

    radius: float = 0.99
    steps: int = 10


def distance(p: Array3f, look: Look) -> Float:
    """Return the distance to a sphere."""
    return dr.norm(p) - look.radius


@dr.syntax
def marched(ray: Ray, look: Look) -> Float:
    """Walk along a ray, which changes."""
    i = UInt(0)
    while i < look.steps:
        ray.o = dr.fma(ray.d, distance(ray.o, look), ray.o)
        i += 1
    return ray.o.z


@dr.syntax
def reflected(ray: Ray, look: Look) -> Float:
    """Follow a ray that is another one in each turn."""
    i = UInt(0)
    while i < look.steps:
        t = distance(ray.o, look)
        ray = Ray(dr.fma(ray.d, t, ray.o), -ray.d)
        i += 1
    return ray.o.z


def rays(n: int) -> Ray:
    """Return rays side by side."""
    x = dr.arange(Float, n) * 0.01
    return Ray(*ready(Array3f(x, 0, -2), dr.normalize(Array3f(x, 0, 1))))


@case("tracing", 16, LAUNCH)
def trace_struct(n: int) -> Program:
    """A loop that changes a struct and reads another one, traced and dropped."""
    ray, look = rays(n), Look()
    return forgotten(lambda: marched(Ray(ray.o, ray.d), look))


@case("tracing", 16, LAUNCH)
def trace_rays(n: int) -> Program:
    """A loop that makes a struct in each turn, traced and dropped."""
    ray, look = rays(n), Look()
    return forgotten(lambda: reflected(ray, look))


@case("long traces", 5000, LAUNCH, tiny=5000)
def chain_5000(n: int) -> Program:
    """A chain of 5,000 operations on four entries, evaluated."""
    x = opaque(1.5)

    def program() -> Float:
        a = x
        for _ in range(n // 2):
            a = a * 0.5 + x
        return a

    return program


@case("long traces", 2000, LAUNCH, tiny=2000, rtol=1e-3)
def unrolled_gathers(n: int) -> Program:
    """2,000 operations, a tenth of them gathers, on 16 entries."""
    i = ready(dr.arange(UInt, 16))
    table = ready(dr.arange(Float, 256) * 1e-2)

    def program() -> Float:
        a = Float(i)
        for k in range(n // 10):
            a = a * 0.5 + dr.gather(Float, table, (i * 7 + k) & 255)
            a = dr.minimum(dr.abs(a - 0.25) * 1.5, a + k)
        return a

    return program


@case("long traces", 300, LAUNCH, tiny=300, rtol=1e-3)
def wide_outputs(n: int) -> Program:
    """300 outputs of one kernel, for 64 entries."""
    x = ready(dr.linspace(Float, 0, 1, 64))
    return lambda: [dr.fma(x, x, k) * (1.0 / (k + 1)) for k in range(n)]


@case("long traces", 1 << 16, rtol=1e-3)
def unrolled_network(n: int) -> Program:
    """A small network with 12 units in two layers, its weights as numbers."""
    x, y = ready(dr.linspace(Float, -1, 1, n), dr.linspace(Float, 2, 0, n))

    def layer(values: list[Float], seed: int) -> list[Float]:
        sums = [Float(0.1 * k) for k in range(12)]
        for k in range(12):
            for j, value in enumerate(values):
                weight = ((seed + 7 * k + 3 * j) % 11 - 5) * 0.1
                sums[k] = dr.fma(value, weight, sums[k])
        return [dr.maximum(value, 0) for value in sums]

    return lambda: sum(layer(layer([x, y], 1), 5), Float(0))


@case("long traces", 50_000, LAUNCH, tiny=50_000)
def chain_50000(n: int) -> Program:
    """A chain of 50,000 operations, evaluated: too long for one kernel."""
    x = opaque(1.5)

    def program() -> Float:
        a = x
        for _ in range(n // 2):
            a = a * 0.5 + x
        return a

    return program
