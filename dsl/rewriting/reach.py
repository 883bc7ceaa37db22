"""What a construct changes besides its variables, through what it calls.

Owns finding the slots that must be state because the body changed them, such as
`sampler.rng` where the body calls a method of `sampler`, and running the construct
once more with them. What a construct assigns itself is known before it runs
(`state`); where to look is `walk`'s.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from types import CellType
from typing import Any

from lumijit.rewriting.hooks import targets
from lumijit.rewriting.walk import Slot, Walk


class Changed(BaseException):
    """The body changed places that are no state yet; they hold what they held."""

    def __init__(self, watch: Watch, slots: list[Slot]) -> None:
        super().__init__()
        self.watch = watch
        self.slots = slots


class Slots:
    """What a construct assigns besides variables, as part of its state."""

    def __init__(self, slots: Iterable[Slot]) -> None:
        self.slots = tuple(slots)
        self.before = self.read()

    def read(self) -> tuple[Any, ...]:
        """Return the current values."""
        return tuple([slot.read() for slot in self.slots])

    def write(self, values: tuple[Any, ...]) -> None:
        """Assign all values."""
        for slot, value in zip(self.slots, values, strict=True):
            slot.write(value)

    def labels_of_slots(self, taken: Iterable[str]) -> tuple[str, ...]:
        """Name the slots; a closure's variable may be called like one of here."""
        names: list[str] = []
        for slot in self.slots:
            label = slot.label
            while label in names or label in taken:
                label += " (outer)"
            names.append(label)
        return tuple(names)

    @contextlib.contextmanager
    def restored_on_error(self) -> Iterator[None]:
        """Leave no value of one branch behind when the primitive fails."""
        try:
            yield
        except BaseException:
            self.write(self.before)
            raise


class _Current(threading.local):
    #: State of the constructs around, or None outside of all.
    slots: tuple[Slot, ...] | None = None


_current = _Current()


def attempts(
    inputs: dict[str, Any],
    functions: Iterable[Callable[..., Any]],
    bound: Iterable[CellType],
    run: Callable[[list[Slot], Watch], Any],
) -> Any:
    """Run a construct; once more whenever its functions change what is no state.

    `run` gets what was found so far. For the rest see `Watch`.
    """
    watch = Watch(inputs, functions, bound)
    found: list[Slot] = []
    while True:
        try:
            return run(found, watch)
        except Changed as change:
            if change.watch is not watch:
                raise
            found.extend(change.slots)


class Watch:
    """What one construct's inputs lead to, as it is before the construct."""

    def __init__(
        self,
        inputs: dict[str, Any],
        functions: Iterable[Callable[..., Any]],
        bound: Iterable[CellType],
    ) -> None:
        """Look at what `inputs` and `functions` lead to.

        Inside of another construct only its state is looked at: nothing else changes,
        or that construct finds out. `bound` are variables that are state already.
        """
        self._bound = {id(cell) for cell in bound}
        self._walk = walk = Walk()
        if _current.slots is None:
            walk.run(inputs, functions)
        else:
            walk.run_slots(inputs, _current.slots)

    @contextlib.contextmanager
    def inside(self, declared: Iterable[Slot]) -> Iterator[None]:
        """Have constructs inside look at the state of this one."""
        outer = _current.slots
        _current.slots = (*(outer or ()), *declared)
        try:
            yield
        finally:
            _current.slots = outer

    def check(self, declared: Iterable[Slot]) -> None:
        """Raise `Changed` if one of the construct's functions changed something."""
        if self._walk.is_empty:
            return
        known = {slot.identity for slot in declared}
        found = [
            (slot, held)
            for slot, held in self._walk.changes()
            if slot.identity not in known and id(slot.owner) not in self._bound
        ]
        for slot, held in found:
            if slot.kind == "array":
                targets.restore(slot.owner, held)
            else:
                slot.write(held)
        if found:
            self._walk.restore_inputs()
            raise Changed(self, [slot for slot, _ in found])
