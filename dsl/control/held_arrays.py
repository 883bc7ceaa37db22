"""The arrays that a block of vectorized control flow is given: what they held before.

A block runs on the caller's arrays, which it may change in place. Owns finding out
what it did to them, and undoing that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.compiler.ir.nodes import Node
from lumijit.control.differing import is_written
from lumijit.control.sameness import same_items
from lumijit.nested import NestedArray
from lumijit.pytree import Parts, is_container


class Held:
    """Flat arrays with their nodes, nested ones with their items; all by id.

    `nodes` and `items` are from before the block, but for arrays that it has written
    to by index, whose last versions count as what they held.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.flat = {id(v): v for v in parts.leaves if isinstance(v, FlatArray)}
        self.nested = {id(v): v for v in parts.nested}
        self.remember()

    def remember(self) -> None:
        """Take what the arrays hold now for what they held before."""
        self.nodes = self.current_nodes()
        self.items = self.current_items()

    def again(self) -> Held:
        """Return another record of the same arrays, of what they hold now."""
        other = Held.__new__(Held)
        other.parts, other.flat, other.nested = self.parts, self.flat, self.nested
        other.remember()
        return other

    def current_nodes(self) -> dict[int, Node]:
        """Return what the flat arrays hold now."""
        return {key: array._node for key, array in self.flat.items()}

    def current_items(self) -> dict[int, list[Any]]:
        """Return what the nested arrays hold now."""
        return {key: array._items[:] for key, array in self.nested.items()}

    def changed(
        self, nodes: Mapping[int, Node], items: Mapping[int, list[Any]]
    ) -> set[int]:
        """Return the ids of arrays that then held something else."""
        found = {key for key, node in self.nodes.items() if nodes[key] is not node}
        for key, before in self.items.items():
            if not same_items(items[key], before):
                found.add(key)
        return found

    def put(self, items: Mapping[int, list[Any]]) -> None:
        """Have the nested arrays hold other items."""
        for key, nested in self.nested.items():
            nested._items[:] = items[key]

    def before(self) -> tuple[Iterable[Any], Iterable[Node]]:
        """Return the flat arrays, and what each held before."""
        return self.flat.values(), self.nodes.values()

    def follow(self, versions: Mapping[int, Node]) -> None:
        """Take versions written by index for what arrays held."""
        for key, version in versions.items():
            if key in self.nodes:
                self.nodes[key] = version

    def restore(self) -> None:
        """Put back what the arrays held."""
        for key, array in self.flat.items():
            if array._node is not self.nodes[key]:
                array._go_back(self.nodes[key])
        self.put(self.items)


def note_stand_ins(
    originals: Sequence[Any], given: Sequence[Any], found: list[tuple[Any, Any, Any]]
) -> None:
    """List arrays for which others stand in: which, those others, what both hold."""
    for old, new in zip(originals, given, strict=True):
        if old is new or type(old) is not type(new):
            continue
        if isinstance(old, FlatArray):
            found.append((old, new, (old._node, new._node)))
        elif isinstance(old, NestedArray):
            own, others = old._items, new._items
            found.append((old, new, (own[:], others[:])))
            if len(own) == len(others):
                note_stand_ins(own, others, found)
        elif is_container(old):
            one, other = Parts((old,)), Parts((new,))
            if len(one.leaves) == len(other.leaves):
                note_stand_ins(one.leaves, other.leaves, found)
            for array, stand_in in zip(one.nested, other.nested, strict=False):
                if array is not stand_in:
                    held = array._items[:], stand_in._items[:]
                    found.append((array, stand_in, held))


def is_changed(original: Any, given: Any, held: Any) -> bool:
    """Tell whether an array that stands in for another one was changed in place.

    Or that one, which a body has got at by another way.
    """
    own, others = held
    if isinstance(given, FlatArray):
        is_same = original._node is own or is_written(original, own)
        return given._node is not others or not is_same
    return not (same_items(original._items, own) and same_items(given._items, others))


def put_back(original: Any, held: Any) -> bool:
    """Undo what a body did to an array for which another one stood in, if anything."""
    own, _ = held
    if isinstance(original, NestedArray):
        is_same = same_items(original._items, own)
        original._items[:] = own
    else:
        is_same = original._node is own or is_written(original, own)
        if not is_same:
            original._go_back(own)
    return not is_same
