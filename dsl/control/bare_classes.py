"""Classes that lead to nothing: their methods reach only what they are given.

Most classes of state and arguments are such. Owns telling them from others, and that
they still are what they were: walking through a class takes half as long as tracing a
loop. The walk is up to `reachability`.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Mapping, Sequence
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, Final

from lumijit import pytree
from lumijit.base import ArrayBase
from lumijit.compiler.ir.effects import wrap
from lumijit.control.bytecode import (
    PLAIN,
    SILENT,
    attributes_of,
    codes_in,
    facts_of,
    functions_in,
    globals_of,
    has_attributes,
    is_library,
    is_own,
    is_state,
    is_users,
)
from lumijit.control.locations import Entries, Location, Variable
from lumijit.control.members import Defaults
from lumijit.control.met_arrays import is_tensor
from lumijit.control.sameness import MISSING, are_same
from lumijit.nested import NestedArray

# What classes declare of their fields.
_DECLARED = {"DRJIT_STRUCT", "_fields", "_field_defaults"}
_NAMED = (type, FunctionType, type(wrap))
Space = Mapping[str, Any]
#: What values may do: operators change them in place, methods do, they lead somewhere;
#: whether there are objects among them that are no trees, which may hold arrays; and
#: trees whose classes run code of a program's when these are made.
GROWS, CHANGES, LEADS, HOLDS, MAKES = 1, 2, 4, 8, 16
# Methods that are called of new objects; and those that dataclasses write, of which the
# first changes new objects only, and the others refuse. (Programs' code may have such a
# file, too.)
_MAKERS = {"__init__", "__post_init__", "__new__", "__setstate__"}
_GENERATED = "<string>"
_WRITTEN = {"__init__", "__setattr__", "__delattr__"}
# What makes objects of a class that isn't mentioned.
_MAKING = {"type", "__class__", "copy", "deepcopy", *_MAKERS}
# Who assigns attributes is known, as is who makes objects.
_UNASKED = {"__repr__", "__replace__", "__getstate__", *_MAKERS, *_WRITTEN}
_SLOTS = (MemberDescriptorType, GetSetDescriptorType, staticmethod, classmethod)


class Bare:
    """What there was when a class was found to lead to nothing, and what it mentions.

    Attributes that have other values than fields may be constants, and methods that
    assign others may assign those of the class: `leads_on` is true. Classes of objects
    that are no trees have no fields: these assign attributes where they are made, which
    is outside of what their methods do.
    """

    __slots__ = (
        "_attributes",
        "_globals",
        "_mro",
        "_places",
        "calls_others",
        "changes",
        "cls",
        "fields",
        "has_operators",
        "is_tree",
        "leads_on",
        "makes",
        "names",
        "run",
        "stored",
    )

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls
        self.is_tree = pytree.kind_of(cls) is not None
        self._mro = cls.__mro__
        own = [vars(c) for c in self._mro if is_own(c)]
        self._attributes = [(v, v.copy()) for v in own]
        self._globals: list[tuple[Space, str, Any]] = []
        self._places: list[Location] = []
        # Attributes that methods mention, whatever has them, and those they assign.
        self.names: dict[str, None] = {}
        self.stored: frozenset[str] = frozenset()
        none: Any = ()
        declared = pytree.struct_fields(cls)
        fields = {*(declared or getattr(cls, "_fields", none))}
        #: The fields of a struct that may have other attributes.
        self.fields = fields if declared and cls.__dictoffset__ else set()
        #: Whether methods change anything but what they make; those of libraries may.
        self.changes = any([c not in SILENT and not is_own(c) for c in self._mro])
        #: Whether a program's code makes objects, which may change what it is given.
        self.makes = self.changes
        # Operators and attributes that call code when they are used.
        members = [item for space in own for item in space.items()]
        self.run = frozenset([k for k, m in members if _is_run(k, m, fields)])
        #: Whether there are operators among them, calls of objects, too.
        self.has_operators = any([name.startswith("__") for name in self.run])
        self.leads_on: bool = is_own(type(cls)) or not self._is_bare(fields)
        #: Whether methods mention more than fields: methods of others, maybe.
        self.calls_others = not self.names.keys() <= fields

    def is_same(self) -> bool:
        """Tell whether what the class leads to is what it was."""
        for members, before in self._attributes:
            if not are_same(members.copy(), before):
                return False
        for space, name, value in self._globals:
            if space.get(name, MISSING) is not value:
                return False
        for place in self._places:
            if not place.is_same():
                return False
        return self.cls.__mro__ is self._mro

    def _is_bare(self, fields: set[str]) -> bool:
        for _, attributes in self._attributes:
            for name, member in attributes.items():
                functions = functions_in(member)
                if not all([self._is_inert(f, fields) for f in functions]):
                    return False
                is_told = name in fields or name in _DECLARED or bool(functions)
                is_python = name.startswith("__") and not callable(member)
                if not (is_told or is_python or type(member) is GetSetDescriptorType):
                    return False
        return True

    def _is_inert(self, function: FunctionType, fields: set[str]) -> bool:
        """Tell whether a function has and names nothing that leads on."""
        facts, space = facts_of(function.__code__), function.__globals__
        if space.get("__name__") == "dataclasses" and not function.__closure__:
            # `__replace__`, since Python 3.13: it calls the class.
            return True
        if facts.rebinds or facts.stores_globals or facts.imports:
            return False
        if facts.computes_names or has_attributes(function):
            return False
        variables = [Variable(c, None, "") for c in function.__closure__ or ()]
        held = [v.kept[""] for v in variables]
        if not is_users(space.get("__name__") or ""):
            # A library's: what it calls for a user. (And who is being printed.)
            inner = [v for v in held if type(v) is FunctionType]
            others = [v for v in held if type(v) not in (FunctionType, set)]
            return all(map(self._leads_nowhere, others)) and all(
                [self._is_inert(f, fields) for f in inner]
            )
        name = function.__name__
        is_maker = not self.is_tree and name in _MAKERS
        if not (is_maker or facts.attributes.issubset(fields)):
            return False
        if not (self.is_tree or is_maker) and not _MAKING.isdisjoint(facts.names):
            return False
        is_written = facts.code.co_filename == _GENERATED and name in _WRITTEN
        if facts.changes and not is_written:
            self.makes = True
            self.changes |= name not in _MAKERS
        if is_maker:
            # Who makes such objects is watched in any case.
            return True
        values = [*held]
        self._places += variables
        if function.__defaults__:
            self._places.append(Defaults(function, None, ""))
            values += function.__defaults__
        if function.__kwdefaults__:
            self._places.append(Entries(function, None, "", function.__kwdefaults__))
            values += function.__kwdefaults__.values()
        for name in globals_of(facts.code):
            value = space.get(name, MISSING)
            if value is MISSING and hasattr(builtins, name):
                # Nobody gives a module a variable of such a name later.
                continue
            self._globals.append((space, name, value))
            values.append(value)
        # (Operators are called without being mentioned.)
        for name, asked in attributes_of(facts.code):
            if not (name.startswith("__") or is_library(space.get(asked))):
                self.names[name] = None
        self.stored |= facts.attributes
        if not self.is_tree and self._makes_others(facts.code, values):
            return False
        return all(map(self._leads_nowhere, values))

    def _makes_others(self, code: CodeType, values: Sequence[Any]) -> bool:
        """Tell whether a method may make objects of the class, from what it names.

        Variables of functions around come first; `super()` has one.
        """
        found = [i for inner in codes_in(code) for i in dis.get_instructions(inner)]
        is_named = [i.argval == "__class__" for i in found]
        if sum(is_named) != [i.opname for i in found].count("LOAD_SUPER_ATTR"):
            return True
        names = [*code.co_freevars, *[""] * len(values)]
        pairs = zip(names, values, strict=False)
        own = [v for name, v in pairs if name != "__class__"]
        return any([v is c for v in own for c in self._mro])

    def _leads_nowhere(self, value: Any) -> bool:
        if type(value) is BuiltinFunctionType:
            return self._leads_nowhere(value.__self__)
        if type(value) is ModuleType:
            return not is_users(value.__name__)
        if isinstance(value, _NAMED):
            return value in self._mro or not is_users(value.__module__ or "")
        if type(value) is tuple:
            return all(map(self._leads_nowhere, value))
        return type(value) in PLAIN or type(value).__module__ == "dataclasses"


def _is_run(name: str, member: Any, fields: set[str]) -> bool:
    """Tell whether a member of a class is called where nobody names a method."""
    if type(member) is FunctionType:
        return is_operator(name, member)
    if type(member) is property:
        return True
    is_slot = name in fields or isinstance(member, _SLOTS)
    return hasattr(type(member), "__get__") and not is_slot


def is_operator(name: str, member: Any) -> bool:
    """Tell whether a member of a class is called by Python, and a program's code."""
    if type(member) is not FunctionType or not name.startswith("__"):
        return False
    return name not in _UNASKED and member.__code__.co_filename != _GENERATED


