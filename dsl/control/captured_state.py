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
from operator import attrgetter, is_
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.control import differing, refusals
from lumijit.control.buffers import COPIED, is_buffer
from lumijit.control.bytecode import PLAIN, keys_of
from lumijit.control.defaults import default_of
from lumijit.control.differing import Places, is_renewed, is_written
from lumijit.control.locations import Location
from lumijit.control.own_variables import NO_OWN, Own
from lumijit.control.plain_changes import counts, is_other
from lumijit.control.reachability import Reach
from lumijit.control.refusals import Change
from lumijit.control.sameness import MISSING
from lumijit.control.spans import WHOLE, Span
from lumijit.pytree import Parts
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

    def take(self, values: Sequence[Any]) -> bool:
        """Leave values to the construct that have been found; tell whether one can.

        Containers can't be: what they lead to is watched by now.
        """
        if not all([type(v) in PLAIN or isinstance(v, FlatArray) for v in values]):
            return False
        reach = self.reach
        left = set(map(id, values))
        found = [k for k, a in enumerate(reach.arrays) if id(a) not in left]
        reach.arrays = [reach.arrays[k] for k in found]
        reach.nodes = [reach.nodes[k] for k in found]
        reach.holders = [reach.holders[k] for k in found]
        self._left |= left
        self.may_meet = True
        return True

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
            raise refuse(refusals.worst(changes))
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
