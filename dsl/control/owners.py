"""Arrays of the caller's that names of an evaluated loop exchange.

A turn may give a name the array that another one had. What the name then has is merged
from that and from what inactive elements keep, in an array of its own; but for active
elements it is that very array, which later turns may change in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any

from lumijit.compiler.ir.nodes import Node, reached
from lumijit.control.aliases import parting
from lumijit.pytree import Parts


class Owners:
    """What active elements have under each name, by position.

    `own` are the arrays before the loop. `arrays` are those that active elements have:
    one of these, or an object that stands for an array that a turn made. `home` tells
    where the name has been for one array all along. `changed` are the ids of arrays
    that turns have changed in place, and `moved` those of the caller's that the last
    turn has changed under other names, by the id of what it was given.
    """

    __slots__ = ("arrays", "changed", "has_moved", "home", "moved", "own", "pattern")

    def __init__(
        self, own: list[Any], arrays: list[Any], home: list[bool], changed: set[int]
    ) -> None:
        self.own = own
        self.arrays = arrays
        self.home = home
        self.changed = changed
        self.moved: dict[int, Any] = {}
        # What the last turn has kept, if all names have arrays of their own; whether
        # any has one of the caller's that was another's.
        self.pattern: list[bool] | None = None
        self.has_moved = False

    def note(self, given: list[Any], changed: set[int]) -> list[tuple[Any, Any]]:
        """Note which arrays a turn changed in place, by id.

        Returns:
            pairs of arrays that were given: one that it changed, and another one that
            is the same for active elements.
        """
        self.moved = {}
        places = [k for k, value in enumerate(given) if id(value) in changed]
        arrays = self.arrays
        self.changed.update([id(arrays[k]) for k in places])
        own = {id(value) for value in self.own}
        self.moved = {
            id(given[k]): arrays[k]
            for k in places
            if not self.home[k] and id(arrays[k]) in own
        }
        return [
            (given[k], given[j])
            for k in places
            for j, other in enumerate(arrays)
            if other is arrays[k] and given[j] is not given[k]
        ]

    def moved_from(self, array: Any) -> list[Any]:
        """Return the caller's array that one is for active elements, if another one."""
        moved = self.moved.get(id(array))
        return [] if moved is None else [moved]

    def are_leaving(self, given: list[Any], after: list[Any]) -> bool:
        """Tell whether one of the caller's arrays loses its name, after changes."""
        for k, is_home in enumerate(self.home):
            is_leaving = is_home and after[k] is not given[k]
            if is_leaving and id(self.arrays[k]) in self.changed:
                return True
        return False

    def after(self, given: list[Any], after: list[Any]) -> Owners:
        """Return what they have after a turn; `given` is what they had before it."""
        kept = list(map(is_, given, after))
        ids = {*map(id, given), *map(id, after)}
        is_plain = len(ids) == 2 * len(kept) - sum(kept)
        if is_plain and kept == self.pattern:
            return self
        places = {id(value): k for k, value in enumerate(given)}
        made: dict[int, Any] = {}
        arrays: list[Any] = []
        home: list[bool] = []
        for k, value in enumerate(after):
            key = id(value)
            place = places.get(key)
            if place is None:
                array = made.get(key)
                if array is None:
                    array = made[key] = object()
            else:
                array = self.arrays[place]
            arrays.append(array)
            home.append(self.home[k] and value is given[k])
        found = Owners(self.own, arrays, home, self.changed)
        if is_plain and len({*map(id, arrays)}) == len(arrays):
            found.pattern = kept
        own = {*map(id, self.own)}
        found.has_moved = any(
            [not home[k] and id(array) in own for k, array in enumerate(arrays)]
        )
        return found

    def widened(self, counts: Iterable[tuple[int, int]]) -> Owners:
        """Return what they have where variables have more parts than before."""
        arrays: list[Any] = []
        home: list[bool] = []
        place = 0
        for before, after in counts:
            new = max(after - before, 0)
            arrays += self.arrays[place : place + before] + [
                object() for _ in range(new)
            ]
            home += self.home[place : place + before] + [False] * new
            place += before
        return Owners(self.own, arrays, home, self.changed)


def owners_of(values: Sequence[Any]) -> Owners:
    """Return what active elements have before the first turn."""
    return Owners([*values], [*values], [True] * len(values), set())


def check_sharing(
    construct: str,
    old: Parts,
    pairs: Iterable[tuple[Any, Any]],
    after: Iterable[Any],
    nodes: Iterable[Node],
) -> None:
    """Refuse changes in place that other names for the array would see.

    Args:
        construct: the loop's name.
        old: what the names had before the turn.
        pairs: what `Owners.note` has found among these.
        after: what they have after it.
        nodes: what the turn computes and writes.
    """
    kept = set(map(id, after))
    found = {id(node) for node in reached(nodes, _operands)}
    for changed, other in pairs:
        # (If both hold the same data, nobody knows by which name it was read.)
        own = {id(leaf._node) for leaf in Parts((changed,)).leaves}
        held = {id(leaf._node) for leaf in Parts((other,)).leaves}
        if id(other) in kept or not found.isdisjoint(held - own):
            names = old.name_of(changed), old.name_of(other)
            raise parting(construct, names, True, changed)


def _operands(node: Node) -> Sequence[Node]:
    return node.deps
