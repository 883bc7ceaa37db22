"""PyTrees: the one traversal of lists, tuples, dicts, dataclasses and structs.

A leaf is everything else. Subclasses of the containers are leaves, except named tuples.
To most, arrays are leaves; to `Parts`, nested arrays of a JIT backend have flat parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat, zip_longest
from operator import is_
from typing import Any

from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.runtime.class_facts import ClassFacts
from lumijit.runtime.errors import ArrayTypeError, check_nesting
from lumijit.undeclared import bring, check_fields

Key = Any
_set = object.__setattr__


class Kind:
    """How objects of one class are taken apart and put together: lists, at first.

    Equal containers have their keys in one order: that of dicts is by their text.
    """

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls
        self.is_array = issubclass(cls, NestedArray)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kind) and self.cls is other.cls

    def __hash__(self) -> int:
        return hash(self.cls)

    def keys(self, value: Any) -> Sequence[Key]:
        """Return the keys of the children, in order."""
        return range(len(value))

    def parts(self, value: Any, keys: Sequence[Key]) -> Sequence[Any]:
        """Return the children."""
        del keys
        return value  # type: ignore[no-any-return]

    def build(self, like: Any, keys: Sequence[Key], items: list[Any]) -> Any:
        """Return an object like `like` with other children, those with the keys."""
        del like, keys
        return items

    def step(self, key: Key) -> str:
        """Return what follows the name of the object in that of a child."""
        return f"[{key!r}]"


class _Tuples(Kind):
    def build(self, like: Any, keys: Sequence[Key], items: list[Any]) -> Any:
        del like, keys
        return tuple(items)


class _NamedTuples(Kind):
    def build(self, like: Any, keys: Sequence[Key], items: list[Any]) -> Any:
        del like, keys
        return self.cls(*items)


class _Dicts(Kind):
    def keys(self, value: Any) -> Sequence[Key]:
        return sorted(value, key=repr)

    def parts(self, value: Any, keys: Sequence[Key]) -> Sequence[Any]:
        return [value[key] for key in keys]

    def build(self, like: Any, keys: Sequence[Key], items: list[Any]) -> Any:
        found = dict(zip(keys, items, strict=True))
        return {key: found[key] for key in like}


class _Structs(Kind):
    """Classes with DRJIT_STRUCT, which are made without arguments.

    Attributes that are no fields come along.
    """

    def keys(self, value: Any) -> Sequence[Key]:
        del value
        return tuple(self.cls.DRJIT_STRUCT)

    def parts(self, value: Any, keys: Sequence[Key]) -> Sequence[Any]:
        try:
            return [getattr(value, name) for name in keys]
        except AttributeError:
            check_fields(value, keys)
            raise

    def build(self, like: Any, keys: Sequence[Key], items: list[Any]) -> Any:
        try:
            # (To make a generator is to seed it.)
            result = getattr(self.cls, "_lumijit_blank", self.cls)()
        except TypeError as error:
            raise ArrayTypeError(
                "PyTree",
                f"the class {self.cls.__name__!r} has DRJIT_STRUCT but can't be "
                f"constructed without arguments ({error})",
                "give the constructor defaults for all arguments.",
            ) from None
        bring(result, like, keys)
        for k, name in enumerate(keys):
            setattr(result, name, items[k])
        return result

    def step(self, key: Key) -> str:
        return f".{key}"


class _Dataclasses(_Structs):
    """Dataclasses, which are made without their constructor."""

    def __init__(self, cls: type[Any]) -> None:
        super().__init__(cls)
        self._names = tuple([field.name for field in dataclasses.fields(cls)])

    def keys(self, value: Any) -> Sequence[Key]:
        del value
        return self._names

    def build(self, like: Any, keys: Sequence[Key], items: list[Any]) -> Any:
        result = object.__new__(self.cls)
        bring(result, like, keys)
        for k, name in enumerate(keys):
            _set(result, name, items[k])
        return result


class _Tensors(_Structs):
    """Structs that put themselves together; `_settings` are what else they have."""

    def build(self, like: Any, keys: Sequence[Key], items: list[Any]) -> Any:
        del keys
        return like._rebuilt(items)


class _Nested(Kind):
    """Nested arrays of a JIT backend."""

    def parts(self, value: Any, keys: Sequence[Key]) -> Sequence[Any]:
        del keys
        items: list[Any] = value._items
        return items

    def build(self, like: Any, keys: Sequence[Key], items: list[Any]) -> Any:
        del like, keys
        return wrap_nested(self.cls, items)


_BUILT_IN: dict[Any, type[Kind]] = {list: Kind, tuple: _Tuples, dict: _Dicts}


def _find_kind(cls: Any) -> Kind | None:
    found = _BUILT_IN.get(cls)
    if found is None and not issubclass(cls, type):
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            found = _NamedTuples
        elif issubclass(cls, NestedArray):
            found = _Nested if cls._spec.is_jit else None
        elif isinstance(getattr(cls, "DRJIT_STRUCT", None), dict):
            found = _Tensors if hasattr(cls, "_rebuilt") else _Structs
        elif dataclasses.is_dataclass(cls):
            found = _Dataclasses
    return None if found is None else found(cls)


#: Returns how objects of a class are taken apart; None if they are leaves.
kind_of: Callable[[Any], Kind | None] = ClassFacts(_find_kind).__getitem__


def container_kind(value: Any) -> Kind | None:
    """Return the kind of a container; arrays are none."""
    kind = kind_of(type(value))
    return None if kind is None or kind.is_array else kind


def is_container(value: Any) -> bool:
    """Tell whether a value is an inner node of a PyTree."""
    return container_kind(value) is not None


def struct_fields(value: Any) -> dict[str, Any] | None:
    """Return the declared fields (name: type) of a struct or its class.

    >>> class Ray:
    ...     DRJIT_STRUCT = {"o": float, "d": float}
    >>> struct_fields(Ray)
    {'o': <class 'float'>, 'd': <class 'float'>}
    """
    cls: Any = value if isinstance(value, type) else type(value)
    kind = kind_of(cls)
    if isinstance(kind, _Dataclasses):
        return {f.name: f.type for f in dataclasses.fields(cls)}
    return cls.DRJIT_STRUCT if isinstance(kind, _Structs) else None


def make_struct(cls: Any, fields: dict[str, Any]) -> Any:
    """Make an instance of a struct class from all of its fields."""
    kind = kind_of(cls)
    assert kind is not None
    names = kind.keys(None)
    return kind.build(None, names, [fields[name] for name in names])


def default_of(kind: Any, construct: str, name: str) -> Any:
    """Make the value of a field that holds no arrays, of its declared type."""
    try:
        return kind() if isinstance(kind, type) and kind is not Any else None
    except Exception as error:
        raise ArrayTypeError(
            construct,
            f"can't make the field '{name}': {kind.__name__}() fails ({error})",
            "declare a type that needs no arguments, or typing.Any for None.",
        ) from error


def children(value: Any) -> Iterable[tuple[Key, Any]]:
    """Return the (key, child) pairs of a container, or of a nested array."""
    kind = kind_of(type(value))
    assert kind is not None
    keys = kind.keys(value)
    return zip(keys, kind.parts(value, keys), strict=False)


def tree_leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[Any]:
    """Yield (path, leaf) for every leaf, depth first; arrays are leaves.

    >>> list(tree_leaves({"a": [1, 2]}))
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    check_nesting(depth)
    kind = container_kind(value)
    if kind is None:
        yield path, value
    else:
        for key, child in children(value):
            yield from tree_leaves(child, path + kind.step(key), depth + 1)


