"""What objects without named parts hold, as places: sets, NumPy arrays, iterators.

Also bases of classes and defaults of functions, which programs rarely assign, so that
recordings only, which live long, ask for them; and what weak references and callables
stand for.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial
from itertools import count
from operator import length_hint
from types import GeneratorType, MethodType
from typing import Any
from weakref import CallableProxyType, ProxyType, ReferenceType

import numpy as np

from lumijit.control.locations import Items, Location
from lumijit.control.sameness import MISSING

WEAK = (ReferenceType, ProxyType, CallableProxyType)


class Members(Items):
    """What a set or a NumPy array holds, or any object that the collector looks into.

    Of the latter nothing can be put back.
    """

    __slots__ = ()

    @property
    def items(self) -> Any:
        """The objects, in some order that stays while nothing changes."""
        owner = self.owner
        if isinstance(owner, np.ndarray):
            return owner.flat
        if isinstance(owner, (set, frozenset)):
            return owner
        return gc.get_referents(owner)

    def has_moved(self) -> bool:
        """Tell whether it is a set with other members, which have no keys."""
        return isinstance(self.owner, set) and not self.is_same()

    def fill(self, contents: Any) -> None:
        """Put other members or entries in the place of all."""
        if isinstance(self.owner, set):
            self.owner.clear()
            self.owner.update(contents)
        elif isinstance(self.owner, np.ndarray):
            for key, value in enumerate(contents):
                self.owner.flat[key] = value

    def step(self, key: Any) -> str:
        """Return how a program goes on to an item."""
        return f"[{key!r}]" if isinstance(self.owner, np.ndarray) else ""


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


def behind(weak: Any) -> Any:
    """Return what a weak reference or proxy stands for; None if it is gone."""
    if issubclass(type(weak), ReferenceType):
        return weak()
    try:
        return getattr(weak.__format__, "__self__", None)
    except ReferenceError:
        return None


def called_by(value: Any) -> Any:
    """Return the function that another callable stands for; None if there is none.

    Classes of this package whose objects stand for a user's function say so.
    """
    if type(value) is MethodType:
        return value.__func__
    if type(value) is partial:
        return value.func
    return value.__wrapped__ if hasattr(type(value), "_wraps_function") else None
