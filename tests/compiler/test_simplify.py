"""Folding and simplification: each rule against the unsimplified evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops import mathematics as ma
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import (
    ARITHMETIC,
    BOOL,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT8,
    INT16,
    INT32,
    INTS,
    UINT8,
    UINT16,
    UINT32,
    VALUES,
    DType,
)
from lumijit.runtime.errors import SizeError
from tests.compiler.support import (
    array,
    assert_same,
    check,
    data,
    edge_values,
    flushed,
    lit,
)


@pytest.fixture(autouse=True, scope="module")
def _exact() -> Iterator[None]:
    with scoped_set_flag(JitFlag.FastMath, False):
        yield


BINARY = [
    *(ar.ADD, ar.SUB, ar.MUL, ar.DIV, ar.INT_DIV, ar.MOD, ar.MIN, ar.MAX),
    *(lo.AND, lo.OR, lo.XOR, lo.SHL, lo.SHR),
    *(lo.EQ, lo.NE, lo.LT, lo.LE, lo.GT, lo.GE),
]
CASES = [
    pytest.param(op, t, id=f"{op.name}-{t.short}")
    for op in BINARY
    for t in VALUES
    if t in op.accepts and t.bits != 16
]


def special_numbers(t: DType) -> list[Any]:
    if t.is_bool:
        return [False, True]
    found = [0, 1, 2, 4, 3]
    if t.is_signed:
        found += [-1, -2]
    if t.is_float:
        return [*map(float, found), -0.0, 0.5, 0.1, math.inf, math.nan]
    return [*found, t.wrap(-1), 1 << (t.bits - 2)]


@pytest.mark.parametrize(("op", "t"), CASES)
def test_rules_with_a_literal(op: Op, t: DType) -> None:
    """All literals of interest on both sides in one kernel, against NumPy."""
    values = edge_values(t)
    x = array(values, t)
    nodes, expected = [], []
    for number in special_numbers(t):
        constant = np.full(len(values), number, t.numpy)
        for is_left in (False, True):
            a, b = (lit(t, number), x) if is_left else (x, lit(t, number))
            nodes.append(trace.emit2(op, a, b))
            args = (constant, values) if is_left else (values, constant)
            with np.errstate(all="ignore"):
                right = np.asarray(op.reference(*args))  # type: ignore[misc]
            expected.append(right.astype(nodes[-1].type.numpy))
    nodes.append(trace.emit2(op, x, x))
    with np.errstate(all="ignore"):
        expected.append(op.reference(values, values))  # type: ignore[misc]
    for node, right in zip(nodes, expected, strict=True):
        assert node.size == len(values)
        found = data(node)
        if op is ar.MOD and t.is_float:
            # Quotients of too many digits give NaN (see test_ops).
            assert (np.isnan(found) >= np.isnan(right)).all()
            found, right = found[~np.isnan(found)], right[~np.isnan(found)]
        # (x * 1 and the like are x, which isn't computed.)
        assert_same(flushed(found), flushed(right))


@pytest.mark.parametrize("t", [*FLOATS], ids=lambda t: t.short)
@pytest.mark.parametrize("exponent", [k + 0.5 for k in range(-4, 4)])
def test_half_exponents(t: DType, exponent: float) -> None:
    """A root and products, but with what `power` gives for special numbers."""
    values = edge_values(t)
    x = array(values, t)
    found = trace.emit2(ma.POWER, x, lit(t, exponent))
    assert found.op is ma.HALF_POWER
    wide = values.astype(np.float64)
    with np.errstate(all="ignore"):
        right = ma.POWER.reference(wide, np.full_like(wide, exponent))  # type: ignore[misc]
        right = right.astype(t.numpy)
    got = data(found)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(right))
    # Whose square or inverse is no normal number.
    info = np.finfo(t.numpy)
    with np.errstate(all="ignore"):
        size = np.abs(wide) ** max(abs(exponent), 1)
    inside = (size > info.tiny) & (size < info.max)
    assert_same(got[inside], right[inside], 4)
    outside = ~inside & (~np.isfinite(wide) | (wide == 0))
    assert_same(got[outside], right[outside])


def test_other_exponents_are_powers() -> None:
    x = array(np.ones(3), FLOAT32)
    for exponent in (4.5, 0.3, math.inf, math.nan, 2.0):
        assert trace.emit2(ma.POWER, x, lit(FLOAT32, exponent)).op is ma.POWER


DIVISORS = {
    UINT8: range(1, 256),
    INT8: [d for d in range(-128, 128) if d],
    UINT16: [*range(1, 70), 127, 641, 32767, 32768, 32769, 65534, 65535],
    INT16: [*range(1, 40), *range(-40, 0), 641, 32767, -32767, -32768],
    UINT32: [1, 2, 3, 5, 6, 7, 9, 10, 641, 65537, (1 << 31) - 1, 1 << 31]
    + [(1 << 31) + 1, (1 << 32) - 2, (1 << 32) - 1],
    INT32: [1, -1, 2, -2, 3, -3, 5, 7, -7, 10, 641, 65537, (1 << 31) - 1]
    + [1 - (1 << 31), -(1 << 31), 1 << 30, -(1 << 30)],
}


def dividends(t: DType, divisor: int) -> np.ndarray[Any, Any]:
    """Return all numbers of up to 16 bits, else those around multiples."""
    limits = np.iinfo(t.numpy)
    if t.bits == 8:
        return np.arange(limits.min, limits.max + 1).astype(t.numpy)
    rng = np.random.default_rng(divisor & 0xFFFF)
    quotients = rng.integers(limits.min, limits.max, 40, endpoint=True) // divisor
    near = [int(q) * divisor + d for q in quotients for d in (-1, 0, 1)]
    near += [limits.min, limits.min + 1, -1, 0, 1, limits.max - 1, limits.max]
    near += [divisor - 1, divisor, divisor + 1]
    inside = [v for v in near if limits.min <= v <= limits.max]
    return np.array(inside, dtype=t.numpy)


@pytest.mark.parametrize("t", DIVISORS, ids=lambda t: t.short)
def test_division_by_literals(t: DType) -> None:
    for divisor in DIVISORS[t]:
        values = dividends(t, divisor)
        x, by = array(values, t), lit(t, divisor)
        quotients = data(trace.emit2(ar.INT_DIV, x, by))
        remainders = data(trace.emit2(ar.MOD, x, by))
        wide = values.astype(np.int64)
        exact = np.sign(wide) * np.sign(divisor) * (np.abs(wide) // abs(divisor))
        np.testing.assert_array_equal(quotients, exact.astype(t.numpy), str(divisor))
        rest = (wide - exact * divisor).astype(t.numpy)
        np.testing.assert_array_equal(remainders, rest, str(divisor))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([t for t in INTS if t.bits <= 32]),
    st.integers(0, (1 << 32) - 1),
    st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=20),
)
def test_division_by_any_literal(t: DType, divisor: int, numbers: list[int]) -> None:
    by = t.wrap(divisor) or 1
    values = [t.wrap(n) for n in numbers]
    x = array(values, t)
    found = data(trace.emit2(ar.INT_DIV, x, lit(t, by)))
    exact = [abs(v) // abs(by) * (1 if (v < 0) == (by < 0) else -1) for v in values]
    assert found.tolist() == [t.wrap(v) for v in exact]


def test_other_divisors_share_a_kernel() -> None:
    from lumijit.compiler.plan.program import Program

    x = array(np.arange(10), UINT32)
    keys = {
        Program(10, [trace.emit2(ar.INT_DIV, x, lit(UINT32, d))], [], 0).key
        for d in (3, 5, 11, 100)
    }
    assert len(keys) <= 2


FMA_VALUES = (0.0, -0.0, 1.0, -1.0, 0.1, math.inf, math.nan)


@pytest.mark.parametrize("t", [FLOAT32, FLOAT64, INT32, UINT32], ids=lambda t: t.short)
def test_fma_rules(t: DType) -> None:
    numbers = FMA_VALUES if t.is_float else (0, 1, 3, 7)
    values = edge_values(t)
    x = array(values, t)
    ulps = 1 if t.is_float else 0
    for p in numbers:
        for q in numbers:
            a, b = lit(t, p), lit(t, q)
            for args in ((a, x, b), (x, a, b), (a, b, x), (x, x, a)):
                node = trace.emit3(ar.FMA, *args)
                plain = [
                    np.full(len(values), n.attr, t.numpy) if n.op is LITERAL else values
                    for n in args
                ]
                with np.errstate(all="ignore"):
                    right = ar.FMA.reference(*plain)  # type: ignore[misc]
                assert_same(flushed(data(node)), flushed(right), ulps)


def test_fma_of_literals_rounds_once() -> None:
    for t in (FLOAT32, FLOAT64):
        eps = float(np.finfo(t.numpy).eps)
        a = 1 + eps * 3
        square = t.wrap(a * a)
        exact = Fraction(a) ** 2 - Fraction(square)
        c = array([-square], t)
        node = trace.emit3(ar.FMA, lit(t, a), lit(t, a), c)
        assert data(node)[0] == float(exact) != 0


@pytest.mark.parametrize("t", VALUES, ids=lambda t: t.short)
def test_select_rules(t: DType) -> None:
    values = edge_values(t)
    size = len(values)
    mask = array(np.arange(size) % 3 == 0, BOOL)
    x, y = array(values, t), array(values[::-1], t)
    true, false = lit(BOOL, True), lit(BOOL, False)
    assert trace.select(true, x, y) is x
    assert trace.select(false, x, y) is y
    assert trace.select(mask, x, x) is x
    special = special_numbers(t)
    nodes = [trace.select(mask, x, lit(t, s)) for s in special]
    nodes += [trace.select(mask, lit(t, s), y) for s in special]
    nodes += [trace.select(mask, lit(t, s), lit(t, special[0])) for s in special]
    nodes.append(trace.select(lit(BOOL, True, size), lit(t, 1), x))
    nodes.append(trace.select(true, array(values[:1], t), y))
    m = np.arange(size) % 3 == 0
    s_arrays = [np.full(size, s, t.numpy) for s in special]
    expected = [np.where(m, values, s) for s in s_arrays]
    expected += [np.where(m, s, values[::-1]) for s in s_arrays]
    expected += [np.where(m, s, s_arrays[0]) for s in s_arrays]
    expected.append(np.full(size, 1, t.numpy))
    expected.append(np.full(size, values[0], t.numpy))
    for node, right in zip(nodes, expected, strict=True):
        assert node.size == size
        assert_same(data(node), right)


@pytest.mark.parametrize("t", ARITHMETIC, ids=lambda t: t.short)
def test_without_constant_propagation(t: DType) -> None:
    x = array(edge_values(t), t)
    three = lit(t, 3)
    for op in (ar.ADD, ar.SUB, ar.MUL):
        simple = trace.emit2(op, trace.emit2(op, three, three), x)
        with scoped_set_flag(JitFlag.ConstantPropagation, False):
            plain = trace.emit2(op, trace.emit2(op, three, three), x)
        assert simple.deps != plain.deps
        assert_same(data(simple), data(plain))


@pytest.mark.parametrize("t", FLOATS, ids=lambda t: t.short)
def test_signed_zeros_survive(t: DType) -> None:
    zeros = array([-0.0, 0.0], t)
    nodes = [
        trace.emit2(ar.ADD, zeros, lit(t, 0.0)),
        trace.emit2(ar.ADD, zeros, lit(t, -0.0)),
        trace.emit2(ar.SUB, zeros, lit(t, 0.0)),
        trace.emit2(ar.SUB, lit(t, 0.0), zeros),
        trace.emit2(ar.MUL, zeros, lit(t, 0.0)),
        trace.emit2(ar.MUL, zeros, lit(t, -1.0)),
    ]
    signs = [[0, 0], [1, 0], [1, 0], [0, 0], [1, 0], [0, 1]]
    for node, expected in zip(nodes, signs, strict=True):
        assert np.signbit(data(node)).tolist() == [bool(s) for s in expected]


def test_fast_math_drops_terms() -> None:
    x = array([1.0, 2.0], FLOAT32)
    zero = lit(FLOAT32, 0.0)
    with scoped_set_flag(JitFlag.FastMath, True):
        assert trace.emit2(ar.ADD, x, zero) is x
        assert trace.emit2(ar.MUL, x, zero).op is LITERAL
    assert trace.emit2(ar.MUL, x, zero).op is ar.MUL


WRONG_SIZES = [
    (ar.ADD, 0, FLOAT64),
    (ar.MUL, 1, FLOAT32),
    (ar.MUL, 0, INT32),
    (ar.DIV, 1, FLOAT32),
    (ar.INT_DIV, 7, INT32),
    (ar.SUB, 0, INT32),
    (lo.AND, 0, UINT32),
    (lo.OR, 0, UINT32),
    (lo.XOR, 0, UINT32),
    (lo.SHL, 0, UINT32),
    (ar.MOD, 1, INT32),
    (lo.EQ, True, BOOL),
]


@pytest.mark.parametrize(
    ("op", "number", "t"), WRONG_SIZES, ids=lambda v: getattr(v, "name", str(v))
)
def test_simplified_operands_must_fit_too(op: Op, number: Any, t: DType) -> None:
    x = array([1] * 8, t)
    for a, b in ((x, lit(t, number, 7)), (lit(t, number, 7), x)):
        with pytest.raises(SizeError, match=r"incompatible sizes \([78], [78]\)"):
            trace.emit2(op, a, b)


def test_simplified_ternary_operands_must_fit_too() -> None:
    x = array([1.0] * 8, FLOAT32)
    mask = array([True] * 8, BOOL)
    three = lit(FLOAT32, 1.0, 3)
    for args in ((lit(BOOL, True, 3), x, x), (lit(BOOL, True), x, three)):
        with pytest.raises(SizeError, match="incompatible sizes"):
            trace.emit3(lo.SELECT, *args)
    with pytest.raises(SizeError, match="incompatible sizes"):
        trace.emit3(ar.FMA, x, lit(FLOAT32, 1.0, 3), x)
    with pytest.raises(SizeError, match="incompatible sizes"):
        trace.emit3(lo.SELECT, mask, three, three)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [op for op in BINARY if op not in (ar.DIV, lo.SHL, lo.SHR)]
            ),
            st.integers(-4, 4),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_chains_of_rules(steps: list[tuple[Op, int, bool]]) -> None:
    """Random chains of operations with small literals, against the interpreter."""

    def build() -> Node:
        node = array(edge_values(INT32), INT32)
        for op, number, is_left in steps:
            operand = lit(INT32, number)
            pair = (operand, node) if is_left else (node, operand)
            found = trace.emit2(op, *pair)
            node = trace.cast_to(found, INT32)
        return node

    simplified = build()
    with scoped_set_flag(JitFlag.ConstantPropagation, False):
        plain = build()
    check([simplified, plain])
    assert_same(data(simplified), data(plain))
