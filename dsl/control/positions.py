"""Iterators as places: how far they have come."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import count
from operator import length_hint
from types import GeneratorType
from typing import Any

from lumijit.control.locations import Location
from lumijit.control.members import Members


class Position(Members):
    """How far an iterator has come, which can't be put back, nor be a variable.

    So its entries are texts.
    """

    __slots__ = ()

    @property
    def items(self) -> Any:
        """What tells that it went on."""
        return list(_progress(self.owner))

    def followed(self) -> Any:
        """Return the values that lead on."""
        return _held_by(self.owner)

    def is_same(self) -> bool:
        """Tell whether it is where it was."""
        return not self.changes()

    def changes(self) -> list[tuple[Any, Any, Any]]:
        """List what differs."""
        return [(k, x, y) for k, x, y in Location.changes(self) if x != y]


def _progress(iterator: Any) -> Iterator[str]:
    """Tell how far an iterator has come."""
    if isinstance(iterator, GeneratorType):
        frame = iterator.gi_frame
        yield "at its end" if frame is None else f"at instruction {frame.f_lasti}"
    elif type(iterator) is count:
        yield repr(iterator)
    else:
        yield f"{length_hint(iterator, -1)} to come"
    for value in _held_by(iterator):
        if type(value) in (int, float, bool, str):
            yield repr(value)
        else:
            yield f"{type(value).__name__} at {id(value):#x}"
        if value is not iterator and hasattr(type(value), "__next__"):
            yield from _progress(value)


def _held_by(iterator: Any) -> list[Any]:
    """Return what an iterator refers to, and what tuples that it refers to hold."""
    if isinstance(iterator, GeneratorType):
        frame = iterator.gi_frame
        found = [] if frame is None else list(frame.f_locals.values())
    else:
        found = gc.get_referents(iterator)
    return [
        part
        for value in found
        for part in (value if type(value) is tuple else (value,))
    ]
