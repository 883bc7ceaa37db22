"""The walk over everything that a construct's inputs lead to.

Owns which objects are looked into, copies of what they held, and the comparison
with what they hold later. What follows from a change is decided in `reach`.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any

from lumijit.rewriting.hooks import targets
from lumijit.rewriting.undefined import Undefined

_NUMBERS = (bool, int, float)
_LEAVES = (
    *_NUMBERS,
    str,
    bytes,
    complex,
    type(None),
    type,
    ModuleType,
    BuiltinFunctionType,
    CodeType,
    Undefined,
)
#: More objects than this are not looked at: a scene has many, and few change.
LIMIT = 10_000


@dataclass(frozen=True)
class Slot:
    """Something that can be assigned: an attribute, an item, an array's contents."""

    owner: Any
    key: Any
    label: str
    kind: str

    @property
    def step(self) -> str:
        """How this slot is written behind its owner."""
        return f"[{self.key!r}]" if self.kind == "item" else f".{self.key}"

    @property
    def identity(self) -> tuple[int, Any]:
        """What tells this place from others."""
        return id(self.owner), self.key

    def read(self) -> Any:
        """Return the value, or an `Undefined` object."""
        if self.kind == "array":
            return copy.copy(self.owner)
        if self.kind == "item":
            return self.owner[self.key]
        try:
            return getattr(self.owner, self.key)
        except (AttributeError, ValueError):  # of objects, of variables of closures
            return Undefined(self.label)

    def write(self, value: Any) -> None:
        """Assign the value."""
        if self.kind == "array":
            targets.assign(self.owner, value)
        elif self.kind == "item":
            self.owner[self.key] = value
        elif not isinstance(value, Undefined):
            setattr(self.owner, self.key, value)
        elif self.key in getattr(self.owner, "__dict__", ()):
            delattr(self.owner, self.key)


def _counts(held: Any, now: Any) -> bool:
    """Tell whether another value in an attribute or the like is another state."""
    if isinstance(held, _NUMBERS):
        return not (isinstance(now, _NUMBERS) and now == held)
    return _holds_arrays(held)


def _holds_arrays(value: Any) -> bool:
    """Tell whether a value is an array, or a PyTree with one."""
    if targets.is_array(value):
        return True
    if isinstance(value, (list, tuple)):
        return any(_holds_arrays(item) for item in value)
    if isinstance(value, dict):
        return any(_holds_arrays(item) for item in value.values())
    if targets.is_tree(value):
        return any(_holds_arrays(item) for item in vars(value).values())
    return False


#: How an object was reached: from where, by which key, as an item or an attribute.
_Path = tuple[Any, Any, bool] | None


def _label(path: _Path) -> str:
    steps = []
    while path is not None:
        path, key, is_item = path
        steps.append(f"[{key!r}]" if is_item else f".{key}")
    return "".join(reversed(steps)).lstrip(".")


