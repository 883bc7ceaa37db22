"""Which Python objects the functions of a construct can reach.

Owns the walk, nearest first: from functions over closures, the global names and the
methods that they mention to objects; from objects over attributes, slots, classes and
containers to arrays. It has no bound. Objects that functions get at without holding
them (by `globals()` or `sys.modules`, from a C library) aren't found. Variables of
modules are up to `modules`, what becomes of the places to `captured_state`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any
from weakref import WeakKeyDictionary

from lumijit import pytree
from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.nodes import Node
from lumijit.control import buffers
from lumijit.control.bare_classes import Bare, look_at
from lumijit.control.bytecode import (
    PLAIN,
    Facts,
    facts_of,
    functions_in,
    has_attributes,
    holds_arrays,
    is_called_by_library,
    is_foreign,
    is_own,
    is_users,
)
from lumijit.control.locations import (
    Attributes,
    ClassAttributes,
    Components,
    Entries,
    Items,
    Location,
    Variable,
    attributes_of,
    objects_have_attributes,
)
from lumijit.control.members import (
    WEAK,
    Bases,
    Defaults,
    Members,
    Position,
    behind,
    called_by,
)
from lumijit.control.modules import Modules, imported
from lumijit.control.own_variables import NO_OWN, Own
from lumijit.control.spans import Mark, Span
from lumijit.nested import NestedArray
from lumijit.runtime.errors import is_internal

_COLLECTED = 1 << 14
# What a class has for its objects' dictionaries, weak references and slots.
DESCRIPTORS = (GetSetDescriptorType, MemberDescriptorType)


# What variables hold that are no places unless a function assigns them.
_LEFT_ALONE = PLAIN | {FunctionType, ModuleType, type}


class Reach:
    """The places and flat arrays found so far.

    Left out are the construct's `own` variables, and all that the one `around` this has
    found, but not what that has left out as its own. With `known`, only values are
    looked at, not what code can reach, and no objects in it that are no PyTrees.
    `constants` are the variables that hold plain values and that no function assigns,
    if these are wanted. With `watches_contents`, numbers in memory are places, too.
    """

    def __init__(
        self,
        known: Reach | None = None,
        own: Own = NO_OWN,
        around: Reach | None = None,
        notes_constants: bool = False,
        watches_contents: bool = False,
    ) -> None:
        self.watches_contents = watches_contents
        self.constants: list[Location] | None = [] if notes_constants else None
        self.own = own
        self.places: list[Location] = []
        self.arrays: list[Any] = []
        self.nodes: list[Node] = []
        # The place in which each array was found.
        self.holders: list[Location] = []
        self.functions: list[FunctionType] = []
        self.seen: set[int] = set() if around is None else set(around.seen)
        # Containers of the construct's state; whether others hold one of them.
        self.state: set[int] = set()
        # Its nested arrays, and where they are besides, for constructs inside.
        self._arguments: set[int] = set()
        self.met: list[tuple[Any, Location | None]] = []
        self.is_shared: bool = around is not None and around.is_shared
        self._known = None if known is None else known.seen
        known_modules = None if around is None else around.modules
        self.modules: Modules = Modules(known_modules, notes_constants)
        self._namespaces: set[int] = set()
        # Names in functions found so far (maybe any), and methods none has mentioned.
        self._mentioned: set[str] = set()
        self._may_mention_any = False
        self._methods: dict[str, list[FunctionType]] = {}
        self._looks: dict[type[Any], Look | None] = {}
        self._followed = 0  # So many of the places.
        self._left_out: list[tuple[str, Any, Facts]] = []
        # Variables of such values that no function so far assigns, by their cells.
        self._plain: dict[int, Location] = {}
        if around is not None:
            for name, cell, facts in around._left_out:
                self._add_variable(name, cell, facts)

    def mark(self) -> Mark:
        """Return how much has been found."""
        return Mark(len(self.places), len(self.arrays), len(self.functions))

    def follow(self, root: Any, label: str = "self") -> None:
        """Find what is reached from an object or function."""
        if isinstance(root, FunctionType):
            self._namespaces.add(id(root.__globals__))
        places, seen, state, looks = self.places, self.seen, self.state, self._looks
        arrays, nodes, holders = self.arrays, self.nodes, self.holders
        arguments = self._arguments
        self._visit(root, None, label)
        while self._followed < len(places):
            place = places[self._followed]
            self._followed += 1
            for value in place.followed():
                kind = type(value)
                if kind in PLAIN:
                    continue
                if id(value) in seen:
                    self.is_shared |= id(value) in state
                    if id(value) in arguments:
                        self.met.append((value, place))
                    continue
                if looks.get(kind) is not _is_array:
                    self._visit(value, place, "")
                    if looks[kind] is not _is_array:
                        continue
                seen.add(id(value))
                arrays.append(value)
                nodes.append(value._node)
                holders.append(place)

    def note_plain(self) -> None:
        """Note variables that hold plain values, once all is found."""
        places, constants = self.modules.plain()
        self.places += places
        if self.constants is not None:
            self.constants += [*self._plain.values(), *constants]

    def leave(self, containers: Sequence[Any]) -> None:
        """Leave state out, but not its methods; note if others hold a part of it."""
        arrays = {id(v) for v in containers if isinstance(v, ArrayBase)}
        keys = {id(v) for v in containers if type(v) is not tuple or v} - arrays
        self.is_shared |= not self.seen.isdisjoint(keys - self.state)
        self.state |= keys
        self._arguments |= arrays
        self.seen.update(map(id, containers))
        for kind in dict.fromkeys(map(type, containers)):
            found = look_at(kind)
            if found.leads_on:
                self._visit(kind, None, "")
            elif found.names:
                _look_at_names(self, found)

    def follow_arguments(self, around: Reach) -> None:
        """Find nested arrays that the construct around gets, and this one doesn't."""
        for value, place in around.met:
            if id(value) in self._arguments:
                self.met.append((value, place))
            else:
                self.seen.discard(id(value))
                self._visit(value, place, "")

    def changed(self, span: Span) -> list[Location]:
        """List the places that don't hold the very objects that they held."""
        start = span.start.places
        stop = len(self.places) if span.stop is None else span.stop.places
        return [place for place in self.places[start:stop] if not place.is_same()]

    def _visit(self, value: Any, parent: Location | None, label: str) -> None:
        """Find what a value leads to, unless that has been done."""
        kind = type(value)
        if kind in PLAIN or id(value) in self.seen:
            self.is_shared |= id(value) in self.state
            return
        try:
            look = self._looks[kind]
        except KeyError:
            look = self._looks[kind] = _look_of(kind)
            if is_own(kind):
                self._visit(kind, None, "")
        if look is not _is_array:
            self.seen.add(id(value))
            if look is not None:
                look(self, value, parent, label)

    def add(self, place: Location) -> None:
        """Note a place; what it holds is followed later."""
        self.places.append(place)

    def add_object(self, value: Any, parent: Location | None, label: str) -> None:
        """Note the attributes and slots of an object."""
        known = self._known
        if known and id(value) in known and not pytree.is_container(value):
            return
        for place in attributes_of(value, parent, label):
            self.add(place)

    def add_class(self, cls: type[Any]) -> None:
        """Note the attributes of a user's class, and its methods."""
        if self._known is not None or not is_own(cls):
            return
        for base in cls.__bases__:
            self._visit(base, None, "")
        if self.constants is not None and cls.__bases__ != (object,):
            # (Assigning these is rare: recordings only, which live long, ask.)
            self.constants.append(Bases(cls, None, cls.__name__))
        place = ClassAttributes(cls, None, cls.__name__)
        self.add(place)
        any_is = self._may_mention_any or is_called_by_library(cls)
        for name, member in place.kept.items():
            # Operators are called without being mentioned.
            is_called = any_is or name in self._mentioned
            for function in functions_in(member):
                if is_called or name.startswith("__"):
                    self._visit(function, None, name)
                else:
                    self._methods.setdefault(name, []).append(function)

    def add_function(self, function: FunctionType) -> None:
        """Note the variables of others that a function uses, and what it calls."""
        code, namespace = function.__code__, function.__globals__
        cells = function.__closure__ or ()
        if is_internal(code.co_filename):
            # What it calls for a user (as what `value_and_grad` returns does).
            for held in [Variable(cell, None, "").held("") for cell in cells]:
                if callable(held):
                    self._visit(held, None, "")
            return
        self.functions.append(function)
        facts = facts_of(code)
        for name, cell in zip(code.co_freevars, cells, strict=True):
            self._add_variable(name, cell, facts)
        is_followed = self._known is None and id(code) not in self.seen
        name = namespace.get("__name__") or ""
        if is_followed and (id(namespace) in self._namespaces or is_users(name)):
            self.seen.add(id(code))
            self._mention(facts, namespace)
        if has_attributes(function):
            self.add(Attributes(function, None, code.co_name, function.__dict__))
        if self.constants is not None and function.__defaults__:
            self.constants.append(Defaults(function, None, function.__name__))
        if any(type(value) not in PLAIN for value in function.__defaults__ or ()):
            self._visit(function.__defaults__, None, function.__name__)
        if function.__kwdefaults__:
            self._visit(function.__kwdefaults__, None, function.__name__)

    def _add_variable(self, name: str, cell: Any, facts: Facts) -> None:
        """Note a variable that a function uses."""
        if id(cell) in self.seen:
            return
        variable = Variable(cell, None, name)
        held = variable.kept[name]
        if self.own.has(variable, facts):
            self._left_out.append((name, cell, facts))
            self.is_shared |= id(held) in self.state
        elif facts.rebinds or type(held) not in _LEFT_ALONE:
            self.seen.add(id(cell))
            self._plain.pop(id(cell), None)
            self.add(variable)
        else:
            if self.constants is not None:
                self._plain[id(cell)] = variable
            self._visit(held, None, name)

    def _mention(self, facts: Facts, namespace: dict[str, Any]) -> None:
        """Note variables, of this module and others, and methods that are mentioned."""
        names = facts.names
        if facts.imports:
            for module in imported(facts, namespace):
                self._visit(module, None, "")
        self.places += self.modules.mention(facts, namespace)
        if not self._mentioned.issuperset(names):
            self._may_mention_any |= facts.computes_names
            self._follow_methods(names)

    def _follow_methods(self, names: Collection[str]) -> None:
        """Follow methods of classes found so far whose names are mentioned."""
        self._mentioned.update(names)
        methods = self._methods.keys()
        any_is, mentioned = self._may_mention_any, self._mentioned
        for name in [name for name in methods if any_is or name in mentioned]:
            for function in self._methods.pop(name, ()):
                self._visit(function, None, name)


