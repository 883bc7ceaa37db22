"""Conditions at run time: plain or array, and Python's operators on both."""

from __future__ import annotations

from typing import Any

from lumijit.syntax.bindings import targets


class Forced:
    """A condition that a hint sends to the primitives, array or not."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        """Wrap a condition."""
        self.value = value


class Conditions:
    """The helpers that rewritten conditions call."""

    #: Types whose values are no arrays, besides bool, which is tested first.
    plain_types = frozenset(
        (int, float, complex, str, bytes, type(None), list, tuple, dict, set, frozenset)
    )

    @staticmethod
    def is_plain(value: Any) -> bool:
        """Tell whether a condition takes the plain path."""
        return not targets.is_array(value)

    @staticmethod
    def forced(value: Any, mode: Any) -> Any:
        """Do the same under a hint that chooses the mode."""
        is_plain = mode is None and not targets.is_array(value)
        if mode == "scalar" or is_plain or targets.runs_plain():
            return bool(value)
        return Forced(value)

    @staticmethod
    def unforced(value: Any) -> Any:
        """Return the condition inside a `Forced`."""
        return value.value if isinstance(value, Forced) else value

    @staticmethod
    def logical_and(a: Any, b: Any) -> Any:
        """Combine two conditions, at least one of them an array."""
        return targets.logical_and(a, b)

    @staticmethod
    def logical_or(a: Any, b: Any) -> Any:
        """Combine two conditions, at least one of them an array."""
        return targets.logical_or(a, b)

    @staticmethod
    def logical_not(value: Any) -> Any:
        """Negate a condition."""
        return targets.logical_not(value) if targets.is_array(value) else not value

    @staticmethod
    def needs_right(left: Any, is_and: bool) -> bool:
        """Tell whether `and` or `or` evaluates its right operand."""
        return targets.is_array(left) or bool(left) == is_and

    @staticmethod
    def join_and(left: Any, right: Any) -> Any:
        """Finish an `and` whose right operand was evaluated."""
        return targets.logical_and(left, right) if targets.is_array(left) else right

    @staticmethod
    def join_or(left: Any, right: Any) -> Any:
        """Finish an `or` whose right operand was evaluated."""
        return targets.logical_or(left, right) if targets.is_array(left) else right
