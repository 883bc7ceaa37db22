"""Small helpers: searches, steps, squares, directions and angles."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 9, 100])
def test_binary_search_matches_numpy(size: int) -> None:
    rng = np.random.default_rng(size)
    data = np.sort(rng.integers(0, 20, size)).astype(np.float32)
    wanted = np.arange(-1, 22).astype(np.float32)
    expected = np.searchsorted(data, wanted)
    ours, keys = llvm.Float(np.append(data, 0)), llvm.Float(wanted)

    def is_below(index: llvm.Int) -> llvm.Bool:
        return dr.gather(llvm.Float, ours, index) < keys

    found = dr.binary_search(0, size, is_below)
    if size:
        # One less than the first entry's place is -1.
        assert type(found) is llvm.Int
        assert dr.min(found - 1)[0] == -1
    assert (
        np.broadcast_to(np.array(found), expected.shape).tolist() == expected.tolist()
    )
    for key, position in zip(wanted, expected, strict=True):
        assert dr.binary_search(0, size, lambda i, k=key: data[i] < k) == position


def test_binary_search_asks_within_the_range() -> None:
    for start, end in ((3, 3), (3, 4), (2, 9), (0, 64)):
        for first in range(start, end + 1):
            asked: list[int] = []

            def pred(i: int, asked: list[int] = asked, first: int = first) -> bool:
                asked.append(i)
                return i < first

            assert dr.binary_search(start, end, pred) == first
            assert all(start <= i < end for i in asked)
            assert len(asked) <= math.log2(max(end - start, 1)) + 1
    with pytest.raises(ArrayValueError, match="range goes from 3 to 2"):
        dr.binary_search(3, 2, lambda i: True)


def test_steps_and_squares() -> None:
    assert list(dr.step(llvm.Float(1, 2, float("nan")), 2)) == [0, 1, 1]
    assert (dr.step(1, 2), dr.step(2, 2)) == (0, 1)
    assert list(dr.step(2, llvm.Int(1, 2, 3))) == [1, 1, 0]
    # Integers, so that they can be indices.
    assert isinstance(dr.step(llvm.Float64(1), 2), llvm.Int)
    assert isinstance(dr.step(scalar.Array2f(1), 2), scalar.Array2i)
    parts = list(dr.step(dr.nn.CoopVec(llvm.Float(1, 2), 3), 2))
    assert [list(v) for v in parts] == [[0, 1], [1]]
    assert isinstance(parts[0], llvm.Float)
    assert dr.square(llvm.Array2f(3, -4)).numpy().ravel().tolist() == [9, 16]
    assert dr.sqr is dr.square
    assert list(dr.square(scalar.Array2i(3, -4))) == [9, 16]


def test_directions_and_angles() -> None:
    theta, phi = np.linspace(0, math.pi, 50), np.linspace(0, 2 * math.pi, 50)
    found = dr.sphdir(llvm.Float64(theta), llvm.Float64(phi)).numpy()
    sine = np.sin(theta)
    expected = [sine * np.cos(phi), sine * np.sin(phi), np.cos(theta)]
    np.testing.assert_allclose(found, expected, atol=1e-15)
    angles = np.array([0, 1e-7, 1e-3, 1, 1.5, 2, 3, math.pi - 1e-3, math.pi])
    x = llvm.Array3f64(1, 0, 0)
    y = llvm.Array3f64(np.cos(angles), np.sin(angles), 0)
    np.testing.assert_allclose(dr.unit_angle(x, y).numpy(), angles, atol=1e-15)
    assert dr.unit_angle(scalar.Array3f(1, 0, 0), scalar.Array3f(0, 0, 1)) == (
        pytest.approx(math.pi / 2)
    )
    for angle in (0.5, llvm.Array2f(1)):
        with pytest.raises(ArrayTypeError, match="pass flat arrays"):
            dr.sphdir(angle, angle)
