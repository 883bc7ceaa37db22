"""Derivatives of operators and functions of matrices and quaternions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.functions.evaluation import flat_leaves
from lumijit.llvm.ad import (
    Array3f64,
    Array4f64,
    Complex2f64,
    Float64,
    Int,
    Matrix2f64,
    Matrix3f64,
    Matrix4f64,
    Quaternion4f64,
)

M2 = Matrix2f64([[1, 2], [-3, 5]])
M3 = Matrix3f64([[1, 2, 0.5], [-3, 5, 1], [0.2, 1, 2]])
M4 = Matrix4f64(np.array([[1, 2, 0, 1], [-1, 3, 1, 0], [0, 1, 2, -1], [0.5, 0, 1, 4]]))
P = Quaternion4f64([0.1, 0.5], 0.4, -0.3, [0.7, -0.2])
Q = Quaternion4f64(0.3, -0.2, 0.5, 0.7)
V = Array3f64(1, -2, 0.5)

CASES: dict[str, tuple[Any, ...]] = {
    "matmul2": (lambda a, b: a @ b, M2, M2.T),
    "matmul4": (lambda a, b: a @ b, M4, M4.T),
    "matrix_vector": (lambda a, v: (a @ v, v @ a, v / a), M3, V),
    "numbers": (lambda a, x: (a + x, x - a, a * x, x / a), M2, Float64(1.5)),
    "quotient": (lambda a, b: a / b, M3, M3.T + 1),
    "inverse2": (dr.inverse, M2),
    "inverse3": (dr.inverse, M3),
    "inverse4": (dr.inverse, M4),
    "determinants": (lambda a, b: (dr.det(a), dr.det(b)), M3, M4),
    "trace": (lambda a: (dr.trace(a), dr.frob(a), dr.diag(a), a.T), M3),
    "diag": (lambda v: dr.diag(v) @ v, V),
    "power": (lambda a: a**3 + dr.exp(a), M2),
    "sizes": (lambda a: Matrix4f64(a @ a), M3),
    "polar": (lambda a: dr.polar_decomp(a, 4), M2),
    "quaternions": (lambda p, q: (p * q, p / q, p + q, dr.fma(p, q, q)), P, Q),
    "reals": (lambda q, x: (q * x, x / q, q + x, x - q), Q, Float64(1.5)),
    "parts": (lambda q: (abs(q), dr.conj(q), dr.rcp(q), q.imag, q.real), P),
    "normalize": (dr.normalize, P),
    "quaternion_power": (lambda p: (p**Q, p**0.3, p**3), 2 * Q),
    "rotate": (lambda v, x: dr.rotate(Quaternion4f64, v, x), V, Float64(0.4)),
    "apply": (dr.quat_apply, P, V),
    "to_matrix": (lambda q: dr.quat_to_matrix(Matrix4f64, q), P),
    "to_quaternion": (dr.matrix_to_quat, M3),
    "euler": (lambda v: dr.quat_to_euler(dr.euler_to_quat(v)), Array3f64(0.3, 1, -2)),
    "slerp": (dr.slerp, P, Q, Float64(0.3)),
    "compose": (dr.transform_compose, M3, Q, V),
    "decompose": (lambda a: dr.transform_decompose(a, 3), Matrix4f64(M3)),
}


def weighted(function: Any) -> Any:
    """Return a function's results as one sum, in which each entry has its weight."""

    def total(*args: Any) -> Any:
        leaves = flat_leaves([function(*args)])
        return dr.sum(sum(leaf * (0.3 + np.sin(k)) for k, leaf in enumerate(leaves)))

    return total


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    function, *inputs = CASES[name]
    assert dr.gradcheck(weighted(function), *inputs)


@pytest.mark.parametrize(
    "function",
    [dr.sqrt, dr.exp, dr.exp2, dr.log, dr.sin, dr.tan, dr.tanh, dr.asin, dr.rsqrt],
    ids=lambda f: f.__name__,
)
def test_functions_of_quaternions(function: Any) -> None:
    assert dr.gradcheck(weighted(function), Q)
    # Real quaternions, at which the direction of the imaginary part is open.
    assert dr.gradcheck(weighted(function), Quaternion4f64(0.4))


def test_the_exponential_at_zero() -> None:
    q = Quaternion4f64(0)
    dr.enable_grad(q)
    dr.backward(dr.exp(q) * Quaternion4f64(1, 2, 3, 4))
    # (x, y, z, w) -> 1 + q: the gradient is that of the product.
    expected = Quaternion4f64(0)
    dr.enable_grad(expected)
    dr.backward((1 + expected) * Quaternion4f64(1, 2, 3, 4))
    np.testing.assert_allclose(q.grad.numpy(), expected.grad.numpy(), 1e-12)


@pytest.mark.parametrize("x", [M2, Q, Complex2f64(1, 2)], ids=str)
def test_all_entries_are_differentiated(x: Any) -> None:
    x = type(x)(x)
    dr.enable_grad(x)
    dr.backward(x * 3)
    assert set(dr.ravel(x.grad)) == {3}
    y = x * 3
    dr.forward(x)
    assert set(dr.ravel(y.grad)) == {3}


def test_slerp_of_equal_rotations() -> None:
    q = dr.normalize(Q)
    assert dr.gradcheck(weighted(lambda a, b: dr.slerp(a, b, 0.3)), q, q, atol=1e-5)


def test_in_loops_and_branches() -> None:
    @dr.syntax
    def turned(q: Any, m: Any) -> Any:
        i = Int(0)
        while i < 3:
            if q.w > 0:
                q = q * dr.normalize(q)
                m = m @ dr.quat_to_matrix(Matrix3f64, q)
            i += 1
        return q, m

    assert dr.gradcheck(weighted(turned), P, M3)


def test_gradients_have_the_type_of_their_arrays() -> None:
    q, m = Quaternion4f64(Q), Matrix3f64(M3)
    dr.enable_grad(q, m)
    dr.backward(abs(q) + dr.det(m))
    assert type(q.grad) is Quaternion4f64
    assert type(m.grad) is Matrix3f64
    np.testing.assert_allclose(
        m.grad.numpy(), (dr.inverse(M3).T * dr.det(M3)).numpy(), 1e-10
    )


@pytest.mark.parametrize("cls", [Float64, Array4f64, Complex2f64, Quaternion4f64])
def test_relative_changes(cls: Any) -> None:
    x = cls(2.0) if cls is not Complex2f64 else cls(2, 0)
    dr.enable_grad(x)
    y = 5 * dr.relative_grad(x)
    np.testing.assert_array_equal(np.asarray(y), np.asarray(cls(5)))
    dr.forward_from(x)
    np.testing.assert_allclose(dr.ravel(dr.grad(y)), 2.5)
    zero = cls(0)
    dr.enable_grad(zero)
    y = dr.relative_grad(zero)
    dr.forward_from(zero)
    assert not np.asarray(dr.grad(y)).any()
    assert dr.relative_grad(3.0) == 1.0
