"""Compares a vectorized function with the same run element by element, as plain Python.

Functions take an integer and a float, and return numbers in tuples and lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import lumijit as lj
from lumijit.llvm.ad import Float64, Int

K = np.arange(13)
X = np.array([0.3, -1.2, 2.5, 0.7, 1.9, -0.4, 3.3, 0.05, -2.2, 1.1, 0.9, 4.4, -0.8])
Program = Callable[[Any, Any], Any]


def entries(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in entries(part)]
    return [value]


def expected(function: Program, k: Any, x: Any) -> list[Any]:
    return [float(v) for v in entries(function(int(k), float(x)))]


def check(function: Program, symbolic: bool) -> None:
    """Compare results and gradients; those of plain Python are differences."""
    x = Float64(X)
    lj.enable_grad(x)
    with (
        lj.scoped_set_flag(lj.JitFlag.SymbolicLoops, symbolic),
        lj.scoped_set_flag(lj.JitFlag.SymbolicConditionals, symbolic),
    ):
        found = entries(lj.syntax(function)(Int(K), x))
        total = sum(v for v in found if isinstance(v, Float64))
    want = [expected(function, *pair) for pair in zip(K, X, strict=True)]
    for column, value in zip(zip(*want, strict=True), found, strict=True):
        entry = value if isinstance(value, (int, float)) else value.numpy()
        np.testing.assert_allclose(np.broadcast_to(entry, len(K)), column, rtol=1e-9)
    if not lj.grad_enabled(total):
        return
    lj.backward(total)
    floats = [k for k, v in enumerate(found) if isinstance(v, Float64)]
    near = [
        [sum(expected(function, k, y + h)[j] for j in floats) for h in (1e-6, -1e-6)]
        for k, y in zip(K, X, strict=True)
    ]
    differences = [(up - down) / 2e-6 for up, down in near]
    np.testing.assert_allclose(x.grad, differences, rtol=1e-4, atol=1e-4)
