"""Conversions between all types, as values and as bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from lumijit.compiler.emit.builder import Builder, TargetInfo
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.launch import kernels
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    INT64,
    INTS,
    UINT32,
    UINT64,
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
    random_values,
)
from tests.targets import generating_for

PAIRS = [
    pytest.param(a, b, id=f"{a.short}-{b.short}")
    for a in VALUES
    for b in VALUES
    if a is not b
]


@pytest.fixture(params=[False, True], ids=["pieces", "whole"])
def _each_form(request: pytest.FixtureRequest) -> Iterator[None]:
    """Convert long integers in pieces, and as with AVX-512."""
    target = kernels.target()._replace(has_avx512=request.param)
    with generating_for(target):
        yield


pytestmark = pytest.mark.usefixtures("_each_form")


def powers_of_two(source: DType) -> Array:
    """Return all powers of two that the type has, and their neighbours."""
    if not source.is_float:
        numbers = [
            s * (1 << k) + d for k in range(64) for s in (1, -1) for d in (-1, 0, 1)
        ]
        limits = np.iinfo(source.numpy)
        found = [n for n in numbers if limits.min <= n <= limits.max]
        return np.array(found, source.numpy)
    limits = np.finfo(source.numpy)
    low = int(np.log2(limits.smallest_subnormal.astype(np.float64)))
    powers = np.ldexp(1.0, np.arange(low, limits.maxexp)).astype(source.numpy)
    infinity = np.array(np.inf, source.numpy)
    values = [powers, np.nextafter(powers, infinity), np.nextafter(powers, -infinity)]
    both = np.concatenate(values)
    return np.concatenate([both, -both])


def values_near_limits(source: DType, to: DType) -> Array:
    """Return the edges of both types, as far as the source has them."""
    values = [edge_values(source)]
    if not source.is_bool:
        values.append(powers_of_two(source))
    if source.is_float and to.is_int:
        limits = np.iinfo(to.numpy)
        bounds = [2.0**to.bits, 2.0 ** (to.bits - 1), float(limits.max)]
        steps = [-1.5, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 1.5]
        near = np.array([s * b + d for b in bounds for s in (-1, 1) for d in steps])
        with np.errstate(over="ignore"):
            values.append(near.astype(source.numpy))
    return np.concatenate(values)


def exact_cast(value: object, source: DType, to: DType) -> object:
    """Convert one Python number by the rules, with integers of any length."""
    if to.is_bool:
        return value != 0
    if to.is_int and source.is_float:
        assert isinstance(value, float)
        limits = np.iinfo(to.numpy)
        if value != value:
            return 0
        if value in (float("inf"), float("-inf")):
            return int(limits.max if value > 0 else limits.min)
        return min(max(int(value), int(limits.min)), int(limits.max))
    if to.is_int:
        return to.wrap(value)
    return value


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_values(source: DType, to: DType) -> None:
    values = np.concatenate([values_near_limits(source, to), random_values(source, 50)])
    found = data(trace.cast_to(array(values, source), to))
    exact = [exact_cast(v, source, to) for v in values.tolist()]
    with np.errstate(over="ignore"):
        if to.is_float:
            # NumPy rounds integers to halves by way of doubles: for 64 bits only
            # this may round twice.
            expected = flushed(values.astype(to.numpy), [values])
        else:
            expected = np.array(exact, dtype=to.numpy)
    assert_same(found, expected)


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_random_bits(source: DType, to: DType) -> None:
    rng = np.random.default_rng(source.index * 99 + to.index)
    if source.is_bool:
        values = rng.random(2000) < 0.5
    else:
        raw = rng.integers(0, 256, 2000 * source.size_bytes, np.uint8)
        values = raw.view(source.numpy)
    exact = [exact_cast(v, source, to) for v in values.tolist()]
    with np.errstate(all="ignore"):
        expected = values.astype(to.numpy) if to.is_float else np.array(exact, to.numpy)
    expected = flushed(expected, [values])
    found = data(trace.cast_to(array(values, source), to))
    if source.bits == 64 and source.is_int and to is FLOAT32:
        expected = np.array([float_of(v, 24) for v in values.tolist()], np.float32)
    assert_same(found, expected)


def float_of(value: int, digits: int) -> float:
    """Round an integer to so many binary digits, halves to even."""
    drop = max(abs(value).bit_length() - digits, 0)
    quotient, rest = divmod(abs(value), 1 << drop)
    half = (1 << drop) >> 1
    up = drop > 0 and (rest > half or (rest == half and quotient & 1 == 1))
    return float((quotient + up) << drop) * (-1 if value < 0 else 1)


@pytest.mark.parametrize("source", [INT64, UINT64], ids=lambda t: t.short)
def test_long_integers_round_once_to_doubles(source: DType) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2**64, 5000, np.uint64, endpoint=False)
    values >>= rng.integers(0, 12, 5000, np.uint64)
    signed = values.view(source.numpy)
    found = data(trace.cast_to(array(signed, source), FLOAT64))
    assert found.tolist() == [float(v) for v in signed.tolist()]


def test_doubles_round_once_to_halves() -> None:
    """Around each half and each tie between two."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    halves.sort()
    wide = halves.astype(np.float64)
    ties = np.append((wide[1:] + wide[:-1]) / 2, [65520.0, -65520.0])
    exact = np.concatenate([wide, ties])
    values = np.concatenate(
        [exact, np.nextafter(exact, np.inf), np.nextafter(exact, -np.inf)]
    )
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    assert_same(data(trace.cast_to(array(values, FLOAT64), FLOAT16)), expected)


