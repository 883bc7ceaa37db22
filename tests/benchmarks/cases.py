"""The measured programs, written against the public interface alone.

Run as `python cases.py MODULE CASE`, where MODULE is `lumijit` or a library with
the same interface; prints one JSON object {metric: value}. A process measures one
case, so that no case profits from another's memory or kernels. `table.py` starts
these processes, gives each an empty or a shared home, and compares.

Units end the metrics' names. Times are medians within the process.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

Metrics = dict[str, float]

ROOT = Path(__file__).resolve().parents[2]
MODULE = sys.argv[1] if __name__ == "__main__" else "lumijit"
dr = importlib.import_module(MODULE)
llvm = importlib.import_module(f"{MODULE}.llvm.ad")
Float, UInt32, Array3f, PCG32 = llvm.Float, llvm.UInt32, llvm.Array3f, llvm.PCG32

CASES: dict[str, Callable[[], Metrics]] = {}


def case(function: Callable[[], Metrics]) -> Callable[[], Metrics]:
    """Register a case under its function's name."""
    CASES[function.__name__] = function
    return function


# Measuring


def once(function: Callable[[], Any]) -> float:
    """Return how many seconds one finished call takes."""
    dr.sync_thread()
    start = time.perf_counter()
    function()
    dr.sync_thread()
    return time.perf_counter() - start


def median(function: Callable[[], Any], repetitions: int = 9) -> float:
    """Return the median seconds of finished calls, after one to warm up."""
    once(function)
    return statistics.median(once(function) for _ in range(repetitions))


def milliseconds(function: Callable[[], Any], repetitions: int = 9) -> Metrics:
    """Measure the run time of a program whose kernels are cached."""
    return {"ms": median(function, repetitions) * 1e3}


# Kernels


@dr.syntax
def mandelbrot_count(cx: Any, cy: Any) -> Any:
    """Count the iterations until a point escapes."""
    i = UInt32(0)
    x = Float(0)
    y = Float(0)
    while (x * x + y * y < 4) & (i < 256):
        next_x = x * x - y * y + cx
        y = 2 * x * y + cy
        x = next_x
        i += 1
    return i


@dr.syntax
def hits_in_circle(n: int) -> Any:
    """Count how many of 64 random points per entry fall into the unit circle."""
    rng = PCG32(size=n)
    i = UInt32(0)
    count = UInt32(0)
    while i < 64:
        a = rng.next_float32()
        b = rng.next_float32()
        count += dr.select(a * a + b * b < 1, UInt32(1), UInt32(0))
        i += 1
    return count


@case
def mandelbrot() -> Metrics:
    """1024 x 1024 points, up to 256 iterations."""
    cx, cy = dr.meshgrid(
        dr.linspace(Float, -2, 1, 1024), dr.linspace(Float, -1.5, 1.5, 1024)
    )
    dr.eval(cx, cy)
    return milliseconds(lambda: dr.eval(mandelbrot_count(cx, cy)))


@case
def transcend() -> Metrics:
    """A mix of transcendental functions of 4 M values."""
    x = dr.arange(Float, 1 << 22) * 1e-5
    dr.eval(x)

    def program() -> None:
        s, c = dr.sincos(x)
        z = s * dr.exp(-x) + dr.log(x + 1) * c + dr.tanh(x) + dr.atan2(s, c)
        dr.eval(z)

    return milliseconds(program)


@case
def saxpy() -> Metrics:
    """`2.5 x + y` of 16 M values: memory-bound."""
    n = 1 << 24
    x = dr.arange(Float, n) * 1e-6
    y = dr.arange(Float, n) * 2e-6
    dr.eval(x, y)
    return milliseconds(lambda: dr.eval(dr.fma(x, 2.5, y)))


@case
def gather_random() -> Metrics:
    """4 M reads at random places of 4 M values."""
    n = 1 << 22
    index = UInt32(PCG32(size=n).next_float32() * n)
    source = dr.arange(Float, n) * 1.0
    dr.eval(index, source)
    return milliseconds(lambda: dr.eval(dr.gather(Float, source, index) * 2))


