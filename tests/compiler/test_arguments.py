"""Argument blocks: what lies where, and packets of literals behind the slots."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.trace import emit2
from lumijit.compiler.plan.arguments import Wide, layout, packer
from lumijit.compiler.plan.program import Program
from lumijit.runtime.dtypes import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    UINT64,
    DType,
)
from tests.compiler.support import array, lit


@pytest.mark.parametrize("has_scratch", [False, True])
@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32, FLOAT64, INT8, INT32, UINT64])
def test_slots_have_eight_bytes(dtype: DType, has_scratch: bool) -> None:
    """A slot for large local memory is there in any case: packets follow it."""
    x = array(np.arange(5), dtype)
    program = Program(5, [emit2(ar.ADD, x, lit(dtype, 3))], [], 0)
    codes = layout(program, has_scratch)
    assert struct.calcsize(codes) == 8 * (3 + 1)
    values = [n.attr if n.buffer is None else 16 for n in program.arguments]
    block = packer(codes, (), 8)(*values, 32, *([64] if has_scratch else []))
    at = next(k for k, n in enumerate(program.arguments) if n.buffer is None)
    assert np.frombuffer(block, dtype.numpy, 1, 8 * at)[0] == 3


@given(
    numbers=st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=9),
    wholes=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9),
    width=st.sampled_from([4, 8, 16, 32]),
)
def test_packets_repeat_their_slots(
    numbers: list[float], wholes: list[int], width: int
) -> None:
    codes = "<" + "f4x" * len(numbers) + "q" * len(wholes) + "8x"
    wide = (Wide(32, 0, len(numbers)), Wide(64, len(numbers), len(wholes)))
    block = packer(codes, wide, width)(*numbers, *wholes)
    start = struct.calcsize(codes)
    assert block[:start] == struct.pack(codes, *numbers, *wholes)
    middle = start + 4 * width * len(numbers)
    floats = np.frombuffer(block[start:middle], np.float32)
    expected = np.repeat(np.array(numbers, np.float32), width)
    np.testing.assert_array_equal(floats, expected)
    found = np.frombuffer(block[middle:], np.int64)
    np.testing.assert_array_equal(found, np.repeat(np.array(wholes), width))
