"""Runs random programs: `python -m tests.fuzz --count 1000 --pattern local,apart`.

Batches run in processes of their own, so that a program that ends the process is
reported like any other failure. Each failure is printed as its smallest program, with
the command that repeats it. The status is 1 if there was any.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from lumijit.compiler.launch import kernels
from tests.fuzz.check import MODES, Refused, check, modes_of
from tests.fuzz.shrink import shrink
from tests.fuzz.writer import PATTERNS, Program, Writer

BATCH = 200


def draw(seed: int, number: int, patterns: Sequence[str]) -> Program:
    """Return a program of a seed, with some of the patterns."""
    chooser = random.Random(f"{seed} {number}")
    count = chooser.randint(1, len(patterns))
    return Writer(f"{seed}/{number}", chooser.sample(patterns, count)).program()


def failure(program: Program, mode: str) -> Exception | None:
    """Return what goes wrong with a program in a mode."""
    try:
        check(program, mode)
    except Refused:
        return None
    except Exception as error:
        return error
    return None


def report(program: Program, mode: str, error: Exception) -> str:
    """Write a failing program down, made small."""
    kind = type(error)
    small = shrink(program, lambda p: type(failure(p, mode)) is kind)
    data = {k: v for k, v in small.columns.items() if k != "zero"}
    return (
        f"{mode}: {kind.__name__}: {failure(small, mode)}\n"
        f"columns {data}, table {small.table}, {small.objects} objects, "
        f"patterns {sorted(small.patterns)}\n{small.text()}"
    )


def chosen(modes: list[str], number: int, is_all: bool) -> list[str]:
    """Return the first mode and one of the others in turn, or all."""
    if is_all or len(modes) < 3:
        return modes
    return [modes[0], modes[1 + number % (len(modes) - 1)]]


def run_batch(options: argparse.Namespace) -> int:
    """Run programs in this process, noting each before it starts."""
    failures = 0
    refusals: collections.Counter[str] = collections.Counter()
    for number in range(options.first, options.first + options.count):
        program = draw(options.seed, number, options.pattern)
        for mode in chosen(modes_of(program, options.modes), number, options.all_modes):
            if options.note:
                options.note.write_text(f"{number} {mode}")
            try:
                check(program, mode)
            except Refused as refusal:
                refusals[str(refusal).split(": ", 1)[-1][:60]] += 1
            except Exception as error:
                failures += 1
                again = f"--seed {options.seed} --first {number} --count 1"
                small = report(program, mode, error)
                print(f"program {number} ({again}), {small}", flush=True)
    for text, count in refusals.most_common():
        print(f"refused {count} times: {text}", flush=True)
    return failures


def run_all(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run batches in processes of their own, and go on after those that ended."""
    failures, number, end = 0, options.first, options.first + options.count
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "note"
        while number < end and failures < options.failures:
            count = min(BATCH, end - number)
            words = ["--first", str(number), "--count", str(count), "--note", str(note)]
            command = [sys.executable, "-m", "tests.fuzz", *arguments, *words]
            status = subprocess.run(command, check=False).returncode
            if status in (0, 1):
                failures += status
                number += count
                continue
            at, mode = note.read_text().split()
            print(f"program {at}, {mode}: the process ended with status {status}")
            failures += 1
            number = int(at) + 1
    return failures


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    words = parser.add_argument
    words("--count", type=int, default=1000)
    words("--seed", type=int, default=0)
    words("--first", type=int, default=0, help="number of the first program")
    words("--pattern", default=",".join(PATTERNS), help="some of the default")
    words("--modes", default=",".join(MODES))
    words("--target", choices=("packet", "thread"), help="how kernels are written")
    words("--all-modes", action="store_true", help="not only the first and another")
    words("--failures", type=int, default=10, help="batches with failures to go on for")
    words("--note", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.pattern = tuple(options.pattern.split(","))
    options.modes = tuple(options.modes.split(","))
    return options


def main(arguments: Sequence[str]) -> int:
    """Run programs here, or, if there are many, in batches; return the status."""
    os.environ.setdefault("LUMIJIT_NO_DISK_CACHE", "1")
    options = options_of(arguments)
    if options.target:
        kernels.use(kernels.target_named(options.target))
    if options.note or options.count == 1:
        return int(run_batch(options) > 0)
    start = time.perf_counter()
    failures = run_all(options, arguments)
    seconds = time.perf_counter() - start
    print(
        f"{options.count} programs, {failures} batches with failures, {seconds:.0f} s"
    )
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
