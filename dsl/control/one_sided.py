"""Results that one side of a branch has, and the other one leaves undefined.

They are put together from what was taken apart as a side ended: what the sides return
may be objects that change later, as those of the caller do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lumijit.control.state import zeros_like
from lumijit.pytree import Parts
from lumijit.syntax.undefined import Undefined


class _Source:
    """Gives the nodes of PyTrees that were taken apart, one after the other."""

    def __init__(self, parts: Parts) -> None:
        self.outline = iter(parts.outline)
        self.containers = iter(parts.containers)
        self.leaves = iter(parts.leaves)
        self.nested: Iterator[Any] = zip(parts.nested, parts.items, strict=True)


def filled(parts: Parts, other: Parts) -> Parts:
    """Return a side's results, with zeros like the other's for what is undefined."""
    result = Parts((), parts._labels)
    result.values = parts.values
    mine, theirs = _Source(parts), _Source(other)
    for a, b in zip(parts.values, other.values, strict=True):
        is_missing = type(a) is Undefined and type(b) is not Undefined
        _move(Parts(()) if is_missing else result, mine)
        part = Parts(())
        _move(part, theirs)
        if is_missing:
            part.values = (b,)
            zeros = {id(leaf): zeros_like(leaf) for leaf in part.leaves}
            result._take(part.together([zeros[id(leaf)] for leaf in part.leaves]), 0)
    return result


def _move(target: Parts, source: _Source) -> None:
    """Append a node, and what is in it."""
    kind = next(source.outline)
    target.outline.append(kind)
    if kind is None:
        target.leaves.append(next(source.leaves))
        return
    keys = next(source.outline)
    target.outline.append(keys)
    target.containers.append(next(source.containers))
    if kind.is_array:
        array, items = next(source.nested)
        target.nested.append(array)
        target.items.append(items)
    for _ in keys:
        _move(target, source)
