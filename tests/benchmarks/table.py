"""Prints the benchmark table: `python -m tests.benchmarks.table [--peer PYTHON]`.

With a peer (the interpreter of an environment that has a library with the same
interface), every case runs with both, alternating, and the table shows the ratio.
Each measurement is a process of its own; the best of several rounds counts, since
other programs on the machine can only slow a round down (builds and starts, being
differences of two times, count with their median).

Rows are declared in `ROWS`; the measured programs are in `cases`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

CASES = Path(__file__).with_name("cases.py")
ROOT = CASES.parents[2]

PICTURES = ("quickstart", "sdf_sphere", "mandelbrot", "ambient_occlusion")


@dataclass(frozen=True)
class Row:
    """One line of the table: which number of which case, and how to get it.

    `home` says what the process finds on disk: "kept" is shared by the rounds,
    "empty" is fresh for every process, "filled" has been through the case before.
    `limit` is the issue's bound on our own number, in the row's unit.
    """

    group: str
    case: str
    metric: str
    unit: str
    home: str = "kept"
    is_better_when_higher: bool = False
    limit: float | None = None
    has_peer: bool = True

    def summary(self, values: Iterable[float]) -> float:
        """Return the best of the rounds, or the median of small differences."""
        if self.home != "kept":
            return statistics.median(values)
        return max(values) if self.is_better_when_higher else min(values)

    def ratio(self, ours: float, peers: float) -> float:
        """Return our time over the peer's: below 1 is faster."""
        return peers / ours if self.is_better_when_higher else ours / peers


KERNELS = (
    "mandelbrot",
    "transcend",
    "saxpy",
    "gather_random",
    "hist_scatter_add",
    "reduce_sum",
    "prefix_sum",
    "pcg_pi",
    "local_sort",
    "local_stack",
)

ROWS = (
    *(Row("Kernels", name, "ms", "ms") for name in KERNELS),
    *(Row("Pictures, run", f"run_{name}", "ms", "ms") for name in PICTURES),
    *(
        Row("Cold build", f"build_{name}", "ms", "ms", home="empty")
        for name in PICTURES
    ),
    *(
        Row("Warm start", f"build_{name}", "ms", "ms", home="filled", limit=5.0)
        for name in PICTURES
    ),
    *(
        Row("First kernel of a process", f"start_{name}", "ms", "ms", home="filled")
        for name in PICTURES
    ),
    Row("Calls", "switch_sin", "ms", "ms"),
    Row("Calls", "switch_sin", "cold_ms", "ms", home="empty"),
    Row("Calls", "instances_5", "build_ms", "ms", home="empty"),
    Row("Calls", "instances_1000", "build_ms", "ms", home="empty"),
    Row("Calls", "instances_5", "cold_ms", "ms", home="empty"),
    Row("Calls", "instances_1000", "cold_ms", "ms", home="empty"),
    Row(
        "Tracing",
        "trace_arith",
        "Mops_per_s",
        "M ops/s",
        is_better_when_higher=True,
        limit=0.8,
    ),
    Row("Tracing", "trace_arith", "turns", "turns"),
    *(
        Row("Tracing", name, "Mops_per_s", "M ops/s", is_better_when_higher=True)
        for name in ("trace_numbers", "trace_functions", "trace_again")
    ),
    Row("Tracing", "small_launch", "us", "µs", limit=30.0),
    Row("Tracing", "long_chain", "trace_s", "s", has_peer=False),
    Row("Tracing", "long_chain", "eval_s", "s", has_peer=False),
    Row("Start", "import_library", "ms", "ms"),
    Row("Memory", "fused_memory", "outputs", "outputs", limit=1.1),
)


@dataclass(frozen=True)
class Library:
    """A library under test: its module's name and the interpreter that has it."""

    module: str
    python: str


