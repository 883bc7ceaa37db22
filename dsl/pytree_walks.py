"""Walks through PyTrees with other leaves than arrays, or several trees at a time.

Plain Python, whose recursion ends in an error where a container is in itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lumijit.base import ArrayBase
from lumijit.masked_entries import MaskedEntries
from lumijit.pytree import Parts, children, is_container, matched, rebuild


def whole_map(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to each leaf, and to each tensor as a whole.

    >>> whole_map(lambda x: x + 1, [1, {"a": 2}])
    [2, {'a': 3}]
    """
    if isinstance(value, ArrayBase) or not is_container(value):
        if isinstance(value, MaskedEntries):
            raise value.refusal("a function of whole arrays")
        return function(value)
    return rebuild(value, [whole_map(function, part) for _, part in children(value)])


def flat_map(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to each leaf, where nested arrays consist of flat ones."""
    parts = Parts((value,))
    return parts.together(map(function, parts.leaves))[0]


def matched_leaves(value: Any, *others: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the leaves of a PyTree with those of others, which must match it.

    >>> list(matched_leaves([1, [2]], [3, [4]]))
    [(1, 3), (2, 4)]
    """
    if is_container(value):
        for row in matched(value, *others):
            yield from matched_leaves(*row)
    else:
        yield value, *others
