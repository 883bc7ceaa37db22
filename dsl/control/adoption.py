"""Which entry becomes state of a construct where a called function changes another.

That functions change what is no state is found by `captured_state`.
"""

from __future__ import annotations

from typing import Any

from lumijit.control.locations import Location
from lumijit.nested import NestedArray
from lumijit.pytree import is_container


def assignable(place: Location, key: Any) -> tuple[Location, Any, str]:
    """Return which entry becomes state in place of one, with its path.

    Of what is in a tuple, that is the one with the tuple, however deep in PyTrees: no
    array must be in two entries.
    """
    found = place, key
    parent = place.parent
    while parent is not None and _is_tree(place.owner):
        key = parent.key_of(place.owner)
        if isinstance(place.owner, tuple):
            found = parent, key
        place, parent = parent, parent.parent
    return *found, found[0].path(found[1])


def _is_tree(value: Any) -> bool:
    return isinstance(value, NestedArray) or is_container(value)
