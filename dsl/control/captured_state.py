"""What is outside of a construct stays as it is: objects that its functions reach.

A body, branch or callable runs for some of the elements, and is traced once. An array
that it leaves in an attribute of an object, a list or a variable of its surroundings
would hold symbolic or unmasked values. Owns comparing the places that `reachability`
finds, putting them back, and which entries become state instead. Where a body's changes
can, those of numbers count as well; elsewhere, they count how often Python runs a
function. The errors are in `refusals`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter, is_
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.control import differing, refusals
from lumijit.control.bare_classes import look_at_values
from lumijit.control.buffers import COPIED, is_buffer
from lumijit.control.bytecode import PLAIN, keys_of
from lumijit.control.defaults import default_of
from lumijit.control.differing import Places, is_renewed, is_written
from lumijit.control.held_arrays import is_changed, note_stand_ins, put_back
from lumijit.control.inert import Inert
from lumijit.control.locations import MISSING, Location
from lumijit.control.members import Position
from lumijit.control.met_arrays import Met
from lumijit.control.own_variables import NO_OWN, Own, own_variables
from lumijit.control.plain_changes import counts, is_object, is_other
from lumijit.control.reachability import WHOLE, Reach, Span
from lumijit.control.refusals import Change
from lumijit.control.state import NUMBERS
from lumijit.nested import NestedArray
from lumijit.pytree import Parts, is_container
from lumijit.runtime.errors import StateError

_node_of = attrgetter("_node")
Ignored = Callable[[Location, Any], bool]
#: Places that aren't as they were; nodes of such arrays.
Moment = tuple[Places, dict[int, Node]]
_START: Moment = ({}, {})


def _none(place: Location, key: Any) -> bool:
    """Ignore nothing."""
    return False


class Outside:
    """The objects that the functions of one construct must leave as they are.

    What the construct `around` it watches already isn't listed again. Where the
    functions run once, as those of branches do, iterators may go on.
    """

    #: Whether a function stands for several runs of it.
    repeats = True
    #: Whether arguments' arrays may be found elsewhere, too.
    may_meet = True

    def __init__(self, own: Own = NO_OWN, around: Outside | None = None) -> None:
        self.around = around
        self._left: set[int] = set()
        outer: Reach | None = None if around is None else around.reach
        self.reach: Reach = Reach(None, own, outer, watches_contents=True)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to watch."""
        is_empty = not (self.reach.places or self.reach.is_shared)
        return is_empty and (self.around is None or self.around.is_empty)

    def leave(self, values: Sequence[Any], labels: Sequence[str]) -> None:
        """Leave what is state, or an argument, to the construct.

        Objects in it that are no PyTrees are followed, and keys. Its arrays are watched
        where functions reach them otherwise: their changes would be no state's.
        """
        parts = Parts(values, labels)
        self._left.update(map(id, parts.leaves))
        self.reach.leave(parts.containers)
        for key in keys_of(parts.containers):
            self.reach.follow(key, "a key")
        if not all(
            type(leaf) in PLAIN or isinstance(leaf, FlatArray) for leaf in parts.leaves
        ):
            for name, kind, value in parts.nodes():
                if isinstance(value, COPIED) and is_buffer(value):
                    self.reach.seen.add(id(value))  # The construct compares it.
                elif kind is None and not isinstance(value, FlatArray):
                    self.reach.follow(value, name)

    def look_around(self) -> None:
        """Find out whether arrays that were left have been found elsewhere, too.

        (A construct around this one may have made objects that nobody has walked to.)
        """
        reach = self.reach
        is_found = bool(reach.met) or not self._left.isdisjoint(map(id, reach.arrays))
        self.may_meet = is_found or self.around is not None

    def follow(self, roots: Iterable[Any]) -> Span:
        """Remember what is reached from objects or functions; return which it is."""
        start = self.reach.mark()
        for root in roots:
            self.reach.follow(root)
        return Span(start, self.reach.mark())

    def moment(self, span: Span = WHOLE) -> Moment:
        """Return what isn't as it was, as it is now."""
        reach = self.reach
        places = {id(p): (p, p.current()) for p in reach.changed(span)}
        first, last = span.start.arrays, None if span.stop is None else span.stop.arrays
        before = reach.nodes[first:last]
        now = list(map(_node_of, reach.arrays[first:last]))
        if all(map(is_, now, before)):
            return places, {}
        pairs = enumerate(zip(before, now, strict=True), first)
        return places, {k: new for k, (old, new) in pairs if new is not old}

    def restore(
        self,
        span: Span = WHOLE,
        ignored: Ignored = _none,
        since: Moment = _START,
        counts_plain: bool = False,
        is_undone: bool = False,
    ) -> list[Change]:
        """Put back what changed since a moment and has to do with arrays.

        Return what that was. If what ran `is_undone`, all else is put back, too.
        """
        changes: list[Change] = []
        reach = self.reach
        (places, nodes), (now_places, now_nodes) = since, self.moment(span)
        # What there is now is looked at first, what there was once it's there again,
        # also in what is state.
        pairs = list(differing.places(places, now_places))
        entries = [
            (*entry, [self._contents(value) for value in entry[2:]])
            for entry in differing.entries(pairs)
            if not ignored(*entry[:2])
        ]
        for k in nodes | now_nodes:
            array, first = reach.arrays[k], reach.nodes[k]
            held, holds = nodes.get(k, first), now_nodes.get(k, first)
            if held is holds or is_written(array, held) or is_renewed(held, holds):
                continue
            array._go_back(first)
            place = reach.holders[k]
            both = (wrap(type(array), node) for node in (first, holds))
            changes.append(Change(place, place.key_of(array), *both))
        inside: list[Change] = []
        others = {id(place) for place, *_ in entries}
        owned = [
            (place, place.contents())
            for place, _, _ in pairs
            if others and id(place) not in others and not isinstance(place.owner, tuple)
        ]
        for place, _ in owned:
            place.fill(place.before)
        for place, key, before, after, now in reversed(entries):
            is_counted = counts_plain and counts(place, before)
            is_counted = is_counted and is_other(before, after, reach.seen)
            if is_counted or now != [self._contents(before)] * 2:
                place.put_back([key])
                kept = place.kept.get(key, MISSING)
                if kept is MISSING:
                    kept = default_of(place.owner, key, MISSING)
                inside.insert(0, Change(place, key, kept, after))
            elif is_undone:
                place.put_back([key])
        for place, held in owned:
            place.fill(held)
        return changes + inside

    def during(
        self,
        run: Callable[[], Any],
        refuse: Callable[[Change], Exception],
        span: Span = WHOLE,
        ignored: Ignored = _none,
        adopt: Callable[[list[Change]], None] | None = None,
    ) -> Any:
        """Return `run()`; refuse the changes that it makes and undo them.

        `adopt` is told first. It may raise, to run the construct in another way.
        """
        # A scatter asks who else refers to the nodes of an array.
        held = trace.state.held
        trace.state.held = (*held, self.reach.nodes)
        try:
            result = run()
        except BaseException as error:
            is_final = isinstance(error, Exception)
            counts = adopt is not None
            changes = self.restore(WHOLE, ignored, _START, counts, not is_final)
            if changes and adopt is not None and is_final:
                # Symbolic values that were left behind may be the reason.
                adopt(changes)
            raise
        finally:
            trace.state.held = held
        changes = self.restore(span, ignored, _START, adopt is not None)
        if changes and adopt is not None:
            adopt(changes)
        if changes:
            raise refuse(_worst(changes))
        return result

    def _contents(self, value: Any) -> list[tuple[type[Any], int]]:
        """List types and nodes of the arrays in a value.

        Objects known from before count as plain values, whatever arrays they hold.
        """
        if isinstance(value, FlatArray):
            return [(type(value), id(value._node))]
        inner = Reach(known=self.reach)
        inner.follow(value)
        return [
            (type(array), id(node))
            for array, node in zip(inner.arrays, inner.nodes, strict=True)
        ]

    def error(
        self,
        construct: str,
        who: str,
        change: Change,
        refusal: refusals.Refusal,
        span: Span = WHOLE,
    ) -> StateError:
        """Word the error for a change that `who` made, one of a span's functions."""
        stop = None if span.stop is None else span.stop.functions
        functions = self.reach.functions[span.start.functions : stop]
        return refusals.refused(construct, who, change, refusal, functions)


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
        if adopted is not None and all(map(_may_be_state, changes)):
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
            raise refuse(_worst(changes), outer)
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


def _may_be_state(change: Change) -> bool:
    """Tell whether an entry had, and has, a value that a construct can hand on."""
    after = change.after
    return can_be_state(change.before) and after is not MISSING and after is not None


def can_be_state(value: Any) -> bool:
    """Tell whether a construct can hand a value on."""
    return isinstance(value, (*NUMBERS, ArrayBase)) or is_container(value)


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


def _worst(changes: list[Change]) -> Change:
    """Return the change to tell of: of a value that can't be state, else the first."""
    had = (c for c in changes if c.before is not MISSING and not _may_be_state(c))
    return next(had, changes[0])


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
