"""Derivatives of single operations agree with differences, in forward and reverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lumijit as dr
from lumijit.compiler.ir.ops.record import REGISTRY
from lumijit.llvm.ad import (
    Array2f64,
    Array3f64,
    Bool,
    Complex2f64,
    Float,
    Float16,
    Float64,
    UInt32,
)

Op, Mode = dr.ReduceOp, dr.ReduceMode
X, Y = Float64(0.3, -0.7, 1.1, 0.5), Float64(2, 3, 0.4, 1)
TARGET = Float64(1.5, -2, 0.8, 0.9, 3)

UNARY: dict[str, tuple[Callable[[Any], Any], tuple[float, ...]]] = {
    "neg": (lambda x: -x, (0.3, -2)),
    "abs": (abs, (0.3, -2)),
    "sqrt": (dr.sqrt, (0.3, 2)),
    "rcp": (dr.rcp, (0.3, -2)),
    "rsqrt": (dr.rsqrt, (0.3, 2)),
    "floor": (dr.floor, (0.3, -2.2)),
    "ceil": (dr.ceil, (0.3, -2.2)),
    "trunc": (dr.trunc, (0.3, -2.2)),
    "round": (dr.round, (0.3, -2.2)),
    "sin": (dr.sin, (0.3, -2)),
    "cos": (dr.cos, (0.3, -2)),
    "tan": (dr.tan, (0.3, -2)),
    "asin": (dr.asin, (0.3, -0.7)),
    "acos": (dr.acos, (0.3, -0.7)),
    "atan": (dr.atan, (0.3, -2)),
    "sinh": (dr.sinh, (0.3, -2)),
    "cosh": (dr.cosh, (0.3, -2)),
    "tanh": (dr.tanh, (0.3, -2)),
    "asinh": (dr.asinh, (0.3, -2)),
    "acosh": (dr.acosh, (1.3, 2)),
    "atanh": (dr.atanh, (0.3, -0.7)),
    "exp": (dr.exp, (0.3, -2)),
    "exp2": (dr.exp2, (0.3, -2)),
    "log": (dr.log, (0.3, 2)),
    "log2": (dr.log2, (0.3, 2)),
    "half_power": (lambda x: x**2.5, (0.3, 2)),
    "cbrt": (dr.cbrt, (0.3, -2)),
    "erf": (dr.erf, (0.3, -2)),
    "erfinv": (dr.erfinv, (0.3, -0.7)),
    "lgamma": (dr.lgamma, (0.3, 2.2, -1.3, 30)),
    "copy": (dr.copy, (0.3, -2)),
    "cast": (lambda x: Float64(x), (0.3, -2)),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "mod": lambda x, y: x % y,
    "min": dr.minimum,
    "max": dr.maximum,
    "power": lambda x, y: dr.power(abs(x), y),
    "atan2": dr.atan2,
    "copysign": dr.copysign,
    "mulsign": dr.mulsign,
    "fma": lambda x, y: dr.fma(x, y, x * x),
    "select": lambda x, y: dr.select(x > y, x * y, x - y),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_operations(name: str) -> None:
    function, points = UNARY[name]
    dr.gradcheck(function, Float64(points))


@pytest.mark.parametrize("name", BINARY)
def test_binary_operations_and_broadcasting(name: str) -> None:
    """A value of one entry gets the sum of what arrives at each element."""
    function = BINARY[name]
    x, y = Float64(0.3, -2, 1.5), Float64(1.1, 0.7, -0.6)
    dr.gradcheck(
        lambda x, y, one: (function(x, y), function(x, one), function(one, y) * one),
        x,
        y,
        Float64(0.45),
    )


def test_every_elementwise_record_is_checked() -> None:
    records = {n for n, op in REGISTRY.items() if isinstance(op.derivative, tuple)}
    assert records <= {*UNARY, *BINARY}


OTHERS: dict[str, Callable[[Any], Any]] = {
    "whole powers": lambda x: (x**0, x**1, x**2, x**3, x**-2, 2**x, x % 0.61),
    "safe": lambda x: (dr.safe_sqrt(x), dr.safe_asin(x), dr.safe_acos(1.9 * x)),
    "pairs": lambda x: (dr.sincos(x), dr.sincosh(x)),
    "limits": lambda x: (dr.clip(x, -0.5, 0.4), dr.lerp(x, x * x, 0.3), dr.sign(x)),
    "numbers": lambda x: (2 - x, 2 / x, 3 * x, x / 3, x * x / x, dr.minimum(x, x)),
    "sums": lambda x: (dr.sum(x), dr.mean(x), dr.norm(x), dr.dot(x, x * x)),
    "products": dr.prod,
    "extremes": lambda x: (dr.min(x), dr.max(x * x)),
    "prefix sums": lambda x: (dr.cumsum(x) ** 2, dr.prefix_sum(x) * x),
    "blocks": lambda x: (
        dr.block_sum(x * x, 2),
        *(dr.block_reduce(op, x, 2) ** 2 for op in (Op.Mul, Op.Min, Op.Max)),
    ),
    "repetition": lambda x: (dr.repeat(x, 3) ** 2, dr.tile(x, 2) ** 2),
    "order": lambda x: (dr.reverse(x) * x, dr.concat([x, x * x])),
    "ravel": lambda x: dr.ravel(Array2f64(x, x * x)),
    "ravel by component": lambda x: dr.ravel(Array2f64(x, x * x), order="C"),
    "unravel": lambda x: dr.unravel(Array2f64, x) ** 2,
    "unravel by component": lambda x: dr.unravel(Array2f64, x, order="C") ** 2,
    "reshape": lambda x: dr.reshape(Float64, x, 2, shrink=True) * 2,
    "slice": lambda x: dr.slice(Array3f64(x, x * x, 2 * x), UInt32(1, 2)),
    "compress": lambda x: dr.gather(Float64, x, dr.compress(x > 0)),
    "vectors": lambda x: (
        dr.dot(Array3f64(x, 1, x * x), Array3f64(x, x, 2)),
        dr.cross(Array3f64(x, 1, x * x), Array3f64(x, x, 2)),
        dr.normalize(Array3f64(x, 1, x * x)),
    ),
    "components": lambda x: (
        dr.sum(Array3f64(x, 1, x * x)),
        dr.prod(Array3f64(x, 1, x * x)),
        dr.min(Array3f64(x, 1, x * x)),
        Array3f64(x, 1, x * x).zxy * 2,
    ),
    "axes": lambda x: (
        dr.sum(Array3f64(x, 1, x * x), axis=None),
        dr.sum(Array3f64(x, 1, x * x), axis=1),
        dr.prod(Array3f64(x, 1, x * x), axis=-1),
        dr.max(Array3f64(x, 1, x * x), axis=(0, 1)),
        dr.mean(Array3f64(x, 1, x * x), axis=None),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions(name: str) -> None:
    dr.gradcheck(OTHERS[name], X)


COMPLEX = ("abs", "exp", "log", "sqrt", "sin", "cosh", "conj", "arg", "squared_norm")


def test_complex_numbers() -> None:
    def function(a: Any, b: Any) -> Any:
        z = Complex2f64(a, b)
        known = [getattr(dr, name)(z) for name in COMPLEX]
        return known, z * z, z / (z * z + 1), z**3, dr.rcp(z), z.real * z.imag

    dr.gradcheck(function, X, Y)


def test_reads_by_index() -> None:
    index, mask = UInt32(4, 2, 0, 0, 9, 1), Bool(1, 1, 1, 0, 0, 1)

    def function(t: Any, one: Any) -> Any:
        return (
            dr.gather(Float64, t * t, index, mask),
            dr.gather(Float64, t, UInt32(4)) * one,
            dr.gather(Array3f64, dr.concat([t, t * t]), UInt32(1, 0, 2)),
            dr.gather(Float64, one, UInt32(0, 0, 0)),
            dr.gather(Float64, t, index, dr.opaque(Bool, False)),
        )

    dr.gradcheck(function, TARGET, Float64(2))


MODES = [Mode.Auto, Mode.Direct, Mode.Local, Mode.Expand, Mode.NoConflicts]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", [Op.Add, Op.Mul, Op.Min, Op.Max])
def test_updates_by_index(op: Any, mode: Any) -> None:
    index = UInt32(0, 2, 1, 3) if mode is Mode.NoConflicts else UInt32(0, 2, 2, 1)

    def function(t: Any, v: Any) -> Any:
        whole, masked = t * t, t + 0
        dr.scatter_reduce(op, whole, v, index, mode=mode)
        dr.scatter_reduce(op, whole, v * v, index, mode=mode)
        dr.scatter_reduce(op, masked, v, index, v > 0, mode=mode)
        return whole * whole, masked

    dr.gradcheck(function, TARGET, X)


def test_writes_by_index() -> None:
    def function(t: Any, v: Any) -> Any:
        read = dr.gather(Float64, t, UInt32(4, 2, 0, 0))
        masked, error, kahan = t + 0, dr.zeros(Float64, 5), t * 2
        dr.scatter(masked, v, UInt32(0, 3, 4, 1), Bool(1, 0, 1, 1))
        dr.scatter_add_kahan(kahan, error, v, UInt32(0, 3, 3, 1))
        dr.scatter(t, v * read, UInt32(0, 3, 2, 1))
        dr.scatter_add(t, t * t, dr.arange(UInt32, 5))
        return t * t, masked * masked, read, kahan + error

    dr.gradcheck(function, TARGET, X)


def test_assignments() -> None:
    def function(v: Any) -> Any:
        w = v + 0
        w[v > 0] = v * v
        p = Array3f64(v, 1, 2)
        p.yz = p.xx * v
        p[1] = p[1] * 2
        p.x += v
        p[v > 0.4] = p * p
        v *= w
        return v, w * v, p

    dr.gradcheck(function, X)


@pytest.mark.parametrize("cls", [Float16, Float])
def test_other_float_types(cls: Any) -> None:
    """Each computes in its own type; conversions pass derivatives on."""
    x = cls(0.5, 1)
    dr.enable_grad(x)
    dr.backward(dr.sum(Float64(dr.sin(x) * x) * 2 + Float(x)))
    expected = [2 * (0.9182 * 1.0) + 1, 2 * (0.8415 + 0.5403) + 1]
    assert x.grad.numpy().tolist() == pytest.approx(expected, rel=2e-3)
    assert type(x.grad) is cls
