"""Differentiates random programs in both modes, and compares with differences.

`python -m tests.fuzz.derivatives --count 1000` prints programs that disagree.
"""

from __future__ import annotations

import argparse
import linecache
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import lumijit as dr
import lumijit.llvm.ad as t
from tests.fuzz.smooth import NAMES, Writer

EPS = 1e-6
FLAGS = (
    dr.JitFlag.SymbolicLoops,
    dr.JitFlag.SymbolicConditionals,
    dr.JitFlag.SymbolicCalls,
)
INPUTS = (*NAMES, "w", "table")
Arrays = list[np.ndarray[Any, Any]]
_count = 0


class Mismatch(Exception):
    """Derivatives that differ."""


def compiled(text: str, syntax: Any) -> Callable[..., Any]:
    """Return the function that a text defines."""
    global _count
    _count += 1
    name = f"<smooth {_count}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {"syntax": syntax}
    exec(compile(text, name, "exec"), scope)
    function: Callable[..., Any] = scope["program"]
    return function


class Check:
    """A program with its data, and directions for its derivatives."""

    def __init__(self, writer: Writer) -> None:
        self.text = writer.text()
        floats, self._whole = writer.data()
        self.inputs = [np.array(floats[name]) for name in INPUTS]
        self._program = compiled(self.text, dr.syntax)
        rng = np.random.default_rng(len(self.text))
        self._along = [rng.uniform(-1, 1, v.shape) for v in self.inputs]
        lanes = len(self.inputs[0])
        self._weights = [rng.uniform(0.5, 1, lanes) for _ in NAMES]

    def _run(self, *inputs: Any) -> Any:
        results = self._program(dr, t, *inputs, t.Int(self._whole))
        return sum(
            dr.sum(r * t.Float64(w))
            for r, w in zip(results, self._weights, strict=True)
        )

    def _moved(self, step: float) -> float:
        pairs = zip(self.inputs, self._along, strict=True)
        return float(self._run(*(t.Float64(v + step * d) for v, d in pairs))[0])

    def differences(self) -> list[float]:
        """Return the differences to both sides, in the middle and of half the step."""
        low, middle, high = (self._moved(s) for s in (-EPS, 0.0, EPS))
        return [(middle - low) / EPS, (high - low) / (2 * EPS), (high - middle) / EPS]

    def compare(self, is_symbolic: bool) -> bool:
        """Compare in one mode; return whether there is no kink."""
        sides = self.differences()
        scale = 1 + max(map(abs, sides))
        if abs(sides[2] - sides[0]) > 1e-4 * scale:
            return False
        with dr.scoped_set_flag(FLAGS[0] | FLAGS[1] | FLAGS[2], is_symbolic):
            arrays = [t.Float64(v) for v in self.inputs]
            tangents = [t.Float64(d) for d in self._along]
            forward = float(dr.jvp(self._run, arrays, tangents)[1][0])
            pulled = dr.vjp(self._run, *arrays)[1](1)
        pairs = zip(pulled, self._along, strict=True)
        reverse = float(sum(np.dot(p.numpy(), d) for p, d in pairs))
        for found, mode in ((forward, "forward"), (reverse, "reverse")):
            # NaN differs, too.
            if not abs(found - sides[1]) <= 1e-5 * scale:
                kind = "symbolic" if is_symbolic else "evaluated"
                raise Mismatch(f"{kind} {mode}: {found}, differences: {sides[1]}")
        return True


def main(arguments: Sequence[str]) -> int:
    """Check programs; return the status."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.derivatives", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(arguments)
    failures = kinks = 0
    for number in range(options.first, options.first + options.count):
        check = Check(Writer(f"smooth {number}"))
        for is_symbolic in (True, False):
            try:
                kinks += not check.compare(is_symbolic)
            except Exception as error:
                failures += 1
                print(f"{number}: {type(error).__name__}: {error}\n{check.text}")
    print(f"{options.count} programs, {failures} failures, {kinks} at kinks")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
