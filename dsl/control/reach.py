"""Which Python objects the functions of a construct can reach, as far as that shows.

Owns the walk: from instances, closures and global variables over attributes, slots,
lists and dictionaries to arrays, nearest first, and no further than a limit. Objects
that functions get at otherwise (in a set, through a C library) aren't found. What
becomes of the places is up to `outside`.
"""

from __future__ import annotations

import contextlib
from collections import deque
from functools import partial
from types import FunctionType, MemberDescriptorType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from lumijit import pytree
from lumijit.arrays import FlatArray
from lumijit.compiler.trace import Node
from lumijit.control.bytecode import PLAIN, facts_of, is_foreign
from lumijit.control.places import (
    Attributes,
    ClassAttributes,
    Components,
    Entries,
    Globals,
    Items,
    Place,
    Slots,
    Variable,
)
from lumijit.nested import NestedArray
from lumijit.runtime.errors import is_internal

# Places that one function of a construct is followed to, the nearest ones.
LIMIT = 1024
# Lists and dictionaries with more entries are left alone.
LONGEST = 10_000
_HEAP_TYPE = 1 << 9


class Reach:
    """The places and flat arrays found so far.

    Objects that aren't PyTrees and are in `known` are left out, likewise variables of
    enclosing functions whose names are in `own_names`, and all that the construct
    `around` this one has found.
    """

    def __init__(
        self,
        known: Reach | None = None,
        own_names: frozenset[str] = frozenset(),
        around: Reach | None = None,
    ) -> None:
        self.own_names = own_names
        self.places: list[Place] = []
        self.arrays: list[Any] = []
        self.nodes: list[Node] = []
        # The place in which each array was found.
        self.holders: list[Place] = []
        self.functions: list[FunctionType] = []
        self._seen: set[int] = set()
        self._known = frozenset[int]() if known is None else known._seen
        self._around: tuple[set[int], ...] = ()
        if around is not None:
            self._around = (around._seen, *around._around)
        self._namespaces: set[int] = set()
        # The types of flat arrays met so far.
        self._flat: set[type[Any]] = set()
        self._pending: deque[Place] = deque()
        self._layouts: dict[type[Any], dict[str, Any] | None] = {}

    def follow(self, root: Any, label: str = "self", limit: int = LIMIT) -> None:
        """Find what is reached from an object or function, up to a limit."""
        if isinstance(root, FunctionType):
            self._namespaces.add(id(root.__globals__))
        self._visit(root, None, label)
        last = self._count + limit
        pending = self._pending
        while pending and self._count < last:
            place = pending.popleft()
            # The methods that are called are followed from their objects.
            skipped = FunctionType if type(place) is ClassAttributes else None
            for value in place.kept.values():
                kind = type(value)
                if kind in PLAIN or kind is skipped:
                    continue
                if kind in self._flat:
                    self._array(value, place)
                    continue
                self._visit(value, place, "")
                if self._count >= last:
                    break
        pending.clear()

    def _array(self, array: Any, parent: Place) -> None:
        """Note a flat array that is in a place."""
        if not self._is_seen(array):
            self._seen.add(id(array))
            self.arrays.append(array)
            self.nodes.append(array._node)
            self.holders.append(parent)

    @property
    def _count(self) -> int:
        return len(self.places) + len(self.functions)

    def ignore(self, value: Any) -> None:
        """Leave an object out, as something else takes care of it."""
        self._seen.add(id(value))

    def _is_seen(self, value: Any) -> bool:
        key = id(value)
        if key in self._seen:
            return True
        return bool(self._around) and any(key in seen for seen in self._around)

    def _add(self, place: Place) -> None:
        if len(place.kept) <= LONGEST:
            self.places.append(place)
            self._pending.append(place)

    def _visit(self, value: Any, parent: Place | None, label: str) -> None:
        kind = type(value)
        if kind in PLAIN or self._is_seen(value):
            return
        self._seen.add(id(value))
        if isinstance(value, FlatArray):
            self._flat.add(kind)
            self._seen.discard(id(value))
            if parent is not None:
                self._array(value, parent)
        elif isinstance(value, NestedArray):
            self._add(Components(value, parent, label))
        elif kind is FunctionType:
            self._function(value)
        elif kind is MethodType:
            self._visit(value.__func__, parent, label)
            self._visit(value.__self__, parent, "self")
        elif kind is partial:
            self._visit(value.func, parent, label)
            self._visit((value.args, value.keywords), parent, label)
        elif isinstance(value, type):
            if value.__flags__ & _HEAP_TYPE and is_foreign(value):
                self._add(ClassAttributes(value, None, value.__name__))
        else:
            if isinstance(value, (list, tuple)):
                self._add(Items(value, parent, label))
            elif isinstance(value, dict):
                self._add(Entries(value, parent, label))
            elif _is_collection(value) and len(value) <= LONGEST:
                for item in value:
                    self._visit(item, parent, label)
            self._object(value, parent, label)

    def _object(self, value: Any, parent: Place | None, label: str) -> None:
        cls = type(value)
        if cls in self._layouts:
            slots = self._layouts[cls]
        else:
            slots = self._layouts[cls] = _layout(cls)
            if slots is not None:
                self._visit(cls, None, "")
        if slots is None:
            return
        if id(value) in self._known and not pytree.is_container(value):
            return
        with contextlib.suppress(AttributeError):
            self._add(Attributes(value, parent, label))
        if slots:
            self._add(Slots(value, parent, label, slots))

    def _function(self, function: FunctionType) -> None:
        code = function.__code__
        if is_internal(code.co_filename):
            return
        namespace = function.__globals__
        if function.__closure__ is None and id(namespace) not in self._namespaces:
            return
        self.functions.append(function)
        facts = facts_of(code)
        for name, cell in zip(
            code.co_freevars, function.__closure__ or (), strict=True
        ):
            if self._is_seen(cell) or name in self.own_names:
                continue
            self._seen.add(id(cell))
            variable = Variable(cell, None, name)
            if facts.rebinds or type(variable.kept[name]) not in PLAIN:
                self._add(variable)
        names = facts.names
        if names and not self._is_seen(code):
            self._seen.add(id(code))
            mentioned = tuple(
                [
                    name
                    for name in names
                    if facts.stores_globals or type(namespace.get(name)) not in PLAIN
                ]
            )
            if mentioned:
                self._add(Globals(namespace, mentioned))
        if any(type(value) not in PLAIN for value in function.__defaults__ or ()):
            self._visit(function.__defaults__, None, function.__name__)


def _is_collection(value: Any) -> bool:
    """Tell whether a value holds objects in no order of keys that could be state."""
    if isinstance(value, (deque, set, frozenset)):
        return True
    return isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1


_LAYOUTS: WeakKeyDictionary[type[Any], dict[str, Any] | None] = WeakKeyDictionary()


def _layout(cls: type[Any]) -> dict[str, Any] | None:
    """Return the slots of a class's objects, or None if they hold nothing of a user."""
    try:
        return _LAYOUTS[cls]
    except KeyError:
        pass
    is_looked_at = bool(cls.__flags__ & _HEAP_TYPE)
    if not is_foreign(cls):
        is_looked_at = pytree.struct_fields(cls) is not None
    found: dict[str, Any] | None = None
    if is_looked_at:
        found = {
            name: member
            for base in cls.__mro__
            for name, member in vars(base).items()
            if type(member) is MemberDescriptorType
        }
    _LAYOUTS[cls] = found
    return found
