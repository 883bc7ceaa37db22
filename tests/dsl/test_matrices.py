"""Arrays of matrices: how they are made, read, combined and moved."""

from __future__ import annotations

import copy
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import (
    Array2f,
    Array22f,
    Array22f64,
    Bool,
    Complex2f,
    Float,
    Float64,
    Matrix2f,
    Matrix2f16,
    Matrix2f64,
    Matrix3f,
    Matrix4f,
    Quaternion4f,
    UInt,
    ad,
)
from lumijit.runtime.errors import ArrayAttributeError, ArrayTypeError, ArrayValueError

A = np.array([[1.0, 2], [3, 5]])
B = np.array([[0.5, -1], [2, 4]])
# One matrix an element, as arrays hold them: the elements last.
MANY = np.array([A, B, A + B]).transpose(1, 2, 0)
MODULES = pytest.mark.parametrize("module", [llvm, ad], ids=["llvm", "llvm.ad"])


def same(result: Any, expected: Any, rtol: float = 1e-6, atol: float = 1e-6) -> None:
    """Compare with one matrix or vector, or with those of all elements."""
    data = np.asarray(result)
    expected = np.asarray(expected)
    if data.ndim == expected.ndim + 1:
        assert data.shape[-1] == 1
        data = data[..., 0]
    np.testing.assert_allclose(data, expected, rtol, atol)


class TestMaking:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ((3,), np.eye(2) * 3),
            ((True,), np.eye(2)),
            ((np.float32(2),), np.eye(2) * 2),
            ((np.array(2.0),), np.eye(2) * 2),
            ((Float(3),), np.eye(2) * 3),
            ((1, 2, 3, 5), A),
            (([1, 2, 3, 5],), A),
            (([1, 2], [3, 5]), A),
            (([[1, 2], [3, 5]],), A),
            ((iter([[1, 2], [3, 5]]),), A),
            ((Array2f(1, 2), [3, 5]), A),
            ((A,), A),
            ((A.reshape(-1),), A),
            ((MANY,), MANY),
            ((Array22f(A),), A),
            ((Matrix2f64(A),), A),
            ((scalar.Matrix2f(A),), A),
            ((llvm.Array4f(1, 2, 3, 5),), A),
            ((1, 2), [[1, 1], [2, 2]]),
            ((Matrix3f([[1, 2, 9], [3, 5, 9], [9, 9, 9]]),), A),
        ],
    )
    def test_from(self, arguments: Any, expected: Any) -> None:
        if isinstance(arguments[0], type(iter([]))):
            arguments = ([*arguments[0]],)
        for cls in (Matrix2f, Matrix2f16, Matrix2f64, ad.Matrix2f):
            same(cls(*arguments), expected)

    def test_iterators(self) -> None:
        same(Matrix2f(iter([[1, 2], [3, 5]])), A)
        assert Matrix2f().shape == (2, 2, 0)
        same(scalar.Matrix2f(), np.zeros((2, 2)))

    def test_elements(self) -> None:
        same(Matrix2f(Float(1, 2)), np.stack([np.eye(2), np.eye(2) * 2], axis=-1))
        same(Matrix2f([Float(1, 2), 0], [0, 1])[0, 0], [1, 2])

    def test_other_sizes(self) -> None:
        grown = np.eye(4)
        grown[:2, :2] = A
        same(Matrix4f(Matrix2f(A)), grown)
        same(scalar.Matrix4f(scalar.Matrix2f(A)), grown)
        same(Matrix2f(Matrix4f(grown)), A)

    def test_scalar(self) -> None:
        m = scalar.Matrix2f(A)
        assert m.numpy().tolist() == A.tolist()
        assert (m[0, 1], m[1][0], len(m), m.shape) == (2.0, 3.0, 2, (2, 2))
        assert type(m[0]) is scalar.Array2f
        same(scalar.Matrix2f(2), np.eye(2) * 2)

    def test_filled(self) -> None:
        same(dr.zeros(Matrix2f, 2), np.zeros((2, 2, 2)))
        same(dr.ones(Matrix2f), np.ones((2, 2)))
        same(dr.full(Matrix2f, 3, 2), np.full((2, 2, 2), 3))
        same(dr.full(Matrix2f, A.tolist(), 2), np.stack([A, A], axis=-1))
        same(dr.identity(Matrix2f, 2), np.stack([np.eye(2)] * 2, axis=-1))
        same(dr.opaque(Matrix2f, 3), np.full((2, 2), 3))
        assert dr.empty(Matrix3f, 4).shape == (3, 3, 4)
        same(dr.ones(scalar.Matrix2f), np.ones((2, 2)))
        same(dr.identity(scalar.Matrix2f), np.eye(2))

    def test_bad_input(self) -> None:
        with pytest.raises(ArrayTypeError, match=r"can't be made from Array2f.* diag"):
            Matrix2f(Array2f(1, 2))
        with pytest.raises(ArrayTypeError, match="can't be made from Quaternion4f"):
            Matrix2f(Quaternion4f(1))
        with pytest.raises(ArrayTypeError, match=r"wrong size \(expected 2 .* got 3"):
            Matrix2f(1, 2, 3)
        with pytest.raises(ArrayTypeError, match=r"wrong size \(expected 3 .* got 2"):
            Matrix3f([[1, 2], [3, 4]])
        with pytest.raises(ArrayTypeError, match="can't be made from a value of type"):
            Matrix2f("a")
        with pytest.raises(ArrayTypeError, match="expected a dynamic one-dimensional"):
            dr.arange(Matrix2f, 3)


