"""What differs from what it was: entries of places, and arrays.

Which of it is put back is up to `captured_state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import WRITTEN
from lumijit.control.defaults import default_of
from lumijit.control.locations import MISSING, Location
from lumijit.control.write_rules import is_begun

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


def is_written(array: Any, held: Node) -> bool:
    """Tell whether an array has a new version by writes, which are masked.

    If it was replaced before, since it `held` a node, that is a change like others.
    """
    node = array._node
    scope = trace.state.scope
    if node.op is WRITTEN and node.scope is scope and id(array) in scope.writes:
        return is_begun(held, scope.writes[id(array)][1])
    watched = trace.state.watched
    # The writes of functions that ran before are noted further out.
    while watched is not None:
        entry = watched.entries.get(id(array))
        if entry is not None:
            if entry.last is not node or entry.is_mixed:
                return False
            node = entry.first
            if is_begun(held, node):
                return True
        watched = watched.outer
    return False
