"""Writes inside of constructs go to the array itself, or a copy if others hold it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import Float, UInt


def _adding(kind: str, film: Float, idx: UInt, count: UInt) -> Callable[[], object]:
    """Return code that adds to a film inside of a construct."""

    def add(value: Any) -> Any:
        dr.scatter_add(film, 1, idx)
        return value

    def turn(i: UInt) -> tuple[UInt]:
        if kind == "nested":
            i = dr.if_stmt((i,), i < 2, add, lambda i: i)
        else:
            add(i)
        return (i + 1,)

    constructs: dict[str, Callable[[], object]] = {
        "branch": lambda: dr.if_stmt((idx,), idx > 3, add, lambda i: i),
        "call": lambda: dr.switch(idx % 2, [add, add], idx),
    }
    start = (dr.zeros(UInt, len(idx)),)
    return constructs.get(kind, lambda: dr.while_loop(start, lambda i: i < count, turn))


def _address(array: Float) -> int:
    buffer = array._node.buffer
    assert buffer is not None
    return buffer.address


@pytest.mark.parametrize("is_planned", [False, True])
@pytest.mark.parametrize("kind", ["loop", "nested", "branch", "call"])
def test_regions_write_in_place_unless_others_hold_the_array(
    kind: str, is_planned: bool
) -> None:
    film, idx, count = dr.zeros(Float, 100), dr.arange(UInt, 100), dr.opaque(UInt, 2)
    dr.eval(film, idx)
    dr.scatter_add(film, 1, idx)
    dr.eval(film)
    run = _adding(kind, film, idx, count)
    for is_held in (False, True):
        before, address = film.numpy().copy(), _address(film)
        held = Float(film) if is_held else None
        run()
        # What is read by index has to be in memory first.
        others = [dr.gather(Float, Float(idx) * 2, idx)] if is_planned else []
        dr.eval(film, others)
        assert (_address(film) == address) is not is_held
        assert np.all(film.numpy() >= before)
        assert film.numpy().sum() > before.sum()
        if held is not None:
            np.testing.assert_array_equal(held.numpy(), before)