class TestEntries:
    def test_reading(self) -> None:
        m = Matrix2f(MANY)
        assert type(m[0]) is Array2f
        same(m[1], MANY[1])
        same(m[0, 1], MANY[0, 1])
        same(m[1][0], MANY[1, 0])
        assert [type(row) for row in m] == [Array2f, Array2f]
        assert type(m.array) is Array22f
        same(m.array, MANY)
        same(m.T, MANY.transpose(1, 0, 2))
        assert type(m.T) is Matrix2f

    def test_columns(self) -> None:
        m = Matrix3f(np.arange(9.0).reshape(3, 3))
        same(m[:, 0], [0, 3, 6])
        same(m[1:, 2], [5, 8])
        same(scalar.Matrix3f(m.numpy()[..., 0])[:, 1], [1, 4, 7])
        m[:, 0] = [7, 8, 9]
        same(m[:, 0], [7, 8, 9])
        m[:, 1] = 0
        same(m.numpy()[:, 1, 0], [0, 0, 0])

    def test_writing(self) -> None:
        m = Matrix2f(A)
        m[0, 1] = 9
        m[1] = [7, 8]
        same(m, [[1, 9], [7, 8]])
        m[1][0] = Float(6)
        m[0, 0] += 1
        same(m, [[2, 9], [6, 8]])
        m[0] = 5
        same(m[0], [5, 5])
        n = scalar.Matrix2f(A)
        n[0, 1] = 9
        n[1] = [7, 8]
        same(n, [[1, 9], [7, 8]])

    def test_what_is_read_is_a_copy_or_a_part(self) -> None:
        m = Matrix2f(A)
        transposed, array = m.T, m.array
        transposed[0, 0] = 9
        array[0, 1] = 9
        same(m, A)
        other = copy.deepcopy(m)
        other += 1
        same(m, A)

    def test_names(self) -> None:
        for name in ("x", "xy", "wzyx"):
            with pytest.raises(ArrayAttributeError, match=r"no components .* indices"):
                getattr(Matrix2f(1), name)
        with pytest.raises(ArrayTypeError, match="is no matrix type"):
            _ = Array22f(1).T
        with pytest.raises(ArrayTypeError, match="is no matrix type"):
            dr.transpose(Float(1))
        with pytest.raises(ArrayTypeError, match="unsupported argument"):
            dr.transpose(3)  # type: ignore[type-var]
        with pytest.raises(ArrayValueError, match=r"axes of a matrix are \(0, 1\)"):
            dr.transpose(Matrix2f(1), (0, 1))
        same(dr.transpose(Matrix2f(A), (1, 0)), A.T)

    def test_text(self) -> None:
        assert str(Matrix2f(A)) == "[[[1, 2],\n  [3, 5]]]"
        assert str(scalar.Matrix2f(A)) == "[[1, 2],\n [3, 5]]"
        assert str(Matrix2f()) == "[]"

    def test_real_and_imaginary_parts(self) -> None:
        m = Matrix2f(A)
        same(dr.real(m), A)
        same(dr.imag(m), np.zeros((2, 2)))
        same(m.imag, np.zeros((2, 2)))
        assert dr.conj(m) is m
        assert m.real is m


