"""What differs from what it was: entries of places, and arrays.

Which of it is put back is up to `captured_state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import EVALUATED, LITERAL, WRITTEN
from lumijit.compiler.launch.evaluate import data
from lumijit.control.defaults import default_of
from lumijit.control.locations import MISSING, Location

#: Places that aren't as they were, by id, with what they hold.
Places = dict[int, tuple[Location, dict[Any, Any]]]
#: A place, with what it held and what it holds.
Pair = tuple[Location, dict[Any, Any], dict[Any, Any]]


def places(before: Places, now: Places) -> Iterator[Pair]:
    """List places that differ."""
    for name in before | now:
        place = (before.get(name) or now[name])[0]
        kept = place.kept
        held = before.get(name, (place, kept))[1]
        yield place, held, now.get(name, (place, kept))[1]


def entries(pairs: Iterable[Pair]) -> Iterator[tuple[Location, Any, Any, Any]]:
    """List entries that differ: place, key, and both values.

    What is missing is what a program reads there, as of a class.
    """
    for place, old, new in pairs:
        for key in old | new:
            before, after = old.get(key, MISSING), new.get(key, MISSING)
            if before is not after:
                if before is MISSING:
                    before = default_of(place.owner, key, MISSING)
                yield place, key, before, after


def is_written(array: Any) -> bool:
    """Tell whether an array has a new version by a write, which is masked."""
    node = array._node
    scope = trace.state.scope
    if node.op is WRITTEN and node.scope is scope and id(array) in scope.writes:
        return True
    watched = trace.state.watched
    while watched is not None:
        # (What another function of a call has written, the call itself knows.)
        entry = watched.entries.get(id(array))
        if entry is not None:
            return entry.last is node
        watched = watched.outer
    return False


def is_renewed(before: Node, after: Node) -> bool:
    """Tell whether a literal was only renewed, or put into memory."""
    if before.op is not LITERAL or before.type is not after.type:
        return False
    if after.op is LITERAL:
        return before.size == after.size and repr(before.attr) == repr(after.attr)
    if after.op is not EVALUATED or before.size != after.size:
        return False
    value = np.asarray(before.attr, before.type.numpy)
    return data(after).tobytes() == np.full(after.size, value).tobytes()
