"""Measures small programs one by one, beside the peer's time.

Each system runs in a process of its own: the file that calls `compare` is run by
the peer's interpreter, too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

MEASURED_S = 0.15
ROOT = Path(__file__).resolve().parents[2]

#: Yields what is measured with a library, by name.
Programs = Callable[[str], Iterator[tuple[str, Callable[[], Any]]]]


def _measure(programs: Programs, module: str, round_of: int, only: str) -> Any:
    found = {}
    for text, call in programs(module):
        if only not in text:
            continue
        call()
        best, end = float("inf"), time.perf_counter() + MEASURED_S
        while time.perf_counter() < end:
            # What a call makes lives to the end of the round.
            kept = []
            start = time.perf_counter()
            for _ in range(round_of):
                kept.append(call())
            best = min(best, time.perf_counter() - start)
        found[text] = best / round_of * 1e6
    return found


def _in_process(python: str, file: str, module: str, only: str) -> dict[str, float]:
    name = f"tests.benchmarks.{Path(file).stem}"
    command = [python, "-m", name, "--measure", module, "--only", only]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(
    described: str | None,
    file: str,
    programs: Programs,
    arguments: Sequence[str],
    *,
    round_of: int,
) -> None:
    """Print a table of what `programs` yields in `file`, the worst ratio first."""
    parser = argparse.ArgumentParser(
        description=described, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", help="an interpreter that has the peer")
    parser.add_argument("--above", type=float, default=0.0, help="the lowest ratio")
    parser.add_argument("--only", default="", help="programs whose name has this")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(_measure(programs, options.measure, round_of, options.only)))
        return
    mine = _in_process(sys.executable, file, "lumijit", options.only)
    peer = (
        _in_process(options.peer, file, "drjit", options.only)
        if options.peer
        else dict(mine)
    )
    rows = sorted(((mine[text] / peer[text], text) for text in mine), reverse=True)
    print("| ratio | µs | peer | program |\n|---|---|---|---|")
    for ratio, text in rows:
        if ratio >= options.above:
            print(f"| {ratio:.1f} | {mine[text]:.2f} | {peer[text]:.2f} | `{text}` |")
    print(f"geometric mean {geometric_mean(ratio for ratio, _ in rows):.2f}")
