"""What a function can reach and might change, and putting it back.

Owns the walk over arguments, closures and globals, and the record of what the
containers, objects and arrays found there hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.nested import NestedArray

_LEAVES = (str, bytes, int, float, complex, type(None), type, ModuleType)
_MISSING = object()
#: More objects than this are not looked at: a scene has many, and few change.
LIMIT = 100_000


class Snapshot:
    """The contents of everything reachable from some objects.

    What was there comes back; what is added to a container in the meantime stays.
    """

    def __init__(self, *roots: Any) -> None:
        self._undo: list[Callable[[], None]] = []
        self._kept: list[Any] = []
        seen: set[int] = set()
        pending = list(roots)
        while pending and len(seen) < LIMIT:
            value = pending.pop()
            if isinstance(value, _LEAVES) or id(value) in seen:
                continue
            seen.add(id(value))
            self._kept.append(value)
            pending.extend(self._record(value))

    def restore(self) -> None:
        """Give everything its contents back."""
        for undo in self._undo:
            undo()

    def _record(self, value: Any) -> Iterator[Any]:
        """Note the contents of one object; list what it refers to."""
        if isinstance(value, FlatArray):
            self._attribute(value, "_node")
        elif isinstance(value, NestedArray):
            yield from self._list(value._items)
        elif isinstance(value, list):
            yield from self._list(value)
        elif isinstance(value, dict):
            yield from self._dict(value)
        elif isinstance(value, (tuple, set, frozenset)):
            yield from value
        elif isinstance(value, CellType):
            yield from self._cell(value)
        elif isinstance(value, FunctionType):
            yield from value.__closure__ or ()
            yield from self._globals(value)
        elif not isinstance(value, BuiltinFunctionType):
            yield from self._object(value)

    def _attribute(self, value: Any, name: str) -> None:
        held = getattr(value, name)
        self._undo.append(lambda: object.__setattr__(value, name, held))

    def _list(self, value: list[Any]) -> Iterator[Any]:
        held = list(value)

        def undo() -> None:
            value[: len(held)] = held

        self._undo.append(undo)
        yield from held

    def _dict(self, value: dict[Any, Any]) -> Iterator[Any]:
        held = dict(value)

        def undo() -> None:
            for key, entry in held.items():
                if value.get(key, _MISSING) is not entry:
                    value[key] = entry

        self._undo.append(undo)
        yield from held.values()

    def _cell(self, cell: CellType) -> Iterator[Any]:
        try:
            held = cell.cell_contents
        except ValueError:  # a variable without a value
            return

        def undo() -> None:
            cell.cell_contents = held

        self._undo.append(undo)
        yield held

    def _globals(self, function: FunctionType) -> Iterator[Any]:
        """Note the global variables that a function mentions."""
        space = function.__globals__
        original = getattr(function, "__wrapped__", function)
        names = _names_in(original.__code__) & space.keys()
        found = {name: space[name] for name in names}

        def undo() -> None:
            for name, held in found.items():
                if space.get(name, _MISSING) is not held:
                    space[name] = held

        self._undo.append(undo)
        yield from found.values()

    def _object(self, value: Any) -> Iterator[Any]:
        """Note the attributes of an object, and the function that it binds."""
        for name in ("__func__", "__self__", "__wrapped__", "func", "args"):
            part = getattr(value, name, _MISSING) if callable(value) else _MISSING
            if part is not _MISSING:
                yield part
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            yield from self._dict(attributes)
        for cls in type(value).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    self._attribute(value, name)
                    yield getattr(value, name)


def _names_in(code: CodeType) -> set[str]:
    """List the global names in a function, also in functions inside of it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names_in(constant)
    return names
