"""What classes and functions are declared with, as places: bases, defaults.

Programs rarely assign these, so that recordings only, which live long, ask for them.
"""

from __future__ import annotations

from typing import Any

from lumijit.control.locations import MISSING, Location


class _Declared(Location):
    """A tuple that is an attribute of a class or function."""

    __slots__ = ()
    name: str

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by position."""
        return dict(enumerate(getattr(self.owner, self.name) or ()))

    def put(self, key: Any, value: Any) -> None:
        """Assign an entry of another tuple."""
        items = self.current() | {key: value}
        found = tuple(item for item in items.values() if item is not MISSING)
        setattr(self.owner, self.name, found)

    def step(self, key: Any) -> str:
        """Return how a program goes on to an entry."""
        return f".{self.name}[{key}]"


class Bases(_Declared):
    """The classes from which one is derived."""

    __slots__ = ()
    name = "__bases__"


class Defaults(_Declared):
    """What a function has for arguments that aren't given."""

    __slots__ = ()
    name = "__defaults__"
