"""Compressed loops: what is dropped, and bodies that need all elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lumijit as lj
from lumijit.llvm import Array2u, Float, Int, UInt

from ..programs.modes import flags_of

LIMIT = [5, 0, 3, 9, 1, 2, 7, 3]


def widths(body: Callable[..., Any], *state: Any) -> tuple[list[int], tuple[Any, ...]]:
    """Run a loop of `LIMIT[k]` iterations for element k; note its widths."""
    found: list[int] = []

    def step(i: Any, limit: Any, *rest: Any) -> Any:
        found.append(lj.width(limit))
        return i + 1, limit, *body(i, *rest)

    result = lj.while_loop(
        (UInt(0), UInt(LIMIT), *state),
        lambda i, limit, *_: i < limit,
        step,
        mode="evaluated",
        compress=True,
    )
    assert list(result[0]) == LIMIT
    assert list(result[1]) == LIMIT
    return found, result[2:]


def test_finished_elements_are_dropped() -> None:
    found, (x,) = widths(lambda i, x: (x * 2,), Float(1))
    assert found == [8, 6, 5, 3, 3, 2, 2, 2, 2]
    assert list(x) == [2.0**n for n in LIMIT]


def test_gather_from_a_table_of_the_same_size() -> None:
    table = Int(range(8))
    found, (total, same) = widths(
        lambda i, total, table: (total + lj.gather(Int, table, i % 8), table),
        Int(0),
        table,
    )
    assert found[-1] == 2
    assert list(total) == [sum(k % 8 for k in range(n)) for n in LIMIT]
    assert list(same) == list(range(8))


def test_captured_array_of_the_same_size() -> None:
    """A captured array can't be compressed, so all elements go on."""
    captured = Int(range(8))
    _, (total,) = widths(lambda i, total: (total + captured,), Int(0))
    assert list(total) == [k * n for k, n in enumerate(LIMIT)]


def test_indexed_captured_array() -> None:
    captured = Int(range(8))
    bins = lj.zeros(Int, 8)

    def body(i: Any, total: Any) -> Any:
        lj.scatter_add(bins, 1, i % 8)
        return (total + lj.gather(Int, captured, i % 8),)

    _, (total,) = widths(body, Int(0))
    assert list(total) == [sum(k % 8 for k in range(n)) for n in LIMIT]
    hits = [k % 8 for n in LIMIT for k in range(n)]
    assert list(bins) == [hits.count(k) for k in range(8)]


def test_changed_and_indexed_array() -> None:
    def body(i: Any, x: Any) -> Any:
        return (x + lj.gather(Int, x, UInt(3)),)

    _, (x,) = widths(body, lj.full(Int, 1, 8))
    expected = [1] * 8
    for step in range(9):
        other = expected[3]
        expected = [
            v + other if step < n else v for v, n in zip(expected, LIMIT, strict=True)
        ]
    assert list(x) == expected


def test_scatter_into_state_of_the_same_size() -> None:
    target = lj.zeros(Int, 8)

    def body(i: Any, lane: Any, target: Any) -> Any:
        lj.scatter_add(target, 1, lane)
        return lane, target

    found, (_, same) = widths(body, lj.arange(UInt, 8), target)
    assert found[-1] == 2
    assert list(target) == list(same) == LIMIT


def test_errors_are_not_taken_for_compression() -> None:
    with pytest.raises(ValueError, match=r"incompatible sizes \(8, 3\)"):
        widths(lambda i, x: (x + Int(1, 2, 3),), Int(range(8)))


def test_an_iteration_that_is_given_up_leaves_nothing_behind() -> None:
    """The condition reads a buffer of all elements, once the body has run."""

    @lj.syntax
    def f(n: UInt, out: UInt, p: Array2u) -> UInt:
        left = lj.alloc_local(UInt, 1)
        left[0] = n
        i = UInt(0)
        while i < left[0]:
            i += 1
            lj.scatter_add(out, 1, UInt(0))
            p.y += 1
        return i

    n, out, p = UInt(1, 3, 7), lj.zeros(UInt, 1), Array2u(0, UInt(0, 0, 0))
    with flags_of("compressed"):
        assert list(f(n, out, p)) == [1, 3, 7]
    assert list(out) == [11]
    assert list(p.y) == [1, 3, 7]


@pytest.mark.parametrize("is_tracking", [False, True])
def test_results_are_not_copied_in_each_iteration(is_tracking: bool) -> None:
    """Also while something else is tracked."""
    variable = lj.llvm.ad.Float(1)
    lj.set_grad_enabled(variable, is_tracking)
    limit = lj.arange(UInt, 64) % 30
    with lj.scoped_set_flag(lj.JitFlag.KernelHistory, True):
        lj.kernel_history_clear()
        found = lj.while_loop(
            (UInt(0), limit),
            lambda i, limit: i < limit,
            lambda i, limit: (i + 1, limit),
            mode="evaluated",
            compress=True,
        )
        lj.eval(found)
        sizes = [entry["size"] for entry in lj.kernel_history()]
    assert list(found[0]) == list(limit)
    assert sizes.count(64) < 10
