"""Why changes of what is outside of a construct are refused, and what to do instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from lumijit.control.blame import assignment, methods_of
from lumijit.control.buffers import Buffer
from lumijit.control.locations import Location
from lumijit.control.members import Position
from lumijit.control.sameness import MISSING
from lumijit.control.state import can_be_state, describe
from lumijit.runtime.errors import StateError, message, where


class Refusal(NamedTuple):
    """The end of an error."""

    reason: str
    fix: str


PLAIN = Refusal(
    "it exists once for all elements, of which only some may get there, or more often "
    "than others; it was put back",
    "use a number in its place, which may differ between elements.",
)
OBJECT = Refusal(
    "an object exists once for all elements, of which only some may get there, or more "
    "often than others; it was put back",
    "keep the object and change what it holds, where arrays and numbers are state "
    "(a.x, b.x = b.x, a.x in place of a, b = b, a); or assign it before.",
)
CONTENTS = Refusal(
    "it exists once for all elements, of which only some may get there, or more often "
    "than others; it was put back",
    "use an array in its place, and lumijit.scatter to change its entries; or change "
    "it outside.",
)
CALL = Refusal(
    "a call runs for the elements that select it, but this exists once for all of "
    "them, so it was put back",
    "return the value instead, or lumijit.scatter it to an array.",
)
BODY = Refusal(
    "this isn't state of the construct, so it would hold values of elements that "
    "aren't active, or symbolic ones; it was put back",
    "assign it in the function that contains the construct, make it a state variable, "
    "or lumijit.scatter to an array.",
)
ADVANCE = Refusal(
    "an iterator is at one place for all elements, of which only some may get there, "
    "or more often than others (it can't be put back)",
    "take the values before, into a list or an array.",
)


@dataclass
class Change:
    """An entry that held or holds arrays, and what it was and became."""

    place: Location
    key: Any
    before: Any
    after: Any


def refused(
    construct: str,
    who: str,
    change: Change,
    refusal: Refusal,
    functions: Iterable[Any],
) -> StateError:
    """Word the error for a change that `who` made, where one of the functions does."""
    place, root = change.place, change.place
    names = [change.key]
    while root.parent is not None:
        names.append(root.parent.key_of(root.owner))
        root = root.parent
    classes = {type(place.owner), type(root.owner)}
    methods = [m for cls in classes for m in methods_of(cls)]
    line = assignment([n for n in names if isinstance(n, str)], functions, methods)
    shown = f"'{place.path(change.key)}'"
    if root.label == "self":
        shown += f" of a {type(root.owner).__name__!r} object"
    before = "nothing" if change.before is MISSING else describe(change.before)
    after = "nothing" if change.after is MISSING else describe(change.after)
    problem = f"{who} changes {shown} (it held {before}, and would hold {after})"
    if isinstance(place, Position):
        problem, refusal = f"{who} advances {shown}", ADVANCE
    elif isinstance(place, Buffer):
        problem, refusal = f"{who} changes {shown} in place", CONTENTS
    text = message(construct, f"{problem}: {refusal.reason}", refusal.fix)
    if line:
        here = where()
        text = f"{line}: {text.removeprefix(f'{here}: ')} (Construct: {here}.)"
    return StateError(text)


def may_be_state(change: Change) -> bool:
    """Tell whether an entry had, and has, a value that a construct can hand on."""
    after = change.after
    return can_be_state(change.before) and after is not MISSING and after is not None


def worst(changes: list[Change]) -> Change:
    """Return the change to tell of: of a value that can't be state, else the first."""
    had = (c for c in changes if c.before is not MISSING and not may_be_state(c))
    return next(had, changes[0])
