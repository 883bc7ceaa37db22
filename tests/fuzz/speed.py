"""Draws programs and compares how long their kernels take with a peer's.

    python -m tests.fuzz.speed --peer PYTHON [--count N] [--first K] [--threads T]

PYTHON has Dr.Jit. Lists the geometric mean of the ratios by kind of program, the
slowest programs with their code, and results that differ. What no table of chosen cases
has shows here: code in loops that doesn't depend on them, numbers that fall below the
normal ones. Each library measures all programs in one process (`--measure`), which
imports nothing of ours but lumijit.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Entries of the arrays, and how often a program is run: the fastest counts.
SIZE, REPETITIONS = 1 << 19, 14
WORST = 20

Lines = list[str]

OF_FLOAT = """dr.sqrt(abs({a})); dr.exp(-abs({a})); dr.log(abs({a}) + 1);
dr.sin({a}); dr.cos({a}); dr.floor({a}); dr.rcp(abs({a}) + 3.5);
dr.rsqrt(abs({a}) + 1); abs({a}); -{a}; dr.tanh({a}); dr.atan({a}); dr.square({a});
dr.clip({a}, -1, 1); dr.sign({a}); dr.round({a}); dr.cbrt({a}); dr.erf({a});
dr.asin(dr.clip({a}, -1, 1)); dr.trunc({a}); dr.exp2({a} * 0.1);
dr.log2(abs({a}) + 0.5); dr.sinh({a} * 0.1); dr.acosh(abs({a}) + 1)"""
OF_FLOATS = """{a} + {b}; {a} - {b}; {a} * {b}; {a} / (abs({b}) + 1);
dr.minimum({a}, {b}); dr.maximum({a}, {b}); dr.fma({a}, {b}, 0.5);
dr.fma({a}, {b}, {a}); dr.lerp({a}, {b}, 0.25); dr.select({a} < {b}, {a}, {b} * 2);
dr.atan2({a}, {b}); dr.hypot({a}, {b});
dr.power(abs({a}) + 0.1, dr.clip({b}, -2, 2));
dr.select(({a} > 0) & ({b} < 1), {b}, {a})"""
OF_INTEGER = """{a} >> 3; {a} << 2; {a} ^ ({a} >> 7); dr.popcnt({a});
{a} * 747796405 + 7; {a} % 17; {a} // 5; dr.lzcnt({a} | 1); {a} & 1023; ~{a}"""
OF_INTEGERS = """{a} + {b}; {a} * {b}; {a} ^ {b}; {a} & {b}; {a} - {b};
dr.minimum({a}, {b}); dr.select({a} < {b}, {a}, {b}); {a} >> ({b} & 15);
{a} % ({b} | 1); {a} // ({b} | 1)"""
OF_HALVES = """{a} + {b}; {a} * {b}; dr.fma({a}, {b}, {a}); dr.sqrt(abs({a}));
dr.minimum({a}, {b}); dr.select({a} < {b}, {a}, {b})"""
OF_VECTORS = """p = dr.normalize(p + q); p = dr.cross(p, q);
q = p * dr.dot(p, q) + q; q = dr.select(p.x > 0, p, q); p = dr.fma(p, q, p);
p = p / (dr.norm(q) + 1); q = dr.minimum(abs(p), q); p = p - q * (2 * dr.dot(p, q));
p = dr.sqrt(abs(p)); p = dr.exp(-abs(p)); q = dr.select(q.z > 0, q, p * 0.5)"""


def forms(text: str) -> list[str]:
    """Return the forms that a text lists."""
    return [form.strip() for form in text.split(";")]


