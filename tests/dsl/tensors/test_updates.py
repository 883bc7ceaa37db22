"""`x[k] += y` updates entries in place, and is what NumPy makes of it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.compiler.record import memory
from lumijit.llvm import Float, Int, TensorXf, UInt, ad
from lumijit.runtime.errors import SizeError
from tests import targets
from tests.dsl.tensors.common import MODES, MODULES, same

KEYS = [
    slice(1, -1),
    (slice(None), slice(None, None, 2)),
    (slice(None, None, -1), slice(3, 40)),
    (slice(None), slice(None, None, -1)),
    (slice(None, None, -2), slice(-2, None, -3)),
    (0, slice(5, 9)),
    (..., 7),
    slice(0, 0),
]
OPERATORS = [operator.iadd, operator.isub, operator.imul]
SIZES = [(5, 41), (3, 1003)]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    found = np.random.default_rng(3).integers(1, 3, shape)
    return found.astype(dtype)


@MODULES
@pytest.mark.parametrize("update", OPERATORS)
@pytest.mark.parametrize("suffix", ["f", "f16", "f64", "i", "u", "i64", "u8"])
def test_entries_are_those_of_numpy(module: Any, update: Any, suffix: str) -> None:
    cls = getattr(module, f"TensorX{suffix}")
    for shape in SIZES:
        a = numbers(shape, cls([1]).numpy().dtype)
        x = cls(a.copy())
        for key in KEYS:
            for other in (2, a[key].copy() % 3):
                a[key] = update(a[key], other)
                x[key] = update(x[key], other if np.ndim(other) == 0 else cls(other))
                same(x, a)


@pytest.mark.parametrize("target", ["vectors", "masks"])
@pytest.mark.parametrize("suffix", ["f", "f16", "i64", "u8"])
def test_kernels_of_either_form(target: str, suffix: str) -> None:
    with targets.generating_for(targets.target_of(target)):
        cls: Any = getattr(llvm, f"TensorX{suffix}")
        a = numbers((7, 33), cls([1]).numpy().dtype)
        x = cls(a.copy())
        for key in KEYS:
            x[key] += 2
            a[key] += 2
            same(x, a)


def copies(program: Callable[[], Any]) -> int:
    """Count the launches besides one kernel."""
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        dr.eval(program())
        return len(dr.kernel_history()) - 1


def test_nothing_is_copied() -> None:
    y = dr.arange(Float, 4096) + 1
    x = TensorXf(y * 2, (64, 64))
    dr.eval(x, y)

    def tensor() -> Any:
        x[1:-1] *= 2
        return x

    def flat() -> Any:
        y[5:4000] -= 3
        return y

    for program in (tensor, flat):
        assert copies(program) == 0


def test_what_was_read_before_stays() -> None:
    a = numbers((6, 50))
    x = TensorXf(a.copy())
    dr.eval(x)
    before = x[1:-1]
    other = TensorXf(x)
    x[1:-1] += 1
    same(before, a[1:-1])
    same(other, a)
    a[1:-1] += 1
    same(x, a)


def test_the_value_stays_what_it_is() -> None:
    a = numbers((6, 50))
    x = TensorXf(a.copy())
    dr.eval(x)
    y = x[1:-1] + 1
    twice = y * 2
    x[1:-1] = y
    a[1:-1] += 1
    x[2] = 0
    same(y, a[1:-1])
    same(twice, a[1:-1] * 2)
    a[2] = 0
    same(x, a)


def test_several_updates_before_an_evaluation() -> None:
    a = numbers((6, 50))
    x = TensorXf(a.copy())
    for k in range(4):
        x[k:] += k
        a[k:] += k
        x[:, k:] -= x[:, k:]
        a[:, k:] -= a[:, k:].copy()
        x[1:] += x[:-1]
        a[1:] += a[:-1].copy()
    same(x, a)


def test_flat_arrays_and_steps() -> None:
    a = np.arange(100)
    for x in (Int(a.copy()), scalar.ArrayXi(a.copy())):
        expected = a.copy()
        for key in (slice(1, None), slice(None, None, -3), slice(40, 10, -1)):
            x[key] += 7
            expected[key] += 7
            x[key] = 3 - x[key]
            expected[key] = 3 - expected[key]
        np.testing.assert_array_equal(x.numpy(), expected)


def test_derivatives_follow_updates() -> None:
    x = ad.TensorXf(numbers((4, 5)))
    dr.enable_grad(x)
    y = x * 1
    y[1:-1] *= x[1:-1]
    dr.backward(y)
    expected = np.ones((4, 5))
    expected[1:-1] = 2 * x.numpy()[1:-1]
    same(x.grad, expected)


def test_updates_in_branches_are_those_of_the_lanes() -> None:
    @dr.syntax
    def program(x: Any, i: Int) -> Any:
        if i > 0:
            x[1:-1] += 1
        return x

    for i, more in ((Int(1), 1), (Int(0), 0)):
        x = program(TensorXf(numbers((4, 5))), i)
        expected = numbers((4, 5))
        expected[1:-1] += more
        same(x, expected)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_update_that_is_cut_short_leaves_all_as_it_was(
    monkeypatch: pytest.MonkeyPatch, sign: int
) -> None:
    def cut_short(*_: Any) -> None:
        raise KeyboardInterrupt

    x = dr.arange(Float, 10)
    y = x[2:6] + 3 if sign > 0 else x[2:6] - 3
    with monkeypatch.context() as patch:
        patch.setattr(memory, "update", cut_short)
        with pytest.raises(KeyboardInterrupt):
            x[2:6] = y
    np.testing.assert_array_equal(y, np.arange(2, 6) + 3 * sign)
    np.testing.assert_array_equal(x, np.arange(10))


#: Selections that flat arrays of as many entries don't broadcast to.
PARTS = [
    slice(1, None),
    (slice(1, None), slice(None)),
    (slice(None, None, -1), slice(3, 0, -2)),
    (slice(1, None), None),
    ...,
    [2, 0],
    [True, False, True],
    ([[2], [0]], [3, 1]),
]


@MODULES
@pytest.mark.parametrize("key", PARTS, ids=str)
def test_flat_arrays_are_taken_in_order(module: Any, key: Any) -> None:
    a = numbers((3, 4))
    x = module.TensorXf(a.copy())
    entries = np.arange(a[key].size) + 10.0
    part = entries.reshape(a[key].shape)
    for cls in (dr.array_t(x), dr.int32_array_t(dr.array_t(x))):
        a[key] = part
        x[key] = cls(entries)
        same(x, a)
        for update in (*OPERATORS, operator.itruediv, operator.ipow):
            a[key] = update(a[key], (part % 3 + 1).astype(np.float32))
            x[key] = update(x[key], cls(entries % 3 + 1))
            same(x, a)


@MODULES
def test_flat_arrays_of_all_entries(module: Any) -> None:
    x = module.TensorXf(numbers((3, 4)))
    y, entries = x, dr.array_t(x)(np.arange(12))
    y[:] = entries
    y += entries
    same(x, 2 * np.arange(12).reshape(3, 4))
    same(module.TensorXf(entries), np.arange(12))
    y[:] = (y[::-1] * 2).array
    same(x, 4 * np.arange(12).reshape(3, 4)[::-1])


@MODULES
def test_what_broadcasts_keeps_its_meaning(module: Any) -> None:
    a = numbers((4, 4))
    x = module.TensorXf(a.copy())
    row = np.arange(4)
    a[:] = row
    x[:] = dr.array_t(x)(row)
    a[1:] += row
    x[1:] += dr.array_t(x)(row)
    same(x, a)
    # With operators, to a third shape. The selection has its own.
    column = dr.array_t(x)(row)
    y = x[:, :1]
    y += column
    same(y, a[:, :1] + row)
    with pytest.raises(SizeError, match=r"\(4, 4\) doesn't broadcast to .* \(4, 1\)"):
        x[:, :1] += column
    x[:, :1] = column
    a[:, :1] = row[:, None]
    same(x, a)


@MODULES
def test_types_are_those_of_operators(module: Any) -> None:
    x = module.TensorXi([[1, 2], [3, 4]])
    x += dr.array_t(module.TensorXf)([0.5] * 4)
    assert type(x) is module.TensorXf
    same(x, [[1.5, 2.5], [3.5, 4.5]])
    x @= module.TensorXf([2, 1])
    same(x, [5.5, 11.5])
    y = module.TensorXf([[1, 2], [3, 4]])
    with pytest.raises(SizeError, match="matmul"):
        y @= dr.array_t(y)(1, 2, 3, 4)


@MODULES
def test_nothing_else_is_taken_in_order(module: Any) -> None:
    x = module.TensorXf(numbers((3, 2)))
    flat = dr.array_t(x)
    other = module.TensorXf([1, 2, 3, 4])
    for value in (other, [1, 2, 3, 4], np.arange(4), flat(1, 2, 3)):
        with pytest.raises(SizeError, match=r"flat array with as many entries"):
            x[1:] = value
        with pytest.raises(SizeError, match=r"add: .* don't broadcast"):
            x[1:] += value
    with pytest.raises(SizeError, match=r"add: .* don't broadcast"):
        x + flat(range(6))
    with pytest.raises(SizeError, match=r"\(6,\) doesn't broadcast to .* \(2,\)"):
        x[[True, False, True], 0] = flat(range(6))


def test_entries_under_a_mask_are_no_flat_array() -> None:
    x, y = TensorXf(numbers((4, 2))), dr.arange(Float, 4)
    mask = y < 2
    with pytest.raises(SizeError, match="doesn't broadcast"):
        x[mask] = y[mask]


def test_derivatives_reach_flat_arrays() -> None:
    x, y = ad.TensorXf(numbers((3, 2))), dr.arange(ad.Float, 4)
    dr.enable_grad(x, y)
    z = x * 1
    z[1:] = y
    z[1:] *= y
    z[UInt(0, 2)] += y
    dr.backward(z)
    same(x.grad, [[1, 1], [0, 0], [0, 0]])
    np.testing.assert_array_equal(y.grad, 2 * np.arange(4) + 1)


@MODES
def test_flat_arrays_in_loops_and_branches(mode: str) -> None:
    @dr.syntax
    def program(x: Any, z: Any, i: Any, y: Any) -> Any:
        while dr.hint(i < 3, mode=mode):
            x[1:] = y
            if dr.hint(y > 1, mode=mode):
                x[::2] = 2 * y
            i += 1
        if dr.hint(y > 0, mode=mode):
            z[1:] += y
        return x, z

    start, y = numbers((3, 2)), np.arange(4).reshape(2, 2)
    i = dr.full(UInt, 2, 4)
    x, z = program(TensorXf(start), TensorXf(start), i, dr.arange(Float, 4))
    same(x, np.concatenate([start[:1], np.where(y > 1, 2 * y, y)]))
    same(z, np.concatenate([start[:1], start[1:] + y]))
