"""Gathers and scatters by instruction, and lane by lane, where the target says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm
from lumijit.compiler.launch import kernels
from lumijit.llvm import Bool, Float, UInt32
from tests.targets import generating_for

TYPES = ("Float", "Float64", "Float16", "UInt8", "Int", "Int64")


@pytest.fixture(params=["masks", "vectors"])
def has_masks(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "masks")


@pytest.fixture(params=["fast", "slow"], autouse=True)
def is_fast(request: pytest.FixtureRequest, has_masks: bool) -> Iterator[bool]:
    fast = request.param == "fast"
    target = kernels.target()._replace(
        has_masks=has_masks, has_avx512=False, has_fast_gathers=fast
    )
    with generating_for(target):
        yield fast


def code_of(program: Any, capsys: pytest.CaptureFixture[str]) -> str:
    with dr.scoped_set_flag(dr.JitFlag.PrintIR, True):
        dr.eval(program())
    return capsys.readouterr().out


@dr.syntax
def insertion_sort(seed: UInt32, count: int) -> Float:
    """Sort random numbers in local memory; sum them, weighted by their places."""
    kept = dr.alloc_local(Float, count)
    i = UInt32(0)
    while i < count:
        seed = seed * 1664525 + 1013904223
        item = Float(seed >> 12)
        j = UInt32(i)
        while (j > 0) & (kept[j - 1] > item):
            kept[j] = kept[j - 1]
            j -= 1
        kept[j] = item
        i += 1
    total, i = Float(0), UInt32(0)
    while i < count:
        total += kept[i] * Float(i + 1)
        i += 1
    return total


def test_local_memory(is_fast: bool, has_masks: bool, capsys: Any) -> None:
    count, seeds = 7, np.arange(77, dtype=np.uint32)
    code = code_of(lambda: insertion_sort(UInt32(seeds), count), capsys)
    assert ("masked.scatter" in code) == (is_fast and has_masks)
    found = insertion_sort(UInt32(seeds), count).numpy()
    state, items = seeds.copy(), []
    for _ in range(count):
        state = state * np.uint32(1664525) + np.uint32(1013904223)
        items.append(np.float32(state >> 12))
    weights = np.arange(1, count + 1, dtype=np.float64)
    want = (np.sort(items, axis=0) * weights[:, None]).sum(0)
    np.testing.assert_allclose(found, want, rtol=1e-6)


def test_indexed_accesses(is_fast: bool, has_masks: bool, capsys: Any) -> None:
    x, at = dr.arange(Float, 100) * 3, dr.arange(UInt32, 64) * 7 % 50
    dr.eval(x, at)
    code = code_of(lambda: dr.gather(Float, x, at) + 1, capsys)
    assert ("masked.gather" in code) == (is_fast or has_masks)

    def written() -> Float:
        target = dr.zeros(Float, 100)
        dr.scatter(target, Float(at), at)
        return target

    assert ("masked.scatter" in code_of(written, capsys)) == (is_fast and has_masks)


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=10, deadline=None)
@given(st.integers(1, 90), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_equals_numpy(name: str, size: int, count: int, seed: int) -> None:
    """Indices repeat, some lie beyond the end, some lanes don't write or read."""
    rng = np.random.default_rng(seed)
    cls = getattr(llvm, name)
    values = rng.integers(0, 100, count)
    index = rng.integers(0, size + 3, count).astype(np.uint32)
    mask = rng.random(count) < rng.random() * 1.5
    target = cls(np.arange(size) % 100)
    dr.scatter(target, cls(values), UInt32(index), Bool(mask))
    want = np.asarray(cls(np.arange(size) % 100).numpy())
    is_in = mask & (index < size)
    # The last lane with an index stays.
    want[index[is_in]] = values[is_in].astype(want.dtype)
    np.testing.assert_array_equal(target.numpy(), want)
    found = dr.gather(cls, target, UInt32(index), Bool(mask)) + cls(1)
    read = np.where(is_in, want[np.minimum(index, size - 1)], 0) + want.dtype.type(1)
    np.testing.assert_array_equal(found.numpy(), read)


def test_pairs_of_arrays_written_together() -> None:
    """Arrays that one mask decides for, of words and of bytes."""
    count = 130
    index = np.random.default_rng(0).permutation(count).astype(np.uint32)
    mask = index % 3 > 0
    floats, small = dr.zeros(Float, count), dr.zeros(llvm.UInt8, count)
    at, active = UInt32(index), Bool(mask)
    dr.scatter(floats, Float(at), at, active)
    dr.scatter(small, llvm.UInt8(at), at, active)
    dr.eval(floats, small)
    want = np.where(np.isin(np.arange(count), index[mask]), np.arange(count), 0)
    np.testing.assert_array_equal(floats.numpy(), want)
    np.testing.assert_array_equal(small.numpy(), want)
