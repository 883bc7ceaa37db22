"""Loops and calls of growing size, as in figure 17 of the Dr.Jit paper, with its plot.

`python -m tests.benchmarks.figure17 [--peer PYTHON] [--plot FILE]` measures

- `unrolled`, `traced`: x = (x + 1) ^ x on 32-bit integers, repeated by Python's `for`
  and by a traced `while`;
- `distinct`, `modulo 5`: calls of f_1 … f_n, power series of the sine with ever more
  terms, all different or five of them.

A point is a process with an empty home. It prints what the first call took (tracing,
building and running) and a later one. The plot needs the extra `plot`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LOOPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
CALLS = (1, 2, 5, 10, 20, 50, 100)
PANELS: dict[str, tuple[int, ...]] = {
    "unrolled": LOOPS,
    "traced": LOOPS,
    "distinct": CALLS,
    "modulo 5": CALLS,
}
LOOP_SIZE = 1 << 22
CALL_SIZE = 1 << 20


def program(module: str, panel: str, count: int) -> Callable[[], Any]:
    """Return the program of one point."""
    dr = importlib.import_module(module)
    llvm = importlib.import_module(f"{module}.llvm")
    if panel in ("unrolled", "traced"):
        x = dr.arange(llvm.UInt32, LOOP_SIZE)
        dr.eval(x)
        run = unrolled if panel == "unrolled" else dr.syntax(traced)
        return lambda: dr.eval(run(llvm, x, count))
    functions = [series(k % 5 if panel == "modulo 5" else k) for k in range(count)]
    index = dr.arange(llvm.UInt32, CALL_SIZE) // (CALL_SIZE // count + 1)
    x = dr.arange(llvm.Float, CALL_SIZE) * 1e-6
    dr.eval(index, x)
    return lambda: dr.eval(dr.switch(index, functions, x))


def unrolled(llvm: Any, x: Any, count: int) -> Any:
    """Repeat in Python."""
    for _ in range(count):
        x = (x + 1) ^ x
    return x


def traced(llvm: Any, x: Any, count: int) -> Any:
    """Repeat in the kernel."""
    i = llvm.UInt32(0)
    while i < count:
        x = (x + 1) ^ x
        i += 1
    return x


def series(k: int) -> Callable[[Any], Any]:
    """Return the sine's power series with `k` terms beyond the first."""

    def function(x: Any) -> Any:
        result = term = x
        for j in range(1, k + 1):
            term = term * x * x * (-1.0 / ((2 * j) * (2 * j + 1)))
            result = result + term
        return result

    return function


def point(module: str, panel: str, count: int) -> dict[str, float]:
    """Measure one point in this process."""
    dr = importlib.import_module(module)
    run = program(module, panel, count)
    dr.sync_thread()
    times = []
    for _ in range(6):
        start = time.perf_counter()
        run()
        dr.sync_thread()
        times.append(time.perf_counter() - start)
    return {"first_ms": times[0] * 1e3, "later_ms": min(times[1:]) * 1e3}


def measure(
    python: str, module: str, panel: str, count: int, rounds: int
) -> dict[str, float]:
    """Measure one point in processes of its own; the fastest of the rounds counts."""
    found: list[dict[str, float]] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as home:
            environment = {**os.environ, "HOME": home}
            environment.pop("LUMIJIT_CACHE_DIR", None)
            finished = subprocess.run(
                [python, __file__, "--point", module, panel, str(count)],
                capture_output=True,
                text=True,
                env=environment,
                check=True,
            )
        found.append(json.loads(finished.stdout.splitlines()[-1]))
    return {key: min(entry[key] for entry in found) for key in found[0]}


Results = dict[str, dict[str, list[dict[str, float]]]]


def collect(libraries: Sequence[tuple[str, str]], rounds: int) -> Results:
    """Measure all points, printing a line for each."""
    results: Results = {}
    names = [module for module, _ in libraries]
    print(
        "| program | count | " + " | ".join(f"{n}: first, later" for n in names) + " |"
    )
    print("|---|---|" + "---|" * len(names))
    for panel, counts in PANELS.items():
        results[panel] = {name: [] for name in names}
        for count in counts:
            cells = []
            for module, python in libraries:
                entry = measure(python, module, panel, count, rounds)
                results[panel][module].append(entry)
                cells.append(f"{entry['first_ms']:.1f}, {entry['later_ms']:.2f} ms")
            print(f"| {panel} | {count} | {' | '.join(cells)} |", flush=True)
    return results


def plot(results: Results, path: Path) -> None:
    """Draw the four panels: first calls drawn through, later ones dashed."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 4, figsize=(13, 3.4), sharey=True)
    colours = {"lumijit": "tab:orange", "drjit": "tab:blue"}
    labels = {"lumijit": "lumijit", "drjit": "Dr.Jit"}
    for axis, (panel, series_) in zip(axes, results.items(), strict=True):
        for module, entries in series_.items():
            counts = PANELS[panel][: len(entries)]
            for key, style in (("first_ms", "-o"), ("later_ms", "--")):
                kind = "first call" if key == "first_ms" else "later"
                axis.plot(
                    counts,
                    [entry[key] for entry in entries],
                    style,
                    markersize=3,
                    color=colours.get(module),
                    label=f"{labels.get(module, module)}, {kind}",
                )
        axis.set_xscale("log")
        axis.set_yscale("log")
        kind = "loop" if panel in ("unrolled", "traced") else "calls"
        axis.set_title(f"{kind}, {panel}")
        axis.set_xlabel("iterations" if kind == "loop" else "functions")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("ms")
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line; measure one point, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--point", nargs=3, metavar=("MODULE", "PANEL", "COUNT"))
    parser.add_argument("--peer", metavar="PYTHON", help="the peer's interpreter")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--plot", type=Path, help="where to write the picture")
    options = parser.parse_args(arguments)
    if options.point:
        module, panel, count = options.point
        print(json.dumps(point(module, panel, int(count))))
        return
    libraries = [("lumijit", sys.executable)]
    if options.peer:
        libraries.append(("drjit", options.peer))
    results = collect(libraries, options.rounds)
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
