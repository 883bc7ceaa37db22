"""The vector math functions: accuracy, special values, ranges and assembly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumijit.compiler.emit.mathlib import FUNCTIONS
from lumijit.runtime.dtypes import FLOAT32, FLOAT64, DType

from .mathlib_accuracy import ACCURACY, Row, measure, reference
from .mathlib_harness import (
    AVX512,
    TWO_ARGUMENTS,
    TWO_RESULTS,
    Array,
    assembly,
    default_width,
    run,
)

TYPES = (FLOAT32, FLOAT64)
UNARY = sorted(set(FUNCTIONS) - TWO_ARGUMENTS - TWO_RESULTS)
by_type = pytest.mark.parametrize("t", TYPES, ids=repr)
by_width = pytest.mark.parametrize("width", [0, None], ids=["thread", "packet"])

EDGES = (
    *(0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0),
    *(1e38, -1e38, 1e-45, -1e-45, 1e-40, -1e-40, 3.0, -3.0, 30.0, 1e9, 0.9999999),
    *(88.72, 88.73, 89.41, 89.42, -87.4, -103.0, -104.0, -104.5, 127.9, 128.0),
    *(-149.0, -150.0, -151.0, 9.0, -9.1, 20.0, 8192.0, 1e-20, 10.1, 26.5, 27.3),
    *(709.7, 709.8, 710.4, 710.5, -708.4, -745.1, -745.2, 1023.9, 1024.0, -1074.0),
    *(-1075.0, 1e300, -1e300, 5e-324, -5e-324, 1e-310, 1e154, 1e-160),
)


def _identity(row: Row) -> str:
    return f"{row.name}-{row.t!r}-{row.low:g}"


@pytest.mark.parametrize("row", ACCURACY, ids=_identity)
def test_accuracy(row: Row) -> None:
    measured = measure(row, 1 << 17 if row.t is FLOAT32 else 1000)
    assert measured.exact_ulp <= row.max_ulp
    assert measured.ulp[0] <= row.mean_ulp


def test_accuracy_covers_every_function_and_type() -> None:
    covered = {(row.name, row.t) for row in ACCURACY}
    assert covered == {(name, t) for name in UNARY for t in TYPES}


def test_bounds_are_not_looser_than_documented() -> None:
    # Ours bound the exact error, which is up to 1/2 above the documented measure.
    for row in ACCURACY:
        if row.documented is not None:
            assert math.floor(row.max_ulp + 0.49) <= row.documented.ulp[1], row


def _libm(name: str, x: float) -> float:
    """Evaluate with mpmath in 60 digits; only where that is finite and regular."""
    with mpmath.workdps(60):
        v = mpmath.mpf(x)
        special: dict[str, Callable[[], Any]] = {
            "exp2": lambda: mpmath.power(2, v),
            "log2": lambda: mpmath.log(v, 2),
            "cbrt": lambda: mpmath.sign(v) * mpmath.cbrt(abs(v)),
            "lgamma": lambda: mpmath.loggamma(v),
        }
        value = special.get(name, lambda: getattr(mpmath, name)(v))()
        return float(value)


def _expected(name: str, x: float) -> float:
    """Return what C's libm gives for an edge value."""
    is_odd = name in {
        *("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "cbrt"),
        *("erf", "erfinv"),
    }
    if math.isnan(x):
        return math.nan
    if x == 0:
        poles = {"cot": math.copysign(math.inf, x), "lgamma": math.inf}
        poles |= {"log": -math.inf, "log2": -math.inf, "acosh": math.nan}
        return (
            x
            if is_odd
            else poles.get(name, _libm(name, 0.0) if name not in poles else 0.0)
        )
    if math.isinf(x):
        limits = {
            "atan": math.copysign(math.pi / 2, x),
            "sinh": x,
            "cosh": math.inf,
            "tanh": math.copysign(1, x),
            "asinh": x,
            "acosh": math.inf if x > 0 else math.nan,
            "exp": math.inf if x > 0 else 0.0,
            "exp2": math.inf if x > 0 else 0.0,
            "log": math.inf if x > 0 else math.nan,
            "log2": math.inf if x > 0 else math.nan,
            "cbrt": x,
            "erf": math.copysign(1, x),
            "erfc": 0.0 if x > 0 else 2.0,
            "lgamma": math.inf,
        }
        return limits.get(name, math.nan)
    a = abs(x)
    if name in {"asin", "acos"} and a > 1:
        return math.nan
    if name in {"atanh", "erfinv"} and a >= 1:
        return math.copysign(math.inf, x) if a == 1 else math.nan
    if (name == "acosh" and x < 1) or (name in {"log", "log2"} and x < 0):
        return math.nan
    if name == "lgamma" and x < 0 and x == math.floor(x):
        return math.inf
    if name in {"sinh", "cosh", "exp", "exp2"} and a > 2000:
        grows = {"sinh": x, "cosh": a}.get(name, math.inf if x > 0 else 0.0)
        return math.copysign(math.inf, grows) if grows else 0.0
    if name == "lgamma" and a > 1e305:
        return math.inf
    if name in {"erf", "erfc"} and a > 30:
        return math.copysign(1, x) if name == "erf" else (0.0 if x > 0 else 2.0)
    return _libm(name, x)


def _close(got: Any, wanted: float, t: DType, ulps: float) -> bool:
    with np.errstate(over="ignore"):
        rounded = t.numpy.type(wanted)
    if np.isnan(rounded) or np.isnan(got):
        return bool(np.isnan(rounded) and np.isnan(got))
    if not np.isfinite(rounded):
        return bool(got == rounded)
    if rounded == 0:
        is_same_sign = np.signbit(got) == np.signbit(rounded)
        return bool(abs(got) <= np.spacing(t.numpy.type(0)) and is_same_sign)
    return bool(abs(float(got) - wanted) <= ulps * float(np.spacing(abs(rounded))))


@by_type
@by_width
@pytest.mark.parametrize("name", UNARY)
def test_edge_values(name: str, t: DType, width: int | None) -> None:
    with np.errstate(all="ignore"):
        x = np.array(EDGES).astype(t.numpy)
    x = x[~((np.abs(x) > 1e6) & np.isfinite(x) & _is_periodic(name))]
    if name == "lgamma":
        # By reflection, only an absolute accuracy; tested below.
        x = x[(x >= 0) | (x == np.floor(x)) | np.isnan(x)]
    got = run(name, t, x, width=width)
    wrong = []
    for argument, value in zip(x, got, strict=True):
        wanted = _expected(name, float(argument))
        if not _close(value, wanted, t, 6.0):
            wrong.append((float(argument), float(value), wanted))
    assert not wrong


def _is_periodic(name: str) -> bool:
    return name in {"sin", "cos", "tan", "cot"}


@by_type
@pytest.mark.parametrize(
    ("pair", "singles"),
    [
        ("sincos", ("sin", "cos")),
        ("sincosh", ("sinh", "cosh")),
    ],
)
def test_pairs_agree_with_single_functions(
    pair: str, singles: tuple[str, str], t: DType
) -> None:
    bound = 8000.0 if pair == "sincos" else 80.0
    x = np.random.default_rng(1).uniform(-bound, bound, 5001).astype(t.numpy)
    x[:4] = (0.0, -0.0, np.inf, np.nan)
    for got, name in zip(run(pair, t, x), singles, strict=True):
        wanted = run(name, t, x)
        np.testing.assert_array_max_ulp(got[4:], wanted[4:], 3)
        np.testing.assert_array_equal(got[:4], wanted[:4])
        np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(wanted[:2]))


