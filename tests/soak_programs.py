"""The programs of the soak: each takes random numbers, and compares with NumPy.

There are some hundred structures in all, so that most kernels recur.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import lumijit as dr
from lumijit.llvm import Array2f, Float, Int, UInt
from tests.compiler.support import Array

Program = Callable[[random.Random], None]
PROGRAMS: dict[str, Program] = {}


class Expected(Exception):
    """Raised on purpose, in the middle of a program."""


def program(function: Program) -> Program:
    """Register a program."""
    PROGRAMS[function.__name__] = function
    return function


def size_of(rng: random.Random) -> int:
    """Return a size: mostly small and odd, sometimes large."""
    return int(2 ** rng.uniform(0, 17.5))


def numbers(rng: random.Random, size: int, below: int = 2**32) -> Array:
    """Return random unsigned numbers."""
    source = default_rng(rng.randrange(1000))
    return source.integers(0, below, size, np.uint32)


def same(found: Any, expected: Array) -> None:
    """Compare exactly."""
    got = found.numpy()
    assert got.dtype == expected.dtype, f"{got.dtype}, not {expected.dtype}"
    assert_array_equal(got, expected)


@program
def elementwise(rng: random.Random) -> None:
    """Integer arithmetic of a random form."""
    size = size_of(rng)
    form = random.Random(rng.randrange(40))
    values = [numbers(rng, size), numbers(rng, size), numbers(rng, 1)]
    arrays = [UInt(v) for v in values]
    for _ in range(form.randint(1, 12)):
        i, j = form.randrange(len(values)), form.randrange(len(values))
        kind = form.randrange(6)
        a, b, x, y = values[i], values[j], arrays[i], arrays[j]
        if kind == 0:
            values.append(a + b)
            arrays.append(x + y)
        elif kind == 1:
            values.append(a * b)
            arrays.append(x * y)
        elif kind == 2:
            values.append(a ^ (b >> np.uint32(3)))
            arrays.append(x ^ (y >> 3))
        elif kind == 3:
            values.append(np.where(a < b, a, b + np.uint32(1)))
            arrays.append(dr.select(x < y, x, y + 1))
        elif kind == 4:
            values.append(np.maximum(a, b) - np.minimum(a, b))
            arrays.append(dr.maximum(x, y) - dr.minimum(x, y))
        else:
            shift = rng.randrange(2**20)
            values.append(a + np.uint32(shift))
            arrays.append(x + shift)
        if form.random() < 0.15:
            dr.eval(arrays[-1])
    for value, array in zip(values[3:], arrays[3:], strict=True):
        same(array, value)


@program
def functions(rng: random.Random) -> None:
    """Floating-point functions."""
    size = size_of(rng)
    x = numbers(rng, size, 1000).astype(np.float32) / np.float32(100)
    array = Float(x)
    found = dr.sin(array) * dr.exp(-array) + dr.sqrt(array + 1) / dr.fma(array, 2, 1)
    wide = x.astype(np.float64)
    expected = np.sin(wide) * np.exp(-wide) + np.sqrt(wide + 1) / (wide * 2 + 1)
    assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


@dr.syntax
def _collatz(x: UInt, limit: int, stop: bool) -> tuple[UInt, UInt]:
    steps = UInt(0)
    while (x > 1) & (steps < limit):
        if x % 2 == 0:
            x //= 2
        else:
            x = 3 * x + 1
        steps += 1
        _raise_if(stop)
    return x, steps


def _raise_if(stop: bool) -> None:
    if stop:
        raise Expected


@program
def loop(rng: random.Random) -> None:
    """A divergent loop with a branch, symbolic or evaluated."""
    size = min(size_of(rng), 20_000)
    limit = rng.choice((3, 17, 40))
    start = numbers(rng, size, 10_000)
    mode = rng.random() < 0.8
    flags = dr.JitFlag.SymbolicLoops | dr.JitFlag.SymbolicConditionals
    with dr.scoped_set_flag(flags, mode):
        x, steps = _collatz(UInt(start), limit, rng.random() < 0.05)
    value, count = start.copy(), np.zeros(size, np.uint32)
    for _ in range(limit):
        active = value > 1
        follow = np.where(value % 2 == 0, value // 2, 3 * value + 1)
        value = np.where(active, follow, value).astype(np.uint32)
        count += active
    same(x, value)
    same(steps, count)


@program
def evaluation_loop(rng: random.Random) -> None:
    """Evaluations of each other, without waiting."""
    size = size_of(rng)
    value = numbers(rng, size)
    array = UInt(value)
    for _ in range(rng.randint(2, 40)):
        factor = rng.randrange(2**16)
        array = array * factor + 7
        dr.eval(array)
        value = value * np.uint32(factor) + np.uint32(7)
    same(array, value)


@program
def calls(rng: random.Random) -> None:
    """A switch over functions, some with data of their own, some of which raise."""
    size = size_of(rng)
    count = rng.choice((2, 3, 12))
    tables = [numbers(rng, 50) for _ in range(count)]
    kept = [UInt(table) for table in tables]
    stop = rng.random() < 0.05

    def make(k: int) -> Callable[[UInt], UInt]:
        def function(x: UInt) -> UInt:
            _raise_if(stop and k == 1)
            if k % 3 == 0:
                return x * (k + 2)
            return dr.gather(UInt, kept[k], x % 50) + x

        return function

    index, x = numbers(rng, size, count), numbers(rng, size)
    symbolic = rng.random() < 0.7
    with dr.scoped_set_flag(dr.JitFlag.SymbolicCalls, symbolic):
        found = dr.switch(UInt(index), [make(k) for k in range(count)], UInt(x))
        expected = np.zeros(size, np.uint32)
        for k in range(count):
            result = x * np.uint32(k + 2) if k % 3 == 0 else tables[k][x % 50] + x
            expected = np.where(index == k, result, expected)
        same(found, expected)


@program
def indexing(rng: random.Random) -> None:
    """Gathers, scatters and atomic additions, also with masks and wild indices."""
    size, target_size = 1 + size_of(rng), size_of(rng)
    source = numbers(rng, target_size)
    signed = numbers(rng, size, 3 * target_size).astype(np.int32) - target_size
    inside = (signed >= -target_size) & (signed < target_size)
    gathered = dr.gather(UInt, UInt(source), Int(signed))
    wrapped = np.where(inside, signed, 0)
    same(gathered, np.where(inside, source[wrapped], 0).astype(np.uint32))
    target = UInt(source)
    values = numbers(rng, size)
    even = values % 2 == 0
    index = numbers(rng, size, target_size)
    dr.scatter_add(target, UInt(values), UInt(index), UInt(values) % 2 == 0)
    expected = source.copy()
    np.add.at(expected, index[even], values[even])
    same(target, expected)
    place = default_rng(size).permutation(size).astype(np.uint32)
    moved = dr.zeros(UInt, size)
    dr.scatter(moved, UInt(values), UInt(place))
    expected = np.zeros(size, np.uint32)
    expected[place] = values
    same(moved, expected)


@program
def across(rng: random.Random) -> None:
    """Reductions, block reductions, prefix sums and compaction."""
    block = rng.choice((1, 2, 16, 100))
    size = block * max(size_of(rng) // block, 1)
    values = numbers(rng, size)
    x = UInt(values)
    assert dr.sum(x)[0] == int(values.sum(dtype=np.uint32))
    assert dr.max(x)[0] == values.max()
    same(dr.block_sum(x, block), values.reshape(-1, block).sum(1, dtype=np.uint32))
    running = np.cumsum(values, dtype=np.uint32)
    same(dr.prefix_sum(x, exclusive=False), running)
    same(dr.prefix_sum(x), running - values)
    odd = x % 3 == 1
    same(dr.compress(odd), np.flatnonzero(values % 3 == 1).astype(np.uint32))


@dr.syntax
def _sorted(values: list[UInt], count: int) -> list[UInt]:
    memory = dr.alloc_local(UInt, count)
    for k in range(count):
        memory[k] = values[k]
    i = UInt(1)
    while i < count:
        x = memory[i]
        j = UInt(i)
        while (j > 0) & (memory[dr.maximum(j, 1) - 1] > x):
            memory[j] = memory[j - 1]
            j -= 1
        memory[j] = x
        i += 1
    return [memory[k] for k in range(count)]


@program
def local_memory(rng: random.Random) -> None:
    """An insertion sort in each lane."""
    size = min(size_of(rng), 2000)
    columns = np.stack([numbers(rng, size) for _ in range(6)])
    found = _sorted([UInt(column) for column in columns], 6)
    for got, expected in zip(found, np.sort(columns, axis=0), strict=True):
        same(got, expected)


@program
def texture(rng: random.Random) -> None:
    """Bilinear look-ups written by hand."""
    size, width = size_of(rng), rng.choice((2, 64, 300))
    texels = numbers(rng, width * width, 1000).astype(np.float32)
    u, v = (
        numbers(rng, size, 2**24).astype(np.float32) / 2**24 * (width - 1)
        for _ in range(2)
    )
    memory, p = Float(texels), Array2f(Float(u), Float(v))
    low = dr.minimum(UInt(p.x), width - 2), dr.minimum(UInt(p.y), width - 2)
    fx, fy = p.x - Float(low[0]), p.y - Float(low[1])
    base = low[1] * width + low[0]
    a, b, c, d = (dr.gather(Float, memory, base + k) for k in (0, 1, width, width + 1))
    found = dr.lerp(dr.lerp(a, b, fx), dr.lerp(c, d, fx), fy)
    ix, iy = (np.minimum(w.astype(np.uint32), width - 2) for w in (u, v))
    gx, gy = u - ix, v - iy
    at = iy * width + ix
    e, f, g, h = (texels[at + k] for k in (0, 1, width, width + 1))
    top, bottom = e + (f - e) * gx, g + (h - g) * gx
    expected = top + (bottom - top) * gy
    assert_allclose(found.numpy(), expected, rtol=1e-3, atol=0.05)


@program
def mistakes(rng: random.Random) -> None:
    """Errors of users leave everything as it was."""
    x = UInt(numbers(rng, 10))
    for wrong in (
        lambda: x + UInt(1, 2, 3),
        lambda: dr.block_sum(x, 7),
        lambda: dr.switch(UInt(0, 1), [lambda: UInt(1), lambda: "text"]),
    ):
        told = ""
        try:
            dr.eval(wrong())
        except Exception as error:
            told = type(error).__module__
        assert told.startswith("lumijit"), f"nothing of ours: {told}"
    assert dr.sum(x - x)[0] == 0
