"""Kernels that combine the entries of an array, or of its blocks, to one."""

from __future__ import annotations

from collections.abc import Callable

from lumijit.compiler.emit.builder import Builder, TargetInfo
from lumijit.compiler.emit.combine import combine
from lumijit.compiler.lower.collectives.pieces import (
    block_total,
    each,
    head,
    lanes,
    tail_mask,
)
from lumijit.runtime.buffers import PADDING_BYTES
from lumijit.runtime.dtypes import DType

#: Entries of a launch's blocks.
REDUCE_BLOCK = 1 << 16
# The results of short blocks that are made at once.
_RESULT_BYTES = 32
# Odd factors of a block up to this are combined by shuffles across registers.
_MAX_ODD = 7


def reduce_ir(name: str, op: str, t: DType) -> str:
    """Combine src[begin … end) into dst[begin / block]; slots: src, dst, block."""
    element = t.memory_llvm
    total, result = block_total(op, t, lanes(t), "entry")
    return f"""{head(name, "src dst block:i64")}
  %start = add i64 %begin, 0
  %stop = add i64 %end, 0
  %count = sub i64 %end, %begin
{tail_mask(t, lanes(t), "%count")}
  %full = add i64 %begin, %whole
  %any = icmp ne i64 %whole, 0
{total}
  %number = udiv i64 %begin, %block
  %out = getelementptr {element}, ptr %dst, i64 %number
  store {element} {result}, ptr %out
  ret void
}}
"""


def blocks_by(t: DType, block: int) -> tuple[str, Callable[..., str], int]:
    """Return how blocks are combined: a name, what writes the kernel, and its shape."""
    if _is_short(block):
        return f"of_{block}", short_blocks_ir, block
    width = min(lanes(t), 1 << (block.bit_length() - 1))
    return f"by_{width}", block_reduce_ir, width


def _is_short(block: int) -> bool:
    """Tell whether blocks of this length are combined by `short_blocks_ir`.

    A packet of them must not read further past the end than buffers are padded.
    """
    odd = block // (block & -block)
    return odd <= _MAX_ODD and block * _RESULT_BYTES <= PADDING_BYTES


def block_reduce_ir(name: str, op: str, t: DType, width: int) -> str:
    """Set dst[j] to the combination of src[j * block … (j + 1) * block).

    Slots: src, dst, block, which has at least `width` entries.
    """
    element = t.memory_llvm
    total, result = block_total(op, t, width, "next")
    setup = f"""{tail_mask(t, width, "%block")}
  %any = icmp ne i64 %whole, 0"""
    body = f"""  %start = mul i64 %e, %block
  %stop = add i64 %start, %block
  %full = add i64 %start, %whole
{total}
  %out = getelementptr {element}, ptr %dst, i64 %e
  store {element} {result}, ptr %out"""
    return each(name, "src dst block:i64", body, setup, last="fold")


def short_blocks_ir(name: str, op: str, t: DType, block: int) -> str:
    """Set dst[j] to the combination of src[j * block … (j + 1) * block).

    Several results at once: entries `odd` apart are combined, for the odd factor of
    the block's length, then neighbours, until one is left of each block. Slots: src,
    dst.
    """
    element = t.memory_llvm
    count = _RESULT_BYTES // t.size_bytes
    odd = block // (block & -block)
    ty = f"<{count} x {element}>"
    b = Builder(count, TargetInfo())
    parts = [_every(b, op, t, part, odd) for part in range(block // odd)]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_neighbours(b, op, t, x, y) for x, y in pairs]
    combined = "\n".join(b.lines)
    body = f"""  %first = mul i64 %e, {block}
  %from = getelementptr {element}, ptr %src, i64 %first
{combined}
  %out = getelementptr {element}, ptr %dst, i64 %e
  store {ty} {parts[0]}, ptr %out, align {t.size_bytes}"""
    return each(name, "src dst", body, step=count)


def _every(b: Builder, op: str, t: DType, part: int, odd: int) -> str:
    """Load a part of the packet and combine each run of `odd` entries."""
    size, ty = b.width * odd, b.memory_type(t)
    wide = f"<{size} x {t.memory_llvm}>"
    raw = b.load(wide, b.at(t.memory_llvm, "%from", part * size), t.size_bytes)
    if odd == 1:
        return raw
    total = ""
    for k in range(odd):
        column = b.shuffle(wide, raw, "poison", range(k, size, odd))
        total = combine(b, op, t, ty, total, column) if total else column
    return total


def _neighbours(b: Builder, op: str, t: DType, x: str, y: str) -> str:
    """Combine the neighbours in two vectors to one vector."""
    ty = b.memory_type(t)
    even, odd = (b.shuffle(ty, x, y, range(k, 2 * b.width, 2)) for k in (0, 1))
    return combine(b, op, t, ty, even, odd)
