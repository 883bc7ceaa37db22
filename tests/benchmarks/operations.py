"""What it takes to trace one call of a public function, beside the peer's time.

    python -m tests.benchmarks.operations [--peer PYTHON] [--above RATIO]

Microseconds, the best of many rounds, nothing evaluated; the expressions with the
worst ratio come first. `index()`, `number()` and `vector()` are new values each time,
as equal ones would be found again; what they take themselves is listed, too. Each
system runs in a process of its own. `PYTHON` is an interpreter that has the peer.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

ROUND = 200
MEASURED_S = 0.15
EXPRESSIONS = """
index()
number()
vector()
dr.gather(Float, table, index())
dr.gather(Float, table, index(), mask)
dr.gather(Float, table, 7)
dr.gather(Array3f, table, index())
dr.scatter(dr.zeros(Float, 300), number(), places)
dr.scatter_add(dr.zeros(Float, 300), number(), places)
dr.scatter(dr.zeros(Float, 300), vector(), places)
dr.select(mask, number(), x)
dr.select(mask, number(), 0)
dr.select(mask, vector(), v)
dr.clip(number(), 0, 1)
dr.lerp(number(), x, 0.5)
dr.fma(number(), x, x)
dr.maximum(number(), x)
dr.sqrt(number())
dr.sincos(number())
number() ** 2
dr.floor(number())
-number()
number() < x
(number() < x) & mask
index() // 7
index() % 7
index() >> 3
dr.popcnt(index())
Float(index())
Int32(number())
Array3f(number(), x, x)
Array3f(index())
dr.zeros(Float, 100)
dr.full(Float, 2, 100)
dr.arange(UInt32, 100)
dr.linspace(Float, 0, 1, 100)
Float([1, 2, 3])
v.x
v[1]
v.zyx
vector() * v
vector() * x
dr.dot(vector(), v)
dr.norm(vector())
dr.normalize(vector())
dr.cross(vector(), v)
dr.max(vector())
dr.all(vector() > v)
matrix @ vector()
matrix @ matrix
rotation * rotation
c * (c + number())
dr.ravel(vector())
dr.unravel(Array3f, table)
dr.repeat(number(), 3)
dr.tile(number(), 3)
dr.concat([number(), x])
dr.width(v)
dr.detach(v)
dr.copy(v)
tensor + 1
tensor[1]
tensor[:, 1]
dr.reinterpret_array(UInt32, number())
branch(number())
loop(number())
"""


def _names(module: str) -> dict[str, Any]:
    """Return what the expressions refer to."""
    dr: Any = importlib.import_module(module)
    types: Any = importlib.import_module(f"{module}.llvm")
    names = {name: getattr(types, name) for name in dir(types) if name[0].isupper()}
    x = dr.arange(types.Float, 100) + 0.5
    places = dr.arange(types.UInt32, 100)
    table = dr.arange(types.Float, 300) * 0.5
    mask = x > 20
    v = types.Array3f(x, x + 1, x + 2)
    matrix = types.Matrix3f(*[x + k for k in range(9)])
    tensor = types.TensorXf(dr.arange(types.Float, 60), (3, 4, 5))
    dr.eval(x, places, table, mask, v, matrix, tensor)
    numbers = count(1)

    def branch(a: Any) -> Any:
        return dr.if_stmt((a,), mask, lambda a: (a + 1,), lambda a: (a - 1,))

    def loop(a: Any) -> Any:
        def body(i: Any, a: Any) -> Any:
            return i + 1, a * 2

        return dr.while_loop((places, a), lambda i, a: i < 200, body)

    return names | {
        "dr": dr,
        "x": x,
        "places": places,
        "table": table,
        "mask": mask,
        "v": v,
        "matrix": matrix,
        "tensor": tensor,
        "rotation": types.Quaternion4f(x, x, x, x),
        "c": types.Complex2f(x, x),
        "index": lambda: places + next(numbers),
        "number": lambda: x + next(numbers),
        "vector": lambda: v + next(numbers),
        "branch": branch,
        "loop": loop,
    }


def programs(module: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the expressions, each with a function that traces it."""
    names = _names(module)
    for text in EXPRESSIONS.strip().splitlines():
        yield text, eval(f"lambda: {text}", names)


def measure(module: str) -> dict[str, float]:
    """Measure all expressions in this process; microseconds each."""
    found = {}
    for text, call in programs(module):
        call()
        best, end = float("inf"), time.perf_counter() + MEASURED_S
        while time.perf_counter() < end:
            kept = []
            start = time.perf_counter()
            for _ in range(ROUND):
                kept.append(call())
            best = min(best, time.perf_counter() - start)
        found[text] = best / ROUND * 1e6
    return found


def _in_process(python: str, module: str) -> dict[str, float]:
    command = [python, str(Path(__file__).resolve()), "--measure", module]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: Sequence[str]) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="an interpreter that has the peer")
    parser.add_argument("--above", type=float, default=0.0, help="the lowest ratio")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    mine = _in_process(sys.executable, "lumijit")
    peer = _in_process(options.peer, "drjit") if options.peer else dict(mine)
    rows = sorted(((mine[text] / peer[text], text) for text in mine), reverse=True)
    print("| ratio | µs | peer | expression |\n|---|---|---|---|")
    for ratio, text in rows:
        if ratio >= options.above:
            print(f"| {ratio:.1f} | {mine[text]:.2f} | {peer[text]:.2f} | `{text}` |")


if __name__ == "__main__":
    main(sys.argv[1:])
