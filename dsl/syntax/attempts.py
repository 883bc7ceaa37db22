"""Running a construct, and once more whenever its functions change what is no state.

Owns what a construct gets (`Inputs`) and which entries of objects are its state: those
that it assigns itself, those that an earlier run has changed, and those that are found
now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from ctypes import ArgumentError
from operator import is_
from typing import Any

from lumijit.pytree import Parts, kind_of
from lumijit.runtime.contexts import Attempt, apart, running_attempt
from lumijit.runtime.errors import LumijitError, StateError
from lumijit.syntax.bindings import targets
from lumijit.syntax.nesting import NobodyLeft, called_by, check_depth, depth_of
from lumijit.syntax.object_state import Changed
from lumijit.syntax.running import Running, running
from lumijit.syntax.slots import Attribute, Found, Slot, Whole


class Inputs:
    """What a construct gets: values with names, and the variables that it assigns.

    `site` is the construct, `attributes` are those that it assigns itself. A loop's
    functions stand for several runs.
    """

    __slots__ = ("attributes", "is_loop", "labels", "own_names", "site", "values")

    def __init__(
        self,
        site: Any,
        values: tuple[Any, ...],
        labels: tuple[str, ...],
        own_names: frozenset[str] = frozenset(),
        attributes: Sequence[Attribute] = (),
        is_loop: bool = False,
    ) -> None:
        self.site = site
        self.values = values
        self.labels = labels
        self.own_names = own_names
        self.attributes = attributes
        self.is_loop = is_loop


# A construct is run at most so many times more; what is found is found in a few.
_MOST_ATTEMPTS = 300


def _without_repetition(
    slots: tuple[Slot, ...], others: Iterable[Slot]
) -> tuple[Slot, ...]:
    """Append slots for other entries than those that are there."""
    for new in others:
        if not any(s.owner is new.owner and s.key == new.key for s in slots):
            slots = (*slots, new)
    return slots


def _nothing() -> None:
    """Undo nothing."""


def _with_whole(slots: tuple[Slot, ...], inputs: Inputs) -> tuple[Slot, ...]:
    """Return slots with the containers that a construct gets.

    Constructs inside get at them, too.
    """
    pairs = zip(inputs.values, inputs.labels, strict=True)
    return _without_repetition(
        slots, [Whole(v, name) for v, name in pairs if targets.is_tree(v)]
    )


def _outermost(slots: tuple[Slot, ...], inputs: Inputs) -> tuple[Slot, ...]:
    """Leave out entries of what is an input, the value of another slot, or in these."""
    if not any([kind_of(type(s.owner)) for s in slots]):
        return slots
    values = [s.owner if type(s) is Whole else s.read() for s in slots]
    inside = set(map(id, Parts((*inputs.values, *values)).containers))
    return tuple([s for s in slots if type(s) is Whole or id(s.owner) not in inside])


def _with_more(
    slots: tuple[Slot, ...], others: Collection[Slot], inputs: Inputs
) -> tuple[Slot, ...]:
    """Return slots with others, and without those that go along anyway."""
    if others:
        slots = _without_repetition(slots, others)
    return _outermost(slots, inputs) if slots else slots


def _not_adopted(slots: Iterable[Slot]) -> StateError:
    """Word the error for what is state already and yet changes besides."""
    labels = ", ".join(sorted({slot.label for slot in slots}))
    problem = f"'{labels}' changes in a way that can't be followed"
    mend = "return new values from called functions, and assign these to variables."
    return StateError("vectorized control flow", problem, mend)


def _entries_of(
    slots: Iterable[Slot], own: Collection[Slot]
) -> tuple[tuple[Any, str], ...]:
    """Tell keys and paths of entries that were found, for the next run of a construct.

    There are none unless all have keys that can be kept.
    """
    others = set(map(id, own))
    found = [s for s in slots if type(s) is Found and id(s) not in others]
    is_known = all([type(slot.key) in (str, int) for slot in found])
    return tuple([(slot.key, slot.label) for slot in found]) if is_known else ()


def _found_again(watch: Any, wanted: tuple[tuple[Any, str], ...]) -> list[Found]:
    """Return slots for entries that another run has changed, if this one has all."""
    if watch is None:
        return []
    found = targets.entries_at(watch.reach.places, wanted)
    return [Found(*entry) for entry in found]


def attempts(
    inputs: Inputs,
    functions: tuple[Any, ...],
    run: Callable[[tuple[Slot, ...], Any], Any],
) -> Any:
    """Run a construct; once more whenever its functions change what is no state.

    What called functions change is found where the outermost construct watches it, and
    becomes state of all of them. The next run of that construct begins with it.

    Args:
        inputs: what the construct gets, and what it assigns itself.
        functions: its functions.
        run: gets the slots to use as state, and what is watched.
    """
    functions = called_by(functions)
    outer = running.get()
    depth = depth_of(inputs.site, outer)
    if depth and targets.is_idle():
        raise NobodyLeft(inputs.site)
    slots = _with_more(outer.slots, inputs.attributes, inputs)
    memory = inputs.site.memory
    own, wanted = slots, memory.entries
    is_foreseen = False
    restore = _nothing
    count = 0
    is_first = not wanted
    while True:
        count += 1
        watch = targets.watch(
            functions,
            inputs.values,
            inputs.labels,
            inputs.own_names,
            [(slot.label, slot.read()) for slot in slots],
            outer.watch,
            is_first,
        )
        met = None
        if type(watch) is targets.Met:
            met, watch = watch, None
        if wanted:
            found = _found_again(watch, wanted)
            wanted, is_foreseen = (), bool(found)
            if is_foreseen:
                slots = _with_more(slots, found, inputs)
                if not watch.take([slot.read() for slot in found]):
                    continue
            else:
                memory.entries = ()
        if watch is not None:
            watch.repeats = inputs.is_loop
            if watch.reach.is_shared:
                slots = _with_whole(slots, inputs)
        if restore is _nothing and (
            watch or met or any(map(targets.is_tree, inputs.values))
        ):
            restore = targets.snapshot(inputs.values)
        around = outer.watch if watch is None else watch
        construct = Running(inputs.site, around, slots, outer, met)
        attempt: Attempt | None = Attempt(running_attempt())
        try:
            return apart(run, (slots, watch), running, construct, attempt)
        except Changed as change:
            if change.watch is not (watch if met is None else met):
                raise
            attempt = None
            restore()
            if met is not None:
                is_first = False
                continue
            more = _with_more(slots, change.slots, inputs)
            is_same = len(more) == len(slots) and all(map(is_, more, slots))
            if is_same or count > _MOST_ATTEMPTS:
                raise _not_adopted(change.slots) from None
            slots = more
            memory.entries = _entries_of(slots, own)
        except LumijitError:
            if not is_foreseen:
                raise
            # Perhaps because of an entry that this run doesn't change: it needn't fit.
            attempt = None
            restore()
            memory.entries, slots, is_foreseen = (), own, False
        except (RecursionError, ArgumentError) as error:
            check_depth(error, inputs.site, depth)
            raise
        finally:
            if attempt is not None:
                attempt.keep()
