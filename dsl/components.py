"""Components of static arrays by name: `v.x`, and swizzles such as `v.zyx`.

Each name is a property of `ArrayBase`. What is read by a swizzle is an array of its
own; what is written to one goes to the components that it names, from left to right.
"""

from __future__ import annotations

import functools
import itertools
import re
from typing import Any

from lumijit import indexing
from lumijit.base import Array, ArrayBase
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.runtime.errors import ArrayAttributeError
from lumijit.spec import DYNAMIC, require

_NAMES = "xyzw"
#: Swizzles with more components than static arrays have: they can only be read.
_LONG = re.compile(f"[{_NAMES}]{{{len(_NAMES) + 1},}}")


def _check(array: Array, position: int) -> None:
    """Raise unless the array is static and has the component."""
    outer = array._spec.outer
    kind = array._spec.kind
    if kind.instead:
        raise ArrayAttributeError(
            f"{type(array).__name__}.{_NAMES[position]}",
            f"{kind.name} arrays have no components by that name",
            f"{kind.instead}.",
        )
    if not outer or outer[0] <= position:
        raise ArrayAttributeError(
            f"{type(array).__name__}.{_NAMES[position]}",
            f"the array has no {_NAMES[position]!r} component",
            "index dynamic arrays with [], or use a longer static type.",
        )


def _component(position: int) -> property:
    # Vectors that have it, and are indexed as all are.
    vectors: set[type[Any]] = set()

    def read(self: Any) -> Array:
        cls = type(self)
        if cls in vectors:
            found: Array = self._items[position]
            return found
        _check(self, position)
        if getattr(cls, "__getitem__", None) is NestedArray.__getitem__:
            vectors.add(cls)
        return self[position]

    def write(self: Array, value: Any) -> None:
        _check(self, position)
        self[position] = value

    doc = f"The {_NAMES[position]} component of a static array."
    return property(read, write, doc=doc)


def _swizzle(positions: tuple[int, ...]) -> property:
    name = "".join(_NAMES[p] for p in positions)
    count = len(positions)

    # The classes of results, for vectors that have such components.
    results: dict[type[Any], type[Any]] = {}

    def read(self: Any) -> Array:
        result = results.get(type(self))
        if result is not None:
            return wrap_nested(result, [self._items[p]._copy() for p in positions])
        _check(self, max(positions))
        outer = (count, *self._spec.outer[1:])
        cls: Any = require(self._spec.replaced(outer=outer), f".{name}")
        if isinstance(self, NestedArray) and cls._item is self._item:
            results[type(self)] = cls
        return cls(*[self[p] for p in positions])

    def write(self: Array, value: Any) -> None:
        _check(self, max(positions))
        for position, part in zip(
            positions, indexing.parts(self, value, count), strict=True
        ):
            self[position] = part

    return property(read, write, doc=f"The components {', '.join(name)} as an array.")


def _longer(self: Any, name: str) -> Any:
    """Read a swizzle of any length, as a dynamic array; other names are unknown."""
    spec = self._spec
    if _LONG.fullmatch(name) and spec.outer and not spec.kind.instead:
        positions = [_NAMES.index(c) for c in name]
        if max(positions) < spec.outer[0]:
            cls: Any = require(spec.replaced(outer=(DYNAMIC,)), f".{name}")
            return cls(*[self[p] for p in positions])
    known = getattr(type(self), name, None)
    if isinstance(known, property):
        # It has raised already, and is what Python asks before this function.
        return known.__get__(self)
    cls_name = type(self).__name__
    error = AttributeError(f"{cls_name!r} object has no attribute {name!r}")
    if not name.startswith("__"):
        # Of other names, everybody asks whether they are there.
        fix = f"dir({cls_name}) lists what there is."
        error = ArrayAttributeError(f"{cls_name}.{name}", str(error), fix)
    error.name, error.obj = name, self
    raise error


@functools.cache
def install() -> None:
    """Give `ArrayBase` its properties."""
    for position, name in enumerate(_NAMES):
        setattr(ArrayBase, name, _component(position))
    for count in range(2, len(_NAMES) + 1):
        for positions in itertools.product(range(len(_NAMES)), repeat=count):
            name = "".join(_NAMES[p] for p in positions)
            setattr(ArrayBase, name, _swizzle(positions))
    setattr(ArrayBase, "__getattr__", _longer)  # noqa: B010  (checkers know another)