@case
def hist_scatter_add() -> Metrics:
    """4 M values added into 4,096 bins."""
    u = PCG32(size=1 << 22).next_float32()
    dr.eval(u)

    def program() -> None:
        bins = dr.zeros(Float, 4096)
        dr.scatter_add(bins, Float(1), UInt32(u * 4096))
        dr.eval(bins)

    return milliseconds(program)


@case
def reduce_sum() -> Metrics:
    """The sum of 16 M values."""
    x = dr.arange(Float, 1 << 24) * 1e-6
    dr.eval(x)
    return milliseconds(lambda: dr.eval(dr.sum(x)))


@case
def prefix_sum() -> Metrics:
    """The exclusive prefix sum of 16 M integers."""
    x = dr.arange(UInt32, 1 << 24) & 3
    dr.eval(x)
    return milliseconds(lambda: dr.eval(dr.prefix_sum(x)))


@case
def pcg_pi() -> Metrics:
    """64 pairs of random numbers for each of 1 M generators."""
    return milliseconds(lambda: dr.eval(hits_in_circle(1 << 20)))


@dr.syntax
def sorted_sum(seed: Any, count: int) -> Any:
    """Sort random numbers by insertion in local memory, per element."""
    buffer = dr.alloc_local(Float, count)
    i = UInt32(0)
    while i < count:
        seed = seed * 1664525 + 1013904223
        item = Float(seed >> 8)
        j = UInt32(i)
        goes_on = j > 0
        while goes_on:
            before = buffer[j - 1]
            if before > item:
                buffer[j] = before
                j -= 1
                goes_on = j > 0
            else:
                goes_on = llvm.Bool(False)
        buffer[j] = item
        i += 1
    total, i = Float(0), UInt32(0)
    while i < count:
        total = total * 0.5 + buffer[i]
        i += 1
    return total


@case
def local_sort() -> Metrics:
    """Insertion sort of 24 numbers in local memory, for 256 K elements."""
    seeds = dr.arange(UInt32, 1 << 18)
    dr.eval(seeds)
    return milliseconds(lambda: dr.eval(sorted_sum(seeds, 24)))


@dr.syntax
def tree_sum(seed: Any, depth: int) -> Any:
    """Walk through a random tree with a stack in local memory; sum its nodes."""
    stack = dr.alloc_local(UInt32, depth + 1)
    # As wide as the seeds: if the stack starts with one entry, the results of
    # Dr.Jit 1.5 differ from plain Python's, and from run to run.
    stack[0] = dr.full(UInt32, 1, dr.width(seed))
    top = dr.full(UInt32, 1, dr.width(seed))
    total = dr.zeros(UInt32, dr.width(seed))
    while top > 0:
        top -= 1
        node = stack[top]
        total += node
        noise = (node + seed) * 0x9E3779B1
        is_inner = (node < (1 << depth)) & ((noise ^ (noise >> 15)) % 8 < 5)
        stack.write(2 * node, top, active=is_inner)
        stack.write(2 * node + 1, top + 1, active=is_inner)
        top += dr.select(is_inner, UInt32(2), UInt32(0))
    return total


@case
def local_stack() -> Metrics:
    """Depth-first walks through 256 K random trees with a stack in local memory."""
    seeds = dr.arange(UInt32, 1 << 18)
    dr.eval(seeds)
    return milliseconds(lambda: dr.eval(tree_sum(seeds, 10)))


# Tracing and launching


def empty_turn() -> float:
    """Return the seconds of a turn of an empty Python loop, to compare machines by."""

    def turns() -> None:
        for _ in range(300_000):
            pass

    return min(once(turns) for _ in range(7)) / 300_000


def traced(program: Callable[[], Any], operations: int) -> Metrics:
    """Measure how fast operations are traced, also in turns of an empty loop."""
    seconds = min(once(program) for _ in range(7)) / operations
    return {"Mops_per_s": 1e-6 / seconds, "turns": seconds / empty_turn()}


# Calls


