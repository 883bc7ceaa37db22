"""What calls look like in the generated code, and what makes another kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lumijit as lj
from lumijit.llvm import Float, UInt

Flag = lj.JitFlag


@pytest.fixture(autouse=True)
def _history() -> Iterator[None]:
    with lj.scoped_set_flag(Flag.KernelHistory, True):
        lj.kernel_history_clear()
        yield
        lj.kernel_history_clear()


def last_kernel(*results: Any) -> dict[str, Any]:
    """Evaluate and return the one kernel from a trace that this takes."""
    lj.kernel_history_clear()
    lj.eval(*results)
    (found,) = [k for k in lj.kernel_history() if k["type"] is lj.KernelType.JIT]
    return dict(found)


def code(kernel: dict[str, Any]) -> str:
    return re.sub(r"lumijit_\w+", "kernel", str(kernel["ir"]))


def packet(kernel: dict[str, Any]) -> list[str]:
    """Return the instructions that a kernel executes per packet or thread, by name."""
    text = re.split(r"\n(?:packet|element):", code(kernel))[1]
    return re.findall(r"= (?:call [^@]+@llvm\.)?(\w+)", text)


class Wave:
    def __init__(self, k: int, size: int = 4) -> None:
        self.scale = 2.0 + k
        self.shift = lj.opaque(Float, 0.25 * k)
        self.table = Float(np.arange(size) + k)

    def eval(self, x: Any, i: Any) -> Any:
        read = lj.gather(Float, self.table, i)
        return lj.sin(x * self.scale + self.shift) + read


def waves(count: int, offset: int = 0) -> tuple[list[Wave], Any]:
    base = type("Base", (), {})
    cls = type("Own", (Wave, base), {})
    objects = [cls(k + offset) for k in range(count)]
    return objects, lj.instance_array_t(Float, base)(objects)


def call(count: int, offset: int = 0, lanes: int = 100) -> tuple[Any, Any]:
    """Call instances; return the result and what it should be."""
    _kept, pointers = waves(count, offset)
    index = np.arange(lanes) * 7 % count
    array = lj.gather(type(pointers), pointers, UInt(index))
    x, i = lj.arange(Float, lanes), lj.arange(UInt, lanes) % 4
    lj.eval(array, x, i)
    result = lj.dispatch(array, Wave.eval, x, i)
    k = index + offset
    angle = np.arange(lanes) * (2.0 + k) + 0.25 * k
    return result, np.sin(angle) + np.arange(lanes) % 4 + k


def test_merged_bodies_appear_once() -> None:
    many, expected = call(1000)
    kernel = last_kernel(many)
    np.testing.assert_allclose(many.numpy(), expected, rtol=1e-3, atol=2e-3)
    few, _ = call(2)
    assert kernel["operation_count"] == last_kernel(few)["operation_count"]


@pytest.mark.parametrize("counts", [(1000, 1001), (2, 3), (40, 8)])
def test_the_number_of_instances_makes_no_other_kernel(counts: Any) -> None:
    first, second = (last_kernel(call(count)[0]) for count in counts)
    assert first["hash"] == second["hash"]
    assert second["cache_hit"]


def test_other_data_makes_no_other_kernel() -> None:
    first = last_kernel(call(50)[0])
    result, expected = call(50, 17)
    second = last_kernel(result)
    assert first["hash"] == second["hash"]
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-3, atol=2e-3)
    assert second["cache_hit"]


def test_flag_merge_functions() -> None:
    counts = []
    for count in (2, 5, 9):
        with lj.scoped_set_flag(Flag.MergeFunctions, False):
            result, expected = call(count)
        counts.append(last_kernel(result)["operation_count"])
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-4)
    assert counts[0] < counts[1] < counts[2]


def test_callables_that_compute_the_same_take_no_call() -> None:
    x = lj.opaque(Float, 3, 64)
    index = lj.opaque(UInt, 1, 64)
    targets = [lambda x, k=k: lj.sin(x) * 2 for k in range(5)]
    found = code(last_kernel(lj.switch(index, targets, x)))
    assert "; call" not in found


def test_flag_optimize_calls_moves_common_results() -> None:
    """One result is common, the other isn't."""
    found = {}
    for flag in (True, False):
        x, index = lj.opaque(Float, 3, 64), lj.opaque(UInt, 1, 64)
        targets = [
            lambda x: (lj.sin(x), lj.exp(x)),
            lambda x: (lj.sin(x), lj.cos(x * 2)),
        ]
        with lj.scoped_set_flag(Flag.OptimizeCalls, flag):
            common, other = lj.switch(index, targets, x)
        kernel = last_kernel(common, other)
        found[flag] = kernel["operation_count"]
        np.testing.assert_allclose(common.numpy(), np.sin([3.0] * 64), rtol=1e-5)
        np.testing.assert_allclose(other.numpy(), np.cos([6.0] * 64), rtol=1e-5)
    assert found[True] != found[False]


