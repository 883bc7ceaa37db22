"""slice_index against NumPy's subscripts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.runtime.errors import ArrayIndexError, ArrayTypeError, ArrayValueError


def check(shape: tuple[int, ...], indices: tuple[Any, ...]) -> None:
    """Compare with NumPy; lists stand for index arrays."""
    storage = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    expected = storage[indices]
    for unsigned, signed in (
        (llvm.UInt, llvm.Int),
        (scalar.ArrayXu, scalar.ArrayXi),
    ):
        ours = [signed(i) if isinstance(i, list) else i for i in indices]
        found, positions = dr.slice_index(unsigned, shape, tuple(ours))
        assert isinstance(positions, unsigned)
        assert found == expected.shape
        assert list(positions) == expected.ravel().tolist()


@pytest.mark.parametrize(
    ("shape", "indices"),
    [
        ((10, 1), (slice(0, 10, 2), 0)),
        ((10, 4), ([1, 2],)),
        ((3, 4), (None, ..., -1)),
        ((3, 4), ()),
        ((), ()),
        ((3, 4, 2), (slice(None, None, -1), [1, 0], 1)),
        ((3, 4, 2), (1, 2, 1)),
        ((3, 4), ([-1, 0, -3],)),
        ((0, 4), (slice(None), 1)),
        ((3, 4), (slice(5, 2), 1)),
        ((3, 4, 2), (1, slice(None), [1, 0])),
        ((3, 4, 2), ([1, 0], slice(None), [1, 0])),
        ((3, 4, 2), (slice(None), [1, 0, 3], [1, 0, 0])),
        ((3, 4, 2), (None, [1, 0], None, [3])),
        ((3, 4, 2), ([1, 0], [1])),
        ((3, 4, 2), (..., [1], None)),
    ],
)
def test_subscripts(shape: tuple[int, ...], indices: tuple[Any, ...]) -> None:
    check(shape, indices)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_subscript(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    count = data.draw(st.integers(1, 3))
    indices: list[Any] = []
    for size in shape[: data.draw(st.integers(0, len(shape)))]:
        number = st.integers(-size, size - 1)
        several = st.lists(number, min_size=count, max_size=count)
        index = data.draw(st.one_of(number, several, st.slices(size)))
        indices += [None] * data.draw(st.integers(0, 1)) + [index]
    if data.draw(st.booleans()):
        indices.insert(data.draw(st.integers(0, len(indices))), ...)
        used = sum(i is not None and i is not ... for i in indices)
        at = indices.index(...)
        after = sum(i is not None for i in indices[at + 1 :])
        if after:
            # What stands behind the ellipsis belongs to the last dimensions.
            sizes = shape[:at] + shape[len(shape) - after :]
            indices = [0 if isinstance(i, (int, list)) and used else i for i in indices]
            assert sizes
    check(shape, tuple(indices))


def test_mistakes() -> None:
    def call(*indices: Any, dtype: Any = llvm.UInt, shape: Any = (3, 4)) -> None:
        dr.slice_index(dtype, shape, indices)

    for dtype in (llvm.Float, llvm.Int, scalar.Array2u, llvm.Array2u, int):
        with pytest.raises(ArrayTypeError, match="32-bit unsigned entries"):
            call(0, dtype=dtype)
    with pytest.raises(ArrayIndexError, match="5"):
        call(5)
    with pytest.raises(ArrayIndexError, match="3 indices for 2 dimensions"):
        call(0, 0, 0)
    with pytest.raises(ArrayIndexError, match="several ellipses"):
        call(..., ...)
    for index in ("x", 1.5, [1.5], llvm.Float(1)):
        with pytest.raises(ArrayTypeError, match="an index has type"):
            call(index)
    with pytest.raises(ArrayIndexError, match=r"\(2,\), \(3,\) don't broadcast"):
        call(llvm.UInt(0, 1), llvm.UInt(0, 1, 2))
    with pytest.raises(ArrayValueError, match="negative size"):
        call(0, shape=(3, -1))
