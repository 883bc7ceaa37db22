"""Time and memory of reverse mode through loops, by the number of turns.

    python -m tests.benchmarks.loop_derivatives --plot docs/loop_derivatives.svg \\
        [--peer PYTHON]

Each point is a process of its own: best of three runs, and how much more memory the
process took at most than before (`ru_maxrss`). Three kinds of loops: one that sums up,
one whose state feeds itself, and that one inside of another loop. `PYTHON` is an
interpreter that has the peer.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SIZE = 1 << 14
TURNS = (10, 100, 1_000, 10_000)
KINDS = ("sum", "general", "nested")
_MIB = 1 << 20


def _program(dr: Any, types: Any, kind: str, turns: int) -> Any:
    """Return a function from an array to a result that a loop computes of it."""
    Float, UInt32 = types.Float, types.UInt32
    bound = {}
    if dr.__name__ == "drjit":
        # The peer needs a bound, or to know that the loop sums up.
        bound = {"max_iterations": -1 if kind == "sum" else turns}

    def loop(state: Any, body: Any, count: int) -> Any:
        return dr.while_loop(
            state, lambda *s: s[0] < count, body, **(bound if count == turns else {})
        )

    def total(x: Any) -> Any:
        def body(i: Any, acc: Any, x: Any) -> Any:
            return i + 1, acc + dr.sin(x * Float(i)), x

        return loop((UInt32(0), Float(0), x), body, turns)[1]

    def general(x: Any, count: int = turns) -> Any:
        def body(i: Any, y: Any, x: Any) -> Any:
            return i + 1, y * 0.5 + dr.sin(x * y), x

        return loop((UInt32(0), x + 1, x), body, count)[1]

    def nested(x: Any) -> Any:
        def body(i: Any, y: Any, x: Any) -> Any:
            return i + 1, general(y * x, 10), x

        return loop((UInt32(0), x + 1, x), body, turns // 10)[1]

    return {"sum": total, "general": general, "nested": nested}[kind]


def measure(module: str, kind: str, turns: int) -> dict[str, float]:
    """Differentiate a loop in this process; return seconds and bytes."""
    dr = importlib.import_module(module)
    types = importlib.import_module(f"{module}.llvm.ad")
    function = _program(dr, types, kind, turns)

    def run() -> float:
        x = dr.arange(types.Float, SIZE) * (1 / SIZE)
        dr.eval(x)
        dr.enable_grad(x)
        start = time.perf_counter()
        dr.backward(function(x))
        gradient = dr.grad(x)
        dr.eval(gradient)
        dr.sync_thread()
        return time.perf_counter() - start

    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = min(run() for _ in range(3))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "bytes": (peak - start) * 1024}


def collect(python: str, module: str) -> dict[str, dict[int, dict[str, float]]]:
    """Measure all points with an interpreter; those that fail are left out."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for kind in KINDS:
        for turns in TURNS:
            command = [python, __file__, "--point", module, kind, str(turns)]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=120, check=True
                )
            except (subprocess.SubprocessError, OSError):
                continue
            found.setdefault(kind, {})[turns] = json.loads(done.stdout)
    return found


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw seconds and memory against turns."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4))
    colors = dict(zip(KINDS, ("tab:blue", "tab:orange", "tab:green"), strict=True))
    for module, kinds in results.items():
        style = "-o" if module == "lumijit" else "--x"
        for kind, points in kinds.items():
            turns = sorted(points)
            label = f"{module}: {kind}"
            seconds = [points[n]["seconds"] for n in turns]
            peak = [max(points[n]["bytes"], _MIB) / _MIB for n in turns]
            axes[0].loglog(turns, seconds, style, color=colors[kind], label=label)
            axes[1].loglog(turns, peak, style, color=colors[kind], label=label)
    for axis, title in zip(axes, ("seconds", "memory besides, MiB"), strict=True):
        axis.set_xlabel("turns")
        axis.set_ylabel(title)
        axis.grid(True, alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.suptitle(f"Reverse mode of loops over {SIZE} elements")
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Measure one point, or all, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--point", nargs=3, metavar=("MODULE", "KIND", "TURNS"))
    parser.add_argument("--peer", help="an interpreter that has the peer")
    parser.add_argument("--plot", type=Path, default=Path("loop_derivatives.svg"))
    chosen = parser.parse_args()
    if chosen.point:
        module, kind, turns = chosen.point
        print(json.dumps(measure(module, kind, int(turns))))
        return
    results = {"lumijit": collect(sys.executable, "lumijit")}
    if chosen.peer:
        results["drjit"] = collect(chosen.peer, "drjit")
    print(f"{'':10}{'kind':10}{'turns':>8}{'ms':>10}{'MiB':>10}")
    for module, kinds in results.items():
        for kind, points in kinds.items():
            for turns, point in sorted(points.items()):
                milliseconds, mib = 1e3 * point["seconds"], point["bytes"] / _MIB
                row = f"{module:10}{kind:10}{turns:8}{milliseconds:10.1f}{mib:10.1f}"
                print(row)
    draw(results, chosen.plot)


if __name__ == "__main__":
    main()
