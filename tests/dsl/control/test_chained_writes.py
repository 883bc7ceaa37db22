"""Symbolic loops that write to arrays which other loops' writes went into."""

from __future__ import annotations

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import Float, UInt


def count_up(target: Float, turns: UInt, value: float) -> None:
    def body(k: UInt) -> tuple[UInt]:
        dr.scatter_add(target, Float(value), k)
        return (k + 1,)

    dr.while_loop((UInt(0),), lambda k: k < turns, body)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_target_that_is_computed_of_written_arrays(is_shared: bool) -> None:
    turns = UInt(3, 2, 1)
    first = dr.zeros(Float, 4)
    count_up(first, turns, 1.0)
    second = first + 1
    other = second * 10 if is_shared else None
    count_up(second, turns, 2.0)
    count_up(second, turns, 4.0)
    written = np.array([3, 2, 1, 0])
    assert second.numpy().tolist() == (written * 7 + 1).tolist()
    assert first.numpy().tolist() == written.tolist()
    if other is not None:
        assert other.numpy().tolist() == ((written + 1) * 10).tolist()
