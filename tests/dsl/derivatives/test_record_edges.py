"""Derivatives of every elementwise record at edges, where it is masked, and of nothing.

Each runs in a branch in a loop, symbolic and evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import pytree
from lumijit.compiler.ir.ops.record import REGISTRY
from lumijit.llvm.ad import Bool, Float64, UInt32
from tests.dsl.derivatives.test_operations import BINARY, OTHERS, UNARY

INF, NAN = float("inf"), float("nan")
RECORDS: dict[str, Callable[..., Any]] = {
    **{k: f for k, (f, _) in UNARY.items()},
    **BINARY,
}
LOG2 = float(np.log(2))
EULER = 0.5772156649015329
FLAGS = (
    dr.JitFlag.SymbolicLoops
    | dr.JitFlag.SymbolicConditionals
    | dr.JitFlag.SymbolicCalls
)

# The points, argument by argument, and the derivatives there.
Rows = list[list[float]]
EDGES: dict[str, tuple[Rows, Rows]] = {
    "neg": ([[0.0, -0.0]], [[-1, -1]]),
    "abs": ([[0.0, -0.0, -INF]], [[0, 0, -1]]),
    "sqrt": ([[0.0, -1, INF]], [[INF, NAN, 0]]),
    "rcp": ([[0.0, -0.0, INF]], [[-INF, -INF, 0]]),
    "rsqrt": ([[0.0, INF, -1]], [[-INF, 0, NAN]]),
    "floor": ([[0.0, 1, -2]], [[0, 0, 0]]),
    "ceil": ([[0.0, 1, -2]], [[0, 0, 0]]),
    "trunc": ([[0.0, 1, -2]], [[0, 0, 0]]),
    "round": ([[0.5, 1.5, -0.5]], [[0, 0, 0]]),
    "sin": ([[0.0, -0.0]], [[1, 1]]),
    "cos": ([[0.0, -0.0]], [[0, 0]]),
    "tan": ([[0.0, -0.0]], [[1, 1]]),
    "asin": ([[-1, 1, 0, 1.5]], [[INF, INF, 1, NAN]]),
    "acos": ([[-1, 1, 0, 1.5]], [[-INF, -INF, -1, NAN]]),
    "atan": ([[0, INF, -INF]], [[1, 0, 0]]),
    "sinh": ([[0.0, -0.0]], [[1, 1]]),
    "cosh": ([[0.0, -0.0]], [[0, 0]]),
    "tanh": ([[0, INF, -INF, 400]], [[1, 0, 0, 0]]),
    "asinh": ([[0.0, -0.0, INF]], [[1, 1, 0]]),
    "acosh": ([[1, 1e200, 0.5]], [[INF, 1e-200, NAN]]),
    "atanh": ([[0, 1, -1]], [[1, INF, INF]]),
    "exp": ([[0, -INF, -800]], [[1, 0, 0]]),
    "exp2": ([[0, -INF]], [[LOG2, 0]]),
    "log": ([[0, 1, INF]], [[INF, 1, 0]]),
    "log2": ([[0, 1, INF]], [[INF, 1 / LOG2, 0]]),
    "half_power": ([[0.0, -0.0, 4, -1]], [[0, 0, 20, NAN]]),
    "cbrt": ([[0.0, -0.0, -8]], [[INF, INF, 1 / 12]]),
    "erf": ([[0, INF, 30]], [[2 / np.sqrt(np.pi), 0, 0]]),
    "erfinv": ([[0, 1, -1]], [[np.sqrt(np.pi) / 2, INF, INF]]),
    "lgamma": ([[1, 2, 0, INF]], [[-EULER, 1 - EULER, -INF, INF]]),
    "copy": ([[0.0, -0.0]], [[1, 1]]),
    "cast": ([[0.0, -0.0]], [[1, 1]]),
    "add": ([[0, 1], [0, -1]], [[1, 1], [1, 1]]),
    "sub": ([[0, 1], [0, 1]], [[1, 1], [-1, -1]]),
    "mul": ([[0, 0, 3], [0, 5, 0]], [[0, 5, 0], [0, 0, 3]]),
    "div": ([[0, 1, 0], [2, INF, 0]], [[0.5, 0, INF], [0, 0, NAN]]),
    "mod": ([[0, 3, -3], [3, 3, 3]], [[1, 1, 1], [0, -1, 1]]),
    "min": ([[1, 0, -0.0], [1, -0.0, 0]], [[1, 1, 1], [0, 0, 0]]),
    "max": ([[1, 0, -0.0], [1, -0.0, 0]], [[0, 0, 0], [1, 1, 1]]),
    "power": ([[1, 2, 3], [0, 0, 1]], [[0, 0, 1], [0, LOG2, 3 * np.log(3)]]),
    "atan2": ([[0, 0, -0.0], [1, -1, -1]], [[1, -1, -1], [0, 0, 0]]),
    "copysign": ([[0, 2, -2], [1, 0, -0.0]], [[0, 1, 1], [0, 0, 0]]),
    "mulsign": ([[0, 2, -2], [1, -1, -0.0]], [[1, -1, 1], [0, 0, 0]]),
    "fma": ([[0, 0, 1], [0, 3, 0]], [[0, 3, 2], [0, 0, 1]]),
    "select": ([[1, 0], [1, 0]], [[1, 1], [-1, -1]]),
}


def nested(function: Callable[..., Any], active: Any = True) -> Callable[..., Any]:
    """Return a function that computes it in the second turn of a loop, if active."""

    def turn(i: Any, total: Any, *args: Any) -> Any:
        is_on = (i == 1) & active
        found = dr.if_stmt(args, is_on, function, lambda *_: Float64(0))
        return i + 1, total + found, *args

    def run(*args: Any) -> Any:
        start = (UInt32(0), dr.zeros(Float64, len(args[0])), *args)
        return dr.while_loop(start, lambda i, *_: i < 2, turn)[1]

    return run


@contextmanager
def control_flow(mode: str) -> Iterator[None]:
    with dr.scoped_set_flag(FLAGS, mode == "symbolic"):
        yield


def derivatives(function: Callable[..., Any], points: Rows) -> tuple[Rows, list[float]]:
    """Return those in reverse mode, and along all arguments at once in forward mode."""
    arrays = [Float64(p) for p in points]
    pulled = dr.vjp(function, *arrays)[1](1)
    pushed = dr.jvp(function, arrays, [1] * len(arrays))[1]
    dr.eval(pulled, pushed)
    return [found.numpy().tolist() for found in pulled], pushed.numpy().tolist()


@pytest.mark.parametrize("name", RECORDS)
def test_in_control_flow(name: str) -> None:
    points = [UNARY[name][1]] if name in UNARY else [(0.3, -2, 1.5), (1.1, 0.7, -0.6)]
    dr.gradcheck(nested(RECORDS[name]), *(Float64(p) for p in points))


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("name", RECORDS)
def test_edges(name: str, mode: str) -> None:
    points, expected = EDGES[name]
    with control_flow(mode):
        found, along = derivatives(nested(RECORDS[name]), points)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-13)
    np.testing.assert_allclose(along, np.sum(expected, axis=0), rtol=1e-13)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("name", RECORDS)
def test_where_nothing_is_active(name: str, mode: str) -> None:
    """Derivatives are 0, whatever those of the operation would be."""
    points, _ = EDGES[name]
    lanes = len(points[0])
    active = dr.opaque(Bool, False, lanes)
    with control_flow(mode):
        found, along = derivatives(nested(RECORDS[name], active), points)
    assert found == [[0] * lanes] * len(points)
    assert along == [0] * lanes


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("name", RECORDS)
def test_of_nothing(name: str, mode: str) -> None:
    points: Rows = [[] for _ in EDGES[name][0]]
    with control_flow(mode):
        found, along = derivatives(nested(RECORDS[name]), points)
    assert (found, along) == (points, [])


@pytest.mark.parametrize("name", sorted({*OTHERS} - {"reshape"}))
def test_other_functions_of_nothing(name: str) -> None:
    x = Float64([])
    (found,) = dr.vjp(OTHERS[name], x)[1](1)
    value, along = dr.jvp(OTHERS[name], [x], [1])
    dr.eval(value, along)
    assert found.numpy().tolist() == []
    for (path, leaf), (_, tangent) in zip(
        pytree.tree_leaves(value), pytree.tree_leaves(along), strict=True
    ):
        assert tangent.numpy().shape == leaf.numpy().shape, path
        # The mean of nothing isn't a number.
        assert not tangent.numpy()[~np.isnan(leaf.numpy())].any(), path


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("index", [[], [1, 1, 9, 0]])
@pytest.mark.parametrize("op", [dr.ReduceOp.Add, dr.ReduceOp.Mul, dr.ReduceOp.Min])
def test_reads_and_updates(op: Any, index: list[int], active: bool) -> None:
    """Of no entries, of all, and of none as masks are off; 9 is out of range."""

    def function(table: Any, v: Any) -> Any:
        at, target = UInt32(index), table * table
        mask = dr.opaque(Bool, active) & (at < 3)
        read = dr.gather(Float64, table, at, mask)
        dr.scatter_reduce(op, target, v * read, at, mask)
        return read * v, target

    dr.gradcheck(function, Float64(0.3, -0.7, 1.1), Float64(np.arange(len(index)) + 2))


def test_every_elementwise_record_has_edges() -> None:
    records = {n for n, op in REGISTRY.items() if isinstance(op.derivative, tuple)}
    assert records <= set(EDGES)
    assert set(EDGES) == set(RECORDS)
