"""Prints the accuracy of the math functions as Markdown: `docs/accuracy.md`.

Run as `python -m tests.benchmarks.accuracy > docs/accuracy.md`; with `--only PATTERN`,
only lines of functions whose names match are printed. Each figure stands beside the one
that the peer (Dr.Jit) documents for the same domain.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from lumijit.runtime.dtypes import FLOAT32, FLOAT64, DType

from ..compiler.mathlib_accuracy import ACCURACY, Documented, Measured, Row, measure
from ..dsl.functions.elliptic_accuracy import ELLIPTIC, EllipticRow, measure_elliptic

SAMPLES = {FLOAT32: 1 << 22, FLOAT64: 20000}
ELLIPTIC_SAMPLES = 4096
TITLES = {FLOAT32: "Single precision", FLOAT64: "Double precision"}
INTRODUCTION = """\
# Accuracy of the math functions

Printed by `python -m tests.benchmarks.accuracy`. Arguments are drawn uniformly
from the domain ({f32:,} in single, {f64:,} in double precision). The reference is
double precision for singles and mpmath with 40 digits for doubles. Elliptic integrals
are compared with mpmath at {elliptic:,} points.

All columns but the last measure the distance to the *correctly rounded* value, as
the documentation of Dr.Jit does, whose figures stand in brackets where it has any;
"max exact" is the largest distance to the exact value, of which 0.5 ulp is
unavoidable.

`sin`, `cos`, `tan` and `cot` are meant for |x| < 8192 and stay as good up to about
10^5 in single and 10^8 in double precision; beyond they degrade, but sine and
cosine stay within [-1, 1]. `power` is within 1.05 ulp everywhere (exponents -7/2
to 7/2 in steps of 1, given as numbers, are products of a square root: within 3.5 ulp,
1/2 within 0.5), `atan2` within 2.5 ulp; signed zeros, denormals, infinities and NaN
are as in C's libm.

"""
HEADER = """\
| function | domain | abs mean | abs max | rel mean | rel max | ulp mean | ulp max \
| max exact |
|---|---|---|---|---|---|---|---|---|
"""


def _figure(ours: float, theirs: float | None, digits: str) -> str:
    if theirs is None:
        return format(ours, digits)
    return f"{ours:{digits}} ({theirs:.2g})"


def _cells(measured: Measured, documented: Documented | None) -> Iterator[str]:
    for name, digits in (("abs", ".1e"), ("rel", ".1e"), ("ulp", ".2g")):
        ours = getattr(measured, name)
        theirs = getattr(documented, name) if documented else (None, None)
        for i in range(2):
            yield _figure(ours[i], theirs[i], digits)


def table_row(row: Row) -> str:
    """Measure one row and return its line of the table."""
    measured = measure(row, SAMPLES[row.t])
    cells = " | ".join(_cells(measured, row.documented))
    domain = f"{row.low:g} < x < {row.high:g}"
    return f"| `{row.name}` | {domain} | {cells} | {measured.exact_ulp:.2f} |"


def elliptic_row(row: EllipticRow) -> str:
    """Measure one elliptic integral and return its line of the table."""
    cells = " | ".join(
        _cells(measured := measure_elliptic(row, ELLIPTIC_SAMPLES), None)
    )
    domain = ", ".join(f"{low:g} < {x} < {high:g}" for x, (low, high) in row.domain)
    return f"| `{row.name}` | {domain} | {cells} | {measured.exact_ulp:.2f} |"


def lines(t: DType, only: str) -> Iterator[str]:
    """Measure the functions in one precision and return their lines."""
    for row in ACCURACY:
        if row.t is t and re.search(only, row.name):
            yield table_row(row)
    for elliptic in ELLIPTIC:
        if elliptic.t is t and re.search(only, elliptic.name):
            yield elliptic_row(elliptic)


def main() -> None:
    """Print the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", default="")
    only = parser.parse_args().only
    counts = {"f32": SAMPLES[FLOAT32], "f64": SAMPLES[FLOAT64]}
    if not only:
        print(INTRODUCTION.format(**counts, elliptic=ELLIPTIC_SAMPLES), end="")
    for i, (t, title) in enumerate(TITLES.items()):
        print("\n" * (i > 0) + f"## {title}\n\n{HEADER}", end="")
        for line in lines(t, only):
            print(line, flush=True)


if __name__ == "__main__":
    main()
