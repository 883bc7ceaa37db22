"""Branches: cheap and expensive sides, coherent and divergent conditions."""

from __future__ import annotations

import lumijit as dr
from lumijit.llvm import Float, UInt
from tests.benchmarks.declare import Program, case, ready


@dr.syntax
def fold(x: Float, i: UInt, mask: int) -> Float:
    """Fold values differently, by a bit of their number: cheap sides."""
    if (i & mask) == 0:
        x = x * 2 + 1
    else:
        x = 1 - x
    return x


@case("branches", 1 << 21)
def if_cheap(n: int) -> Program:
    """Two sides of two operations, alternating."""
    x, i = ready(dr.linspace(Float, 0, 1, n), dr.arange(UInt, n))
    return lambda: fold(x, i, 1)


@dr.syntax
def shade(x: Float, i: UInt, mask: int) -> Float:
    """Compute one of two expensive expressions."""
    if (i & mask) == 0:
        x = dr.exp(-x) * dr.sin(40 * x) + dr.log(1 + x)
        x = dr.tanh(x) + dr.cos(x)
    else:
        x = dr.atan2(x, 1 - x) * dr.sqrt(x) + dr.exp(x * x)
    return x


@case("branches", 1 << 20)
def if_divergent(n: int) -> Program:
    """Two expensive sides, alternating."""
    x, i = ready(dr.linspace(Float, 0, 1, n), dr.arange(UInt, n))
    return lambda: shade(x, i, 1)


@case("branches", 1 << 20)
def if_coherent(n: int) -> Program:
    """Two expensive sides, changing every 4,096 entries."""
    x, i = ready(dr.linspace(Float, 0, 1, n), dr.arange(UInt, n))
    return lambda: shade(x, i, 4096)


@dr.syntax
def rarely(x: Float, i: UInt) -> Float:
    """Repair few entries at high cost."""
    if (i & 1023) == 17:
        x = dr.exp(dr.sin(dr.log(1 + dr.abs(x)))) ** 1.5
    return x


@case("branches", 1 << 21, rtol=1e-3)
def if_rare(n: int) -> Program:
    """An expensive side that one entry of 1,024 takes."""
    x, i = ready(dr.linspace(Float, 0, 1, n), dr.arange(UInt, n))
    return lambda: rarely(x, i)
