"""Watching what a construct's functions reach while they run, and what becomes of it.

Owns which functions have to be watched, and what they change of that: errors, or new
state. The comparison is that of `captured_state`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.control import refusals
from lumijit.control.bare_classes import look_at_values
from lumijit.control.captured_state import Moment, Outside
from lumijit.control.held_arrays import is_changed, note_stand_ins, put_back
from lumijit.control.inert import Inert
from lumijit.control.locations import Location
from lumijit.control.members import Position
from lumijit.control.met_arrays import Met
from lumijit.control.own_variables import own_variables
from lumijit.control.plain_changes import is_object, is_other
from lumijit.control.refusals import Change, may_be_state, worst
from lumijit.control.spans import WHOLE
from lumijit.nested import NestedArray
from lumijit.pytree import Parts, is_container
from lumijit.runtime.errors import StateError


@dataclass
class About:
    """What an error says of a body, and what of its surroundings is state.

    State are also the entries `owned` (object and key). Entries that have changed may
    become state: `adopt` is told who watched them, and places, keys and names.
    """

    construct: str
    who: str
    owned: Sequence[tuple[Any, Any]] = ()
    adopt: Callable[[Outside, list[tuple[Location, Any, str]]], None] | None = None


def watch(
    functions: Sequence[Callable[..., Any]],
    values: Sequence[Any],
    labels: Sequence[str],
    own_names: frozenset[str] = frozenset(),
    owned: Sequence[tuple[str, Any]] = (),
    around: Outside | None = None,
    may_run_again: bool = False,
) -> Outside | Met | None:
    """Remember what the functions of a construct reach besides their arguments.

    Args:
        functions: bodies and conditions.
        values: the construct's inputs, called `labels`.
        own_names: variables that the construct itself takes or assigns.
        owned: names and values of entries that are state besides.
        around: what is watched by the construct around this one.
        may_run_again: whether arrays that the functions meet need only be compared.

    Returns:
        None if there is nothing that they could leave anything in.
    """
    inert = Inert()
    if inert.are_all(functions, values):
        return None
    if may_run_again and around is None and not owned:
        met = inert.met_only(functions, values)
        if met is not None:
            return met
    outside = Outside(own_variables(functions, values, labels, own_names), around)
    entries = [value for _, value in owned]
    # (An object in one entry may lead to the array of another one.)
    flat = [leaf for leaf in Parts(entries).leaves if isinstance(leaf, FlatArray)]
    outside.reach.seen.update(map(id, flat))
    outside.leave(entries, [name for name, _ in owned])
    outside.leave(values, labels)
    if around is not None:
        outside.reach.follow_arguments(around.reach)
    outside.follow(functions)
    if not owned:
        outside.look_around()
    return None if outside.is_empty else outside


def left_alone(
    outside: Outside,
    function: Callable[..., Any],
    args: Sequence[Any],
    describe: Callable[[], tuple[Any, ...]],
) -> Any:
    """Return `function(*args)`; refuse its changes of what is no state.

    `describe` returns the fields of `About`; it is asked only if there are some.
    """

    def is_owned(place: Location, key: Any) -> bool:
        if outside.reach.is_shared and id(place.owner) in outside.reach.state:
            # It stands for its copy while the function runs.
            return True
        if isinstance(place, Position) and not outside.repeats:
            return True
        owned = About(*describe()).owned
        return any(place.owner is o and key == k for o, k in owned)

    def adopt(changes: list[Change], watch: Outside = outside) -> None:
        adopted = About(*describe()).adopt
        if adopted is not None and all(map(may_be_state, changes)):
            adopted(watch, [_assignable(c.place, c.key) for c in changes])

    def refuse(change: Change, watch: Outside = outside) -> StateError:
        about = About(*describe())
        refusal = refusals.BODY
        if is_other(change.before, change.after, watch.reach.seen):
            objects = is_object(change.before) or is_object(change.after)
            refusal = refusals.OBJECT if objects else refusals.PLAIN
        return watch.error(about.construct, about.who, change, refusal)

    around: list[tuple[Outside, Moment]] = []
    outer = outside.around
    while outer is not None:
        around.append((outer, outer.moment()))
        outer = outer.around
    result = outside.during(
        lambda: function(*args), refuse, ignored=is_owned, adopt=adopt
    )
    # What a construct around this one watches may be as it was when that one looks.
    for outer, moment in around:
        changes = outer.restore(WHOLE, is_owned, moment, True)
        if changes:
            adopt(changes, outer)
            raise refuse(worst(changes), outer)
    return result


def standing_in(
    outside: Outside, originals: Sequence[Any], given: Sequence[Any]
) -> Callable[[], tuple[list[tuple[Outside, list[tuple[Location, Any, str]]]], bool]]:
    """Note which arrays stand in for others while a body runs.

    Returns:
        A function that lists, later, the places which hold originals of those that
        the body has changed in place, each with who watches it; and tells whether
        originals were changed themselves, which is undone.
    """
    pairs: list[tuple[Any, Any, Any]] = []
    if outside.may_meet:
        note_stand_ins(originals, given, pairs)
    if pairs:
        # (The body of an evaluated loop has the originals of all but copied objects.)
        parts = Parts(given)
        own = set(map(id, parts.nested + parts.leaves))
        pairs = [pair for pair in pairs if id(pair[0]) not in own]

    def changed() -> tuple[list[Any], bool]:
        found = []
        ids = {id(pair[0]) for pair in pairs if is_changed(*pair)}
        is_undone = any([put_back(original, held) for original, _, held in pairs])
        watcher: Outside | None = outside if ids else None
        while watcher is not None:
            entries = [
                _assignable(place, key)
                for place in watcher.reach.places
                for key, value in place.kept.items()
                if id(value) in ids
            ]
            if entries:
                found.append((watcher, entries))
            watcher = watcher.around
        return found, is_undone

    return changed


def _assignable(place: Location, key: Any) -> tuple[Location, Any, str]:
    """Return which entry becomes state in place of one, with its path.

    Of what is in a tuple, that is the one with the tuple, however deep in PyTrees: no
    array must be in two entries.
    """
    found = place, key
    parent = place.parent
    while parent is not None and _is_tree(place.owner):
        key = parent.key_of(place.owner)
        if isinstance(place.owner, tuple):
            found = parent, key
        place, parent = parent, parent.parent
    return *found, found[0].path(found[1])


def _is_tree(value: Any) -> bool:
    return isinstance(value, NestedArray) or is_container(value)


def watched(
    function: Callable[..., Any],
    construct: str,
    who: str,
    labels: Sequence[str],
    repeats: bool = True,
) -> Callable[..., Any]:
    """Return a body function that may not change objects besides its arguments."""

    # It stays so, as there is nothing that it changes.
    is_inert = Inert()(function)

    def body(*args: Any) -> Any:
        if is_inert and not look_at_values(args):
            return function(*args)
        outside = watch((function,), args, labels)
        if not isinstance(outside, Outside):
            return function(*args)
        outside.repeats = repeats
        return left_alone(outside, function, args, lambda: (construct, who))

    return body
