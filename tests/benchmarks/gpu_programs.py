"""The programs that are measured on GPUs, at their sizes.

Like those of `programs`: written with `lumijit.llvm`, whose name stands for what is
measured (`gpu_times.take_names`): `lumijit.cuda`, or a backend of the peer. A program
is a function that returns arrays; a setup makes its inputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import lumijit as dr
from lumijit.llvm import Float, UInt
from tests.benchmarks.declare import Program, ready
from tests.benchmarks.programs.gathers import random_index

BINS = 4096
ITERATIONS = 256
#: The picture's left and upper edge, and its width.
LEFT, TOP, WIDTH = -2.0, -1.5, 3.0


def sparse_ones(n: int) -> Float:
    """Return ones, 16 apart, and zeros: their sums are exact up to 2^28 entries."""
    return ready(dr.select((dr.arange(UInt, n) & 15) == 0, Float(1), Float(0)))


def saxpy(n: int) -> Program:
    """`2.5 x + y`."""
    x, y = ready(Float(dr.arange(UInt, n) & 1023), Float(dr.arange(UInt, n) & 255))
    return lambda: 2.5 * x + y


def total(n: int) -> Program:
    """The sum of all entries."""
    x = sparse_ones(n)
    return lambda: dr.sum(x)


def prefix_sum(n: int) -> Program:
    """The sums of what is before each entry."""
    x = sparse_ones(n)
    return lambda: dr.prefix_sum(x)


@dr.syntax
def escape(cx: Float, cy: Float, iterations: int) -> UInt:
    """Return after how many iterations points escape."""
    x, y, i = Float(0), Float(0), UInt(0)
    while (dr.fma(x, x, y * y) < 4) & (i < iterations):
        following = dr.fma(x, x, dr.fma(-y, y, cx))
        y = dr.fma(2 * x, y, cy)
        x = following
        i += 1
    return i


def mandelbrot(n: int) -> Program:
    """A square picture of the Mandelbrot set, up to 256 iterations a pixel."""
    side = round(n**0.5)
    step = WIDTH / side

    def program() -> UInt:
        i = dr.arange(UInt, n)
        cx = dr.fma(Float(i % side), step, LEFT)
        cy = dr.fma(Float(i // side), step, TOP)
        return escape(cx, cy, ITERATIONS)

    return program


def bin_inputs(n: int) -> tuple[UInt, Float]:
    """Return random bins, and what is added to them."""
    return random_index(n, BINS), ready(Float(dr.arange(UInt, n) & 7))


def scatter_add(n: int) -> Program:
    """Values added into 4,096 bins."""
    index, x = bin_inputs(n)

    def program() -> Float:
        bins = dr.zeros(Float, BINS)
        dr.scatter_add(bins, x, index)
        return bins

    return program


def small_launch(n: int) -> Program:
    """A launch of 1,024 entries with a number that is new each time."""
    x = ready(dr.arange(Float, n))
    numbers = itertools.count()
    return lambda: x * dr.opaque(Float, next(numbers) % 7) + 1


#: What is measured, and at which size.
PROGRAMS: dict[str, tuple[Callable[[int], Program], int]] = {
    "saxpy": (saxpy, 1 << 27),
    "sum": (total, 1 << 27),
    "prefix_sum": (prefix_sum, 1 << 27),
    "mandelbrot": (mandelbrot, 1 << 24),
    "scatter_add": (scatter_add, 1 << 26),
    "small launch": (small_launch, 1 << 10),
}


def size_of(name: str, shift: int) -> int:
    """Return a program's size, divided by a power of four where it is tested."""
    size = PROGRAMS[name][1]
    return max(1 << 10, size >> 2 * shift)


def program(name: str, shift: int) -> Any:
    """Return a program with its inputs."""
    return PROGRAMS[name][0](size_of(name, shift))
