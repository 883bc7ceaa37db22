"""Textures as NumPy loops over texels, in double precision: slow, and easy to check."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import lumijit as dr


def wrapped(texel: int, size: int, mode: dr.WrapMode) -> int:
    """Return the texel that is found at an integer position."""
    if mode is dr.WrapMode.Clamp:
        return min(max(texel, 0), size - 1)
    if mode is dr.WrapMode.Repeat:
        return texel % size
    texel %= 2 * size
    return min(texel, 2 * size - 1 - texel)


def basis(t: float, order: int) -> list[float]:
    """Return weights or derivatives of weights of the cubic B-spline."""
    if order == 0:
        return [
            (1 - t) ** 3 / 6,
            (3 * t**3 - 6 * t**2 + 4) / 6,
            (-3 * t**3 + 3 * t**2 + 3 * t + 1) / 6,
            t**3 / 6,
        ]
    if order == 1:
        return [
            -((1 - t) ** 2) / 2,
            (3 * t**2 - 4 * t) / 2,
            (-3 * t**2 + 2 * t + 1) / 2,
            t**2 / 2,
        ]
    return [1 - t, 3 * t - 2, 1 - 3 * t, t]


def taps(x: float, size: int, filtering: str, order: int = 0) -> list[Any]:
    """Return (texel before wrapping, weight) along one axis."""
    if filtering == "nearest":
        return [(int(np.floor(x * size)), 1.0)]
    place = x * size - 0.5
    first = int(np.floor(place))
    t = place - first
    if filtering == "linear":
        return [(first, 1 - t), (first + 1, t)]
    weights = basis(t, order)
    return [(first - 1 + k, w * size**order) for k, w in enumerate(weights)]


def lookup(
    data: Any, position: Any, filtering: str, mode: dr.WrapMode, orders: Any = None
) -> Any:
    """Return the channels at one position, given as (x, y, z)."""
    *sizes, channels = data.shape
    total = np.zeros(channels)
    orders = orders or [0] * len(sizes)
    along = [
        taps(x, size, filtering, order)
        for x, size, order in zip(
            reversed(position), sizes, reversed(orders), strict=True
        )
    ]
    for chosen in itertools.product(*along):
        pairs = zip(chosen, sizes, strict=True)
        place = tuple(wrapped(texel, size, mode) for (texel, _), size in pairs)
        total += np.prod([weight for _, weight in chosen]) * data[place]
    return total


def lookups(data: Any, positions: Any, *args: Any, **options: Any) -> Any:
    """Return an array of (channels, positions) for positions of (dimensions, n)."""
    data = np.asarray(data, np.float64)
    columns = np.asarray(positions, np.float64).T
    return np.stack([lookup(data, list(p), *args, **options) for p in columns], axis=1)
