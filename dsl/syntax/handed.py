"""PyTrees that a construct hands to its functions, which may change them.

Functions get copies. Owns telling which objects of the caller the results stand for,
and bringing contents back to them; and finding out where that isn't enough: an object
has changed that no result stands for, names part or join in a loop, or two names have
one object in some elements only.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

from lumijit.runtime.contexts import on_error
from lumijit.syntax.bindings import targets
from lumijit.syntax.lineage import Lineage, both

Path = tuple[Any, ...]


class Parted(BaseException):
    """The first turn of a loop is another one than those after it.

    The body gives a name another object, and changes one of those that it had, or will
    have in the next turn.
    """


class Reports(NamedTuple):
    """What is called, and raises, where results don't suffice.

    Attributes:
        lost: gets names and objects that have changed where no result stands for them.
        shared: gets names that have one object in some elements, which has changed.
        is_known: tells whether functions get at an object otherwise.
    """

    lost: Callable[[list[tuple[Any, Any]]], None]
    shared: Callable[[Any, Any], None]
    is_known: Callable[[Any], bool]


class Handed:
    """What the functions of one construct are handed, by name.

    Each result stands for the caller's object if it is that object's copy whatever
    function has run: in a loop, also if none has.
    """

    def __init__(
        self,
        originals: dict[Any, Any],
        read: Mapping[Any, Any],
        is_loop: bool = False,
        outside: Collection[int] | None = None,
        tracked: tuple[Any, ...] = (),
        lineage: Lineage | None = None,
    ) -> None:
        """Hand out copies of `originals`.

        Args:
            originals: the caller's values.
            read: others, which functions don't change.
            is_loop: whether a function may run several times, or not at all.
            outside: the ids of the objects that others may see; None means all.
            tracked: names that keep, in loops, what others don't.
            lineage: what is known of objects, if it is asked where names keep theirs.
        """
        self.originals = {k: v for k, v in originals.items() if targets.is_tree(v)}
        self._read = read
        self._is_loop = is_loop
        self._outside = outside
        self._start = {
            name: {
                path: item
                for path, (item, _) in targets.identity.objects_in(value).items()
            }
            for name, value in self.originals.items()
        }
        # Which objects the results stand for, as far as it is known; and for which
        # ones in some elements.
        self._final = dict(self._start) if is_loop else {}
        self._met: dict[Any, dict[Path, dict[int, Any]]] = {}
        self._changed: dict[int, tuple[Any, Any]] = {}
        self._lineage = lineage
        #: Of names and paths: in which elements they still have the same object.
        self.still: dict[tuple[Any, Path], Any] = {}
        if lineage is not None:
            self.still = {(n, p): True for n, v in self._start.items() for p in v}
        #: Of tracked names: where else their objects are before the loop.
        self.twins: dict[Any, tuple[Any, Path]] = {}
        for name in tracked if is_loop else ():
            place = self._place_of(self._start[name][()], name)
            if place is not None:
                self.twins[name] = place

    def _place_of(self, owner: Any, other: Any = None) -> tuple[Any, Path] | None:
        """Return the one name and path that an object has besides `other`, if any."""
        read = (targets.identity.objects_in(value) for value in self._read.values())
        is_read = any(v is owner for found in read for v, _ in found.values())
        entries = _entries(self._start)
        places = [(n, p) for n, p, v in entries if v is owner and n != other]
        return places[0] if len(places) == 1 and not is_read else None

    def still_labels(self) -> list[str]:
        """Name the masks that tell where names have the same objects."""
        return [f"whether {name!r} stayed" for name, _ in self.still]

    def take(self, values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
        """Take these masks from the end of values, of which there are `count`."""
        if not self.still:
            return values
        self.still.update(zip(self.still, values[count:], strict=True))
        return values[:count]

    def during(
        self,
        run: Callable[[Any], Any],
        given: dict[Any, Any],
        left: Callable[[Any], Any],
        values: Any,
        is_exchanged: bool,
        reports: Reports,
    ) -> Any:
        """Return `run(values)`.

        Args:
            run: the function.
            given: what it gets, by name.
            left: tells from the result what it leaves, by name.
            values: what it gets.
            is_exchanged: whether the caller's objects are to stand for their copies.
            reports: what is called where results don't suffice.
        """
        start = self._final if self._is_loop else self._start
        before = {n: targets.identity.objects_in(given[n]) for n in start if n in given}
        if not before:
            return run(values)
        owners: dict[int, tuple[Any, Any]] = {}
        copies: dict[int, tuple[Any, Any]] = {}
        for name, path, (item, _) in _entries(before):
            owner = start[name].get(path)
            if owner is not None:
                owners.setdefault(id(item), (name, owner))
                copies.setdefault(id(owner), (name, item))
        shared = list(self._shared(given, copies)) if _merged else []

        def call() -> Any:
            if not is_exchanged:
                return run(values)
            items = {id(item): item for _, _, (item, _) in _entries(before)}
            exchange = targets.identity.Exchange(
                (owners[k][1], items[k]) for k in owners
            )
            on_error(exchange.end)
            try:
                return exchange.end(run(exchange.begin(values)))
            finally:
                exchange.end()

        lineage = self._lineage
        with nullcontext() if lineage is None else lineage.inside():
            moments = self._moments(before)
            result = call()
            after = left(result)
            if lineage is not None:
                self._follow(lineage, moments, after, is_exchanged, reports)
            changed = {
                id(item)
                for _, _, (item, entries) in _entries(before)
                if targets.identity.has_changed(item, entries)
            }
            ends = {
                name: {p: item for p, (item, _) in found.items()}
                for name, found in _left(given, before, after, bool(changed))
            }
            for (name, path), (item, moment) in moments.items():
                end = ends[name].get(path)
                if end is item or all(item is not v for v in self._sources_of(end)):
                    continue
                if targets.identity.changed_since(item, moment):
                    changed.add(id(item))
            self._compare(before, owners, ends, changed, shared, reports)
        return result

    def _moments(
        self, before: dict[Any, Any]
    ) -> dict[tuple[Any, Path], tuple[Any, Any]]:
        """Return what objects have before a function runs, if anybody will ask."""
        if not self._is_loop and self._lineage is None:
            return {}
        return {
            (name, path): (item, targets.identity.moment(item))
            for name, path, (item, _) in _entries(before)
        }

    def _follow(
        self,
        lineage: Lineage,
        moments: dict[tuple[Any, Path], tuple[Any, Any]],
        after: dict[Any, Any],
        is_exchanged: bool,
        reports: Reports,
    ) -> None:
        """Learn where names still have the same objects, after a function has run.

        What has become of these there is done to tracked ones.
        """
        if not self._is_loop:
            self.still = dict.fromkeys(self.still, True)
        if is_exchanged and lineage.heirs:
            # They stand for objects that were elsewhere while the function ran.
            name, _ = next(iter(self.still))
            reports.shared(name, name)
        lineage.settle()
        for name, place in self.twins.items():
            item, moment = moments[place]
            targets.identity.blend(
                moments[name, ()][0], self.still[place], item, moment
            )
        for (name, path), mask in self.still.items():
            first, _ = moments.get((name, path), (None, None))
            last, _ = targets.identity.objects_in(after[name]).get(path, (None, None))
            self.still[name, path] = both(mask, lineage.mask(first, last))

    def _compare(
        self,
        before: dict[Any, Any],
        owners: dict[int, tuple[Any, Any]],
        ends: dict[Any, Any],
        changed: set[int],
        shared: list[tuple[tuple[Any, Any], tuple[Any, Any]]],
        reports: Reports,
    ) -> None:
        """Find out what a function has done to what it was given."""
        self._changed.update((id(owners[k][1]), owners[k]) for k in changed & {*owners})
        for name, end in ends.items():
            self._note(name, end, owners, reports)
        for (one, first), (other, second) in shared:
            if changed & {id(first), id(second)}:
                reports.shared(one, other)
        if self._is_loop and changed:
            self._check_turns(before, ends, changed, reports)
        kept = {id(v) for found in self._final.values() for v in found.values()}
        lost = [
            (name, item)
            for key, (name, item) in self._changed.items()
            if key not in kept and (self._outside is None or key in self._outside)
        ]
        if self._is_loop and (lost or self.twins):
            places = {self._place_of(owner) for _, owner in lost}
            places.update(self.twins.values())
            if self._passed(places, before, ends, reports):
                raise Parted
        if lost:
            reports.lost(lost)

    def _passed(
        self,
        places: Collection[tuple[Any, Path] | None],
        before: dict[Any, Any],
        ends: dict[Any, Any],
        reports: Reports,
    ) -> bool:
        """Tell whether an object of some places is passed on, or one to these."""
        if None in places:
            return True
        given = {id(item): (n, p) for n, p, (item, _) in _entries(before)}
        for name, path, end in _entries(ends):
            is_own = (name, path) in places
            for item in (end, *self._sources_of(end)):
                source = given.get(id(item))
                if source == (name, path):
                    continue
                if source in places or (
                    is_own and (source is not None or reports.is_known(item))
                ):
                    return True
        return False

    def _shared(
        self, given: dict[Any, Any], copies: dict[int, tuple[Any, Any]]
    ) -> Iterator[tuple[tuple[Any, Any], tuple[Any, Any]]]:
        """List copies of objects of which one stands for the other in some elements."""
        for name in given.keys() & self._read.keys():
            now = targets.identity.objects_in(given[name])
            for path, (item, _) in targets.identity.objects_in(
                self._read[name]
            ).items():
                if path in now:
                    copies = {id(item): (name, now[path][0]), **copies}
        for key, (name, copy) in copies.items():
            found = [copies[id(v)] for v in _sources_of(key) if id(v) in copies]
            if found:
                _merge(copy, [source for _, source in found])
                yield from (((name, copy), other) for other in found)

    def _note(
        self,
        name: Any,
        end: dict[Path, Any],
        owners: dict[int, tuple[Any, Any]],
        reports: Reports,
    ) -> None:
        """Note which objects the parts of a result stand for after one more run."""
        known = self._final.get(name)
        found: dict[Path, Any] = {}
        for path, item in end.items():
            for source in (item, *self._sources_of(item)):
                if id(source) in owners or reports.is_known(source):
                    owner = owners.get(id(source), (name, source))[1]
                    met = self._met.setdefault(name, {}).setdefault(path, {})
                    met[id(owner)] = owner
            owner = owners.get(id(item), (name, None))[1]
            if owner is not None and (known is None or known.get(path) is owner):
                found[path] = owner
        self._final[name] = found

    def _check_turns(
        self,
        before: dict[Any, Any],
        ends: dict[Any, Any],
        changed: set[int],
        reports: Reports,
    ) -> None:
        """See to it that the next turn of a loop changes what this one changes."""
        # Which names have one object must be the same at the end of each turn.
        ahead: dict[int, int] = {}
        back: dict[int, int] = {}
        places: dict[int, list[tuple[Any, int]]] = {}
        for name, path, (item, _) in _entries(before):
            if path not in ends[name]:
                continue
            first, last = id(item), id(ends[name][path])
            places.setdefault(last, []).append((name, first))
            is_same = ahead.setdefault(first, last) == last
            is_same &= back.setdefault(last, first) == first
            if not is_same and changed & {first, last, ahead[first], back[last]}:
                raise Parted
        for name, path, end in _entries(ends):
            for source in self._sources_of(end):
                for other, given in places.get(id(source), ()):
                    own = before[name].get(path)
                    if changed & {given, id(source), own and id(own[0])}:
                        reports.shared(name, other)

    def bring_back(self, name: Any, value: Any) -> Any:
        """Return the final value of a variable."""
        found = self._final.get(name, {})
        if self.twins and name in self.twins:
            targets.identity.keep_arrays(value, self._start[name][()])
        result = targets.identity.brought_back(value, found) if found else value
        met, start = self._met.get(name, {}), self._start.get(name, {})
        if self._lineage is None and met.keys() <= found.keys():
            return result
        for path, (item, _) in targets.identity.objects_in(result).items():
            if path in found:
                continue
            owner, sources = start.get(path), met.get(path, {})
            if sources and self._is_loop and path in start:
                sources[id(owner)] = owner
            if sources:
                _merge(item, sources.values())
            if self._lineage is not None and path in start and item is not owner:
                mask = self.still[name, path]
                self._lineage.note(item, owner, mask, sources.values())
        return result

    def _sources_of(self, item: Any) -> Collection[Any]:
        """Return what an object stands for in some elements each, as far as known."""
        heirs = {} if self._lineage is None else self._lineage.heirs
        return heirs[id(item)].others if id(item) in heirs else _sources_of(id(item))


def _left(
    given: dict[Any, Any],
    before: dict[Any, Any],
    after: dict[Any, Any],
    is_changed: bool,
) -> Iterator[tuple[Any, Any]]:
    """Yield the objects that a function leaves, by names and paths."""
    for name, objects in before.items():
        if name not in after:
            yield name, {}
        elif after[name] is given[name] and not is_changed:
            yield name, objects
        else:
            yield name, targets.identity.objects_in(after[name])


def _entries(found: dict[Any, dict[Path, Any]]) -> Iterator[tuple[Any, Path, Any]]:
    for name, entries in found.items():
        for path, entry in entries.items():
            yield name, path, entry


#: Objects that a construct has joined from several ones, by id, with these.
_merged: dict[int, tuple[Any, list[Any]]] = {}


def _merge(item: Any, sources: Iterable[Any]) -> None:
    """Note that an object stands for others in some elements each."""
    key = id(item)
    try:
        own = weakref.ref(item, lambda _: _merged.pop(key, None))
        _merged[key] = own, [weakref.ref(source) for source in sources]
    except TypeError:
        pass  # Lists and dictionaries have no weak references.


def _sources_of(key: int) -> list[Any]:
    """Return what a living object stands for in some elements each, if that lives."""
    _, references = _merged.get(key, (None, ()))
    return [source for source in (r() for r in references) if source is not None]