def sine_series(k: int) -> Callable[[Any], Any]:
    """Return the sine's power series with `k` terms beyond the first."""

    def series(x: Any) -> Any:
        result = term = x
        for j in range(1, k + 1):
            term = term * x * x * (-1.0 / ((2 * j) * (2 * j + 1)))
            result = result + term
        return result

    return series


def switch_program(count: int, distinct: int, size: int) -> Callable[[], Any]:
    """Return a program that calls `count` functions, of which some are equal."""
    functions = [sine_series(k % distinct) for k in range(count)]
    index = dr.arange(UInt32, size) // (size // count + 1)
    x = dr.arange(Float, size) * 1e-6
    dr.eval(index, x)
    return lambda: dr.eval(dr.switch(index, functions, x))


@case
def switch_sin() -> Metrics:
    """50 functions, 5 of them different, over 1 M values; tracing included."""
    program = switch_program(50, 5, 1 << 20)
    cold = once(program)
    return {"ms": median(program, 25) * 1e3, "cold_ms": cold * 1e3}


def _waves(count: int) -> Callable[[], Any]:
    """Return a program that calls functions of 5 kinds, each with its own numbers."""

    def wave(k: int) -> Callable[[Any], Any]:
        number = 1.5 + 0.01 * k

        def plain(x: Any) -> Any:
            if k % 5 == 0:
                return x * number + 1
            if k % 5 == 1:
                return dr.sin(x * number) + number
            if k % 5 == 2:
                return dr.sqrt(x + number) * x
            if k % 5 == 3:
                return dr.exp(-x * number)
            return x * x * number + x

        return plain

    functions = [wave(k) for k in range(count)]
    index = dr.arange(UInt32, 1 << 16) % count
    x = dr.arange(Float, 1 << 16) * 1e-4
    dr.eval(index, x)
    return lambda: dr.eval(dr.switch(index, functions, x))


def _instances(count: int) -> Metrics:
    """Build the kernel for functions that differ in data, and run it."""
    program = _waves(count)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        cold = once(program)
        entries = dr.kernel_history()
    # Ours are microseconds, the peer's milliseconds.
    unit = 1e-3 if MODULE == "lumijit" else 1
    build = sum(e.get("codegen_time", 0) + e.get("backend_time", 0) for e in entries)
    return {"build_ms": build * unit, "cold_ms": cold * 1e3}


@case
def instances_5() -> Metrics:
    """Five functions of five kinds."""
    return _instances(5)


@case
def instances_1000() -> Metrics:
    """A thousand functions of five kinds, which differ in a number each."""
    return _instances(1000)


@case
def trace_arith() -> Metrics:
    """A chain of 100,000 products and sums, traced and dropped."""
    x = dr.opaque(Float, 1.5, 4)
    y = dr.opaque(Float, 0.5, 4)
    pairs = 50_000

    def program() -> None:
        a = x
        for _ in range(pairs):
            a = a * x + y

    return traced(program, 2 * pairs)


@case
def trace_numbers() -> Metrics:
    """The same with Python numbers as second operands."""
    x = dr.opaque(Float, 1.5, 4)
    pairs = 25_000

    def program() -> None:
        a = x
        for _ in range(pairs):
            a = a * 1.5 + 0.25

    return traced(program, 2 * pairs)


@case
def trace_functions() -> Metrics:
    """A chain of calls of free functions."""
    x = dr.opaque(Float, 1.5, 4)
    y = dr.opaque(Float, 0.5, 4)
    pairs = 25_000

    def program() -> None:
        a = x
        for _ in range(pairs):
            a = dr.sqrt(dr.fma(a, x, y))

    return traced(program, 2 * pairs)


@case
def trace_again() -> Metrics:
    """Operations that have been traced before, on operands used many times."""
    x = dr.opaque(Float, 1.5, 4)
    parts = [x + k for k in range(20)]
    products = [x * part for part in parts]

    def program() -> None:
        for _ in range(2_000):
            for part in parts:
                x * part

    metrics = traced(program, 2_000 * len(parts))
    assert (x * parts[7]).index == products[7].index
    return metrics


