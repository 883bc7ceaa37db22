"""Draws programs and compares how long their kernels take with a peer's.

    python -m tests.fuzz.speed --peer PYTHON [--count N] [--first K] [--threads T]
        [--kinds singles,loops] [--size ENTRIES] [--whole]

PYTHON has Dr.Jit. Lists the geometric mean of the ratios by kind of program, the
slowest programs with their code, and results that differ. What no table of chosen cases
has shows here: code in loops that doesn't depend on them, numbers that fall below the
normal ones. With `--whole`, a program's time is all of it, with tracing and waiting.
Each library measures all programs in one process (`--measure`), which imports nothing
of ours but lumijit.
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
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Entries of the arrays, at most and at least; how often a program is run: the fastest
#: counts.
SIZE, LEAST, REPETITIONS = 1 << 19, 1 << 12, 14
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

    def adjoints(self) -> Lines:
        pool = ["r", "a", "b"]
        turns = self.either("9", "(u & 7)", "(u % 13)")
        lines = ["    dr.enable_grad(x, y)", "    i, r = UInt(0), x * 1"]
        lines.append("    a, b = dr.tanh(y), dr.sin(z)")
        lines.append(f"    while dr.hint(i < {turns}, max_iterations=16):")
        if self.random.random() < 0.4:
            lines.append("        g = dr.gather(Float, table, (u + i) & 4095)")
            pool.append("g")
        lines += self.floats(pool, 4, 8)
        lines += [f"        r = dr.tanh(r * 0.5 + {pool[-1]} * 0.25)", "        i += 1"]
        return [*lines, "    dr.backward(r)", "    return dr.grad(x) + dr.grad(y)"]

    def buffers(self) -> Lines:
        count, turns = self.random.choice([3, 8, 30]), self.either("12", "(u & 15)")
        lines = [f"    t = dr.alloc_local(Float, {count})", "    i, r = UInt(0), x * 1"]
        lines += [f"    for k in range({count}):", "        t[k] = y * k"]
        pool = ["x", "r", "q"]
        place = self.either("i", "u + i", "UInt(abs(r)) + i")
        lines += [f"    while i < {turns}:", f"        c = ({place}) % {count}"]
        lines += ["        q = t[c]", *self.floats(pool, 3, 8)]
        lines += [f"        r = r * 0.5 + {pool[-1]} * 0.25", "        t[c] = r"]
        return [*lines, "        i += 1", f"    return r + t[{count - 1}]"]

    def textures(self) -> Lines:
        channels = self.random.choice([1, 2, 3, 4])
        rows = 32 if channels > 2 else 64
        entries = rows * 32 * channels
        mode = self.either("Nearest", "Linear", "Linear")
        wrap = self.either("Clamp", "Repeat", "Mirror")
        how = self.either("eval", "eval", "eval_cubic")
        lines = [f"part = dr.gather(Float, table, dr.arange(UInt, {entries}))"]
        lines += [f"shape = ({rows}, 32, {channels})"]
        lines += [f"wrap, mode = dr.WrapMode.{wrap}, dr.FilterMode.{mode}"]
        lines += ["source = Texture2f(TensorXf(part, shape), True, False, mode, wrap)"]
        lines += [f"p = source.{how}(Array2f(abs(x) * 0.3, abs(y) * 0.4))"]
        return ["    " + line for line in [*lines, "return sum(p) + z"]]

    def packets(self) -> Lines:
        width = self.random.choice([2, 3, 4])
        place = self.either("u", "v", "dr.arange(UInt, dr.width(x))", "u ^ v")
        lines = [f"p = dr.gather(Array{width}f, table, ({place}) & 1023)"]
        lines += [f"q = p * x + {self.either('y', '0.5', 'abs(p)')}"]
        if self.random.random() < 0.5:
            entries = self.random.choice([1000, SIZE])
            lines += [f"t = dr.zeros(Array{width}f, {entries})"]
            change = self.either("scatter(t, q", "scatter_reduce(dr.ReduceOp.Add, t, q")
            lines += [f"dr.{change}, v % {entries})", "return t.x + t.y"]
        else:
            lines.append("return dr.ravel(q)")
        return ["    " + line for line in lines]

    def tensors(self) -> Lines:
        rows = self.random.choice([2, 8, 64])
        shape = f"({rows}, dr.width(x) // {rows})"
        lines = [f"a, b = TensorXf(x, {shape}), TensorXf(y, {shape})"]
        for _ in range(self.random.randint(1, 4)):
            lines.append(
                self.either(
                    "a = a * 0.5 + b",
                    "a = a[:, ::-1] + b",
                    "b = b - dr.sum(a, axis=0) * 0.1",
                    "b = dr.sqrt(abs(a)) + b[0]",
                    "a = a / (1 + dr.max(b, axis=1)[:, None])",
                    "a = (a[:, 2:] + a[:, :-2])[:, :1] * b",
                    "a = dr.select(a > b, a, b * 0.9)",
                    "b = a[-1] * 2 - b",
                )
            )
        return ["    " + line for line in [*lines, "return (a + b).array"]]

    def selections(self) -> Lines:
        pool = ["x", "y", "z"]
        lines = self.floats(pool, 3)
        least = self.either("0", "1", "0.1")
        lines.append(f"    k = dr.compress({pool[-1]} > {least})")
        pool = ["p", "q"]
        lines.append("    p, q = dr.gather(Float, x, k), dr.gather(Float, y, k)")
        lines += self.floats(pool, 4)
        return [*lines, f"    dr.scatter(z, {pool[-1]}, k)", "    return z"]

    def stages(self) -> Lines:
        pool, lines = ["x", "y", "z"], []
        for _ in range(self.random.randint(2, 4)):
            lines += self.floats(pool, 3)
            lines.append(
                self.either(
                    f"    dr.eval({pool[-1]})",
                    f"    {pool[-1]} -= dr.mean({pool[-1]})",
                    f"    x = dr.gather(Float, {pool[-1]} * 1, u % dr.width(x))",
                )
            )
        return [*lines, f"    return {pool[-1]} + x"]


KINDS: dict[str, Callable[[Author], Lines]] = {
    method.__name__: method
    for method in (
        *(Author.singles, Author.doubles, Author.halves, Author.integers),
        *(Author.conversions, Author.vectors, Author.gathers, Author.loops),
        *(Author.nests, Author.lookups, Author.branches, Author.calls),
        *(Author.writes, Author.reductions, Author.gradients, Author.adjoints),
        *(Author.buffers, Author.textures, Author.packets, Author.tensors),
        *(Author.selections, Author.stages),
    )
}


def source(seed: int, kinds: list[str]) -> tuple[str, str]:
    """Return the kind of a program, one of some, and its code."""
    author = Author(seed)
    kind = author.either(*kinds)
    lines = ["@dr.syntax", "def program(x, y, z, u, v, table):", *KINDS[kind](author)]
    return kind, "\n".join(lines) + "\n"


# Measuring, in a process of its own


def measure(module: str, options: argparse.Namespace) -> None:
    """Write for each program its time in µs and some results, or an error."""
    import numpy as np

    dr = importlib.import_module(module)
    types = importlib.import_module(module + ".llvm.ad")
    if options.threads:
        dr.set_thread_count(options.threads)
    rng, size, first = np.random.default_rng(1), options.size, options.first
    # Computed, so that they lie in memory of the library.
    numbers = [types.Float(rng.normal(0, 1, size)) * 2 for _ in range(3)]
    whole = [types.UInt(rng.integers(0, 2**32, size, np.uint32)) ^ 5 for _ in range(2)]
    table = types.Float(rng.random(4096)) * 2
    dr.eval(numbers, whole, table)
    # (Dr.Jit says microseconds, too, and gives milliseconds.)
    unit = 1 if module == "lumijit" else 1000
    is_listed = not options.whole
    found: Any
    for seed in range(first, first + options.count):
        code = source(seed, options.kinds)[1]
        text = f"import {module} as dr\nfrom {module}.llvm.ad import *\n{code}"
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
                    begin = time.perf_counter()
                    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, is_listed):
                        result = program(*args, table)
                        dr.eval(result)
                        dr.sync_thread()
                    taken = (time.perf_counter() - begin) * 1e6
                    if is_listed:
                        entries = dr.kernel_history()
                        taken = sum(e["execution_time"] for e in entries) * unit
                    best = min(best, taken)
                values = np.asarray(dr.detach(result).numpy()).astype(float).ravel()
                found = best, [values[k % len(values)] for k in (0, 1, 77, 5000)]
            except Exception as error:  # What either library refuses is listed.
                found = str(error).strip().splitlines()[0][:100]
            finally:
                sys.path.remove(folder)
        print(json.dumps((seed, found)), flush=True)


def run(python: str, module: str, options: argparse.Namespace) -> dict[int, Any]:
    """Measure with an interpreter's library; programs that end the process are said."""
    words = ["--measure", module, "--threads", str(options.threads)]
    words += ["--kinds", ",".join(options.kinds), "--size", str(options.size)]
    words += ["--whole"] * options.whole
    environment = {**os.environ, "LUMIJIT_NO_DISK_CACHE": "1"}
    found: dict[int, Any] = {}
    first, end = options.first, options.first + options.count
    while first < end:
        done = subprocess.run(
            [python, __file__, *words, f"--first={first}", f"--count={end - first}"],
            env=environment,
            stdout=subprocess.PIPE,
            check=False,
        )
        for line in done.stdout.splitlines():
            seed, result = json.loads(line)
            found[seed] = result
            first = seed + 1
        if first < end:
            found[first] = "the process ended"
            first += 1
    return found


