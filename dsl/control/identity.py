"""Containers stay the objects that they are when control flow changes their contents.

A primitive hands copies of PyTrees to its functions and returns new ones. Plain Python
would have changed the caller's object, which others may refer to. Owns listing the
containers in a value, bringing contents back into the caller's, and letting these stand
for copies; which of these a result stands for is up to `syntax.handed`. Primitives
return the caller's arrays themselves where they stayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any

from lumijit import pytree
from lumijit.base import ArrayBase
from lumijit.compiler.ir.effects import wrap
from lumijit.control.locations import places_of
from lumijit.control.state import is_array
from lumijit.functions.selection import select
from lumijit.nested import NestedArray
from lumijit.pytree import Parts
from lumijit.pytree_walks import flat_map
from lumijit.runtime.errors import StateError

Path = tuple[Any, ...]
#: Keys and entries of a container.
Entries = tuple[Sequence[Any], Sequence[Any]]
#: Entries of a container by their keys, with the nodes of arrays.
Moment = dict[Any, tuple[Any, list[Any]]]


def objects_in(value: Any) -> dict[Path, tuple[Any, Entries]]:
    """Return the mutable containers in a value by their paths, with their entries."""
    found: dict[Path, tuple[Any, Entries]] = {}
    kind = pytree.container_kind(value)
    if kind is not None:
        _collect(value, kind, (), found)
    return found


def _collect(
    value: Any, kind: Any, path: Path, found: dict[Path, tuple[Any, Entries]]
) -> None:
    keys = kind.keys(value)
    entries = tuple(kind.parts(value, keys))
    if not isinstance(value, tuple):
        found[path] = value, (keys, entries)
    for k, child in enumerate(entries):
        inner = pytree.container_kind(child)
        if inner is not None:
            _collect(child, inner, (*path, keys[k]), found)


def has_changed(value: Any, entries: Entries) -> bool:
    """Tell whether a container has other entries than it had."""
    kind = pytree.container_kind(value)
    assert kind is not None
    before, children = entries
    keys = kind.keys(value)
    return keys != before or not all(map(is_, kind.parts(value, keys), children))


def moment(value: Any) -> Moment:
    """Return what a container has: its entries, and what arrays among these hold."""
    kind = pytree.container_kind(value)
    assert kind is not None
    keys = kind.keys(value)
    entries = kind.parts(value, keys)
    return {key: (entries[k], _nodes_in(entries[k])) for k, key in enumerate(keys)}


def _nodes_in(entry: Any) -> list[Any]:
    if is_array(entry):
        return [entry._node]
    if not isinstance(entry, ArrayBase):
        return []
    if isinstance(entry, NestedArray):
        items = entry._items
        nodes = [item._node for item in items if is_array(item)]
        if len(nodes) == len(items):
            return nodes
    leaves = Parts((entry,)).leaves
    return [leaf._node for leaf in leaves if is_array(leaf)]


def changed_since(value: Any, before: Moment) -> list[Any]:
    """Return the keys of entries that are others than at a moment, or hold others."""
    now = moment(value)
    none: tuple[Any, list[Any]] = (None, [])
    pairs = {k: (now.get(k, none), before.get(k, none)) for k in now | before}
    return [
        key
        for key, ((new, holds), (old, held)) in pairs.items()
        if new is not old or not all(map(is_, holds, held))
    ]


def apart(value: Any) -> Any:
    """Return a copy of a container, with copies of the arrays among its entries."""
    entries = [v for _, v in pytree.children(value)]
    copies = [copied_array(v) if isinstance(v, ArrayBase) else v for v in entries]
    return pytree.rebuild(value, copies)


def copied_array(array: Any) -> Any:
    """Return an array that holds the same."""
    return flat_map(lambda v: wrap(type(v), v._node) if is_array(v) else v, array)


def keep_arrays(value: Any, original: Any) -> None:
    """Give a container the original's arrays where its own hold the same."""
    first = moment(original)
    for key, (entry, holds) in moment(value).items():
        old, held = first.get(key, (entry, holds))
        if len(holds) == len(held) > 0 and all(map(is_, holds, held)):
            _put(value, key, old)


