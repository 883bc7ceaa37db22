"""Gradients of variables: sizes, and what arrives from several sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm.ad import Float64, UInt32

MIXED: list[tuple[Callable[[Any, Any], Any], float]] = [
    (lambda x, y: dr.sum(x + y) + x * 2, 5),
    (lambda x, y: x * 2 + dr.sum(x * y), 8),
    (lambda x, y: dr.sum(x * y) + x * x, 10),
    (lambda x, y: x * x + dr.sum(x * y) + x, 11),
    (lambda x, y: (x * x) * y * x, 72),
    (lambda x, y: (y + x) * y + x * 3, 15),
    (lambda x, y: dr.select(y > 1, x, y) + x, 5),
    (lambda x, y: dr.gather(Float64, x, dr.llvm.ad.UInt32(0)) + x * y, 9),
]


@pytest.mark.parametrize(("function", "expected"), MIXED)
def test_one_entry_for_all_and_for_itself(
    function: Callable[[Any, Any], Any], expected: float
) -> None:
    """What arrives per element is summed up, what arrives once counts once."""
    for before in (0, 100):
        x = Float64(2)
        dr.enable_grad(x)
        dr.set_grad(x, before)
        dr.backward(dr.sum(function(x, Float64(1, 2, 3))))
        assert x.grad == expected + before


def test_gathers_from_one_array_give_it_their_gradients_in_one_kernel() -> None:
    x = Float64(*range(8))
    dr.enable_grad(x)
    i = dr.arange(UInt32, 20)
    parts = [dr.gather(Float64, x, (i + k) % 8) * (k + 1) for k in range(4)]
    dr.backward(dr.sum(sum(parts)))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        dr.eval(x.grad)
        (entry,) = dr.kernel_history([dr.KernelType.JIT])
    assert entry["size"] == 20
    expected = [0] * 8
    for lane in range(20):
        for k in range(4):
            expected[(lane + k) % 8] += k + 1
    assert list(x.grad) == expected
