"""What a function reaches besides its arguments: arrays, numbers, and their key.

The walk is that of control flow (`control.reachability`). As long as all places hold
the very objects that they held, nothing is looked at again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from itertools import cycle
from types import GeneratorType, MemberDescriptorType
from typing import Any, Final
from weakref import WeakSet

from lumijit.arrays import FlatArray
from lumijit.control.locations import ClassAttributes, Entries, Items, Location
from lumijit.control.members import Members
from lumijit.control.reachability import Reach
from lumijit.control.sameness import MISSING
from lumijit.instance_registry import contents
from lumijit.instances import InstanceArray
from lumijit.nested import NestedArray
from lumijit.replay.tokens import (
    HOST,
    NAMED,
    NUMBERS,
    Same,
    Shape,
    host_token,
    is_local_memory,
    object_token,
    value_token,
)

# What classes have that no other object is.
_MEMBERS: Final = (staticmethod, classmethod, property, MemberDescriptorType)


class Surroundings:
    """What a function reaches from outside, apart from its arguments, as it is now.

    `numbers` may change from call to call; `where` tells the place and key of each.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        self._roots = tuple(roots)
        # How often it refers to each of them, by their ids.
        self._own: dict[int, int] = {}
        # Whether something was assigned since everything was looked at.
        self.is_stale = False
        self.look()
        _all.add(self)

    def look(self) -> None:
        """Look at everything."""
        self.is_stale = False
        # What refers to the objects from here isn't counted.
        self.reach = Reach()
        self.arrays: list[FlatArray] = []
        self.places: list[Location] = []
        self.where: list[tuple[Location, Any]] = []
        # What may change in place, and is told by its contents.
        self.host: list[Any] = []
        self._own = {}
        before = _reference_counts(self._roots)
        self._look()
        for root, count, others in zip(
            self._roots, _reference_counts(self._roots), before, strict=True
        ):
            self._own[id(root)] = count - others
        for root in self._roots:
            self._own[id(root)] += 1

    def _look(self) -> None:
        reach = self.reach = Reach(notes_constants=True)
        for root in self._roots:
            reach.follow(root)
        self._follow_instances()
        reach.note_plain()
        self.arrays = reach.arrays
        constants = reach.constants or []
        self.places = [*reach.places, *constants]
        self.numbers: list[Any] = []
        self.has_local_memory = any(map(is_local_memory, self._roots))
        self.has_generators = any(map(_is_hidden, self._roots))
        self._order: dict[int, int] = {}
        self._is_repeated: set[int] = set()
        tokens: list[Any] = []
        count = len(reach.places)
        for k, place in enumerate(self.places):
            tokens.append(type(place))
            self._add(place, tokens, has_numbers=k < count)
        for root in self._roots:
            tokens.append((type(root), self._order.setdefault(id(root), -len(tokens))))
        for array in reach.arrays:
            if isinstance(array, InstanceArray):
                # Which of them is where else.
                for instance in instances_of(array):
                    tokens.append(self._order.setdefault(id(instance), -len(tokens)))
        self.key = Shape(tuple(tokens))
        self._host_tokens = list(map(host_token, self.host))
        places = enumerate(self.where)
        self._at = {(id(place), key): k for k, (place, key) in places}

    def note(self, place: Location, key: Any) -> None:
        """Take note that a call has assigned an entry, which may look as it did."""
        old = place.kept.get(key, MISSING)
        new = place.held(key)
        if old is not new and not self._has_taken(place, key, old, new):
            self.is_stale = True
        place.before[key] = new

    def _has_taken(self, place: Location, key: Any, old: Any, new: Any) -> bool:
        """Have a value in place of another; tell whether that is all there is to do.

        It is where both are numbers, arrays or containers of one structure, and what
        they consist of is in no other place.
        """
        kind = type(new)
        if type(old) is not kind:
            return False
        if kind in NUMBERS:
            number = self._at.get((id(place), key))
            if number is not None:
                self.numbers[number] = new
            return number is not None
        seen = self.reach.seen
        if id(old) in self._is_repeated or id(new) in seen:
            return False
        if issubclass(kind, FlatArray) and not issubclass(kind, InstanceArray):
            index = next((k for k, a in enumerate(self.arrays) if a is old), None)
            if index is None:
                return False
            self.arrays[index] = new
        elif not self._has_taken_items(kind, old, new):
            return False
        seen.discard(id(old))
        seen.add(id(new))
        self._order[id(new)] = self._order.pop(id(old))
        return True

    def _has_taken_items(self, kind: type[Any], old: Any, new: Any) -> bool:
        """Have the items of a container in place of those of another."""
        place = next((p for p in self.places if p.owner is old), None)
        if type(place) is Entries and kind is dict and list(old) == list(new):
            renewed: tuple[Any, ...] = (new,)
        elif isinstance(place, Items) and (
            kind is list or issubclass(kind, NestedArray)
        ):
            renewed = ()
        else:
            return False
        before = place.kept
        place.__init__(new, place.parent, place.label, *renewed)  # type: ignore[misc]
        kept = place.kept
        if len(kept) != len(before):
            return False
        return all(
            value is before[k] or self._has_taken(place, k, before[k], value)
            for k, value in kept.items()
        )

    def _follow_instances(self) -> None:
        """Follow the objects that arrays of instances may contain."""
        reach = self.reach
        done = 0
        while done < len(reach.arrays):
            array = reach.arrays[done]
            done += 1
            if isinstance(array, InstanceArray):
                for instance in instances_of(array):
                    reach.follow(instance, type(instance).__name__)

    def _add(self, place: Location, tokens: list[Any], has_numbers: bool) -> None:
        """Add what tells the entries of a place."""
        may_change = has_numbers and not (
            isinstance(place, (ClassAttributes, Members))
            or (isinstance(place, Items) and isinstance(place.owner, tuple))
        )
        seen, order = self.reach.seen, self._order
        for key, value in place.kept.items():
            kind = type(value)
            self.has_local_memory |= is_local_memory(value)
            self.has_generators |= _is_hidden(value)
            tokens += (type(key), key)
            if kind in NUMBERS and may_change:
                self.numbers.append(value)
                self.where.append((place, key))
                tokens.append(kind)
            elif isinstance(value, HOST):
                order.setdefault(id(value), len(order))
                tokens += (value_token(value), order[id(value)])
                self.host.append(value)
            elif id(value) in seen and not isinstance(value, NAMED):
                # Told by its contents, and by where else it is.
                if id(value) in order:
                    self._is_repeated.add(id(value))
                number = order.setdefault(id(value), len(order))
                tokens += (object_token(value), number)
            elif value is MISSING:
                tokens.append("missing")
            else:
                token = value_token(value)
                is_object = kind in _MEMBERS or type(token) is Same
                if is_object and isinstance(place, ClassAttributes):
                    token = Same(value, (place.owner, key))
                tokens.append(token)

    def aliases(self, containers: list[Any]) -> tuple[Any, ...] | None:
        """Tell which containers are one, or are reached from outside, too.

        Tuples stay what they are, whoever else has them.
        """
        if not containers:
            return None
        names = [id(c) for c in containers if not isinstance(c, tuple)]
        found = [self._order.get(name) for name in names]
        if len(set(names)) == len(names) and found.count(None) == len(found):
            return None
        return (*found, *map(names.index, names))

    def is_current(self) -> bool:
        """Tell whether everything is as it was looked at."""
        for place in self.places:
            if not place.is_same():
                return False
        return not self.host or self._host_tokens == list(map(host_token, self.host))

    def number_names(self) -> list[str]:
        """Name the numbers as a program would write them."""
        return [place.path(key) for place, key in self.where]

    def array_names(self) -> list[str]:
        """Name the arrays as a program would write them."""
        reach = self.reach
        return [
            place.path_to(array)
            for place, array in zip(reach.holders, reach.arrays, strict=True)
        ]


