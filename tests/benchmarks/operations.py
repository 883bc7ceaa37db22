"""What it takes to trace one call of a public function, beside the peer's time.

    python -m tests.benchmarks.operations [--peer PYTHON] [--above RATIO] [--only TEXT]

Microseconds, the best of many rounds, nothing evaluated; the expressions with the
worst ratio come first. `index()`, `number()` and `vector()` are new values each time,
as equal ones would be found again; what they take themselves is listed, too. Each
system runs in a process of its own. `PYTHON` is an interpreter that has the peer.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from tests.benchmarks.beside import compare

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


if __name__ == "__main__":
    compare(__doc__, __file__, programs, sys.argv[1:], round_of=200)
