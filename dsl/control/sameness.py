"""Whether containers hold the very objects that they held.

Nothing is asked whether it equals something else, as arrays would compute that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Stands for an entry that isn't there.
MISSING: Any = object()


def are_same(now: Any, before: Any) -> bool:
    """Tell whether a mapping has the very objects that it had, under the same keys."""
    if type(now) is dict and type(before) is dict:
        return have_same(now, before, 0)
    return same_items([*now.values()], [*before.values()]) and same_items(
        [*now], [*before]
    )


def have_same(now: dict[Any, Any], before: dict[Any, Any], others: int) -> bool:
    """Tell whether there is what was there, and `others` entries besides."""
    if len(now) != len(before) + others:
        return False
    is_same = True
    for key, value in before.items():
        is_same = is_same and now.get(key, MISSING) is value
    return is_same


def same_items(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Tell whether two sequences hold the very same objects."""
    is_same = len(a) == len(b)
    for k in range(len(a)):
        is_same = is_same and a[k] is b[k]
    return is_same
