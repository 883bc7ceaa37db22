"""Copies and fills of whole buffers, in order with the kernels.

Both work on lines of 64 bytes: buffers are aligned and padded to that.
"""

from __future__ import annotations

import struct
from typing import Any

from lumijit.compiler.launch import named_kernels
from lumijit.compiler.plan import target as targets
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import DType


def _lines(size_bytes: int) -> int:
    return (size_bytes + 63) // 64


def copy(target: Buffer, source: Buffer, size_bytes: int) -> None:
    """Copy the first `size_bytes` of one buffer to another."""
    collectives = targets.collectives()
    kernel = named_kernels.get("copy", collectives.copy_ir)
    args = struct.pack("<2Q", source.address, target.address)
    named_kernels.launch(
        kernel,
        args,
        _lines(size_bytes),
        collectives.LINES,
        writes=(target,),
    )


def pattern(dtype: DType, value: Any) -> int:
    """Return eight bytes that repeat a value's bytes, as an integer."""
    data = dtype.numpy.type(value).tobytes()
    return int.from_bytes(data * (8 // len(data)), "little")


def fill(target: Buffer, dtype: DType, value: Any, size: int) -> None:
    """Set the first `size` entries (and the padding behind) to one value."""
    collectives = targets.collectives()
    kernel = named_kernels.get("fill", collectives.fill_ir)
    args = struct.pack("<2Q", target.address, pattern(dtype, value))
    lines = _lines(size * dtype.size_bytes)
    named_kernels.launch(kernel, args, lines, collectives.LINES, writes=(target,))
