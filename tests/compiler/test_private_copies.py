"""Private copies of a reduction's target: where they are worth it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import Float, UInt
from lumijit.runtime import workers


def launches(entries: int, values: int, loop: bool = False, mode: Any = None) -> int:
    """Add values at random; return how many kernels that took."""
    rng = np.random.default_rng(0)
    at = rng.integers(0, entries, values).astype(np.uint32)
    target, index = dr.zeros(Float, entries), UInt(at)
    dr.eval(target, index)
    chosen = dr.ReduceMode.Auto if mode is None else mode

    def add(turn: UInt) -> tuple[UInt]:
        dr.scatter_add(target, 1, index, mode=chosen)
        return (turn + 1,)

    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        if loop:
            dr.while_loop((dr.opaque(UInt, 0, values),), lambda i: i < 1, add)
        else:
            add(UInt(0))
        dr.eval(target)
        count = len(dr.kernel_history())
    expected = np.bincount(at, minlength=entries)
    np.testing.assert_array_equal(target.numpy(), expected)
    return count


def test_few_values_go_to_large_targets_atomically() -> None:
    # Enough values for threads: fewer run at once, which needs no copies either.
    atomic = launches(1_000_000, 60_000, mode=dr.ReduceMode.Local)
    copied = launches(1_000_000, 60_000, mode=dr.ReduceMode.Expand)
    assert atomic < copied
    assert launches(1_000_000, 60_000) == atomic
    assert launches(20_000, 200_000) == copied
    entries = 1_000_000
    values = entries * workers.slot_count() // 64  # a quarter of what is worth it
    for is_loop, mode in ((False, dr.ReduceMode.Local), (True, dr.ReduceMode.Expand)):
        wanted = launches(entries, values, is_loop, mode)
        assert launches(entries, values, is_loop) == wanted


def test_two_kernels_serve_all_sizes() -> None:
    hashes = set()
    for values in (5000, 6000, 50_000, 500_000, 700_000):
        for entries in (2000, 100_000, 500_000):
            with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
                dr.kernel_history_clear()
                target = dr.opaque(Float, 0, entries)
                index = dr.opaque(UInt, 0, values) + dr.arange(UInt, values) * 7919
                dr.scatter_add(target, 1, index % 2000)
                dr.eval(target)
                hashes |= {
                    entry["hash"]
                    for entry in dr.kernel_history()
                    if entry["type"] is dr.KernelType.JIT
                }
    assert len(hashes) <= 3


@pytest.mark.parametrize("entries", [1, 7, 20_000])
@pytest.mark.parametrize("values", [1, 100, 30_000])
def test_sums_agree(entries: int, values: int) -> None:
    launches(entries, values)
