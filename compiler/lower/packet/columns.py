"""Takes rows of entries, one a lane, apart into one packet a component, and back.

Blocks of as many rows as these are long lie side by side in a register: the first rows
of all blocks in one, the second rows in the next. Then each exchange of entries between
two registers serves all blocks. Without AVX-512 there are too few registers for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.registers import joined
from lumijit.compiler.emit.type_names import bits_of

# As many entries side by side are written, or updated, at once.
MOST_IN_ROW = 4


def transpose(
    b: Builder, element: str, rows: list[str], span: int, wanted: set[int]
) -> dict[int, str]:
    """Turn one short vector per lane into one packet per component."""
    blocks = 1
    if b.target.has_avx512:
        blocks = max(1, 32 * b.target.lanes_f32 // (bits_of(element) * span))
    size = min(len(rows), span * blocks)
    pieces: dict[int, list[str]] = {k: [] for k in wanted}
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        registers = [joined(b, element, part[k::span], span) for k in range(span)]
        for component in wanted:
            pieces[component].append(_column(b, element, registers, component, size))
    return {k: joined(b, element, found, size) for k, found in pieces.items()}


def _column(
    b: Builder, element: str, registers: list[str], component: int, size: int
) -> str:
    """Take one component of all blocks of two or four rows."""
    span = len(registers)
    ty = f"<{size} x {element}>"

    def picked(x: str, y: str, block: list[int]) -> str:
        """Shuffle two registers, each block in the same way."""
        starts = range(0, size, span)
        lanes = [s + k % span + size * (k // span) for s in starts for k in block]
        return b.shuffle(ty, x, y, lanes)

    if span == 2:
        return picked(registers[0], registers[1], [component, span + component])
    low = 0 if component < 2 else 2
    # The same shuffles of register pairs serve two components; LLVM sees that.
    picks = [low, span + low, low + 1, span + low + 1]
    first = picked(registers[0], registers[1], picks)
    second = picked(registers[2], registers[3], picks)
    half = 0 if component == low else 2
    return picked(first, second, [half, half + 1, span + half, span + half + 1])


def rows(b: Builder, element: str, columns: Sequence[str]) -> list[str]:
    """Turn two to four packets into one short vector per lane."""
    count, span = len(columns), 4 if len(columns) > 2 else 2
    return [
        b.shuffle(ty, together, "poison", range(start, start + count))
        for _, lanes, ty, together in _together(b, element, columns, span)
        for start in range(0, lanes * span, span)
    ]


def interleaved(
    b: Builder, element: str, columns: Sequence[str]
) -> Iterator[tuple[int, str, str]]:
    """Turn two to four packets into the rows of lanes, one behind the other.

    Yields:
        The first lane of some, the type, and their rows.
    """
    count, span = len(columns), 4 if len(columns) > 2 else 2
    for first, lanes, ty, together in _together(b, element, columns, span):
        if count == span:
            yield first, ty, together
        else:
            kept = [k for k in range(lanes * span) if k % span < count]
            packet = b.shuffle(ty, together, "poison", kept)
            yield first, f"<{lanes * count} x {element}>", packet


def _together(
    b: Builder, element: str, columns: Sequence[str], span: int
) -> Iterator[tuple[int, int, str, str]]:
    """Yield the rows of as many lanes as a register has, each of `span` entries.

    (LLVM takes long for shuffles of longer vectors.)
    """
    size = min(b.width, max(4, 32 * b.target.lanes_f32 // bits_of(element)))
    whole = f"<{b.width} x {element}>"
    for first in range(0, b.width, size):
        parts, lanes = [*columns, *["poison"] * (span - len(columns))], size
        if size < b.width:
            picks = range(first, first + size)
            parts = [b.shuffle(whole, part, "poison", picks) for part in parts]
        while len(parts) > 1:
            ty = f"<{lanes} x {element}>"
            order = [lane + lanes * k for lane in range(lanes) for k in (0, 1)]
            half = len(parts) // 2
            pairs = zip(parts[:half], parts[half:], strict=True)
            parts = [b.shuffle(ty, x, y, order) for x, y in pairs]
            lanes *= 2
        yield first, size, f"<{lanes} x {element}>", parts[0]
