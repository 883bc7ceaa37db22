"""Measures programs in a process, by any library with our interface, on any backend.

    python -m tests.benchmarks.gpu_times MODULE BACKEND SUITE

MODULE is `lumijit` or the peer, BACKEND `cuda`, `llvm` or `emulated`. SUITE is
`programs` (of `gpu_programs`), `cases` (of `programs`, eight times their size), or
`gallery`. Prints a JSON object for each program, as soon as it is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

#: How long a program is measured, and a batch of its calls, in seconds.
MEASURED_S, BATCH_S = 0.15, 0.02
#: How many entries of each array of a result are compared.
SAMPLES = 64
#: By how much the sizes of benchmark cases grow for a GPU.
SCALE = 8

Line = dict[str, Any]


def take_names(module: str, backend: str) -> None:
    """Make a library the one that `import lumijit` gives, and a backend its `llvm`."""
    names = {"": "", ".scalar": ".scalar"}
    names |= {".llvm": f".{backend}", ".llvm.ad": f".{backend}.ad"}
    for name, taken in names.items():
        sys.modules["lumijit" + name] = importlib.import_module(module + taken)


@contextlib.contextmanager
def measuring(module: str, backend: str) -> Iterator[None]:
    """Take the names; for `emulated`, have a process stand for the GPU."""
    with contextlib.ExitStack() as stack:
        if backend == "emulated":
            from tests.emulated_device import emulated

            stack.enter_context(emulated())
        take_names(module, "cuda" if backend == "emulated" else backend)
        yield


def evaluated(program: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that traces a program and launches what it needs."""
    import lumijit as dr

    def call() -> Any:
        result = program()
        if result is not None:
            dr.eval(result)
        return result

    return call


def wall_seconds(call: Callable[[], Any], count: int = 1) -> float:
    """Return the seconds of a call by the clock, of several in a row."""
    import lumijit as dr

    dr.sync_thread()
    start = time.perf_counter()
    for _ in range(count):
        call()
    dr.sync_thread()
    return (time.perf_counter() - start) / count


def event_seconds(call: Callable[[], Any], count: int) -> float:
    """Return the seconds of a call by events around several in a row.

    On the CPU, by the clock: the peer's events are of no use there.
    """
    import lumijit as dr
    from lumijit.llvm import Event, Float

    if dr.backend_v(Float) == dr.JitBackend.LLVM:
        return wall_seconds(call, count)
    start, end = Event(), Event()
    start.record()
    for _ in range(count):
        call()
    end.record()
    end.wait()
    return float(start.elapsed_time(end)) / 1e3 / count


def seconds_of(
    call: Callable[[], Any],
    limit_s: float = MEASURED_S,
    clock: Callable[[Callable[[], Any], int], float] = event_seconds,
) -> float:
    """Return the seconds of a call: the best of batches, which keep the device busy."""
    wall_seconds(call)
    count = max(1, min(200, int(BATCH_S / wall_seconds(call))))
    found: list[float] = []
    end = time.perf_counter() + limit_s
    while len(found) < 3 or (len(found) < 50 and time.perf_counter() < end):
        found.append(clock(call, count))
    return min(found)


def sample(result: Any) -> list[list[float]]:
    """Return some entries of each array of a result."""
    from tests.benchmarks.measure import leaves

    # (An odd step, as much of what is computed repeats after a power of two.)
    return [a[:: a.size // SAMPLES | 1].tolist() for a in leaves(result)]


def of_programs(shift: int) -> Iterator[tuple[str, Callable[[], Line]]]:
    """Measure the programs for GPUs."""
    from tests.benchmarks.gpu_programs import PROGRAMS, program

    def measure(name: str) -> Line:
        call = evaluated(program(name, shift))
        found = sample(call())
        # (What Python takes shows by the clock.)
        clock = wall_seconds if name == "small launch" else event_seconds
        return {"seconds": seconds_of(call, clock=clock), "samples": found}

    for name in PROGRAMS:
        yield name, partial(measure, name)


def of_cases(shift: int) -> Iterator[tuple[str, Callable[[], Line]]]:
    """Measure the benchmark cases, one of each group after the other."""
    from tests.benchmarks.programs import CASES

    def measure(case: Any) -> Line:
        size = case.tiny if shift else case.size * SCALE
        call = evaluated(case.setup(size))
        result = call()
        # (Where nothing is launched, tracing is what is measured.)
        clock = wall_seconds if result is None else event_seconds
        found = sample(result)
        return {"seconds": seconds_of(call, 0.05, clock), "samples": found}

    groups: dict[str, list[Any]] = {}
    for case in CASES.values():
        groups.setdefault(case.group, []).append(case)
    for row in itertools.zip_longest(*groups.values()):
        for case in row:
            if case is not None:
                yield case.name, partial(measure, case)


def of_gallery(shift: int) -> Iterator[tuple[str, Callable[[], Line]]]:
    """Measure the pictures, at their sizes: whole calls, and kernels alone."""
    import lumijit as dr
    from examples import gallery

    def measure(picture: Any) -> Line:
        width = 24 if shift else picture.SIZE
        height = max(1, round(width / picture.ASPECT))
        look = picture.VARIANTS[0]
        call = evaluated(lambda: picture.render(width, height, look))
        found = sample(call())
        seconds = min(wall_seconds(call) for _ in range(3))
        row, _ = gallery.measure(picture, width, height, look)
        dr.sync_thread()
        return {
            "seconds": seconds,
            "samples": found,
            "kernels_ms": row.run_ms,
            "trace_ms": row.trace_ms,
        }

    for picture in gallery.PICTURES:
        yield picture.TITLE, partial(measure, picture)


SUITES = {"programs": of_programs, "cases": of_cases, "gallery": of_gallery}


def first_line(error: BaseException) -> str:
    """Say in a line what went wrong."""
    text = (str(error).strip() or "(no message)").splitlines()[0]
    return f"{type(error).__name__}: {text}"


def is_lost() -> bool:
    """Tell whether the device no longer does anything."""
    import lumijit as dr
    from lumijit.llvm import Float

    try:
        return float((dr.opaque(Float, 1, 64) + 1)[5]) != 2
    except Exception:
        return True


def tell(line: Line) -> None:
    """Print a line for the process that has started this one."""
    print(json.dumps(line), flush=True)


def main() -> int:
    """Measure a suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module")
    parser.add_argument("backend", choices=("cuda", "llvm", "emulated"))
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--shift", type=int, default=0, help="make sizes smaller")
    parser.add_argument("--seconds", type=float, default=60.0, help="start no more")
    options = parser.parse_args()
    end = time.perf_counter() + options.seconds
    with measuring(options.module, options.backend):
        for name, measure in SUITES[options.suite](options.shift):
            if time.perf_counter() > end:
                break
            try:
                tell({"name": name, **measure()})
            except Exception as error:
                tell({"name": name, "error": first_line(error)})
                if is_lost():
                    tell({"name": options.suite, "error": "the device is lost"})
                    return 1
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    sys.exit(main())
