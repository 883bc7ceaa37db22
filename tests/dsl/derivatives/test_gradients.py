"""Gradients of variables: sizes, and what arrives from several sides."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm import ad
from lumijit.llvm.ad import Float64, UInt32

MIXED: list[tuple[Callable[[Any, Any], Any], float]] = [
    (lambda x, y: dr.sum(x + y) + x * 2, 5),
    (lambda x, y: x * 2 + dr.sum(x * y), 8),
    (lambda x, y: dr.sum(x * y) + x * x, 10),
    (lambda x, y: x * x + dr.sum(x * y) + x, 11),
    (lambda x, y: (x * x) * y * x, 72),
    (lambda x, y: (y + x) * y + x * 3, 15),
    (lambda x, y: dr.select(y > 1, x, y) + x, 5),
    (lambda x, y: dr.gather(Float64, x, UInt32(0)) + x * y, 9),
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


def test_loops_that_read_one_array() -> None:
    """The array's derivative is added up in memory by both, one after the other."""

    def loop(c: Any, table: Any) -> Any:
        index = UInt32(0, 1, 1)
        return dr.while_loop(
            (UInt32(0), c),
            lambda k, c: k < 3,
            lambda k, c: (k + 1, c * dr.gather(Float64, table, index)),
        )[1]

    c, table = Float64(0.1, 0.2, 0.3), Float64(1, 2, 3)
    dr.gradcheck(
        lambda c, t: (loop(c, t) + loop(c * 2, t), loop(loop(c, t), t)), c, table
    )


def test_loops_in_loops_that_read_one_array() -> None:
    """No zeros by values come back to an array of another size than the lanes."""

    def inner(c: Any, table: Any) -> Any:
        index = UInt32(0, 1, 1)
        return dr.while_loop(
            (UInt32(0), c),
            lambda k, c: k < 3,
            lambda k, c: (k + 1, dr.sin(c) * dr.gather(Float64, table, index)),
        )[1]

    def outer(c: Any, table: Any) -> Any:
        return dr.while_loop(
            (UInt32(0), c), lambda k, c: k < 2, lambda k, c: (k + 1, inner(c, table))
        )[1]

    dr.gradcheck(outer, Float64(0.1, 0.2, 0.3), Float64(1, 2, 3, 4, 5))


@dr.syntax
def _place_of_the_least(y: Any) -> Any:
    t, least, place = Float64(1), Float64(9), Float64(1)
    while t < 4:
        distance = t * y
        if distance < least:
            least = distance
            place = t
        t += 1
    return place


@dr.syntax
def _sum_of_places(x: Any) -> Any:
    still = dr.detach(x)
    total, k = Float64(0), UInt32(0)
    while k < 2:
        total += x * _place_of_the_least(still)
        k += 1
    return total


def test_what_only_a_condition_reads_in_a_nested_loop_gets_no_derivative() -> None:
    x = Float64(0.3, -0.7)
    dr.enable_grad(x)
    dr.backward(dr.sum(_sum_of_places(x)))
    assert list(x.grad) == [2, 6]


@pytest.mark.parametrize("mode", list(dr.ReduceMode), ids=str)
def test_a_gather_says_how_its_gradient_is_added(mode: dr.ReduceMode) -> None:
    """The mode reaches the scatter that adds up; of distinct entries, all are right."""
    source, index = Float64(1, 2, 3), UInt32(2, 0, 1)
    dr.enable_grad(source)
    read = dr.gather(Float64, source, index, mode=mode)
    assert read._node.vertex.mode == mode.trace_name
    dr.set_grad(read, [1, 10, 100])
    assert list(dr.backward_to(source)) == [10, 100, 1]


def test_reading_into_a_type_without_derivatives_detaches() -> None:
    source = Float64(1, 2)
    dr.enable_grad(source)
    read = dr.gather(dr.llvm.Float64, source, UInt32(1, 0))
    assert not dr.grad_enabled(Float64(read) * 2)


@dr.syntax
def skipping(x: Any, table: Any) -> Any:
    """The branch reads `k`, a number of the turn that no derivative flows through."""
    k = UInt32(0)
    while k < 3:
        k += 1
        if x > 0.2:
            x = x + dr.gather(Float64, table, k - 1) * x
    return x


