"""Enumerations whose members print by name, whatever Python's version."""

from __future__ import annotations

import enum


class NamedEnum(enum.IntEnum):
    """Integers that `str`, `repr` and f-strings show as `Class.Member`.

    Python shows members of an `IntEnum` as numbers, from 3.11 on.
    """

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format_named(self, spec)


def format_named(member: enum.IntEnum | enum.IntFlag, spec: str) -> str:
    """Format a member by its name, or by its number where `spec` is one for numbers."""
    is_number = spec[-1:] in tuple("bcdoxXneEfFgG%")
    return format(int(member) if is_number else str(member), spec)
