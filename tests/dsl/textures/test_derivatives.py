"""Derivatives of lookups with respect to positions and texels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm
from lumijit.llvm import ad
from lumijit.llvm.ad import Array2f, Float, TensorXf, Texture2f
from tests.dsl.textures.reference import lookups
from tests.dsl.textures.test_lookups import MODES, make, places, texels

STEP = 1e-6
METHODS = pytest.mark.parametrize("method", ["eval", "eval_cubic"])
SIZES = (4, 5, 3)


def weights(channels: int, size: int) -> Any:
    return np.random.default_rng(5).uniform(-1, 1, (channels, size))


def total(found: Any, factors: Any) -> Any:
    """Return a weighted sum of all channels, entry by entry."""
    return dr.sum([c * ad.Float64(w) for c, w in zip(found, factors, strict=True)])


def positions_of(count: int, mode: dr.WrapMode) -> Any:
    """Return positions that are no closer to a kink than the steps."""
    found = places(count, 24, dtype="f8")
    scaled = found * np.array(SIZES[:count])[::-1, None] * 2
    return np.where(abs(scaled - np.round(scaled)) < 1e-3, found + 2e-3, found)


@MODES
@METHODS
@pytest.mark.parametrize(
    ("count", "channels"), [(1, 1), (1, 3), (2, 1), (2, 3), (3, 1)]
)
class TestAgainstFiniteDifferences:
    def test_positions(
        self, count: int, channels: int, method: str, mode: dr.WrapMode
    ) -> None:
        data = texels(*SIZES[:count], channels, dtype="f8")
        texture = make(ad, data, "f64", wrap_mode=mode)
        array = getattr(ad, f"Array{count}f64")
        positions = positions_of(count, mode)
        factors = weights(channels, positions.shape[1])
        filtering = "cubic" if method == "eval_cubic" else "linear"
        expected = []
        for axis in range(count):
            values = []
            for step in (STEP, -STEP):
                moved = positions.copy()
                moved[axis] += step
                values.append((lookups(data, moved, filtering, mode) * factors).sum(0))
            expected.append((values[0] - values[1]) / (2 * STEP))

        pos = array(list(positions))
        dr.enable_grad(pos)
        dr.backward(total(getattr(texture, method)(pos), factors))
        np.testing.assert_allclose(dr.grad(pos).numpy(), expected, atol=1e-7)

        for axis in range(count):
            pos = array(list(positions))
            dr.enable_grad(pos)
            result = total(getattr(texture, method)(pos), factors)
            dr.set_grad(pos, array([float(k == axis) for k in range(count)]))
            dr.forward_to(result)
            found = dr.grad(result).numpy()
            np.testing.assert_allclose(found, expected[axis], atol=1e-7)

    def test_texels(
        self, count: int, channels: int, method: str, mode: dr.WrapMode
    ) -> None:
        data = texels(*SIZES[:count], channels, dtype="f8")
        positions = places(count, 24, dtype="f8")
        factors = weights(channels, positions.shape[1])
        filtering = "cubic" if method == "eval_cubic" else "linear"
        tensor = ad.TensorXf64(data)
        dr.enable_grad(tensor)
        texture = getattr(ad, f"Texture{count}f64")(tensor, wrap_mode=mode)
        pos = getattr(llvm, f"Array{count}f64")(list(positions))
        result = total(getattr(texture, method)(pos), factors)
        dr.backward(result)
        gradient = dr.grad(tensor).numpy()
        # Lookups are linear in texels: along a direction, that is a lookup in it.
        change = texels(*data.shape, seed=9, dtype="f8")
        along = (lookups(change, positions, filtering, mode) * factors).sum()
        np.testing.assert_allclose((gradient * change).sum(), along, rtol=1e-10)
        for texel in np.random.default_rng(2).integers(0, data.size, 3):
            one = np.zeros(data.size)
            one[texel] = 1
            found = lookups(one.reshape(data.shape), positions, filtering, mode)
            found = (found * factors).sum()
            assert abs(gradient.reshape(-1)[texel] - found) < 1e-12


@MODES
def test_cubic_agrees_with_the_analytic_gradient(mode: dr.WrapMode) -> None:
    texture = make(ad, texels(4, 4, 2), wrap_mode=mode)
    pos = Array2f(list(places(2)))
    dr.enable_grad(pos)
    dr.backward(texture.eval_cubic(pos)[1])
    _, gradients = texture.eval_cubic_grad(dr.detach(pos))
    assert dr.allclose(dr.grad(pos), gradients[1], atol=1e-4)


def test_the_textures_own_texels() -> None:
    texture = make(ad, texels(4, 4, 1))
    dr.enable_grad(texture.tensor())
    dr.backward(texture.eval(Array2f(0.5, 0.5)))
    gradient = dr.grad(texture.tensor()).numpy()[..., 0]
    expected = np.zeros((4, 4))
    expected[1:3, 1:3] = 0.25
    np.testing.assert_array_equal(gradient, expected)


def test_masks() -> None:
    tensor = TensorXf(texels(4, 4, 1))
    pos = Array2f([0.4, np.nan], [0.3, 0.2])
    dr.enable_grad(tensor, pos)
    active = ad.Bool(True, False)
    dr.backward(Texture2f(tensor).eval(pos, active))
    assert abs(dr.sum(dr.grad(tensor), axis=None).item() - 1) < 1e-6
    assert list(dr.grad(pos).numpy()[:, 1]) == [0, 0]


@pytest.mark.parametrize("how", ["symbolic", "evaluated"])
def test_in_loops(how: str) -> None:
    data = texels(4, 4, 1)
    tensor = TensorXf(data)
    start = Float(0.1, 0.4)
    dr.enable_grad(tensor, start)
    texture = Texture2f(tensor)

    def body(k: Any, x: Any) -> tuple[Any, Any]:
        return k + 1, x + 0.1 * texture.eval_cubic([x, 0.5 * x])[0]

    _, x = dr.while_loop(
        (ad.UInt(0), start), lambda k, x: k < 3, body, mode=how, max_iterations=4
    )
    dr.backward(x)

    def plain(x: float) -> float:
        for _ in range(3):
            x += 0.1 * lookups(data, [[x], [0.5 * x]], "cubic", dr.WrapMode.Clamp)[0, 0]
        return x

    for k, x0 in enumerate((0.1, 0.4)):
        slope = (plain(x0 + STEP) - plain(x0 - STEP)) / (2 * STEP)
        assert abs(dr.grad(start)[k] - slope) < 1e-4
    assert abs(dr.sum(dr.grad(tensor), axis=None).item()) > 0.1
