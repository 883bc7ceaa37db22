"""Python objects as places: their entries, as they were, and putting them back.

Owns what an entry is (attribute, slot, item, variable) and how a program writes it.
Which places a construct can reach is up to `reach`.
"""

from __future__ import annotations

from operator import is_
from types import CellType
from typing import Any

MISSING: Any = object()
get_attribute = object.__getattribute__


class Place:
    """A Python object with entries that can be assigned.

    `label` is what a message calls an owner that is in no other place.
    """

    __slots__ = ("kept", "label", "owner", "parent")

    def __init__(self, owner: Any, parent: Place | None, label: str = "") -> None:
        self.owner = owner
        self.parent = parent
        self.label = label
        self.kept: dict[Any, Any] = self.current()

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        raise NotImplementedError

    def values(self) -> Any:
        """Return what the entries hold, in the order of `kept`."""
        return self.current().values()

    def put(self, key: Any, value: Any) -> None:
        """Assign an entry; MISSING removes it."""
        raise NotImplementedError

    def put_back(self, keys: list[Any]) -> None:
        """Give entries the values that they had."""
        for key in keys:
            self.put(key, self.kept.get(key, MISSING))

    def step(self, key: Any) -> str:
        """Return how a program goes on from the owner to an entry."""
        return f".{key}"

    def path(self, key: Any) -> str:
        """Return how a program writes an entry."""
        base = self.label
        if self.parent is not None:
            base = self.parent.path_to(self.owner)
        return f"{base}{self.step(key)}".removeprefix(".")

    def path_to(self, value: Any) -> str:
        """Return how a program writes the entry that held a value."""
        key = self.key_of(value)
        return self.label if key is None else self.path(key)

    def key_of(self, value: Any) -> Any:
        """Return the key of the entry that held an object, or None."""
        return next((key for key, kept in self.kept.items() if kept is value), None)

    def is_same(self) -> bool:
        """Tell whether the entries hold the very objects that they held."""
        now, kept = self.values(), self.kept.values()
        return len(now) == len(kept) and all(map(is_, now, kept))

    def changes(self) -> list[tuple[Any, Any, Any]]:
        """List key, former and present value of the entries that differ."""
        before, now = self.kept, self.current()
        both = ((k, before.get(k, MISSING), now.get(k, MISSING)) for k in before | now)
        return [(k, old, new) for k, old, new in both if old is not new]


class Attributes(Place):
    """The attributes of an object that has a dictionary."""

    __slots__ = ()

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        return dict(get_attribute(self.owner, "__dict__"))

    def values(self) -> Any:
        """Return what the entries hold, in the order of `kept`."""
        return get_attribute(self.owner, "__dict__").values()

    def put(self, key: Any, value: Any) -> None:
        """Assign or remove an entry."""
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

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        found = {}
        for name, member in self.names.items():
            try:
                found[name] = member.__get__(self.owner)
            except AttributeError:
                found[name] = MISSING
        return found

    def put(self, key: Any, value: Any) -> None:
        """Assign or remove an entry."""
        if value is MISSING:
            self.names[key].__delete__(self.owner)
        else:
            self.names[key].__set__(self.owner, value)


class ClassAttributes(Place):
    """The attributes of a class."""

    __slots__ = ()

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        return dict(vars(self.owner))

    def put(self, key: Any, value: Any) -> None:
        """Assign or remove an entry."""
        if value is MISSING:
            delattr(self.owner, key)
        else:
            setattr(self.owner, key, value)


class Items(Place):
    """The items of a list, or of a tuple, which stay."""

    __slots__ = ()

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        return dict(enumerate(self.owner))

    def values(self) -> Any:
        """Return what the entries hold, in the order of `kept`."""
        return self.owner

    def put(self, key: Any, value: Any) -> None:
        """Assign an item; an array in a tuple gets other contents."""
        if isinstance(self.owner, tuple):
            self.owner[key]._node = value._node
        else:
            self.owner[key] = value

    def put_back(self, keys: list[Any]) -> None:
        """Give all items their values, as others may have moved, too."""
        del keys
        self.owner[:] = self.kept.values()

    def step(self, key: Any) -> str:
        """Return how a program goes on to an item."""
        return f"[{key!r}]"


class Entries(Place):
    """The entries of a dictionary."""

    __slots__ = ()

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        return dict(self.owner)

    def values(self) -> Any:
        """Return what the entries hold, in the order of `kept`."""
        return self.owner.values()

    def put(self, key: Any, value: Any) -> None:
        """Assign or remove an entry."""
        if value is MISSING:
            del self.owner[key]
        else:
            self.owner[key] = value

    def step(self, key: Any) -> str:
        """Return how a program goes on to an item."""
        return f"[{key!r}]"


class Components(Items):
    """The components of a nested array."""

    __slots__ = ()

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        return dict(enumerate(self.owner._items))

    def values(self) -> Any:
        """Return what the entries hold, in the order of `kept`."""
        return self.owner._items

    def put(self, key: Any, value: Any) -> None:
        """Assign a component."""
        self.owner._items[key] = value

    def put_back(self, keys: list[Any]) -> None:
        """Give all components their values."""
        del keys
        self.owner._items[:] = self.kept.values()


class Variable(Place):
    """A variable of an enclosing function; `label` is its name."""

    __slots__ = ()
    owner: CellType

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        try:
            return {self.label: self.owner.cell_contents}
        except ValueError:
            return {self.label: MISSING}

    def put(self, key: Any, value: Any) -> None:
        """Assign or remove an entry."""
        if value is MISSING:
            del self.owner.cell_contents
        else:
            self.owner.cell_contents = value

    def path(self, key: Any) -> str:
        """Return the name of the variable."""
        return str(key)


class Globals(Place):
    """Some variables of a module."""

    __slots__ = ("names",)

    def __init__(self, owner: dict[str, Any], names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(owner, None)

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        return {name: self.owner.get(name, MISSING) for name in self.names}

    def put(self, key: Any, value: Any) -> None:
        """Assign or remove an entry."""
        if value is MISSING:
            del self.owner[key]
        else:
            self.owner[key] = value

    def path(self, key: Any) -> str:
        """Return the name of the variable."""
        return str(key)
