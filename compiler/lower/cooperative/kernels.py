"""The collective kernels of blocks of threads, as targets offer them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from lumijit.compiler.lower.cooperative import reduce, scan, sort, transfer
from lumijit.compiler.lower.cooperative.block import Block
from lumijit.compiler.lower.cooperative.emulated import EmulatedBlock
from lumijit.compiler.lower.cooperative.nvvm import NvvmBlock
from lumijit.compiler.lower.cooperative.values import LANES, Shape
from lumijit.runtime.dtypes import UINT32, DType

#: Makes the block of a kernel: its shape, its name, and, if blocks wait for earlier
#: ones, the instruction of a thread of the CPU that waits.
Maker = Callable[[Shape, str, str], Block]

# Few warps and rows are written faster; a GPU has work for more.
EMULATED = Shape(warps=2, rows=4)
GPU = Shape(warps=8, rows=16)
# Blocks that wait for earlier ones are fewer, if they have more; their entries have to
# fit into 48 KiB (`scan.Tile`).
GPU_SCAN = Shape(warps=8, rows=32)


def emulated(shape: Shape = EMULATED) -> Cooperative:
    """Return the kernels for blocks that the CPU carries out in step."""
    return Cooperative(shape, shape, EmulatedBlock)


def nvvm(shape: Shape = GPU, scan: Shape = GPU_SCAN) -> Cooperative:
    """Return the kernels for blocks of GPUs."""
    return Cooperative(shape, scan, NvvmBlock)


class Cooperative:
    """Writes collective kernels; slots are those of `lower.collectives`.

    Both shapes have the same warps; that of scans is for kernels whose blocks wait.
    """

    REDUCE_BLOCK = 1 << 14
    SORT_BLOCK, SORT_BLOCKS = 1 << 12, 1 << 10
    LINES = 1 << 9
    EXTREME_BLOCK = 0
    extreme_ir = None
    select_ir = None

    def __init__(self, shape: Shape, scan: Shape, make: Maker) -> None:
        assert shape.threads == scan.threads
        self.shape, self._scan = shape, scan
        self.THREADS = shape.threads
        self._make = make

    def write(
        self,
        name: str,
        code: Callable[..., None],
        *args: Any,
        pause: str = "",
        scanned: DType | None = None,
    ) -> str:
        """Write a kernel; if blocks wait for earlier ones, how, and what they scan."""
        shape = self.shape if scanned is None else self._scan_shape(scanned)
        block = self._make(shape, name, pause)
        code(block, *args)
        return block.module()

    def _scan_shape(self, t: DType) -> Shape:
        """Return how scans hold entries: those of 8 bytes are half as many."""
        whole = self._scan
        return replace(whole, rows=whole.rows // 2) if t.size_bytes > 4 else whole

    def scan_block(self, t: DType) -> int:
        """Return how many entries a block scans."""
        return self._scan_shape(t).tile

    def reduce_ir(self, name: str, op: str, t: DType) -> str:
        """Combine src[begin … end) into dst[begin / block]."""
        return self.write(name, reduce.whole, op, t)

    def blocks_by(self, t: DType, block: int) -> tuple[str, Callable[..., str], int]:
        """Return how runs are combined: a name, what writes that, and no shape."""
        if block < reduce.SHORT:
            return "threads", partial(self._blocks_ir, reduce.short_runs), 0
        return "teams", partial(self._blocks_ir, reduce.runs), 0

    def _blocks_ir(
        self, code: Callable[..., None], name: str, op: str, t: DType, _: int
    ) -> str:
        return self.write(name, code, op, t)

    def rows_ir(self, name: str, op: str, t: DType) -> str:
        """Combine rows of entries."""
        return self.write(name, reduce.rows, op, t)

    def scan_ir(
        self, name: str, op: str, t: DType, exclusive: bool, pause: str, _: bool
    ) -> str:
        """Scan an array in one pass."""
        return self.write(name, scan.whole, op, t, exclusive, pause=pause, scanned=t)

    def runs_by(self, block: int) -> tuple[str, Callable[..., str]]:
        """Return how runs are scanned: a name, and what writes that."""
        if block < reduce.SHORT:
            return "threads", partial(self._runs_ir, scan.short_runs)
        return "teams", partial(self._runs_ir, scan.runs)

    def _runs_ir(
        self, code: Callable[..., None], name: str, op: str, t: DType, exclusive: bool
    ) -> str:
        return self.write(name, code, op, t, exclusive)

    def compress_ir(self, name: str, pause: str) -> str:
        """Write the indices of the set entries of a mask."""
        return self.write(name, scan.compress, pause=pause, scanned=UINT32)

    def count_ir(self, name: str, t: DType) -> str:
        """Count digits."""
        return self.write(name, sort.count, t)

    def move_ir(
        self, name: str, t: DType, has_keys: bool, indices: str, is_alone: bool
    ) -> str:
        """Put entries in the order of their digits."""
        return self.write(name, sort.move, t, has_keys, indices, is_alone)

    def tile_shape(self, t: DType) -> tuple[int, int]:
        """Return how many rows and columns of a product a warp computes."""
        return transfer.ROWS, LANES

    def product_ir(self, name: str, t: DType) -> str:
        """Multiply matrices."""
        return self.write(name, transfer.product, t)

    def copy_ir(self, name: str) -> str:
        """Copy lines of 64 bytes."""
        return self.write(name, transfer.copy)

    def fill_ir(self, name: str) -> str:
        """Fill lines of 64 bytes."""
        return self.write(name, transfer.fill)

    def collect_ir(self, name: str, element: str, bits: int) -> str:
        """Copy single values from many places."""
        return self.write(name, transfer.collect, element, bits)
