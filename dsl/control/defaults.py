"""What a program reads of an entry that isn't there: a class's number, or a zero."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

# Not bool: a flag of a class mostly tells that something was prepared.
_NUMBERS = (int, float)


def default_of(owner: Any, key: Any, otherwise: Any) -> Any:
    """Return the number that a program reads where an entry of an object is missing.

    Args:
        owner: the object, class or dictionary.
        key: the entry's.
        otherwise: what to return if there is nothing to read, or no number.
    """
    if isinstance(owner, Counter):
        return 0
    if isinstance(owner, defaultdict):
        factory: Any = owner.default_factory
        return factory() if factory in _NUMBERS else otherwise
    if isinstance(owner, dict):
        return otherwise
    classes = owner.__mro__[1:] if isinstance(owner, type) else type(owner).__mro__
    spaces = (vars(cls) for cls in classes)
    found = next((space[key] for space in spaces if key in space), otherwise)
    return found if type(found) in _NUMBERS else otherwise