class Runner:
    """Runs cases in processes of their own and remembers what they found."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.fresh_homes = 0

    def home(self, library: Library, row: Row) -> Path:
        """Return the home folder that a row's process gets."""
        if row.home == "empty":
            self.fresh_homes += 1
            path = self.scratch / f"fresh{self.fresh_homes}"
        else:
            path = self.scratch / f"{library.module}-{row.home}"
        path.mkdir(exist_ok=True)
        return path

    def process(self, library: Library, row: Row, home: Path) -> dict[str, float]:
        """Run one case in a fresh process and return its metrics."""
        environment = {**os.environ, "HOME": str(home)}
        for variable in ("XDG_CACHE_HOME", "LUMIJIT_CACHE_DIR"):
            environment.pop(variable, None)
        finished = subprocess.run(
            [library.python, str(CASES), library.module, row.case],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        if finished.returncode:
            raise RuntimeError(
                f"{row.case} failed with {library.module}:\n{finished.stderr}"
            )
        metrics: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
        return metrics

    def measure(self, library: Library, row: Row) -> float:
        """Measure one row once."""
        home = self.home(library, row)
        value = self.process(library, row, home)[row.metric]
        if row.home == "empty":
            shutil.rmtree(home)
        return value

    def compare(
        self, row: Row, libraries: Sequence[Library], rounds: int
    ) -> list[float]:
        """Measure a row with every library, alternating; return the best of each."""
        if not row.has_peer:
            libraries = libraries[:1]
        if row.home == "filled":
            for library in libraries:
                self.measure(library, row)
        found: list[list[float]] = [[] for _ in libraries]
        for _ in range(rounds):
            for values, library in zip(found, libraries, strict=True):
                values.append(self.measure(library, row))
        return [row.summary(values) for values in found]


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(math.log(v) for v in values) / len(values))


def format_row(row: Row, values: Sequence[float]) -> str:
    """Write one line of the Markdown table."""
    ours = f"{values[0]:.3g} {row.unit}"
    peers = f"{values[1]:.3g} {row.unit}" if len(values) > 1 else ""
    ratio = f"{row.ratio(values[0], values[1]):.2f}" if len(values) > 1 else ""
    bound = ""
    if row.limit is not None:
        sign = "≥" if row.is_better_when_higher else "≤"
        bound = f"{sign} {row.limit:g} {row.unit}"
    name = row.case if row.metric in ("ms", "us") else f"{row.case} ({row.metric})"
    return f"| {row.group} | `{name}` | {ours} | {peers} | {ratio} | {bound} |"


def describe_machine() -> str:
    """Name the processor, as far as the system tells."""
    names = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    processor = names[0] if names else platform.processor()
    return f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}"


def print_table(
    rows: Sequence[Row], libraries: Sequence[Library], rounds: int
) -> dict[str, list[float]]:
    """Measure the rows, print the table as it grows, return the ratios by group."""
    print(f"{describe_machine()}; best of {rounds} rounds.\n")
    print("| group | case | ours | peer | ratio | bound |")
    print("|---|---|---|---|---|---|")
    ratios: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        runner = Runner(Path(scratch))
        for row in rows:
            values = runner.compare(row, libraries, rounds)
            print(format_row(row, values), flush=True)
            if len(values) > 1:
                ratios.setdefault(row.group, []).append(row.ratio(*values))
    return ratios


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and print the table and the means of its groups."""
    parser = argparse.ArgumentParser(
        prog="tests.benchmarks.table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--peer", metavar="PYTHON", help="the peer's interpreter")
    parser.add_argument("--peer-module", default="drjit", help="the peer's module")
    parser.add_argument("--module", default="lumijit", help="the module under test")
    parser.add_argument("--python", default=sys.executable, help="its interpreter")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--only", nargs="*", default=[], help="groups or cases to measure"
    )
    options = parser.parse_args(arguments)
    libraries = [Library(options.module, options.python)]
    if options.peer:
        libraries.append(Library(options.peer_module, options.peer))
    wanted = options.only
    rows = [r for r in ROWS if not wanted or r.group in wanted or r.case in wanted]
    ratios = print_table(rows, libraries, options.rounds)
    if ratios:
        print("\n| group | geometric mean of the ratios | worst |")
        print("|---|---|---|")
        for group, values in ratios.items():
            print(f"| {group} | {geometric_mean(values):.2f} | {max(values):.2f} |")


if __name__ == "__main__":
    main()