def elementwise(op: Any, a: Any, b: Any) -> Any:
    """Apply an operation to each pair of matrices, the elements being last."""
    a, b = np.broadcast_arrays(a, b)
    found = [op(a[..., i], b[..., i]) for i in range(a.shape[-1])]
    return np.stack(found, axis=-1)


class TestOperators:
    def test_of_matrices(self) -> None:
        m, n = Matrix2f(MANY), Matrix2f(B)
        other = np.repeat(B[..., None], 3, axis=-1)
        same(m + n, MANY + other)
        same(m - n, MANY - other)
        same(m * n, elementwise(operator.matmul, MANY, other))
        same(m @ n, elementwise(operator.matmul, MANY, other))
        quotient = elementwise(lambda a, b: a @ np.linalg.inv(b), MANY, other)
        same(m / n, quotient)
        same(-m, -MANY)
        same(+m, MANY)
        same(abs(n), abs(B))
        same(dr.fma(m, n, n), elementwise(lambda a, b: a @ b + b, MANY, other))

    def test_numbers_multiply_the_identity(self) -> None:
        m = Matrix2f(A)
        for number in (2, 2.0, Float(2), np.float32(2), scalar.Array1f(2)[0]):
            same(m + number, A + 2 * np.eye(2))
            same(number + m, A + 2 * np.eye(2))
            same(m - number, A - 2 * np.eye(2))
            same(number - m, 2 * np.eye(2) - A)
            same(m * number, A * 2)
            same(number * m, A * 2)
            same(m / number, A / 2)
            same(number / m, 2 * np.linalg.inv(A))
        assert ((m == 1).numpy()[..., 0] == (np.eye(2) == A)).all()

    def test_numbers_leave_other_entries_alone(self) -> None:
        m = Matrix2f(1, -0.0, dr.inf, 1) + 1
        assert np.signbit(m.numpy()[0, 1, 0])
        assert m[1, 0][0] == dr.inf

    def test_vectors(self) -> None:
        m, v = Matrix2f(A), Array2f(1, 2)
        for product in (operator.mul, operator.matmul):
            same(product(m, v), A @ [1, 2])
            same(product(v, m), [1, 2] @ A)
            same(product(m, [1, 2]), A @ [1, 2])
            same(product(scalar.Matrix2f(A), v), A @ [1, 2])
            same(product(scalar.Matrix2f(A), scalar.Array2f(1, 2)), A @ [1, 2])
            assert type(product(m, v)) is Array2f
        same(v / m, [1, 2] @ np.linalg.inv(A))
        with pytest.raises(ArrayTypeError, match="can't be divided by vectors"):
            _ = m / v
        with pytest.raises(ArrayTypeError, match="can't be made from Array2f"):
            _ = m + v

    @pytest.mark.parametrize(
        ("a", "b", "cls"),
        [
            (Matrix2f(1), 1.5, Matrix2f),
            (Matrix2f(1), Float64(1), Matrix2f64),
            (Matrix2f(1), llvm.Int(1), Matrix2f),
            (Matrix2f(1), Matrix2f64(1), Matrix2f64),
            (Matrix2f(1), scalar.Matrix2f64(1), Matrix2f64),
            (Matrix2f(1), ad.Matrix2f(1), ad.Matrix2f),
            (Matrix2f(1), Array22f64(1), Matrix2f64),
            (Matrix2f16(1), 2, Matrix2f16),
            (Matrix2f(1), ad.Float(1), ad.Matrix2f),
            (scalar.Matrix2f(1), Float(1), Matrix2f),
        ],
    )
    def test_promotion(self, a: Any, b: Any, cls: type[Any]) -> None:
        for op in (operator.add, operator.mul, operator.sub):
            assert type(op(a, b)) is type(op(b, a)) is cls
        assert dr.expr_t(a, b) is cls

    def test_half_precision(self) -> None:
        m = Matrix2f16(A)
        same(m @ m, A @ A)
        same(dr.det(m), -1)
        assert type(m @ llvm.Array2f16(1, 2)) is llvm.Array2f16
        same(dr.rcp(m) @ m, np.eye(2), atol=2e-2)
        n = scalar.Matrix2f16(A)
        same(n @ n, A @ A)
        assert type(n @ scalar.Array2f16(1, 2)) is scalar.Array2f16

    def test_what_doesnt_fit(self) -> None:
        for op in (operator.mul, operator.matmul, operator.add):
            with pytest.raises(ArrayTypeError, match="incompatible shapes"):
                op(Matrix2f(1), Matrix3f(1))
        with pytest.raises(ArrayTypeError, match="matrix and complex arrays don't mix"):
            _ = Matrix2f(1) * Complex2f(1)
        with pytest.raises(ArrayTypeError, match="matrix and quaternion arrays"):
            _ = Matrix4f(1) * Quaternion4f(1)
        with pytest.raises(ArrayTypeError, match=r"matmul: not defined for 'Matrix4f'"):
            _ = Matrix4f(1) @ Quaternion4f(1)

    @pytest.mark.parametrize(
        "operation",
        [
            lambda m: m < m,
            lambda m: m >= 1,
            lambda m: m // 2,
            lambda m: m % 2,
            dr.sign,
        ],
    )
    def test_what_isnt_defined(self, operation: Any) -> None:
        for m in (Matrix2f(A), scalar.Matrix2f(A)):
            with pytest.raises(ArrayTypeError, match=r"not defined for matrix arrays"):
                operation(m)

    def test_comparison(self) -> None:
        m, n = Matrix2f(A), Matrix2f(1, 0, 3, 0)
        assert type(m == n) is llvm.Array22b
        assert (m == n).numpy()[..., 0].tolist() == [[True, False], [True, False]]
        assert (m != n).numpy()[..., 0].tolist() == [[False, True], [False, True]]
        assert type(scalar.Matrix2f(A) == 1) is scalar.Array22b

    def test_powers(self) -> None:
        m = Matrix2f64(A)
        same(m**3, A @ A @ A)
        same(m**-2, np.linalg.inv(A @ A))
        same(m**0, np.eye(2))
        same(dr.power(scalar.Matrix2f64(A), 2), A @ A)

    def test_in_place(self) -> None:
        m = n = Matrix2f(A)
        m += 1
        m *= 2
        m @= Matrix2f(B)
        assert m is n
        same(m, (A + np.eye(2)) * 2 @ B)
        other: Any = m
        other *= Array2f(1, 2)
        assert type(other) is Array2f

    def test_entries(self) -> None:
        m = Matrix2f(MANY)
        for function in (dr.sqrt, dr.exp, dr.sin, dr.floor):
            of_numpy = getattr(np, function.__name__)
            same(function(dr.abs(m)), of_numpy(np.abs(MANY)))
        low = Matrix2f(np.where(MANY > 0, MANY, 0))
        same(dr.safe_sqrt(m), dr.sqrt(low))
        same(
            dr.safe_asin(Matrix2f(2, -2, 0.5, 0)),
            np.arcsin(np.array([[1, -1], [0.5, 0]])),
        )
        same(
            dr.safe_acos(Matrix2f(2, -2, 0.5, 0)),
            np.arccos(np.array([[1, -1], [0.5, 0]])),
        )
        same(dr.maximum(m, Matrix2f(B)), np.maximum(MANY, B[..., None]))
        same(dr.atan2(m, m), np.arctan2(MANY, MANY))
        bad = Matrix2f(1, dr.nan, dr.inf, 2)
        assert dr.isnan(bad).numpy().ravel().tolist() == [False, True, False, False]
        assert dr.isinf(bad).numpy().ravel().tolist() == [False, False, True, False]
        assert dr.isfinite(bad).numpy().ravel().tolist() == [True, False, False, True]

    def test_numpy_operands(self) -> None:
        m = Matrix2f64(A)
        same(m @ B, A @ B)
        same(B @ m, B @ A)
        same(m * B, A @ B)
        same(m + B, A + B)
        same(m @ np.array([1, 2]), A @ [1, 2])


