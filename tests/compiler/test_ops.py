"""Every elementwise operation on every type that it takes, against its reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops import mathematics as ma
from lumijit.compiler.ir.ops.record import REGISTRY, Op
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    VALUES,
    DType,
)
from tests.compiler.support import (
    ODD_SIZES,
    Array,
    array,
    assert_same,
    data,
    edge_values,
    flushed,
    lit,
    pairs,
    random_values,
)

ELEMENTWISE = [op for op in REGISTRY.values() if op.lower is not None]
MATH = frozenset(op for op in vars(ma).values() if isinstance(op, Op))
# What is made of these operations, with a literal, while tracing.
BY_CONSTANT = {lo.SHL_BY: lo.SHL, lo.SHR_BY: lo.SHR, ma.HALF_POWER: ma.POWER}
SHIFT = 5
CASES = [
    pytest.param(op, t, id=f"{op.name}-{t.short}")
    for op in ELEMENTWISE
    for t in VALUES
    if t in op.accepts
]
# What rounds, and so leaves no denormals; other operations move or choose operands.
ROUNDED = frozenset({ar.ADD, ar.SUB, ar.MUL, ar.FMA, ar.DIV, ar.RCP})
# In units of the last place of the result; the accuracy of the functions over
# their whole range is measured with higher precision in test_mathlib.
ULPS: dict[Op, float] = {ar.RSQRT: 1, ar.FMA: 1}
MATH_ULPS = 8.0
# Angles are reduced with three constants, which serves up to here.
MAX_ANGLE = 8192.0


def emit(op: Op, *args: Node) -> Node:
    """Apply an operation of any arity; constants in it are 5."""
    if op in BY_CONSTANT:
        if args[0].op is LITERAL:
            number = SHIFT / 2 if op is ma.HALF_POWER else SHIFT
            return trace.emit2(BY_CONSTANT[op], args[0], lit(args[0].type, number))
        return trace.append(op, args[0].type, args, SHIFT)
    if op.arity == 1:
        return trace.emit1(op, *args)
    return trace.emit2(op, *args) if op.arity == 2 else trace.emit3(op, *args)


def operands(op: Op, t: DType, size: int | None) -> list[Array]:
    """Return edge values in all combinations, or random values of a size."""
    if size is not None:
        found = [random_values(t, size, seed) for seed in range(op.arity)]
    elif op.arity == 1:
        found = [edge_values(t)]
    else:
        x, y = pairs(t)
        found = [x, y, np.roll(x, 7)][: op.arity]
    if op in (ma.SIN, ma.COS, ma.TAN):
        found[0] = found[0][~(np.abs(found[0]) > MAX_ANGLE) | np.isinf(found[0])]
    if op is ma.LGAMMA:
        # The reflection at 0 loses the digits that a denormal lacks.
        found[0] = found[0][~((found[0] < 0) & (found[0] > -np.finfo(t.numpy).tiny))]
    if op is lo.SELECT:
        found[0] = np.arange(len(found[0])) % 3 == 0
    return found


def expect(op: Op, args: list[Array], result: DType) -> Array:
    more = [SHIFT] if op in BY_CONSTANT else []
    with np.errstate(all="ignore"):
        values = np.asarray(op.reference(*args, *more)).astype(result.numpy)  # type: ignore[misc]
    return flushed(values) if op in ROUNDED else values


def compare(op: Op, found: Array, expected: Array, args: list[Array]) -> None:
    if op is ar.MOD and found.dtype.kind == "f":
        compare_remainders(found, expected, *args)
    elif op in MATH:
        compare_functions(op, found, expected)
    else:
        assert_same(found, expected, ULPS.get(op, 0))


def compare_functions(op: Op, found: Array, expected: Array) -> None:
    """Compare up to some ulp, next to 0 up to as many of the ulp of 1."""
    wide = expected.astype(np.float64)
    eps = float(np.finfo(expected.dtype).eps)
    limit = MATH_ULPS * eps * np.maximum(np.abs(wide), 1 if op is ma.LGAMMA else 0.01)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    with np.errstate(all="ignore"):
        near = np.abs(found.astype(np.float64) - wide) <= limit
    bad = ~(near | (found == expected) | np.isnan(expected))
    assert not bad.any(), f"{found[bad][:5]} against {expected[bad][:5]}"


def compare_remainders(found: Array, expected: Array, x: Array, y: Array) -> None:
    """Remainders are exact, or NaN where the quotient has too many digits.

    Denormal ones may be zero: what is left of a larger operand is.
    """
    found, expected = flushed(found), flushed(expected)
    with np.errstate(all="ignore"):
        quotient = np.abs(x.astype(np.float64) / y.astype(np.float64))
    is_huge = np.isfinite(x) & (quotient > 2.0**100) & (y != 0)
    assert_same(found[~is_huge], expected[~is_huge])
    is_exact = (found == expected) & (np.signbit(found) == np.signbit(expected))
    assert (is_exact | np.isnan(found))[is_huge].all()


@pytest.mark.parametrize(("op", "t"), CASES)
def test_edge_values(op: Op, t: DType) -> None:
    args = operands(op, t, None)
    types = [BOOL if a.dtype == np.bool_ else t for a in args]
    nodes = [array(a, s) for a, s in zip(args, types, strict=True)]
    node = emit(op, *nodes)
    result = op.result_type(t)
    assert node.type is result
    compare(op, data(node), expect(op, args, result), args)


@pytest.mark.parametrize(("op", "t"), CASES)
def test_sizes(op: Op, t: DType) -> None:
    args = operands(op, t, 1000)
    types = [BOOL if a.dtype == np.bool_ else t for a in args]
    expected = expect(op, args, op.result_type(t))
    for size in (1000, 0, *ODD_SIZES):
        nodes = [array(a[:size], s) for a, s in zip(args, types, strict=True)]
        found = data(emit(op, *nodes))
        compare(op, found, expected[:size], [a[:size] for a in args])


@pytest.mark.parametrize(("op", "t"), CASES)
def test_folding_agrees_with_the_kernel(op: Op, t: DType) -> None:
    """Literals folded while tracing give what the kernel gives for arrays."""
    args = operands(op, t, 12)
    if t.is_float:
        args[0][:3] = [np.inf, np.nan, -0.0]
        args[-1][3:6] = [np.inf, np.nan, -0.0]
    types = [BOOL if a.dtype == np.bool_ else t for a in args]
    found = data(emit(op, *[array(a, s) for a, s in zip(args, types, strict=True)]))
    for k in range(12):
        literals = [
            trace.literal(s, s.wrap(a[k].item()))
            for a, s in zip(args, types, strict=True)
        ]
        node = emit(op, *literals)
        assert node.op is LITERAL
        one = np.array([node.attr], dtype=found.dtype)
        compare(op, found[k : k + 1], one, [a[k : k + 1] for a in args])


@pytest.mark.parametrize("t", [FLOAT32, FLOAT64, FLOAT16], ids=lambda t: t.short)
def test_min_max_of_nan_and_zeros(t: DType) -> None:
    x, y = pairs(t)
    for op, better in ((ar.MIN, np.less), (ar.MAX, np.greater)):
        found = data(trace.emit2(op, array(x, t), array(y, t)))
        assert_same(found, np.where(better(x, y), x, y))


@pytest.mark.parametrize("t", [t for t in VALUES if t.is_int], ids=lambda t: t.short)
def test_integer_division_is_exact(t: DType) -> None:
    """Against Python's integers: rounded to zero, x / 0 = 0, x % 0 = x."""
    x, y = pairs(t)
    quotients = data(trace.emit2(ar.INT_DIV, array(x, t), array(y, t)))
    remainders = data(trace.emit2(ar.MOD, array(x, t), array(y, t)))
    for a, b, q, r in zip(x.tolist(), y.tolist(), quotients, remainders, strict=True):
        exact = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        assert q == t.wrap(exact), (a, b)
        assert r == t.wrap(a - exact * b), (a, b)


