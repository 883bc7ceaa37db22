"""Private copies of what reductions write to, and the kernel that merges them."""

from __future__ import annotations

import struct

from lumijit.compiler.emit.combine import identity
from lumijit.compiler.launch import named_kernels, transfer
from lumijit.compiler.plan.program import IDLE_ENTRIES, Destination, copies_of
from lumijit.runtime import buffers, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import DType


class Private:
    """Private copies of a reduction's target, and their merger."""

    def __init__(self, target: Destination, op: str) -> None:
        self.root = root = target.root
        self.op = op
        self._per_thread = copies_of(target)
        self.slots = workers.slot_count()
        self._count = self.slots * self._per_thread
        # Each has entries for idle lanes, and lies a line off multiples of the page.
        line = 64 // root.type.size_bytes
        self._stride = -(-(root.size + IDLE_ENTRIES) // line) * line + line
        entries = self._stride * self._count
        self.buffer = buffers.allocate(entries * root.type.size_bytes)
        transfer.fill(self.buffer, root.type, identity(op, root.type), entries)

    def arguments(self) -> list[int]:
        """Return what `signature` has slots for."""
        between = self._stride if self._per_thread > 1 else 0
        per_thread = self._stride * self._per_thread
        return [self.buffer.address, per_thread, between, self.root.size]

    def merge_into(self, target: Buffer, started: list[int]) -> None:
        """Combine the copies into the target, in the order of the threads."""
        kernel = merger(self.op, self.root.type)
        copies = self.buffer.address, self._stride, self._count
        args = struct.pack("<2Q2q", target.address, *copies)
        named_kernels.launch(
            kernel, args, self.root.size, 1 << 14, writes=(target,), started=started
        )


def merger(op: str, t: DType) -> named_kernels.SpecialKernel:
    """Return the kernel that merges private copies of a type."""
    return named_kernels.get(f"merge_{op}_{t.short}", _merge_ir, op, t)


def _merge_ir(name: str, op: str, t: DType) -> str:
    from lumijit.compiler.lower.collectives import merge

    return merge.merge_ir(name, op, t)