def _reference_counts(values: tuple[Any, ...]) -> list[int]:
    return list(map(sys.getrefcount, values))


# What is counted besides the tuple's reference.
_COUNTING: Final = _reference_counts((object(),))[0] - 1
_all: WeakSet[Surroundings] = WeakSet()


def left(known: Iterable[tuple[Any, Surroundings]]) -> list[Any]:
    """List the keys of those with an object, no function, that nobody else refers to.

    Nobody will ask for what it leads to. Objects that refer to themselves aren't found.
    """
    own: Counter[int] = Counter()
    try:
        for surroundings in _all:
            own.update(surroundings._own)
    except RuntimeError:
        # Another thread has come upon further objects: another time.
        return []
    found = []
    for key, surroundings in known:
        roots = surroundings._roots
        counts = zip(roots, _reference_counts(roots), strict=True)
        others = [count - own[id(root)] for root, count in counts]
        if _COUNTING in others[1:]:
            found.append(key)
    return found


def _is_hidden(value: Any) -> bool:
    """Tell whether a value is an iterator of which nobody sees how far it has come."""
    return isinstance(value, (GeneratorType, cycle))


def instances_of(array: InstanceArray) -> list[Any]:
    """Return the objects that an array of instances may contain."""
    return [v for _, v in array._domain.instances(contents(array._node))]
