"""Components by name, and swizzles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.runtime.errors import ArrayAttributeError, SizeError

SPACES = pytest.mark.parametrize("space", [llvm, scalar], ids=["llvm", "scalar"])


def values(array: Any) -> list[Any]:
    found: list[Any] = np.array(array).reshape(len(array), -1)[:, 0].tolist()
    return found


@SPACES
def test_swizzles_read(space: Any) -> None:
    v = space.Array4f(1, 2, 3, 4)
    assert type(v.xy) is space.Array2f
    assert values(v.wzyx) == [4, 3, 2, 1]
    assert values(v.xxx) == [1, 1, 1]
    assert values(space.Array3i(1, 2, 3).zx) == [3, 1]


@SPACES
def test_swizzles_are_copies(space: Any) -> None:
    v = space.Array3f(1, 2, 3)
    part = v.xy
    part.x = 9
    part += 1
    assert values(v) == [1, 2, 3]


@SPACES
def test_swizzles_write(space: Any) -> None:
    v = space.Array4f(1, 2, 3, 4)
    v.wx = space.Array2f(5, 6)
    assert values(v) == [6, 2, 3, 5]
    v.yz = 0
    assert values(v) == [6, 0, 0, 5]
    v.xyz = [7, 8, 9]
    assert values(v) == [7, 8, 9, 5]
    v.zw += 1
    assert values(v) == [7, 8, 10, 6]
    v.xy = v.yx
    assert values(v) == [8, 7, 10, 6]
    v.xyzw = v
    assert values(v) == [8, 7, 10, 6]


@SPACES
def test_the_last_of_equal_names_wins(space: Any) -> None:
    v = space.Array3f(1, 2, 3)
    v.xx = space.Array2f(5, 6)
    assert values(v) == [6, 2, 3]


def test_wide_values() -> None:
    v = llvm.Array3f(1, 2, 3)
    v.xz = llvm.Float(4, 5)
    np.testing.assert_array_equal(v, [[4, 5], [2, 2], [4, 5]])
    v.xy = llvm.Array2f([1, 2], 3)
    np.testing.assert_array_equal(v, [[1, 2], [3, 3], [4, 5]])


def test_what_is_written_is_copied() -> None:
    x = llvm.Float(1, 2)
    v = llvm.Array2f(0)
    v.xy = [x, x]
    v.x += 1
    assert x.numpy().tolist() == [1, 2]
    assert v.y.numpy().tolist() == [1, 2]


def test_in_vectorized_loops() -> None:
    @dr.syntax
    def program(n: Any) -> Any:
        v = llvm.Array3f(0, 1, 2)
        while n > 0:
            v.xy += llvm.Array2f(1, 2)
            v.zx = v.xz
            n -= 1
        return v

    counts = llvm.Int(0, 1, 2, 3)
    expected = []
    for count in counts.numpy().tolist():
        x, y, z = 0.0, 1.0, 2.0
        for _ in range(count):
            x, y = x + 1, y + 2
            x, z = z, x
        expected.append([x, y, z])
    np.testing.assert_array_equal(np.array(program(counts)).T, expected)


@SPACES
def test_bad_swizzles(space: Any) -> None:
    v = space.Array2f(1, 2)
    with pytest.raises(ArrayAttributeError, match=r"Array2f.z: the array has no 'z'"):
        print(v.xz)
    with pytest.raises(ArrayAttributeError, match=r"Array2f.w: the array has no 'w'"):
        v.wx = 1
    with pytest.raises(SizeError, match="can't write 3 values to 2 entries"):
        v.xy = space.Array3f(1, 2, 3)
    assert values(v) == [1, 2]
    assert not hasattr(v, "z")
    assert not hasattr(v, "xyz")
    assert not hasattr(v, "xa")


def test_dynamic_arrays_have_no_components() -> None:
    with pytest.raises(ArrayAttributeError, match="index dynamic arrays with"):
        print(llvm.Float(1, 2).xy)  # type: ignore[attr-defined]


def test_names_that_no_array_has():
    match = r"test_components.py:\d+ in .*: Float.foo: 'Float' object has no attribute"
    with pytest.raises(ArrayAttributeError, match=match) as caught:
        getattr(llvm.Float(1), "foo")  # noqa: B009  (there is none)
    assert caught.value.name == "foo"
    assert not hasattr(llvm.Array2f(1), "foo")
    with pytest.raises(AttributeError, match=r"^'Float' object has no attribute"):
        getattr(llvm.Float(1), "__foo__")  # noqa: B009
