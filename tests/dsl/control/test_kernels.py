"""How many kernels control flow takes, and what is in them."""

from __future__ import annotations

import re
from typing import Any

import pytest

import lumijit as lj
from lumijit.llvm import Float, Int, UInt


@pytest.fixture(autouse=True)
def _history() -> Any:
    with lj.scoped_set_flag(lj.JitFlag.KernelHistory, True):
        lj.kernel_history_clear()
        yield
        lj.kernel_history_clear()


def kernels() -> list[Any]:
    return [k for k in lj.kernel_history() if k["type"] is lj.KernelType.JIT]


@lj.syntax
def collatz(n: Any, limit: Any) -> Any:
    steps = UInt(0)
    while n > 1:
        if n & 1 == 0:
            n = n >> 1
        else:
            n = n * 3 + 1
        steps += 1
        limit = limit * 1
    return steps, limit


def test_symbolic_mode_takes_one_kernel() -> None:
    steps, _ = collatz(lj.arange(UInt, 100) + 1, Float(3))
    lj.eval(steps)
    assert len(kernels()) == 1


@pytest.mark.parametrize("is_compressed", [False, True])
def test_evaluated_mode_reuses_its_kernels(is_compressed: bool) -> None:
    n, steps = lj.arange(UInt, 100) + 1, lj.zeros(UInt, 100)
    found = []

    def body(n: Any, steps: Any) -> Any:
        found.append([k["cache_hit"] for k in kernels()])
        return lj.select(n & 1 == 0, n >> 1, n * 3 + 1), steps + 1

    lj.while_loop(
        (n, steps), lambda n, _: n > 1, body, mode="evaluated", compress=is_compressed
    )
    assert len(found) > 100
    assert all(all(hits) for hits in found[3:]), found[:6]
    if not is_compressed:
        assert all(found[2]), found[:4]


def loop_ir(extra: tuple[Any, ...]) -> str:
    """Return the code of a loop with further state that it leaves alone."""

    def body(i: Any, x: Any, *rest: Any) -> Any:
        return i + 1, x * 0.5 + 1, *rest

    x = lj.opaque(Float, 3, 64)
    n = lj.opaque(UInt, 9, 64)
    state = (lj.zeros(UInt, 64), x, *extra)
    result = lj.while_loop(state, lambda i, *_: i < n, body)
    lj.kernel_history_clear()
    lj.eval(result[1])
    (kernel,) = kernels()
    return re.sub(r"lumijit_\w+", "kernel", str(kernel["ir"]))


def test_unmodified_state_costs_nothing() -> None:
    unused = (
        lj.opaque(Float, 1, 64),
        Int(4),
        {"a": lj.arange(UInt, 64)},
        5,
        "text",
    )
    assert loop_ir(unused) == loop_ir(())


def test_unused_results_cost_nothing() -> None:
    def body(i: Any, x: Any, waste: Any) -> Any:
        return i + 1, x * 0.5, lj.sin(waste)

    def code(waste: Any) -> tuple[int, str]:
        n = lj.opaque(UInt, 9, 64)
        state = (lj.zeros(UInt, 64), lj.opaque(Float, 3, 64), waste)
        result = lj.while_loop(state, lambda i, *_: i < n, body)
        lj.kernel_history_clear()
        lj.eval(result[1])
        (kernel,) = kernels()
        return kernel["operation_count"], str(kernel["ir"])

    count, ir = code(lj.opaque(Float, 1, 64))
    assert "sin" not in ir
    assert count < 16


def test_constant_state_is_folded() -> None:
    def body(i: Any, x: Any, scale: Any) -> Any:
        return i + 1, x * scale + 1, scale

    def code(scale: Any) -> str:
        n = lj.opaque(UInt, 9, 64)
        state = (lj.zeros(UInt, 64), lj.opaque(Float, 3, 64), scale)
        result = lj.while_loop(state, lambda i, *_: i < n, body)
        lj.kernel_history_clear()
        lj.eval(result[1])
        (kernel,) = kernels()
        return str(kernel["ir"])

    assert "fmul" in code(lj.opaque(Float, 1, 64))
    assert "fmul" not in code(Float(1))


def test_other_numbers_reuse_the_kernel() -> None:
    for start in (1, 2, 3):
        i = lj.zeros(UInt, 64) + start
        n = lj.opaque(UInt, 9 + start, 64)
        (i,) = lj.while_loop((i,), lambda i, n=n: i < n, lambda i, s=start: (i + s,))
        lj.eval(i)
    hits = [k["cache_hit"] for k in kernels() if k["operation_count"] > 1]
    assert hits[1:] == [True] * (len(hits) - 1)


def test_branch_hands_equal_results_through() -> None:
    x = lj.opaque(Float, 3, 64)
    y = lj.opaque(Float, 4, 64)
    same, _ = lj.if_stmt(
        (x, y), x > 2, lambda x, y: (x, y + 1), lambda x, y: (x, y), mode="symbolic"
    )
    assert same.index == x.index
