"""Measures what a GPU does: `python -m tests.benchmarks.gpu [--peer PYTHON]`.

Prints a line for each figure as soon as it is there: with its bound, and whether that
is met. `--peer` is an interpreter that has Dr.Jit, `--seconds` ends it (60), `--out`
writes all figures as JSON; `--only` names parts. `--emulated` shows, without a GPU,
that everything runs, on sizes that mean nothing.

Each part runs in a process of its own, with an empty home, so that one that fails,
hangs, or loses the device leaves the others alone: `gpu_parts` compares with a plain
copy and with kernels by hand, `gpu_times` measures programs by any library. The status
is 1 if there is no GPU or a part has failed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
#: In order of importance.
ALL = (
    *("copy", "saxpy", "sum", "prefix_sum", "mandelbrot", "bins", "launches"),
    *("replay", "building", "gallery", "peer", "collectives", "cases"),
)
#: How long a part may take, in seconds.
PART_S = 20.0
#: A picture is to be so much faster than on the CPU, and a program than the peer's.
GALLERY_BOUND, PEER_BOUND = 10.0, 1.0

Figure = dict[str, Any]


def shown(figure: Figure) -> str:
    """Return the line of a figure."""
    name = f"{figure['name']:36}"
    if "error" in figure:
        return f"{name} ERROR  {figure['error']}"
    if "value" not in figure:
        return f"{name} {figure['note']}"
    text = f"{name} {figure['value']:10.2f} {figure['unit']:13}"
    bound = figure.get("bound")
    if bound is not None:
        is_least = figure.get("is_least", False)
        sign = ">=" if is_least else "<="
        text += f" {sign} {bound:<5g} {'met' if is_met(figure) else 'MISSED':6}"
    else:
        text += " " * 16
    return f"{text}  {figure.get('note', '')}".rstrip()


def is_met(figure: Figure) -> bool:
    """Tell whether a figure keeps its bound."""
    value, bound = figure["value"], figure["bound"]
    return bool(value >= bound if figure.get("is_least") else value <= bound)


class Run:
    """What has been found so far, and how long there is."""

    def __init__(self, options: argparse.Namespace, home: str) -> None:
        self.options = options
        self.figures: list[Figure] = []
        self.end = time.monotonic() + options.seconds
        self._home = home

    @property
    def left_s(self) -> float:
        """How many seconds are left."""
        return self.end - time.monotonic()

    def tell(self, figure: Figure) -> None:
        """Print a figure and keep it."""
        self.figures.append(figure)
        print(shown(figure), flush=True)
        if self.options.out:
            self.options.out.write_text(json.dumps(self.figures, indent=1))

    def lines(
        self, python: str, words: Sequence[str], limit_s: float = PART_S
    ) -> Iterator[Figure]:
        """Return what a process prints, line by line; at the end, how it failed."""
        limit_s = min(limit_s, self.left_s)
        if limit_s < 1:
            yield {"name": words[-1], "error": "no time is left"}
            return
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                [python, "-m", *words],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env=self._environment(),
            )
            late = threading.Event()

            def stop() -> None:
                late.set()
                process.kill()

            timer = threading.Timer(limit_s, stop)
            timer.start()
            has_failed = False
            try:
                assert process.stdout is not None
                for text in process.stdout:
                    # (Libraries print, too.)
                    if text.startswith("{"):
                        found = json.loads(text)
                        has_failed |= "error" in found or "missing" in found
                        yield found
                status = process.wait()
            finally:
                timer.cancel()
                process.kill()
                process.communicate()
            if status and not has_failed:
                errors.seek(0)
                last = (errors.read().strip().splitlines() or [f"status {status}"])[-1]
                why = f"took over {limit_s:.0f} s: stopped" if late.is_set() else last
                yield {"name": " ".join(words[1:]), "error": why}

    def _environment(self) -> dict[str, str]:
        found = {**os.environ, "HOME": self._home, "PYTHONUNBUFFERED": "1"}
        # Packages of the user are where they were.
        found.setdefault("PYTHONUSERBASE", str(Path.home() / ".local"))
        for variable in ("XDG_CACHE_HOME", "LUMIJIT_CACHE_DIR"):
            found.pop(variable, None)
        return found

    def part(self, name: str) -> bool:
        """Print what a part finds; return False if there is no GPU."""
        words = ["tests.benchmarks.gpu_parts", name]
        words += ["--emulated"] * self.options.emulated
        for found in self.lines(sys.executable, words):
            if "missing" in found:
                print(found["missing"])
                return False
            self.tell(found)
        return True

    def times(
        self, module: str, backend: str, suite: str, limit_s: float = PART_S
    ) -> Iterator[Figure]:
        """Return what a suite's programs take by a library."""
        python = sys.executable if module == "lumijit" else self.options.peer
        words = ["tests.benchmarks.gpu_times", module, backend, suite]
        # (Who is late is stopped: so no program is begun near the end.)
        words += ["--seconds", f"{min(limit_s, self.left_s) * 0.8:.1f}"]
        if self.options.emulated:
            words += ["--shift", "8"]
        return self.lines(python, words, limit_s)

    @property
    def ours(self) -> str:
        """The backend that is measured."""
        return "emulated" if self.options.emulated else "cuda"

    def gallery(self) -> None:
        """Compare pictures with those by the CPU."""
        on_gpu = self.kept(
            "gallery", "GPU", self.times("lumijit", self.ours, "gallery")
        )
        for host in self.times("lumijit", "llvm", "gallery"):
            found = on_gpu.get(host["name"])
            if "error" in host or found is None:
                self.tell({**host, "name": f"gallery, CPU: {host['name']}"})
                continue
            kernels = host["kernels_ms"] / max(found["kernels_ms"], 1e-6)
            note = (
                f"{found['seconds'] * 1e3:.2f} ms ({found['trace_ms']:.2f} of tracing, "
                f"{found['kernels_ms']:.3f} of kernels), CPU "
                f"{host['seconds'] * 1e3:.2f} ms; kernels alone {kernels:.1f} times"
                + difference(found, host, 1e-2)
            )
            self.tell(
                {
                    "name": f"gallery: {host['name']}",
                    "value": host["seconds"] / found["seconds"],
                    "unit": "times faster",
                    "bound": GALLERY_BOUND,
                    "is_least": True,
                    "note": note,
                }
            )

    def kept(
        self, suite: str, where: str, found: Iterator[Figure]
    ) -> dict[str, Figure]:
        """Return measured programs by name; tell of those that failed."""
        kept: dict[str, Figure] = {}
        for line in found:
            if "error" in line:
                self.tell({**line, "name": f"{suite}, {where}: {line['name']}"})
            else:
                kept[line["name"]] = line
        return kept

    def peer(self, suite: str, limit_s: float) -> bool:
        """Compare a suite with the peer; return whether that can be started."""
        backend = self.options.peer_backend
        theirs: dict[str, Figure] = {}
        errors = []
        for line in self.times("drjit", backend, suite, limit_s):
            if "error" in line:
                errors.append(line)
            else:
                theirs[line["name"]] = line
        if not theirs:
            why = errors[0]["error"] if errors else "it printed nothing"
            note = f"can't be compared with {backend}: {why}"
            self.tell({"name": f"peer, {suite}", "note": note})
            return False
        for line in errors:
            self.tell({**line, "name": f"peer: {line['name']}"})
        ratios = []
        for found in self.times("lumijit", self.ours, suite, limit_s):
            other = theirs.get(found["name"])
            if "error" in found:
                self.tell({**found, "name": f"{suite}, ours: {found['name']}"})
            elif other is not None:
                ratios.append(found["seconds"] / other["seconds"])
                note = f"{found['seconds'] * 1e6:.1f} µs, "
                note += f"peer {other['seconds'] * 1e6:.1f} µs"
                note += difference(found, other, 2e-2)
                prefix = "case " * (suite == "cases")
                name = f"{prefix}{found['name']} / peer"
                self.tell(ratio_of(name, ratios[-1], note))
        if not ratios:
            return True
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        note = f"geometric mean of {len(ratios)}"
        self.tell(ratio_of(f"{suite} / peer", mean, note))
        return True


