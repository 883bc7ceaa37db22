"""Differentiates random programs in both modes, and compares with differences.

`python -m tests.fuzz.derivatives --count 1000` prints programs that disagree. The same
text runs lane by lane in plain Python for the differences. Kernels are built without
optimization and for one thread an element, as almost all of the time is LLVM's.
"""

from __future__ import annotations

import argparse
import functools
import linecache
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import lumijit as dr
import lumijit.llvm.ad as t
import lumijit.scalar
from lumijit.compiler.launch import kernels
from lumijit.derivatives.functional import Call
from lumijit.runtime import cpu
from lumijit.runtime.settings import settings
from tests.differences import EPS, KINK, slopes
from tests.fuzz.smooth import NAMES, Writer
from tests.targets import DEVICES, standing_in

KINDS = ("packet", "thread", *DEVICES)

FLAGS = (
    dr.JitFlag.SymbolicLoops
    | dr.JitFlag.SymbolicConditionals
    | dr.JitFlag.SymbolicCalls
)
#: So often another place is drawn where a program isn't differentiable.
PLACES = 10
INPUTS = (*NAMES, "w", "table")
Array = np.ndarray[Any, Any]
_count = 0


class Mismatch(Exception):
    """Derivatives that differ."""


class Own(dr.CustomOp):
    """The product of `x / (1 + x * x)` and `y`, which keeps both."""

    def eval(self, x: Any, y: Any) -> Any:
        """Compute it."""
        self.x, self.y = x, y
        return x * y / (1 + x * x)

    def _slopes(self) -> tuple[Any, Any]:
        x, y = self.x, self.y
        below = 1 + x * x
        return y * (1 - x * x) / (below * below), x / below

    def forward(self) -> None:
        """Pass on what the inputs have."""
        by_x, by_y = self._slopes()
        self.set_grad_out(by_x * self.grad_in("x") + by_y * self.grad_in("y"))

    def backward(self) -> None:
        """Pass on what the result has."""
        by_x, by_y = self._slopes()
        self.set_grad_in("x", by_x * self.grad_out())
        self.set_grad_in("y", by_y * self.grad_out())


def own(x: Any, y: Any) -> Any:
    """Compute it with that derivative, or of plain numbers."""
    return dr.custom(Own, x, y) if isinstance(x, t.Float64) else x * y / (1 + x * x)


def compiled(text: str, syntax: Any) -> Callable[..., Any]:
    """Return the function that a text defines."""
    global _count
    _count += 1
    name = f"<smooth {_count}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {"syntax": syntax, "own": own}
    exec(compile(text, name, "exec"), scope)
    function: Callable[..., Any] = scope["program"]
    return function


