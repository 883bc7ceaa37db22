"""What the callables of one call return, joined leaf by leaf.

Owns the agreement of structures and types between callables, and Python numbers
among their results. Running the callables is the work of `calls`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lumijit import pytree, traits
from lumijit.compiler import trace
from lumijit.compiler.trace import Node
from lumijit.control.callees import Callee
from lumijit.control.state import (
    NUMBERS,
    Leaf,
    common_type,
    describe,
    flatten,
    promoted_type,
    rebuild,
    same_object,
    with_node,
)
from lumijit.runtime.errors import StateError, message


@dataclass
class Entry:
    """One leaf of the results: an array type and its node, once they are known.

    `numbers` are results that were Python numbers while no callable had returned
    an array, with the masks of those who returned them. Any other object stays in
    `value`, and all callables must return the same.
    """

    name: str
    value: Any
    cls: type[Any] | None = None
    node: Node | None = None
    numbers: list[tuple[Node, Any]] = field(default_factory=list)

    @property
    def sample(self) -> Any:
        """A value to describe the entry by in messages."""
        if self.cls is None:
            return self.value
        assert self.node is not None
        return with_node(self.cls, self.node)

    def known(self) -> Node:
        """Return the node so far."""
        assert self.node is not None
        return self.node

    def adopt(self, cls: type[Any]) -> None:
        """Settle the array type and enter the numbers returned so far."""
        self.cls = cls
        dtype = cls._spec.dtype
        self.node = trace.literal(dtype, dtype.wrap(0))
        numbers, self.numbers = self.numbers, []
        for mask, number in numbers:
            self.enter_number(mask, number)

    def enter_number(self, mask: Node, number: Any) -> None:
        """Enter a number for the elements of a mask."""
        if self.cls is None:
            self.numbers.append((mask, number))
        else:
            self.node = trace.select(mask, self.cls(number)._node, self.known())


class Results:
    """The results so far; elements that no callable was run for are zero."""

    def __init__(self, construct: str, mask_type: type[Any]) -> None:
        self.construct = construct
        self.mask_type = mask_type
        self.first: Callee | None = None
        self.value: Any = None
        self.containers: dict[str, type[Any]] = {}
        self.entries: list[Entry] = []

    def match(self, callee: Callee, value: Any, mask: Node) -> list[tuple[Entry, Leaf]]:
        """Check what a callable returned; return the entries that are arrays.

        Numbers are entered here, for the elements of its mask.
        """
        leaves = flatten((value,), ("result",))
        if self.first is None:
            self.first, self.value = callee, value
            self.containers = dict(_containers(value, "result"))
            self.entries = [Entry(leaf.name, leaf.value) for leaf in leaves]
        self._check_structure(callee, value, leaves)
        arrays = []
        for entry, leaf in zip(self.entries, leaves, strict=True):
            if not self._fits(entry, leaf.value):
                raise self._disagreement(
                    callee, entry.name, describe(entry.sample), describe(leaf.value)
                )
            if leaf.is_array:
                if entry.cls is None:
                    entry.adopt(type(leaf.value))
                arrays.append((entry, leaf))
            elif isinstance(leaf.value, NUMBERS):
                entry.enter_number(mask, leaf.value)
        return arrays

    def _check_structure(self, callee: Callee, value: Any, leaves: list[Leaf]) -> None:
        mine = {**self.containers, **{e.name: None for e in self.entries}}
        theirs = {
            **dict(_containers(value, "result")),
            **{leaf.name: None for leaf in leaves},
        }
        for name in (*mine, *theirs):
            if name in mine and name in theirs and mine[name] is theirs[name]:
                continue
            expected = self._kind(name, self.containers, self.entries)
            found = self._kind(name, theirs, leaves)
            raise self._disagreement(callee, name, expected, found)

    def _kind(self, name: str, containers: dict[str, Any], leaves: Any) -> str:
        """Describe what a structure holds at a name."""
        cls = containers.get(name)
        if cls is not None:
            return f"a {cls.__name__}"
        found = [leaf.value for leaf in leaves if leaf.name == name]
        return describe(found[0]) if found else "no such entry"

    def _disagreement(
        self, callee: Callee, name: str, expected: str, found: str
    ) -> StateError:
        return StateError(
            message(
                self.construct,
                f"the callables disagree on '{name}' ({self.first} gives {expected}, "
                f"{callee} gives {found})",
                "let all callables return the same PyTree of the same array types.",
            )
        )

    def _fits(self, entry: Entry, value: Any) -> bool:
        """Tell whether a value has the type that an entry has so far."""
        if value is entry.value and entry.cls is None and not entry.numbers:
            return True
        if entry.cls is not None:
            sample = entry.sample
            is_same = type(value) is entry.cls
            return is_same or common_type(sample, value, self.mask_type) is not None
        if entry.numbers:
            return all(
                common_type(number, value, self.mask_type) is not None
                for _, number in entry.numbers
            )
        return same_object(entry.value, value)

    def result(self, size: int) -> Any:
        """Put the results together; uniform ones become as wide as `size`."""
        values = []
        for entry in self.entries:
            if entry.numbers:
                listed = [number for _, number in entry.numbers]
                widest = max(listed, key=lambda v: (isinstance(v, float), abs(v)))
                entry.adopt(promoted_type(widest, self.mask_type))
            if entry.cls is None:
                values.append(entry.value)
                continue
            node = entry.known()
            if node.size == 1:
                node = trace.resized(node, size)
            values.append(with_node(entry.cls, node))
        return rebuild((self.value,), values)[0]


def _containers(value: Any, name: str) -> Iterator[tuple[str, type[Any]]]:
    """List the inner nodes of a PyTree by name, like `flatten` its leaves."""
    items = getattr(value, "_items", None)
    if items is not None and traits.is_jit_v(value):
        yield name, type(value)
        for k, item in enumerate(items):
            yield from _containers(item, f"{name}[{k}]")
    elif pytree.is_container(value):
        yield name, type(value)
        for key, child in pytree.children(value):
            named = isinstance(key, str) and type(value) is not dict
            step = f".{key}" if named else f"[{key!r}]"
            yield from _containers(child, name + step)