class TestProducts:
    @pytest.mark.parametrize("n", [2, 3, 4])
    @pytest.mark.parametrize("space", [llvm, scalar])
    def test_cases(self, space: Any, n: int) -> None:
        random = np.random.default_rng(n)
        a, b, v = random.normal(size=(n, n)), random.normal(size=(n, n)), np.arange(n)
        matrix = getattr(space, f"Matrix{n}f64")
        nested = getattr(space, f"Array{n}{n}f64")
        vector = getattr(space, f"Array{n}f64")
        for one in (matrix(a), nested(a)):
            for other in (matrix(b), nested(b)):
                same(one @ other, a @ b)
                is_plain = type(one) is nested and type(other) is nested
                assert type(one @ other) is (nested if is_plain else matrix)
            same(one @ vector(v), a @ v)
            same(vector(v) @ one, v @ a)
            same(dr.matmul(one, 3), a * 3)
            same(dr.matmul(3, one), a * 3)
            same(dr.matmul(one, v.tolist()), a @ v)
            assert type(one @ vector(v)) is vector
        same(vector(v) @ vector(v), v @ v)
        if space is llvm:
            same(matrix(a) @ Float64(1, 2), np.stack([a, 2 * a], axis=-1))
            same(scalar.Array44f64(2) @ llvm.Array4f64(1, 2, 3, 4), [20] * 4)

    def test_flat_arrays_are_vectors(self) -> None:
        same(Float(1, 2) @ Float(3, 4), [11])
        same(Float(1, 2) @ 2, [2, 4])
        same(Array2f(1, 2) @ Float(3), [3, 6])

    def test_bad_arguments(self) -> None:
        with pytest.raises(ArrayTypeError, match="unsupported argument"):
            dr.matmul(2, 3)
        with pytest.raises(ArrayTypeError, match="unsupported argument"):
            dr.matmul(Matrix2f(1), [[[1]]])
        with pytest.raises(
            ArrayTypeError, match="not defined for entries of type Bool"
        ):
            _ = llvm.Array22b(True) @ llvm.Array22b(True)
        with pytest.raises(ArrayTypeError, match="incompatible shapes"):
            _ = Matrix2f(1) @ llvm.Array3f(1)

    @settings(deadline=None, max_examples=40)
    @given(st.integers(2, 4), st.integers(0, 2**32 - 1), st.integers(0, 9))
    def test_random(self, n: int, seed: int, width: int) -> None:
        random = np.random.default_rng(seed)
        a, b = random.normal(size=(2, n, n, width))
        v = random.normal(size=(n, width))
        cls = getattr(llvm, f"Matrix{n}f64")
        m, k = cls(a), cls(b)
        same(m @ k, np.einsum("ijw,jkw->ikw", a, b))
        vector = getattr(llvm, f"Array{n}f64")(v)
        same(m @ vector, np.einsum("ijw,jw->iw", a, v))
        same(vector @ m, np.einsum("jiw,jw->iw", a, v))
        if width:
            inner = scalar.Matrix4f64(cls(a[..., 0]).numpy()[..., 0] if n == 4 else 1)
            assert type(inner @ inner) is scalar.Matrix4f64