@by_type
@pytest.mark.parametrize("name", ["sin", "cos", "sincos"])
def test_sine_and_cosine_stay_in_range_for_any_argument(name: str, t: DType) -> None:
    rng = np.random.default_rng(2)
    near = np.pi / 2 * rng.integers(-99, 99, 40000) * (1 + rng.normal(size=40000) / 1e4)
    exponents = 10.0 ** rng.uniform(3, 38, 40000)
    x = np.concatenate([near, exponents, -exponents]).astype(t.numpy)
    results = run(name, t, x)
    for y in results if isinstance(results, tuple) else (results,):
        assert np.abs(y).max() <= 1


@by_type
def test_values_at_zero_are_exact(t: DType) -> None:
    zero = np.zeros(3, t.numpy)
    for name in ("cos", "cosh", "exp", "exp2", "erfc"):
        assert (run(name, t, zero) == 1).all(), name
    assert (run("sincos", t, zero)[1] == 1).all()


@by_type
@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_saturating_functions_stay_in_range(name: str, t: DType) -> None:
    x = np.linspace(-30, 30, 400001).astype(t.numpy)
    assert np.abs(run(name, t, x)).max() == 1


@by_type
def test_exact_powers(t: DType) -> None:
    k = np.arange(-149, 128) if t is FLOAT32 else np.arange(-1074, 1024)
    powers = np.ldexp(1.0, k).astype(t.numpy)
    np.testing.assert_array_equal(run("exp2", t, k), powers)
    np.testing.assert_array_equal(run("log2", t, powers), k)
    cubes = np.arange(-150.0, 150.0) ** 3
    np.testing.assert_array_equal(run("cbrt", t, cubes), np.arange(-150.0, 150.0))


