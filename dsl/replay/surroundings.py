"""What a function reaches besides its arguments: arrays, numbers, and their key.

The walk is that of control flow (`control.reachability`). As long as all places hold
the very objects that they held, nothing is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.control.locations import (
    MISSING,
    ClassAttributes,
    Items,
    Location,
    Members,
)
from lumijit.control.reachability import WHOLE, Reach
from lumijit.instance_registry import contents
from lumijit.instances import InstanceArray
from lumijit.replay.tokens import (
    HOST,
    NAMED,
    NUMBERS,
    Shape,
    host_token,
    is_local_memory,
    object_token,
    value_token,
)


class Surroundings:
    """What a function reaches from outside, apart from its arguments, as it is now.

    `numbers` may change from call to call; `where` tells the place and key of each.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        self._roots = tuple(roots)
        # Whether something was assigned since everything was looked at.
        self.is_stale = False
        self.look()

    def look(self) -> None:
        """Look at everything."""
        self.is_stale = False
        reach = self.reach = Reach(notes_constants=True)
        for root in self._roots:
            reach.follow(root)
        self._follow_instances()
        self.arrays: list[FlatArray] = reach.arrays
        constants = reach.constants or []
        self.places: list[Location] = [*reach.places, *constants]
        self.numbers: list[Any] = []
        self.where: list[tuple[Location, Any]] = []
        # What may change in place, and is told by its contents.
        self._host: list[Any] = []
        self.has_local_memory = any(map(is_local_memory, self._roots))
        self._order: dict[int, int] = {}
        tokens: list[Any] = []
        count = len(reach.places)
        for k, place in enumerate(self.places):
            tokens.append(type(place))
            self._add(place, tokens, has_numbers=k < count)
        for root in self._roots:
            tokens.append((type(root), self._order.setdefault(id(root), -len(tokens))))
        self.key = Shape(tuple(tokens))
        self._host_tokens = list(map(host_token, self._host))

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
            tokens += (type(key), key)
            if kind in NUMBERS and may_change:
                self.numbers.append(value)
                self.where.append((place, key))
                tokens.append(kind)
            elif isinstance(value, HOST):
                order.setdefault(id(value), len(order))
                tokens += (value_token(value), order[id(value)])
                self._host.append(value)
            elif id(value) in seen and not isinstance(value, NAMED):
                # Told by its contents, and by where else it is.
                number = order.setdefault(id(value), len(order))
                tokens += (object_token(value), number)
            elif value is MISSING:
                tokens.append("missing")
            else:
                tokens.append(value_token(value))

    def aliases(self, containers: Sequence[Any]) -> tuple[Any, ...] | None:
        """Tell which containers are one, or are reached from outside, too."""
        if not containers:
            return None
        names = list(map(id, containers))
        found = [self._order.get(name) for name in names]
        if len(set(names)) == len(names) and all(k is None for k in found):
            return None
        return (*found, *map(names.index, names))

    def is_current(self) -> bool:
        """Tell whether everything is as it was looked at."""
        if not self.places:
            return True
        reach = self.reach
        if reach.changed(WHOLE):
            return False
        if not all(p.is_same() for p in reach.constants or ()):
            return False
        return not self._host or self._host_tokens == list(map(host_token, self._host))

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


def instances_of(array: InstanceArray) -> list[Any]:
    """Return the objects that an array of instances may contain."""
    return [v for _, v in array._domain.instances(contents(array._node))]