class Walk:
    """Goes through objects and copies what they hold, which takes time."""

    def __init__(self) -> None:
        self.inputs: list[tuple[Any, Any]] = []
        self.arrays: list[tuple[Any, Any, _Path]] = []
        self.dicts: list[tuple[Any, dict[Any, Any], dict[Any, Any], _Path]] = []
        self.lists: list[tuple[list[Any], list[Any], _Path]] = []
        self.cells: list[tuple[CellType, Any, _Path]] = []
        self.seen: set[int] = set()
        self.pending: list[tuple[Any, _Path]] = []

    def run(
        self, inputs: dict[str, Any], functions: Iterable[Callable[..., Any]]
    ) -> None:
        """Walk from variables. PyTrees among them are state, or only read."""
        self._enter_inputs(inputs)
        self.pending.extend((function, None) for function in functions)
        self._walk()

    def run_slots(self, inputs: dict[str, Any], slots: Iterable[Slot]) -> None:
        """Walk from some state of the construct around, and no further."""
        self._enter_inputs(inputs)
        self.pending.clear()
        self.seen.clear()
        for slot in slots:
            path = (None, slot.label, False)
            outer = (None, slot.label.removesuffix(slot.step), False)
            value = slot.owner
            if slot.kind == "item":
                if type(value) is list:
                    self.lists.append((value, list(value), outer))
                else:
                    copied = {slot.key: value[slot.key]}
                    self.dicts.append((value, value, copied, outer))
                value = value[slot.key]
            elif slot.kind == "attribute":
                value = slot.read()
                if type(slot.owner) is CellType:
                    self.cells.append((slot.owner, value, path))
                elif slot.key in (space := getattr(slot.owner, "__dict__", {})):
                    self.dicts.append((slot.owner, space, {slot.key: value}, outer))
            self.pending.append((value, path))
        self._walk()

    def changes(self) -> Iterator[tuple[Slot, Any]]:
        """List what holds something else than at first, and what it held.

        Arrays that are written to by index aren't looked at any more.
        """
        written = []
        for array, held, path in self.arrays:
            if targets.has_changed(array, held):
                if targets.is_written(array):
                    written.append(id(array))
                else:
                    yield Slot(array, None, _label(path), "array"), held
        if written:
            self.arrays = [a for a in self.arrays if id(a[0]) not in written]
        for owner, space, copied, path in self.dicts:
            for key, held in copied.items():
                now = space.get(key, held)
                if now is not held and _counts(held, now):
                    is_item = space is owner
                    label = _label((path, key, is_item and path is not None))
                    kind = "item" if is_item else "attribute"
                    yield Slot(owner, key, label, kind), held
        for items, copies, path in self.lists:
            for k, (now, held) in enumerate(zip(items, copies, strict=False)):
                if now is not held and _counts(held, now):
                    yield Slot(items, k, _label((path, k, True)), "item"), held
        for cell, held, path in self.cells:
            slot = Slot(cell, "cell_contents", _label(path), "attribute")
            now = slot.read()
            if now is not held and _counts(held, now):
                yield slot, held

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing was found that could change."""
        return not (self.arrays or self.dicts or self.lists or self.cells)

    def restore_inputs(self) -> None:
        """Undo what was done to the inputs, where they weren't copied."""
        for value, held in self.inputs:
            if isinstance(value, list):
                value[:] = held
            elif isinstance(value, dict):
                value.clear()
                value.update(held)
            elif targets.is_array(value):
                targets.restore(value, held)
            else:
                value.__dict__.update(held)

    def _enter_inputs(self, inputs: dict[str, Any]) -> None:
        for name, value in inputs.items():
            if _kind_of(value) != "leaf":
                self._enter_input(value, (None, name, False))

    def _enter_input(self, value: Any, path: _Path) -> None:
        """Look for other objects in a PyTree; functions get a copy of itself."""
        kind = _kind_of(value)
        if kind == "array":
            self.inputs.append((value, targets.contents(value)))
        elif kind not in ("list", "tuple", "dict") and not targets.is_tree(value):
            self.pending.append((value, path))
        elif id(value) not in self.seen:
            self.seen.add(id(value))
            if kind == "list" or kind == "dict":
                self.inputs.append((value, copy.copy(value)))
            elif hasattr(value, "__dict__"):
                self.inputs.append((value, dict(value.__dict__)))
            for key, item in _items(value):
                if _kind_of(item) != "leaf":
                    self._enter_input(item, (path, key, kind != "object"))

    def _walk(self) -> None:
        pending, seen = self.pending, self.seen
        while pending and len(seen) < LIMIT:
            value, path = pending.pop()
            kind = _kinds.get(type(value)) or _kind_of(value)
            if kind == "leaf" or id(value) in seen:
                continue
            seen.add(id(value))
            if kind == "array":
                self.arrays.append((value, targets.contents(value), path))
            elif kind == "object":
                space = getattr(value, "__dict__", None)
                if type(space) is dict:
                    self._enter_dict(value, space, dict(space), path)
            elif kind == "dict":
                self._enter_dict(value, value, dict(value), path)
            elif kind == "list" or kind == "tuple":
                if kind == "list":
                    self.lists.append((value, list(value), path))
                pending.extend([(v, (path, k, True)) for k, v in enumerate(value)])
            elif kind == "function":
                self._enter_function(value)
            else:
                pending.append((value.__self__, path))

    def _enter_dict(
        self, owner: Any, space: dict[Any, Any], copied: dict[Any, Any], path: _Path
    ) -> None:
        self.dicts.append((owner, space, copied, path))
        is_item = space is owner and path is not None
        pending = self.pending
        for key, item in copied.items():
            if _kinds.get(type(item)) != "leaf":
                pending.append((item, (path, key, is_item)))

    def _enter_function(self, function: FunctionType) -> None:
        """Enter the variables of other scopes that a function mentions."""
        module = function.__module__ or ""
        if module.partition(".")[0] in _FOREIGN:
            return
        code, cells = function.__code__, function.__closure__
        if cells:
            for name, cell in zip(code.co_freevars, cells, strict=True):
                self._enter_cell(cell, (None, name, False))
        space = function.__globals__
        original = getattr(function, "__wrapped__", function)
        found = {
            name: value
            for name in _names_in(original.__code__)
            if (value := space.get(name)) is not None and _may_change(value)
        }
        if found:
            self._enter_dict(space, space, found, None)

    def _enter_cell(self, cell: CellType, path: _Path) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # a variable without a value
            return
        if type(value) is FunctionType:
            self.pending.append((value, path))
        elif _may_change(value):
            self.cells.append((cell, value, path))
            self.pending.append((value, path))


def _may_change(value: Any) -> bool:
    return type(value) in _NUMBERS or _kind_of(value) != "leaf"


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    """List the entries of a PyTree with their keys."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    entries: dict[str, Any] = getattr(value, "__dict__", {})
    return entries.items()


#: Packages whose objects hold no state of programs.
_FOREIGN = frozenset((*sys.stdlib_module_names, "numpy", "lumijit")) - {"__main__"}

#: What kind of object the instances of a class are. Types that are made while a
#: program runs are few, and kept alive by arrays' classes anyway.
_kinds: dict[type[Any], str] = {}


def _kind_of(value: Any) -> str:
    cls = type(value)
    kind = _kinds.get(cls)
    if kind is None:
        kind = _kinds[cls] = _classified(value, cls)
    return kind


def _classified(value: Any, cls: type[Any]) -> str:
    """Tell how the walk treats a value."""
    if isinstance(value, _LEAVES):
        return "leaf"
    if targets.is_array(value):
        return "array"
    for base, kind in ((list, "list"), (dict, "dict"), (tuple, "tuple")):
        if isinstance(value, base):
            return kind
    if isinstance(value, FunctionType):
        return "function"
    if isinstance(value, MethodType):
        return "method"
    is_struct = hasattr(cls, "DRJIT_STRUCT") or cls.__module__ == "types"
    if not is_struct and cls.__module__.partition(".")[0] in _FOREIGN:
        return "leaf"
    return "object"


_names: dict[CodeType, frozenset[str]] = {}


def _names_in(code: CodeType) -> frozenset[str]:
    """List the global names in a function, also in functions inside of it."""
    found = _names.get(code)
    if found is None:
        names = set(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                names |= _names_in(constant)
        found = _names[code] = frozenset(names)
    return found
