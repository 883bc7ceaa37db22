"""Matrices, quaternions and rotations: functions, against NumPy and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, SizeError

SEEDS = st.integers(0, 2**32 - 1)
SPACES = pytest.mark.parametrize("space", [llvm, scalar, ad], ids=lambda s: s.__name__)


def same(result: Any, expected: Any, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    data, expected = np.asarray(result), np.asarray(expected)
    if data.ndim == expected.ndim + 1:
        data = data[..., 0]
    np.testing.assert_allclose(data, expected, rtol, atol)


def rotations(space: Any, seed: int) -> tuple[Any, Rotation]:
    rotation = Rotation.random(random_state=seed % 2**31)
    return space.Quaternion4f64(rotation.as_quat()), rotation


@SPACES
class TestDotProducts:
    """The sum of the products of items, which broadcast."""

    @pytest.mark.parametrize("name", ["Matrix2f", "Array22f"])
    def test_rows(self, space: Any, name: str) -> None:
        m = getattr(space, name)([[1, 2], [3, 4]])
        for v in (space.Array2f(1, 10), space.ArrayXf(1, 10)):
            for found in (dr.dot(v, m), dr.dot(m, v)):
                same(np.ravel(found), [31, 42])
        same(np.ravel(dr.abs_dot(space.Array2f(-1, 0), m)), [1, 2])
        same(np.ravel(dr.dot(m, 2)), [8, 12])
        t = space.TensorXf([[1, 2], [3, 4]])
        same(dr.dot(t, space.Array2f(1, 10)), [31, 42])

    def test_parts(self, space: Any) -> None:
        z = space.Complex2f(1, 10)
        same(np.ravel(dr.dot(z, 2)), 22)
        same(np.ravel(dr.dot(space.Array2u(2, 3), z)), 32)
        same(np.ravel(dr.dot(z, space.Matrix2f([[1, 2], [3, 4]]))), [31, 42])

    def test_mistakes(self, space: Any) -> None:
        with pytest.raises(ArrayTypeError, match="incompatible shapes"):
            dr.dot(space.Array2f(1), space.Array3f(1))
        with pytest.raises(SizeError, match="have 3 and 2 items"):
            dr.dot(space.ArrayXf(1, 2, 3), space.Array22f(1))


def test_derivatives_of_dot_products_by_rows() -> None:
    v, m = ad.Array2f64(1, 10), ad.Matrix2f64([[1, 2], [3, 4]])
    dr.gradcheck(lambda v, m: dr.sum(dr.dot(v, m) * ad.Array2f64(1, 3)), v, m)


class TestMatrices:
    @pytest.mark.parametrize("n", [2, 3, 4])
    @settings(deadline=None, max_examples=30)
    @given(seed=SEEDS, width=st.integers(1, 5))
    def test_determinants_and_inverses(self, n: int, seed: int, width: int) -> None:
        random = np.random.default_rng(seed)
        data = random.normal(size=(width, n, n))
        m = getattr(llvm, f"Matrix{n}f64")(data.transpose(1, 2, 0))
        same(dr.det(m), np.linalg.det(data))
        same(dr.trace(m), np.trace(data, axis1=1, axis2=2))
        same(dr.frob(m), (data**2).sum(axis=(1, 2)))
        same(dr.diag(m), np.diagonal(data, axis1=1, axis2=2).T)
        condition = np.linalg.cond(data).max()
        found = dr.inverse(m).numpy().transpose(2, 0, 1)
        same(found, np.linalg.inv(data), 1e-14 * condition, 1e-13 * condition)
        one = getattr(scalar, f"Matrix{n}f64")(data[0])
        same(dr.inverse(one), found[0], 1e-14 * condition, 1e-13 * condition)
        assert dr.det(one) == pytest.approx(np.linalg.det(data[0]))
        assert dr.trace(one) == pytest.approx(np.trace(data[0]))

    def test_singular(self) -> None:
        for n in (2, 3, 4):
            m = getattr(llvm, f"Matrix{n}f")(np.full((n, n), 0.1))
            assert dr.det(m)[0] == 0
            assert not np.isfinite(dr.inverse(m).numpy()).any()

    def test_diagonals(self) -> None:
        for space in (llvm, scalar):
            same(dr.diag(space.Array3f(1, 2, 3)), np.diag([1, 2, 3]))
            assert type(dr.diag(space.Array2f64(1, 2))) is space.Matrix2f64
        for wrong in (llvm.Array2i(1), llvm.Float(1), [1, 2], llvm.Array33f(1)):
            with pytest.raises(ArrayTypeError, match="expected a matrix, or a vector"):
                dr.diag(wrong)

    def test_what_is_no_matrix(self) -> None:
        for function in (dr.det, dr.trace, dr.frob, dr.polar_decomp):
            for wrong in (llvm.Array33f(1), 2.0, llvm.Quaternion4f(1)):
                with pytest.raises(ArrayTypeError, match=r"expected a matrix\)"):
                    function(wrong)

    def test_identities(self) -> None:
        assert dr.identity(float) == 1.0
        same(dr.identity(llvm.Array3f, 2), np.ones((3, 2)))
        same(dr.identity(llvm.Complex2f), [1])
        same(dr.identity(llvm.TensorXf, (2, 2)), np.ones((2, 2)))
        assert dr.identity(llvm.Matrix3f, 4).shape == (3, 3, 4)
        same(dr.inverse(llvm.Float(4)), [0.25])
        assert dr.inverse(4.0) == 0.25

    @pytest.mark.parametrize("n", [2, 3, 4])
    @settings(deadline=None, max_examples=20)
    @given(seed=SEEDS)
    def test_polar_decomposition(self, n: int, seed: int) -> None:
        data = np.random.default_rng(seed).normal(size=(n, n))
        if np.linalg.cond(data) > 1e3:
            return
        rotation, scaling = scipy.linalg.polar(data)
        for space in (llvm, scalar):
            q, p = dr.polar_decomp(getattr(space, f"Matrix{n}f64")(data))
            same(q, rotation, 1e-8, 1e-8)
            same(p, scaling, 1e-8, 1e-8)
        with pytest.raises(ArrayValueError, match="0 iterations"):
            dr.polar_decomp(llvm.Matrix2f(1), 0)


@SPACES
class TestRotations:
    def test_matrices(self, space: Any) -> None:
        for seed in range(20):
            q, rotation = rotations(space, seed)
            m = dr.quat_to_matrix(space.Matrix3f64, q)
            same(m, rotation.as_matrix())
            wide = dr.quat_to_matrix(space.Matrix4f64, q)
            same(space.Matrix3f64(wide), rotation.as_matrix())
            same(wide[3], [0, 0, 0, 1])
            for matrix in (m, wide):
                back = np.asarray(dr.matrix_to_quat(matrix)).ravel()
                same(back * np.sign(back @ rotation.as_quat()), rotation.as_quat())

    def test_half_turns(self, space: Any) -> None:
        """Of each of the four cases, one; there, the other parts are zero."""
        for k in range(4):
            diagonal = [1 if i == k or k == 3 else -1 for i in range(3)]
            found = dr.matrix_to_quat(space.Matrix3f64(np.diag(diagonal)))
            same(found, [float(i == k) for i in range(4)])

    def test_vectors(self, space: Any) -> None:
        for seed in range(9):
            q, rotation = rotations(space, seed)
            v = [0.3, -2, 1]
            same(dr.quat_apply(q, space.Array3f64(v)), rotation.apply(v))
            same(dr.quat_apply(q, v), rotation.apply(v))
            same(
                dr.imag(q * space.Quaternion4f64(*v, 0) * dr.conj(q)), rotation.apply(v)
            )

    def test_axes(self, space: Any) -> None:
        axis = np.array([2.0, -1, 2]) / 3
        expected = Rotation.from_rotvec(axis * 0.7)
        same(dr.rotate(space.Quaternion4f64, axis.tolist(), 0.7), expected.as_quat())
        q = dr.rotate(space.Quaternion4f64, space.Array3f64(axis), 0.7)
        same(q, expected.as_quat())
        same(dr.rotate(space.Matrix3f64, axis.tolist(), 0.7), expected.as_matrix())
        assert type(dr.rotate(space.Matrix4f64, axis.tolist(), 1)) is space.Matrix4f64

    def test_angles(self, space: Any) -> None:
        for seed in range(20):
            q, rotation = rotations(space, seed)
            angles = rotation.as_euler("xyz")
            same(dr.quat_to_euler(q), angles)
            back = np.asarray(dr.euler_to_quat(space.Array3f64(angles))).ravel()
            same(back * np.sign(back @ rotation.as_quat()), rotation.as_quat())

    def test_locked_angles(self, space: Any) -> None:
        for sign in (1, -1):
            for first in (0.4, -2.0):
                q = dr.euler_to_quat(space.Array3f64(first, sign * np.pi / 2, 0.0))
                same(dr.quat_to_euler(q), [first, sign * np.pi / 2, 0], 1e-7, 1e-7)

    def test_interpolation(self, space: Any) -> None:
        for seed in range(9):
            a, first = rotations(space, seed)
            b, last = rotations(space, seed + 100)
            between = Slerp([0, 1], Rotation.concatenate([first, last]))
            for t in (0, 0.25, 0.5, 1):
                expected = between(t).as_quat()
                for other in (b, -b):
                    found = np.asarray(dr.slerp(a, other, t)).ravel()
                    same(found * np.sign(found @ expected), expected)
            same(dr.slerp(a * 3, a, 0.3), a)
            near = dr.normalize(a + space.Quaternion4f64(1e-9, 0, 2e-9, 0))
            same(dr.slerp(a, near, 0.5), dr.normalize(a + near), 1e-14, 1e-14)

    def test_transformations(self, space: Any) -> None:
        q, rotation = rotations(space, 3)
        scaling = np.array([[2, 0.1, 0], [0.1, 3, 0.2], [0, 0.2, 1]])
        expected = np.eye(4)
        expected[:3, :3] = rotation.as_matrix() @ scaling
        expected[:3, 3] = [4, 5, 6]
        m = dr.transform_compose(space.Matrix3f64(scaling), q, [4, 5, 6])
        assert type(m) is space.Matrix4f64
        same(m, expected)
        s, turned, moved = dr.transform_decompose(m)
        same(s, scaling)
        same(dr.transform_compose(s, turned, moved), expected)
        same(moved, [4, 5, 6])
        mirrored = expected @ np.diag([-1, 1, 1, 1])
        same(
            dr.transform_compose(*dr.transform_decompose(space.Matrix4f64(mirrored))),
            mirrored,
        )


def test_elements_turn_apart() -> None:
    angles = llvm.Float64(0.1, 0.2)
    q = dr.rotate(llvm.Quaternion4f64, [0, 0, 1], angles)
    same(dr.quat_to_euler(q), [[0, 0], [0, 0], [0.1, 0.2]])
    same(dr.slerp(llvm.Quaternion4f64(1), q, 0.5).z, np.sin([0.025, 0.05]))
    found = dr.transform_compose(llvm.Matrix3f64(1), q, llvm.Array3f64([1, 2], 0, 0))
    same(found[0, 3], [1, 2])
    tracked = dr.transform_compose(llvm.Matrix3f64(1), q, ad.Array3f64([1, 2], 0, 0))
    assert type(tracked) is ad.Matrix4f64


def test_wrong_arguments() -> None:
    q, m, v = llvm.Quaternion4f(1), llvm.Matrix3f(1), llvm.Array3f(1)
    for wrong in (
        lambda: dr.quat_to_matrix(llvm.Matrix2f, q),
        lambda: dr.quat_to_matrix(llvm.Quaternion4f, q),
        lambda: dr.quat_to_matrix(llvm.Matrix3f, m),
        lambda: dr.matrix_to_quat(llvm.Matrix2f(1)),
        lambda: dr.matrix_to_quat(q),
        lambda: dr.quat_to_euler(v),
        lambda: dr.euler_to_quat(q),
        lambda: dr.euler_to_quat([1, 2, 3]),
        lambda: dr.quat_apply(v, v),
        lambda: dr.quat_apply(q, llvm.Array4f(1)),
        lambda: dr.rotate(llvm.Array3f, v, 1),
        lambda: dr.slerp(q, v, 1),
        lambda: dr.transform_compose(2, q, v),
        lambda: dr.transform_compose(m, m, v),
        lambda: dr.transform_compose(m, q, q),
        lambda: dr.transform_decompose(m),
    ):
        with pytest.raises(ArrayTypeError, match=r"an argument is of type .*expected"):
            wrong()


# Functions of complex numbers that quaternions have, too.
EXTENDED = [
    *(dr.sqrt, dr.rsqrt, dr.exp, dr.exp2, dr.log, dr.log2, dr.sin, dr.cos, dr.tan),
    *(dr.asin, dr.acos, dr.atan, dr.sinh, dr.cosh, dr.tanh),
    *(dr.asinh, dr.acosh, dr.atanh),
]
BY_NAME = pytest.mark.parametrize("function", EXTENDED, ids=lambda f: f.__name__)


class TestFunctionsOfQuaternions:
    @BY_NAME
    def test_in_each_plane(self, function: Any) -> None:
        random = np.random.default_rng(1)
        parts = random.normal(size=(4, 50))
        q = llvm.Quaternion4f64(parts)
        length = np.linalg.norm(parts[:3], axis=0)
        z = function(llvm.Complex2f64(parts[3], length)).numpy()
        expected = np.concatenate([parts[:3] / length * z.imag, [z.real]])
        same(function(q), expected)
        same(function(ad.Quaternion4f64(parts)), expected)
        one = function(scalar.Quaternion4f64(parts[:, 0]))
        same(one, expected[:, 0])

    @BY_NAME
    def test_of_real_numbers(self, function: Any) -> None:
        for space in (llvm, ad, scalar):
            for w in (0.5, -0.5, 2.0, -2.0, 0.0):
                z = function(llvm.Complex2f64(w, 0)).numpy()[0]
                if not np.isfinite(z):
                    continue
                found = function(space.Quaternion4f64(w))
                same(found, [z.imag, 0, 0, z.real], 1e-12, 1e-12)

    def test_inverses(self) -> None:
        q = llvm.Quaternion4f64(0.3, -0.2, 0.5, 0.7)
        same(dr.exp(dr.log(q)), q)
        same(dr.sqrt(q) * dr.sqrt(q), q)
        same(dr.rsqrt(q) * dr.sqrt(q), [0, 0, 0, 1])
        same(dr.sin(dr.asin(q)), q)

    def test_powers(self) -> None:
        q = llvm.Quaternion4f64(0.3, -0.2, 0.5, 0.7)
        p = llvm.Quaternion4f64(0.1, 0.4, -0.3, 0.2)
        same(q**3, q * q * q)
        same(q**-1, dr.rcp(q))
        same(q**0.5, dr.sqrt(q))
        same(q**p, dr.exp(dr.log(q) * p))
        same(2**q, dr.exp2(q))
        same(dr.power(q, llvm.Float64(2)), q * q)
        same(llvm.Quaternion4f64(0) ** p, [0, 0, 0, 0])
        same(llvm.Quaternion4f64(-4) ** 0.5, [2, 0, 0, 0])
        same(q**0, [0, 0, 0, 1])

    def test_tiny_imaginary_parts(self) -> None:
        q = llvm.Quaternion4f(1e-30, 0, 2e-30, 1)
        same(dr.exp(q).z * 1e30, [2 * np.e], 1e-6)
        same(dr.log(q).z * 1e30, [2], 1e-6)
