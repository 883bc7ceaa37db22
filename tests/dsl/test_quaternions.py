"""Arrays of quaternions: how they are made, read, combined and moved."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import (
    Array3f,
    Array4f,
    Bool,
    Complex2f,
    Float,
    Float64,
    Quaternion4f,
    Quaternion4f16,
    Quaternion4f64,
    UInt,
    ad,
)
from lumijit.runtime.errors import ArrayTypeError

P = np.array([1.0, 2, 3, 4])
Q = np.array([0.5, -1, 2, 0.25])
# One quaternion an element, as arrays hold them: the elements last.
MANY = np.array([P, Q, P - Q]).T
MODULES = pytest.mark.parametrize("module", [llvm, ad], ids=["llvm", "llvm.ad"])


def same(result: Any, expected: Any, rtol: float = 1e-6, atol: float = 1e-6) -> None:
    data, expected = np.asarray(result), np.asarray(expected)
    if data.ndim == expected.ndim + 1:
        data = data[..., 0]
    np.testing.assert_allclose(data, expected, rtol, atol)


def product(a: Any, b: Any) -> Any:
    """The product as that of the matrices that stand for quaternions."""
    x, y, z, w = a
    left = np.array([[w, -z, y, x], [z, w, -x, y], [-y, x, w, z], [-x, -y, -z, w]])
    return np.einsum("ij...,j...->i...", left, b)


def conjugate(a: Any) -> Any:
    return np.concatenate([-a[:3], a[3:]])


class TestMaking:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ((3,), [0, 0, 0, 3]),
            ((np.array(2.0),), [0, 0, 0, 2]),
            ((Float(3),), [0, 0, 0, 3]),
            ((1, 2, 3, 4), P),
            (([1, 2, 3, 4],), P),
            ((P,), P),
            ((MANY,), MANY),
            ((Array4f(P),), P),
            ((Quaternion4f64(P),), P),
            ((scalar.Quaternion4f(P),), P),
            (([1, 2], 2, 3, [4, 5]), [[1, 2], [2, 2], [3, 3], [4, 5]]),
        ],
    )
    def test_from(self, arguments: Any, expected: Any) -> None:
        for cls in (Quaternion4f, Quaternion4f16, Quaternion4f64, ad.Quaternion4f):
            same(cls(*arguments), expected, 2e-3)

    def test_filled(self) -> None:
        same(dr.zeros(Quaternion4f, 2), np.zeros((4, 2)))
        same(dr.ones(Quaternion4f), [0, 0, 0, 1])
        same(dr.full(Quaternion4f, 3), [0, 0, 0, 3])
        same(dr.full(Quaternion4f, [1, 2, 3, 4]), P)
        same(dr.identity(Quaternion4f, 2)[3], [1, 1])
        assert dr.empty(Quaternion4f, 3).shape == (4, 3)
        same(dr.ones(scalar.Quaternion4f), [0, 0, 0, 1])
        assert Quaternion4f().shape == (4, 0)

    def test_bad_input(self) -> None:
        for wrong in ((1, 2, 3), (Complex2f(1),), (Array3f(1), 2)):
            with pytest.raises(ArrayTypeError, match=r"wrong size \(expected 4"):
                Quaternion4f(*wrong)
        with pytest.raises(ArrayTypeError, match="can't be made from a value of type"):
            Quaternion4f("i")

    def test_text(self) -> None:
        assert str(Quaternion4f(P)) == "[1i+2j+3k+4]"
        assert str(Quaternion4f([1, 0], 2, 0, -4)) == "[1i+2j-4,\n 2j-4]"
        assert str(Quaternion4f(-1, 0, -2.5, 0)) == "[-1i-2.5k]"
        assert str(Quaternion4f(0)) == "[0]"
        assert str(Quaternion4f()) == "[]"
        assert str(scalar.Quaternion4f(P)) == "1i+2j+3k+4"
        assert f"{Quaternion4f(P):.1f}" == "[1.0i+2.0j+3.0k+4.0]"
        assert str(Quaternion4f(dr.nan, 0, 0, 1)) == "[nani+1]"
        assert dr.format("{}", Quaternion4f(P)) == "[1i+2j+3k+4]"


class TestParts:
    def test_reading_and_writing(self) -> None:
        q = Quaternion4f(MANY)
        same(q.x, MANY[0])
        same(q.w, MANY[3])
        same(q.real, MANY[3])
        same(q.imag, MANY[:3])
        same(q.zyx, MANY[2::-1])
        assert type(q.imag) is type(q.xyz) is Array3f
        assert type(q.array) is Array4f
        q.x = 1
        q[1] = 2
        q.real = 3
        same(q, [np.ones(3), np.full(3, 2), MANY[2], np.full(3, 3)])
        q.imag = [4, 5, 6]
        same(q[:3], [4, 5, 6])
        s = scalar.Quaternion4f(P)
        assert (s.x, s.real, s[2], list(s)) == (1.0, 4.0, 3.0, [1.0, 2.0, 3.0, 4.0])
        assert type(s.imag) is scalar.Array3f

    def test_functions(self) -> None:
        q = Quaternion4f(MANY)
        same(dr.real(q), MANY[3])
        same(dr.imag(q), MANY[:3])
        same(dr.conj(q), conjugate(MANY))
        same(abs(q), np.linalg.norm(MANY, axis=0))
        same(dr.norm(q), np.linalg.norm(MANY, axis=0))
        same(dr.squared_norm(q), (MANY**2).sum(axis=0))
        same(dr.normalize(q), MANY / np.linalg.norm(MANY, axis=0))
        same(dr.dot(q, Quaternion4f(Q)), Q @ MANY)
        s = scalar.Quaternion4f(P)
        assert dr.norm(s) == pytest.approx(np.linalg.norm(P))
        assert abs(s) == pytest.approx(np.linalg.norm(P))
        same(dr.conj(s), conjugate(P))
        same(dr.normalize(s), P / np.linalg.norm(P))

    def test_magnitudes_beyond_the_range_of_squares(self) -> None:
        for scale in (1e30, 1e-30):
            same(abs(Quaternion4f(P * scale)) / scale, np.linalg.norm(P))


class TestOperators:
    def test_of_quaternions(self) -> None:
        p, q = Quaternion4f(MANY), Quaternion4f(Q)
        other = np.repeat(Q[:, None], 3, axis=1)
        same(p + q, MANY + other)
        same(p - q, MANY - other)
        same(p * q, product(MANY, other))
        inverse = conjugate(other) / (other**2).sum(axis=0)
        same(p / q, product(MANY, inverse), atol=1e-5)
        same(-p, -MANY)
        same(dr.fma(p, q, q), product(MANY, other) + other)
        same(dr.rcp(q), inverse[:, 0])

    def test_real_operands(self) -> None:
        q, one = Quaternion4f(P), np.array([0, 0, 0, 1])
        for number in (2, 2.0, Float(2), np.float32(2)):
            same(q + number, P + 2 * one)
            same(number - q, 2 * one - P)
            same(q * number, P * 2)
            same(number * q, P * 2)
            same(q / number, P / 2)
            same(number / q, 2 * conjugate(P) / (P @ P))
        assert np.signbit((Quaternion4f(-0.0, 0, 0, 1) + 1).x.numpy()[0])
        assert (q == 4).numpy()[:, 0].tolist() == [False, False, False, True]

    def test_a_product_with_the_conjugate_is_real(self) -> None:
        q = Quaternion4f(0.1, Float(0.3, 1 / 3), 0.7, 0.6)
        assert dr.imag(q * dr.conj(q)).numpy().any() == False  # noqa: E712

    @pytest.mark.parametrize(
        ("a", "b", "cls"),
        [
            (Quaternion4f(1), 1.5, Quaternion4f),
            (Quaternion4f(1), Float64(1), Quaternion4f64),
            (Quaternion4f(1), Quaternion4f64(1), Quaternion4f64),
            (Quaternion4f(1), Array4f(1), Quaternion4f),
            (Quaternion4f(1), ad.Float(1), ad.Quaternion4f),
            (Quaternion4f16(1), 2, Quaternion4f16),
            (Quaternion4f(1), scalar.Quaternion4f64(1), Quaternion4f64),
            (Quaternion4f(1), [1, 2, 3, 4], Quaternion4f),
        ],
    )
    def test_promotion(self, a: Any, b: Any, cls: type[Any]) -> None:
        for op in (operator.add, operator.mul, operator.sub):
            assert type(op(a, b)) is type(op(b, a)) is cls

    def test_half_precision(self) -> None:
        q = Quaternion4f16(P)
        same(q * q, product(P, P))
        same(abs(q), np.linalg.norm(P), 2e-3)
        assert type(abs(q)) is llvm.Float16
        s = scalar.Quaternion4f16(P)
        same(s * s, product(P, P))
        assert abs(abs(s) - np.linalg.norm(P)) < 2e-3

    def test_what_doesnt_fit(self) -> None:
        with pytest.raises(ArrayTypeError, match=r"incompatible shapes"):
            _ = Quaternion4f(1) * Array3f(1)  # type: ignore[operator]
        with pytest.raises(ArrayTypeError, match="quaternion and complex arrays"):
            _ = Quaternion4f(1) * Complex2f(1)  # type: ignore[operator]
        with pytest.raises(ArrayTypeError, match="quaternion and complex arrays"):
            _ = Quaternion4f(1) * 1j  # type: ignore[operator]

    @pytest.mark.parametrize(
        "operation",
        [
            lambda q: q < q,
            lambda q: q // 2,
            lambda q: q % 2,
            lambda q: q @ q,
            lambda q: dr.matmul(q, llvm.Array4f(1)),
            lambda q: dr.prod(q, axis=1),
        ],
    )
    def test_what_isnt_defined(self, operation: Any) -> None:
        with pytest.raises(
            ArrayTypeError, match=r"(not|isn't) defined for .*uaternion"
        ):
            operation(Quaternion4f(P))

    def test_in_place(self) -> None:
        p = q = Quaternion4f(P)
        p *= Quaternion4f(Q)
        p += 1
        assert p is q
        same(p, product(P, Q) + [0, 0, 0, 1])

    @settings(deadline=None, max_examples=60)
    @given(st.integers(0, 2**32 - 1), st.integers(1, 9))
    def test_laws(self, seed: int, width: int) -> None:
        random = np.random.default_rng(seed)
        a, b, c = random.normal(size=(3, 4, width))
        p, q, r = Quaternion4f64(a), Quaternion4f64(b), Quaternion4f64(c)
        same(p * q, product(a, b))
        same((p * q) * r, p * (q * r), 1e-12, 1e-12)
        same(abs(p * q), abs(p) * abs(q), 1e-12)
        same(dr.conj(p * q), dr.conj(q) * dr.conj(p), 1e-12, 1e-12)
        same((p / q) * q, p, 1e-10, 1e-10)
        one = scalar.Quaternion4f64(a[:, 0]) * scalar.Quaternion4f64(b[:, 0])
        same(one, product(a, b)[:, 0])


class TestFunctionsOfArrays:
    def test_select(self) -> None:
        p, q = Quaternion4f(MANY), Quaternion4f(Q)
        mask = np.array([True, False, True])
        other = np.broadcast_to(Q[:, None], MANY.shape)
        same(dr.select(Bool(mask), p, q), np.where(mask, MANY, other))
        one = np.broadcast_to(np.array([[0], [0], [0], [1]]), MANY.shape)
        same(dr.select(Bool(mask), p, 1), np.where(mask, MANY, one))
        p[Bool(mask)] = 0
        same(p, np.where(mask, 0, MANY))

    def test_memory(self) -> None:
        q = Quaternion4f(MANY)
        same(dr.gather(Quaternion4f, q, UInt(2, 0)), MANY[:, [2, 0]])
        flat = dr.ravel(q)
        same(dr.unravel(Quaternion4f, flat), MANY)
        same(dr.gather(Quaternion4f, flat, UInt(1)), Q)
        dr.scatter(q, Quaternion4f(9), UInt(1))
        same(q.w, [4, 9, 3.75])
        dr.scatter_add(q, Quaternion4f(1), UInt(0, 0))
        same(q.w, [6, 9, 3.75])
        same(dr.concat([q, Quaternion4f(P)])[1], [*q.y, 2])
        same(dr.slice(q, 1), [0, 0, 0, 9])

    def test_reductions_and_tests(self) -> None:
        q = Quaternion4f(MANY)
        same(dr.sum(q, axis=1), MANY.sum(axis=1))
        same(dr.sum(q), MANY.sum(axis=0))
        same(dr.prod([q, q]), product(MANY, MANY))
        bad = Quaternion4f([1, dr.inf, 1], 2, [3, 3, dr.nan], 4)
        assert list(dr.isfinite(bad)) == [True, False, False]
        assert list(dr.isinf(bad)) == [False, True, False]
        assert dr.allclose(q, MANY)

    def test_traits(self) -> None:
        assert dr.is_quaternion_v(Quaternion4f)
        assert dr.is_special_v(Quaternion4f(1))
        assert not dr.is_vector_v(Quaternion4f)
        assert dr.array_t(ad.Quaternion4f) is ad.Array4f
        assert dr.mask_t(Quaternion4f) is llvm.Array4b
        assert dr.value_t(Quaternion4f) is Float
        assert dr.float64_array_t(Quaternion4f) is Quaternion4f64
        assert dr.detached_t(ad.Quaternion4f) is Quaternion4f
        assert (dr.size_v(Quaternion4f), dr.depth_v(Quaternion4f)) == (4, 2)
        assert dr.quaternion_t(Array3f) is dr.quaternion_t(Float) is Quaternion4f
        assert dr.quaternion_t(scalar.Array3f) is scalar.Quaternion4f
        assert dr.quaternion_t(llvm.Int) is dr.quaternion_t(1.0) is None


@MODULES
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops(module: Any, mode: str) -> None:
    @dr.syntax
    def turned(q: Any, step: Any) -> Any:
        count = dr.zeros(module.Int, dr.width(q))
        while (q.w > 0) & (count < 20):
            q = q * step
            count += 1
        return q, count

    start = MANY / np.linalg.norm(MANY, axis=0)
    step = Q / np.linalg.norm(Q)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, mode == "symbolic"):
        found, count = turned(module.Quaternion4f(start), module.Quaternion4f(step))
    for i in range(3):
        q, steps = start[:, i], 0
        while q[3] > 0 and steps < 20:
            q, steps = product(q, step), steps + 1
        assert count[i] == steps
        same(dr.slice(found, i), q, 1e-5, 1e-5)