@by_type
@by_width
def test_atan2_edges(t: DType, width: int | None) -> None:
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, 1e-40, -1e38, 3e5])
    y, x = (v.ravel().astype(t.numpy) for v in np.meshgrid(values, values))
    wanted = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    got = run("atan2", t, y, x, width=width)
    for a, b in zip(got, wanted, strict=True):
        # Below the smallest normal number both may round differently.
        assert _close(a, float(b), t, 3.0)


@by_type
def test_atan2_accuracy(t: DType) -> None:
    rng = np.random.default_rng(3)
    y, x = rng.normal(size=(2, 40000 if t is FLOAT32 else 1000)).astype(t.numpy)
    got = run("atan2", t, y, x)
    if t is FLOAT32:
        wanted = np.arctan2(y.astype(np.float64), x.astype(np.float64))
        error = np.abs(got - wanted)
    else:
        with mpmath.workdps(40):
            pairs = [
                mpmath.atan2(float(a), float(b)) for a, b in zip(y, x, strict=True)
            ]
            error = np.array(
                [float(abs(float(a) - b)) for a, b in zip(got, pairs, strict=True)]
            )
            wanted = np.array([float(v) for v in pairs])
    unit = np.spacing(np.abs(wanted.astype(t.numpy))).astype(np.float64)
    assert (error / unit).max() <= 2.5


POWER_DOMAINS = (
    (0.1, 10.0, 30.0),
    (1e-30, 1e30, 1.2),
    (0.99, 1.01, 8000.0),
    (1e-44, 1e-38, 0.9),
)


@by_type
@pytest.mark.parametrize(("low", "high", "exponent"), POWER_DOMAINS)
def test_power_accuracy(t: DType, low: float, high: float, exponent: float) -> None:
    rng = np.random.default_rng(4)
    count = 2000
    x = np.exp(rng.uniform(np.log(low), np.log(high), count)).astype(t.numpy)
    y = rng.uniform(-exponent, exponent, count).astype(t.numpy)
    got = run("power", t, x, y)
    with mpmath.workdps(60):
        for a, b, value in zip(x, y, got, strict=True):
            wanted = mpmath.power(mpmath.mpf(float(a)), mpmath.mpf(float(b)))
            with np.errstate(over="ignore"):
                rounded = t.numpy.type(float(wanted))
            if np.isinf(rounded):
                assert value == rounded
                continue
            error = abs(mpmath.mpf(float(value)) - wanted)
            assert float(error) <= 1.05 * float(np.spacing(rounded))


@by_type
@by_width
def test_power_edges(t: DType, width: int | None) -> None:
    values = (
        0.0,
        -0.0,
        math.inf,
        -math.inf,
        math.nan,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        3.0,
        -3.0,
        1e30,
        -1e30,
        1e-40,
        -1e-40,
        2.5,
        16777215.0,
        1e9,
        -1e9,
    )
    grid = np.array(values).astype(t.numpy)
    x, y = (v.ravel() for v in np.meshgrid(grid, grid))
    got = run("power", t, x, y, width=width)
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.float64), y.astype(np.float64))
    for a, b in zip(got, wanted, strict=True):
        assert _close(a, float(b), t, 2.0)


@by_type
def test_lgamma_of_tiny_negative_numbers(t: DType) -> None:
    tiny = np.finfo(t.numpy).smallest_subnormal
    x = -np.array([tiny, 3 * tiny, 2.0**-100, 2.0**-61, 2.0**-60, 2.0**-59], t.numpy)
    wanted = -np.log(-x)
    np.testing.assert_array_max_ulp(run("lgamma", t, x), wanted, 2)


@by_type
def test_lgamma_of_negative_numbers(t: DType) -> None:
    x = np.random.default_rng(5).uniform(-20, 0, 2001).astype(t.numpy)
    wanted = reference("lgamma", x)
    error = np.abs(run("lgamma", t, x) - wanted)
    bound = 8 * np.finfo(t.numpy).eps * np.maximum(np.abs(wanted), 8)
    assert (error <= bound).all()


@by_type
@by_width
@pytest.mark.parametrize("size", [0, 1, 7, 17])
def test_sizes(t: DType, width: int | None, size: int) -> None:
    x = np.linspace(0.1, 0.9, size).astype(t.numpy)
    for name in UNARY:
        got = run(name, t, x if name != "acosh" else x + 1, width=width)
        assert got.shape == (size,)
        assert np.isfinite(got).all()


@by_type
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_widths_agree_bit_by_bit(name: str, t: DType) -> None:
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(2, 500)).astype(t.numpy) * 3
    inputs = (x, y) if name in TWO_ARGUMENTS else (x,)
    packet = np.asarray(run(name, t, *inputs))
    for width in (0, 2 * default_width(t)):
        again = np.asarray(run(name, t, *inputs, width=width))
        np.testing.assert_array_equal(again, packet)


