"""Operations on literals by the code of kernels.

The math library rounds in its own way, so that the NumPy reference of its functions
may differ from a kernel in the last bit. Owns one kernel for each such operation and
type, which computes a single number when literals meet.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.launch import kernels, named_kernels
from lumijit.runtime import device, workers
from lumijit.runtime.dtypes import DType


def compute(op: Op, t: DType, values: list[Any]) -> Any:
    """Return what a kernel computes for operands of type `t`, as a NumPy number."""
    with device.on(None):
        kernel = named_kernels.get(f"fold_{op.name}_{t.short}", _write, op, t)
    width = kernels.target().lanes_f32
    places = [np.full(width, value, t.numpy) for value in values]
    places.append(np.empty(width, t.numpy))
    addresses = [place.ctypes.data for place in places]
    slots = struct.pack(f"<{len(addresses)}Q", *addresses)
    workers.run_at_once(kernel.kernel.address, slots)
    return places[-1][0]


def _write(name: str, op: Op, t: DType) -> str:
    """Write a kernel for one register; slots: operands, result."""
    from lumijit.compiler.lower.collectives.pieces import head

    target = kernels.target()
    b = Builder(target.lanes_f32, target)
    assert op.lower is not None
    ty = f"<{b.width} x {t.memory_llvm}>"
    align = f"align {t.size_bytes}"
    slots = " ".join(f"p{k}" for k in range(op.arity + 1))
    operands = [b.emit(f"load {ty}, ptr %p{k}, {align}") for k in range(op.arity)]
    b.line(f"store {ty} {op.lower(b, t, *operands)}, ptr %p{op.arity}, {align}")
    lines = [head(name, slots), *b.lines, "  ret void", "}"]
    return "\n".join([*lines, *b.declarations.values(), ""])
