"""What rewritten code needs to know of arrays, kept replaceable.

Owns the `targets` object: the control-flow primitives that `@syntax` aims at and
the few array operations its own bookkeeping takes. `lumijit.control.install` says
which these are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
        entries_at: `entries_at(places, wanted)` lists the entries with certain keys and
            paths among places that are watched.
        left_alone: `left_alone(watch, function, args, describe)` calls a body and
            refuses its changes of that, or has them adopted.
        are_still: `are_still(functions, values)` tells whether functions leave the
            trees that they get as they are.
        standing_in: `standing_in(watch, originals, given)` returns a function that
            tells, later, where else originals are that others in `given` stand for,
            if these have been changed in place: who watches it, and the places.
        snapshot: Returns a function that undoes changes of PyTrees in place.
        identity: The module `control.identity`: which objects a value contains, what
            has become of them, and bringing that back to those of the caller.
        is_array: Tells whether a condition must be vectorized.
        holds: Tells whether a condition is known to hold for all elements.
        known: Returns what a vectorized condition is, if all elements share it and
            it is known while tracing, else None.
        is_integer_array: Tells whether a `range` argument counts in integers.
        is_zero_step: Tells whether the step of a `range` is known to be zero; one
            that is an array is looked after under flag Debug.
        as_number: Has an array stand for a number, and returns it.
        is_tree: Tells whether a value is a mutable PyTree, which a method or
            function that receives it may change in place.
        may_act: `may_act(function, values)` tells whether an expression may change
            objects though it calls nothing by name that does.
        may_change_in_use: Tells whether values may change where nobody receives them:
            by calls of objects in them, their properties and operators.
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

    while_loop: Callable[..., Any]
    if_stmt: Callable[..., Any]
    loop_mode: Callable[[], str | None]
    watch: Callable[..., Any]
    Met: type[Any]
    entries_at: Callable[..., list[tuple[Any, Any, str]]]
    left_alone: Callable[..., Any]
    are_still: Callable[..., bool]
    standing_in: Callable[..., Callable[[], Any]]
    snapshot: Callable[[Any], Callable[[], None]]
    identity: Any
    is_array: Callable[[Any], bool]
    holds: Callable[[Any], bool]
    known: Callable[[Any], bool | None]
    is_integer_array: Callable[[Any], bool]
    is_zero_step: Callable[[Any], bool]
    as_number: Callable[[Any], Any]
    is_idle: Callable[[], bool]
    runs_plain: Callable[[], bool]
    plain_range: Callable[..., Any]
    is_tree: Callable[[Any], bool]
    may_act: Callable[..., bool]
    may_change_in_use: Callable[[Any], bool]
    logical_and: Callable[[Any, Any], Any]
    logical_or: Callable[[Any, Any], Any]
    logical_not: Callable[[Any], Any]
    select: Callable[[Any, Any, Any], Any]
    checks: Callable[[Any], bool]
    check: Callable[[Any, tuple[Any, ...]], None]


targets = Targets()
