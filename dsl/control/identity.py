"""Containers stay the objects that they are when control flow changes their contents.

A primitive hands copies of PyTrees to its functions and returns new ones. Plain Python
would have changed the caller's object, which others may refer to. Owns finding out
which containers a function only changed, and bringing the results back into the
caller's. Arrays are values, as numbers are in plain Python.
"""

from __future__ import annotations

from typing import Any

from lumijit import pytree
from lumijit.control.state import is_array

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
    if not pytree.is_container(new):
        is_same = is_array(new) and new._node is original._node
        return original if is_same else new
    if path not in paths and not isinstance(new, tuple):
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
        original.update(contents)
    else:
        for key, child in contents.items():
            if before[key] is not child:
                object.__setattr__(original, str(key), child)
    return original
