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
    is_other = path not in paths and not isinstance(new, tuple)
    if is_other or not pytree.is_container(new):
        return new
    before = dict(pytree.children(original))
    contents = {
        key: brought_back(before[key], child, paths, (*path, key))
        if key in before
        else child
        for key, child in pytree.children(new)
    }
    if isinstance(new, tuple):
        return pytree.rebuild(new, list(contents.values()))
    if isinstance(new, list):
        original[:] = contents.values()
    elif isinstance(new, dict):
        original.clear()
        original.update((key, contents[key]) for key in new)
    else:
        for key, child in contents.items():
            if before[key] is not child:
                object.__setattr__(original, str(key), child)
    return original
