"""What a construct changes besides its variables, through what it calls.

Owns the slots that must be state because a body changed them, such as `sampler.rng`
where it calls a method of `sampler`; with these, `attempts` runs it once more. What a
construct assigns itself is known before it runs (`site`); what a body has changed, and
where, is found by `targets.left_alone`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from lumijit.runtime.contexts import on_error, running_attempt
from lumijit.syntax.bindings import targets
from lumijit.syntax.handed import Handed, Parted, Reports
from lumijit.syntax.lineage import Lineage
from lumijit.syntax.running import Running, running
from lumijit.syntax.slots import Found, Slot, Whole


def _before(label: str) -> str:
    """Name the object that a variable had before a construct."""
    return f"{label} (before)"


class Changed(BaseException):
    """A body changed what is no state yet; all of it holds what it held.

    `watch` belongs to the construct that can make it state, or that is to be watched.
    """

    def __init__(self, watch: Any, slots: list[Slot]) -> None:
        super().__init__()
        self.watch = watch
        self.slots = slots


class ObjectState:
    """What a construct changes besides its variables, as part of its state.

    `watch` is what its functions must leave alone. `handed` knows which containers they
    are handed: None where there are none.
    """

    def __init__(self, slots: tuple[Slot, ...], watch: Any = None) -> None:
        self.slots = slots
        self.watch = watch
        self.before = self.read()
        self.handed: Handed | None = None
        self._lineage: Lineage | None = None

    def hand(
        self,
        variables: Mapping[str, Any],
        read: Mapping[str, Any],
        where: Any,
        is_loop: bool = False,
        outside: Collection[int] | None = None,
    ) -> None:
        """Hand variables to functions of a site, besides slots; see `Handed`."""
        self.belong_to(where, is_loop)
        values: dict[Any, Any] = {**variables, **dict(enumerate(self.before))}
        if not any(map(targets.is_tree, values.values())):
            return
        tracked = {
            k: slot.lineage
            for k, slot in enumerate(self.slots)
            if type(slot) is Whole and slot.lineage is not None
        }
        if tracked:
            self._lineage = next(iter(tracked.values()))
        given = values, read, is_loop, outside
        self.handed = Handed(*given, tuple(tracked), self._lineage)

    def belong_to(self, where: Any, is_loop: bool) -> None:
        """Belong to a run of a site, which hands no containers to its functions yet."""
        self._where = where
        self._is_exchanged = self.watch is not None and self.watch.reach.is_shared
        self._is_loop = is_loop

    def values_apart(self) -> tuple[Any, ...]:
        """Return the values of slots; objects that are elsewhere, too, as copies."""
        if self.handed is None or not self.handed.twins:
            return self.before
        values = list(self.before)
        for k in self.handed.twins:
            values[k] = targets.identity.apart(values[k])
        return tuple(values)

    def still(self) -> tuple[Any, ...]:
        """Return the masks that tell where names have the same objects, if asked."""
        return () if self.handed is None else tuple(self.handed.still.values())

    def still_labels(self) -> list[str]:
        """Name these masks."""
        return [] if self.handed is None else self.handed.still_labels()

    def take_still(self, values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
        """Take these masks from the end of values, of which there are `count`."""
        return values if self.handed is None else self.handed.take(values, count)

    def bring_back(self, name: Any, value: Any) -> Any:
        """Return a final value with the caller's containers."""
        return value if self.handed is None else self.handed.bring_back(name, value)

    def _hand_on(self, lost: list[tuple[Any, Any]]) -> None:
        """Hand objects on that will have other contents."""
        lineage = None if self._is_exchanged else self._lineage or Lineage()
        if self._is_loop and lineage is None:
            raise Parted
        labels = [_before(self._label_of(name)) for name, _ in lost]
        pairs = zip(lost, labels, strict=True)
        raise Changed(self.watch, [Whole(v, name, lineage) for (_, v), name in pairs])

    def _is_known(self, value: Any) -> bool:
        """Tell whether functions can have found an object outside."""
        return self.watch is not None and id(value) in self.watch.reach.seen

    def _share(self, one: Any, other: Any) -> None:
        """Refuse to change an object that names have in some elements only."""
        first, second = (self._label_of(name) for name in (one, other))
        problem = f"{first!r} and {second!r} are one object in some elements only"
        if second in (first, _before(first)):
            problem = f"{first!r} is another object than before in some elements only"
        raise self._where.error(
            f"{problem}, and the {self._where.kind!r} here changes it, which whoever "
            "has the other one would see, too",
            "assign the contents of an object (a.x = b.x) in place of the object (a = "
            "b), or make new objects in place of changing them.",
        )

    def _label_of(self, name: Any) -> str:
        return name if isinstance(name, str) else self.slots[name].label

    def run(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        part: str,
        names: Sequence[str],
        left: Sequence[str] | None = None,
        is_still: bool = False,
    ) -> Any:
        """Call a function of the construct; it must leave other objects alone.

        Args:
            function: the function.
            args: its arguments.
            part: what an error calls it.
            names: the variables that it gets.
            left: those that it returns, if it returns any.
            is_still: whether it leaves trees as they are in any case.
        """
        changed = None if self.watch is None else self.standing_in(args)
        try:
            if self.handed is None or is_still:
                result = self._watched(function, args, part)
            else:
                result = self._handing(self.handed, function, args, part, names, left)
        except BaseException:
            if changed is not None:
                # Those for which others stood in hold what they held.
                changed()
            raise
        if changed is not None:
            self._adopt_others(*changed())
        attempt = running_attempt()
        if attempt is not None:
            attempt.carry_out()
        return result

    def _adopt_others(self, changed: Iterable[Any], is_undone: bool) -> None:
        """Make places state which hold arrays that others stood for, as who watches."""
        for watcher, found in changed:
            owned = self.owned()
            new = [
                (place, *rest)
                for place, *rest in found
                if not any(place.owner is o and rest[0] == key for o, key in owned)
            ]
            if new:
                self._adopt(watcher, new)
        if is_undone:
            raise self._where.error(
                f"an array of the state of the {self._where.kind!r} here changes by "
                "way of an object that was made inside of the construct around it",
                "make that object before, or give it copies of arrays (Float(a)).",
            )

    def _handing(
        self,
        handed: Handed,
        function: Callable[..., Any],
        args: Sequence[Any],
        part: str,
        names: Sequence[str],
        left: Sequence[str] | None,
    ) -> Any:
        """Call a function that gets containers."""
        entries = self.read()
        given = dict(zip(names, args, strict=True))
        known: dict[Any, Any] = {**given, **dict(enumerate(entries))}

        def call(values: tuple[Any, Any]) -> tuple[Any, Any]:
            if self._is_exchanged:
                self.write(values[1])
            result = self._watched(function, values[0], part)
            return result, self.read()

        def after(found: tuple[Any, Any]) -> dict[Any, Any]:
            now = given if left is None else dict(zip(left, found[0], strict=True))
            return {**now, **dict(enumerate(found[1]))}

        is_exchanged = self._is_exchanged
        values = tuple(args), entries
        # Nothing that is kept refers to this: no arrays wait for the collector.
        reports = Reports(self._hand_on, self._share, self._is_known)
        result, entries = handed.during(
            call, known, after, values, is_exchanged, reports
        )
        if is_exchanged:
            self.write(entries)
        return result

    def _watched(
        self, function: Callable[..., Any], args: Sequence[Any], part: str
    ) -> Any:
        if self.watch is None:
            met = running.get().met
            if met is None:
                return function(*args)
            return met.run(function, args, partial(Changed, met, []))

        def describe() -> tuple[Any, ...]:
            where = self._where
            who = f"{part} of '{where.kind}' (line {where.place.line})"
            return "@syntax", who, self.owned(), self._adopt

        return targets.left_alone(self.watch, function, args, describe)

    def standing_in(self, args: Sequence[Any]) -> Callable[[], Any]:
        """Return what tells where else arrays are that a function will have changed.

        That is, arrays for which others stand in: in `args`, and in the slots.
        """
        return partial(tuple, ((), False))

    @staticmethod
    def _adopt(watch: Any, found: list[tuple[Any, Any, str]]) -> None:
        """Make entries that a function has changed state of who watches them."""
        raise Changed(watch, [Found(*entry) for entry in found])

    def read(self) -> tuple[Any, ...]:
        """Return the current values."""
        return tuple([slot.read() for slot in self.slots]) if self.slots else ()

    def write(self, values: Sequence[Any]) -> None:
        """Assign all values."""
        for k, slot in enumerate(self.slots):
            slot.write(values[k])

    def finish(self, values: Sequence[Any]) -> None:
        """Assign the final values; containers stay the objects that they were.

        What this construct assigns itself comes last: it is newer than an entry of it.
        """
        for k, slot in enumerate(self.slots):
            slot.write(self.bring_back(k, values[k]))

    def labels_of_slots(self, taken: Iterable[str]) -> tuple[str, ...]:
        """Name the slots; a closure's variable may be called like one of here."""
        names: list[str] = []
        for slot in self.slots:
            label = slot.label
            while label in names or label in taken:
                label += " (outer)"
            names.append(label)
        return tuple(names)

    def owned(self) -> list[tuple[Any, Any]]:
        """List object and key of the slots, and of those of constructs around."""
        slots = list(self.slots)
        construct: Running | None = running.get()
        while construct is not None:
            slots += construct.slots
            construct = construct.around
        return [(slot.owner, slot.key) for slot in slots]

    def restore_on_error(self) -> None:
        """Leave no value of one branch behind when the primitive fails."""
        if self.slots:
            on_error(lambda: self.write(self.before))
