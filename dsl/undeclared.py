"""Attributes of structs that are no fields: PyTrees don't have them as parts.

An object that is put together anew gets those of the one that it stands for, arrays as
copies, so that code finds what it would find in plain Python. What changes them is
refused (`control.state`), since the change would be lost.
"""

from __future__ import annotations

from collections.abc import Collection
from types import MemberDescriptorType
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.compiler.ir.effects import wrap
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.runtime.class_facts import ClassFacts
from lumijit.runtime.errors import ArrayAttributeError


def _find_slots(cls: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        has_slots = "__slots__" in vars(base)
        for name, item in vars(base).items():
            if has_slots and isinstance(item, MemberDescriptorType):
                found[name] = item
            else:
                found.pop(name, None)
    return found


_SLOTS = ClassFacts(_find_slots)


def slots_of(cls: Any) -> dict[str, Any]:
    """Return the descriptors of the attributes of a class that have slots.

    What C types call members is no slot.
    """
    return _SLOTS[cls]


def undeclared(value: Any, fields: Collection[str]) -> dict[str, Any]:
    """Return the attributes of an object that are none of its class's fields."""
    found: dict[str, Any] = getattr(value, "__dict__", {})
    cls: Any = type(value)
    slots = slots_of(cls)
    if slots and not all([name in fields for name in slots]):
        others = [name for name in slots if name not in fields and hasattr(value, name)]
        found = {**found, **{name: getattr(value, name) for name in others}}
    elif len(found) <= len(fields) and all([name in fields for name in found]):
        return {}
    return {name: item for name, item in found.items() if name not in fields}


def bring(result: Any, like: Any, fields: Collection[str]) -> None:
    """Give an object what another one has besides its fields."""
    for name, item in undeclared(like, fields).items():
        object.__setattr__(result, name, _own(item))


def check_fields(value: Any, fields: Collection[str]) -> None:
    """Raise if an object lacks one of its class's fields."""
    for name in fields:
        if not hasattr(value, name):
            raise ArrayAttributeError(
                "PyTree",
                f"an object of class {type(value).__name__!r} has no attribute "
                f"{name!r}, which is one of its fields",
                "assign it, or don't declare it (in DRJIT_STRUCT or the dataclass).",
            )


def differs(before: Any, after: Any) -> bool:
    """Tell whether an attribute's arrays or number aren't what they were."""
    if isinstance(before, NestedArray) and type(before) is type(after):
        return any(map(differs, before._items, after._items))
    if isinstance(before, FlatArray) and type(before) is type(after):
        return before._node is not after._node
    if after is before:
        return False
    kinds = (NestedArray, FlatArray, int, float, complex)
    is_one = isinstance(before, kinds) or isinstance(after, kinds)
    return is_one and not (type(before) is type(after) and before == after)


def _own(value: Any) -> Any:
    """Return an array of its own for an array."""
    if isinstance(value, FlatArray):
        return wrap(type(value), value._node)
    if isinstance(value, NestedArray) and value._spec.is_jit:
        return wrap_nested(type(value), [_own(item) for item in value._items])
    return value