def test_flag_optimize_calls_passes_constants_on() -> None:
    counts = {}
    for flag in (True, False):
        x, index = lj.opaque(Float, 3, 64), lj.opaque(UInt, 1, 64)
        targets = [lambda x, y: lj.exp(x) * y, lambda x, y: lj.log(x) + (y - 1)]
        with lj.scoped_set_flag(Flag.OptimizeCalls, flag):
            found = lj.switch(index, targets, x, Float(1))
        counts[flag] = len(packet(last_kernel(found)))
        np.testing.assert_allclose(found.numpy(), np.log([3.0] * 64), rtol=1e-5)
    assert counts[True] < counts[False]


def unused(n_results: int, n_arguments: int) -> dict[str, Any]:
    """Return the kernel of a call with results and arguments that nobody uses."""
    x, index = lj.opaque(Float, 3, 64), lj.opaque(UInt, 1, 64)
    extra = [lj.opaque(Float, k, 64) for k in range(n_arguments)]

    def first(x: Any, *rest: Any) -> Any:
        return lj.exp(x), [lj.sin(x + r) for r in (*rest, 1, 2, 3)[:n_results]]

    def second(x: Any, *rest: Any) -> Any:
        return lj.log(x), [lj.cos(x * r) for r in (*rest, 1, 2, 3)[:n_results]]

    found, _ = lj.switch(index, [first, second], x, *extra)
    return last_kernel(found)


def test_dead_results_and_arguments_cost_nothing() -> None:
    plain = unused(0, 0)
    for results, arguments in ((0, 3), (3, 0), (2, 2)):
        found = unused(results, arguments)
        assert packet(found) == packet(plain)


def test_dead_results_of_nested_regions_cost_nothing() -> None:
    def kernel(is_dead: bool) -> dict[str, Any]:
        x, index = lj.opaque(Float, 3, 64), lj.opaque(UInt, 1, 64)

        def climb(x: Any, step: float) -> Any:
            state = (UInt(0), x, x) if is_dead else (UInt(0), x)

            def body(i: Any, v: Any, *rest: Any) -> Any:
                return i + 1, v * step, *[lj.sin(r) * step for r in rest]

            found = lj.while_loop(state, lambda i, *_: i < 5, body)
            return found[1], found[-1]

        targets = [lambda x: climb(x, 2.0), lambda x: climb(-x, 3.0)]
        return last_kernel(lj.switch(index, targets, x)[0])

    assert packet(kernel(True)) == packet(kernel(False))


def test_unmodified_state_in_callables_costs_nothing() -> None:
    def text(extra: int) -> str:
        x, index = lj.opaque(Float, 3, 64), lj.opaque(UInt, 1, 64)
        more = [lj.opaque(Float, k + 10, 64) for k in range(extra)]

        def climb(x: Any, *more: Any) -> Any:
            def body(i: Any, v: Any, *rest: Any) -> Any:
                return i + 1, v * 2.0, *rest

            state = (UInt(0), x, *more)
            return lj.while_loop(state, lambda i, *_: i < 5, body)[1]

        targets = [climb, lambda x, *_: lj.exp(x)]
        return code(last_kernel(lj.switch(index, targets, x, *more)))

    assert text(0) == text(3)


def test_thousands_of_instances_of_two_classes() -> None:
    class Flat(Wave):
        def eval(self, x: Any, i: Any) -> Any:
            return self.shift * x

    def mixed(count: int) -> dict[str, Any]:
        base = type("Base", (), {})
        kinds = [type("W", (Wave, base), {}), type("F", (Flat, base), {})]
        objects = [kinds[k % 2](k) for k in range(count)]
        pointers = lj.instance_array_t(Float, base)(objects)
        x, i = lj.arange(Float, count), lj.arange(UInt, count) % 4
        lj.eval(pointers, x, i)
        return last_kernel(lj.dispatch(pointers, lambda s, x, i: s.eval(x, i), x, i))

    first, second = mixed(2000), mixed(2003)
    assert first["hash"] == second["hash"]
    assert second["cache_hit"]
