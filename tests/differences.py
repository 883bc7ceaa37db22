"""Central differences of plain functions, where those are differentiable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

EPS = 1e-6
#: How far differences to both sides may lie apart, relative to numbers above 1.
KINK = 1e-4
Array = np.ndarray[Any, Any]


def slopes(
    function: Callable[[Sequence[float]], Sequence[float]], point: Sequence[float]
) -> Array | None:
    """Return a row for each result, and a column for each number of the point.

    None if differences to both sides disagree, or if the results have no number.
    """
    middle = np.array(function(point), dtype=float)
    columns = []
    for k, number in enumerate(point):
        step = EPS * max(1.0, abs(number))
        above, below = (
            np.array(function([*point[:k], number + by, *point[k + 1 :]]), dtype=float)
            for by in (step, -step)
        )
        if above.shape != middle.shape or below.shape != middle.shape:
            return None
        right, left = (above - middle) / step, (middle - below) / step
        central = (right + left) / 2
        if not np.all(np.abs(right - left) <= KINK * np.maximum(1, np.abs(central))):
            return None
        columns.append(central)
    return np.stack(columns, axis=-1) if columns else np.zeros((len(middle), 0))
