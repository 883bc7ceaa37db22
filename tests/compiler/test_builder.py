"""`builder`: constants are spelled exactly."""

from __future__ import annotations

import math

import pytest

from lumijit.compiler.emit.builder import Builder, TargetInfo, float_hex
from lumijit.runtime.dtypes import FLOAT16, FLOAT32, FLOAT64, FLOATS, DType


@pytest.mark.parametrize("t", FLOATS, ids=lambda t: t.short)
def test_zeros_are_told_apart(t: DType) -> None:
    positive, negative = float_hex(t, 0.0), float_hex(t, -0.0)
    assert int(positive.lstrip("0xH") or "0", 16) == 0
    assert negative != positive
    assert float_hex(t, 0.0) == positive
    assert Builder(8, TargetInfo()).const(t, -0.0) != Builder(8, TargetInfo()).const(
        t, 0.0
    )


def test_spellings() -> None:
    assert float_hex(FLOAT16, 1.0) == "0xH3C00"
    assert float_hex(FLOAT32, 0.1) == "0x3FB99999A0000000"
    assert float_hex(FLOAT64, 0.1) == "0x3FB999999999999A"
    assert float_hex(FLOAT64, math.inf) == "0x7FF0000000000000"
    assert float_hex(FLOAT16, math.nan).startswith("0xH7E")
