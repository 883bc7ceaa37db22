"""What complex numbers, quaternions and matrices have no rule for acts on each part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad

SPACES = (scalar, llvm, ad)
KINDS = ("Complex2f64", "Quaternion4f64", "Matrix2f64", "Matrix3f64")
UNARY = ("erf", "erfinv", "cbrt", "lgamma", "floor", "ceil", "round", "trunc")
BINARY = ("minimum", "maximum", "fmin", "fmax", "copysign", "atan2")
PARTS = np.array([0.5, -0.25, 0.75, 0.3, -0.6, 0.9, 0.2, -0.1, 0.4])


def made(space: Any, kind: str, shift: float = 0.0) -> Any:
    cls = getattr(space, kind)
    size = int(np.prod([max(n, 1) for n in cls._spec.outer]))
    return cls(*(PARTS[:size] + shift).tolist())


def entries(value: Any) -> Any:
    value = value.array if isinstance(value, dr.ArrayBase) else value
    return np.asarray(value.numpy()).ravel()


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kind", KINDS)
def test_functions_without_a_rule_act_on_each_part(space: Any, kind: str) -> None:
    x, y = made(space, kind), made(space, kind, 0.05)
    for name in UNARY:
        function = getattr(dr, name)
        found = function(x)
        assert type(found) is type(x)
        assert entries(found) == pytest.approx(entries(function(x.array)), nan_ok=True)
    for name in BINARY:
        function = getattr(dr, name)
        found = function(y, x)
        assert type(found) is type(x)
        assert entries(found) == pytest.approx(entries(function(y.array, x.array)))
        # A real number becomes one of that kind first.
        for real in (0.25, -0.5):
            of_kind = type(x)(real).array
            assert type(function(x, real)) is type(x)
            assert entries(function(x, real)) == pytest.approx(
                entries(function(x.array, of_kind))
            )
            assert entries(function(real, x)) == pytest.approx(
                entries(function(of_kind, x.array))
            )


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_sign_of_a_real_number_multiplies_all(space: Any, kind: str) -> None:
    x = made(space, kind)
    assert entries(dr.mulsign(x, -2.0)) == pytest.approx(-entries(x))
    assert entries(dr.mulsign(x, space.Float64(3))) == pytest.approx(entries(x))


@pytest.mark.parametrize("space", SPACES)
def test_clipped_parts(space: Any) -> None:
    z = space.Complex2f64(-1.5, 0.25)
    assert complex(dr.clip(z, -1.0, 1.0).numpy().item()) == -1
    assert complex(dr.safe_asin(z).numpy().item()) == pytest.approx(-np.pi / 2)
    assert complex(dr.safe_acos(z).numpy().item()) == pytest.approx(np.pi)
    assert complex(dr.safe_sqrt(z).numpy().item()) == pytest.approx(np.sqrt(0.25j))
    q = space.Quaternion4f64(1, -2, 0, -4)
    kept = type(q)(1, 0, 0, 0)
    assert entries(dr.safe_sqrt(q)) == pytest.approx(entries(dr.sqrt(kept)))


@pytest.mark.parametrize("space", SPACES)
def test_powers_of_matrices(space: Any) -> None:
    parts = [1.5, 2.0, 3.0, 4.25]
    m, n = space.Matrix2f64(*parts), space.Matrix2f64(0.5, 1, -1, 2)
    whole = np.array(parts).reshape(2, 2)
    exponents = np.array([[0.5, 1], [-1, 2]])
    cases = (
        (m**2, whole @ whole),
        (m**-1.0, np.linalg.inv(whole)),
        (m**0.5, whole**0.5),
        (dr.power(m, space.Float64(2.5)), whole**2.5),
        (2.0**m, 2.0**whole),
        (m**n, whole**exponents),
        (dr.hypot(m, n), np.hypot(whole, exponents)),
        (dr.hypot(m, 2.0), np.hypot(whole, 2 * np.eye(2))),
    )
    for found, wanted in cases:
        assert isinstance(found, space.Matrix2f64)
        assert entries(found) == pytest.approx(np.asarray(wanted).ravel(), rel=1e-12)


SMOOTH: dict[str, Any] = {
    "erf": dr.erf,
    "cbrt": dr.cbrt,
    "lgamma": lambda x: dr.lgamma(x + 3.3 * x * x),
    "minimum": lambda x: dr.minimum(x * x, 0.31),
    "copysign": lambda x: dr.copysign(x * x, -0.5),
    "mulsign": lambda x: dr.mulsign(x * x, -0.5),
    "atan2": lambda x: dr.atan2(x, x * x),
    "safe_sqrt": dr.safe_sqrt,
    "clip": lambda x: dr.clip(x * x, -0.4, 0.45),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(kind: str, name: str) -> None:
    dr.gradcheck(lambda x: dr.squared_norm(SMOOTH[name](x).array), made(ad, kind))


@pytest.mark.parametrize("kind", ["Matrix2f64", "Matrix3f64"])
def test_derivatives_of_powers_of_matrices(kind: str) -> None:
    m = made(ad, kind, 1.0)
    for function in (
        lambda x: x**0.5,
        lambda x: 2.0**x,
        lambda x: x ** (x * 0.5),
        lambda x: dr.hypot(x, x * x),
    ):
        dr.gradcheck(lambda x, f=function: dr.squared_norm(f(x).array), m)


@pytest.mark.parametrize("space", SPACES)
def test_signs_of_what_has_none(space: Any) -> None:
    unsigned, mask = space.Array3u(0, 1, 7), space.Array3b(True, False, True)
    assert entries(dr.sign(unsigned)).tolist() == [1, 1, 1]
    assert type(dr.sign(mask)) is space.Array3b
    assert entries(dr.sign(mask)).tolist() == [True] * 3
    assert entries(dr.copysign(unsigned, unsigned)).tolist() == [0, 1, 7]
    signed = space.Array3i(-3, 2, -1)
    assert entries(dr.copysign(signed, unsigned)).tolist() == [3, 2, 1]
    wrapped = entries(dr.mulsign(unsigned, signed))
    assert wrapped.tolist() == [0, 1, 2**32 - 7]
    assert entries(dr.mulsign(unsigned, unsigned)).tolist() == [0, 1, 7]


def test_signs_of_wide_arrays_are_as_wide() -> None:
    assert entries(dr.sign(llvm.UInt(3, 4, 5))).tolist() == [1, 1, 1]
    assert dr.width(dr.sign(llvm.Bool(True, False))) == 2
    with pytest.raises(dr.runtime.errors.ArrayTypeError, match="copysign: not defined"):
        dr.copysign(llvm.UInt(3), llvm.Int(-2))


@pytest.mark.parametrize("space", SPACES)
def test_numbers_count_that_arent_zero(space: Any) -> None:
    assert int(dr.count(space.Array3f(0, 1, 2))) == 2
    assert int(dr.count(space.Complex2f(0, 1))) == 1
    rows = dr.count(space.TensorXf([[0, 1], [2, 3]]), axis=1)
    assert entries(rows).tolist() == [1, 2]
    if space is not scalar:
        assert entries(dr.count(space.Int(0, -1, 2))).tolist() == [2]
        found = dr.count([space.Float(1, 0), space.Float(2)])
        assert type(found) is space.UInt
        assert entries(found).tolist() == [2, 1]
