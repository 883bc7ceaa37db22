"""Leaves that are one entry of one container, which a state mentions several times.

Numbers among them become one array, so that the container stays one. (Numbers elsewhere
that are equal become arrays of their own.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lumijit.pytree import Parts


def twins(parts: Parts) -> dict[int, int]:
    """Return positions of leaves, and where their containers were mentioned first."""
    if len(set(map(id, parts.containers))) == len(parts.containers):
        return {}
    places: list[int] = []
    nodes = iter(parts.outline), iter(parts.containers)
    _place(len(parts.values), *nodes, places, {})
    return {k: first for k, first in enumerate(places) if first != k}


def common_twins(one: Parts, other: Parts) -> dict[int, int]:
    """Return those that are twins in both of two states with the same leaves."""
    first = twins(one)
    return dict(first.items() & twins(other).items()) if first else {}


def _place(
    count: int,
    marks: Iterator[Any],
    containers: Iterator[Any],
    places: list[int],
    known: dict[int, int],
) -> None:
    for _ in range(count):
        if next(marks) is None:
            places.append(len(places))
            continue
        keys, container, start = next(marks), next(containers), len(places)
        _place(len(keys), marks, containers, places, known)
        first = known.setdefault(id(container), start)
        places[start:] = places[first : first + len(places) - start]
