"""Functions as they are and recorded, in lumijit and in the peer (its `freeze`).

    python -m tests.benchmarks.recorded [--peer PYTHON]

Microseconds a call, the best of seven rounds, with the launches it makes; both systems
take turns. Each system runs in a process of its own. `PYTHON` is an interpreter that
has the peer.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROUNDS = 7
ROUND_S = 0.05
Program = tuple[Callable[..., Any], Callable[[], Sequence[Any]]]


def _programs(dr: Any, types: Any) -> dict[str, Program]:
    """Return functions, and what gives the arguments of their next call."""
    Float = types.Float
    size = 1 << 10
    t = dr.linspace(Float, 0, 1, size)
    y = dr.sin(t * 6) * 0.5 + 0.2
    x, z = dr.opaque(Float, 1, 64), dr.opaque(Float, 2, 64)
    start = [dr.opaque(Float, v) for v in (0.1, 5.0, 0.0)]
    dr.eval(t, y)

    def one_launch(a: Any, b: Any) -> Any:
        return a * 2 + b

    def long_trace(a: Any, b: Any) -> Any:
        for _ in range(100):
            a = dr.fma(a, b, dr.sin(a))
        return a

    def launches(a: Any, b: Any) -> Any:
        for _ in range(50):
            a = a * 0.5 + b
            dr.eval(a)
        return a

    def fitting_step(a: Any, b: Any, c: Any, t: Any, y: Any) -> Any:
        unknowns = [a, b, c]
        for p in unknowns:
            dr.enable_grad(p)
        error = a * dr.sin(t * b) + c - y
        dr.backward(dr.mean(error * error))
        return [dr.detach(p) - 1e-3 * dr.grad(p) for p in unknowns]

    def two() -> Sequence[Any]:
        return x, z

    def unknowns() -> Sequence[Any]:
        return (*[Float(dr.detach(p)) for p in start], t, y)

    return {
        "one launch": (one_launch, two),
        "200 operations": (long_trace, two),
        "50 launches": (launches, two),
        "fitting step": (fitting_step, unknowns),
    }


def _microseconds(dr: Any, call: Callable[..., Any]) -> float:
    """Return the time of a call with what it launches."""
    for _ in range(5):
        dr.eval(call())
    dr.sync_thread()
    start = time.perf_counter()
    dr.eval(call())
    dr.sync_thread()
    count = max(1, int(ROUND_S / (time.perf_counter() - start)))
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(count):
            dr.eval(call())
        dr.sync_thread()
        best = min(best, (time.perf_counter() - start) / count)
    return best * 1e6


def measure(module: str) -> dict[str, dict[str, float]]:
    """Measure all programs in this process, as they are and recorded."""
    dr = importlib.import_module(module)
    types = importlib.import_module(f"{module}.llvm.ad")
    record = dr.kernel if module == "lumijit" else dr.freeze
    found = {}
    for name, (function, arguments) in _programs(dr, types).items():
        recorded = record(function)
        found[name] = {
            "plain": _microseconds(dr, lambda f=function, a=arguments: f(*a())),
            "recorded": _microseconds(dr, lambda f=recorded, a=arguments: f(*a())),
        }
    return found


def _in_process(python: str, module: str) -> Any:
    text = subprocess.run(
        [python, str(Path(__file__).resolve()), "--measure", module],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return json.loads(text.splitlines()[-1])


def main(arguments: Sequence[str]) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="an interpreter that has the peer")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    systems = {"lumijit": sys.executable}
    if options.peer:
        systems["drjit"] = options.peer
    best: dict[str, Any] = {}
    for _ in range(2):
        for module, python in systems.items():
            for name, times in _in_process(python, module).items():
                row = best.setdefault(name, {})
                for kind, value in times.items():
                    key = f"{module} {kind}"
                    row[key] = min(value, row.get(key, value))
    columns = [f"{m} {k}" for m in systems for k in ("plain", "recorded")]
    print("| function | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name, row in best.items():
        print(f"| {name} | " + " | ".join(f"{row[c]:.1f}" for c in columns) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
