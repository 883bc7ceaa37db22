"""How long `import lumijit` takes beside NumPy's own import.

Run `python -m tests.benchmarks.importing [PYTHON …]`, with the interpreters of virtual
environments (default: this one). Both are imported one after the other in a new
process, many times; printed are the shortest times and the median of the ratios.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

_PROGRAM = """
from time import perf_counter
start = perf_counter()
import numpy
middle = perf_counter()
import lumijit
print(middle - start, perf_counter() - middle)
"""
_RUNS = 25


def measure(python: str) -> tuple[float, float, float]:
    """Return milliseconds for NumPy, for lumijit after it, and their ratio."""
    command = [python, "-c", _PROGRAM]
    found: list[tuple[float, float]] = []
    for _ in range(_RUNS):
        text = subprocess.run(command, capture_output=True, text=True, check=True)
        numpy, ours = map(float, text.stdout.split())
        found.append((numpy, ours))
    ratio = statistics.median(ours / numpy for numpy, ours in found)
    return min(f[0] for f in found) * 1e3, min(f[1] for f in found) * 1e3, ratio


def main() -> None:
    """Print a line for each interpreter."""
    for python in sys.argv[1:] or [sys.executable]:
        numpy, ours, ratio = measure(python)
        print(
            f"numpy {numpy:.0f} ms, lumijit {ours:.0f} ms more: {ratio:.2f}  {python}"
        )


if __name__ == "__main__":
    main()
