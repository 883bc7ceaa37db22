"""Measures one case in a process: `measure.py MODULE THEME CASE FOLDER SCALE THREADS`.

MODULE is `lumijit`, or a library with the same interface, which then takes its name;
THEME is the module that declares the case; 0 threads are one for each core.
`HOME` must be a folder that this process may empty: kernels on disk are removed to
measure a first call, and kept to measure a start with a warm cache.

Prints one JSON object of metrics, in microseconds and MiB, and writes what the case
computed to FOLDER, at the tiny and at the full size, for comparison.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
#: Seconds that measuring the run time may take, and Python's share.
RUN_SECONDS, PYTHON_SECONDS = 0.3, 0.06
#: Calls shorter than this are measured several at a time.
SHORTEST_SECONDS = 1e-3
#: So many entries of a result are compared.
SAMPLES = 4096

Metrics = dict[str, float]


def take_name(module: str) -> None:
    """Make a library the one that `import lumijit` gives."""
    for name in ("", ".llvm", ".llvm.ad", ".scalar"):
        sys.modules["lumijit" + name] = importlib.import_module(module + name)


def calls_of(program: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that traces a program and launches what it needs."""
    import lumijit as dr

    def call() -> Any:
        result = program()
        if result is not None:
            dr.eval(result)
        return result

    return call


def once(call: Callable[[], Any]) -> float:
    """Return how many seconds one finished call takes."""
    import lumijit as dr

    dr.sync_thread()
    start = time.perf_counter()
    call()
    dr.sync_thread()
    return time.perf_counter() - start


def repeat(call: Callable[[], Any], seconds: float) -> tuple[list[float], float]:
    """Return the seconds of many calls by the clock, and their mean processor time.

    The processor's clock is read at both ends only: of threads that run on other
    cores, it is updated every few milliseconds.
    """
    import lumijit as dr

    batch = max(1, min(200, int(SHORTEST_SECONDS / once(call))))
    walls: list[float] = []
    cpu = time.process_time()
    end = time.perf_counter() + seconds
    while len(walls) < 3 or (time.perf_counter() < end and len(walls) < 200):
        dr.sync_thread()
        start = time.perf_counter()
        for _ in range(batch):
            call()
        dr.sync_thread()
        walls.append((time.perf_counter() - start) / batch)
    return walls, (time.process_time() - cpu) / (batch * len(walls))


def forget_kernels() -> None:
    """Remove kernels from memory and from disk."""
    import lumijit as dr

    for path in Path(os.environ["HOME"]).rglob("*"):
        if path.is_file():
            path.unlink()
    dr.flush_kernel_cache()


def memory_mib(field: str) -> float:
    """Return a line of the process's status, such as the largest memory so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return 0.0


def peak_growth(call: Callable[[], Any]) -> float:
    """Return by how many MiB the process grows at most during a call."""
    Path("/proc/self/clear_refs").write_text("5")
    before = memory_mib("VmRSS")
    once(call)
    return memory_mib("VmHWM") - before


def leaves(result: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Return a result's arrays as NumPy's, flat."""
    if isinstance(result, (list, tuple)):
        for part in result:
            yield from leaves(part)
    elif result is not None:
        yield np.asarray(result.numpy()).ravel()


def sample(result: Any) -> list[np.ndarray[Any, Any]]:
    """Return some entries of each array of a result."""
    return [a[:: max(1, a.size // SAMPLES)] for a in leaves(result)]


def first_calls(setup: Callable[[int], Any], tiny: int) -> tuple[Metrics, Any]:
    """Measure the first call and what Python takes, where there is nothing to do."""
    import lumijit as dr

    call = calls_of(setup(tiny))
    forget_kernels()
    first = once(call)
    result = list(leaves(call()))
    dr.flush_kernel_cache()
    warm = once(call)
    dr.flush_kernel_cache()
    warm = min(warm, once(call))
    walls, _ = repeat(call, PYTHON_SECONDS)
    metrics = {"first": first * 1e6, "warm": warm * 1e6, "python": min(walls) * 1e6}
    return metrics, result


def run_times(setup: Callable[[int], Any], size: int) -> tuple[Metrics, Any]:
    """Measure calls whose kernels are there, and the memory of the first of them."""
    call = calls_of(setup(size))
    peak = peak_growth(call)
    walls, cpu = repeat(call, RUN_SECONDS)
    metrics = {
        "run": min(walls) * 1e6,
        "run_median": statistics.median(walls) * 1e6,
        "cpu": cpu * 1e6,
        "peak": peak,
    }
    return metrics, sample(call())


def measure(
    module: str, theme: str, name: str, folder: Path, scale: float, threads: int
) -> Metrics:
    """Measure one case, at its size times `scale`."""
    start = time.perf_counter()
    take_name(module)
    imported = time.perf_counter() - start
    sys.path.insert(0, str(ROOT))
    import lumijit as dr
    from lumijit.llvm import Float
    from tests.benchmarks.declare import CASES

    importlib.import_module(theme)
    case = CASES[name]
    dr.eval(dr.arange(Float, 64) * 2)
    if threads:
        dr.set_thread_count(threads)
    metrics: Metrics = {"import": imported * 1e6}
    first, small = first_calls(case.setup, case.tiny)
    run, large = run_times(case.setup, max(case.tiny, int(case.size * scale)))
    arrays = [*small, *large]
    np.savez(folder / "result.npz", *arrays)
    return {**metrics, **first, **run}


if __name__ == "__main__":
    module, theme, name, folder, size, count = sys.argv[1:]
    print(
        json.dumps(measure(module, theme, name, Path(folder), float(size), int(count)))
    )
