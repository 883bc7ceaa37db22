"""Derivatives by the attributes of instances, whose methods become one body."""

from __future__ import annotations

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float64 as Float
from lumijit.llvm.ad import UInt32

COUNT = 5
RNG = np.random.default_rng(1)
A, B = (Float(RNG.uniform(0.2, 1, COUNT)) for _ in range(2))
TABLES = [Float(RNG.uniform(0, 1, 3)) for _ in range(COUNT)]
X = Float(RNG.uniform(0, 1, 7))
INDEX = UInt32(RNG.integers(0, COUNT, 7))


class Shape:
    def __init__(self, number: int, a: Float, b: Float, table: Float) -> None:
        self.number = float(number)
        self.a, self.b, self.table = a, b, table

    @dr.syntax
    def height(self, x):
        y, i = x * self.a + self.number, UInt32(0)
        while i < 3:
            y = dr.sin(y) * self.b + dr.gather(Float, self.table, i) * x
            if y > 0.3:
                y = y * self.a
            i += 1
        return y, self.b


def heights(a, b, tables, x):
    shapes = [Shape(k, *row) for k, row in enumerate(zip(a, b, tables, strict=True))]
    y, b = dr.switch(INDEX, [shape.height for shape in shapes], x)
    return y * b


def entries(values: Float) -> list[Float]:
    return [dr.gather(Float, values, UInt32(k)) for k in range(COUNT)]


@pytest.mark.parametrize("is_merging", [True, False])
def test_all_are_tracked(is_merging: bool) -> None:
    """Tables as well, which keeps the bodies apart."""
    with dr.scoped_set_flag(dr.JitFlag.MergeFunctions, is_merging):
        assert dr.gradcheck(
            lambda a, b, t, x: heights(entries(a), entries(b), t, x), A, B, TABLES, X
        )


def test_values_are_tracked_and_tables_are_not() -> None:
    assert dr.gradcheck(
        lambda a, b, x: heights(entries(a), entries(b), TABLES, x), A, B, X
    )


def test_some_are_tracked() -> None:
    """A third of the instances is tracked; the others are another body."""
    fixed = entries(B)

    def run(a):
        chosen = [v if k % 3 else fixed[k] for k, v in enumerate(entries(a))]
        return heights(chosen, entries(B), TABLES, X)

    assert dr.gradcheck(run, A)


@dr.syntax
def in_a_loop(a):
    """Calls in a loop, with one instance under several numbers."""

    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def apply(self, x):
            return dr.sin(x) * self.factor

    scales = [Scale(factor) for factor in entries(a)]
    scales += scales[:3]
    x, i = X, UInt32(0)
    while i < 3:
        pick = (INDEX + i) % (COUNT + 3)
        x = dr.switch(pick, [s.apply for s in scales], x) + 0.1
        i += 1
    return x


def test_calls_in_loops() -> None:
    assert dr.gradcheck(in_a_loop, A)


def _bodies(is_tracked: bool) -> int:
    values = entries(A)
    dr.eval(values)
    if is_tracked:
        dr.enable_grad(values)
    dr.switch(INDEX, [lambda x, v=v: x * v for v in values], X)
    y = dr.switch(INDEX, [lambda x, v=v: dr.sin(x * v) for v in values], X)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.eval(y)
        (entry,) = [e for e in dr.kernel_history() if e["operation_count"] > 10]
    return int(entry["operation_count"])


def test_tracked_instances_become_one_body_too() -> None:
    assert _bodies(True) <= _bodies(False) + 5
