"""One axis of a texture: which texels a position touches, and with what weights.

Owns wrap modes and the filters along one axis. Positions are numbers of the unit
interval, of which each texel has an equal part; what lies outside is wrapped. All of
this is arithmetic on arrays or Python numbers, so that derivatives with respect to
positions follow from it. `lookup` combines axes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.compiler.ir import ranges
from lumijit.enums import WrapMode
from lumijit.functions.elementwise import floor, fma, maximum, minimum
from lumijit.functions.selection import select
from lumijit.type_traits import int32_array_t

_INT_MAX = 2.0**31


@dataclass(frozen=True)
class Axis:
    """The texels along one axis that a lookup reads.

    `texels` are their numbers, from 0 to `size - 1`, and `weights[k]` their weights in
    the k-th derivative with respect to the position. `is_run` tells whether each texel
    follows the one before in memory, `is_split` whether some may be at the other end.
    """

    size: int
    texels: list[Any]
    weights: tuple[list[Any], ...]
    is_run: bool = False
    is_split: bool = False

    def as_run(self) -> Axis:
        """Return the same with texels that follow each other, where that can be.

        Each gets the weights of all taps that clamping or mirroring brought to it.
        """
        count = len(self.texels)
        is_whole = self.size == count
        if self.is_run or self.size < count or (self.is_split and not is_whole):
            return self
        lowest = minimum(reduce(minimum, self.texels), self.size - count)
        texels = _run(_bounded(lowest, self.size - count), count)
        weights = [[self._hits(t, by_tap) for t in texels] for by_tap in self.weights]
        return Axis(self.size, texels, tuple(weights), is_run=True)

    def _hits(self, texel: Any, weights: list[Any]) -> Any:
        """Return the sum of the weights of the taps that are a texel."""
        taps = zip(self.texels, weights, strict=True)
        hits = [select(tap == texel, weight, 0.0) for tap, weight in taps]
        return sum(hits[1:], hits[0])


Filter = Callable[[Any, int, WrapMode], Axis]


def nearest(position: Any, size: int, mode: WrapMode) -> Axis:
    """Return the texel that contains a position."""
    texel = _cell(floor(_in_texels(position, size, mode)), size, mode)
    return Axis(size, [_wrapped(texel, size, mode)], ([1.0],), is_run=True)


def linear(position: Any, size: int, mode: WrapMode) -> Axis:
    """Return the texels on either side, weighted by how close their centers are."""
    if mode is not WrapMode.Clamp or size == 1:
        return neighbours(position, size, mode)
    # Between the outer centers nothing has to be wrapped. Arguments are in an order
    # that keeps NaN.
    place = fma(position, float(size), -0.5)
    place = minimum(size - 1.0, maximum(0.0, place))
    first = minimum(floor(place), size - 2.0)
    after = place - first
    texels = _run(_bounded(_integer(first), size - 2), 2)
    return Axis(size, texels, ([1.0 - after, after],), is_run=True)


def neighbours(position: Any, size: int, mode: WrapMode) -> Axis:
    """Return what `linear` does, texel by texel in the order of positions."""
    place = _in_texels(position, size, mode) - 0.5
    whole = floor(place)
    after = place - whole
    first = _cell(whole, size, mode)
    texels = [_wrapped(first + k, size, mode) for k in range(2)]
    return Axis(size, texels, ([1.0 - after, after],), is_split=mode is WrapMode.Repeat)


def cubic(position: Any, size: int, mode: WrapMode, highest: int = 0) -> Axis:
    """Return four texels with the weights of the uniform cubic B-spline.

    Those of derivatives up to the `highest` are there as well. Source: C. Sigg, M.
    Hadwiger, "Fast Third-Order Texture Filtering", GPU Gems 2 (2005), chapter 20.
    Texels are read as they are, not by twos in linear lookups, which take as many reads
    where no hardware interpolates.
    """
    place = _in_texels(position, size, mode) - 0.5
    whole = floor(place)
    first = _cell(whole, size, mode)
    texels = [_wrapped(first + k, size, mode) for k in range(-1, 3)]
    a = place - whole
    b = 1.0 - a
    weights = tuple(_spline(a, b, size, order) for order in range(highest + 1))
    return Axis(size, texels, weights, is_split=mode is WrapMode.Repeat)


def _spline(a: Any, b: Any, size: int, order: int) -> list[Any]:
    """Return the weights of four texels in a derivative.

    The position is `a` behind the second texel and `b` before the third.
    """
    if order == 0:
        return [_outer(b), _inner(a), _inner(b), _outer(a)]
    if order == 1:
        half = 0.5 * size
        return [
            -half * b * b,
            half * a * (3.0 * a - 4.0),
            half * b * (4.0 - 3.0 * b),
            half * a * a,
        ]
    square = float(size) * size
    return [
        square * b,
        square * (3.0 * a - 2.0),
        square * (3.0 * b - 2.0),
        square * a,
    ]


def _outer(t: Any) -> Any:
    """Return the B-spline at distance 2 - t from its center."""
    return t * t * t * (1.0 / 6.0)


def _inner(t: Any) -> Any:
    """Return the B-spline at distance t from its center."""
    return fma(t * t, fma(t, 0.5, -1.0), 2.0 / 3.0)


def _in_texels(position: Any, size: int, mode: WrapMode) -> Any:
    """Return a position in units of texels, within one period."""
    if mode is WrapMode.Clamp:
        return position * float(size)
    period = 1.0 if mode is WrapMode.Repeat else 2.0
    turns = position / period
    return (turns - floor(turns)) * (period * size)


def _cell(whole: Any, size: int, mode: WrapMode) -> Any:
    """Return a position that has been rounded down as an integer.

    It is from -1 to the end of a period. Where the border goes on for ever, it is so
    far outside at most that all taps around it are.
    """
    lowest, highest = -1, size - 1
    if mode is WrapMode.Mirror:
        highest += size
    elif mode is WrapMode.Clamp:
        lowest, highest = lowest - 1, highest + 1
    return minimum(maximum(_integer(whole), lowest), highest)


def _integer(whole: Any) -> Any:
    """Convert whole floats to integers; NaN becomes 0, and what is large less so."""
    if not issubclass(whole.__class__, float):
        return int32_array_t(whole)(whole)
    if whole != whole:
        return 0
    return int(min(max(whole, -_INT_MAX), _INT_MAX - 1))


def _wrapped(texel: Any, size: int, mode: WrapMode) -> Any:
    """Bring an integer of at most two beyond the end of a period into the texture."""
    if size == 1:
        return texel * 0
    if mode is WrapMode.Clamp:
        texel = minimum(maximum(texel, 0), size - 1)
    elif mode is WrapMode.Repeat:
        texel = select(texel < 0, texel + size, texel)
        texel = select(texel >= size, texel - size, texel)
    else:
        texel = minimum(texel, 2 * size - 1 - texel)
        texel = maximum(texel, -1 - texel)
    return _bounded(texel, size - 1)


def _run(first: Any, count: int) -> list[Any]:
    return [first, *(first + k for k in range(1, count))]


def _bounded(texel: Any, highest: int) -> Any:
    """Note that a number is from 0 to `highest`, so that no read has to check it."""
    if isinstance(texel, FlatArray):
        ranges.note(texel._node, 0, highest)
    return texel
