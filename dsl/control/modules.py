"""The variables of modules that code mentions, wherever it gets the modules from.

A module that is reached (from a variable, an attribute, an item, or as a function
imports it) has its variables watched whose names any code mentions, as nobody knows of
which object an attribute is asked. Of the module that a function is in, its own names
count. Owns which names these are; the walk is up to `reachability`.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable
from importlib.util import resolve_name
from types import FunctionType, ModuleType
from typing import Any

from lumijit.control.bytecode import (
    PLAIN,
    Facts,
    globals_of,
    imports_of,
    is_users,
)
from lumijit.control.locations import Globals
from lumijit.control.sameness import MISSING

Space = dict[str, Any]
_NAMED = (type, ModuleType, FunctionType)


class Modules:
    """The modules that are reached, and the names that code mentions.

    Those of a construct `around` this one are reached from here, too. If it
    `notes_constants`, variables of plain values are found, and those that a recording
    may leave something in.
    """

    def __init__(self, around: Modules | None, notes_constants: bool) -> None:
        self._reached: dict[int, Space] = dict(around._reached) if around else {}
        self._notes_constants = notes_constants
        self._names: dict[str, None] = {}
        self._may_be_any = False
        # Of each module with functions that are reached, the names of its variables.
        self._own: dict[int, tuple[Space, dict[str, None]]] = {}
        self._stored: set[str] = set()
        # What is watched in any case.
        self._placed: dict[int, set[str]] = {}

    def reach(self, module: ModuleType) -> list[Globals]:
        """Return what to watch of a module that wasn't reached before."""
        space = vars(module)
        if id(space) in self._reached or not is_users(space.get("__name__") or ""):
            return []
        self._reached[id(space)] = space
        # (What there is of other names, a function of its may tell.)
        return self._watched(space, [*self._names, "__getattr__"], self._stored)

    def mention(self, facts: Facts, namespace: Space) -> list[Globals]:
        """Return what to watch as a function in a module mentions names."""
        names, own_names = facts.names, facts.globals
        stored = own_names if facts.stores_globals else ()
        found = self._watched(namespace, own_names, stored)
        was_any, known = self._may_be_any, self._names
        if self._notes_constants:
            self._may_be_any |= facts.computes_names
            _, own = self._own.setdefault(id(namespace), (namespace, {}))
            own.update(dict.fromkeys(globals_of(facts.code)))
        known.update(dict.fromkeys(names))
        self._stored.update(facts.attributes)
        for space in list(self._reached.values()):
            if self._may_be_any and not was_any:
                found += self._watched(space, known, self._stored)
            elif space is not namespace:
                found += self._watched(space, names, facts.attributes)
            elif len(own_names) < len(names):
                others = [name for name in names if name not in own_names]
                found += self._watched(space, others, facts.attributes)
        return found

    def note(self, names: dict[str, None], stored: frozenset[str]) -> list[Globals]:
        """Return what to watch as names are mentioned in code that has no module."""
        self._names.update(names)
        self._stored.update(stored)
        spaces = list(self._reached.values())
        return [g for space in spaces for g in self._watched(space, names, stored)]

    def _watched(
        self, space: Space, names: Iterable[str], stored: Container[str] = ()
    ) -> list[Globals]:
        if self._may_be_any and id(space) in self._reached:
            names = dict.fromkeys([*names, *_variables(space)])
        placed = self._placed.setdefault(id(space), set())
        found = []
        for name in names:
            is_plain = name not in stored and type(space.get(name, MISSING)) in PLAIN
            if not is_plain and name not in placed:
                found.append(name)
        placed.update(found)
        return [Globals(space, tuple(found))] if found else []

    def plain(self) -> tuple[list[Globals], list[Globals]]:
        """Return variables of plain values: those that code may assign, and others."""
        spaces = {key: (space, self._names) for key, space in self._reached.items()}
        places, constants = [], []
        for space, asked in (self._own | spaces).values():
            placed = self._placed.get(id(space), ())
            is_reached = id(space) in self._reached
            others = _variables(space) if is_reached and self._may_be_any else []
            stored, rest = [], []
            for name in dict.fromkeys([*asked, *others]):
                if name in placed:
                    continue
                if is_reached and name in self._stored:
                    # (Also one that isn't there yet.)
                    stored.append(name)
                elif name in space:
                    rest.append(name)
            places += [Globals(space, tuple(stored))] if stored else []
            constants += [Globals(space, tuple(rest))] if rest else []
        return places, constants


def _variables(space: Space) -> list[str]:
    """List the variables of a module but functions, classes and what Python adds."""
    found = [name for name in space if not name.startswith("__")]
    return [name for name in found if not isinstance(space[name], _NAMED)]


def imported(facts: Facts, namespace: Space) -> list[ModuleType]:
    """List the modules that a function imports itself, and those around them."""
    found: dict[str, None] = {}
    for level, name in imports_of(facts.code):
        package = namespace.get("__package__") or ""
        try:
            full = resolve_name("." * level + name, package) if level else name
        except ImportError:
            continue
        parts = full.split(".")
        found.update({".".join(parts[: k + 1]): None for k in range(len(parts))})
    return [sys.modules[name] for name in found if name in sys.modules]
