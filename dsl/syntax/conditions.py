"""Conditions at run time: plain or array, and Python's operators on both; flags."""

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
    def truth(value: Any) -> Any:
        """Return an operand of which only the truth counts: arrays, and bools."""
        return value if targets.is_array(value) else bool(value)

    @staticmethod
    def needs_right(left: Any, is_and: bool) -> bool:
        """Tell whether `and` or `or` evaluates its right operand."""
        return targets.is_array(left) or bool(left) == is_and

    @staticmethod
    def joined(is_and: bool, left: Any, right: Any) -> Any:
        """Finish an `and` or `or` whose right operand was evaluated."""
        if not targets.is_array(left):
            return right
        return (targets.logical_and if is_and else targets.logical_or)(left, right)

    # Flags of jumps.

    @staticmethod
    def none_of(*flags: Any) -> Any:
        """Return the condition that no flag is raised."""
        raised: Any = False
        for flag in flags:
            if flag is True:
                return False
            if flag is not False:
                raised = flag if raised is False else targets.logical_or(raised, flag)
        return True if raised is False else targets.logical_not(raised)

    @staticmethod
    def all_done(*flags: Any) -> bool:
        """Tell whether a flag is raised in all lanes, as far as Python can see."""
        return any(flag is True for flag in flags)