def test_branches_in_loops_read_what_has_no_derivative() -> None:
    dr.gradcheck(skipping, Float64(0.5, 0.1), Float64(0.3, -0.2, 0.4))


def test_memory_shared_with_numpy_is_copied() -> None:
    """What NumPy writes later must not show in what is recorded."""
    source = np.full(20, 2, np.float64)
    x = Float64(source)
    dr.enable_grad(x)
    y = x * x
    dr.eval(y)
    source[:] = 100
    dr.backward(y)
    assert dr.all(x.grad == 4)

    x = Float64(2, 2, 2)
    view = x.numpy()
    dr.enable_grad(x)
    y = x * x
    dr.eval(y)
    view[:] = 100
    dr.backward(y)
    assert dr.all(x.grad == 4)


def test_memory_of_our_own_is_not_copied() -> None:
    x = dr.opaque(Float64, 1, shape=1000)
    dr.eval(x)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.enable_grad(x)
        dr.eval(x)
        assert dr.kernel_history() == []


TABLE = Float64(range(9))
VALUES = {
    "a counter": lambda: dr.arange(Float64, 5),
    "points": lambda: dr.linspace(Float64, 0, 1, 5),
    "a literal": lambda: dr.full(Float64, 2, 5),
    "an expression": lambda: dr.sin(dr.arange(Float64, 5) * 3),
    "entries": lambda: dr.gather(
        Float64, dr.opaque(Float64, 2, 9), dr.arange(UInt32, 5)
    ),
    "memory": lambda: dr.opaque(Float64, 2, 5),
}


@pytest.mark.parametrize("kind", VALUES)
def test_equal_values_that_are_made_again_are_no_variables(kind: str) -> None:
    make = VALUES[kind]
    x = make()
    dr.enable_grad(x)
    constant, other = make(), make()
    dr.enable_grad(other)
    assert not dr.grad_enabled(constant)
    dr.backward(x * constant)
    np.testing.assert_array_equal(dr.grad(x).numpy(), constant.numpy())
    np.testing.assert_array_equal(dr.grad(other).numpy(), 0)
    dr.backward(other * 3)
    np.testing.assert_array_equal(dr.grad(other).numpy(), 3)
    np.testing.assert_array_equal(dr.grad(x).numpy(), constant.numpy())


def test_a_value_that_becomes_a_variable_again_needs_no_kernel_of_its_own() -> None:
    x = dr.opaque(Float64, 2, 5)
    built = []
    for _ in range(5):
        dr.enable_grad(x)
        dr.backward(dr.sin(x) * x)
        gradient = dr.grad(x)
        dr.disable_grad(x)
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            dr.eval(gradient)
            entries = dr.kernel_history([dr.KernelType.JIT])
        built.append([entry["hash"] for entry in entries])
        assert dr.allclose(gradient, np.sin(2) + 2 * np.cos(2))
        x = dr.detach(x)
    assert built[2] == built[3] == built[4]


@pytest.mark.parametrize("name", ["Float64", "Array2f64", "TensorXf64", "Complex2f64"])
def test_deep_copies_are_variables_of_their_own(name: str) -> None:
    x = getattr(ad, name)([1, 2])
    dr.enable_grad(x)
    before = x * 2
    dr.set_grad(x, 5)
    set_before = np.array(x.grad)
    y = copy.deepcopy(x)
    assert dr.grad_enabled(y)
    np.testing.assert_array_equal(y.grad, set_before)
    dr.clear_grad(y)
    dr.backward(y * 3)
    np.testing.assert_array_equal(x.grad, set_before)
    assert not np.any(np.array(y.grad) == 5)
    # What was computed of a variable still depends on it, also as a copy.
    dr.clear_grad(x)
    dr.backward(copy.deepcopy(before))
    assert np.any(np.array(x.grad))


def test_all_entries_are_replaced() -> None:
    x = Float64(1, 2)
    dr.enable_grad(x)
    x[:] = x
    dr.backward(x * 2)
    assert list(x.grad) == [2, 2]
    y = Float64(0, 0)
    y[:] = x * 3
    y[0] = 5
    assert (list(x), list(y)) == ([1, 2], [5, 6])
    dr.clear_grad(x)
    dr.backward(y)
    assert list(x.grad) == [0, 3]
