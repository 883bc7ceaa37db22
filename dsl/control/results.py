"""What the callables of one call return, joined leaf by leaf.

Owns the agreement of structures and types between callables, and Python numbers
among their results. Running the callables is the work of `calls`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.control.callees import Callee
from lumijit.control.state import (
    NUMBERS,
    as_arrays,
    common_type,
    describe,
    is_array,
    same_object,
    type_of_numbers,
)
from lumijit.instance_registry import contents, note_contents
from lumijit.pytree import Parts
from lumijit.runtime.errors import StateError


@dataclass
class Entry:
    """One leaf of the results: the array type, once it is known, and all values.

    `numbers` are Python numbers that were returned while no callable had returned
    an array. Any other object stays in `value`, and all callables must return it.
    `objects` are those that an instance array may hold, as far as known: what is made
    of the call may be a table that has forgotten them.
    """

    name: str
    value: Any
    cls: type[Any] | None = None
    numbers: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    objects: frozenset[int] | None = None

    @property
    def sample(self) -> Any:
        """A value to describe the entry by in messages."""
        return self.value if self.cls is None else self.zero()

    def zero(self) -> Any:
        """Return an array of one zero."""
        assert self.cls is not None
        dtype = self.cls._spec.dtype
        return wrap(self.cls, trace.literal(dtype, dtype.wrap(0)))

    @property
    def arrays(self) -> list[Any]:
        """What each callable returned, as arrays of one type."""
        assert self.cls is not None
        return as_arrays(self.cls, self.values)


class Results:
    """What the callables returned so far, one value of each entry per callable."""

    def __init__(self, construct: str, mask_type: type[Any]) -> None:
        self.construct = construct
        self.mask_type = mask_type
        self.first: Callee | None = None
        self.parts = Parts(())
        self.has_containers = False
        self.entries: list[Entry] = []

    def is_like(self, value: Any) -> bool:
        """Tell whether a value is one array, like those that were entered."""
        entries = self.entries
        if len(entries) != 1 or self.has_containers:
            return False
        cls = entries[0].cls
        return cls is not None and type(value) is cls

    def enter_array(self, value: Any) -> None:
        """Enter what a callable returned if it is one array like those before it."""
        self.entries[0].values.append(value)

    def match(self, callee: Callee, value: Any) -> list[Any]:
        """Check what a callable returned and enter it; return its leaves."""
        parts = Parts((value,), ("result",))
        if self.first is None:
            self.first, self.parts = callee, parts
            self.has_containers = bool(parts.containers)
            self.entries = list(map(Entry, parts.names, parts.leaves))
        if not self.parts.is_same(parts):
            self._check_structure(callee, parts)
        for entry, leaf in zip(self.entries, parts.leaves, strict=True):
            if not self._fits(entry, leaf):
                raise self._disagreement(
                    callee, entry.name, describe(entry.sample), describe(leaf)
                )
            if is_array(leaf):
                entry.cls = entry.cls or type(leaf)
            elif isinstance(leaf, NUMBERS):
                entry.numbers.append(leaf)
            entry.values.append(leaf)
        return parts.leaves

    @property
    def has_open_numbers(self) -> bool:
        """Whether there are numbers, and no array that tells what they become."""
        return any([entry.cls is None and entry.numbers for entry in self.entries])

    def forget_last(self) -> None:
        """Take back what the last callable returned, but for its types."""
        for entry in self.entries:
            entry.values.pop()

    def arrays(self) -> list[Entry]:
        """Return the entries that are arrays, or numbers that make one."""
        for entry in self.entries:
            if entry.cls is None and entry.numbers:
                entry.cls = type_of_numbers(entry.numbers, self.mask_type)
            if hasattr(entry.cls, "_domain"):
                entry.objects = contents(*(array._node for array in entry.arrays))
        return [entry for entry in self.entries if entry.cls is not None]

    def _check_structure(self, callee: Callee, parts: Parts) -> None:
        """Refuse results of another structure, and say where it differs first."""
        mine, theirs = (
            {name: (kind, value) for name, kind, value in p.nodes()}
            for p in (self.parts, parts)
        )
        for name in (*mine, *theirs):
            a, b = mine.get(name), theirs.get(name)
            if a is None or b is None or a[0] != b[0]:
                raise self._disagreement(callee, name, _described(a), _described(b))

    def _disagreement(
        self, callee: Callee, name: str, expected: str, found: str
    ) -> StateError:
        return StateError(
            self.construct,
            f"the callables disagree on '{name}' ({self.first} gives {expected}, "
            f"{callee} gives {found})",
            "let all callables return the same PyTree of the same array types.",
        )

    def _fits(self, entry: Entry, value: Any) -> bool:
        """Tell whether a value has the type that an entry has so far."""
        if type(value) is entry.cls:
            return True
        if entry.cls is None and not entry.numbers:
            return same_object(entry.value, value)
        known = entry.numbers if entry.cls is None else [entry.sample]
        types = [common_type(v, value, self.mask_type) for v in known]
        return None not in types

    def result(self, nodes: dict[str, Node], size: int) -> Any:
        """Put the results together; uniform ones become as wide as `size`."""
        values = []
        for entry in self.entries:
            if entry.cls is None:
                values.append(entry.value)
                continue
            node = nodes[entry.name]
            if node.size == 1:
                node = trace.resized(node, size)
            if entry.objects is not None and contents(node) is None:
                note_contents(node, entry.objects)
            values.append(wrap(entry.cls, node))
        return self.parts.together(values)[0]


def _described(node: tuple[Any, Any] | None) -> str:
    """Say what a structure holds at a name."""
    if node is None:
        return "no such entry"
    kind, value = node
    return describe(value) if kind is None else f"a {type(value).__name__}"
