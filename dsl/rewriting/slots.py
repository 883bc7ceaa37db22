"""What a construct changes besides its variables, through what it calls.

Owns the slots that must be state because a body changed them, such as `sampler.rng`
where it calls a method of `sampler`, and running the construct once more with them.
What a construct assigns itself is known before it runs (`state`); what a body has
changed, and where, is found by `targets.left_alone`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lumijit.rewriting.hooks import targets
from lumijit.rewriting.undefined import Undefined


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
        if not isinstance(value, Undefined):
            setattr(self.owner, self.key, value)
        elif self.key in getattr(self.owner, "__dict__", ()):
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
        return self.place.current()[self.key]

    def write(self, value: Any) -> None:
        """Assign the value."""
        self.place.put(self.key, value)


Slot = Attribute | Found


class Changed(BaseException):
    """A body changed what is no state yet; all of it holds what it held."""

    def __init__(self, slots: list[Slot]) -> None:
        super().__init__()
        self.slots = slots


class Slots:
    """What a construct assigns besides variables, as part of its state."""

    def __init__(self, slots: Iterable[Slot]) -> None:
        self.slots = tuple(slots)
        self.before = self.read()

    def read(self) -> tuple[Any, ...]:
        """Return the current values."""
        return tuple([slot.read() for slot in self.slots])

    def write(self, values: tuple[Any, ...]) -> None:
        """Assign all values."""
        for slot, value in zip(self.slots, values, strict=True):
            slot.write(value)

    def labels_of_slots(self, taken: Iterable[str]) -> tuple[str, ...]:
        """Name the slots; a closure's variable may be called like one of here."""
        names: list[str] = []
        for slot in self.slots:
            label = slot.label
            while label in names or label in taken:
                label += " (outer)"
            names.append(label)
        return tuple(names)

    def owned(self) -> list[tuple[Any, Any, Any]]:
        """List object, key and value of the slots."""
        return [(slot.owner, slot.key, slot.read()) for slot in self.slots]

    @contextlib.contextmanager
    def restored_on_error(self) -> Iterator[None]:
        """Leave no value of one branch behind when the primitive fails."""
        try:
            yield
        except BaseException:
            self.write(self.before)
            raise


def adopt(found: list[tuple[Any, Any, str]]) -> None:
    """Make entries that a body has changed state of its construct."""
    raise Changed([Found(*entry) for entry in found])


def attempts(values: tuple[Any, ...], run: Callable[[list[Slot]], Any]) -> Any:
    """Run a construct; once more whenever its functions change what is no state.

    `run` gets what was found so far; `values` are the construct's inputs.
    """
    restore = targets.snapshot(values)
    found: list[Slot] = []
    while True:
        try:
            return run(found)
        except Changed as change:
            restore()
            found.extend(change.slots)
