"""Why changes of what is outside of a construct are refused, and what to do instead."""

from __future__ import annotations

from typing import NamedTuple


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
