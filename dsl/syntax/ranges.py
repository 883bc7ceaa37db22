"""`range` with array bounds."""

from __future__ import annotations

from operator import index
from typing import Any

from lumijit.runtime import errors
from lumijit.syntax.bindings import targets


class ArrayRange:
    """The bounds of a loop that each lane runs its own number of times."""

    __slots__ = ("parts",)

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        """Compute the number of items; nothing is counted past the bounds."""
        size: Any
        if targets.is_array(step):
            up, down = _length(start, stop, step), _length(stop, start, -step)
            size = targets.select(step > 0, up, down)
        elif step > 0:
            size = _length(start, stop, step)
        else:
            size = _length(stop, start, -step)
        #: Start, step and number of items.
        self.parts = (start, step, size)


def _length(low: Any, high: Any, step: Any) -> Any:
    """Count the items from `low` up to `high`, none of them below zero."""
    span = high - low
    if not (isinstance(step, int) and step == 1):
        # Lanes of the other sign divide by a harmless step.
        if targets.is_array(step):
            step = targets.select(step > 0, step, step - step + 1)
        span = (span - 1) // step + 1
    return targets.select(high > low, span, span - span)


def item(start: Any, step: Any, count: Any) -> Any:
    """Return the item at position `count`, an integer that nothing changes in place."""
    if isinstance(step, int) and step == 1:
        is_count = isinstance(start, int) and start == 0
        return targets.as_number(count if is_count else start + count)
    return targets.as_number(start + count * step)


def _whole(bound: Any) -> Any:
    """Return another integer, such as NumPy's, as Python's; others as they are."""
    is_other = not isinstance(bound, int) and hasattr(type(bound), "__index__")
    return index(bound) if is_other else bound


def make_range(*bounds: Any) -> Any:
    """Make Python's range, or an `ArrayRange` if a bound is an array."""
    if not any(map(targets.is_array, bounds)):
        return targets.plain_range(*bounds)
    bounds = tuple([b if targets.is_array(b) else _whole(b) for b in bounds])
    for bound in bounds:
        integral = isinstance(bound, int) or targets.is_integer_array(bound)
        if not integral:
            kind = type(bound).__name__
            problem = f"'range' got a bound of type {kind!r} (expected an integer)"
            fix = "convert the bound to an integer array."
            raise errors.ArrayTypeError("@syntax", problem, fix)
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if (isinstance(step, int) and step == 0) or targets.is_zero_step(step):
        problem = "'range' got a step of zero"
        fix = "give a step that isn't zero."
        raise errors.ArrayValueError("@syntax", problem, fix)
    return ArrayRange(start, stop, step)