def ratio_of(name: str, ratio: float, note: str) -> Figure:
    """Return the figure of a ratio to the peer's time."""
    found = {"name": name, "value": ratio, "unit": "times"}
    return {**found, "bound": PEER_BOUND, "note": note}


def difference(found: Figure, other: Figure, rtol: float) -> str:
    """Say how many entries of two results differ by more than a part, if any do.

    Entries of a few pixels may: a rounding decides where a loop ends.
    """
    ours, theirs = found["samples"], other["samples"]
    if [len(a) for a in ours] != [len(b) for b in theirs]:
        return "; RESULTS of other shapes"
    count = sum(
        int(np.sum(~np.isclose(a, b, rtol, rtol, equal_nan=True)))
        for a, b in (
            (np.asarray(x, np.float64), np.asarray(y, np.float64))
            for x, y in zip(ours, theirs, strict=True)
        )
    )
    total = sum(map(len, ours))
    return f"; {count} of {total} entries DIFFER" if count else ""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="tests.benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--peer", metavar="PYTHON", help="an interpreter that has Dr.Jit")
    add("--peer-backend", default="cuda", help="its backend (default: cuda)")
    add("--seconds", type=float, default=60.0, help="end after this time")
    add("--out", type=Path, help="also write the figures to a file, as JSON")
    add("--only", nargs="*", choices=ALL, default=ALL, help="these parts alone")
    add("--emulated", action="store_true", help="stand in for a GPU, tiny sizes")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; return the status."""
    options = parse(arguments)
    with tempfile.TemporaryDirectory() as home:
        run = Run(options, home)
        for part in ALL:
            if part not in options.only:
                continue
            if part == "gallery":
                run.gallery()
            elif part in ("peer", "cases"):
                if options.peer and run.left_s > 1:
                    suite = "programs" if part == "peer" else "cases"
                    limit_s = min(PART_S, run.left_s) if part == "peer" else run.left_s
                    if not run.peer(suite, limit_s / 2):
                        options.peer = None
            elif not run.part(part):
                return 1
    return int(any("error" in figure for figure in run.figures))


if __name__ == "__main__":
    sys.exit(main())