@by_type
@pytest.mark.parametrize("name", ["exp", "exp2", "power", "erfc"])
def test_avx512_code_agrees_bit_by_bit(name: str, t: DType) -> None:
    with np.errstate(all="ignore"):
        x = np.array(EDGES).astype(t.numpy)
    ramp = np.linspace(-1100, 1100, 9001).astype(t.numpy)
    x = np.concatenate([x, ramp])
    powers = np.resize(ramp[::-1], x.size)
    inputs = (np.abs(x), powers) if name in TWO_ARGUMENTS else (x,)
    got = run(name, t, *inputs, target=AVX512)
    np.testing.assert_array_equal(got, run(name, t, *inputs))


# Exhausted registers and constants aside, these are what scalarization looks like.
SCALAR = ("vpextr", "vpinsr", "vextract", "vinsert", "vunpck", "vpack", "call")


@by_type
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_assembly_has_no_calls_and_no_scalar_code(name: str, t: DType) -> None:
    text = assembly(name, t, default_width(t), cpu="znver3")
    loop = text[text.index(".LBB0_1:") : text.index("retq")]
    forbidden: tuple[str, ...] = SCALAR
    if name == "power" and t is FLOAT32:
        # It computes in doubles: halves of registers are converted.
        forbidden = ("vpextr", "vpinsr", "vunpck", "call")
    found = [op for op in forbidden if f"\t{op}" in loop]
    assert not found


@by_type
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_assembles_for_avx512(name: str, t: DType) -> None:
    text = assembly(name, t, 2 * default_width(t), cpu="skylake-avx512")
    assert "\tcall" not in text
    assert "%zmm" in text


@pytest.mark.parametrize("width", [16, 32, 64])
def test_log_uses_avx512_instructions(width: int) -> None:
    text = assembly("log", FLOAT32, width, cpu="skylake-avx512")
    assert text.count("vgetmantps") == width // 16
    assert text.count("vgetexpps") == 2 * (width // 16)


@pytest.mark.parametrize("width", [16, 32])
def test_log_for_avx512(width: int) -> None:
    # Without the processor, its instructions are modelled from their documentation.
    with np.errstate(all="ignore"):
        x = np.array(EDGES).astype(np.float32)
    x = np.concatenate(
        [x, np.geomspace(1e-44, 1e38, 2001), np.linspace(0.7, 1.6, 2001)]
    )
    x = x.astype(np.float32)
    got = run("log", FLOAT32, x, width=width, target=AVX512)
    for argument, value in zip(x, got, strict=True):
        assert _close(value, _expected("log", float(argument)), FLOAT32, 1.2)


finite32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
finite64 = st.floats(allow_nan=False, allow_infinity=False)
any_floats = st.one_of(
    st.tuples(st.just(FLOAT32), st.lists(finite32, min_size=1, max_size=40)),
    st.tuples(st.just(FLOAT64), st.lists(finite64, min_size=1, max_size=40)),
)
ODD = ("sin", "tan", "atan", "sinh", "tanh", "asinh", "cbrt", "erf")


def _bits(y: Array) -> Array:
    return np.asarray(y.view(np.uint32 if y.dtype == np.float32 else np.uint64))


@settings(max_examples=40, deadline=None)
@given(any_floats)
def test_symmetries(case: tuple[DType, list[float]]) -> None:
    t, values = case
    x = np.array(values, t.numpy)
    for name in ODD:
        # Beyond that the quotient by pi has no exact parity.
        x = x[np.abs(x) < 1e6] if _is_periodic(name) else np.array(values, t.numpy)
        np.testing.assert_array_equal(_bits(run(name, t, -x)), _bits(-run(name, t, x)))
    x = np.array(values, t.numpy)
    np.testing.assert_array_equal(run("cosh", t, -x), run("cosh", t, x))
    with np.errstate(over="ignore"):
        together = run("erfc", t, x) + run("erfc", t, -x)
    np.testing.assert_allclose(together, 2, rtol=1e-6 if t is FLOAT32 else 1e-15)


@settings(max_examples=40, deadline=None)
@given(any_floats)
def test_inverses(case: tuple[DType, list[float]]) -> None:
    t, values = case
    x = np.abs(np.array(values, t.numpy))
    tolerance = 60 * float(np.finfo(t.numpy).eps)
    normal = x[(x > np.finfo(t.numpy).tiny) & (x < 1e30)]
    logs = run("log2", t, normal)
    powers = run("exp2", t, logs)
    wide = tolerance * np.maximum(1, np.abs(logs))
    assert (np.abs(powers / normal - 1) <= wide).all()
    roots = run("cbrt", t, normal)
    np.testing.assert_allclose(roots * roots * roots, normal, rtol=tolerance)
    angles = run("atan", t, normal)
    assert (angles <= np.pi / 2 + tolerance).all()
    assert (np.diff(run("exp", t, np.sort(normal % 50))) >= 0).all()