Look = Callable[[Reach, Any, Location | None, str], None]


def _is_array(reach: Reach, array: Any, parent: Location | None, label: str) -> None:
    """Stand for flat arrays, which `Reach.follow` notes itself."""


def _look_at_nested(reach: Reach, value: Any, parent: Any, label: str) -> None:
    reach.add(Components(value, parent, label))


def _look_at_function(reach: Reach, value: Any, *_: Any) -> None:
    reach.add_function(value)


def _look_at_module(reach: Reach, value: Any, *_: Any) -> None:
    if reach._known is None:
        reach.places += reach.modules.reach(value)


def _look_at_class(reach: Reach, value: Any, *_: Any) -> None:
    reach.add_class(value)


def _look_at_names(reach: Reach, value: Any, *_: Any) -> None:
    reach.places += reach.modules.note(value.names, value.stored)
    reach._follow_methods(value.names)


def _look_at_parts(
    reach: Reach, value: Any, parent: Location | None, label: str
) -> None:
    """Look at what methods, partial functions and weak references stand for."""
    if issubclass(type(value), WEAK):
        reach._visit(behind(value), parent, label)
        return
    reach._visit(called_by(value), parent, label)
    if type(value) in (MethodType, BuiltinFunctionType):
        reach._visit(value.__self__, parent, "self")
    elif type(value) is partial:
        reach.add(Items(value.args, None, "args"))
        reach.add(Entries(value, None, "kwargs", value.keywords))


