"""Kernels that combine the entries of an array, or of its blocks, to one."""

from __future__ import annotations

from collections.abc import Callable

from lumijit.compiler.emit.combine import combine_text
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
    width = _vector_width(block, t)
    return f"by_{width}", block_reduce_ir, width


def _is_short(block: int) -> bool:
    """Tell whether blocks of this length are combined by `short_blocks_ir`.

    A packet of them must not read further past the end than buffers are padded.
    """
    odd = block // (block & -block)
    return odd <= _MAX_ODD and block * _RESULT_BYTES <= PADDING_BYTES


def _vector_width(block: int, t: DType) -> int:
    """Return how many entries of a long block are taken at once."""
    return min(lanes(t), 1 << (block.bit_length() - 1))


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
    lines: list[str] = []
    parts = [_every(op, t, lines, part, count, odd) for part in range(block // odd)]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_neighbours(op, t, lines, count, x, y) for x, y in pairs]
    combined = "\n".join(lines)
    body = f"""  %first = mul i64 %e, {block}
  %from = getelementptr {element}, ptr %src, i64 %first
{combined}
  %out = getelementptr {element}, ptr %dst, i64 %e
  store {ty} {parts[0]}, ptr %out, align {t.size_bytes}"""
    return each(name, "src dst", body, step=count)


def _picked(lines: list[str], ty: str, x: str, y: str, picks: range) -> str:
    """Shuffle two vectors into one; return its name."""
    name = f"%v{len(lines)}"
    spelled = ", ".join(f"i32 {k}" for k in picks)
    mask = f"<{len(picks)} x i32> <{spelled}>"
    lines.append(f"  {name} = shufflevector {ty} {x}, {ty} {y}, {mask}")
    return name


def _combined(op: str, t: DType, lines: list[str], ty: str, x: str, y: str) -> str:
    name = f"v{len(lines)}"
    lines.append(combine_text(op, t, ty, name, x, y))
    return f"%{name}"


def _every(op: str, t: DType, lines: list[str], part: int, count: int, odd: int) -> str:
    """Load a part of the packet and combine each run of `odd` entries."""
    element = t.memory_llvm
    ty, wide = f"<{count} x {element}>", f"<{count * odd} x {element}>"
    start = part * count * odd
    at, raw = f"%at{part}", f"%raw{part}"
    lines.append(f"  {at} = getelementptr {element}, ptr %from, i64 {start}")
    lines.append(f"  {raw} = load {wide}, ptr {at}, align {t.size_bytes}")
    if odd == 1:
        return raw
    total = ""
    for k in range(odd):
        column = _picked(lines, wide, raw, "poison", range(k, count * odd, odd))
        total = _combined(op, t, lines, ty, total, column) if total else column
    return total


def _neighbours(op: str, t: DType, lines: list[str], count: int, x: str, y: str) -> str:
    """Combine the neighbours in two vectors to one vector."""
    ty = f"<{count} x {t.memory_llvm}>"
    even, odd = (_picked(lines, ty, x, y, range(k, 2 * count, 2)) for k in (0, 1))
    return _combined(op, t, lines, ty, even, odd)
