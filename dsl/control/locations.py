"""Python objects as places: their entries, as they were, and putting them back.

Owns what an entry is (attribute, slot, item, variable) and how a program writes it.
Which places a construct can reach is up to `reachability`.
"""

from __future__ import annotations

from contextvars import ContextVar
from threading import local
from types import CellType, FunctionType
from typing import Any, Final

from lumijit.control.defaults import default_of
from lumijit.control.sameness import MISSING, are_same, have_same, same_items
from lumijit.nested import NestedArray
from lumijit.undeclared import slots_of

# What classes have of Python itself: it tells how they were declared.
_MADE: Final = frozenset(
    ("__annotations__", "__dataclass_fields__", "__dataclass_params__")
    + ("__match_args__", "__slots__", "__static_attributes__", "__type_params__")
    + ("__annotations_cache__",)
)


class Location:
    """A Python object with entries that can be assigned.

    `before` is what the entries held. `label` is what a message calls an owner that is
    in no other place.
    """

    __slots__ = ("before", "label", "owner", "parent")

    def __init__(self, owner: Any, parent: Location | None, label: str = "") -> None:
        self.owner = owner
        self.parent = parent
        self.label = label
        self.before: Any = self.current()

    @property
    def kept(self) -> dict[Any, Any]:
        """What the entries held, by key."""
        before: dict[Any, Any] = self.before
        return before

    def followed(self) -> Any:
        """Return the values that lead on."""
        return self.before.values()

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        raise NotImplementedError

    def held(self, key: Any) -> Any:
        """Return what an entry holds."""
        return self.current().get(key, MISSING)

    def read(self, key: Any) -> Any:
        """Return what a program reads of an entry."""
        value = self.held(key)
        return default_of(self.owner, key, MISSING) if value is MISSING else value

    def put(self, key: Any, value: Any) -> None:
        """Assign an entry; MISSING removes it."""
        raise NotImplementedError

    def put_back(self, keys: list[Any]) -> None:
        """Give entries the values that they had."""
        for key in keys:
            self.put(key, self.kept.get(key, MISSING))

    def has_moved(self) -> bool:
        """Tell whether assigning the entries that differ doesn't give what there is."""
        return False

    def contents(self) -> Any:
        """Return all that there is, to `fill` it again."""
        return self.current()

    def fill(self, contents: Any) -> None:
        """Put other contents in the place of all that there is."""
        now = self.current()
        for key in now | contents:
            value = contents.get(key, MISSING)
            if now.get(key, MISSING) is not value:
                self.put(key, value)

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
        return same_items([*self.current().values()], [*self.kept.values()])

    def changes(self) -> list[tuple[Any, Any, Any]]:
        """List key, former and present value of the entries that differ."""
        before, now = self.kept, self.current()
        both = ((k, before.get(k, MISSING), now.get(k, MISSING)) for k in before | now)
        return [(k, old, new) for k, old, new in both if old is not new]


class _Mapping(Location):
    """What a dictionary holds."""

    __slots__ = ("space",)

    def __init__(
        self, owner: Any, parent: Location | None, label: str, space: dict[Any, Any]
    ) -> None:
        self.owner = owner
        self.parent = parent
        self.label = label
        self.space = space
        self.before = space.copy()

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        return dict(self.space)

    def held(self, key: Any) -> Any:
        """Return what an entry holds."""
        return self.space.get(key, MISSING)

    def is_same(self) -> bool:
        """Tell whether the entries hold the very objects that they held."""
        return are_same(self.space, self.before)

    def put(self, key: Any, value: Any) -> None:
        """Assign or remove an entry."""
        if value is MISSING:
            del self.space[key]
        else:
            self.space[key] = value

    def contents(self) -> Any:
        """Return keys and values, in order."""
        return dict(self.space)

    def fill(self, contents: Any) -> None:
        """Put other entries in the place of all."""
        self.space.clear()
        for key, value in contents.items():
            self.space[key] = value


class Attributes(_Mapping):
    """The attributes of an object that has a dictionary."""

    __slots__ = ("kind",)

    def __init__(self, owner: Any, parent: Any, label: str, space: Any) -> None:
        _Mapping.__init__(self, owner, parent, label, space)
        self.kind = type(owner)

    def is_same(self) -> bool:
        """Tell whether the entries hold the very objects, and the class is the same."""
        return type(self.owner) is self.kind and are_same(self.space, self.before)


class Entries(_Mapping):
    """The entries of a dictionary, whose order counts."""

    __slots__ = ()

    def is_same(self) -> bool:
        """Tell whether the entries hold the very objects that they held, in order."""
        space, before = self.space, self.before
        return are_same(space, before) and same_items([*space], [*before])

    def put_back(self, keys: list[Any]) -> None:
        """Give entries the values that they had, in their order if some were gone."""
        has_lost = any(key in self.before and key not in self.space for key in keys)
        super().put_back(keys)
        if has_lost:
            now = dict(self.space)
            self.fill({**{key: now[key] for key in self.before if key in now}, **now})

    def has_moved(self) -> bool:
        """Tell whether keys have another order than assigning them gives."""
        space, before = self.space, self.before
        assigned = [key for key in before if key in space]
        assigned += [key for key in space if key not in before]
        return list(space) != assigned

    def step(self, key: Any) -> str:
        """Return how a program goes on to an item."""
        return f"[{key!r}]"


