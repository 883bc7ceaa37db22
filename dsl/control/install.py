"""Tells `syntax` which primitives and array operations its code uses.

Imported with the first function that is decorated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from lumijit import traits
from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.ops.structural import EVALUATED, LITERAL
from lumijit.compiler.ir.trace import running_lanes
from lumijit.compiler.launch.evaluate import data
from lumijit.compiler.record import checks
from lumijit.control import identity
from lumijit.control.bytecode import PLAIN
from lumijit.control.conditional import run_if
from lumijit.control.foresight import entries_at
from lumijit.control.in_use import may_act, may_change_in_use
from lumijit.control.inert import are_still
from lumijit.control.locations import places_of
from lumijit.control.loop import run_loop
from lumijit.control.met_arrays import Met
from lumijit.control.modes import mode_by_flag
from lumijit.control.recursion import is_idle
from lumijit.control.state import by_lane, is_array, known_condition, node_of
from lumijit.control.watching import left_alone, standing_in, watch
from lumijit.debug.assertions import check_statement, is_checked
from lumijit.functions.selection import select
from lumijit.nested import NestedArray
from lumijit.pytree import Parts
from lumijit.runtime.class_facts import ClassFacts
from lumijit.runtime.config import flags
from lumijit.runtime.errors import ArrayTypeError
from lumijit.standing import stand
from lumijit.syntax import targets


def _is_array(value: Any) -> bool:
    """Tell whether a condition must be vectorized: an array of a JIT backend."""
    if not isinstance(value, FlatArray):
        nested = value if isinstance(value, NestedArray) else by_lane(value)
        if not (isinstance(nested, (FlatArray, NestedArray)) and nested._spec.is_jit):
            return False
    return not _runs_plain()


def _are_trees(cls: Any) -> bool | None:
    """Tell whether objects of a class are trees; None: ask for what is in one."""
    if issubclass(cls, ArrayBase) or cls in PLAIN:
        return False
    if issubclass(cls, tuple) and not hasattr(cls, "DRJIT_STRUCT"):
        return None
    is_struct = issubclass(cls, (list, dict)) or hasattr(cls, "DRJIT_STRUCT")
    return is_struct or (not issubclass(cls, type) and dataclasses.is_dataclass(cls))


_trees = ClassFacts(_are_trees)


def _is_tree(value: Any) -> bool:
    """Tell whether a value is or has a container whose entries may be replaced."""
    found = _trees[type(value)]
    if found is None:
        return any(map(_is_tree, value)) or dataclasses.is_dataclass(value)
    return found


def _holds(condition: Any) -> bool:
    """Tell whether a condition is known to hold for all elements while tracing."""
    if is_array(condition):
        return condition._node.op is LITERAL and bool(condition._node.attr)
    return condition is True


def _runs_plain() -> bool:
    """Tell whether one lane runs, as plain Python (`lumijit.run_lane`)."""
    return bool(running_lanes) and trace.state.lane is not None


def _plain_range(*bounds: Any) -> Any:
    """Return the items of a range, of the type that they have as arrays."""
    if not _runs_plain() or not any(is_array(b) for b in bounds):
        return range(*bounds)
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    kind = type(start + (stop - start) * step)
    return map(kind, range(*(int(bound) for bound in (start, stop, step))))


def _is_integer_array(value: Any) -> bool:
    return is_array(value) and bool(value._node.type.is_int)


def _is_zero_step(step: Any) -> bool:
    """Tell whether the step of a range is known to be zero; else have it checked."""
    if not is_array(step):
        return False
    node = step._node
    if node.op is LITERAL:
        return bool(node.attr == 0)
    if node.op is EVALUATED and node.size == 1:
        return bool(data(node)[0] == 0)
    if flags.debug:
        checks.nonzero_step(node)
    return False


def _logical_not(value: Any) -> Any:
    return ~value if traits.is_mask_v(value) else value == 0


def _operand(operator: str, value: Any) -> Any:
    """Return an operand of `and` or `or` beside a mask; it must say yes or no itself.

    Of others, Python returns the one or the other, which has no type for all elements.
    """
    if isinstance(value, ArrayBase):
        if traits.is_mask_v(value):
            return value
        mend = "compare it (x != 0)"
    elif isinstance(value, (bool, np.bool_)):
        return bool(value)
    else:
        mend = "pass its truth (bool(x))"
    raise ArrayTypeError(
        f"operator {operator!r}",
        f"an operand beside an array has type {type(value).__name__!r} (expected a "
        "mask or a bool)",
        f"choose a value by 'a if condition else b', or {mend} for a mask.",
    )


def _snapshot(values: Any) -> Callable[[], None]:
    """Return a function that undoes changes of PyTrees in place.

    Bodies mostly get copies, but not where a condition is known while tracing.
    """
    parts = Parts(values)
    arrays = [(leaf, leaf._node) for leaf in parts.leaves if is_array(leaf)]
    changeable = [v for v in parts.containers if not isinstance(v, tuple)]
    places = [place for value in changeable for place in places_of(value)]

    def restore() -> None:
        for array, node in arrays:
            array._go_back(node)
        for place in places:
            place.fill(place.before)

    return restore


targets.while_loop = run_loop
targets.if_stmt = run_if
targets.loop_mode = lambda: mode_by_flag("while_loop", flags.symbolic_loops)
targets.watch = watch
targets.Met = Met
targets.entries_at = entries_at
targets.left_alone = left_alone
targets.standing_in = standing_in
targets.are_still = are_still
targets.snapshot = _snapshot
targets.identity = identity
targets.is_array = _is_array
targets.is_tree = _is_tree
targets.may_act = may_act
targets.may_change_in_use = may_change_in_use
targets.holds = _holds
targets.is_idle = is_idle
targets.known = lambda condition: known_condition(node_of(condition))
targets.runs_plain = _runs_plain
targets.plain_range = _plain_range
targets.is_integer_array = _is_integer_array
targets.is_zero_step = _is_zero_step
targets.as_number = stand
targets.logical_and = lambda a, b: _operand("and", a) & _operand("and", b)
targets.logical_or = lambda a, b: _operand("or", a) | _operand("or", b)
targets.logical_not = _logical_not
targets.select = select
targets.checks = is_checked
targets.check = check_statement