class TestFunctionsOfArrays:
    def test_select(self) -> None:
        m, n = Matrix2f(MANY), Matrix2f(B)
        mask = np.array([True, False, True])
        other = np.broadcast_to(B[..., None], MANY.shape)
        same(dr.select(Bool(mask), m, n), np.where(mask, MANY, other))
        one = np.broadcast_to(np.eye(2)[..., None], MANY.shape)
        same(dr.select(Bool(mask), m, 1), np.where(mask, MANY, one))
        same(dr.select(m == m, m, n), MANY)
        same(m & Bool(mask), np.where(mask, MANY, 0))
        m[Bool(mask)] = 0
        same(m, np.where(mask, 0, MANY))
        m[m == 0] = n
        same(m, np.where(mask, np.where(other == 0, 0, other), MANY))

    def test_memory(self) -> None:
        m = Matrix2f(MANY)
        same(dr.gather(Matrix2f, m, UInt(2, 0)), MANY[..., [2, 0]])
        flat = Float(1, 2, 3, 4, 5, 6, 7, 8)
        expected = np.arange(1.0, 9).reshape(2, 2, 2).transpose(1, 2, 0)
        same(dr.gather(Matrix2f, flat, UInt(0, 1)), expected)
        dr.scatter(m, Matrix2f(9), UInt(1))
        same(m[0, 0], [1, 9, 1.5])
        dr.scatter_add(m, Matrix2f(1), UInt(0, 0))
        same(m[0, 0], [3, 9, 1.5])
        same(dr.concat([m, Matrix2f(1)])[1, 0], [*m[1, 0], 0])
        same(dr.tile(Matrix2f(A), 2), np.stack([A, A], axis=-1))
        same(dr.unravel(Matrix2f, dr.ravel(m)), m)
        same(dr.slice(m, 1), [[9, 0], [0, 9]])

    def test_reductions(self) -> None:
        m = Matrix2f(A)
        same(dr.sum(m), A.sum(axis=0))
        same(dr.prod(m), A.prod(axis=0))
        same(dr.max(m), A.max(axis=0))
        same(dr.sum(m, axis=None), A.sum())
        same(dr.prod([m, m]), A @ A)
        same(dr.dot(m, m), (A * A).sum(axis=0))
        assert dr.allclose(m, A[..., None])
        assert not dr.allclose(m, 1)

    def test_traits(self) -> None:
        assert dr.is_matrix_v(Matrix2f)
        assert dr.is_special_v(Matrix2f(1))
        assert not dr.is_matrix_v(Array22f)
        assert not dr.is_vector_v(Matrix2f)
        assert dr.array_t(ad.Matrix2f) is ad.Array22f
        assert dr.mask_t(Matrix2f) is llvm.Array22b
        assert dr.value_t(Matrix2f) is Array2f
        assert dr.leaf_t(Matrix2f) is Float
        assert dr.float64_array_t(Matrix2f) is Matrix2f64
        assert dr.detached_t(ad.Matrix2f) is Matrix2f
        assert dr.diff_array_t(Matrix2f) is ad.Matrix2f
        assert dr.replace_shape_t(Matrix2f, (3, 3, dr.Dynamic)) is Matrix3f
        assert (dr.size_v(Matrix2f), dr.depth_v(Matrix2f)) == (2, 3)
        for kind in (llvm.Array3f, llvm.Array33f, Matrix3f):
            assert dr.matrix_t(kind) is Matrix3f
        for other in (Float, Quaternion4f, llvm.Array3i, llvm.ArrayXf, float):
            assert dr.matrix_t(other) is None
        assert dr.matrix_t(scalar.Array3f) is scalar.Matrix3f


