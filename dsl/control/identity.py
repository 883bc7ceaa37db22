"""Containers stay the objects that they are when control flow changes their contents.

A primitive hands copies of PyTrees to its functions and returns new ones. Plain Python
would have changed the caller's object, which others may refer to. Owns finding out
which containers a function only changed, and bringing the results back into the
caller's. Primitives return the caller's arrays themselves where they stayed.
"""

from __future__ import annotations

from typing import Any

from lumijit import pytree

Path = tuple[Any, ...]
Objects = dict[Path, Any]


def objects_in(value: Any) -> Objects:
    """Return the mutable containers in a value by their paths."""
    found: Objects = {}
    _collect(value, (), found)
    return found


def _collect(value: Any, path: Path, found: Objects) -> None:
    if pytree.is_container(value):
        if not isinstance(value, tuple):
            found[path] = value
        for key, child in pytree.children(value):
            _collect(child, (*path, key), found)


def kept(before: Objects, value: Any) -> set[Path]:
    """Return where a value has the containers that it had before."""
    now = objects_in(value)
    return {path for path, item in now.items() if before.get(path) is item}


def brought_back(original: Any, new: Any, paths: set[Path], path: Path = ()) -> Any:
    """Give containers of `original`, those at `paths`, the contents of `new`.

    Return the final value. What hasn't changed stays the object that it was.
    """
    if original is new or type(original) is not type(new):
        return new
    kind = pytree.container_kind(new)
    if kind is None or (path not in paths and not isinstance(new, tuple)):
        return new
    before = dict(pytree.children(original))
    items = [
        brought_back(before.get(key, child), child, paths, (*path, key))
        for key, child in pytree.children(new)
    ]
    if isinstance(new, tuple):
        return pytree.rebuild(new, items)
    if isinstance(new, list):
        original[:] = items
    elif isinstance(new, dict):
        entries = pytree.rebuild(new, items)
        original.clear()
        original.update(entries)
    else:
        for key, item in zip(kind.keys(new), items, strict=True):
            if before[key] is not item:
                object.__setattr__(original, str(key), item)
    return original
