"""Lookups: texels read and weighted, axis by axis.

Owns where texels lie in memory and how they are summed up; `axes` says which they are.
Entries that follow each other are read such that a kernel fetches them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from lumijit.functions.gathering import gather_run
from lumijit.functions.vectors import dot_any
from lumijit.textures.axes import Axis

# So many neighbouring entries are one load in a kernel.
_SPAN = 4
# Of each axis, slowest first: the order of the derivative.
Orders = tuple[int, ...]
# A number for each channel.
Channels = list[Any]


@dataclass(frozen=True)
class Reader:
    """Reads texels: `channels` entries each of a flat array.

    `kind` is what entries are read as, and `work` what is computed with.
    """

    source: Any
    channels: int
    kind: Any
    work: Any
    active: Any

    def run(self, texel: Any, count: int) -> list[Channels]:
        """Read texels that follow each other."""
        size = self.channels
        entries = gather_run(
            self.kind, self.source, texel * size, count * size, self.active
        )
        if self.kind is not self.work:
            entries = [self.work(entry) for entry in entries]
        return [entries[k : k + size] for k in range(0, len(entries), size)]


def interpolate(
    reader: Reader, axes: list[Axis], orders: set[Orders]
) -> dict[Orders, Channels]:
    """Return weighted sums of texels, one for each combination of derivatives.

    Args:
        reader: reads the texels.
        axes: which texels, and their weights, slowest axis first.
        orders: the derivatives that are wanted.
    """
    *outer, last = axes
    if reader.channels * len(last.texels) <= _SPAN:
        last = last.as_run()
    return _along([*outer, last], reader, 0, orders)


def _along(
    axes: list[Axis], reader: Reader, before: Any, orders: set[Orders]
) -> dict[Orders, Channels]:
    """Sum up along the first axis what the others leave; `before` is the row."""
    axis, *rest = axes
    places = [before * axis.size + texel for texel in axis.texels]
    parts: list[dict[Orders, Channels]]
    if rest:
        inner = {order[1:] for order in orders}
        parts = [_along(rest, reader, place, inner) for place in places]
    elif axis.is_run:
        parts = [{(): t} for t in reader.run(places[0], len(places))]
    else:
        parts = [{(): reader.run(place, 1)[0]} for place in places]
    return {
        order: [
            _weighted(axis.weights[order[0]], [part[order[1:]][k] for part in parts])
            for k in range(reader.channels)
        ]
        for order in orders
    }


def _weighted(weights: list[Any], values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else dot_any(weights, values)


def fetch(reader: Reader, axes: list[Axis]) -> list[Channels]:
    """Return texels one by one, those of the last axis first."""
    found = []
    for texels in product(*(axis.texels for axis in axes)):
        place: Any = 0
        for axis, texel in zip(axes, texels, strict=True):
            place = place * axis.size + texel
        found += reader.run(place, 1)
    return found
