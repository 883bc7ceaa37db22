"""How much a walk through objects has found, and what was found between two moments."""

from __future__ import annotations

from typing import NamedTuple


class Mark(NamedTuple):
    """How many places, arrays and functions have been found."""

    places: int
    arrays: int
    functions: int


class Span(NamedTuple):
    """What a root led to: all that was found between two moments."""

    start: Mark
    stop: Mark | None


WHOLE = Span(Mark(0, 0, 0), None)
