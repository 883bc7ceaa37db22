"""The argument block of a kernel: where everything lies, and packing it for a launch.

A block has 8-byte slots: inputs and literals, outputs, the cancel word if there are
loops, targets of writes, and large local memory (or nothing). Behind them are the
literals that the kernel wants as whole packets (`Wide`; `lower.packet.literals` chooses
them): filling all lanes costs a launch 3 µs, and a loop that did it in the kernel
would take 0.6 ms to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np

from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.plan.program import Program, pack_code

Packer = Callable[..., bytes]

_PRIVATE_CODE = "QqQQQ"


class Wide(NamedTuple):
    """A range of slots whose lower `bits` follow, each in all lanes of a packet."""

    bits: int
    first: int
    slots: int


def layout(program: Program, has_scratch: bool) -> str:
    """Return what lies in the slots, as `struct` says it."""
    codes = ["<"]
    for node in program.arguments:
        codes.append(pack_code(node.type) if node.op is LITERAL else "Q")
    codes.append("Q" * (len(program.outputs) + program.has_loops))
    for found in program.targets.values():
        codes.append("Q" if found.private_op is None else _PRIVATE_CODE)
    codes.append("Q" if has_scratch else "8x")
    return "".join(codes)


def packer(codes: str, wide: Sequence[Wide], width: int) -> Packer:
    """Return the function that makes a block of what lies in its slots.

    Args:
        codes: what `layout` returned.
        wide: which slots follow as packets, in this order.
        width: lanes of a packet.
    """
    block = Struct(codes)
    if block.size > 64 * len(codes):
        raise ValueError("the block of arguments is too large")
    pack = block.pack
    if not wide:
        return pack

    def packed(*values: object) -> bytes:
        block = pack(*values)
        parts = [block]
        for bits, first, slots in wide:
            step = 64 // bits
            numbers = np.frombuffer(block, f"<u{bits // 8}", slots * step, 8 * first)
            parts.append(numbers[::step].repeat(width).tobytes())
        return b"".join(parts)

    return packed


def try_packing(
    pack: Packer, program: Program, has_loops: bool, has_scratch: bool
) -> None:
    """Make a block for a program, as launching will; raises if that doesn't work."""
    values = [n.attr if n.op is LITERAL else 0 for n in program.arguments]
    values += [0] * (len(program.outputs) + has_loops + has_scratch)
    for found in program.targets.values():
        values += [0] * (1 if found.private_op is None else len(_PRIVATE_CODE))
    pack(*values)
