"""Loops whose conditions read local memory at a counter that the lanes share.

Lanes that have left stand elsewhere than the others; they must stay out, and what is
read afterwards is read where each of them stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import Float, UInt

from ..programs.modes import MODES, flags_of

LENGTH = 9
SIZE = 203


def buffer_of(columns: list[Any]) -> Any:
    """Put one array for each entry into a buffer; numbers make a list."""
    if not isinstance(columns[0], Float):
        return list(columns)
    buffer = dr.alloc_local(Float, len(columns))
    for k, column in enumerate(columns):
        buffer[k] = column
    return buffer


def insertion_sort(columns: list[Any], zero: Any) -> Any:
    b = buffer_of(columns)
    i = zero + 1
    while i < LENGTH:
        x = b[i]
        j = i
        while (j > 0) and (b[j - 1] > x):
            b[j] = b[j - 1]
            j -= 1
        b[j] = x
        i += 1
    return [b[k] for k in range(LENGTH)]


def heap_sort(columns: list[Any], zero: Any) -> Any:
    b = buffer_of(columns)
    start = zero + LENGTH // 2
    end = zero + LENGTH
    while end > 1:
        if start > 0:
            start -= 1
        else:
            end -= 1
            top = b[0]
            b[0] = b[end]
            b[end] = top
        k = start
        moves = True
        while moves:
            child = 2 * k + 1
            if child >= end:
                break
            if (child + 1 < end) and (b[child + 1] > b[child]):
                child += 1
            moves = b[child] > b[k]
            if moves:
                moved = b[k]
                b[k] = b[child]
                b[child] = moved
                k = child
    return [b[k] for k in range(LENGTH)]


def first_rises(columns: list[Any], zero: Any) -> Any:
    """Find in each round the first rise after the last one found."""
    b = buffer_of(columns)
    j = zero
    total = b[0] * 0
    rounds = zero + 0
    while rounds < 4:
        while (j + 1 < LENGTH) and (b[j + 1] <= b[j]):
            j += 1
        if j + 1 >= LENGTH:
            break
        total = total + b[j + 1] - b[j]
        j += 1
        rounds += 1
    return [total + b[j], j, rounds]


def shared_search(columns: list[Any], zero: Any) -> Any:
    """Look for pairs of close numbers, with the inner counter starting anew."""
    b = buffer_of(columns)
    i = zero
    pairs = zero + 0
    while i < LENGTH:
        j = i + 1
        while j < LENGTH:
            if abs(b[i] - b[j]) < 2:
                break
            j += 1
        if j < LENGTH:
            pairs += 1
            b[i] = b[j] + i
        i += 1
    return [pairs, *(b[k] for k in range(LENGTH))]


PROGRAMS = [insertion_sort, heap_sort, first_rises, shared_search]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(function: Callable[..., Any], mode: str) -> None:
    values = np.random.default_rng(5).integers(0, 12, (LENGTH, SIZE)).astype(float)
    rows = [function(values[:, n].tolist(), 0) for n in range(SIZE)]
    with flags_of(mode):
        columns = [Float(column) for column in values]
        found = dr.syntax(function)(columns, UInt(0))
        dr.eval(found)
    for k, array in enumerate(found):
        assert array.numpy().tolist() == [row[k] for row in rows], k


def test_lanes_that_left_are_not_tested_at_the_counter_of_the_others() -> None:
    b = dr.alloc_local(Float, 3)
    b[0], b[1], b[2] = Float(0), Float(9), Float(1, 9)
    (j,) = dr.while_loop((UInt(2),), lambda j: b[j] > 1.5, lambda j: (j - 1,))
    assert j.numpy().tolist() == [2, 0]


@pytest.mark.parametrize("first", [0, 1])
def test_results_of_a_loop_with_a_buffer_can_be_evaluated_apart(first: int) -> None:
    h = dr.alloc_local(UInt, 4, value=0)

    def count(t: UInt, i: UInt) -> UInt:
        h[i % 4] += 1
        return t + 1

    def body(t: UInt, i: UInt) -> tuple[UInt, UInt]:
        t = dr.if_stmt((t, i), i % 2 == 0, count, lambda t, i: t)
        return t, i + 1

    n = UInt(1, 2, 3, 8)
    t, _ = dr.while_loop((UInt(0), UInt(0)), lambda t, i: i < n, body)
    results = [t, h[0]]
    expected = [[1, 1, 2, 4], [1, 1, 1, 2]]
    for k in (first, 1 - first):
        assert results[k].numpy().tolist() == expected[k]


def test_a_buffer_that_a_branch_writes_and_nobody_reads() -> None:
    h = dr.alloc_local(UInt, 4, value=0)

    def write(i: UInt) -> None:
        h[i % 4] = i

    def body(i: UInt) -> tuple[UInt]:
        dr.if_stmt((i,), i % 2 == 0, write, lambda i: None)
        return (i + 1,)

    (i,) = dr.while_loop((UInt(0),), lambda i: i < UInt(1, 5), body)
    assert i.numpy().tolist() == [1, 5]
