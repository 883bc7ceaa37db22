"""Reductions, prefix sums, block operations, compaction, sorting steps, reshaping."""

from __future__ import annotations

import lumijit as dr
from lumijit.llvm import Array3f, Float, Float64, UInt
from tests.benchmarks.declare import MEMORY, Program, case, ready

M = 1 << 20


@case("reductions", 8 * M, MEMORY, rtol=1e-3)
def reduce_sum(n: int) -> Program:
    """The sum of 8 M values."""
    x = ready(dr.arange(Float, n) * 1e-6)
    return lambda: dr.sum(x)


@case("reductions", 2 * M)
def reduce_computed(n: int) -> Program:
    """The mean of a computed expression of 2 M values: a loss."""
    x = ready(dr.linspace(Float, 0, 1, n))
    return lambda: dr.mean(dr.square(dr.sin(6 * x) * 0.5 - x))


@case("reductions", 4 * M, MEMORY)
def reduce_max_f64(n: int) -> Program:
    """The largest of 4 M doubles."""
    x = ready(Float64(dr.arange(UInt, n) * 0x9E3779B1))
    return lambda: dr.max(x)


@case("reductions", M // 2, MEMORY)
def reduce_dot3(n: int) -> Program:
    """Sums over components: squared norms of vectors, added up."""
    x = dr.linspace(Float, 0, 1, n)
    v = ready(Array3f(x, 1 - x, x * x))
    return lambda: dr.sum(dr.squared_norm(v))


@case("reductions", 8 * M, MEMORY)
def count_mask(n: int) -> Program:
    """How many of 8 M entries are set."""
    x = ready((dr.arange(UInt, n) & 5) == 1)
    return lambda: dr.count(x)


@case("blocks", 4 * M, MEMORY)
def prefix_sum(n: int) -> Program:
    """The exclusive prefix sum of 4 M integers."""
    x = ready(dr.arange(UInt, n) & 3)
    return lambda: dr.prefix_sum(x)


@case("blocks", 4 * M, MEMORY)
def block_sum_16(n: int) -> Program:
    """Sums of 16 neighbours: samples of a pixel."""
    x = ready(dr.arange(Float, n) * 1e-3)
    return lambda: dr.block_sum(x, 16)


@case("blocks", 4 * 1000 * 1000, MEMORY, tiny=4000)
def block_sum_1000(n: int) -> Program:
    """Sums of 1,000 neighbours."""
    x = ready(dr.arange(Float, n) * 1e-3)
    return lambda: dr.block_sum(x, 1000)


@case("blocks", 4 * M, MEMORY)
def sort_floats(n: int) -> Program:
    """4 M singles in random order, sorted."""
    x = ready(Float(dr.arange(UInt, n) * 0x9E3779B1))
    return lambda: dr.sort(x)


@case("blocks", 4 * M, MEMORY)
def argsort_integers(n: int) -> Program:
    """The order of 4 M integers."""
    x = ready(dr.arange(UInt, n) * 0x9E3779B1)
    return lambda: dr.argsort(x)


@case("blocks", 2 * M)
def block_max_computed(n: int) -> Program:
    """The largest of 4 neighbours of a computed expression."""
    x = ready(dr.linspace(Float, 0, 9, n))
    return lambda: dr.block_reduce(dr.ReduceOp.Max, dr.sin(x * x), 4)


@case("blocks", 2 * M)
def compress(n: int) -> Program:
    """The numbers of the entries that are set, by chance, in a mask."""
    x = ready((dr.arange(UInt, n) * 0x9E3779B1 >> 16) % 3 == 0)
    return lambda: dr.compress(x)


@case("blocks", M)
def compress_gather(n: int) -> Program:
    """Compaction of values: a wavefront's step."""
    x = ready(dr.arange(UInt, n) * 0x9E3779B1 >> 8)

    def program() -> UInt:
        alive = (x & 7) < 3
        return dr.gather(UInt, x, dr.compress(alive))

    return program


@case("sorting", M // 4)
def radix_step(n: int) -> Program:
    """One step of a stable radix sort by two bits: four counts, a scatter."""
    x = ready(dr.arange(UInt, n) * 0x9E3779B1)

    def program() -> UInt:
        digit = (x >> 9) & 3
        place, start = UInt(0), UInt(0)
        for k in range(4):
            has = dr.select(digit == k, UInt(1), UInt(0))
            before = dr.prefix_sum(has)
            place = dr.select(digit == k, start + before, place)
            start = start + dr.sum(has)
        target = dr.empty(UInt, n)
        dr.scatter(target, x, place)
        return target

    return program


@case("sorting", M // 2)
def bitonic_steps(n: int) -> Program:
    """Five steps of a bitonic sort: gathers of partners, selections, kernels."""
    x = ready(dr.arange(UInt, n) * 0x9E3779B1)

    def program() -> UInt:
        i, y = dr.arange(UInt, n), x
        for distance in (16, 8, 4, 2, 1):
            dr.eval(y)
            other = dr.gather(UInt, y, i ^ distance)
            takes_less = ((i & distance) == 0) == ((i & 32) == 0)
            y = dr.select(takes_less, dr.minimum(y, other), dr.maximum(y, other))
        return y

    return program


@case("reshaping", M, MEMORY)
def ravel_array3f(n: int) -> Program:
    """Three arrays interleaved."""
    x = dr.arange(Float, n)
    v = ready(Array3f(x, x + 1, -x))
    return lambda: dr.ravel(v)


@case("reshaping", M, MEMORY)
def unravel_array3f(n: int) -> Program:
    """Interleaved values taken apart."""
    x = ready(dr.arange(Float, 3 * n) * 0.5)
    return lambda: dr.unravel(Array3f, x)


@case("reshaping", M, MEMORY)
def repeat_tile(n: int) -> Program:
    """Pairs of pixels and samples: entries repeated, entries tiled."""
    x = ready(dr.arange(Float, n // 16) * 0.5)
    return lambda: dr.repeat(x, 16) + dr.tile(x, 16)
