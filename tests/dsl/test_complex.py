"""Arrays of complex numbers: how they are made, read, combined and moved."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import Complex2f, Complex2f16, Complex2f64, Float, UInt, ad
from lumijit.runtime.errors import ArrayAttributeError, ArrayTypeError

Z = np.array([1 + 3j, 2 - 4j, -0.5 + 0.25j], np.complex64)
W = np.array([0.5 - 2j, 3 + 1j, -1j], np.complex64)
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv]
MODULES = pytest.mark.parametrize("module", [llvm, ad], ids=["llvm", "llvm.ad"])


def same(result: Any, expected: Any, rtol: float = 1e-6) -> None:
    np.testing.assert_allclose(np.asarray(result), expected, rtol)


class TestMaking:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ((1,), [1]),
            ((True,), [1]),
            ((1 + 2j,), [1 + 2j]),
            ((np.complex64(1 - 2j),), [1 - 2j]),
            ((1, 2), [1 + 2j]),
            (([1, 2],), [1 + 2j]),
            ((Float(1, 2),), [1, 2]),
            ((Float(1, 2), 3), [1 + 3j, 2 + 3j]),
            ((llvm.Array2f(1, 2),), [1 + 2j]),
            ((scalar.Complex2f(1, 2),), [1 + 2j]),
            ((Z,), Z),
            ((Z.real,), Z.real),
            ((Complex2f64(Z),), Z),
            ((np.array(2j),), [2j]),
            ((), []),
        ],
    )
    def test_from(self, arguments: Any, expected: Any) -> None:
        for cls in (Complex2f, Complex2f16, Complex2f64, ad.Complex2f):
            same(cls(*arguments), expected)

    def test_numpy_dtypes(self) -> None:
        assert Complex2f(Z).numpy().dtype == np.complex64
        assert Complex2f16(Z).numpy().dtype == np.complex64
        assert Complex2f64(Z).numpy().dtype == np.complex128
        assert np.array(Complex2f(Z), dtype=np.complex128).dtype == np.complex128
        assert scalar.Complex2f(1, 2).numpy() == 1 + 2j

    def test_filled(self) -> None:
        same(dr.zeros(Complex2f, 2), [0, 0])
        same(dr.ones(Complex2f, 2), [1, 1])
        same(dr.full(Complex2f, 2j, 2), [2j, 2j])
        same(dr.full(Complex2f, [1, 2], 2), [1 + 2j] * 2)
        same(dr.opaque(Complex2f, 1 - 1j, 2), [1 - 1j] * 2)
        assert dr.empty(Complex2f, 3).shape == (2, 3)
        same(dr.ones(scalar.Complex2f), 1)

    def test_bad_input(self) -> None:
        with pytest.raises(ArrayTypeError, match=r"wrong size .* got 3"):
            Complex2f(1, 2, 3)
        with pytest.raises(ArrayTypeError, match="can't be made from a value of type"):
            Complex2f("1j")
        with pytest.raises(ArrayTypeError, match=r"can't be made from .* Complex2f"):
            Float(Complex2f(1))
        with pytest.raises(ArrayTypeError, match="expected a dynamic one-dimensional"):
            dr.arange(Complex2f, 3)

    def test_python_numbers(self) -> None:
        assert complex(Complex2f(1, 2)) == 1 + 2j
        assert Complex2f64(1, 2).item() == 1 + 2j
        assert complex(scalar.Complex2f(1, 2)) == 1 + 2j
        assert dr.slice(Complex2f(Z), 1).item() == Z[1]


class TestParts:
    def test_reading_and_writing(self) -> None:
        z = Complex2f(Z)
        same(z.real, Z.real)
        same(z[1], Z.imag)
        z.real = 1
        z.imag += 1
        same(z, 1 + 1j * (Z.imag + 1))
        same(z.array, np.array([np.ones(3), Z.imag + 1]))
        assert type(z.array) is llvm.Array2f
        with pytest.raises(ArrayAttributeError, match="no components by that name"):
            _ = z.x  # type: ignore[attr-defined]
        with pytest.raises(ArrayAttributeError, match="use 'real' and 'imag'"):
            z.yx = 1  # type: ignore[attr-defined]

    def test_functions(self) -> None:
        z = Complex2f(Z)
        same(dr.real(z), Z.real)
        same(dr.imag(z), Z.imag)
        same(dr.conj(z), Z.conj())
        same(dr.arg(z), np.angle(Z))
        same(dr.arg(Float(-1, 1)), [np.pi, 0])
        assert (dr.real(2.5), dr.imag(2.5)) == (2.5, 0.0)
        assert (dr.real(1 + 2j), dr.imag(1 + 2j)) == (1.0, 2.0)
        assert (dr.conj(1 + 2j), dr.conj(3)) == (1 - 2j, 3)
        assert dr.arg(1j) == pytest.approx(np.pi / 2)
        assert dr.imag(llvm.Int(3))[0] == 0
        assert dr.imag(scalar.Complex2f(1, 2)) == 2.0
        assert dr.arg(scalar.Complex2f(0, 2)) == pytest.approx(np.pi / 2)
        for function in (dr.real, dr.imag, dr.conj, dr.arg):
            with pytest.raises(ArrayTypeError, match="unsupported argument"):
                function("z")

    def test_text(self) -> None:
        assert str(Complex2f(Z)) == "[1+3j,\n 2-4j,\n -0.5+0.25j]"
        assert str(Complex2f(0, -0.0)) == "[0]"
        assert str(Complex2f(0, -2)) == "[-2j]"
        assert str(scalar.Complex2f(1, 2)) == "1+2j"
        assert str(Complex2f()) == "[]"
        assert f"{Complex2f(1.25, 2):.1f}" == "[1.2+2.0j]"


class TestOperators:
    @pytest.mark.parametrize("op", OPERATORS)
    def test_numbers(self, op: Any) -> None:
        z, w = Complex2f(Z), Complex2f(W)
        same(op(z, w), op(Z, W))
        for other in (2, 2.5, 1 - 2j):
            same(op(z, other), op(Z, other))
            same(op(other, z), op(other, Z))
        same(op(z, Float(W.real + 2)), op(Z, W.real + 2))
        same(op(Float(1, 2, 3), z), op(np.array([1, 2, 3]), Z))
        same(op(z, llvm.Array2f(1, 2)), op(Z, 1 + 2j))
        same(op(z, [1, 2]), op(Z, 1 + 2j))
        same(op(z, W), op(Z, W))
        same(op(W, z), op(W, Z))
        same(op(Complex2f16(Z), Complex2f16(W)), op(Z, W), 2e-3)
        same(op(scalar.Complex2f(1, 2), 3 - 1j), op(1 + 2j, 3 - 1j))

    @pytest.mark.parametrize(
        ("a", "b", "cls"),
        [
            (Complex2f(1), 1, Complex2f),
            (Complex2f(1), 1j, Complex2f),
            (Float(1), 1j, Complex2f),
            (llvm.Float16(1), 1j, Complex2f16),
            (llvm.Int(1), 1j, Complex2f),
            (llvm.Array2f(1), 1j, Complex2f),
            (Complex2f(1), llvm.Float64(1), Complex2f64),
            (Complex2f(1), llvm.Int64(1), Complex2f),
            (Complex2f16(1), Complex2f(1), Complex2f),
            (Complex2f(1), ad.Float(1), ad.Complex2f),
            (scalar.Complex2f(1), Complex2f(1), Complex2f),
            (scalar.Complex2f(1), 2.5, scalar.Complex2f),
            (Complex2f(1), llvm.Array2f(1), Complex2f),
            (Float(1), np.array([1j]), Complex2f64),
        ],
    )
    def test_promotion(self, a: Any, b: Any, cls: type[Any]) -> None:
        assert type(a + b) is cls
        assert type(b * a) is cls

    def test_what_doesnt_fit(self) -> None:
        with pytest.raises(ArrayTypeError, match="incompatible shapes"):
            llvm.Array3f(1) + 1j  # type: ignore[operator]
        with pytest.raises(ArrayTypeError, match=r"can't be combined .* \(2, 2\)"):
            llvm.Array22f(1) + Complex2f(1)

    def test_comparison(self) -> None:
        z = Complex2f(Z)
        equal = z == Complex2f(1, [3, 1, 1])
        assert type(equal) is llvm.Array2b
        assert equal.numpy().tolist() == [[True, False, False], [True, False, False]]
        assert dr.all_nested(z != 9j)
        assert not dr.any_nested(z == 9j)

    @pytest.mark.parametrize(
        "operation",
        [
            lambda z: z < z,
            lambda z: z <= 1,
            lambda z: z // 2,
            lambda z: z % 2,
            lambda z: z & z,
            dr.sign,
            lambda z: dr.step(z, 1),
        ],
    )
    def test_what_isnt_defined(self, operation: Any) -> None:
        for z in (Complex2f(Z), scalar.Complex2f(1, 2)):
            with pytest.raises(ArrayTypeError, match="not defined for complex arrays"):
                operation(z)

    def test_matrix_products_and_reductions_that_arent_defined(self) -> None:
        z = Complex2f(Z)
        with pytest.raises(ArrayTypeError, match="matmul: not defined for"):
            _ = z @ z
        for function in (dr.prod, dr.min, dr.max):
            with pytest.raises(ArrayTypeError, match="isn't defined for complex"):
                function(z, axis=1)
        with pytest.raises(ArrayTypeError, match="Mul isn't defined for complex"):
            dr.scatter_reduce(dr.ReduceOp.Mul, z, z, UInt(0, 1, 2))

    @pytest.mark.parametrize("cls", [Complex2f, scalar.Complex2f])
    def test_parts(self, cls: Any) -> None:
        z = cls(1.5, -2.75)
        assert dr.allclose(dr.floor(z), cls(1, -3))
        assert dr.allclose(dr.round(z), cls(2, -3))
        assert dr.allclose(dr.trunc(z), cls(1, -2))
        assert dr.allclose(dr.ceil(z), cls(2, -2))
        found = np.ravel([dr.max(z), dr.min(z), dr.prod(z)])
        assert found.tolist() == [1.5, -2.75, -4.125]
        assert dr.max(Complex2f([1, 2], [7, 4]), axis=None)[0] == 7

    def test_powers(self) -> None:
        z = Complex2f(Z)
        for exponent in (0, 1, 2, 3, -1, -2, 0.5, 1.5 - 1j):
            same(z**exponent, Z.astype(np.complex128) ** exponent, 1e-5)
        same(2**z, 2 ** Z.astype(np.complex128), 1e-5)
        same(z ** Complex2f(W), Z.astype(np.complex128) ** W, 1e-5)
        same(Complex2f(0) ** Complex2f([0, 1, 2], [0, 0, 1]), [1, 0, 0])

    def test_in_place(self) -> None:
        z = w = Complex2f(Z)
        z *= 1j
        z += 1
        assert z is w
        same(w, Z * 1j + 1)

    def test_a_product_with_the_conjugate_is_real(self) -> None:
        z = Complex2f(Float(0.1, 1 / 3), 0.7)
        assert list(dr.imag(z * dr.conj(z))) == [0, 0]

    def test_real_operands_touch_no_other_part(self) -> None:
        z = Complex2f(1, -0.0)
        assert np.signbit((z + 1).imag.numpy()[0])
        assert (z * Float(dr.inf)).real[0] == dr.inf

    @settings(deadline=None)
    @given(*[st.complex_numbers(max_magnitude=1e15, min_magnitude=1e-15)] * 2)
    def test_quotients(self, a: complex, b: complex) -> None:
        for cls, space in ((llvm.Complex2f64, llvm), (scalar.Complex2f64, scalar)):
            quotient = complex(cls(a) / cls(b))
            assert abs(quotient - a / b) <= 8e-16 * abs(a / b), space


class TestFunctionsOfArrays:
    def test_select(self) -> None:
        z, w = Complex2f(Z), Complex2f(W)
        mask = llvm.Bool(True, False, True)
        expected = np.where([True, False, True], Z, W)
        same(dr.select(mask, z, w), expected)
        same(dr.select(mask, z, 2j), np.where([True, False, True], Z, 2j))
        same(dr.select(mask, z, 1), np.where([True, False, True], Z, 1))
        same(dr.select(z == z, z, w), Z)
        same(z & mask, np.where([True, False, True], Z, 0))
        z[mask] = 0
        same(z, np.where([True, False, True], 0, Z))

    def test_memory(self) -> None:
        z = Complex2f(Z)
        same(dr.gather(Complex2f, z, UInt(2, 0)), Z[[2, 0]])
        same(dr.gather(Complex2f, Float(1, 2, 3, 4), UInt(1, 0)), [3 + 4j, 1 + 2j])
        dr.scatter(z, Complex2f(9j), UInt(1))
        same(z, [Z[0], 9j, Z[2]])
        dr.scatter_add(z, Complex2f(1, 1), UInt(0, 0))
        same(z, [Z[0] + 2 + 2j, 9j, Z[2]])
        same(dr.concat([z, Complex2f(1j)])[1], [*z.imag, 1])
        same(dr.tile(Complex2f(1j), 2), [1j, 1j])
        flat = dr.ravel(Complex2f(Z))
        same(flat, np.stack([Z.real, Z.imag], axis=1).ravel())
        same(dr.unravel(Complex2f, flat), Z)

    def test_sums(self) -> None:
        z = Complex2f(Z)
        same(dr.sum(z, axis=1), [Z.sum()])
        same(dr.sum(z), Z.real + Z.imag)
        same(dr.mean(z, axis=1), [Z.mean()])
        same(dr.prod([z, z]), Z * Z)
        same(dr.dot(z, z), Z.real**2 + Z.imag**2)
        same(dr.norm(z), np.abs(Z))
        same(dr.squared_norm(z), np.abs(Z) ** 2)

    def test_tests(self) -> None:
        z = Complex2f([1, dr.inf, 2, 3e38], [2, 1, dr.nan, 3e38])
        assert list(dr.isfinite(z)) == [True, False, False, True]
        assert list(dr.isinf(z)) == [False, True, False, False]
        assert dr.isnan(z).numpy().any(axis=0).tolist() == [False, False, True, False]
        assert dr.allclose(Complex2f(Z), Z)
        assert not dr.allclose(Complex2f(Z), Z.conj())

    def test_traits(self) -> None:
        assert dr.is_complex_v(Complex2f)
        assert dr.is_special_v(Complex2f(1))
        assert not dr.is_complex_v(1j)
        assert not dr.is_vector_v(Complex2f)
        assert dr.array_t(ad.Complex2f) is ad.Array2f
        assert dr.mask_t(Complex2f) is llvm.Array2b
        assert dr.value_t(Complex2f) is Float
        assert dr.float64_array_t(Complex2f) is Complex2f64
        assert dr.int32_array_t(Complex2f) is llvm.Array2i
        assert dr.detached_t(ad.Complex2f) is Complex2f
        assert dr.diff_array_t(Complex2f) is ad.Complex2f
        assert dr.replace_shape_t(Complex2f, (2, dr.Dynamic)) is Complex2f
        assert dr.expr_t(Complex2f, llvm.Float64) is Complex2f64
        assert (dr.size_v(Complex2f), dr.depth_v(Complex2f)) == (2, 2)
        assert dr.epsilon(Complex2f) == 2**-24

    def test_copies_are_independent(self) -> None:
        z = Complex2f(Z)
        w = copy.copy(z)
        w += 1
        same(z, Z)


@dr.syntax
def iterations(c: Any, limit: int) -> Any:
    """How long the orbit of zero stays within a circle, and where it ends."""
    z, count = type(c)(0), dr.zeros(llvm.Int, dr.width(c))
    while (dr.squared_norm(z) < 4) & (count < limit):
        z = z * z + c
        count += 1
    return z, count


@MODULES
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops(module: Any, mode: str) -> None:
    points = np.array([0.1 + 0.2j, -1 + 0.4j, 0.5 + 0.5j, 2 + 1j], np.complex64)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, mode == "symbolic"):
        z, count = iterations(module.Complex2f(points), 20)
    for k, point in enumerate(points.astype(np.complex128)):
        orbit, steps = 0j, 0
        while abs(orbit) ** 2 < 4 and steps < 20:
            orbit, steps = orbit * orbit + point, steps + 1
        assert count[k] == steps
        assert abs(z.numpy()[k] - orbit) < 1e-4 * max(1, abs(orbit))


@MODULES
def test_branches_and_pytrees(module: Any) -> None:
    @dr.syntax
    def turned(state: Any, mask: Any) -> Any:
        if mask:
            state["z"] = state["z"] * 1j
        else:
            state["z"] = dr.conj(state["z"])
        return state

    mask = module.Bool(True, False, True)
    state = turned({"z": module.Complex2f(Z)}, mask)
    same(state["z"], np.where([True, False, True], Z * 1j, Z.conj()))


def test_scalar_mode_agrees() -> None:
    functions: list[Callable[..., Any]]
    functions = [dr.sqrt, dr.exp, dr.log, dr.sin, dr.tanh, dr.asin, dr.rcp, abs]
    for function in functions:
        for z in Z:
            result = function(scalar.Complex2f(z))
            same(result, np.asarray(function(Complex2f(z)))[0], 2e-6)
