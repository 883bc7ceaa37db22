"""Division of long integers: by estimates in doubles, and by known divisors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from lumijit.compiler.emit.builder import Builder, TargetInfo
from lumijit.compiler.emit.division import divisor
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.launch import kernels
from lumijit.compiler.plan.describe import describe
from lumijit.runtime import cpu
from lumijit.runtime.dtypes import INT32, INT64, UINT32, UINT64, DType
from tests.compiler.support import Array, array, data, lit
from tests.targets import generating_for

LONG = [INT64, UINT64]
IDS: dict[str, Any] = {"ids": lambda t: t.short}


@pytest.fixture(autouse=True, params=[False, True], ids=["lanes", "doubles"])
def _each_form(request: pytest.FixtureRequest) -> Iterator[None]:
    """Divide lane by lane, and by doubles as with AVX-512."""
    with generating_for(kernels.target()._replace(has_avx512=request.param)):
        yield


def hard_pairs(t: DType) -> tuple[Array, Array]:
    """Return dividends around multiples of divisors of all magnitudes."""
    rng = np.random.default_rng(t.index)
    powers = [1 << k for k in range(64)]
    near = {p + d for p in powers for d in (-1, 0, 1)} | {(1 << 64) - 1}
    divisors = [d for d in near if 0 < d < 1 << 64]
    divisors += [
        int(v) >> int(s)
        for v, s in zip(
            rng.integers(1 << 63, 1 << 64, 300, np.uint64),
            rng.integers(0, 63, 300),
            strict=True,
        )
    ]
    pairs = []
    for y in divisors:
        most = ((1 << 64) - 1) // y
        shift = int(rng.integers(0, 64))
        for q in (
            1,
            2,
            most,
            most - 1,
            most >> shift,
            int(rng.integers(0, 1 << 62)) % most if most > 1 else 1,
        ):
            pairs += [(q * y + d, y) for d in (-1, 0, 1, y - 1, y // 2)]
    pairs += [((1 << 64) - 1, 0), (0, 0), (5, 0), (1 << 63, (1 << 64) - 1)]
    kept = [(x, y) for x, y in pairs if 0 <= x < 1 << 64]
    both = np.array(kept, np.uint64)
    return both[:, 0].copy().view(t.numpy), both[:, 1].copy().view(t.numpy)


def divided(x: int, y: int, t: DType) -> tuple[int, int]:
    """Divide by the rules, with integers of any length."""
    if y == 0:
        return 0, x
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return t.wrap(quotient), t.wrap(x - quotient * y)


@pytest.mark.parametrize("t", LONG, **IDS)
def test_hard_quotients(t: DType) -> None:
    x, y = hard_pairs(t)
    a, b = array(x, t), array(y, t)
    quotients, rests = (
        data(trace.emit2(ar.INT_DIV, a, b)),
        data(trace.emit2(ar.MOD, a, b)),
    )
    expected = [divided(m, n, t) for m, n in zip(x.tolist(), y.tolist(), strict=True)]
    assert quotients.tolist() == [q for q, _ in expected]
    assert rests.tolist() == [r for _, r in expected]


@pytest.mark.parametrize("t", LONG, **IDS)
def test_high_products(t: DType) -> None:
    x, y = hard_pairs(t)
    found = data(trace.emit2(ar.MULHI, array(x, t), array(y, t)))
    assert found.tolist() == [
        m * n >> 64 for m, n in zip(x.tolist(), y.tolist(), strict=True)
    ]


@pytest.mark.parametrize("t", LONG, **IDS)
def test_known_divisors(t: DType) -> None:
    x, _ = hard_pairs(t)
    x = x[::7]
    a = array(x, t)
    top = (1 << (63 if t.is_signed else 64)) - 1
    divisors = [
        1,
        2,
        3,
        7,
        10,
        641,
        1 << 32,
        (1 << 32) + 1,
        1000003,
        top,
        top - 1,
        1 << 62,
    ]
    divisors += [-d for d in divisors] + [-top - 1] if t.is_signed else []
    for y in divisors:
        quotients = data(trace.emit2(ar.INT_DIV, a, lit(t, y)))
        rests = data(trace.emit2(ar.MOD, a, lit(t, y)))
        expected = [divided(m, y, t) for m in x.tolist()]
        assert quotients.tolist() == [q for q, _ in expected], y
        assert rests.tolist() == [r for _, r in expected], y


@pytest.mark.parametrize("t", [UINT32, UINT64], **IDS)
def test_every_form_of_known_divisors(t: DType) -> None:
    rng = np.random.default_rng(5)
    top = (1 << t.bits) - 1
    sizes = rng.integers(2, t.bits + 1, 40).tolist()
    odd = [int(rng.integers(1 << 63)) >> (63 - k + 1) | 1 << (k - 1) for k in sizes]
    powers = [1 << k for k in range(1, t.bits)]
    near = [min(p + d, top) for p in powers[1:] for d in (-1, 1)]
    hashes = set()
    for y in [*range(2, 20), *odd, *powers, *near, 1920, top]:
        multiples = [y * int(k) % (top + 1) for k in (1, 2, 3, top // y, top // y // 2)]
        x = [(m + d) & top for m in multiples for d in (-1, 0, 1)] + [0, top]
        a = array(np.array(x, np.uint64), t)
        quotient = trace.emit2(ar.INT_DIV, a, lit(t, y))
        rest = trace.emit2(ar.MOD, a, lit(t, y))
        launch = describe([quotient, rest], (), 0)
        assert launch is not None
        hashes.add(launch.key)
        assert data(quotient).tolist() == [n // y for n in x], y
        assert data(rest).tolist() == [n % y for n in x], y
    # Of 2, the mask and the shift are one number; the largest number is -1.
    assert len(hashes) == 5


@cache
def compiled_divisor(is_long: bool) -> Callable[[int, int], int]:
    b = Builder(0, TargetInfo())
    result = divisor(b, "%factor", "%shift", is_long=is_long)
    ir = "\n".join(
        [
            "define i32 @divisor(i32 %factor, i32 %shift) {",
            *b.lines,
            f"  ret i32 {result}",
            "}",
        ]
    )
    built = cpu.link(cpu.compile_ir(ir), "divisor", "divisor")
    kind = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
    function = kind(built.address)
    function.built = built  # type: ignore[attr-defined]
    return function


@pytest.mark.parametrize("t", [INT32, UINT32], **IDS)
def test_divisors_are_known_from_their_factors(t: DType) -> None:
    rng = np.random.default_rng(8)
    near = [(1 << k) + d for k in range(2, 31) for d in (-1, 0, 1)]
    sizes = rng.integers(0, 29, 400).tolist()
    others = [int(rng.integers(1 << 31)) >> size for size in sizes]
    for y in [*range(2, 400), *near, *others, (1 << 31) - 1]:
        found = trace.emit2(ar.INT_DIV, array(np.arange(3), t), lit(t, max(y, 2)))
        if found.op in (ar.QUOTIENT, ar.LONG_QUOTIENT):
            factor, shift = (dep.attr & 0xFFFFFFFF for dep in found.deps[1:])
            function = compiled_divisor(found.op is ar.LONG_QUOTIENT)
            assert function(factor, shift) == max(y, 2)
