"""Python objects as places: their entries, as they were, and putting them back.

Owns what an entry is (attribute, slot, item, variable) and how a program writes it.
Which places a construct can reach is up to `reach`.
"""

from __future__ import annotations

from types import CellType
from typing import Any

MISSING: Any = object()
get_attribute = object.__getattribute__


class Place:
    """A Python object with entries that can be assigned.

    `label` is what a message calls an owner that is in no other place.
    """

    __slots__ = ("keys", "kept", "label", "owner", "parent")

    def __init__(self, owner: Any, parent: Place | None, label: str = "") -> None:
        self.owner = owner
        self.parent = parent
        self.label = label
        self.keys: list[Any] = self.current_keys()
        self.kept: list[Any] = self.current()

    def current_keys(self) -> list[Any]:
        """List the keys of the entries."""
        return []

    def current(self) -> list[Any]:
        """List what the entries hold, in the same order."""
        raise NotImplementedError

    def put(self, key: Any, value: Any) -> None:
        """Assign an entry; MISSING removes it."""
        raise NotImplementedError

    def step(self, key: Any) -> str:
        """Return how a program goes on from the owner to an entry."""
        return f".{key}"

    @property
    def shown(self) -> Any:
        """The object of which a message tells the class."""
        return self.owner

    def path(self, key: Any) -> str:
        """Return how a program writes an entry."""
        base = self.label
        if self.parent is not None:
            base = self.parent.path_to(self.owner)
        return f"{base}{self.step(key)}".removeprefix(".")

    def path_to(self, value: Any) -> str:
        """Return how a program writes the entry that held a value."""
        for key, kept in zip(self.keys, self.kept, strict=True):
            if kept is value:
                return self.path(key)
        return self.label

    def is_same(self) -> bool:
        """Tell whether the entries hold the very objects that they held."""
        now, kept = self.current(), self.kept
        if len(now) != len(kept):
            return False
        return not any(a is not b for a, b in zip(now, kept, strict=True))

    def changes(self) -> list[tuple[Any, Any, Any]]:
        """List key, former and present value of the entries that differ."""
        before = dict(zip(self.keys, self.kept, strict=True))
        now = dict(zip(self.current_keys(), self.current(), strict=True))
        both = ((k, before.get(k, MISSING), now.get(k, MISSING)) for k in before | now)
        return [(k, old, new) for k, old, new in both if old is not new]


class Attributes(Place):
    """The attributes of an object that has a dictionary."""

    __slots__ = ()

    def current_keys(self) -> list[Any]:
        return list(get_attribute(self.owner, "__dict__"))

    def current(self) -> list[Any]:
        return list(get_attribute(self.owner, "__dict__").values())

    def put(self, key: Any, value: Any) -> None:
        attributes = get_attribute(self.owner, "__dict__")
        if value is MISSING:
            del attributes[key]
        else:
            attributes[key] = value


class Slots(Place):
    """The attributes of an object that have slots; `names` tells which."""

    __slots__ = ("names",)

    def __init__(
        self, owner: Any, parent: Place | None, label: str, names: dict[str, Any]
    ) -> None:
        self.names = names
        super().__init__(owner, parent, label)

    def current_keys(self) -> list[Any]:
        return list(self.names)

    def current(self) -> list[Any]:
        found = []
        for member in self.names.values():
            try:
                found.append(member.__get__(self.owner))
            except AttributeError:
                found.append(MISSING)
        return found

    def put(self, key: Any, value: Any) -> None:
        if value is MISSING:
            self.names[key].__delete__(self.owner)
        else:
            self.names[key].__set__(self.owner, value)


class ClassAttributes(Place):
    """The attributes of a class."""

    __slots__ = ()

    def current_keys(self) -> list[Any]:
        return list(vars(self.owner))

    def current(self) -> list[Any]:
        return list(vars(self.owner).values())

    def put(self, key: Any, value: Any) -> None:
        if value is MISSING:
            delattr(self.owner, key)
        else:
            setattr(self.owner, key, value)


class Items(Place):
    """The items of a list, or of a tuple, which stay."""

    __slots__ = ()

    def current_keys(self) -> list[Any]:
        return list(range(len(self.owner)))

    def current(self) -> list[Any]:
        return list(self.owner)

    def put(self, key: Any, value: Any) -> None:
        if value is MISSING:
            del self.owner[key:]
        elif key < len(self.owner):
            self.owner[key] = value
        else:
            self.owner.append(value)

    def step(self, key: Any) -> str:
        return f"[{key!r}]"


class Entries(Place):
    """The entries of a dictionary."""

    __slots__ = ()

    def current_keys(self) -> list[Any]:
        return list(self.owner)

    def current(self) -> list[Any]:
        return list(self.owner.values())

    def put(self, key: Any, value: Any) -> None:
        if value is MISSING:
            del self.owner[key]
        else:
            self.owner[key] = value

    def step(self, key: Any) -> str:
        return f"[{key!r}]"


class Components(Items):
    """The components of a nested array."""

    __slots__ = ()

    def current_keys(self) -> list[Any]:
        return list(range(len(self.owner._items)))

    def current(self) -> list[Any]:
        return list(self.owner._items)

    def put(self, key: Any, value: Any) -> None:
        self.owner._items[key] = value


class Variable(Place):
    """A variable of an enclosing function; `label` is its name."""

    __slots__ = ()
    owner: CellType

    def current_keys(self) -> list[Any]:
        return [self.label]

    def current(self) -> list[Any]:
        try:
            return [self.owner.cell_contents]
        except ValueError:
            return [MISSING]

    def put(self, key: Any, value: Any) -> None:
        if value is MISSING:
            del self.owner.cell_contents
        else:
            self.owner.cell_contents = value

    def path(self, key: Any) -> str:
        return str(key)


class Globals(Place):
    """Some variables of a module."""

    __slots__ = ("names",)

    def __init__(self, owner: dict[str, Any], names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(owner, None)

    def current_keys(self) -> list[Any]:
        return list(self.names)

    def current(self) -> list[Any]:
        return [self.owner.get(name, MISSING) for name in self.names]

    def put(self, key: Any, value: Any) -> None:
        if value is MISSING:
            del self.owner[key]
        else:
            self.owner[key] = value

    def path(self, key: Any) -> str:
        return str(key)
