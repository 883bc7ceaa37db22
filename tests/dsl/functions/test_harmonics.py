"""Spherical harmonics against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError


def directions(n):
    rng = np.random.default_rng(n)
    d = rng.normal(size=(3, n))
    return d / np.linalg.norm(d, axis=0)


def harmonic(degree, m, theta, phi):
    if hasattr(scipy.special, "sph_harm_y"):
        return scipy.special.sph_harm_y(degree, m, theta, phi)
    return scipy.special.sph_harm(m, degree, phi, theta)


def reference(d, order):
    theta, phi = np.arccos(d[2]), np.arctan2(d[1], d[0])
    found = []
    for degree in range(order + 1):
        for m in range(-degree, degree + 1):
            value = harmonic(degree, abs(m), theta, phi)
            scale = np.sqrt(2) if m else 1
            found.append(scale * (value.imag if m < 0 else value.real))
    return np.array(found)


@pytest.mark.parametrize("order", range(11))
def test_values(order):
    d = directions(50)
    found = dr.sh_eval(llvm.Array3f64(d), order)
    assert all(type(v) is llvm.Float64 for v in found)
    values = np.array([np.broadcast_to(v.numpy(), 50) for v in found])
    np.testing.assert_allclose(values, reference(d, order), atol=2e-13)
    single = dr.sh_eval(llvm.Array3f(d), order)
    values = np.array([np.broadcast_to(v.numpy(), 50) for v in single])
    np.testing.assert_allclose(values, reference(d, order), atol=2e-5)


def test_plain_numbers():
    d = directions(3)[:, 1]
    found = dr.sh_eval(scalar.Array3f64(d), 10)
    assert all(type(v) is float for v in found)
    np.testing.assert_allclose(found, reference(d[:, None], 10)[:, 0], atol=2e-13)


def test_they_are_orthonormal():
    z, weights = np.polynomial.legendre.leggauss(12)
    phi = np.arange(24) * (2 * np.pi / 24)
    z, phi = (v.ravel() for v in np.meshgrid(z, phi))
    weights = np.tile(weights, 24) * (2 * np.pi / 24)
    r = np.sqrt(1 - z * z)
    found = dr.sh_eval(llvm.Array3f64(r * np.cos(phi), r * np.sin(phi), z), 10)
    values = np.array([np.broadcast_to(v.numpy(), z.shape) for v in found])
    product = (values * weights) @ values.T
    np.testing.assert_allclose(product, np.eye(121), atol=1e-12)


def test_derivatives_and_symbolic_code():
    d = ad.Array3f64(directions(4))
    assert dr.gradcheck(lambda d: sum(v * v * v for v in dr.sh_eval(d, 4)), d)

    def body(total, i):
        return total + sum(dr.sh_eval(llvm.Array3f64(0.6, 0.0, 0.8), 3)), i + 1

    total, _ = dr.while_loop(
        (llvm.Float64(0, 0), llvm.UInt(0)), lambda total, i: i < 2, body
    )
    right = 2 * reference(np.array([[0.6], [0.0], [0.8]]), 3).sum()
    np.testing.assert_allclose(total, [right, right])


def test_bad_input():
    with pytest.raises(ArrayValueError, match="the order is 11"):
        dr.sh_eval(llvm.Array3f(0, 0, 1), 11)
    with pytest.raises(ArrayValueError, match="the order is -1"):
        dr.sh_eval(llvm.Array3f(0, 0, 1), -1)
    with pytest.raises(ArrayTypeError, match="'d' has type 'Array2f'"):
        dr.sh_eval(llvm.Array2f(0, 1), 1)
