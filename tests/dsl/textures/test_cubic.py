"""Cubic lookups: gradients and matrices of second derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import Array2f
from tests.dsl.textures.reference import lookups
from tests.dsl.textures.test_lookups import DIMENSIONS, MODES, make, places, texels


def unit(count: int, *axes: int) -> list[int]:
    return [axes.count(k) for k in range(count)]


@MODES
@DIMENSIONS
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_derivatives_against_numpy(
    count: int, channels: int, mode: dr.WrapMode
) -> None:
    data = texels(*(4, 1, 5)[:count], channels, dtype="f8")
    positions = places(count, 12, dtype="f8")
    texture = make(llvm, data, "f64", wrap_mode=mode)
    pos = getattr(llvm, f"Array{count}f64")(list(positions))

    def expected(*axes: int) -> Any:
        return lookups(data, positions, "cubic", mode, orders=unit(count, *axes))

    value, gradients, hessians = texture.eval_cubic_hessian(pos)
    assert len(gradients) == len(hessians) == channels
    np.testing.assert_allclose(value.numpy(), expected(), atol=1e-12)
    for i in range(count):
        found = np.stack([g[i].numpy() for g in gradients])
        np.testing.assert_allclose(found, expected(i), atol=1e-11)
        for j in range(count):
            entries = [h[i, j] if count > 1 else h[0] for h in hessians]
            found = np.stack([np.broadcast_to(e.numpy(), 12) for e in entries])
            np.testing.assert_allclose(found, expected(i, j), atol=1e-10)
    alone, first = texture.eval_cubic_grad(pos)
    assert dr.allclose(alone, value)
    for a, b in zip(first, gradients, strict=True):
        assert dr.allclose(a, b)


def test_types() -> None:
    texture = make(llvm, texels(3, 4, 2))
    value, gradients, hessians = texture.eval_cubic_hessian(Array2f(0.3, 0.4))
    assert type(value) is Array2f
    assert [type(g) for g in gradients] == [Array2f] * 2
    assert [type(h) for h in hessians] == [llvm.Matrix2f] * 2
    value, _, hessians = make(llvm, texels(3, 1)).eval_cubic_hessian(0.3)
    assert type(value) is type(hessians[0]) is llvm.Array1f
    found = make(scalar, texels(3, 4, 2)).eval_cubic_hessian(scalar.Array2f(0.3, 0.4))
    assert type(found[2][0]) is scalar.Matrix2f
    assert type(found[1][0]) is scalar.Array2f


@MODES
def test_the_spline_is_smooth(mode: dr.WrapMode) -> None:
    texture = make(llvm, texels(4, 4, 1, dtype="f8"), "f64", wrap_mode=mode)
    x = dr.linspace(llvm.Float64, -1.5, 2.5, 4001)
    pos = llvm.Array2f64(x, 0.7 - x)
    value, gradients = texture.eval_cubic_grad(pos)
    along = gradients[0].x - gradients[0].y
    steps = np.diff(value[0].numpy()) / np.diff(x.numpy())
    middle = (along.numpy()[1:] + along.numpy()[:-1]) / 2
    np.testing.assert_allclose(steps, middle, atol=2e-3)


def test_the_filter_mode_does_not_matter() -> None:
    data = texels(4, 4, 2)
    kinds = [make(llvm, data, filter_mode=kind) for kind in dr.FilterMode]
    pos = Array2f(list(places(2)))
    near, far = (t.eval_cubic(pos, force_nonaccel=True) for t in kinds)
    assert dr.allclose(near, far)
    assert dr.allclose(near, kinds[0].eval_cubic_helper(pos))
