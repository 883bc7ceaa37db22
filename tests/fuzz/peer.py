"""Differentiates the same random programs here and in Dr.Jit, and compares.

`python -m tests.fuzz.peer --count 1000 --peer-python PATH` starts this file once with
this interpreter and once with one that has Dr.Jit; it prints programs whose values or
derivatives differ, and which of the two central differences agree with. Dr.Jit isn't a
dependency: no test runs this.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

SYSTEMS = ("lumijit", "drjit")
#: Lanes, and entries of the table.
LANES, TABLE = 7, 5
EPS = 1e-6
FORMULAS = (
    "dr.sin({a})",
    "dr.cos({a})",
    "dr.exp(dr.sin({a}))",
    "dr.tanh({a})",
    "dr.atan({a})",
    "{a} * {a}",
    "-{a}",
    "dr.sqrt({a} * {a} + 1)",
    "dr.log({a} * {a} + 1)",
    "dr.rcp({a} * {a} + 1)",
    "dr.abs({a})",
    "dr.erf({a})",
    "dr.asinh({a})",
    "{a} + {b}",
    "{a} - {b}",
    "{a} * dr.cos({b})",
    "{a} / ({b} * {b} + 1)",
    "dr.minimum({a}, {b})",
    "dr.maximum({a}, {b})",
    "dr.select({a} > {b}, {a} * {c}, {b})",
    "dr.fma({a}, {c}, {b})",
    "dr.atan2({a}, {b} * {b} + 1)",
    "dr.hypot({a}, {b} + 3)",
    "dr.lerp({a}, {b}, {c})",
)
#: `f`, `g` and `h` are functions of two numbers each.
STATEMENTS = (
    "{v} = {f}({a}, {b})",
    "{v} = dr.gather(t.Float64, table, (k * 7 + {n}) % 5) * {a}",
    "{v} = {a} * dr.mean({b})",
    """{v} = dr.zeros(t.Float64, 5)
