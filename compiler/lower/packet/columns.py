"""Takes rows of entries, one a lane, apart into one packet for each component."""

from __future__ import annotations

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.lower.common.outline import joined


def transpose(
    b: Builder, element: str, rows: list[str], span: int, wanted: set[int]
) -> dict[int, str]:
    """Turn one short vector per lane into one packet per component."""
    ty = f"<{span} x {element}>"
    groups: dict[int, list[str]] = {k: [] for k in wanted}
    for start in range(0, len(rows), span):
        part = rows[start : start + span]
        for component in wanted:
            groups[component].append(_column(b, ty, part, component))
    result = {}
    for component, pieces in groups.items():
        result[component] = joined(b, element, pieces, span)
    return result


def _column(b: Builder, ty: str, rows: list[str], component: int) -> str:
    """Take one component of two or four short vectors."""
    span = len(rows)
    if span == 2:
        return b.shuffle(ty, rows[0], rows[1], [component, span + component])
    low = 0 if component < 2 else 2
    # The same shuffles of row pairs serve two components; LLVM sees that.
    picks = [low, span + low, low + 1, span + low + 1]
    first = b.shuffle(ty, rows[0], rows[1], picks)
    second = b.shuffle(ty, rows[2], rows[3], picks)
    half = 0 if component == low else 2
    picks = [half, half + 1, span + half, span + half + 1]
    return b.shuffle(ty, first, second, picks)
