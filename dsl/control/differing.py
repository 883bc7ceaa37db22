"""What differs from what it was: entries of places, and arrays.

Which of it is put back is up to `captured_state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops.structural import EVALUATED, LITERAL, UNDEFINED, WRITTEN
from lumijit.compiler.launch.evaluate import data
from lumijit.control.defaults import default_of
from lumijit.control.locations import Location
from lumijit.control.sameness import MISSING
from lumijit.replay.numbers import Number

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
            if before is not after and not are_one(before, after):
                if before is MISSING:
                    before = default_of(place.owner, key, MISSING)
                yield place, key, before, after


def are_one(before: Any, after: Any) -> bool:
    """Tell whether values differ in what another thread has stand for them only."""
    if type(before) is Number:
        before = before.seen()
    return before is (after.seen() if type(after) is Number else after)


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


def is_begun(held: Node, first: Node) -> bool:
    """Tell whether writes began at what an array held when a block began.

    They are masked, and what replaces an array in a block is for all elements.
    """
    return first is held or is_renewed(held, first)


def is_renewed(before: Node, after: Node) -> bool:
    """Tell whether a literal (or what is undefined) was only renewed, or evaluated.

    (A thread that records has literals in memory, and puts them back.)
    """
    if before.type is not after.type or before.size != after.size:
        return False
    if before.op is UNDEFINED or after.op is UNDEFINED:
        return before.op is after.op
    if before.op is LITERAL and after.op is LITERAL:
        return repr(before.attr) == repr(after.attr)
    kinds = {before.op, after.op}
    if not kinds <= {LITERAL, EVALUATED} or before.vertex is not None:
        return False
    if before.op is EVALUATED and (before.size > 1 or after.vertex is not None):
        return False
    return _contents(before) == _contents(after)


def _contents(node: Node) -> bytes:
    if node.op is EVALUATED:
        return bytes(data(node).tobytes())
    return np.full(node.size, node.attr, node.type.numpy).tobytes()