_KNOWN: dict[type[Any], Bare] = {}
_MOST: Final = 1024
_FEW: Final = 32


def look_at(cls: type[Any]) -> Bare:
    """Return what is known of a class."""
    found = _KNOWN.get(cls)
    if found is None:
        found = Bare(cls)
        if len(_KNOWN) < _MOST and "<locals>" not in cls.__qualname__:
            _KNOWN[cls] = found
        else:
            # What isn't remembered may change unnoticed. (And to remember a class of a
            # function keeps alive what that one held.)
            found.leads_on |= is_own(cls)
    elif not found.is_same():
        # Recordings of what was there before must not serve what is there now.
        found.leads_on = True
    return found


def look_at_class(cls: type[Any]) -> int:
    """Tell what making and using objects of a class may do: lead on, or change."""
    if pytree.kind_of(cls) is None:
        return LEADS
    found = look_at(cls)
    if found.leads_on or found.calls_others:
        return LEADS
    return CHANGES if found.makes else 0


def look_at_values(values: Sequence[Any]) -> int:
    """Tell what values may do: arrays, plain ones, and trees of these of bare classes.

    Who gets such values gets at nothing else by them. Objects that are no trees are
    such where their methods change nothing, and neither do those of what they have.
    """
    return _look_through(list(values))