@case
def import_library() -> Metrics:
    """Importing the library, once Python's files of it are compiled."""
    program = (
        "import numpy, time; start = time.perf_counter(); "
        f"import {MODULE}; print(time.perf_counter() - start)"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}

    def seconds() -> float:
        command = [sys.executable, "-c", program]
        return float(subprocess.check_output(command, env=environment, text=True))

    return {"ms": min(seconds() for _ in range(7)) * 1e3}


@case
def small_launch() -> Metrics:
    """One kernel of 64 entries, traced anew, found in the cache, launched."""
    x = dr.arange(Float, 64)
    dr.eval(x)
    launches = 500

    def program() -> None:
        for _ in range(launches):
            dr.eval(dr.fma(x, 2.5, 1.25))

    return {"us": median(program) / launches * 1e6}


@case
def long_chain() -> Metrics:
    """A chain of a million operations: traced, evaluated and freed."""
    x = dr.opaque(Float, 1.5, 4)
    start = time.perf_counter()
    a = x
    for _ in range(500_000):
        a = a * 0.5 + x
    traced = time.perf_counter()
    dr.eval(a)
    dr.sync_thread()
    evaluated = time.perf_counter()
    value = a[0]
    if abs(value - 3.0) > 1e-5:
        raise ValueError(f"the chain converges to 3, got {value}")
    return {"trace_s": traced - start, "eval_s": evaluated - traced}


@case
def fused_memory() -> Metrics:
    """How much a fused expression of 16 M values grows the process, per output."""
    n = 1 << 24
    x = dr.arange(Float, n) * 1e-6
    dr.eval(x)
    dr.sync_thread()
    dr.eval(dr.sin(dr.arange(Float, 64)))
    dr.sync_thread()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    z = dr.sqrt(dr.fma(x, x, 1)) * dr.sin(x) + dr.exp(-x) / (1 + x * x)
    dr.eval(z)
    dr.sync_thread()
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"outputs": grown_kib * 1024 / (4 * n)}


# The demo's pictures


def picture(name: str) -> Any:
    """Import a picture of the gallery, made with the library under test."""
    sys.path.insert(0, str(ROOT))
    if MODULE != "lumijit":
        sys.modules["lumijit"] = dr
        sys.modules["lumijit.llvm"] = importlib.import_module(f"{MODULE}.llvm")
    return importlib.import_module(f"examples.{name}")


def trace(module: Any, width: int) -> Any:
    """Trace a picture without running anything."""
    height = max(1, round(width / module.ASPECT))
    return module.render(width, height, module.VARIANTS[0])


def build(name: str, is_library_warm: bool = True) -> Metrics:
    """Measure what a picture's first evaluation takes beyond a later one.

    The picture is tiny and traced beforehand, so that hardly anything is run:
    what remains is reading or making machine code. With an empty home that is a
    cold build, with a filled one a warm start. A trivial kernel beforehand loads
    the library itself.
    """
    module = picture(name)
    if is_library_warm:
        dr.eval(dr.arange(Float, 64) * 2)
        dr.sync_thread()

    def seconds() -> float:
        pixels = trace(module, 4)
        return once(lambda: dr.eval(pixels))

    first = seconds()
    later = min(seconds() for _ in range(9))
    return {"ms": max(first - later, 1e-6) * 1e3}


def run(name: str) -> Metrics:
    """Measure a picture's run at full size, tracing included."""
    module = picture(name)
    return milliseconds(lambda: dr.eval(trace(module, module.SIZE)), repetitions=3)


def register_pictures() -> None:
    """Make the cases of every picture: its build, its first start, its run."""
    for name in ("quickstart", "sdf_sphere", "mandelbrot", "ambient_occlusion"):
        CASES[f"build_{name}"] = partial(build, name)
        CASES[f"start_{name}"] = partial(build, name, is_library_warm=False)
        CASES[f"run_{name}"] = partial(run, name)


register_pictures()

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[2]]()))