def rebuild(value: Any, items: list[Any]) -> Any:
    """Return a container like `value` with other children, in the order of those."""
    kind = kind_of(type(value))
    assert kind is not None
    return kind.build(value, kind.keys(value), items)


def tree_map(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """Apply a function to each leaf (and the matching leaves of other trees).

    >>> tree_map(lambda x, y: x + y, [1, {"a": 2}], [10, {"a": 20}])
    [11, {'a': 22}]
    """
    kind = container_kind(value)
    if kind is None:
        return function(value, *others)
    rows = matched(value, *others)
    return rebuild(value, [tree_map(function, *row) for row in rows])


def matched(value: Any, *others: Any) -> Iterable[tuple[Any, ...]]:
    """Return the children of a container with those of others, which must match it."""
    kind = kind_of(type(value))
    assert kind is not None
    keys = kind.keys(value)
    columns = [kind.parts(value, keys)]
    for other in others:
        if type(other) is not kind.cls:
            problem = f"{kind.cls.__name__} against {type(other).__name__}"
        elif kind.keys(other) != keys:
            problem = f"keys {list(keys)} against {list(kind.keys(other))}"
        else:
            if hasattr(kind.cls, "_check_like"):
                value._check_like(other)
            columns.append(kind.parts(other, keys))
            continue
        raise ArrayTypeError(
            "PyTree",
            f"the structures differ: {problem}",
            "pass PyTrees of the same structure.",
        )
    return zip(*columns, strict=True)


def copied(value: Any, known: dict[int, tuple[Any, Any]] | None = None) -> Any:
    """Return the same PyTree, of the same leaves, with containers of its own.

    One that is there several times is one in the copy, too. `known` has all by id, and
    keeps them alive: fields may be properties that make one each time.

    >>> tree = [1, {"a": 2}]
    >>> copied(tree), copied(tree)[1] is tree[1]
    ([1, {'a': 2}], False)
    """
    kind = container_kind(value)
    if kind is None:
        return value
    known = {} if known is None else known
    if id(value) not in known:
        keys = kind.keys(value)
        items = [copied(part, known) for part in kind.parts(value, keys)]
        known[id(value)] = value, kind.build(value, keys, items)
    return known[id(value)][1]


class Parts:
    """PyTrees taken apart, down to flat arrays and to objects that are no PyTrees.

    `leaves` are these, in order, and `containers` what is on the way to them; `nested`
    are the nested arrays among these, with the `items` that they have. `outline` has,
    of each node, children last: None for a leaf, else its kind and its keys. Names,
    which errors tell, are made when somebody asks.
    """

    __slots__ = (
        "_labels",
        "containers",
        "items",
        "leaves",
        "nested",
        "outline",
        "values",
    )

    def __init__(self, values: Sequence[Any], labels: Sequence[str] = ()) -> None:
        self.values = values
        self.leaves: list[Any] = []
        self.nested: list[Any] = []
        self.items: list[Sequence[Any]] = []
        self._labels = labels
        self.outline: list[Any] = []
        self.containers: list[Any] = []
        self._take(values, 0)

    def _take(self, values: Sequence[Any], depth: int) -> None:
        if depth > 8:  # (No stack is too short for less.)
            check_nesting(depth)
        for value in values:
            kind = kind_of(type(value))
            if kind is None:
                self.leaves.append(value)
                self.outline.append(None)
                continue
            keys = kind.keys(value)
            children = kind.parts(value, keys)
            if kind.is_array:
                self.nested.append(value)
                self.items.append([*children])
            self.outline += (kind, keys)
            self.containers.append(value)
            self._take(children, depth + 1)

    @property
    def names(self) -> list[str]:
        """The names of the leaves, as a user would write them."""
        return [name for name, kind, _ in self.nodes() if kind is None]

    def name_of(self, part: Any) -> str:
        """Return the name of a leaf or a nested array."""
        return next(name for name, _, value in self.nodes() if value is part)

    def nodes(self) -> Iterator[tuple[str, Kind | None, Any]]:
        """List names, kinds (None for leaves) and objects, containers first."""
        parts = iter(self.outline), iter(self.containers), iter(self.leaves)
        for k in range(len(self.values)):
            label = self._labels[k] if k < len(self._labels) else f"state[{k}]"
            yield from _nodes(label, *parts)

    def is_same(self, other: Parts) -> bool:
        """Tell whether others consist of the same containers, with the same keys."""
        return self.outline == other.outline

    def is_like(self, other: Parts) -> bool:
        """Tell whether others have the same leaves by name."""
        # The names of lists and tuples are alike.
        return self.is_same(other) or self.names == other.names

    def same_nested(self, other: Parts) -> list[bool]:
        """Tell where others have the very same nested arrays."""
        if not self.nested and not other.nested:
            return []
        return [a is b for a, b in zip_longest(self.nested, other.nested)]

    def together(
        self, leaves: Iterable[Any], kept: Iterable[bool] | None = None
    ) -> tuple[Any, ...]:
        """Put PyTrees like these together from other leaves.

        `kept` tells which nested arrays, in order, are to be these very objects, with
        other items. What is mentioned twice, with the same leaves, is one object.
        """
        if not self.containers:
            return tuple(islice(leaves, len(self.leaves)))
        parts = iter(self.outline), iter(self.containers), iter(leaves)
        flags = repeat(False) if kept is None else iter(kept)
        return tuple(_together(len(self.values), *parts, flags, {}))


def _nodes(
    label: str, marks: Iterator[Any], containers: Iterator[Any], leaves: Iterator[Any]
) -> Iterator[tuple[str, Kind | None, Any]]:
    kind = next(marks)
    yield label, kind, next(leaves if kind is None else containers)
    if kind is not None:
        for key in next(marks):
            yield from _nodes(label + kind.step(key), marks, containers, leaves)


def _together(
    count: int,
    marks: Iterator[Any],
    containers: Iterator[Any],
    leaves: Iterator[Any],
    kept: Iterator[bool],
    known: dict[int, Any],
) -> list[Any]:
    found = []
    for _ in range(count):
        kind = next(marks)
        if kind is None:
            found.append(next(leaves))
            continue
        keys, like = next(marks), next(containers)
        is_kept = kind.is_array and next(kept)
        items = _together(len(keys), marks, containers, leaves, kept, known)
        made = like if is_kept else known.get(id(like))
        if is_kept:
            like._items[:] = items
        elif made is None or not all(map(is_, kind.parts(made, keys), items)):
            made = known[id(like)] = kind.build(like, keys, items)
        found.append(made)
    return found
