"""Reductions of PyTrees, and reductions in symbolic mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.functions import reductions
from lumijit.runtime.errors import SymbolicError

OPS: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "prod": np.prod,
    "min": np.min,
    "max": np.max,
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("space", [llvm, scalar])
def test_everything_in_a_tree(name: str, space: Any) -> None:
    nested = getattr(dr, f"{name}_nested")
    array = space.Array3f(1.5, 2, -3)
    tree = {"a": [array, (4, 0.5)], "b": space.ArrayXf(2, -0.25, 1)}
    everything = [1.5, 2, -3, 4, 0.5, 2, -0.25, 1]
    found = nested(tree)
    value = found[0] if isinstance(found, dr.ArrayBase) else found
    while isinstance(value, dr.ArrayBase):
        value = value[0]
    assert value == OPS[name](everything)
    assert nested([1, [2, 3]]) == OPS[name]([1, 2, 3])
    assert nested(7) == 7


def test_nothing() -> None:
    assert dr.sum_nested([]) == 0
    assert dr.prod_nested({}) == 1
    assert dr.min_nested(()) == float("inf")
    assert dr.max_nested([[]]) == float("-inf")


@pytest.mark.parametrize("size", [0, 1, 2, 31, 70001])
@pytest.mark.parametrize("name", ["Int", "UInt64", "Float64", "Float", "Float16"])
def test_symbolic_reductions(name: str, size: int) -> None:
    cls = getattr(llvm, name)
    dtype = cls(1).numpy().dtype
    x = np.random.default_rng(size).integers(1, 9, size).astype(dtype)
    value = cls(x) + cls(1)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history()
        for op in (dr.sum, dr.min, dr.max):
            expected = op(cls(x + dtype.type(1)), mode="evaluated")
            assert list(op(value, mode="symbolic")) == list(expected)
    if size > 1:
        assert value.state is dr.VarState.Unevaluated


def test_symbolic_masks_and_bits() -> None:
    x = dr.arange(llvm.UInt, 100)
    assert list(dr.reduce(dr.ReduceOp.Or, x * 2, mode="symbolic")) == [254 & ~1]
    assert list(dr.reduce(dr.ReduceOp.And, x | 64, mode="symbolic")) == [64]
    mask = x < 100
    assert list(dr.reduce(dr.ReduceOp.And, mask, mode="symbolic")) == [True]
    assert list(dr.reduce(dr.ReduceOp.Or, ~mask, mode="symbolic")) == [False]


def test_symbolic_reductions_along_axes() -> None:
    x = llvm.Array2f(dr.arange(llvm.Float, 10), dr.ones(llvm.Float, 10))
    assert dr.sum(x, axis=None, mode="symbolic")[0] == 55
    assert dr.sum(x, axis=1, mode="symbolic").numpy().ravel().tolist() == [45, 10]
    assert dr.mean(x, axis=1, mode="symbolic").numpy().ravel().tolist() == [4.5, 1]


def test_huge_arrays_are_reduced_where_they_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reductions, "HUGE_BYTES", 4000)
    x = dr.arange(llvm.Float, 1000) * 2
    assert dr.sum(x)[0] == 999000
    assert x.state is dr.VarState.Unevaluated
    dr.eval(x)
    assert dr.sum(x)[0] == 999000
    small = dr.arange(llvm.Float, 999) * 2
    assert dr.sum(small)[0] == 997002
    assert small.state is dr.VarState.Evaluated


def test_symbolic_variables_are_refused() -> None:
    @dr.syntax
    def run(x: llvm.Float) -> llvm.Float:
        i = llvm.UInt(0)
        while i < 3:
            x += dr.sum(x, mode="symbolic")
            i += 1
        return x

    with pytest.raises(SymbolicError, match="can't be reduced to a value inside"):
        run(dr.arange(llvm.Float, 4))
