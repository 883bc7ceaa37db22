"""Which changes of what holds no arrays count: of values, objects and containers.

They exist once for all elements, so what was there must stay. What comes where nothing
or None was may be a memo, which is the same for all. Arrays, and what objects known
before hold, are up to `captured_state`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from enum import Enum
from itertools import starmap
from types import FunctionType
from typing import Any

import numpy as np

from lumijit.base import ArrayBase
from lumijit.control.bytecode import PLAIN, has_only_python, is_foreign
from lumijit.control.locations import Items, Location, places_of
from lumijit.control.members import Members, Position
from lumijit.control.sameness import MISSING
from lumijit.control.state import same_object
from lumijit.pytree import is_container
from lumijit.syntax.undefined import Undefined

Pairs = list[tuple[Any, Any]]
_KEPT_IN = (list, tuple, dict, deque)


def counts(place: Location, before: Any) -> bool:
    """Tell whether an entry that differs says what a program has done.

    Members of sets are where they are by chance, and the parts of objects that only
    Python's collector looks into mean nothing.
    """
    owner = place.owner
    if isinstance(owner, (set, frozenset)):
        return before is not MISSING and before not in owner
    is_opaque = isinstance(place, Members) and not isinstance(place, Position)
    return not is_opaque or isinstance(owner, np.ndarray)


def is_other(before: Any, after: Any, known: Container[int]) -> bool:
    """Tell whether a value, or a part of it that holds no arrays, became another one.

    Args:
        before: the value.
        after: what is in its place.
        known: ids of the objects from before. One of these is another one whatever it
            holds: whoever has it changes it. New ones are compared by what they hold.
    """
    pairs: Pairs = [(before, after)]
    seen: set[tuple[int, int]] = set()
    for old, new in pairs:
        if old is new or isinstance(old, ArrayBase) or isinstance(new, ArrayBase):
            continue
        if old is MISSING or type(old) is Undefined:
            continue
        if old is None:
            if new is MISSING or (id(new) in known and is_object(new)):
                return True
            continue
        pair = id(old), id(new)
        if pair not in seen:
            seen.add(pair)
            parts = _parts(old, new, known)
            if parts is None:
                return True
            pairs += parts
    return False


def is_object(value: Any) -> bool:
    """Tell whether a value is an object of the program's, and none that it names."""
    cls = type(value)
    is_plain = cls in PLAIN or isinstance(value, (Enum, type)) or callable(value)
    return is_foreign(cls) and not (is_plain or is_container(value))


def _parts(old: Any, new: Any, known: Container[int]) -> Pairs | None:
    """Pair what two values consist of; None if they differ."""
    cls = type(old)
    if cls is not type(new):
        return None
    if isinstance(old, np.ndarray):
        is_same = old.dtype == new.dtype and old.shape == new.shape
        if not is_same or old.dtype == object:
            return list(zip(old.flat, new.flat, strict=True)) if is_same else None
        return [] if old.tobytes() == new.tobytes() else None
    if cls is FunctionType:
        return _cells(old, new)
    is_kept = isinstance(old, _KEPT_IN) or is_container(old)
    if not is_kept and (isinstance(old, Enum) or not has_only_python(cls)):
        is_same = (not old and isinstance(old, set)) or same_object(old, new)
        return [] if is_same else None
    if not is_kept and id(new) in known:
        return None
    first, second = _entries(old), _entries(new)
    # What is empty may be filled on first use.
    is_first = is_kept and not any(first)
    if not is_first and list(map(list, first)) != list(map(list, second)):
        return None
    if is_first:
        return []
    return [(a[key], b[key]) for a, b in zip(first, second, strict=True) for key in a]


def _cells(old: Any, new: Any) -> Pairs | None:
    """Pair what two functions of one `def` refer to."""
    if old.__code__ is not new.__code__:
        return None
    defaults = (old.__defaults__, new.__defaults__)
    found = [defaults, (old.__kwdefaults__, new.__kwdefaults__)]
    cells = zip(old.__closure__ or (), new.__closure__ or (), strict=True)
    return [*found, *starmap(_contents, cells)]


def _contents(old: Any, new: Any) -> tuple[Any, Any]:
    found = []
    for cell in (old, new):
        try:
            found.append(cell.cell_contents)
        except ValueError:
            found.append(MISSING)
    return found[0], found[1]


def _entries(value: Any) -> list[dict[Any, Any]]:
    """Return the entries of all that a value has."""
    if isinstance(value, (tuple, deque)):
        return [Items(value, None).kept]
    return [place.kept for place in places_of(value)]