def is_followed(cls: type[Any]) -> bool:
    """Tell whether what objects of a class hold is found."""
    return _look_of(cls) is not None


def _look_at_items(
    reach: Reach, value: Any, parent: Location | None, label: str
) -> None:
    reach.add(Items(value, parent, label))
    if type(value) not in (list, tuple, deque):
        reach.add_object(value, parent, label)


def _look_at_entries(
    reach: Reach, value: Any, parent: Location | None, label: str
) -> None:
    reach.add(Entries(value, parent, label, value))
    if any(type(key) not in PLAIN for key in value):
        reach._visit(tuple(value), parent, label)
    if type(value) is not dict:
        reach.add_object(value, parent, label)
        if isinstance(value, defaultdict):
            reach._visit(value.default_factory, None, label)


def _look_at_members(
    reach: Reach, value: Any, parent: Location | None, label: str
) -> None:
    if buffers.is_buffer(value):
        if reach.watches_contents and buffers.is_compared(value):
            reach.add(buffers.Buffer(value, parent, label))
        return
    kind = Position if hasattr(type(value), "__next__") else Members
    reach.add(kind(value, parent, label))


def _look_at_object(reach: Reach, value: Any, parent: Any, label: str) -> None:
    reach.add_object(value, parent, label)


_LOOKS: WeakKeyDictionary[type[Any], Look | None] = WeakKeyDictionary()
_BUILT_IN: tuple[tuple[tuple[type[Any], ...], Look | None], ...] = (
    ((ModuleType,), _look_at_module),
    ((FlatArray,), _is_array),
    ((NestedArray,), _look_at_nested),
    ((type,), _look_at_class),
    ((list, tuple, deque), _look_at_items),
    ((dict,), _look_at_entries),
    ((set, frozenset, *buffers.KINDS), _look_at_members),
    ((FunctionType,), _look_at_function),
    ((MethodType, BuiltinFunctionType, partial, *WEAK), _look_at_parts),
    # Functions of compiled modules, which hold nothing of a program's.
    ((type(wrap),), None),
    (DESCRIPTORS, None),
    ((Bare,), _look_at_names),
)


def _look_of(cls: type[Any]) -> Look | None:
    """Return how objects of a class are looked at; None if they hold nothing."""
    if cls in _LOOKS:
        return _LOOKS[cls]
    found: Look | None = None
    for kinds, look in _BUILT_IN:
        if issubclass(cls, kinds):
            found = look
            break
    else:
        if holds_arrays(cls):
            found = _look_at_object
        elif hasattr(cls, "_wraps_function"):
            found = _look_at_parts
        elif is_foreign(cls):
            if objects_have_attributes(cls):
                found = _look_at_object
            elif cls.__flags__ & _COLLECTED or hasattr(cls, "__next__"):
                found = _look_at_members
    _LOOKS[cls] = found
    return found