class Author:
    """Writes programs; every choice comes from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._names = 0

    def steps(self, pool: list[str], most: int, indent: int, *kinds: str) -> Lines:
        """Return assignments of new names, which are added to the pool."""
        lines = []
        for _ in range(self.random.randint(1, most)):
            a, b = self.random.choice(pool[-3:]), self.random.choice(pool)
            form = self.random.choice(forms(self.random.choice(kinds)))
            self._names += 1
            pool.append(f"t{self._names}")
            lines.append(" " * indent + f"{pool[-1]} = " + form.format(a=a, b=b))
        return lines

    def floats(self, pool: list[str], most: int, indent: int = 4) -> Lines:
        return self.steps(pool, most, indent, OF_FLOAT, OF_FLOATS)

    def either(self, *choices: str) -> str:
        return self.random.choice(choices)

    # Kinds of programs

    def singles(self) -> Lines:
        pool = ["x", "y", "z"]
        return [*self.floats(pool, 9), f"    return {pool[-1]}"]

    def doubles(self) -> Lines:
        start = "    x, y, z = Float64(x), Float64(y), Float64(z)"
        return [start, *self.singles()]

    def halves(self) -> Lines:
        pool = ["x", "y", "z"]
        start = "    x, y, z = Float16(x), Float16(y), Float16(z)"
        return [
            start,
            *self.steps(pool, 6, 4, OF_HALVES),
            f"    return Float({pool[-1]})",
        ]

    def integers(self) -> Lines:
        pool = ["u", "v"]
        lines = self.steps(pool, 9, 4, OF_INTEGER, OF_INTEGERS)
        return [*lines, f"    return {pool[-1]}"]

    def conversions(self) -> Lines:
        pool, whole = ["x", "y", "z"], ["u", "v"]
        lines = self.steps(whole, 3, 4, OF_INTEGER, OF_INTEGERS)
        lines.append(f"    w = Float({whole[-1]} & 0xffff) * 1e-3")
        pool.append("w")
        lines += self.floats(pool, 4)
        return [*lines, f"    return {pool[-1]} + Float(UInt(abs({pool[-1]})) & 255)"]

    def vectors(self) -> Lines:
        found = [
            self.either(*forms(OF_VECTORS)) for _ in range(self.random.randint(2, 7))
        ]
        lines = ["p = Array3f(x, y, z)", "q = Array3f(y, z, x + 1)", *found]
        return ["    " + line for line in [*lines, "return p.x + q.y * p.z"]]

    def gathers(self) -> Lines:
        pool = ["x", "y", "z"]
        lines = self.steps(["u", "v"], 1, 4, OF_INTEGER)
        index = lines[-1].split()[0]
        lines.append(f"    g = dr.gather(Float, table, {index} & 4095)")
        pool.append("g")
        return [*lines, *self.floats(pool, 4), f"    return {pool[-1]}"]

    def loops(self) -> Lines:
        pool = ["x", "y", "z", "r"]
        goes_on = self.either("i < 20", "i < (u & 31)", "(i < 40) & (abs(r) < 30)")
        lines = ["    i, r = UInt(0), x * 1", f"    while {goes_on}:"]
        lines += self.floats(pool, 4, 8)
        lines.append(f"        r = r * 0.5 + {pool[-1]} * 0.25")
        return [*lines, "        i += 1", "    return r"]

    def nests(self) -> Lines:
        pool, inner = ["x", "y", "r"], self.either("i", "4", "(v & 7)")
        turns = self.either("8", "(u & 7)", "(u % 13)")
        lines = ["    i, r = UInt(0), x * 1", f"    while i < {turns}:"]
        lines += self.floats(pool, 2, 8)
        lines += ["        j = UInt(0)", f"        while j < {inner}:"]
        lines += self.floats(pool, 3, 12)
        lines.append(f"            r = r * 0.9 + {pool[-1]} * 0.05")
        return [*lines, "            j += 1", "        i += 1", "    return r"]

    def lookups(self) -> Lines:
        pool, index = ["x", "r", "q"], self.either("u + i", "i", "u * i", "v ^ i")
        turns = self.either("16", "(u & 15)")
        lines = ["    i, r = UInt(0), x * 1", f"    while i < {turns}:"]
        lines.append(f"        q = dr.gather(Float, table, ({index}) & 4095)")
        lines += self.floats(pool, 3, 8)
        lines.append(f"        r = r * 0.6 + {pool[-1]} * 0.2")
        return [*lines, "        i += 1", "    return r"]

    def branches(self) -> Lines:
        pool = ["x", "y", "z"]
        lines = self.floats(pool, 3)
        test = self.either(
            f"{pool[-1]} > 0.3", "u % 3 == 0", "(u & 1023) == 0", "x < y"
        )
        lines += ["    r = x * 1", f"    if {test}:"]
        for sign, start in (("+", ""), ("-", "    else:")):
            side = [*pool]
            lines += [start] * bool(start) + self.floats(side, 5, 8)
            lines.append(f"        r = {side[-1]} {sign} r")
        return [*lines, "    return r"]

    def calls(self) -> Lines:
        count, lines = self.random.randint(2, 6), []
        for k in range(count):
            pool = ["a", "b"]
            lines += [f"    def f{k}(a, b):", *self.floats(pool, 5, 8)]
            lines.append(f"        return {pool[-1]}")
        index = self.either(f"u % {count}", f"UInt(abs(x)) % {count}")
        names = ", ".join(f"f{k}" for k in range(count))
        return [*lines, f"    return dr.switch({index}, [{names}], y, z)"]

    def writes(self) -> Lines:
        pool, entries = ["x", "y", "z"], self.random.choice([16, 1000, 65536, SIZE])
        lines = [*self.floats(pool, 3), f"    t = dr.zeros(Float, {entries})"]
        op = self.either("Add", "Add", "Max", "Min")
        change = self.either("scatter(", f"scatter_reduce(dr.ReduceOp.{op}, ")
        lines.append(f"    dr.{change}t, {pool[-1]}, u % {entries})")
        return [*lines, "    return t"]

    def reductions(self) -> Lines:
        pool = ["x", "y", "z"]
        lines = self.floats(pool, 4)
        what = self.either("sum({})", "max({})", "block_sum({}, 16)", "cumsum({})")
        return [*lines, f"    return dr.{what.format(pool[-1])}"]

    def gradients(self) -> Lines:
        pool = ["x", "y", "z"]
        lines = ["    dr.enable_grad(x, y)"]
        if self.random.random() < 0.4:
            lines.append("    w = dr.gather(Float, x * 1, u % dr.width(x))")
            pool.append("w")
        lines += self.floats(pool, 6)
        lines.append(f"    dr.backward({pool[-1]} * {pool[-1]} + x * 0.1 + y * 0.2)")
        return [*lines, "    return dr.grad(x) + dr.grad(y)"]


KINDS: dict[str, Callable[[Author], Lines]] = {
    method.__name__: method
    for method in (
        *(Author.singles, Author.doubles, Author.halves, Author.integers),
        *(Author.conversions, Author.vectors, Author.gathers, Author.loops),
        *(Author.nests, Author.lookups, Author.branches, Author.calls),
        *(Author.writes, Author.reductions, Author.gradients),
    )
}


def source(seed: int) -> tuple[str, str]:
    """Return the kind of a program, and its code."""
    author = Author(seed)
    kind = author.either(*KINDS)
    lines = ["@dr.syntax", "def program(x, y, z, u, v, table):", *KINDS[kind](author)]
    return kind, "\n".join(lines) + "\n"


# Measuring, in a process of its own


def measure(module: str, first: int, count: int, threads: int) -> dict[int, Any]:
    """Return for each program its kernels' time in µs and some results, or an error."""
    import numpy as np

    dr = importlib.import_module(module)
    types = importlib.import_module(module + ".llvm.ad")
    if threads:
        dr.set_thread_count(threads)
    rng = np.random.default_rng(1)
    # Computed, so that they lie in memory of the library.
    numbers = [types.Float(rng.normal(0, 1, SIZE)) * 2 for _ in range(3)]
    whole = [types.UInt(rng.integers(0, 2**32, SIZE, np.uint32)) ^ 5 for _ in range(2)]
    table = types.Float(rng.random(4096)) * 2
    dr.eval(numbers, whole, table)
    # (Dr.Jit says microseconds, too, and gives milliseconds.)
    unit = 1 if module == "lumijit" else 1000
    found: dict[int, Any] = {}
    for seed in range(first, first + count):
        text = (
            f"import {module} as dr\nfrom {module}.llvm.ad import *\n{source(seed)[1]}"
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"drawn_{seed}.py")
            path.write_text(text)
            sys.path.insert(0, folder)
            try:
                program = importlib.import_module(path.stem).program
                best, result = math.inf, None
                for _ in range(REPETITIONS):
                    args = [dr.detach(a) for a in (*numbers, *whole)]
                    dr.kernel_history_clear()
                    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
                        result = program(*args, table)
                        dr.eval(result)
                        dr.sync_thread()
                    entries = dr.kernel_history()
                    best = min(best, sum(e["execution_time"] for e in entries) * unit)
                values = np.asarray(dr.detach(result).numpy()).astype(float).ravel()
                found[seed] = best, [values[k % len(values)] for k in (0, 1, 77, 5000)]
            except Exception as error:  # What either library refuses is listed.
                found[seed] = str(error).strip().splitlines()[0][:100]
            finally:
                sys.path.remove(folder)
    return found


