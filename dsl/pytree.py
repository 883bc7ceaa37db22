"""PyTrees: the one traversal of lists, tuples, dicts, dataclasses and structs.

A leaf is everything else. Subclasses of the containers are leaves, except named
tuples, which are rebuilt as what they are. Every function that takes a PyTree
goes through `tree_map`, `tree_leaves` or `children`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

from lumijit.runtime.errors import ArrayTypeError

Key = str | int
_BUILT_IN = frozenset((list, tuple, dict))


def struct_fields(value: Any) -> dict[str, Any] | None:
    """Return the declared fields (name: type) of a struct or its class.

    >>> class Ray:
    ...     DRJIT_STRUCT = {"o": float, "d": float}
    >>> struct_fields(Ray)
    {'o': <class 'float'>, 'd': <class 'float'>}
    """
    cls = value if isinstance(value, type) else type(value)
    declared = getattr(cls, "DRJIT_STRUCT", None)
    if isinstance(declared, dict):
        return declared
    return _dataclass_fields(cls)


# Control flow asks this of every leaf, several times.
@functools.lru_cache(maxsize=1024)
def _dataclass_fields(cls: type[Any]) -> dict[str, Any] | None:
    if dataclasses.is_dataclass(cls):
        return {f.name: f.type for f in dataclasses.fields(cls)}
    return None


def is_container(value: Any) -> bool:
    """Tell whether a value is an inner node of a PyTree."""
    cls: Any = type(value)
    return _is_container_type(cls)


@functools.lru_cache(maxsize=1024)
def _is_container_type(cls: Any) -> bool:
    if cls in _BUILT_IN or _is_named_tuple(cls):
        return True
    return not issubclass(cls, type) and struct_fields(cls) is not None


@functools.lru_cache(maxsize=1024)
def _is_named_tuple(cls: type[Any]) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def children(value: Any) -> Iterator[tuple[Key, Any]]:
    """Yield the (key, child) pairs of a container.

    Equal containers have their children in one order: that of dicts is by key.
    """
    cls = type(value)
    if cls is list or issubclass(cls, tuple):
        yield from enumerate(value)
    elif cls is dict:
        for key in sorted(value, key=repr):
            yield key, value[key]
    else:
        for name in struct_fields(value) or ():
            yield name, getattr(value, name)


def tree_leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, leaf) for every leaf, depth first.

    >>> list(tree_leaves({"a": [1, 2]}))
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    if not is_container(value):
        yield path, value
        return
    for key, child in children(value):
        yield from tree_leaves(child, path + step(value, key))


def step(container: Any, key: Key) -> str:
    """Return what follows a container's name in that of a child."""
    if type(container) in (list, tuple, dict):
        return f"[{key!r}]"
    return f".{key}" if isinstance(key, str) else f"[{key}]"


def rebuild(value: Any, items: list[Any]) -> Any:
    """Return a container like `value` with other children, in the order of those."""
    cls: Any = type(value)
    if cls is list:
        return items
    if cls is tuple:
        return tuple(items)
    if _is_named_tuple(cls):
        return cls(*items)
    if cls is dict:
        found = dict(zip(sorted(value, key=repr), items, strict=True))
        return {key: found[key] for key in value}
    if hasattr(cls, "_rebuilt"):
        return value._rebuilt(items)
    names = list(struct_fields(value) or ())
    return _new_struct(cls, dict(zip(names, items, strict=True)), value)


def _new_struct(cls: type[Any], fields: dict[str, Any], like: Any = None) -> Any:
    """Make a struct with given fields; other attributes come from `like`."""
    if "DRJIT_STRUCT" not in dir(cls):
        result = object.__new__(cls)
        if like is not None:
            for name, extra in getattr(like, "__dict__", {}).items():
                object.__setattr__(result, name, extra)
        for name, field in fields.items():
            object.__setattr__(result, name, field)
        return result
    try:
        result = cls()
    except TypeError as error:
        raise ArrayTypeError(
            "PyTree",
            f"the class {cls.__name__!r} has DRJIT_STRUCT but can't be "
            f"constructed without arguments ({error})",
            "give the constructor defaults for all arguments.",
        ) from None
    for name, field in fields.items():
        setattr(result, name, field)
    return result


def make_struct(cls: type[Any], fields: dict[str, Any]) -> Any:
    """Make an instance of a struct class from all of its fields."""
    return _new_struct(cls, fields)


def default_of(kind: Any, construct: str, name: str) -> Any:
    """Make the value of a field that holds no arrays, of its declared type."""
    try:
        return kind() if isinstance(kind, type) else None
    except Exception as error:
        raise ArrayTypeError(
            construct,
            f"can't make the field '{name}': {kind.__name__}() fails ({error})",
            "declare a type that needs no arguments, or typing.Any for None.",
        ) from error


def tree_map(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """Apply a function to each leaf (and the matching leaves of other trees).

    >>> tree_map(lambda x, y: x + y, [1, {"a": 2}], [10, {"a": 20}])
    [11, {'a': 22}]
    """
    if not is_container(value):
        return function(value, *others)
    items = []
    for key, child in children(value):
        matching = [child_of(value, other, key) for other in others]
        items.append(tree_map(function, child, *matching))
    return rebuild(value, items)


def copied(value: Any) -> Any:
    """Return the same PyTree, of the same leaves, with containers of its own.

    >>> tree = [1, {"a": 2}]
    >>> copied(tree), copied(tree)[1] is tree[1]
    ([1, {'a': 2}], False)
    """
    if not is_container(value):
        return value
    parts = [v if not is_container(v) else copied(v) for _, v in children(value)]
    return rebuild(value, parts)


def child_of(value: Any, other: Any, key: Key) -> Any:
    """Return the child of `other` at `key`; its structure must be that of `value`."""
    if type(other) is not type(value):
        raise ArrayTypeError(
            "PyTree",
            f"the structures differ: {type(value).__name__} against "
            f"{type(other).__name__}",
            "pass PyTrees of the same structure.",
        )
    mine = [k for k, _ in children(value)]
    theirs = dict(children(other))
    if list(theirs) != mine and set(theirs) != set(mine):
        raise ArrayTypeError(
            "PyTree",
            f"the structures differ: keys {mine} against {list(theirs)}",
            "pass PyTrees of the same structure.",
        )
    if hasattr(value, "_check_like"):
        value._check_like(other)
    return theirs[key]
