"""Copies and fills of whole buffers, in order with the kernels.

Both work on lines of 64 bytes: buffers are aligned and padded to that.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from lumijit.compiler.launch import named_kernels
from lumijit.compiler.plan import target as targets
from lumijit.runtime import recorders
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import DType

# So many lines take less time than a job.
_LINES_AT_ONCE = 8


def _lines(size_bytes: int) -> int:
    return (size_bytes + 63) // 64


def _block(collectives: targets.Collectives, lines: int) -> int:
    """Return how many lines are taken at once: enough to go round, of a few lines."""
    return min(collectives.LINES, max(collectives.FEW_LINES, lines >> 10))


def copy(target: Buffer, source: Buffer, size_bytes: int) -> None:
    """Copy the first `size_bytes` of one buffer to another."""
    collectives = targets.collectives()
    kernel = named_kernels.get("copy", collectives.copy_ir)
    args = struct.pack("<2Q", source.address, target.address)
    named_kernels.launch(
        kernel,
        args,
        _lines(size_bytes),
        _block(collectives, _lines(size_bytes)),
        writes=(target,),
    )


def pattern(dtype: DType, value: Any) -> int:
    """Return eight bytes that repeat a value's bytes, as an integer."""
    data = dtype.packed(value)
    return int.from_bytes(data * (8 // len(data)), "little")


def fill(target: Buffer, dtype: DType, value: Any, size: int) -> None:
    """Set the first `size` entries (and the padding behind) to one value.

    The host writes a few lines at once if no job uses the memory, and a device copies
    them, unless somebody records jobs; so the notes that kernels write don't need a
    kernel of their own.
    """
    lines = _lines(size * dtype.size_bytes)
    number = pattern(dtype, value)
    if lines <= _LINES_AT_ONCE and not recorders.is_heard():
        data = struct.pack("<Q", number) * (8 * lines)
        if target.device is not None:
            target.device.write(target.address, data)
            return
        if target.is_idle:
            ctypes.memmove(target.address, data, len(data))
            return
    collectives = targets.collectives()
    kernel = named_kernels.get("fill", collectives.fill_ir)
    args = struct.pack("<2Q", target.address, number)
    block = _block(collectives, lines)
    named_kernels.launch(kernel, args, lines, block, writes=(target,))
