"""In evaluated control flow, functions of whole arrays see all of their entries.

The mask of a branch or a loop is for what acts on its elements: gathers, scatters.
What sorts, joins or rearranges an array, whose size may be another one, has nothing to
do with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm.ad import Array3f, Float, TensorXf, UInt
from lumijit.runtime.errors import SizeError

_LANES = 4


def _rows(x: Float) -> TensorXf:
    return TensorXf(x, (2, len(x) // 2))


def _flat(function: Callable[[TensorXf], Any]) -> Callable[[Float], Any]:
    return lambda x: function(_rows(x)).array


WHOLE: dict[str, Callable[[Float], Any]] = {
    "sort": lj.sort,
    "sort, axis 0": _flat(lambda t: lj.sort(t, axis=0)),
    "sort, axis 1": _flat(lambda t: lj.sort(t, axis=1)),
    "median": lambda x: lj.median(x),
    "median, axis 1": _flat(lambda t: lj.median(t, axis=1)),
    "cumsum": lj.cumsum,
    "cumsum, axis 0": _flat(lambda t: lj.cumsum(t, axis=0)),
    "std": _flat(lambda t: lj.std(t, axis=0)),
    "sum": lambda x: lj.sum(x, mode="symbolic"),
    "block_sum": lambda x: lj.block_sum(x, 2, mode="symbolic"),
    "concat": lambda x: lj.concat([x, 2 * x]),
    "concat of tensors": lambda x: lj.concat([TensorXf(x), TensorXf(2 * x)]).array,
    "stack": lambda x: lj.stack([x, 2 * x], axis=1).array,
    "repeat": lambda x: lj.repeat(x, 3),
    "repeat by counts": lambda x: (
        lj.repeat(TensorXf(x), UInt(*range(len(x))), axis=0).array
    ),
    "tile": lambda x: lj.tile(x, 2),
    "reverse": lj.reverse,
    "a slice": lambda x: x[1:-1],
    "a slice of rows": _flat(lambda t: t[:, ::-1]),
    "transposition": _flat(lambda t: t.T),
    "ravel": lambda x: lj.ravel(Array3f(x, x + 1, x + 2)),
    "unravel": lambda x: lj.unravel(Array3f, lj.tile(x, 3)).y,
    "unravel, order C": lambda x: lj.unravel(Array3f, lj.tile(x, 3), order="C").y,
    "between rows": _flat(lambda t: lj.take_interp(t, 0.4, axis=0)),
    "meshgrid": lambda x: lj.meshgrid(x, x)[1],
    "resample": _flat(lambda t: lj.resample(t, (2, 7))),
    "convolve": _flat(lambda t: lj.convolve(t, "gaussian", filter_radius=1.5)),
    "matmul": _flat(lambda t: t @ t.T),
    "permutation": lambda x: lj.rng(1).permutation(x),
    "permutation of rows": _flat(lambda t: lj.rng(1).permutation(t)),
}


def _entries(name: str, size: int) -> tuple[Any, Any]:
    """Return what a function gives, and the gradient of a weighted sum of that."""
    x = Float(np.random.default_rng(size).normal(1.2, 1, size))
    lj.enable_grad(x)
    result = Float(WHOLE[name](x))
    lj.backward(lj.sum(result * Float(np.arange(len(result)) + 1.0)))
    return result.numpy(), x.grad.numpy()


def _in_branch(check: Callable[[], Float], lanes: UInt) -> Float:
    return lj.if_stmt((), lanes % 2 == 0, check, lambda: Float(0), mode="evaluated")


def _in_loop(check: Callable[[], Float], lanes: UInt) -> Float:
    def turn(k: UInt, total: Float) -> tuple[UInt, Float]:
        return k + 2, total + check()

    state = (lanes % 2, Float(0) + lj.zeros(Float, len(lanes)))
    return lj.while_loop(state, lambda k, _: k < 1, turn, mode="evaluated")[1]


def _in_call(check: Callable[[], Float], lanes: UInt) -> Float:
    return lj.switch(lanes % 2, [check, lambda: Float(0)], mode="evaluated")


@pytest.mark.parametrize("construct", [_in_branch, _in_loop, _in_call])
@pytest.mark.parametrize("size", [_LANES, 6])
@pytest.mark.parametrize("name", WHOLE)
def test_all_entries_are_seen(name: str, size: int, construct: Any) -> None:
    expected = _entries(name, size)

    def check() -> Float:
        for found, value in zip(_entries(name, size), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-5)
        return Float(1)

    found = construct(check, lj.arange(UInt, _LANES))
    np.testing.assert_array_equal(found.numpy(), [1, 0, 1, 0])


@pytest.mark.parametrize("size", [_LANES, 6])
@pytest.mark.parametrize("name", WHOLE)
def test_gradients_through_the_branch(name: str, size: int) -> None:
    expected = _entries(name, size)[1]
    x = Float(np.random.default_rng(size).normal(1.2, 1, size))
    lj.enable_grad(x)

    def total() -> Float:
        result = Float(WHOLE[name](x))
        return lj.sum(result * Float(np.arange(len(result)) + 1.0))

    lj.backward(lj.sum(_in_branch(total, lj.arange(UInt, _LANES))))
    np.testing.assert_allclose(x.grad.numpy(), 2 * expected, rtol=1e-5)


def test_indices_of_the_elements_are_masked() -> None:
    """Reads at positions that elements compute are of those that take part."""
    x = Float(1, 2, 3, 4)
    lanes = lj.arange(UInt, _LANES)

    def check() -> Float:
        np.testing.assert_array_equal(x[lanes].numpy(), [1, 0, 3, 0])
        return x[3 - lanes]

    np.testing.assert_array_equal(_in_branch(check, lanes).numpy(), [4, 0, 2, 0])


def test_other_numbers_of_indices_are_refused() -> None:
    lanes = lj.arange(UInt, _LANES)

    def write() -> Float:
        x = lj.zeros(Float, 6)
        x[0:2] = 5
        return Float(0)

    for access in (lambda: lj.take(Float(1, 2, 3), UInt(0, 2)), write):
        with pytest.raises(SizeError, match=r"2 entries .* has 4 elements"):
            _in_branch(access, lanes)