def run(python: str, module: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure with an interpreter's library."""
    words = ["--measure", module, "--first", str(options.first)]
    words += ["--count", str(options.count), "--threads", str(options.threads)]
    environment = {**os.environ, "LUMIJIT_NO_DISK_CACHE": "1"}
    done = subprocess.run(
        [python, __file__, *words], env=environment, stdout=subprocess.PIPE, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def is_close(a: list[float], b: list[float]) -> bool:
    """Tell whether results agree as far as singles do after some operations."""
    pairs = zip(a, b, strict=True)
    return all(
        x == y or (x != x and y != y) or abs(x - y) <= 1e-3 * max(1, abs(y))
        for x, y in pairs
    )


def report(ours: dict[str, Any], peers: dict[str, Any]) -> None:
    """Print what differs, the means by kind, and the slowest programs."""
    by_kind: dict[str, list[float]] = defaultdict(list)
    rows: list[tuple[float, str, float, float]] = []
    for seed, mine in ours.items():
        other = peers[seed]
        if isinstance(mine, str) or isinstance(other, str):
            print(f"#{seed}: {mine if isinstance(mine, str) else f'the peer: {other}'}")
            continue
        if not is_close(mine[1], other[1]):
            print(f"#{seed}: {mine[1]}, the peer {other[1]}")
        if min(mine[0], other[0]) > 0:
            ratio = mine[0] / other[0]
            by_kind[source(int(seed))[0]].append(ratio)
            rows.append((ratio, seed, mine[0], other[0]))
    for kind, ratios in sorted(by_kind.items()):
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{kind:12} {mean:5.2f} of {len(ratios)}")
    for ratio, seed, mine, other in sorted(rows, reverse=True)[:WORST]:
        print(
            f"\n#{seed}: {ratio:.2f} ({mine:.0f} µs, {other:.0f})",
            source(int(seed))[1],
            sep="\n",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="an interpreter that has Dr.Jit")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--measure", metavar="MODULE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        numbers = options.first, options.count, options.threads
        print(json.dumps(measure(options.measure, *numbers)))
    elif not options.peer:
        parser.error("--peer is missing")
    else:
        report(
            run(sys.executable, "lumijit", options), run(options.peer, "drjit", options)
        )


if __name__ == "__main__":
    main()
