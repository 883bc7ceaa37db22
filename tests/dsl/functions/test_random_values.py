"""Functions at random values, and derivatives of those that few tests take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad

COUNT = 2000


def drawn(seed: int, bits: int) -> Any:
    """Return integers of all magnitudes."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(0, 1 << bits, COUNT, np.uint64, endpoint=bits < 64)
    shifted = whole >> rng.integers(0, bits, COUNT, np.uint64)
    return np.where(rng.random(COUNT) < 0.05, 0, shifted).astype(f"u{bits // 8}")


@pytest.mark.parametrize("space", [llvm, scalar])
@pytest.mark.parametrize("bits", [32, 64])
def test_bits(space: Any, bits: int) -> None:
    x, amount = drawn(1, bits), drawn(2, bits) % bits
    cls = getattr(space, "ArrayXu64" if bits == 64 else "ArrayXu")
    if space is llvm:
        cls = llvm.UInt64 if bits == 64 else llvm.UInt
    values = [int(v) for v in x]
    lengths = [v.bit_length() for v in values]
    low = [(v & -v).bit_length() - 1 if v else bits for v in values]
    mask = (1 << bits) - 1

    def rotated(v: int, k: int) -> int:
        return (v << k | v >> (bits - k)) & mask

    pairs = [(v, int(k)) for v, k in zip(values, amount, strict=True)]
    cases = (
        (dr.lzcnt(cls(x)), [bits - n for n in lengths]),
        (dr.tzcnt(cls(x)), low),
        (dr.popcnt(cls(x)), [v.bit_count() for v in values]),
        (dr.rotl(cls(x), cls(amount)), [rotated(*pair) for pair in pairs]),
        (
            dr.rotr(cls(x), cls(amount)),
            [rotated(v, (bits - k) % bits) for v, k in pairs],
        ),
    )
    for found, wanted in cases:
        assert found.numpy().tolist() == wanted
    positive = x[x > 0]
    logs = dr.log2i(cls(positive)).numpy().tolist()
    assert logs == [n - 1 for n in lengths if n]


@pytest.mark.parametrize("space", [llvm, scalar])
def test_angles_and_signs(space: Any) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(0, 100, (2, COUNT))
    cls = llvm.Float64 if space is llvm else scalar.ArrayXf64
    np.testing.assert_allclose(dr.deg2rad(cls(x)).numpy(), np.deg2rad(x), rtol=1e-15)
    np.testing.assert_allclose(dr.rad2deg(cls(x)).numpy(), np.rad2deg(x), rtol=1e-15)
    np.testing.assert_array_equal(dr.mulsign(cls(x), cls(y)).numpy(), x * np.sign(y))
    assert dr.deg2rad(180.0) == math.pi


def _nested(function: Any) -> Any:
    return lambda x: function([x, {"b": x * x}])


SMOOTH: dict[str, Any] = {
    "deg2rad": lambda x: dr.deg2rad(x * x),
    "rad2deg": lambda x: dr.rad2deg(x * x),
    "sqr": dr.sqr,
    "mulsign": lambda x: dr.mulsign(x * x, x - 1),
    "min_nested": _nested(dr.min_nested),
    "prod_nested": _nested(dr.prod_nested),
    "ellint_3": lambda x: dr.ellint_3(x, x * 0.5, x * 0.3),
    "real": lambda x: dr.real(ad.Complex2f64(x, x * x) * ad.Complex2f64(x, 2)),
    "sphdir": lambda x: dr.sphdir(x, x * x),
    "unit_angle": lambda x: dr.unit_angle(
        dr.normalize(ad.Array3f64(x, 1, 2)), dr.normalize(ad.Array3f64(1, x * x, -1))
    ),
    "transpose": lambda x: dr.transpose(ad.Matrix2f64(x, x * x, 1, x)) * x,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    assert dr.gradcheck(SMOOTH[name], ad.Float64(0.3, 0.7, 0.45))


@pytest.mark.parametrize("name", ["Float16", "Float", "Float64"])
def test_the_slope_of_lgamma_below_zero(name: str) -> None:
    cls, places = getattr(ad, name), [-8.90625, -3.25, -0.375, 0.5, 4.0]
    x = cls(places)
    dr.enable_grad(x)
    dr.backward(dr.lgamma(x))
    precision = {"Float16": 5e-3, "Float": 2e-6, "Float64": 1e-12}[name]
    np.testing.assert_allclose(x.grad.numpy(), special.digamma(places), rtol=precision)
