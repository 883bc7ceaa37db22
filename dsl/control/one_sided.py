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
    nothing = Parts(())
    mine, theirs = _Source(parts), _Source(other)
    zeros: dict[int, Any] = {}
    for a, b in zip(parts.values, other.values, strict=True):
        is_missing = type(a) is Undefined and type(b) is not Undefined
        _take(nothing if is_missing else result, mine, None)
        _take(result if is_missing else nothing, theirs, zeros)
    return result


def _take(target: Parts, source: _Source, zeros: dict[int, Any] | None) -> None:
    """Append a node and what is in it; with `zeros` by the ids of leaves, like it."""
    kind = next(source.outline)
    target.outline.append(kind)
    if kind is None:
        leaf = next(source.leaves)
        if zeros is not None:
            leaf = zeros.setdefault(id(leaf), zeros_like(leaf))
        target.leaves.append(leaf)
        return
    keys = next(source.outline)
    target.outline.append(keys)
    target.containers.append(next(source.containers))
    if kind.is_array:
        array, items = next(source.nested)
        # What is like an array isn't that array.
        target.nested.append(array if zeros is None else object())
        target.items.append(items)
    for _ in keys:
        _take(target, source, zeros)
