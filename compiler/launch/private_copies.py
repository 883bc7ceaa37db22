"""A target of a reduction in one copy per thread, and the kernel that merges these."""

from __future__ import annotations

import struct

from lumijit.compiler.emit.combine import identity
from lumijit.compiler.launch import named_kernels, transfer
from lumijit.compiler.plan.program import Destination, interleaved_copies
from lumijit.runtime import buffers, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import DType


class Private:
    """Private copies of a reduction's target, one per thread, and their merger."""

    def __init__(self, target: Destination, op: str) -> None:
        self.root = root = target.root
        self.op = op
        self.slots = workers.slot_count()
        self.copies = interleaved_copies(target)
        line = 64 // root.type.size_bytes
        entries = root.size * self.copies + 1
        self.stride = -(-entries // line) * line + line
        size_bytes = self.stride * self.slots * root.type.size_bytes
        self.buffer = buffers.allocate(size_bytes)
        neutral = identity(op, root.type)
        transfer.fill(self.buffer, root.type, neutral, self.stride * self.slots)

    def arguments(self) -> list[int]:
        """Return what `signature` has slots for."""
        dummy = self.root.size * self.copies
        ring = self.copies - 1
        return [self.buffer.address, self.stride, self.copies, ring, dummy]

    def merge_into(self, target: Buffer, started: list[int]) -> None:
        """Combine the copies into the target, in the order of the threads."""
        t = self.root.type
        kind = "merge1" if self.copies == 1 else "merge"
        name = f"{kind}_{self.op}_{t.short}"
        kernel = named_kernels.get(name, _merge_ir, kind, self.op, t)
        args = struct.pack(
            "<2Q3q",
            target.address,
            self.buffer.address,
            self.stride,
            self.slots,
            self.copies,
        )
        named_kernels.launch(
            kernel, args, self.root.size, 1 << 14, writes=(target,), started=started
        )


def _merge_ir(name: str, kind: str, op: str, t: DType) -> str:
    from lumijit.compiler.lower.collectives import merge

    write = merge.merge_vector_ir if kind == "merge1" else merge.merge_ir
    return write(name, op, t)
