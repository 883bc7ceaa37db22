"""Elliptic integrals against mpmath, and their derivatives."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import ArrayTypeError

from .elliptic_accuracy import ELLIPTIC, REFERENCES, EllipticRow, measure_elliptic

MODULI = [0.0, 1e-8, 0.1, -0.5, 0.7, 0.9, 0.99, 0.9999, 1 - 1e-9, -0.999999]
ANGLES = [0.0, 1e-9, 0.1, -0.7, 1.0, 1.5, 1.5707963, 1.6, 3.1, -4.0, 10.0, 100.0]
CHARACTERISTICS = [0.0, 0.3, 0.9, -0.5, -10.0, 0.999]


def exact(function, *columns):
    with mpmath.workdps(40):
        rows = [
            [mpmath.mpf(float(v)) for v in row] for row in zip(*columns, strict=True)
        ]
        return np.array([float(function(*row).real) for row in rows])


def arguments(name, dtype):
    columns = [MODULI]
    if not name.startswith("comp"):
        columns.insert(0, ANGLES)
    if name.endswith("3"):
        columns.append(CHARACTERISTICS)
    rows = [column.ravel().astype(dtype) for column in np.meshgrid(*columns)]
    if dtype == np.float32:
        # Rounded, these are 1 and infinite.
        keep = np.abs(rows[-2 if name.endswith("3") else -1]) < 1
        rows = [row[keep] for row in rows]
    return rows


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize(
    ("cls", "tolerance"),
    [(llvm.Float64, 4e-15), (scalar.ArrayXf64, 4e-15), (llvm.Float, 3e-6)],
)
def test_accuracy(name, cls, tolerance):
    rows = arguments(name, cls(0).numpy().dtype)
    right = exact(REFERENCES[name], *rows)
    found = getattr(dr, name)(*(cls(row) for row in rows))
    assert type(found) is cls
    found = found.numpy().astype(np.float64)
    scale = np.maximum(np.abs(right), 1e-300)
    if not name.startswith("comp"):
        # The angle is reduced as exactly as it is given.
        scale = scale + np.abs(rows[0])
    if name.endswith("3"):
        # A negative characteristic takes away from the integral of the first kind.
        rest = rows[:-1]
        scale = np.maximum(scale, np.abs(exact(REFERENCES[name[:-1] + "1"], *rest)))
    error = np.abs(found - right) / scale
    worst = np.argmax(error)
    assert error.max() < tolerance, [float(row[worst]) for row in rows]


def identity(row: EllipticRow) -> str:
    ends = (f"{x}<{high:g}" for x, (_, high) in row.domain)
    return f"{row.name}-{row.t!r}-{'-'.join(ends)}"


@pytest.mark.parametrize("row", ELLIPTIC, ids=identity)
def test_ulp(row: EllipticRow) -> None:
    measured = measure_elliptic(row, 100)
    assert measured.exact_ulp <= row.max_ulp
    assert measured.ulp[0] <= row.mean_ulp


def test_ends():
    one = llvm.Float64(1, -1, 1.5, dr.nan)
    first = dr.comp_ellint_1(one).numpy()
    assert first[:2].tolist() == [np.inf, np.inf]
    assert np.isnan(first[2:]).all()
    second = dr.comp_ellint_2(one).numpy()
    assert second[:2].tolist() == [1, 1]
    assert np.isnan(second[2:]).all()
    assert dr.comp_ellint_3(0.5, llvm.Float64(1))[0] == np.inf
    assert np.isnan(dr.comp_ellint_3(0.5, llvm.Float64(1.5))[0])
    np.testing.assert_allclose(
        dr.ellint_2(llvm.Float64(0.3, 1.2), 1), np.sin([0.3, 1.2])
    )
    gudermann = np.arctanh(np.sin([0.3, 1.2]))
    np.testing.assert_allclose(dr.ellint_1(llvm.Float64(0.3, 1.2), 1), gudermann)


def test_other_types():
    assert abs(dr.comp_ellint_1(0.5) - 1.685750354812596) < 1e-15
    assert type(dr.comp_ellint_2(llvm.Float16(0.5))) is llvm.Float16
    assert type(dr.ellint_1(llvm.Array2f(1, 2), 0.5)) is llvm.Array2f
    assert type(dr.comp_ellint_1(llvm.Int(0))) is llvm.Float
    with pytest.raises(ArrayTypeError, match="ellint_1: unsupported argument"):
        dr.ellint_1("x", 0.5)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", REFERENCES)
def test_derivatives(name):
    """In both modes, by each argument at each point: one kernel for all of them.

    (`gradcheck` takes another one for each argument and mode of control flow, and each
    takes LLVM seconds.)
    """
    points = {"k": [0.3, 0.8, 0.0, -0.95]}
    if not name.startswith("comp"):
        points = {"phi": [0.4, 1.2, -2.0, 4.0]} | points
    if name.endswith("3"):
        points["nu"] = [0.4, -0.7, 0.2, 0.0]
    values, count = np.array(list(points.values())), len(points)
    expected = np.array(
        [
            [
                float(mpmath.diff(REFERENCES[name], tuple(at), tuple(row)))
                for at in values.T.tolist()
            ]
            for row in np.eye(count, dtype=int).tolist()
        ]
    )
    # Each point once for each argument, by which it is differentiated there.
    args = [ad.Float64(np.tile(row, count)) for row in values]
    dr.enable_grad(*args)
    for arg, row in zip(args, np.eye(count), strict=True):
        dr.set_grad(arg, ad.Float64(np.repeat(row, 4)))
    found = dr.forward_to(getattr(dr, name)(*args))
    np.testing.assert_allclose(found.numpy(), expected.ravel(), 1e-10, 1e-12)
    args = [ad.Float64(row) for row in values]
    dr.enable_grad(*args)
    dr.backward(getattr(dr, name)(*args))
    dr.eval([dr.grad(arg) for arg in args])
    found = [dr.grad(arg).numpy() for arg in args]
    np.testing.assert_allclose(found, expected, 1e-10, 1e-12)


def test_in_a_symbolic_loop():
    def body(x, i):
        return dr.comp_ellint_2(x) - 1, i + 1

    x, _ = dr.while_loop(
        (llvm.Float64(0.2, 0.9), llvm.UInt(0)), lambda x, i: i < 2, body
    )
    right = [0.2, 0.9]
    for _ in range(2):
        right = exact(lambda k: mpmath.ellipe(k * k), right) - 1
    np.testing.assert_allclose(x, right, rtol=1e-13)
