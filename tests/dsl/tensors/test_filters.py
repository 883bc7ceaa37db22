"""Resampling and convolution against NumPy, SciPy and plain sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import lumijit as dr
from lumijit.llvm import Array3f, Float, TensorXf, TensorXi, ad
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError
from tests.dsl.tensors.common import MODULES, near, same

IMAGE = np.random.default_rng(0).random((7, 9)).astype(np.float32)
FILTERS = ["box", "linear", "hamming", "cubic", "lanczos", "gaussian"]


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
