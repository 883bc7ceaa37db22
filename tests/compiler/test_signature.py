"""Signatures: what lies where in a block, and packets of literals behind the slots."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.trace import emit2
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.signature import (
    PRIVATE_SLOTS,
    Signature,
    Wide,
    packer,
    try_packing,
)
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


@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32, FLOAT64, INT8, INT32, UINT64])
def test_slots_have_eight_bytes(dtype: DType) -> None:
    """A slot for large local memory is there in any case: packets follow it."""
    x = array(np.arange(5), dtype)
    program = Program(5, [emit2(ar.ADD, x, lit(dtype, 3))], [], 0)
    signature = Signature.of(program)
    assert struct.calcsize(signature.codes) == signature.size_bytes == 8 * (3 + 1)
    values = [n.attr if n.buffer is None else 16 for n in program.arguments]
    block = packer(signature.codes, (), 8)(*values, 32, 64)
    at = signature.inputs.index(dtype)
    assert np.frombuffer(block, dtype.numpy, 1, 8 * at)[0] == 3
    assert np.frombuffer(block, np.uint64)[signature.output(0)] == 32


@given(
    inputs=st.lists(st.sampled_from([None, FLOAT32, INT8]), max_size=4),
    outputs=st.integers(0, 3),
    has_cancel=st.booleans(),
    targets=st.lists(st.booleans(), max_size=4),
)
def test_slots_follow_each_other(
    inputs: list[DType | None], outputs: int, has_cancel: bool, targets: list[bool]
) -> None:
    signature = Signature(tuple(inputs), outputs, has_cancel, tuple(targets))
    known = [signature.output(k) for k in range(outputs)]
    known += [signature.cancel] * has_cancel
    for k, is_private in enumerate(targets):
        first = signature.target(k)
        known += range(first, first + (PRIVATE_SLOTS if is_private else 1))
    assert [*known, signature.scratch] == list(
        range(len(inputs), len(inputs) + len(known) + 1)
    )
    assert struct.calcsize(signature.codes) == signature.size_bytes


def test_packing_that_does_not_fit_is_found() -> None:
    program = Program(5, [array(np.arange(5), INT8)], [], 0)
    try_packing(packer(Signature.of(program).codes, (), 8), program)
    with pytest.raises(struct.error):
        try_packing(packer("<Q", (), 8), program)


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