class Check:
    """A program at a place where it is differentiable.

    `slopes` has a row for each lane: how the weighted sum of its results changes with
    its numbers, with `w`, and with each entry of the table.
    """

    def __init__(self, text: str, data: Callable[[], Any]) -> None:
        self._program = compiled(text, dr.syntax)
        self._plain = compiled(text, lambda function: function)
        for self.kinks in range(PLACES):
            floats, self._whole = data()
            self._inputs = [np.array(floats[name]) for name in INPUTS]
            lanes = range(len(self._whole))
            rng = np.random.default_rng(len(text))
            self._along = [rng.uniform(-1, 1, v.shape) for v in self._inputs]
            self._weights = rng.uniform(0.5, 1, (len(NAMES), len(lanes)))
            rows = [
                slopes(functools.partial(self._lane, k), self._at(k)) for k in lanes
            ]
            known = [row for row in rows if row is not None]
            if len(known) == len(rows):
                self.slopes = np.concatenate(known)
                return
        raise Mismatch(f"not differentiable at {PLACES} places")

    def _at(self, lane: int) -> list[float]:
        """Return the numbers that a lane's results depend on."""
        *own, w, table = self._inputs
        return [*(float(v[lane]) for v in own), *w.tolist(), *table.tolist()]

    def _lane(self, lane: int, numbers: Sequence[float]) -> list[float]:
        a, b, c, w, *entries = numbers
        table = lumijit.scalar.ArrayXf64(entries)
        n = self._whole[lane]
        img = lumijit.scalar.ArrayXf64(w, w)
        results = self._plain(dr, lumijit.scalar, a, b, c, w, table, n, img, 0)
        return [float(np.dot(results, self._weights[:, lane]))]

    def _run(self, *inputs: Any) -> Any:
        lanes = len(self._whole)
        img = inputs[INPUTS.index("w")] + dr.zeros(t.Float64, 2 * lanes)
        at = 2 * dr.arange(t.UInt32, lanes)
        results = self._program(dr, t, *inputs, t.Int(self._whole), img, at)
        pairs = zip(results, self._weights, strict=True)
        return sum(r * t.Float64(w) for r, w in pairs)

    def compare(self, is_symbolic: bool) -> None:
        """Compare in both modes, with symbolic control flow or evaluated."""
        with dr.scoped_set_flag(FLAGS, is_symbolic):
            call = Call("fuzz", self._run, [t.Float64(v) for v in self._inputs])
            pushed = call.push(tuple(t.Float64(d) for d in self._along))
            pulled = call.pull(1)
            dr.eval(pushed, pulled)
            forward = pushed.numpy()
            reverse = np.concatenate([p.numpy() for p in pulled])
        lanes, own = len(self._whole), len(NAMES)
        rest = np.concatenate(self._along[own:])
        along = [[*(d[k] for d in self._along[:own]), *rest] for k in range(lanes)]
        expected = {
            "forward": (forward, np.sum(self.slopes * along, axis=1)),
            "reverse": (
                reverse,
                np.append(self.slopes[:, :own].T, self.slopes[:, own:].sum(axis=0)),
            ),
        }
        for mode, (found, wanted) in expected.items():
            # NaN differs, too.
            if not np.all(np.abs(found - wanted) <= 1e-5 * (1 + np.abs(wanted).max())):
                kind = "symbolic" if is_symbolic else "evaluated"
                raise Mismatch(f"{kind} {mode}: {found}, differences: {wanted}")

    def compare_twice(self, is_symbolic: bool) -> bool:
        """Compare how the gradient changes along a direction with its differences.

        Returns False where it jumps.
        """

        def gradient(*inputs: Any) -> Any:
            return dr.value_and_grad(self._run, range(len(INPUTS)))(*inputs)[1]

        def near(step: float) -> Array:
            moved = zip(self._inputs, self._along, strict=True)
            found = gradient(*[t.Float64(v + step * d) for v, d in moved])
            return np.concatenate([part.numpy() for part in found])

        with dr.scoped_set_flag(FLAGS, is_symbolic):
            inputs = [t.Float64(v) for v in self._inputs]
            along = [t.Float64(d) for d in self._along]
            _, pushed = dr.jvp(gradient, inputs, along)
            # (The second derivatives of a sum are symmetric.)
            pulled = dr.vjp(gradient, *inputs)[1](tuple(along))
            dr.eval(pushed, pulled)
            found, other = (
                np.concatenate([part.numpy() for part in parts])
                for parts in (pushed, pulled)
            )
            above, middle, below = map(near, (EPS, 0.0, -EPS))
        right, left = (above - middle) / EPS, (middle - below) / EPS
        wanted = (right + left) / 2
        size = 1 + np.abs(wanted).max()
        if not np.abs(right - left).max() <= 10 * KINK * size:
            return False
        kind = "symbolic" if is_symbolic else "evaluated"
        for mode, got in {"forward": found, "reverse": other}.items():
            if not np.all(np.abs(got - wanted) <= 1e-4 * size):
                raise Mismatch(f"{kind} {mode}: {got}, differences: {wanted}")
        return True


def main(arguments: Sequence[str]) -> int:
    """Check programs; return the status."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.derivatives", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--writes", action="store_true", help="to arrays, too")
    parser.add_argument(
        "--customs",
        action="store_true",
        help="custom operations, which have first derivatives only",
    )
    parser.add_argument("--second", action="store_true", help="second derivatives")
    parser.add_argument("--target", choices=KINDS, default="thread")
    options = parser.parse_args(arguments)
    settings.no_disk_cache = True
    cpu.compile_ir = functools.partial(cpu.compile_ir, opt_level=0)
    if options.target not in DEVICES:
        kernels.use(kernels.target_named(options.target))
        return _run(options)
    with standing_in(options.target):
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    failures = moved = jumps = 0
    start = time.perf_counter()
    for number in range(options.first, options.first + options.count):
        kinds = {"writes": options.writes, "customs": options.customs}
        writer = Writer(f"smooth {number}", **kinds)
        text = writer.text()
        try:
            check = Check(text, writer.data)
            moved += check.kinks > 0
            for is_symbolic in (True, False):
                if options.second and not is_symbolic and number % 4:
                    continue  # evaluated mode takes most of the time
                if not options.second:
                    check.compare(is_symbolic)
                elif not check.compare_twice(is_symbolic):
                    jumps += is_symbolic
        except Exception as error:
            failures += 1
            print(f"{number}: {type(error).__name__}: {error}\n{text}", flush=True)
    seconds = time.perf_counter() - start
    print(
        f"{options.count} programs, {failures} failures, {moved} moved from kinks, "
        f"{jumps} with gradients that jump, {seconds:.0f} s"
    )
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
