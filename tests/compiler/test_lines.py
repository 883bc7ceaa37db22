"""Positions by random expressions of counters: what first and last lanes tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit.llvm import Float, Int, UInt32

pytestmark = pytest.mark.usefixtures("each_target")

SIZE = 331
ENTRIES = 997
Numbers = Any

#: Operations on two integers, of which one may be a number.
OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (lambda x, y: x + y, np.add),
    "sub": (lambda x, y: x - y, np.subtract),
    "mul": (lambda x, y: x * y, np.multiply),
    "min": (dr.minimum, np.minimum),
    "max": (dr.maximum, np.maximum),
    "and": (lambda x, y: x & y, np.bitwise_and),
    "wrap": (
        lambda x, y: dr.select(x >= y, x - y, x),
        lambda x, y: np.where(x >= y, x - y, x),
    ),
    "choose": (
        lambda x, y: dr.select(x < y, y, x),
        lambda x, y: np.where(x < y, y, x),
    ),
}
NUMBERS = st.sampled_from([1, 2, 3, 7, 16, 31, 32, 40, 63, 100, 128, 300])


def quotient(x: Numbers, n: int) -> Numbers:
    return (
        (x // n).astype(x.dtype) if (x >= 0).all() else np.trunc(x / n).astype(x.dtype)
    )


@st.composite
def positions(draw: st.DrawFn) -> tuple[Any, Numbers]:
    """Return a vector of positions, and the same of NumPy."""
    array: Any = draw(st.sampled_from([UInt32, Int]))
    dtype: Any = np.uint32 if array is UInt32 else np.int32
    values = [(dr.arange(array, SIZE), np.arange(SIZE, dtype=dtype))]
    for _ in range(draw(st.integers(1, 7))):
        x, a = draw(st.sampled_from(values))
        number = draw(NUMBERS)
        step = draw(st.sampled_from([*OPERATIONS, "div", "mod", "shift", "back"]))
        if step == "div":
            values.append((x // number, quotient(a, number)))
        elif step == "mod":
            values.append((x % number, a - quotient(a, number) * dtype(number)))
        elif step == "shift":
            values.append((x >> (number % 9), a >> dtype(number % 9)))
        elif step == "back":
            values.append((number - x, dtype(number) - a))
        else:
            y, b = draw(st.sampled_from([*values, (number, dtype(number))]))
            ours, theirs = OPERATIONS[step]
            values.append((ours(x, y), theirs(a, b).astype(dtype)))
    index, k = draw(st.sampled_from(values[-3:]))
    # A position that is known while tracing is an error beyond the end.
    assume((k != k[0]).any())
    return index, k


def expected(table: Numbers, index: Numbers) -> Numbers:
    """Return entries; negative numbers count from the end, zero is beyond."""
    where = index.astype(np.int64)
    if index.dtype == np.int32:
        where = np.where(where < 0, where + len(table), where)
    inside = (where >= 0) & (where < len(table))
    return np.where(inside, table[np.where(inside, where, 0)], 0)


@settings(deadline=None, max_examples=150)
@given(st.lists(positions(), min_size=1, max_size=3), st.integers(0, 3))
def test_reads(where: list[tuple[Any, Numbers]], masked: int) -> None:
    table = np.random.default_rng(0).random(ENTRIES).astype(np.float32)
    with np.errstate(over="ignore"):
        total, wanted = Float(0), np.zeros(SIZE, np.float32)
        for place, (index, k) in enumerate(where):
            active: Any = True
            chosen = np.ones(SIZE, bool)
            if masked == place:
                active, chosen = (
                    index % 5 != 0,
                    k - quotient(k, 5) * k.dtype.type(5) != 0,
                )
            total += dr.gather(Float, Float(table), index, active)
            wanted += np.where(chosen, expected(table, k), 0).astype(np.float32)
    np.testing.assert_array_equal(total.numpy(), wanted)


@settings(deadline=None, max_examples=100)
@given(positions(), st.booleans())
def test_writes(where: tuple[Any, Numbers], is_added: bool) -> None:
    index, k = where
    places = k.astype(np.int64)
    if k.dtype == np.int32:
        places = np.where(places < 0, places + ENTRIES, places)
    inside = (places >= 0) & (places < ENTRIES)
    target, wanted = dr.zeros(Float, ENTRIES), np.zeros(ENTRIES, np.float32)
    if is_added:
        dr.scatter_add(target, Float(1), index)
        np.add.at(wanted, places[inside], 1)
    else:
        # Which of several elements stays isn't said: all write the same.
        value = (
            dr.select(index < 0, index + ENTRIES, index)
            if k.dtype == np.int32
            else index
        )
        dr.scatter(target, Float(value) * 2, index)
        wanted[places[inside]] = places[inside].astype(np.float32) * 2
    np.testing.assert_array_equal(target.numpy(), wanted)
