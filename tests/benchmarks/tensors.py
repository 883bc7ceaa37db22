"""Tensors against NumPy at 10^7 entries: `python -m tests.benchmarks.tensors`.

Prints the best of several runs of both, taken in turns, in milliseconds. NumPy's
products use as many threads as OPENBLAS_NUM_THREADS says. With argument `reductions`,
these by type and axis.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import lumijit as dr
from lumijit import llvm
from lumijit.llvm import Float, Int, TensorXf, UInt32

SIDE = 3162
REPEATS = 7
Program = Callable[[], Any]


def programs() -> dict[str, tuple[Program, Program]]:
    """Return pairs of programs by name: ours and NumPy's."""
    rng = np.random.default_rng(0)
    a = rng.random((SIDE, SIDE), dtype=np.float32)
    points = rng.random((SIDE * SIDE // 3, 3), dtype=np.float32)
    cube = rng.random((200, 200, 250), dtype=np.float32)
    square = rng.random((1024, 1024), dtype=np.float32)
    rows = rng.integers(0, SIDE, SIDE)
    x, p, c, q = TensorXf(a), TensorXf(points), TensorXf(cube), TensorXf(square)
    i, row, column = Int(rows), TensorXf(a[0]), TensorXf(a[:, :1])
    mask, wide = a > 0.5, x > 0.5
    nothing, none = a > 2, x > 2
    half = SIDE // 2
    back, every = slice(None, None, -1), slice(None)
    y, b = TensorXf(a[:half]), a[:half].copy()
    inner, d = TensorXf(a[1:-1, 1:-1]), a[1:-1, 1:-1].copy()
    dr.eval(x, p, c, q, i, row, column, wide, none, y, inner)

    def assign(key: Any, value: Any) -> Program:
        target = TensorXf(a.copy())

        def program() -> Any:
            target[key] = value
            return target

        return program

    def set_item(key: Any, value: Any) -> Program:
        target = a.copy()
        return lambda: target.__setitem__(key, value)

    def add(key: Any) -> Program:
        target = TensorXf(a.copy())

        def program() -> Any:
            target[key] += 1
            return target

        return program

    def add_there(key: Any) -> Program:
        target = a.copy()

        def program() -> None:
            target[key] += 1

        return program

    flat, line, count = x.array, a.ravel(), SIDE * SIDE
    n = dr.arange(UInt32, count)

    def stencil() -> Any:
        return dr.gather(Float, flat, n - 1) + dr.gather(Float, flat, n + 1)

    def stencil_there() -> Any:
        result = np.empty_like(line)
        result[0], result[-1] = line[1], line[-2]
        np.add(line[:-2], line[2:], out=result[1:-1])
        return result

    within = slice(1, -1)
    return {
        "sum": (lambda: dr.sum(x), lambda: a.sum()),
        "sum, axis 0": (lambda: dr.sum(x, 0), lambda: a.sum(0)),
        "sum, axis 1": (lambda: dr.sum(x, 1), lambda: a.sum(1)),
        "max, axis 0": (lambda: dr.max(x, 0), lambda: a.max(0)),
        "sum of points, axis 0": (lambda: dr.sum(p, 0), lambda: points.sum(0)),
        "sum of points, axis 1": (lambda: dr.sum(p, 1), lambda: points.sum(1)),
        "sum of a cube, axis 1": (lambda: dr.sum(c, 1), lambda: cube.sum(1)),
        "count": (lambda: dr.count(wide), lambda: np.count_nonzero(mask)),
        "count, axis 1": (lambda: dr.count(wide, 1), lambda: np.count_nonzero(mask, 1)),
        "any, axis 1": (lambda: dr.any(none, 1), lambda: nothing.any(1)),
        "count(x > 0.5)": (lambda: dr.count(x > 0.5), lambda: (a > 0.5).sum()),
        "argmin": (lambda: dr.argmin(x, None), lambda: a.argmin()),
        "argmax, axis 0": (lambda: dr.argmax(x, 0), lambda: a.argmax(0)),
        "argmax, axis 1": (lambda: dr.argmax(x, 1), lambda: a.argmax(1)),
        "dot": (lambda: dr.dot(flat, flat), lambda: np.dot(line, line)),
        "norm": (lambda: dr.norm(flat), lambda: np.linalg.norm(line)),
        "std": (lambda: dr.std(x), lambda: a.std()),
        "cumsum": (lambda: dr.cumsum(flat), lambda: line.cumsum()),
        "x[::2]": (lambda: x[::2], lambda: a[::2].copy()),
        "x[:, ::2]": (lambda: x[:, ::2], lambda: a[:, ::2].copy()),
        "x[1:-1, 1:-1]": (lambda: x[1:-1, 1:-1], lambda: a[1:-1, 1:-1].copy()),
        "x.T": (lambda: x.T, lambda: a.T.copy()),
        "x[rows]": (lambda: x[i], lambda: a[rows]),
        "x[:, columns]": (lambda: x[:, i], lambda: a[:, rows]),
        "x[mask]": (lambda: x[wide], lambda: a[mask]),
        "x * row": (lambda: x * row, lambda: a * a[0]),
        "x * column": (lambda: x * column, lambda: a * a[:, :1]),
        "moveaxis": (
            lambda: dr.moveaxis(c, 0, 2),
            lambda: np.moveaxis(cube, 0, 2).copy(),
        ),
        "x[:n] = y": (assign(slice(half), y), set_item(slice(half), b)),
        "x[1:-1, 1:-1] = y": (
            assign((within, within), inner),
            set_item((within, within), d),
        ),
        "x[:, ::2] = 1": (
            assign((slice(None), slice(None, None, 2)), 1),
            set_item((slice(None), slice(None, None, 2)), 1),
        ),
        "x[rows] = y": (assign(i, x), set_item(rows, a)),
        "x[1:-1] += 1": (add(within), add_there(within)),
        "x[::-1] + 0": (lambda: x[::-1] + 0, lambda: a[::-1] + 0),
        "x[:, ::-1] + 0": (lambda: x[:, ::-1] + 0, lambda: a[:, ::-1] + 0),
        "x[:, ::-1] = 1": (assign((every, back), 1), set_item((every, back), 1)),
        "x[:, ::-1] = y": (assign((every, back), x), set_item((every, back), a)),
        "x[::-1] += 1": (add(back), add_there(back)),
        "x[:, ::-1] += 1": (add((every, back)), add_there((every, back))),
        "a[n - 1] + a[n + 1]": (stencil, stencil_there),
        "matmul, 1024": (lambda: q @ q, lambda: square @ square),
    }


def reductions() -> dict[str, tuple[Program, Program]]:
    """Return reductions of all types along all axes."""
    rng = np.random.default_rng(1)
    found: dict[str, tuple[Program, Program]] = {}

    def add(label: str, x: Any, a: Any, axis: int | None) -> None:
        def program(name: str) -> tuple[Program, Program]:
            ours, theirs = getattr(dr, name), getattr(np, name)
            return lambda: ours(x, axis), lambda: theirs(a, axis)

        names = ["min", "max", "argmin", "argmax", "median"]
        if a.dtype.kind == "f":
            names += ["mean", "std"]
        if a.dtype.kind == "b":
            names = ["any", "all", "argmin", "argmax"]
        found.update({f"{name}{label}": program(name) for name in names})

    for suffix in ("b", "i8", "u8", "i", "u", "i64", "f16", "f", "f64"):
        cls = getattr(llvm, f"TensorX{suffix}")
        for shape in ((SIDE, SIDE), (SIDE * SIDE // 3, 3), (3, SIDE * SIDE // 3)):
            a = (rng.random(shape) * 120).astype(cls([0]).numpy().dtype)
            x = cls(a)
            for axis in (None, 0, 1):
                add(f" {suffix} {shape[0]}x{shape[1]} {axis}", x, a, axis)
    x, a = TensorXf(a.astype(np.float32)), a.astype(np.float32)
    found["sum(x * x), axis 0"] = lambda: dr.sum(x * x, 0), lambda: (a * a).sum(0)
    found["sum(x * x), axis 1"] = lambda: dr.sum(x * x, 1), lambda: (a * a).sum(1)
    found["allclose"] = lambda: dr.allclose(x, x), lambda: np.allclose(a, a)
    return found


def timed(program: Program) -> float:
    """Return how long a program takes, in milliseconds."""
    start = time.perf_counter()
    result = program()
    if isinstance(result, dr.ArrayBase):
        dr.eval(result)
        dr.sync_thread()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Print the table."""
    make = reductions if "reductions" in sys.argv[1:] else programs
    for name, (ours, theirs) in make().items():
        pairs = [(timed(ours), timed(theirs)) for _ in range(REPEATS)]
        mine, other = (min(times) for times in zip(*pairs, strict=True))
        print(f"{name:24} {mine:8.2f} {other:8.2f} {mine / other:6.2f}")


if __name__ == "__main__":
    main()
