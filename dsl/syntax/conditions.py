"""Conditions at run time: plain or array, and Python's operators on both."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from lumijit.syntax.bindings import targets

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


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

    def choose(
        self,
        test: Any,
        values: tuple[Any, ...],
        yes: Callable[..., Any],
        no: Callable[..., Any],
        site: int,
    ) -> Any:
        """Evaluate a conditional expression whose condition is an array."""
        raise NotImplementedError

    def _lazily(
        self,
        is_and: bool,
        value: Any,
        others: tuple[Callable[[], Any], ...],
        site: int | None,
    ) -> Any:
        """Combine operands; at a `site`, they run for those only who get there."""
        join = self.join_and if is_and else self.join_or
        for other in others:
            if not self.needs_right(value, is_and):
                return value
            if site is None or not targets.is_array(value):
                value = join(value, other())
            else:
                known = partial(bool, is_and)
                yes, no = (other, known) if is_and else (known, other)
                value = join(value, self.choose(value, (), yes, no, site))
        return value

    def lazy_and(
        self, value: Any, *others: Callable[[], Any], site: int | None = None
    ) -> Any:
        """Evaluate `value and others[0]() and …`."""
        return self._lazily(True, value, others, site)

    def lazy_or(
        self, value: Any, *others: Callable[[], Any], site: int | None = None
    ) -> Any:
        """Evaluate `value or others[0]() or …`."""
        return self._lazily(False, value, others, site)

    def lazy_chain(
        self,
        names: str,
        *operands: Callable[[], Any],
        refuse: Callable[[], Any] | None = None,
    ) -> Any:
        """Evaluate a chained comparison; `refuse` that its end runs for some."""
        left = operands[0]()
        result: Any = True
        for name, operand in zip(names.split(), operands[1:], strict=True):
            if not self.needs_right(result, True):
                return result
            if refuse is not None and targets.is_array(result):
                refuse()
            right = operand()
            result = self.join_and(result, _COMPARISONS[name](left, right))
            left = right
        return result
