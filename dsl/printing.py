"""Turning arrays into text: `repr`, `str` and `lumijit.format`.

Nested arrays are printed transposed: one line per entry of the last dimension.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

LIMIT = 20
_EDGE = 3


# Quaternions on their way to text; an entry is a tuple of the parts.
QUATERNION = np.dtype([(unit, np.float64) for unit in "ijk "])


def format_entry(value: Any, spec: str = "") -> str:
    """Write one entry as `spec` says, else as arrays print it, floats with 6 digits."""
    if isinstance(value, tuple):
        return _terms(zip(value, "ijk ", strict=True), spec)
    if spec:
        return format(value, spec)
    if isinstance(value, complex):
        return _terms(((value.real, ""), (value.imag, "j")))
    if isinstance(value, (bool, np.bool_)):
        return "True" if value else "False"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return f"{float(value):.6g}"


def _terms(terms: Iterable[tuple[float, str]], spec: str = "") -> str:
    """Write a sum, without a format the terms of it that aren't zero."""
    form = spec or ".6g"
    written = [f"{v:{form}}{unit.strip()}" for v, unit in terms if spec or v != 0]
    text = "".join(t if t[0] == "-" else f"+{t}" for t in written)
    return text.removeprefix("+") or "0"


def format_array(data: Any, limit: int = LIMIT, indent: int = 0, spec: str = "") -> str:
    """Write a NumPy array as nested brackets, leaving out the middle of long axes.

    >>> format_array(np.arange(30.0))
    '[0, 1, 2, .. 24 skipped .., 27, 28, 29]'
    """
    if data.ndim == 0:
        return format_entry(data.item(), spec)
    count = data.shape[0]
    edge = min(_EDGE, max(limit // 2, 1))
    picks: list[int | None]
    if count > max(limit, 2 * edge):
        picks = [*range(edge), None, *range(count - edge, count)]
    else:
        picks = [*range(count)]
    parts = []
    for pick in picks:
        if pick is None:
            parts.append(f".. {count - 2 * edge} skipped ..")
        else:
            parts.append(format_array(data[pick], limit, indent + 1, spec))
    separator = (
        ", "
        if data.ndim == 1 and data.dtype.kind not in "cV"
        else ",\n" + " " * (indent + 1)
    )
    return "[" + separator.join(parts) + "]"


def transposed(data: Any) -> Any:
    """Move the vectorized dimension, which is the last, to the front."""
    return np.moveaxis(data, -1, 0)
