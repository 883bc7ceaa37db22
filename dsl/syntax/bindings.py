"""What rewritten code needs to know of arrays, kept replaceable.

Owns the `targets` object: the control-flow primitives that `@syntax` aims at and
the few array operations its own bookkeeping takes. The defaults know no arrays,
so that all control flow is plain Python; `lumijit.control` installs the real ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


def _no_primitive(*_args: Any, **_kwargs: Any) -> Any:
    raise RuntimeError("no control-flow primitives are installed")


def _never(*_args: Any) -> bool:
    return False


def _nothing(*_args: Any) -> Any:
    return None


def _same(value: Any) -> Any:
    return value


def _no_objects(_value: Any) -> dict[Any, Any]:
    return {}


def _new_value(new: Any, _originals: dict[Any, Any]) -> Any:
    return new


def _no_places(*_args: Any) -> Callable[[], Any]:
    return list


def _no_snapshot(_values: Any) -> Callable[[], None]:
    return lambda: None


def is_tree(value: Any) -> bool:
    """Tell whether `value` is or has a container whose entries may be replaced."""
    return (
        isinstance(value, (list, dict))
        or (isinstance(value, tuple) and any(map(is_tree, value)))
        or hasattr(type(value), "DRJIT_STRUCT")
        or (dataclasses.is_dataclass(value) and not isinstance(value, type))
    )


@dataclasses.dataclass(eq=False, repr=False)
class Targets:
    """The operations that rewritten code calls.

    Attributes:
        while_loop: The primitive for loops. An initial state entry may be an
            `Undefined` object: its type is then that of the body's result. `memory`
            is the site's, for what one run finds out for the next.
        if_stmt: The primitive for branches. Where one branch returns an
            `Undefined` object, the result is the other branch's value.
        loop_mode: Returns the mode of vectorized loops without a hint.
        watch: Remembers what a construct's functions reach that is no state.
        left_alone: `left_alone(watch, function, args, describe)` calls a body and
            refuses its changes of that, or has them adopted.
        standing_in: `standing_in(watch, originals, given)` returns a function that
            tells, later, where else originals are that others in `given` stand for,
            if these have been changed in place: who watches it, and the places.
        snapshot: Returns a function that undoes changes of PyTrees in place.
        objects_in: Lists the mutable objects in a value, by their paths, with entries.
        has_changed: Tells whether an object has other entries than it had.
        moment: Returns what an object has: its entries, and what arrays there hold.
        changed_since: `changed_since(value, moment)` lists the keys of entries that
            have changed since then.
        apart: Copies an object, and the arrays among its entries.
        keep_arrays: `keep_arrays(value, original)` gives an object the arrays of
            another one where its own hold the same.
        blend: `blend(target, mask, source, moment)` does to an object, in some
            elements, what happened to another one since a moment.
        exchange: `exchange(pairs)` has a method `begin`, which lets originals stand for
            copies, and one, `end`, which ends that.
        brought_back: `brought_back(value, originals)` gives original objects, by their
            paths, the contents that they have in a value, and makes these part of it.
        is_array: Tells whether a condition must be vectorized.
        holds: Tells whether a condition is known to hold for all elements.
        known: Returns what a vectorized condition is, if all elements share it and
            it is known while tracing, else None.
        is_integer_array: Tells whether a `range` argument counts in integers.
        is_zero_step: Tells whether the step of a `range` is known to be zero; one
            that is an array is looked after under flag Debug.
        as_number: Has an array stand for a number, and returns it.
        settle: Has variables' arrays stand for no numbers, after outermost constructs.
        is_tree: Tells whether a value is a mutable PyTree, which a method or
            function that receives it may change in place.
        runs_plain: Tells whether arrays count as numbers, one lane of each.
        plain_range: Makes the range for bounds of which none is an array.
        is_idle: Tells whether no lane is active in evaluated control flow.
        logical_and: Combines two conditions, at least one of them an array.
        logical_or: As `logical_and`, for `or`.
        logical_not: Negates an array condition.
        select: `select(mask, a, b)` of array bounds.
        checks: Tells whether an assertion about an array is checked.
        check: Checks an array that an `assert` is about. The message comes in
            pieces: text, or a value with the conversion and format of an f-string.
    """

    while_loop: Callable[..., Any] = _no_primitive
    if_stmt: Callable[..., Any] = _no_primitive
    loop_mode: Callable[[], str | None] = _nothing
    watch: Callable[..., Any] = _nothing
    left_alone: Callable[..., Any] = _no_primitive
    standing_in: Callable[..., Callable[[], Any]] = _no_places
    snapshot: Callable[[Any], Callable[[], None]] = _no_snapshot
    objects_in: Callable[[Any], dict[Any, Any]] = _no_objects
    has_changed: Callable[[Any, Any], bool] = _never
    moment: Callable[[Any], Any] = _nothing
    changed_since: Callable[[Any, Any], Any] = _nothing
    apart: Callable[[Any], Any] = _no_primitive
    keep_arrays: Callable[[Any, Any], None] = _nothing
    blend: Callable[..., None] = _no_primitive
    exchange: Callable[[Any], Any] = _no_primitive
    brought_back: Callable[[Any, dict[Any, Any]], Any] = _new_value
    is_array: Callable[[Any], bool] = _never
    holds: Callable[[Any], bool] = _never
    known: Callable[[Any], bool | None] = _nothing
    is_integer_array: Callable[[Any], bool] = _never
    is_zero_step: Callable[[Any], bool] = _never
    as_number: Callable[[Any], Any] = _same
    settle: Callable[[Any], None] = _nothing
    is_idle: Callable[[], bool] = _never
    runs_plain: Callable[[], bool] = _never
    plain_range: Callable[..., Any] = range
    is_tree: Callable[[Any], bool] = is_tree
    logical_and: Callable[[Any, Any], Any] = _no_primitive
    logical_or: Callable[[Any, Any], Any] = _no_primitive
    logical_not: Callable[[Any], Any] = _no_primitive
    select: Callable[[Any, Any, Any], Any] = _no_primitive
    checks: Callable[[Any], bool] = _never
    check: Callable[[Any, tuple[Any, ...]], None] = _no_primitive


targets = Targets()
