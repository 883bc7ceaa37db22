"""The signature of a kernel: the typed slots of its argument block, and packing it.

A `Signature` is made once from a program; lowering, launching and every target read
from it where things lie. A block has 8-byte slots in this order: inputs (addresses
and literals, as `Program.arguments` and `Launch.values` list them), outputs, the
cancel word if there are loops, what writes go to, and large local memory (or zero).
Behind them are the literals that a kernel wants as whole packets (`Wide`;
`lower.packet.numbers` chooses them): filling all lanes costs a launch 3 µs, and a
loop that did it in the kernel would take 0.6 ms to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np

from lumijit.compiler.ir.ops.structural import LITERAL
from lumijit.compiler.plan.program import Program, pack_code
from lumijit.runtime.dtypes import DType

Packer = Callable[..., bytes]

# The slots of a target with private copies: their base, entries between those of two
# threads, and between those of one (0: it has one), index of the first idle entry.
# Where blocks of threads have the copies (`Target.copies`): the target, bits of lanes
# that tell apart which copy is theirs, entries between two copies, and of one.
_PRIVATE_CODE = "QqQQ"
PRIVATE_SLOTS = len(_PRIVATE_CODE)


class Signature(NamedTuple):
    """What lies in the slots of a kernel.

    `inputs` are the types of literals, and None for addresses; `targets` tells for
    each array that is written to whether it has private copies.
    """

    inputs: tuple[DType | None, ...]
    outputs: int
    has_cancel: bool
    targets: tuple[bool, ...]

    @staticmethod
    def of(program: Program) -> Signature:
        """Return the signature of a program's kernel."""
        return Signature(
            tuple(n.type if n.op is LITERAL else None for n in program.arguments),
            len(program.outputs),
            program.has_loops,
            tuple(t.private_op is not None for t in program.targets.values()),
        )

    def output(self, position: int) -> int:
        """Return the slot of an output's address."""
        return len(self.inputs) + position

    @property
    def cancel(self) -> int:
        """The slot of the address of the word that ends loops."""
        return self.output(self.outputs)

    def target(self, position: int) -> int:
        """Return the first slot of an array that is written to."""
        before = self.targets[:position]
        count = sum(PRIVATE_SLOTS if is_private else 1 for is_private in before)
        return self.cancel + self.has_cancel + count

    @property
    def scratch(self) -> int:
        """The last slot: the address of large local memory."""
        return self.target(len(self.targets))

    @property
    def size_bytes(self) -> int:
        """The size of all slots, behind which packets follow."""
        return 8 * (self.scratch + 1)

    @property
    def codes(self) -> str:
        """What lies in the slots, as `struct` says it."""
        codes = ["Q" if t is None else pack_code(t) for t in self.inputs]
        codes += ["Q"] * (self.outputs + self.has_cancel)
        codes += [_PRIVATE_CODE if is_private else "Q" for is_private in self.targets]
        return "".join(["<", *codes, "Q"])


class Wide(NamedTuple):
    """A range of slots whose lower `bits` follow, each in all lanes of a packet."""

    bits: int
    first: int
    slots: int


def packer(codes: str, wide: Sequence[Wide], width: int) -> Packer:
    """Return the function that makes a block of what lies in its slots.

    Args:
        codes: what `Signature.codes` says.
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


def try_packing(pack: Packer, program: Program) -> None:
    """Make a block for a program, as launching will; raises if that doesn't work."""
    values = [n.attr if n.op is LITERAL else 0 for n in program.arguments]
    signature = Signature.of(program)
    pack(*values, *[0] * (signature.scratch + 1 - len(values)))
