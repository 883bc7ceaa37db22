"""Resampling and convolution against NumPy, SciPy and plain sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import Array3f, Float, TensorXf, TensorXi, ad
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError
from tests.dsl.tensors.common import MODULES, near, same

IMAGE = np.random.default_rng(0).random((7, 9)).astype(np.float32)
FILTERS = ["box", "linear", "hamming", "cubic", "lanczos", "gaussian"]


BOUNDARIES = ["zero", "nearest", "wrap", "reflect", "mirror"]
WEIGHTS: dict[str, tuple[float, Callable[[float], float]]] = {
    "linear": (1, lambda x: 1 - x),
    "hamming": (1, lambda x: np.sinc(x) * (0.54 + 0.46 * np.cos(np.pi * x))),
    "cubic": (
        2,
        lambda x: (1.5 * x - 2.5) * x * x + 1 if x < 1 else cubic_tail(x),
    ),
    "lanczos": (3, lambda x: np.sinc(x) * np.sinc(x / 3)),
}


def cubic_tail(x: float) -> float:
    return -0.5 * (((x - 5) * x + 8) * x - 4)


def place(k: int, size: int, boundary: str) -> int:
    """Return which entry stands for one beyond the ends, -1 for none."""
    if boundary == "zero":
        return k if 0 <= k < size else -1
    if boundary == "nearest":
        return min(max(k, 0), size - 1)
    if boundary == "wrap":
        return k % size
    is_reflected = boundary == "reflect"
    k %= 2 * size if is_reflected else max(2 * size - 2, 1)
    return k if k < size else 2 * size - (1 if is_reflected else 2) - k


def resampling(size: int, to: int, name: str, boundary: str) -> Any:
    """Return the matrix that resamples rows, as the Python Imaging Library does."""
    radius, weight = WEIGHTS[name]
    scale = size / to
    wide = max(scale, 1)
    matrix = np.zeros((to, size + 1))
    for row in range(to):
        center = (row + 0.5) * scale
        first, last = center - radius * wide, center + radius * wide
        for k in range(int(np.floor(first)), int(np.ceil(last)) + 1):
            x = abs(k + 0.5 - center) / wide
            matrix[row, place(k, size, boundary)] += weight(x) if x < radius else 0
    matrix = matrix[:, :size]
    return matrix / matrix.sum(1, keepdims=True)


def convolution(size: int, taps: list[float], boundary: str) -> Any:
    """Return the matrix that convolves rows."""
    matrix = np.zeros((size, size + 1))
    for row in range(size):
        for j, tap in enumerate(taps):
            k = place(row + (len(taps) - 1) // 2 - j, size, boundary)
            matrix[row, k] += tap
    return matrix[:, :size]


def along(data: Any, matrix: Any, axis: int) -> Any:
    return np.moveaxis(np.tensordot(matrix, data, (1, axis)), 0, axis)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_sizes_and_boundaries(data: Any) -> None:
    sizes = st.lists(st.sampled_from([1, 2, 3, 5, 8]), min_size=1, max_size=3)
    shape = data.draw(sizes)
    boundary = data.draw(st.sampled_from(BOUNDARIES))
    x = np.random.default_rng(0).normal(size=shape)
    taps = data.draw(st.lists(st.sampled_from([-1.0, 0.5, 2.0]), min_size=1))[:8]
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    expected = x
    for axis in axes:
        matrix = convolution(shape[axis], taps, boundary)
        expected = along(expected, matrix, axis)
    found = dr.convolve(ad.TensorXf64(x), taps, axis=tuple(axes), boundary=boundary)
    near(found, expected, 1e-10)
    to = [data.draw(st.sampled_from([n, 1, 2, 7])) for n in shape]
    name = data.draw(st.sampled_from(sorted(WEIGHTS)))
    expected = x
    for axis, (size, new) in enumerate(zip(shape, to, strict=True)):
        if size != new:
            matrix = resampling(size, new, name, boundary)
            expected = along(expected, matrix, axis)
    near(dr.resample(ad.TensorXf64(x), to, name, boundary=boundary), expected, 1e-6)


def test_weights_in_arrays() -> None:
    x, weights = ad.Float(1, 2, 3, 4), ad.Float(1, 2, 3)
    expected = [4, 10, 16, 17]
    others: list[Any] = [llvm.Float(weights), scalar.Array3f(1, 2, 3), range(1, 4)]
    for taps in (weights, *others):
        assert dr.convolve(x, taps).numpy().tolist() == expected
    dr.enable_grad(weights)
    with pytest.raises(ArrayValueError, match="no derivatives by weights"):
        dr.convolve(x, weights)
    assert dr.convolve(x, dr.detach(weights)).numpy().tolist() == expected


@MODULES
class TestResample:
    @pytest.mark.parametrize("name", FILTERS)
    def test_constants_stay(self, module: Any, name: str) -> None:
        for boundary in ("zero", "nearest", "wrap", "reflect", "mirror"):
            x = dr.ones(module.TensorXf, (5, 6))
            near(dr.resample(x, (3, 13), name, boundary=boundary), np.ones((3, 13)))

    def test_known_values(self, module: Any) -> None:
        x = module.TensorXf(IMAGE)
        same(dr.resample(x, (14, 9), "box"), np.repeat(IMAGE, 2, 0))
        same(dr.resample(x, IMAGE.shape), IMAGE)
        near(dr.resample(x, (7, 3), "box"), IMAGE.reshape(7, 3, 3).mean(2))
        flat = dr.array_t(module.TensorXf)(1, 2, 3)
        found = dr.resample(flat, (6,), "linear")
        assert type(found) is type(flat)
        near(found, [1, 1.25, 1.75, 2.25, 2.75, 3])

    def test_own_filters(self, module: Any) -> None:
        x = module.TensorXf(IMAGE)
        own = dr.resample(x, (4, 20), lambda d: max(1 - abs(d), 0), 1)
        near(own, dr.resample(x, (4, 20), "linear").numpy())


@MODULES
class TestConvolve:
    @pytest.mark.parametrize("taps", [[1, 2, 3], [1, -1], [2.0], [1, 2, 3, 4]])
    def test_as_numpy(self, module: Any, taps: list[float]) -> None:
        found = dr.convolve(module.TensorXf(IMAGE), taps, axis=1)
        near(found, [np.convolve(row, taps, "same") for row in IMAGE])

    def test_boundaries(self, module: Any) -> None:
        taps = [1.0, 2.0, 4.0]
        for boundary in ("nearest", "wrap", "reflect", "mirror"):
            found = dr.convolve(module.TensorXf(IMAGE), taps, axis=0, boundary=boundary)
            near(found, ndimage.convolve1d(IMAGE, taps, 0, mode=boundary))

    @pytest.mark.parametrize("shape", [(3, 4, 5), (2, 0, 3), (1, 1, 1), (5, 1)])
    def test_axes(self, module: Any, shape: tuple[int, ...]) -> None:
        x = np.random.default_rng(1).random(shape).astype(np.float32)
        for axis in range(len(shape)):
            found = dr.convolve(module.TensorXf(x), [1.0, 2.0, 4.0], axis=axis)
            assert found.shape == shape
            if x.size:
                near(found, ndimage.convolve1d(x, [1, 2, 4], axis, mode="constant"))
            sizes = [5 if k == axis and n else n for k, n in enumerate(shape)]
            assert dr.resample(module.TensorXf(x), sizes).shape == tuple(sizes)

    def test_names(self, module: Any) -> None:
        x = module.TensorXf(IMAGE)
        blurred = dr.convolve(x, "gaussian", 2.7, boundary="wrap", normalize=True)
        assert abs(float(dr.mean(blurred)) - IMAGE.mean()) < 1e-6
        own = dr.convolve(x, lambda d: max(1 - abs(d) / 2, 0), 2)
        near(own, dr.convolve(x, "linear", 2).numpy())
        near(
            dr.convolve(dr.ones(module.TensorXf, 5), "box", 4, normalize=True), [1] * 5
        )

    def test_wide_ones(self, module: Any) -> None:
        x = module.TensorXf(np.arange(200))
        near(
            dr.convolve(x, [1.0] * 101), np.convolve(np.arange(200), [1] * 101, "same")
        )


class TestUpsample:
    def test_sizes_and_factors(self) -> None:
        x = TensorXf(IMAGE)
        expected = IMAGE.repeat(2, 0).repeat(3, 1)
        same(dr.upsample(x, shape=(14, 27)), expected)
        same(dr.upsample(x, scale_factor=(2, 3)), expected)
        same(dr.upsample(x, shape=(14,)), IMAGE.repeat(2, 0))


class TestDerivatives:
    def test_against_differences(self) -> None:
        x = ad.TensorXf64(IMAGE)
        for function in (
            lambda x: dr.square(dr.resample(x, (4, 12))),
            lambda x: dr.square(dr.convolve(x, [1, 2, 4], boundary="mirror")),
            lambda x: dr.square(dr.upsample(x, scale_factor=(2,))),
        ):
            dr.gradcheck(function, x)


class TestErrors:
    def test_inputs(self) -> None:
        x = TensorXf(IMAGE)
        with pytest.raises(ArrayValueError, match="the filter is 'sharp'"):
            dr.resample(x, (3, 3), "sharp")
        with pytest.raises(ArrayValueError, match="a radius of its own"):
            dr.resample(x, (3, 3), "box", filter_radius=2.5)
        with pytest.raises(ArrayValueError, match="radius is missing"):
            dr.convolve(x, abs)
        with pytest.raises(ArrayValueError, match="the boundary is 'edge'"):
            dr.resample(x, (3, 3), boundary="edge")
        for wrong in (TensorXi([1]), Array3f(1)):
            with pytest.raises(ArrayTypeError, match="the source is of type"):
                dr.convolve(wrong, [1])
        with pytest.raises(SizeError, match=r"shape \(7, 9\) to \(3,\)"):
            dr.resample(x, (3,))
        with pytest.raises(SizeError, match="axis 0 has size 0"):
            dr.resample(x, (0, 9))
        with pytest.raises(ArrayValueError, match="weights have no radius"):
            dr.convolve(x, [1], 2)
        with pytest.raises(SizeError, match=r"\(8, 9\) is no multiple of \(7, 9\)"):
            dr.upsample(x, shape=(8, 9))
        with pytest.raises(SizeError, match="3 sizes for 2 dimensions"):
            dr.upsample(x, shape=(7, 9, 1))
        with pytest.raises(ArrayValueError, match="a shape or factors"):
            dr.upsample(x)

    def test_symbolic_mode_leaves_the_result_unevaluated(self) -> None:
        x = dr.resample(Float(1, 2, 3), (6,), mode="symbolic")
        assert x.state is dr.VarState.Unevaluated
