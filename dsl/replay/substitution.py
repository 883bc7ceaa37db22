"""Other objects in the place of those of which PyTrees consist; plain numbers, too."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from lumijit import pytree
from lumijit.replay.numbers import Number
from lumijit.runtime.errors import check_nesting


def _itself(leaf: Any) -> Any:
    return leaf


def number_itself(leaf: Any) -> Any:
    """Return what a recorded number stands for, and others as they are."""
    return leaf.value if type(leaf) is Number else leaf


def with_others(
    value: Any,
    known: dict[int, Any],
    leaf: Callable[[Any], Any] = _itself,
    depth: int = 0,
) -> Any:
    """Put other objects in the place of those of a PyTree.

    `known` are others by the ids of what they stand for, `leaf` returns those of the
    other leaves. What comes twice stays one. Numbers that are keys or members are
    plain: their hash was asked for, so that the recording depends on them.
    """
    check_nesting(depth)
    found = known.get(id(value))
    if found is not None:
        return found
    if type(value) in (set, frozenset):
        members = list(map(plain_key, value))
        found = value if all(map(is_, members, value)) else type(value)(members)
    elif pytree.is_container(value):
        old = [v for _, v in pytree.children(value)]
        new = [with_others(v, known, leaf, depth + 1) for v in old]
        found = value if all(map(is_, old, new)) else pytree.rebuild(value, new)
        if type(value) is dict:
            keys = list(map(plain_key, found))
            if not all(map(is_, keys, found)):
                found = dict(zip(keys, found.values(), strict=True))
    else:
        return leaf(value)
    known[id(value)] = found
    return found


def plain_key(key: Any) -> Any:
    """Return a key without recorded numbers."""
    return with_others(key, {}, number_itself)