def everything_in(values: Sequence[Any]) -> list[Any] | None:
    """List values, what they have, and the components of arrays.

    None if they lead somewhere.
    """
    found = list(values)
    if _look_through(found) & LEADS:
        return None
    for value in found:  # (which grows)
        if isinstance(value, NestedArray):
            found += value._items
        elif is_tensor(value):
            found.append(value._flat)
        elif not isinstance(value, ArrayBase):
            found += [getattr(value, name) for name in _held_by(type(value))]
    return found


def _look_through(left: list[Any]) -> int:
    """Tell what values may do, and append what they have."""
    found = 0
    others: set[int] = set()
    for value in left:  # (which grows)
        if is_state(value):
            continue
        kind = type(value)
        if kind is tuple:
            left += value
        elif kind is list:
            found |= GROWS
            left += value
        elif kind is dict:
            if not PLAIN.issuperset(map(type, value)):
                return LEADS
            found |= GROWS
            left += value.values()
        else:
            known = pytree.kind_of(kind)
            if known is None:
                if id(value) not in others:
                    if len(others) >= _FEW or not _is_unchanging(kind):
                        return LEADS
                    others.add(id(value))
                    left += [] if _held_by(kind) else vars(value).values()
                continue
            bare = look_at(kind)
            if bare.leads_on or bare.calls_others:
                return LEADS
            if kind.__dictoffset__ and not bare.fields.issuperset(vars(value)):
                return LEADS
            if bare.changes:
                found |= CHANGES
            if bare.makes:
                found |= MAKES
            left += known.parts(value, known.keys(value))
        if len(left) > _MOST:
            return LEADS
    if others:
        return LEADS if found & (CHANGES | MAKES) else found | HOLDS
    return found


def _held_by(cls: type[Any]) -> tuple[str, ...]:
    """Return the attributes with arrays of what only known methods change.

    Objects of this package are such, if their class says so.
    """
    names: tuple[str, ...] = getattr(cls.__base__, "__dict__", {}).get(
        "_holds_arrays_in", ()
    )
    return () if is_own(cls) else names


def _is_unchanging(cls: type[Any]) -> bool:
    """Tell whether methods of objects that are no trees change nothing, and lead on."""
    if not (is_own(cls) and cls.__dictoffset__):
        return bool(_held_by(cls))
    bare = look_at(cls)
    return not (bare.leads_on or bare.changes)