class SlotLocations(Location):
    """The attributes of an object that have slots; `names` tells which."""

    __slots__ = ("names",)

    def __init__(
        self, owner: Any, parent: Location | None, label: str, names: dict[str, Any]
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


class ClassAttributes(Location):
    """The attributes of a class; its methods are followed where they are mentioned."""

    __slots__ = ("made",)

    def __init__(self, owner: Any, parent: Location | None, label: str = "") -> None:
        Location.__init__(self, owner, parent, label)
        # How many there are besides.
        self.made = len(vars(owner)) - len(self.before)

    def followed(self) -> Any:
        """Return the values that lead on."""
        return [v for v in self.before.values() if type(v) is not FunctionType]

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        return {k: v for k, v in vars(self.owner).items() if k not in _MADE}

    def is_same(self) -> bool:
        """Tell whether the attributes hold the very objects that they held."""
        # (A copy, as what a class shows of its dictionary is slow to ask.)
        return have_same(vars(self.owner).copy(), self.before, self.made)

    def put(self, key: Any, value: Any) -> None:
        """Assign or remove an entry."""
        if value is MISSING:
            delattr(self.owner, key)
        else:
            setattr(self.owner, key, value)


class Items(Location):
    """The items of a list, of a deque, or of a tuple, which stay."""

    __slots__ = ()

    def __init__(self, owner: Any, parent: Location | None, label: str = "") -> None:
        self.owner = owner
        self.parent = parent
        self.label = label
        self.before = list(self.items)

    @property
    def items(self) -> Any:
        """The sequence."""
        return self.owner

    @property
    def kept(self) -> dict[Any, Any]:
        """What the entries held, by key."""
        return dict(enumerate(self.before))

    def followed(self) -> Any:
        """Return the values that lead on."""
        return self.before

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        return dict(enumerate(self.items))

    def held(self, key: Any) -> Any:
        """Return an item."""
        items = self.items
        return items[key] if key < len(items) else MISSING

    def is_same(self) -> bool:
        """Tell whether the items are the very objects that they were."""
        return same_items([*self.items], self.before)

    def put(self, key: Any, value: Any) -> None:
        """Assign an item; an array in a tuple gets other contents."""
        if isinstance(self.items, tuple):
            self.items[key]._become(value._node)
        else:
            self.items[key] = value

    def put_back(self, keys: list[Any]) -> None:
        """Give all items their values, as others may have moved, too."""
        del keys
        self.fill(self.before)

    def has_moved(self) -> bool:
        """Tell whether there are more items now, or less."""
        return len(self.items) != len(self.before)

    def contents(self) -> Any:
        """Return the items."""
        return list(self.items)

    def fill(self, contents: Any) -> None:
        """Put other items in the place of all."""
        self.items.clear()
        self.items.extend(contents)

    def step(self, key: Any) -> str:
        """Return how a program goes on to an item."""
        return f"[{key!r}]"


class Components(Items):
    """The components of a nested array."""

    __slots__ = ()

    @property
    def items(self) -> Any:
        """The list of components."""
        return self.owner._items


class Variable(Location):
    """A variable of an enclosing function."""

    __slots__ = ()

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        return {self.label: self.held(self.label)}

    def held(self, key: Any) -> Any:
        """Return what the variable holds."""
        cell: CellType = self.owner
        try:
            return cell.cell_contents
        except ValueError:
            return MISSING

    def is_same(self) -> bool:
        """Tell whether the variable holds the very object that it held."""
        return self.held(self.label) is self.before[self.label]

    def put(self, key: Any, value: Any) -> None:
        """Assign or remove an entry."""
        if value is MISSING:
            del self.owner.cell_contents
        else:
            self.owner.cell_contents = value

    def path(self, key: Any) -> str:
        """Return the name of the variable."""
        return str(key)


class Globals(_Mapping):
    """Some variables of a module, which a program writes as their names."""

    __slots__ = ("names",)

    def __init__(self, owner: dict[str, Any], names: tuple[str, ...]) -> None:
        self.names, self.space = names, owner
        Location.__init__(self, owner, None)

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        return {name: self.owner.get(name, MISSING) for name in self.names}

    def is_same(self) -> bool:
        """Tell whether the variables hold the very objects that they held."""
        others = len(self.owner) - len(self.before)
        return have_same(self.owner, self.before, others)


class ContextValue(Location):
    """What a context variable holds in this context."""

    __slots__ = ()

    def current(self) -> dict[Any, Any]:
        """Return what the entries hold, by key."""
        value = self.owner.get(MISSING)
        return {} if value is MISSING else {"get()": value}

    def put(self, key: Any, value: Any) -> None:
        """Set the variable; one that had no value keeps what it has."""
        if value is not MISSING:
            self.owner.set(value)


def objects_have_attributes(cls: type[Any]) -> bool:
    """Tell whether objects of a class have attributes of their own, or the like."""
    others = local, ContextVar
    return bool(cls.__dictoffset__ or slots_of(cls) or issubclass(cls, others))


def attributes_of(value: Any, parent: Location | None, label: str) -> list[Location]:
    """Return the places of an object's attributes: its dictionary's, and slots."""
    if type(value) is ContextVar:
        return [ContextValue(value, parent, label)]
    found: list[Location] = []
    try:
        # (Of `threading.local`, those that this thread sees.)
        kind = local if isinstance(value, local) else object
        space = kind.__getattribute__(value, "__dict__")
    except AttributeError:
        space = None
    if type(space) is dict:
        found.append(Attributes(value, parent, label, space))
    slots = slots_of(type(value))
    if slots:
        found.append(SlotLocations(value, parent, label, slots))
    return found


def places_of(value: Any) -> list[Location]:
    """Return the places of all that a container has."""
    if isinstance(value, NestedArray):
        return [Components(value, None)]
    if isinstance(value, list):
        return [Items(value, None)]
    if isinstance(value, dict):
        return [Entries(value, None, "", value)]
    return attributes_of(value, None, "")