def blend(target: Any, mask: Any, source: Any, before: Moment) -> None:
    """Do to a container in some elements what happened to another one meanwhile."""
    keys = changed_since(source, before)
    new, old = (dict(pytree.children(value)) for value in (source, target))
    values = [entries.get(key, old) for key in keys for entries in (new, old)]
    if mask is not True and any(map(objects_in, values)):
        kind = type(target).__name__
        raise StateError(
            "@syntax",
            f"a {kind!r} is changed that a variable has in some elements only, and "
            "what is in it are other objects",
            "assign the contents of objects (a.x = b.x) in place of objects (a = b).",
        )
    for key in keys:
        _put(target, key, select(mask, new[key], old[key]))


def brought_back(new: Any, originals: dict[Path, Any], path: Path = ()) -> Any:
    """Give the caller's containers the contents that they have in `new`.

    Args:
        new: the final value, as a primitive has made it.
        originals: the caller's containers, by where they are in the value.
        path: where the value is.

    Returns:
        The final value, which has the caller's containers.
    """
    kind = pytree.container_kind(new)
    if kind is None or not originals:
        return new
    keys = kind.keys(new)
    items = [*kind.parts(new, keys)]
    for k, item in enumerate(items):
        if pytree.container_kind(item) is not None:
            items[k] = brought_back(item, originals, (*path, keys[k]))
    if isinstance(new, tuple):
        return kind.build(new, keys, items)
    target = originals.get(path, new)
    if isinstance(new, list):
        target[:] = items
    elif isinstance(new, dict):
        found = kind.build(new, keys, items)
        target.clear()
        target.update(found)
    elif isinstance(new, ArrayBase):
        target._adopt(new)
    else:
        before = kind.parts(target, keys)
        for k, key in enumerate(keys):
            if before[k] is not items[k]:
                object.__setattr__(target, key, items[k])
    return target


class Exchange:
    """Objects of the caller stand for their copies while a function runs.

    So it finds the same objects whichever way it gets at them. Contents change places.
    """

    def __init__(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Take originals and copies."""
        self._pairs = [
            (original, copy)
            for original, copy in pairs
            if original is not copy and not isinstance(original, ArrayBase)
        ]
        self._originals = {id(copy): original for original, copy in self._pairs}
        self._copies = {id(original): copy for original, copy in self._pairs}
        self._is_on = False

    def begin(self, values: Any) -> Any:
        """Return values with originals in the place of copies."""
        self._is_on = True
        known: dict[int, Any] = {}
        for original, copy in self._pairs:
            _swap(original, copy)
            _replace(original, self._originals, known)
        return _with(values, self._originals, known)

    def end(self, values: Any = None) -> Any:
        """Return values with copies in the place of originals; only once."""
        if not self._is_on:
            return values
        self._is_on = False
        known: dict[int, Any] = {}
        result = _with(values, self._copies, known)
        for original, _ in self._pairs:
            _replace(original, self._copies, known)
        for original, copy in self._pairs:
            _swap(original, copy)
        return result


def _with(value: Any, others: dict[int, Any], known: dict[int, Any]) -> Any:
    """Return a value with other containers in the place of some."""
    key = id(value)
    if key in others:
        return others[key]
    if not pytree.is_container(value) or isinstance(value, ArrayBase):
        return value
    if key not in known:
        children = [child for _, child in pytree.children(value)]
        items = [_with(child, others, known) for child in children]
        is_same = all(map(is_, items, children))
        known[key] = value, value if is_same else pytree.rebuild(value, items)
    return known[key][1]


def _replace(value: Any, others: dict[int, Any], known: dict[int, Any]) -> None:
    """Put other containers in the place of some that a container has."""
    for key, child in list(pytree.children(value)):
        other = _with(child, others, known)
        if other is not child:
            _put(value, key, other)


def _put(value: Any, key: Any, entry: Any) -> None:
    """Give a container another entry."""
    if isinstance(value, (list, dict)):
        value[key] = entry
    else:
        object.__setattr__(value, str(key), entry)


def _swap(a: Any, b: Any) -> None:
    """Exchange the contents of two containers of one class."""
    for one, other in zip(places_of(a), places_of(b), strict=True):
        one.fill(other.before)
        other.fill(one.before)