dr.scatter_add({v}, {a}, (k * 3 + {n}) % 5)
{v} = dr.gather(t.Float64, {v}, k % 5) * 0.3 + {b}""",
    """{v} = dr.if_stmt(({a}, {b}), {a} > {b}, {f}, {g})""",
    """{v} = dr.switch(k % 3, [{f}, {g}, {h}], {a}, {b})""",
    """{v} = dr.while_loop(
    (t.UInt32(0), {a} + 0, {b}, k % 2 + {n}),
    lambda i, z, b, m: i < m,
    lambda i, z, b, m: (i + 1, dr.sin({f}(z, b)) + z * 0.5, b, m),
    max_iterations=8,
)[1]""",
    """{v} = dr.while_loop(
    (t.UInt32(0), t.Float64(0), {a}, {b}, k % 2 + {n}),
    lambda i, z, a, b, m: i < m,
    lambda i, z, a, b, m: (i + 1, z + {f}(a, b) * t.Float64(i), a, b, m),
    max_iterations=8,
)[1]""",
)


class Writer:
    """Draws one program, of columns `x` and `y`, a `table`, and whole numbers `k`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lines: list[str] = []
        self._names = ["x", "y"]
        self._functions = 0

    def _function(self) -> str:
        """Write a function of two numbers; return its name."""
        self._functions += 1
        name = f"f{self._functions}"
        values = ["a", "b"]
        lines: list[str] = []
        for _ in range(self._random.randint(1, 4)):
            chosen = {key: self._random.choice(values) for key in "abc"}
            value = self._random.choice(FORMULAS).format(**chosen)
            values.append(f"v{len(lines)}")
            lines.append(f"    {values[-1]} = {value}")
        self._lines += [
            f"def {name}(a, b):",
            *lines,
            f"    return {values[-1]}",
        ]
        return name

    def text(self) -> str:
        """Return the program."""
        for number in range(self._random.randint(1, 4)):
            statement = self._random.choice(STATEMENTS)
            words: dict[str, Any] = {"v": f"r{number}", "n": self._random.randint(1, 6)}
            words |= {key: self._random.choice(self._names) for key in "ab"}
            words |= {f: self._function() for f in "fgh" if f"{{{f}}}" in statement}
            self._lines += statement.format(**words).split("\n")
            self._names.append(words["v"])
        middle = self._names[len(self._names) // 2]
        self._lines.append(f"return {self._names[-1]} + {middle} * 0.25")
        body = "\n".join(f"    {line}" for line in self._lines)
        return f"def program(dr, t, x, y, table, k):\n{body}\n"


class System:
    """One of the two systems."""

    def __init__(self, name: str) -> None:
        self._dr: Any = importlib.import_module(name)
        self._types: Any = importlib.import_module(f"{name}.llvm.ad")

    def _run(self, seed: int, inputs: Sequence[Any]) -> Any:
        scope: dict[str, Any] = {}
        exec(Writer(seed).text(), scope)
        k = self._dr.arange(self._types.UInt32, LANES)
        return scope["program"](self._dr, self._types, *inputs, k)

    def _numbers(self, array: Any) -> list[float]:
        found: list[float] = np.array(array).astype(float).tolist()
        return found

    def derivatives(self, seed: int) -> dict[str, list[float]]:
        """Return the value, its gradients, and its derivative along all inputs."""
        dr = self._dr
        inputs = [self._types.Float64(v) for v in data(seed)]
        dr.enable_grad(inputs)
        value = self._run(seed, inputs)
        dr.backward(value)
        found = {"value": self._numbers(value)}
        for name, array in zip(("x", "y", "table"), inputs, strict=True):
            found[f"gradient of {name}"] = self._numbers(dr.grad(array))
        inputs = [self._types.Float64(v) for v in data(seed)]
        dr.enable_grad(inputs)
        value = self._run(seed, inputs)
        for array in inputs:
            dr.set_grad(array, 1)
        dr.enqueue(dr.ADMode.Forward, inputs)
        dr.traverse(dr.ADMode.Forward)
        found["forward"] = self._numbers(dr.grad(value))
        return found

    def differences(self, seed: int) -> dict[str, list[float]]:
        """Return the same by central differences, but for the value."""
        inputs = data(seed)

        def moved(steps: list[Any]) -> Any:
            pairs = zip(inputs, steps, strict=True)
            arrays = [self._types.Float64(v + s) for v, s in pairs]
            return np.array(self._run(seed, arrays)) * np.ones(LANES)

        def slope(steps: list[Any]) -> Any:
            return (moved(steps) - moved([-s for s in steps])) / (2 * EPS)

        found = {"forward": slope([EPS + 0 * v for v in inputs]).tolist()}
        for k, name in enumerate(("x", "y", "table")):
            rows = EPS * np.eye(len(inputs[k]))
            steps = [
                [r if j == k else 0 * v for j, v in enumerate(inputs)] for r in rows
            ]
            found[f"gradient of {name}"] = [slope(s).sum() for s in steps]
        return found


def data(seed: int) -> list[Any]:
    """Return the numbers that a program runs on."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1.5, 1.5, LANES) for _ in "xy"] + [rng.uniform(-1, 1, TABLE)]


def serve(name: str, method: str, seeds: Sequence[int]) -> None:
    """Write down, line by line, what a system says of programs."""
    system = System(name)
    for seed in seeds:
        try:
            found = getattr(system, method)(seed)
        except Exception as error:
            found = f"{type(error).__name__}: {str(error)[:300]}"
        print(json.dumps([seed, found]), flush=True)


def ask(python: str, name: str, method: str, seeds: Sequence[int]) -> dict[int, Any]:
    """Have an interpreter run programs; return what it found for each."""
    numbers = ",".join(map(str, seeds))
    command = [python, __file__, "--system", name, "--method", method]
    process = subprocess.run(
        [*command, "--seeds", numbers], stdout=subprocess.PIPE, text=True, check=False
    )
    return dict(json.loads(line) for line in process.stdout.splitlines())


def distance(found: Any, expected: Any) -> float:
    """Return the largest relative difference; numbers that are missing are far off."""
    if isinstance(found, str) or isinstance(expected, str):
        return float("inf")
    gaps = [0.0]
    for key in found.keys() & expected.keys():
        a, b = np.array(found[key]), np.array(expected[key])
        gaps.append(float(np.max(np.abs(a - b)) / (1 + np.max(np.abs(b)))))
    return max(gaps)


def compare(options: argparse.Namespace) -> int:
    """Compare the systems; return the status."""
    end = options.first + options.count
    totals = {"equal": 0, "only ours is right": 0, "peer fails": 0, "wrong": 0}
    for first in range(options.first, end, 100):
        seeds = range(first, min(first + 100, end))
        ours, peers = (
            ask(python, name, "derivatives", seeds)
            for python, name in zip(
                (sys.executable, options.peer_python), SYSTEMS, strict=True
            )
        )
        apart = [s for s in seeds if distance(ours.get(s, ""), peers.get(s, "")) > 1e-7]
        totals["equal"] += len(seeds) - len(apart)
        expected = (
            ask(sys.executable, SYSTEMS[0], "differences", apart) if apart else {}
        )
        for seed in apart:
            mine, theirs, wanted = (
                v.get(seed, "the process ended") for v in (ours, peers, expected)
            )
            gaps = distance(mine, wanted), distance(theirs, wanted)
            is_refused = isinstance(theirs, str)
            kind = "wrong"
            if gaps[0] < 1e-6:
                kind = "peer fails" if is_refused else "only ours is right"
            totals[kind] += 1
            errors = [v for v in (mine, theirs) if isinstance(v, str)]
            print(f"program {seed}: {kind}, {gaps[0]:.1e} and {gaps[1]:.1e}", *errors)
            if kind == "wrong" or options.verbose:
                print(Writer(seed).text(), flush=True)
    print(totals)
    return int(totals["wrong"] > 0)


def main(arguments: Sequence[str]) -> int:
    """Compare both systems, or say what one of them finds; return the status."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.peer", description=__doc__)
    words = parser.add_argument
    words("--count", type=int, default=1000)
    words("--first", type=int, default=0)
    words("--peer-python", help="an interpreter with Dr.Jit")
    words("--verbose", action="store_true", help="print all programs that differ")
    words("--system", choices=SYSTEMS, help=argparse.SUPPRESS)
    words("--method", help=argparse.SUPPRESS)
    words("--seeds", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.system:
        seeds = [int(word) for word in options.seeds.split(",")]
        serve(options.system, options.method, seeds)
        return 0
    if not options.peer_python:
        parser.error("--peer-python is missing")
    return compare(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