def is_close(a: list[float], b: list[float]) -> bool:
    """Tell whether results agree as far as singles do after some operations."""
    pairs = zip(a, b, strict=True)
    return all(
        x == y or (x != x and y != y) or abs(x - y) <= 1e-3 * max(1, abs(y))
        for x, y in pairs
    )


def report(ours: dict[int, Any], peers: dict[int, Any], kinds: list[str]) -> None:
    """Print what differs, the means by kind, and the slowest programs."""
    by_kind: dict[str, list[float]] = defaultdict(list)
    rows: list[tuple[float, int, float, float]] = []
    for seed, mine in ours.items():
        other = peers[seed]
        if isinstance(mine, str) or isinstance(other, str):
            print(f"#{seed}: {mine if isinstance(mine, str) else f'the peer: {other}'}")
            continue
        if not is_close(mine[1], other[1]):
            print(f"#{seed}: {mine[1]}, the peer {other[1]}")
        if min(mine[0], other[0]) > 0:
            ratio = mine[0] / other[0]
            by_kind[source(seed, kinds)[0]].append(ratio)
            rows.append((ratio, seed, mine[0], other[0]))
    for kind, ratios in sorted(by_kind.items()):
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{kind:12} {mean:5.2f} of {len(ratios)}")
    for ratio, seed, mine, other in sorted(rows, reverse=True)[:WORST]:
        print(
            f"\n#{seed}: {ratio:.2f} ({mine:.0f} µs, {other:.0f})",
            source(seed, kinds)[1],
            sep="\n",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="an interpreter that has Dr.Jit")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=[*KINDS])
    parser.add_argument("--size", type=int, default=SIZE, help="entries of the arrays")
    parser.add_argument("--whole", action="store_true", help="not only kernels")
    parser.add_argument("--measure", metavar="MODULE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := {*options.kinds} - {*KINDS}:
        parser.error(f"there is no kind {', '.join(unknown)}, but {', '.join(KINDS)}")
    if not LEAST <= options.size <= SIZE:
        parser.error(f"--size is {options.size} (expected {LEAST} to {SIZE})")
    if options.measure:
        measure(options.measure, options)
    elif not options.peer:
        parser.error("--peer is missing")
    else:
        ours = run(sys.executable, "lumijit", options)
        report(ours, run(options.peer, "drjit", options), options.kinds)


if __name__ == "__main__":
    main()