@pytest.mark.parametrize("t", [t for t in VALUES if t.is_int], ids=lambda t: t.short)
def test_mulhi_is_exact(t: DType) -> None:
    x, y = pairs(t)
    found = data(trace.emit2(ar.MULHI, array(x, t), array(y, t)))
    exact = [a * b >> t.bits for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert found.tolist() == [t.wrap(v) for v in exact]


@pytest.mark.parametrize("t", [FLOAT32, FLOAT64], ids=lambda t: t.short)
def test_fma_rounds_once(t: DType) -> None:
    eps = float(np.finfo(t.numpy).eps)
    x = np.array([1 + eps, 1 - eps / 2, 3.0], t.numpy)
    square = x * x
    found = data(trace.emit3(ar.FMA, array(x, t), array(x, t), array(-square, t)))
    exact = [float_product_error(v) for v in x.tolist()]
    assert_same(found, np.array(exact, t.numpy))


def test_half_fma_goes_through_single_precision() -> None:
    """There, 5608 * 1.5 - 0.0004 is a tie, which goes to the even half."""
    x = np.array([5608, 1.5, 2322, 3], np.float16)
    y = np.array([1.5, 17648, 1.5, 0.5], np.float16)
    z = np.array([-0.0004, 0.00002, -0.00001, 0.25], np.float16)
    found = data(trace.emit3(ar.FMA, *[array(v, FLOAT16) for v in (x, y, z)]))
    exact = x.astype(float) * y.astype(float) + z.astype(float)
    assert found.tolist() == exact.astype(np.float32).astype(np.float16).tolist()
    folded = [
        trace.emit3(ar.FMA, *[lit(FLOAT16, float(v)) for v in entries]).attr
        for entries in zip(x, y, z, strict=True)
    ]
    assert found.tolist() == folded


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_float_remainders_are_exact(t: DType) -> None:
    rng = np.random.default_rng(7)
    largest = {16: 1e4, 32: 1e30, 64: 1e30}[t.bits]
    x = np.exp(rng.uniform(-3, np.log(largest), 5000)).astype(t.numpy)
    y = rng.uniform(0.1, 5, 5000).astype(t.numpy)
    x[::3] = np.round(rng.uniform(0, 1000, len(x[::3]))) * y[::3]
    x[::2] *= -1
    y[1::5] *= -1
    found = data(trace.emit2(ar.MOD, array(x, t), array(y, t)))
    assert_same(found, np.fmod(x, y))


def float_product_error(value: float) -> float:
    """Return the part of value² that the type drops, for values of few bits."""
    from fractions import Fraction

    kind: Callable[[Any], Any] = np.float64
    if value == float(np.float32(value)) and abs(value - 1) > 1e-9:
        kind = np.float32
    rounded = kind(value) * kind(value)
    return float(Fraction(value) ** 2 - Fraction(float(rounded)))


@pytest.mark.parametrize("t", [FLOAT16, FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize(("base", "wanted"), [(-np.inf, np.inf), (-0.0, 0.0)])
def test_folded_square_roots_by_power_are_those_of_kernels(
    t: DType, base: float, wanted: float
) -> None:
    folded = trace.emit2(ma.POWER, lit(t, base), lit(t, 0.5))
    assert folded.op is LITERAL
    kernel = trace.emit2(ma.POWER, array(np.full(9, base), t), lit(t, 0.5))
    assert_same(data(kernel), np.full(9, wanted, t.numpy))
    assert_same(np.array([folded.attr]), np.array([wanted]))


def test_without_folding() -> None:
    """The kernel itself computes on literals when folding is off."""
    with scoped_set_flag(JitFlag.ConstantPropagation, False):
        node = trace.emit2(
            ar.ADD, trace.literal(FLOAT32, 2.0), trace.literal(FLOAT32, 3.0)
        )
        assert node.op is ar.ADD
    assert data(node).tolist() == [5.0]


def test_reciprocal_roots(each_target: object) -> None:
    rng = np.random.default_rng(14)
    mantissas = rng.integers(0, 1 << 23, 200_000, dtype=np.uint32)
    exponents = rng.integers(1, 255, 200_000, dtype=np.uint32)
    x = (exponents << 23 | mantissas).view(np.float32)
    found = data(trace.emit1(ar.RSQRT, array(x, FLOAT32))).astype(np.float64)
    exact = 1 / np.sqrt(x.astype(np.float64))
    assert (np.abs(found - exact) < 1.6 * np.spacing(exact.astype(np.float32))).all()
    special = np.array([0.0, -0.0, np.inf, -1.0, -np.inf, np.nan, 2.0**-140], "f4")
    found = data(trace.emit1(ar.RSQRT, array(special, FLOAT32)))
    nan = np.nan
    assert_same(found, np.array([np.inf, -np.inf, 0, nan, nan, nan, 2.0**70], "f4"))
