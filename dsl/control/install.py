"""Tells `rewriting` which primitives and array operations its code uses."""

from __future__ import annotations

from typing import Any

from lumijit import traits
from lumijit.base import ArrayBase
from lumijit.compiler import trace
from lumijit.control.conditional import if_stmt
from lumijit.control.loop import while_loop
from lumijit.control.recursion import is_idle, surroundings
from lumijit.debug.assertions import check_statement, is_checked
from lumijit.functions.selection import select
from lumijit.nested import NestedArray
from lumijit.rewriting import targets


def _is_array(value: Any) -> bool:
    """Tell whether a condition must be vectorized: an array of a JIT backend."""
    is_traced = hasattr(value, "_node") or isinstance(value, NestedArray)
    return is_traced and traits.is_jit_v(value) and not _runs_plain()


def _runs_plain() -> bool:
    """Tell whether one lane runs, as plain Python (`lumijit.run_lane`)."""
    return bool(trace.running_lanes) and trace.state.lane is not None


def _plain_range(*bounds: Any) -> Any:
    """Return the items of a range, of the type that they have as arrays."""
    if not _runs_plain() or not any(hasattr(b, "_node") for b in bounds):
        return range(*bounds)
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    kind = type(start + (stop - start) * step)
    return map(kind, range(*(int(bound) for bound in (start, stop, step))))


def _is_integer_array(value: Any) -> bool:
    return hasattr(value, "_node") and bool(value._node.type.is_int)


def _logical_not(value: Any) -> Any:
    return ~value if traits.is_mask_v(value) else value == 0


def _operand(value: Any) -> Any:
    """Return an operand of `and` or `or`; what is no array counts by its truth."""
    return value if isinstance(value, ArrayBase) else bool(value)


def install() -> None:
    """Point `@syntax` at the primitives of this package."""
    targets.while_loop = while_loop
    targets.if_stmt = if_stmt
    targets.is_array = _is_array
    targets.surroundings = surroundings
    targets.is_idle = is_idle
    targets.runs_plain = _runs_plain
    targets.plain_range = _plain_range
    targets.is_integer_array = _is_integer_array
    targets.logical_and = lambda a, b: _operand(a) & _operand(b)
    targets.logical_or = lambda a, b: _operand(a) | _operand(b)
    targets.logical_not = _logical_not
    targets.select = select
    targets.checks = is_checked
    targets.check = check_statement