@pytest.mark.parametrize("to", INTS, ids=lambda t: t.short)
@pytest.mark.parametrize("source", [FLOAT32, FLOAT64], ids=lambda t: t.short)
def test_float_to_int_is_vector_code(source: DType, to: DType) -> None:
    """LLVM's own saturating conversions take lanes apart."""
    with generating_for(TargetInfo()):
        b = Builder(8, kernels.target())
        b.cast(source, "%x", to)
    assert not any("sat" in name for name in b.declarations)


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_folding_agrees_with_the_kernel(source: DType, to: DType) -> None:
    values = np.concatenate([edge_values(source), random_values(source, 9)])
    if source.is_float and to.is_int:
        values = np.concatenate([values, values_near_limits(source, to)[::7]])
    found = data(trace.cast_to(array(values, source), to))
    for k, value in enumerate(values.tolist()):
        node = trace.cast_to(lit(source, value), to)
        assert node.op is LITERAL
        assert_same(np.array([node.attr], to.numpy), found[k : k + 1])


@pytest.mark.parametrize("to", [INT32, UINT64, FLOAT64], ids=lambda t: t.short)
def test_sizes(to: DType) -> None:
    values = random_values(FLOAT32, 1000)
    for size in (0, *ODD_SIZES, 1000):
        found = data(trace.cast_to(array(values[:size], FLOAT32), to))
        expected = [exact_cast(v, FLOAT32, to) for v in values[:size].tolist()]
        assert_same(found, np.array(expected, dtype=to.numpy))


@pytest.mark.parametrize("source", [INT64, UINT64], ids=lambda t: t.short)
def test_long_integers_round_once(source: DType) -> None:
    """A tie that a detour through doubles would break the wrong way."""
    tie = (1 << 60) + (1 << 36)
    values = [tie - 1, tie, tie + 1, 3 * tie + 1]
    node = trace.cast_to(array(np.array(values, source.numpy), source), FLOAT32)
    right = [float(1 << 60), float(1 << 60), float((1 << 60) + (1 << 37))]
    assert data(node).tolist()[:3] == right
    for value, expected in zip(values, right, strict=False):
        assert trace.cast_to(lit(source, value), FLOAT32).attr == expected


SAME_WIDTH = [
    pytest.param(a, b, id=f"{a.short}-{b.short}")
    for a in (*INTS, *FLOATS)
    for b in (*INTS, *FLOATS)
    if a is not b and a.bits == b.bits
]


@pytest.mark.parametrize(("source", "to"), SAME_WIDTH)
def test_bits(source: DType, to: DType) -> None:
    raw = random_values(source, 200).tobytes() + edge_values(source).tobytes()
    values = np.frombuffer(raw, source.numpy)
    node = trace.bitcast_to(array(values, source), to)
    assert data(node).tobytes() == values.tobytes()


@pytest.mark.parametrize(("source", "to"), SAME_WIDTH)
def test_bits_of_literals(source: DType, to: DType) -> None:
    for value in edge_values(source):
        node = trace.bitcast_to(lit(source, value.item()), to)
        assert data(node).tobytes() == value.tobytes()


def test_payload_of_nan_survives() -> None:
    bits = [0x7FC12345, 0xFFC00001, 0x7FC00000]
    nodes = [trace.bitcast_to(lit(UINT32, b), FLOAT32) for b in bits]
    back = [trace.bitcast_to(node, UINT32) for node in nodes]
    assert [int(data(node)[0]) for node in back] == bits
    assert [int(data(node).view(np.uint32)[0]) for node in nodes] == bits


def test_bitcast_of_bitcast() -> None:
    x = array([1.0, 2.0], FLOAT32)
    there = trace.bitcast_to(x, UINT32)
    assert trace.bitcast_to(there, FLOAT32) is x
    assert trace.cast_to(x, FLOAT32) is x


def test_without_folding() -> None:
    with scoped_set_flag(JitFlag.ConstantPropagation, False):
        node = trace.cast_to(lit(FLOAT32, -3.7), INT32)
        bits = trace.bitcast_to(lit(FLOAT32, 1.0), UINT32)
    assert node.op is not LITERAL
    assert data(node).tolist() == [-3]
    assert data(bits).tolist() == [0x3F800000]
