"""Which objects stand for which others in some elements, and in which.

A name that gets another object under a condition names an object of its own then, which
stands for the one before where the condition didn't hold. Owns the masks that tell
where, and giving the one before what has become of the other one there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from lumijit.syntax.bindings import targets


class Heir(NamedTuple):
    """An object, as it was when it was made, what it stands for, and where.

    `others` are those that it stands for somewhere else.
    """

    item: Any
    moment: Any
    source: Any
    mask: Any
    others: Collection[Any]


class Lineage:
    """The objects made by constructs inside of the function that is running."""

    def __init__(self) -> None:
        self.heirs: dict[int, Heir] = {}

    def note(self, item: Any, source: Any, mask: Any, others: Collection[Any]) -> None:
        """Note that an object stands for another one in some elements."""
        self.heirs[id(item)] = Heir(
            item, targets.identity.moment(item), source, mask, others
        )

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Know nothing of other objects while a function runs."""
        others, self.heirs = self.heirs, {}
        try:
            yield
        finally:
            self.heirs = others

    def settle(self) -> None:
        """Do to objects what has been done to those that stand for them."""
        for heir in reversed(self.heirs.values()):
            if heir.mask is not False:
                targets.identity.blend(heir.source, heir.mask, heir.item, heir.moment)

    def mask(self, first: Any, last: Any) -> Any:
        """Return in which elements one object is another: a bool, or a mask."""
        found: Any = True
        while last is not first:
            heir = self.heirs.get(id(last))
            if heir is None:
                return False
            found, last = both(heir.mask, found), heir.source
        return found


def both(one: Any, other: Any) -> Any:
    """Return where both of two conditions hold."""
    if one is True or other is False:
        return other
    return one if other is True or one is False else targets.logical_and(one, other)
