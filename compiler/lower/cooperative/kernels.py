"""The collective kernels of blocks of threads, as targets offer them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lumijit.compiler.lower.cooperative import reduce, scan, sort, transfer
from lumijit.compiler.lower.cooperative.block import Block
from lumijit.compiler.lower.cooperative.nvvm import NvvmBlock
from lumijit.compiler.lower.cooperative.values import LANES, Shape
from lumijit.runtime.dtypes import UINT32, DType

#: Makes the block of a kernel: its shape, its name.
Maker = Callable[[Shape, str], Block]

GPU = Shape(warps=8, rows=16)
# Blocks that wait for earlier ones are fewer, if they have more; their entries have to
# fit into 48 KiB (`scan.Tile`).
GPU_SCAN = Shape(warps=8, rows=32)


def nvvm() -> Cooperative:
    """Return the kernels for blocks of GPUs."""
    return Cooperative(GPU, GPU_SCAN, NvvmBlock)


def _writes(code: Callable[..., None]) -> Callable[..., str]:
    """Return a method that writes a kernel, given its name and what its code takes."""

    def write(self: Cooperative, name: str, *args: Any) -> str:
        return self.write(name, code, *args)

    return write


class Cooperative:
    """Writes collective kernels; slots are those of `lower.collectives`.

    Both shapes have the same warps; that of scans is for kernels whose blocks wait.
    """

    REDUCE_BLOCK = 1 << 14
    SORT_BLOCK, SORT_BLOCKS = 1 << 12, 1 << 10
    LINES, FEW_LINES = 1 << 9, 1 << 5
    EXTREME_BLOCK = 0
    apart_ir = None
    columns_by = None
    columns_ir = None
    extreme_ir = None
    select_ir = None
    # What takes no more than its name and its code's arguments.
    reduce_ir = _writes(reduce.whole)
    rows_ir = _writes(reduce.rows)
    count_ir = _writes(sort.count)
    move_ir = _writes(sort.move)
    product_ir = _writes(transfer.product)
    copy_ir = _writes(transfer.copy)
    fill_ir = _writes(transfer.fill)
    collect_ir = _writes(transfer.collect)

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
        scanned: DType | None = None,
    ) -> str:
        """Write a kernel; if blocks wait for earlier ones, with what they scan."""
        shape = self.shape if scanned is None else self._scan_shape(scanned)
        block = self._make(shape, name)
        code(block, *args)
        return block.module()

    def _scan_shape(self, t: DType) -> Shape:
        """Return how scans hold entries: those of 8 bytes are half as many."""
        whole = self._scan
        return replace(whole, rows=whole.rows // 2) if t.size_bytes > 4 else whole

    def scan_block(self, t: DType) -> int:
        """Return how many entries a block scans."""
        return self._scan_shape(t).tile

    def blocks_by(self, t: DType, block: int) -> tuple[str, Callable[..., str], int]:
        """Return how runs are combined: a name, what writes that, and no shape."""
        who, code = "teams", reduce.runs
        if block < reduce.SHORT:
            who, code = "threads", reduce.short_runs
        return who, lambda name, op, t, _: self.write(name, code, op, t), 0

    def scan_ir(self, name: str, op: str, t: DType, exclusive: bool, _: bool) -> str:
        """Scan an array in one pass."""
        return self.write(name, scan.whole, op, t, exclusive, scanned=t)

    def runs_by(self, block: int) -> tuple[str, Callable[..., str]]:
        """Return how runs are scanned: a name, and what writes that."""
        who, code = "teams", scan.runs
        if block < reduce.SHORT:
            who, code = "threads", scan.short_runs
        return who, lambda name, *args: self.write(name, code, *args)

    def compress_ir(self, name: str) -> str:
        """Write the indices of the set entries of a mask."""
        return self.write(name, scan.compress, scanned=UINT32)

    def tile_shape(self, t: DType) -> tuple[int, int]:
        """Return how many rows and columns of a product a warp computes."""
        return transfer.ROWS, LANES
