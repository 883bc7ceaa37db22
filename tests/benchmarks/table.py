"""Measures the benchmark cases: `python -m tests.benchmarks.table [--peer PYTHON]`.

Each case runs in processes of its own, with an empty home, alternating between the
libraries: ours, a peer with the same interface, another checkout of ours. Of several
rounds the best counts, since other programs on the machine can only slow a round
down. What the libraries compute is compared; a difference is an error.

Cases are declared in `programs`; one process is `measure`; tables are `report`.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks import report
from tests.benchmarks.declare import Case
from tests.benchmarks.programs import CASES

MEASURE = Path(__file__).with_name("measure.py")
#: A process that takes longer has failed.
TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Library:
    """A library under test: what reports call it, its module, its interpreter."""

    label: str
    module: str
    python: str
    environment: Mapping[str, str] = field(default_factory=dict)


class CaseError(Exception):
    """A case that failed, or whose results differ."""


def run_once(
    library: Library, case: Case, folder: Path, scale: float = 1.0, threads: int = 0
) -> tuple[report.Metrics, list[Any]]:
    """Measure a case once, in a process of its own; return also what it computed."""
    home = folder / library.label
    home.mkdir()
    environment = {**os.environ, **library.environment, "HOME": str(home)}
    for variable in ("XDG_CACHE_HOME", "LUMIJIT_CACHE_DIR"):
        environment.pop(variable, None)
    words = [library.module, case.setup.__module__, case.name]
    words += [str(folder), str(scale), str(threads)]
    try:
        done = subprocess.run(
            [library.python, str(MEASURE), *words],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        message = f"{case.name} took over {TIMEOUT_SECONDS} s with {library.label}"
        raise CaseError(message) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise CaseError(f"{case.name} failed with {library.label}: {last}")
    with np.load(folder / "result.npz") as arrays:
        results = [arrays[name] for name in arrays.files]
    metrics: report.Metrics = json.loads(done.stdout.splitlines()[-1])
    return metrics, results


def difference(case: Case, ours: Sequence[Any], other: Sequence[Any]) -> str:
    """Say how results differ by more than a case allows, or return nothing."""
    shapes, others = [a.shape for a in ours], [a.shape for a in other]
    if shapes != others:
        return f"shapes {shapes} and {others}"
    for k, (a, b) in enumerate(zip(ours, other, strict=True)):
        x, y = a.astype(np.float64), b.astype(np.float64)
        scale = np.abs(y[np.isfinite(y)]).max(initial=0.0)
        is_close = np.isclose(
            x, y, case.rtol, atol=case.rtol * min(scale, 1.0), equal_nan=True
        )
        strays = np.flatnonzero(~is_close)
        if len(strays) > case.strays * x.size:
            at = strays[0]
            return f"{len(strays)} of {x.size} entries of result {k}: {x[at]}, {y[at]}"
    return ""


def best(rounds: Iterable[report.Metrics]) -> report.Metrics:
    """Join rounds: the best of each metric, the median of medians."""
    found = list(rounds)
    return {
        key: (statistics.median if key.endswith("_median") else min)(
            [metrics[key] for metrics in found]
        )
        for key in found[0]
    }


def compare(
    case: Case,
    libraries: Sequence[Library],
    rounds: int,
    scale: float = 1.0,
    threads: int = 0,
) -> report.Row:
    """Measure a case with every library, alternating, and compare what they give."""
    found: dict[str, list[report.Metrics]] = {}
    errors: dict[str, str] = {}
    ours: list[Any] = []
    for turn in range(rounds):
        for library in libraries:
            if library.label in errors:
                continue
            try:
                with tempfile.TemporaryDirectory() as folder:
                    metrics, results = run_once(
                        library, case, Path(folder), scale, threads
                    )
            except CaseError as error:
                errors[library.label] = str(error)
                continue
            found.setdefault(library.label, []).append(metrics)
            if library is libraries[0]:
                ours = ours or results
            elif turn == 0 and ours and (gap := difference(case, ours, results)):
                errors[library.label] = (
                    f"{case.name} differs with {library.label}: {gap}"
                )
    return report.Row(case, {k: best(v) for k, v in found.items()}, errors)


def machine() -> str:
    """Name the processor and what it offers, as far as the system tells."""
    name, features = platform.processor(), ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            name = value.strip()
        if key.strip() == "flags":
            words = set(value.split())
            features = ", ".join(
                word
                for word in ("avx2", "fma", "bmi2", "avx512f", "avx512vl")
                if word in words
            )
    cores = len(os.sched_getaffinity(0))
    python = platform.python_version()
    return f"{name} ({features}), {cores} cores, Python {python}"


def chosen(patterns: Sequence[str], half: str | None) -> list[Case]:
    """Return the cases of a half whose name or group matches one of the patterns."""
    return [
        case
        for case in CASES.values()
        if half in (None, case.half)
        and (
            not patterns
            or any(
                fnmatch.fnmatch(word, p)
                for p in patterns
                for word in (case.name, case.group)
            )
        )
    ]


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="tests.benchmarks.table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--peer", metavar="PYTHON", help="the peer's interpreter")
    add("--peer-module", default="drjit", help="the peer's module")
    add("--old", metavar="PYTHON", help="interpreter of another checkout of ours")
    add("--python", default=sys.executable, help="ours")
    add("--cases", nargs="*", default=[], help="names or groups, * and ? allowed")
    add("--half", choices=("tune", "judge"), help="one half of the cases only")
    add("--rounds", type=int, default=3)
    add("--scale", type=float, default=1.0, help="factor of the cases' sizes")
    add("--threads", type=int, default=0, help="of each library; 0: one a core")
    add("--without", metavar="LIST", help="processor features that ours leaves unused")
    add("--by", choices=("run", "cpu"), default="run", help="clock of the summary")
    add("--json", type=Path, help="also write all metrics to a file")
    return parser.parse_args(arguments)


def libraries_of(options: argparse.Namespace) -> list[Library]:
    """Return the libraries that the command line names, ours first."""
    masked = {"LUMIJIT_CPU_WITHOUT": options.without} if options.without else {}
    libraries = [Library("ours", "lumijit", options.python, masked)]
    if options.peer:
        libraries.append(Library("peer", options.peer_module, options.peer))
    if options.old:
        libraries.append(Library("old", "lumijit", options.old, masked))
    return libraries


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables as they grow; return whether anything failed."""
    options = options_of(arguments)
    libraries = libraries_of(options)
    others = [library.label for library in libraries[1:]]
    heading = f"{machine()}; best of {options.rounds} rounds"
    if options.threads:
        heading += f"; threads: {options.threads}"
    if options.without:
        heading += f"; ours without {options.without}, the peer with all"
    print(f"{heading}.\n\n{report.head(others)}", flush=True)
    rows: list[report.Row] = []
    size = options.scale, options.threads
    for case in chosen(options.cases, options.half):
        row = compare(case, libraries, options.rounds, *size)
        rows.append(row)
        print(report.line(row, others), flush=True)
        if options.json:
            data = {row.case.name: asdict(row) | {"case": None} for row in rows}
            options.json.write_text(json.dumps({"machine": heading, "cases": data}))
    print(report.summary(rows, others, options.by))
    return int(any(row.errors for row in rows))


if __name__ == "__main__":
    sys.exit(main())
