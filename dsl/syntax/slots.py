"""Entries that a construct changes besides its variables: where they are.

Which ones a construct has, and what becomes of them, is up to `object_state`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lumijit.syntax.lineage import Lineage
from lumijit.syntax.undefined import Undefined


@dataclass(frozen=True)
class Attribute:
    """An attribute that a construct assigns on an object."""

    owner: Any
    key: str
    label: str

    def read(self) -> Any:
        """Return the value, or an `Undefined` object."""
        return getattr(self.owner, self.key, Undefined(self.label))

    def write(self, value: Any) -> None:
        """Assign the value."""
        if not isinstance(value, Undefined) or value.is_left:
            setattr(self.owner, self.key, value)
        else:
            with suppress(AttributeError):
                delattr(self.owner, self.key)


@dataclass(frozen=True)
class Found:
    """An entry of an object, a list or a closure, that a called function changes."""

    place: Any
    key: Any
    label: str

    @property
    def owner(self) -> Any:
        """The object that has the entry."""
        return self.place.owner

    def read(self) -> Any:
        """Return the value."""
        return self.place.read(self.key)

    def write(self, value: Any) -> None:
        """Assign the value."""
        self.place.put(self.key, value)


class Whole:
    """An object that a construct changes where no variable names it in the end.

    With a `lineage`, a variable names it in some elements or turns of a loop.
    """

    key = None

    def __init__(self, owner: Any, label: str, lineage: Lineage | None = None) -> None:
        self.owner = owner
        self.label = label
        self.lineage = lineage
        self._copy = owner

    def read(self) -> Any:
        """Return the copy that the running function has."""
        return self._copy

    def write(self, value: Any) -> None:
        """Take another copy."""
        self._copy = value


Slot = Attribute | Found | Whole
