"""What a program reads of an entry that isn't there: a class's attribute, or a zero."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any


def default_of(owner: Any, key: Any, otherwise: Any) -> Any:
    """Return what a program reads of an object where an entry of its own is missing.

    Args:
        owner: the object or dictionary.
        key: the entry's.
        otherwise: what to return if there is nothing to read.
    """
    if isinstance(owner, Counter):
        return 0
    if isinstance(owner, defaultdict):
        factory = owner.default_factory
        return factory() if factory in (int, float, bool) else otherwise
    if isinstance(owner, dict):
        return otherwise
    spaces = (vars(cls) for cls in type(owner).__mro__)
    return next((space[key] for space in spaces if key in space), otherwise)
