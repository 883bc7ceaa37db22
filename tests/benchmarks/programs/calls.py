"""Calls of functions that an index selects; buffers that each entry has for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lumijit as dr
from lumijit.llvm import Bool, Float, UInt
from tests.benchmarks.declare import Program, case, ready


def sine_series(k: int) -> Callable[[Float], Float]:
    """Return the sine's power series with `k` terms beyond the first."""

    def series(x: Float) -> Float:
        result = term = x
        for j in range(1, k + 1):
            term = term * x * x * (-1.0 / ((2 * j) * (2 * j + 1)))
            result = result + term
        return result

    return series


@case("calls", 1 << 19)
def switch_sin(n: int) -> Program:
    """50 functions, 5 of them different, each for a stretch of entries."""
    functions = [sine_series(k % 5) for k in range(50)]
    index, x = ready(dr.arange(UInt, n) // (n // 50 + 1), dr.arange(Float, n) * 1e-6)
    return lambda: dr.switch(index, functions, x)


@case("calls", 1 << 19)
def switch_distinct(n: int) -> Program:
    """20 different functions, each for a stretch of entries."""
    functions = [sine_series(k) for k in range(20)]
    index, x = ready(dr.arange(UInt, n) // (n // 20 + 1), dr.arange(Float, n) * 1e-6)
    return lambda: dr.switch(index, functions, x)


def materials(count: int) -> list[Callable[[Float], Float]]:
    """Return functions of five kinds, each with its own numbers."""

    def material(k: int) -> Callable[[Float], Float]:
        number = 1.5 + 0.01 * k

        def shade(x: Float) -> Float:
            if k % 5 == 0:
                return x * number + 1
            if k % 5 == 1:
                return dr.sin(x * number) + number
            if k % 5 == 2:
                return dr.sqrt(x + number) * x
            if k % 5 == 3:
                return dr.exp(-x * number)
            return x * x * number + x

        return shade

    return [material(k) for k in range(count)]


@case("calls", 1 << 18, rtol=1e-3)
def switch_random(n: int) -> Program:
    """20 functions of five kinds, selected at random: divergent."""
    functions = materials(20)
    index, x = ready(
        (dr.arange(UInt, n) * 0x9E3779B1 >> 8) % 20, dr.linspace(Float, 0, 1, n)
    )
    return lambda: dr.switch(index, functions, x)


@case("calls", 1 << 17, tiny=2000, rtol=1e-3)
def switch_1000(n: int) -> Program:
    """1,000 functions of five kinds, which differ in a number each."""
    functions = materials(1000)
    index, x = ready(dr.arange(UInt, n) // (n // 1000 + 1), dr.linspace(Float, 0, 1, n))
    return lambda: dr.switch(index, functions, x)


@dr.syntax
def path(index: UInt, functions: list[Any], x: Float, steps: int) -> Float:
    """Call a material again and again, another one each time."""
    i = UInt(0)
    while i < steps:
        x = 0.5 * dr.switch((index + i) % 5, functions, x)
        i += 1
    return x


@case("calls", 1 << 17, rtol=1e-3)
def switch_in_loop(n: int) -> Program:
    """A loop of eight calls of one of five functions: bounces of a path."""
    functions = materials(5)
    index, x = ready(dr.arange(UInt, n) % 5, dr.linspace(Float, 0, 1, n))
    return lambda: path(index, functions, x, 8)


@dr.syntax
def sorted_sum(seed: UInt, count: int) -> Float:
    """Sort random numbers by insertion in local memory, per entry."""
    buffer = dr.alloc_local(Float, count)
    i = UInt(0)
    while i < count:
        seed = seed * 1664525 + 1013904223
        item = Float(seed >> 8)
        j = UInt(i)
        goes_on = j > 0
        while goes_on:
            before = buffer[j - 1]
            if before > item:
                buffer[j] = before
                j -= 1
                goes_on = j > 0
            else:
                goes_on = Bool(False)
        buffer[j] = item
        i += 1
    total, i = Float(0), UInt(0)
    while i < count:
        total = total * 0.5 + buffer[i]
        i += 1
    return total


@case("local memory", 1 << 15)
def local_sort(n: int) -> Program:
    """Insertion sort of 24 numbers per entry."""
    seeds = ready(dr.arange(UInt, n))
    return lambda: sorted_sum(seeds, 24)


@dr.syntax
def tree_sum(seed: UInt, depth: int) -> UInt:
    """Walk through a random tree with a stack in local memory; sum its nodes."""
    stack = dr.alloc_local(UInt, depth + 1)
    # As wide as the seeds: if the stack starts with one entry, the results of
    # Dr.Jit 1.5 differ from plain Python's, and from run to run.
    stack[0] = dr.full(UInt, 1, dr.width(seed))
    top = dr.full(UInt, 1, dr.width(seed))
    total = dr.zeros(UInt, dr.width(seed))
    while top > 0:
        top -= 1
        node = stack[top]
        total += node
        noise = (node + seed) * 0x9E3779B1
        is_inner = (node < (1 << depth)) & ((noise ^ (noise >> 15)) % 8 < 5)
        stack.write(2 * node, top, active=is_inner)
        stack.write(2 * node + 1, top + 1, active=is_inner)
        top += dr.select(is_inner, UInt(2), UInt(0))
    return total


@case("local memory", 1 << 15)
def local_stack(n: int) -> Program:
    """Depth-first walks through random trees with a stack per entry."""
    seeds = ready(dr.arange(UInt, n))
    return lambda: tree_sum(seeds, 10)


@dr.syntax
def local_counts(x: UInt, turns: int) -> UInt:
    """Count digits in a table of 8 counters per entry; return a hash of them."""
    counts = dr.alloc_local(UInt, 8)
    for k in range(8):
        counts[k] = dr.zeros(UInt, dr.width(x))
    i = UInt(0)
    while i < turns:
        x = x * 1664525 + 1013904223
        digit = x >> 29
        counts[digit] = counts[digit] + 1
        i += 1
    result = UInt(0)
    for k in range(8):
        result = result * 31 + counts[k]
    return result


@case("local memory", 1 << 17)
def local_histogram(n: int) -> Program:
    """A histogram of eight bins per entry, 32 values each."""
    seeds = ready(dr.arange(UInt, n))
    return lambda: local_counts(seeds, 32)
