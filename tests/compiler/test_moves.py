"""Entries that a kernel only moves from where an array tells."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm
from lumijit.compiler.launch import kernels
from lumijit.llvm import Bool, Float, UInt32

pytestmark = pytest.mark.usefixtures("each_target")

TYPES = ("Float", "Float64", "Float16", "Int8", "Int16", "Int", "UInt64", "Bool")


def entries(size: int, name: str) -> tuple[Any, np.ndarray[Any, Any]]:
    """Return an array of a type with different entries, and the same for NumPy."""
    values = Float((np.arange(size) * 37 % 113).astype(np.float32))
    found = values > 50 if name == "Bool" else getattr(llvm, name)(values)
    dr.eval(found)
    return found, np.asarray(found.numpy())


def code_of(program: Any, capsys: pytest.CaptureFixture[str]) -> str:
    kernels.flush()
    with dr.scoped_set_flag(dr.JitFlag.PrintIR, True):
        dr.eval(program())
    return capsys.readouterr().out


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.integers(0, 200), min_size=2, max_size=150),
    st.integers(2, 130),
    st.data(),
)
def test_equals_numpy(name: str, places: list[int], size: int, data: Any) -> None:
    """Some places are beyond the end; some elements are left out by a mask."""
    array, a = entries(size, name)
    index = np.array(places, np.uint32)
    inside = index < size
    want = np.where(inside, a[np.where(inside, index, 0)], a.dtype.type(0))
    at = UInt32(index)
    np.testing.assert_array_equal(dr.gather(type(array), array, at).numpy(), want)
    bits = st.lists(st.booleans(), min_size=len(places), max_size=len(places))
    mask = np.array(data.draw(bits))
    found = dr.gather(type(array), array, at, Bool(mask))
    np.testing.assert_array_equal(found.numpy(), np.where(mask, want, a.dtype.type(0)))


def test_several_arrays_and_sizes() -> None:
    for size in (2, 31, 32, 33, 100, 1000):
        index = np.random.default_rng(size).integers(0, 77, size).astype(np.uint32)
        at = UInt32(index)
        (x, a), (y, b) = entries(77, "Float"), entries(77, "Float64")
        one, other = dr.gather(type(x), x, at), dr.gather(type(y), y, at)
        used = dr.gather(type(x), x, at + 1) * 2
        dr.eval(one, other, used)
        np.testing.assert_array_equal(one.numpy(), a[index])
        np.testing.assert_array_equal(other.numpy(), b[index])
        again = np.where(index < 76, a[np.minimum(index + 1, 76)], 0)
        np.testing.assert_array_equal(used.numpy(), again * 2)


def test_what_is_computed_with_is_no_move() -> None:
    (x, a), index = entries(50, "Float"), np.arange(0, 100, 3, dtype=np.uint32) % 50
    moved = dr.gather(Float, x, UInt32(index))
    twice = moved * 2
    dr.eval(moved, twice)
    np.testing.assert_array_equal(moved.numpy(), a[index])
    np.testing.assert_array_equal(twice.numpy(), a[index] * 2)


def test_they_are_combined_without_being_stored() -> None:
    x, a = entries(5000, "Float")
    index = np.random.default_rng(1).integers(0, 5000, 100_000).astype(np.uint32)
    at = UInt32(index)
    dr.eval(at)
    assert dr.max(dr.gather(Float, x, at))[0] == a[index].max()


def test_general_registers_move(capsys: pytest.CaptureFixture[str]) -> None:
    x, _ = entries(1000, "Float")
    at = UInt32(np.arange(1000, dtype=np.uint32)[::-1].copy())
    dr.eval(at)
    code = code_of(lambda: dr.gather(Float, x, at), capsys)
    if "define void" in code and "%packet" in code:
        assert len(re.findall(r"store i32 %", code)) % 4 == 0
        assert "store i32 %" in code
