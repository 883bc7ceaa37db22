"""Errors of derivatives name operations and lines; flag CheckDerivatives finds NaNs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float, UInt
from lumijit.runtime.errors import DerivativeError


def line_of(function, text: str) -> str:
    """Where a line of a function is, as messages have it."""
    lines, start = inspect.getsourcelines(function)
    (offset,) = (k for k, line in enumerate(lines) if text in line)
    return f"test_lines.py:{start + offset} "


@pytest.fixture
def _checked() -> Iterator[None]:
    with dr.scoped_set_flag(dr.JitFlag.CheckDerivatives):
        yield


@pytest.fixture(params=["symbolic", "evaluated"])
def _mode(request: pytest.FixtureRequest) -> Iterator[None]:
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, request.param == "symbolic"):
        yield


def variable(*values: float) -> Float:
    x = Float(*values)
    dr.enable_grad(x)
    return x


@dr.syntax
def roots(x):
    """The root's derivative is infinite at 0 in the first turn, others follow."""
    i, y = UInt(0), Float(x)
    while i < 3:
        y = y * 0.5
        z = dr.sqrt(y)
        y = z + dr.sin(y) * y
        i += 1
    return y


@pytest.mark.usefixtures("_checked", "_mode")
def test_the_first_infinite_derivative_is_told_forward() -> None:
    x = variable(1, 0, 2)
    y = roots(x)
    dr.forward(x)
    with pytest.raises(
        DerivativeError, match=r"derivative of sqrt: .* infinite"
    ) as got:
        dr.eval(y.grad)
    assert line_of(roots, "dr.sqrt") in str(got.value)


@pytest.mark.usefixtures("_checked", "_mode")
def test_the_first_infinite_derivative_is_told_in_reverse() -> None:
    x = variable(1, 0, 2)
    dr.backward(roots(x))
    with pytest.raises(
        DerivativeError, match=r"derivative of sqrt: .* infinite"
    ) as got:
        dr.eval(x.grad)
    assert line_of(roots, "dr.sqrt") in str(got.value)


@pytest.mark.usefixtures("_checked")
def test_nan_is_told_apart() -> None:
    x = variable(1, dr.nan)
    dr.backward(dr.sin(x))
    with pytest.raises(DerivativeError, match=r"derivative of sin: .* first .* NaN"):
        dr.eval(x.grad)


@pytest.mark.usefixtures("_checked", "_mode")
def test_what_is_finite_passes() -> None:
    x = variable(1, 0.5, 2)
    dr.backward(roots(x))
    assert np.isfinite(x.grad.numpy()).all()


@pytest.mark.usefixtures("_checked")
def test_what_select_leaves_out_does_not_count() -> None:
    x = variable(0, 4)
    dr.backward(dr.select(x > 0, dr.sqrt(x), 0))
    np.testing.assert_allclose(x.grad, [0, 0.25])


@pytest.mark.usefixtures("_checked")
def test_entries_that_are_read_are_tested() -> None:
    x = variable(0, 4)
    dr.backward(1 / dr.gather(Float, x, UInt(0, 1, 1)))
    with pytest.raises(DerivativeError, match=r"derivative of (rcp|div)"):
        dr.eval(x.grad)


def test_without_the_flag_nothing_is_told() -> None:
    x = variable(0, 4)
    dr.backward(dr.sqrt(x))
    assert x.grad.numpy()[0] == np.inf


@dr.syntax
def mixed(x):
    y, i = dr.ones(Float, 3), UInt(0)
    while i < 2:
        dr.scatter_reduce(dr.ReduceOp.Mul, y, x, i)
        dr.scatter_add(y, x, i)
        i += 1
    return y


def test_an_operation_without_derivative_has_its_line_under_debug() -> None:
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        y = mixed(variable(1, 2))
    with pytest.raises(DerivativeError, match=r"operation was traced at .*test_lines"):
        dr.backward(y)


def test_without_debug_the_error_says_how_to_have_the_line() -> None:
    y = mixed(variable(1, 2))
    with pytest.raises(DerivativeError, match=r"line is known if .* under flag Debug"):
        dr.backward(y)