@dr.syntax
def powers(m: Any, limit: Any) -> Any:
    """Multiply matrices until their trace passes a limit."""
    result, count = type(m)(1), dr.zeros(llvm.Int, dr.width(m))
    while (dr.trace(result) < limit) & (count < 9):
        result = result @ m
        count += 1
    return result, count


@MODULES
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops(module: Any, mode: str) -> None:
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, mode == "symbolic"):
        found, count = powers(module.Matrix2f(MANY), 50.0)
    for i in range(3):
        power, steps = np.eye(2), 0
        while np.trace(power) < 50 and steps < 9:
            power, steps = power @ MANY[..., i], steps + 1
        assert count[i] == steps
        same(dr.slice(found, i), power, 1e-5)


@MODULES
def test_branches_calls_and_local_memory(module: Any) -> None:
    @dr.syntax
    def changed(state: Any, mask: Any) -> Any:
        if mask:
            state["m"] = state["m"].T
        else:
            state["m"] = state["m"] @ state["m"]
        return state

    mask = module.Bool(True, False, True)
    found = changed({"m": module.Matrix2f(MANY)}, mask)["m"]
    same(dr.slice(found, 0), A.T)
    same(dr.slice(found, 1), B @ B)
    called = dr.switch(
        module.UInt(0, 1, 0), [dr.rcp, lambda m: m + 1], module.Matrix2f(MANY)
    )
    same(dr.slice(called, 0), np.linalg.inv(A), atol=1e-5)
    same(dr.slice(called, 1), B + np.eye(2))
    memory = dr.alloc_local(module.Matrix2f, 3, value=module.Matrix2f(1))
    memory[module.UInt(0, 1, 2)] = module.Matrix2f(MANY)
    same(dr.slice(memory[module.UInt(1)], 1), B)
    same(dr.slice(memory[module.UInt(0)], 1), np.eye(2))


@pytest.mark.parametrize("view", [lambda m: m.T, dr.transpose, dr.diag])
def test_what_is_made_of_a_matrix_shares_nothing_with_it(view: Any) -> None:
    m = Matrix2f(1, 2, 3, 4) * Float(1, 2)
    before = m.numpy()
    made = view(m)
    first = made[0]
    while not isinstance(first, Float):
        first = first[0]
    first += 100
    np.testing.assert_array_equal(m.numpy(), before)


def test_a_conjugate_shares_nothing_with_its_quaternion() -> None:
    q = llvm.Quaternion4f(1, 2, 3, 4) * Float(1, 2)
    before = q.numpy()
    made = dr.conj(q)
    made.w += 100
    np.testing.assert_array_equal(q.numpy(), before)
