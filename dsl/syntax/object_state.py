"""What a construct changes besides its variables, through what it calls.

Owns the slots that must be state because a body changed them, such as `sampler.rng`
where it calls a method of `sampler`, and running the construct once more with them.
What a construct assigns itself is known before it runs (`state`); what a body has
changed, and where, is found by `targets.left_alone`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from lumijit.runtime.contexts import Variable, apart, on_error
from lumijit.syntax.bindings import targets
from lumijit.syntax.undefined import Undefined


@dataclass(frozen=True)
class Attribute:
    """An attribute that a construct assigns on an object."""

    owner: Any
    key: str
    label: str

    def read(self) -> Any:
        """Return the value, or an `Undefined` object."""
        return getattr(self.owner, self.key, Undefined(self.label))

    def write(self, value: Any) -> None:
        """Assign the value."""
        if not isinstance(value, Undefined):
            setattr(self.owner, self.key, value)
        elif self.key in getattr(self.owner, "__dict__", ()):
            delattr(self.owner, self.key)


@dataclass(frozen=True)
class Found:
    """An entry of an object, a list or a closure, that a called function changes."""

    place: Any
    key: Any
    label: str

    @property
    def owner(self) -> Any:
        """The object that has the entry."""
        return self.place.owner

    def read(self) -> Any:
        """Return the value."""
        return self.place.current()[self.key]

    def write(self, value: Any) -> None:
        """Assign the value."""
        self.place.put(self.key, value)


Slot = Attribute | Found


class Changed(BaseException):
    """A body changed what is no state yet; all of it holds what it held.

    `watch` belongs to the construct that can make it state.
    """

    def __init__(self, watch: Any, slots: list[Slot]) -> None:
        super().__init__()
        self.watch = watch
        self.slots = slots


class Inputs(NamedTuple):
    """What a construct gets: values with names, and the variables that it assigns.

    `attributes` lists the attributes that it assigns itself.
    """

    values: tuple[Any, ...]
    labels: tuple[str, ...]
    own_names: frozenset[str] = frozenset()
    attributes: Callable[[], Iterable[Slot]] = tuple


class ObjectState:
    """What a construct changes besides its variables, as part of its state.

    `watch` is what its functions must leave alone.
    """

    def __init__(self, slots: Iterable[Slot], watch: Any = None) -> None:
        self.slots = tuple(slots)
        self.watch = watch
        self.before = self.read()
        self._containers = Handed(dict(enumerate(self.before)))

    def run(
        self, function: Callable[..., Any], args: Iterable[Any], who: Callable[[], str]
    ) -> Any:
        """Call a function of the construct; it must leave other objects alone."""
        watch = self.watch
        call = partial(function, *args)
        if watch is not None:
            call = partial(self._watched, watch, function, args, who)
        if not self._containers.originals:
            return call()

        def entries() -> dict[Any, Any]:
            return dict(enumerate(self.read()))

        return self._containers.during(call, entries(), lambda _: entries())

    def _watched(
        self,
        watch: Any,
        function: Callable[..., Any],
        args: Iterable[Any],
        who: Callable[[], str],
    ) -> Any:
        changed = self.standing_in(args)
        result = targets.left_alone(
            watch, function, args, lambda: ("@syntax", who(), self.owned(), self._adopt)
        )
        for watcher, found in changed():
            owned = self.owned()
            new = [
                (place, *rest)
                for place, *rest in found
                if not any(place.owner is o and rest[0] == key for o, key in owned)
            ]
            if new:
                self._adopt(watcher, new)
        return result

    def standing_in(self, args: Iterable[Any]) -> Callable[[], Any]:
        """Return what tells where else arrays are that a function will have changed.

        That is, arrays for which others stand in: in `args`, and in the slots.
        """
        return list

    @staticmethod
    def _adopt(watch: Any, found: list[tuple[Any, Any, str]]) -> None:
        """Make entries that a function has changed state of who watches them."""
        raise Changed(watch, [Found(*entry) for entry in found])

    def read(self) -> tuple[Any, ...]:
        """Return the current values."""
        return tuple([slot.read() for slot in self.slots])

    def write(self, values: tuple[Any, ...]) -> None:
        """Assign all values."""
        for slot, value in zip(self.slots, values, strict=True):
            slot.write(value)

    def finish(self, values: Iterable[Any]) -> None:
        """Assign the final values; containers stay the objects that they were.

        What this construct assigns itself comes last: it is newer than an entry of it.
        """
        for k, (slot, value) in enumerate(zip(self.slots, values, strict=True)):
            slot.write(self._containers.bring_back(k, value))

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
        """List object and key of the slots."""
        return [(slot.owner, slot.key) for slot in self.slots]

    def restore_on_error(self) -> None:
        """Leave no value of one branch behind when the primitive fails."""
        on_error(lambda: self.write(self.before))


class Handed:
    """PyTrees that a construct hands to its functions, which may change them.

    Each function gets copies; `bring_back` gives the caller's objects the results, as
    far as no function has put other objects in their place.
    """

    def __init__(self, originals: dict[Any, Any]) -> None:
        self.originals = {k: v for k, v in originals.items() if targets.is_tree(v)}
        self._paths: dict[Any, set[Any]] = {}

    def during(
        self, run: Callable[[], Any], given: dict[Any, Any], left: Callable[[Any], Any]
    ) -> Any:
        """Return `run()`; it gets `given`, and `left(result)` is what it leaves."""
        before = {name: targets.objects_in(given[name]) for name in self.originals}
        result = run()
        after = left(result)
        for name, objects in before.items():
            paths = targets.kept(objects, after[name])
            self._paths[name] = paths & self._paths.get(name, paths)
        return result

    def bring_back(self, name: Any, value: Any) -> Any:
        """Return the final value of a variable."""
        if name not in self._paths:
            return value
        return targets.brought_back(self.originals[name], value, self._paths[name])


class Running(NamedTuple):
    """A construct whose functions are running.

    `watch` is what it watches, if they can leave anything behind; `slots` are those of
    the constructs around it, too.
    """

    watch: Any
    slots: tuple[Slot, ...]


_OUTERMOST = Running(None, ())
_running = Variable("running", _OUTERMOST)


def _without_repetition(
    slots: tuple[Slot, ...], others: Iterable[Slot]
) -> tuple[Slot, ...]:
    """Append slots for other entries than those that are there."""
    for new in others:
        if not any(s.owner is new.owner and s.key == new.key for s in slots):
            slots = (*slots, new)
    return slots


def attempts(
    inputs: Inputs, functions: tuple[Any, ...], run: Callable[[ObjectState], Any]
) -> Any:
    """Run a construct; once more whenever its functions change what is no state.

    What called functions change is found where the outermost construct watches it, and
    becomes state of all of them.

    Args:
        inputs: what the construct gets, and what it assigns itself.
        functions: its functions.
        run: gets the slots to use as state.
    """
    outer = _running.get()
    slots = _without_repetition(outer.slots, inputs.attributes())
    restore = None
    while True:
        watch = targets.watch(
            functions,
            inputs.values,
            inputs.labels,
            inputs.own_names,
            [(slot.label, slot.read()) for slot in slots],
            outer.watch,
        )
        if watch is not None and restore is None:
            restore = targets.snapshot(inputs.values)
        around = outer.watch if watch is None else watch
        try:
            attempt = partial(run, ObjectState(slots, watch))
            return apart(attempt, (_running, Running(around, slots)))
        except Changed as change:
            if restore is None or change.watch is not watch:
                raise
            restore()
            slots = _without_repetition(slots, change.slots)
