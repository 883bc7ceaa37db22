"""Indexed writes: permutations, histograms, atomics, queues."""

from __future__ import annotations

import lumijit as dr
from lumijit.llvm import Array3f, Float, Int, UInt
from tests.benchmarks.declare import MEMORY, Program, case, ready
from tests.benchmarks.programs.gathers import random_index

M = 1 << 20


def bits_reversed(n: int) -> UInt:
    """Return a permutation of numbers below a power of two."""
    return dr.brev(dr.arange(UInt, n)) >> (33 - n.bit_length())


@case("scatters", M, MEMORY)
def scatter_permute(n: int) -> Program:
    """Write 1 M values to places far apart."""
    index = ready(bits_reversed(n))
    x = ready(dr.arange(Float, n) * 1.0)

    def program() -> Float:
        target = dr.empty(Float, n)
        dr.scatter(target, x, index)
        return target

    return program


@case("scatters", M, MEMORY)
def scatter_array3f(n: int) -> Program:
    """Write rows of three values in reversed order."""
    x = dr.arange(Float, n)
    v = ready(Array3f(x, x + 1, -x))

    def program() -> Float:
        target = dr.empty(Float, 3 * n)
        dr.scatter(target, v, n - 1 - dr.arange(UInt, n))
        return target

    return program


@case("scatters", 2 * M)
def hist_scatter_add(n: int) -> Program:
    """2 M values added into 4,096 bins."""
    index = random_index(n, 4096)

    def program() -> Float:
        bins = dr.zeros(Float, 4096)
        dr.scatter_add(bins, Float(1), index)
        return bins

    return program


@case("scatters", 2 * M)
def hist_u32_16(n: int) -> Program:
    """2 M integers counted in 16 bins: all entries of a packet meet."""
    index = random_index(n, 16)

    def program() -> UInt:
        bins = dr.zeros(UInt, 16)
        dr.scatter_add(bins, UInt(1), index)
        return bins

    return program


@case("scatters", M)
def adds_alike(n: int) -> Program:
    """1 M rows of three added to 4,096: neighbours meet, as in pictures."""
    row = ready(dr.arange(UInt, n) // (n // 4096))
    x = dr.arange(Float, n)
    v = ready(Array3f(x, x + 1, -x))

    def program() -> Float:
        sums = dr.zeros(Float, 3 * 4096)
        dr.scatter_add(sums, v, row)
        return sums

    return program


@case("scatters", 20_000)
def adds_into_many(n: int) -> Program:
    """20,000 adds into 1 M entries."""
    index = random_index(n, M)

    def program() -> Float:
        target = dr.zeros(Float, M)
        dr.scatter_add(target, Float(1), index)
        return target

    return program


@case("scatters", M, MEMORY)
def adds_random(n: int) -> Program:
    """1 M adds into 1 M entries at random: a texture's derivative."""
    index = random_index(n, n)

    def program() -> Float:
        target = dr.zeros(Float, n)
        dr.scatter_add(target, Float(1), index)
        return target

    return program


@case("scatters", M, rtol=1e-3)
def add_to_one(n: int) -> Program:
    """1 M values added into one entry."""
    x = ready(dr.linspace(Float, 0, 1, n))

    def program() -> Float:
        total = dr.zeros(Float, 1)
        dr.scatter_add(total, x, UInt(0))
        return total

    return program


@case("scatters", M)
def scatter_max(n: int) -> Program:
    """The largest value of each of 65,536 groups."""
    index = random_index(n, 1 << 16)
    x = ready(Int(dr.arange(UInt, n) * 0x9E3779B1 >> 4))

    def program() -> Int:
        target = dr.zeros(Int, 1 << 16)
        dr.scatter_reduce(dr.ReduceOp.Max, target, x, index)
        return target

    return program


@case("scatters", M)
def queue(n: int) -> Program:
    """Append every third entry to a queue, and add up what came in."""
    x = ready(dr.arange(UInt, n))

    def program() -> tuple[UInt, UInt]:
        size, found = dr.zeros(UInt, 1), dr.zeros(UInt, n)
        active = x % 3 == 0
        slot = dr.scatter_inc(size, UInt(0), active)
        dr.scatter(found, x, slot, active)
        # Entries come in any order.
        return size, dr.sum(found)

    return program


@case("scatters", M)
def joint_histograms(n: int) -> Program:
    """Three histograms filled by one kernel."""
    index = random_index(n, 4096)
    x = ready(dr.arange(Float, n) * 1e-6)

    def program() -> list[Float]:
        bins = [dr.zeros(Float, 4096 >> k) for k in range(3)]
        for k, target in enumerate(bins):
            dr.scatter_add(target, x, index >> k)
        return bins

    return program
