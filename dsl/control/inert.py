"""Which functions can't leave anything behind, as far as their code tells.

Most bodies, conditions and branches are such, and what these get leads nowhere: nobody
has to watch them. Who must be watched, and how, is up to `watching`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.ir.effects import wrap
from lumijit.control.bare_classes import (
    CHANGES,
    GROWS,
    HOLDS,
    LEADS,
    MAKES,
    everything_in,
    look_at_class,
    look_at_values,
)
from lumijit.control.bytecode import (
    BY_NAME,
    MUTATORS,
    PLAIN,
    Facts,
    facts_of,
    has_attributes,
    has_defaults,
    holds_nothing,
    is_foreign,
    is_state,
    is_users,
)
from lumijit.control.met_arrays import Met
from lumijit.pytree import Parts

# What a function, with those that it calls, does: it meets arrays of others, changes
# something that isn't a local variable, may leave something behind in any case, or
# assigns something that isn't a local variable.
_MEETS, _CHANGES, _LEAVES, _STORES = 1, 2, 4, 8
_FEW = 32
_COMPILED = type(wrap)
_FUNCTIONS = (BuiltinFunctionType, _COMPILED)


class Inert:
    """Finds functions that can't leave anything behind, as far as their code tells.

    They use no objects but arrays, modules and functions of which the same holds, and
    if one of these uses arrays, none changes anything.
    """

    def __init__(self) -> None:
        # What the global names of code lead to.
        self.codes: dict[int, int] = {}
        self.count = 0
        # Functions in functions; of one that is being looked at, anything is expected.
        self.known: dict[int, int] = {}
        # What is met, and holds arrays or may.
        self.met: list[Any] = []

    def __call__(self, function: Any) -> bool:
        """Tell whether a function is one of these."""
        return _is_inert(self._look(function))

    def are_all(self, functions: Sequence[Any], values: Sequence[Any]) -> bool:
        """Tell whether all functions are, which get values with their methods."""
        known = look_at_values(values)
        if known & LEADS:
            return False
        changes = _CHANGES if known & CHANGES else 0
        if known & HOLDS:
            changes |= _MEETS
        return all([_is_inert(self._look(f) | changes) for f in functions])

    def met_only(self, functions: Sequence[Any], values: Sequence[Any]) -> Met | None:
        """Return the arrays that functions meet, if at most these change, in place.

        None if something else may be left behind, or if the functions get one of these.
        """
        if look_at_values(values) & (LEADS | CHANGES):
            return None
        for function in functions:
            if self._look(function) & (_LEAVES | _STORES):
                return None
        given, others = values, []
        if not all([type(v) in PLAIN or isinstance(v, FlatArray) for v in values]):
            parts = Parts(values)
            given = parts.leaves + parts.nested
            # Objects that are no trees are what they are inside as well.
            others = [v for v in parts.leaves if not is_state(v)]
        met = everything_in([*self.met, *others])
        if met is None:
            return None
        ids = {id(v) for v in met if isinstance(v, ArrayBase)}
        return Met(met) if ids.isdisjoint(map(id, given)) else None

    def are_still(self, functions: Sequence[Any], values: Sequence[Any]) -> bool:
        """Tell whether functions leave the trees that they get as they are.

        They assign nothing, and call no methods that do; what works in place changes
        arrays only.
        """
        found = 0
        for function in functions:
            found |= self._look(function)
        if found & (_LEAVES | _STORES):
            return False
        changes = CHANGES | GROWS if found & _CHANGES else CHANGES
        return not look_at_values(values) & (changes | LEADS)

    def changes_nothing(self, function: Any) -> bool:
        """Tell whether a function assigns and works in place nowhere."""
        return not self._look(function) & (_LEAVES | _CHANGES | _STORES)

    def _look(self, function: Any) -> int:
        if type(function) is not FunctionType:
            return 0 if _is_exported(function) else _LEAVES
        code = function.__code__
        closure = function.__closure__
        facts = facts_of(code)
        if facts.is_internal:
            is_open = bool(closure or function.__defaults__)
            return _LEAVES if is_open and not _is_exported(function) else 0
        found = self.codes.get(id(code), -1)
        if found < 0:
            found = self.codes[id(code)] = self._look_at_globals(function, facts)
        if has_defaults(function) or has_attributes(function):
            return _LEAVES
        if closure:
            if facts.rebinds:
                return _LEAVES
            for cell in closure:
                try:
                    value = cell.cell_contents
                except ValueError:
                    continue
                if type(value) not in PLAIN:
                    found |= self._look_at(value, facts)
        return found

    def others(self, callees: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """List the callees whose functions aren't of these.

        They get some values, which lead nowhere. Short: tracing fifty functions takes
        half a millisecond.
        """
        found = []
        last: CodeType | None = None
        for callee in callees:
            function = callee.function
            if type(function) is not FunctionType:
                if not self._leaves_alone(callee, values):
                    found.append(callee)
                continue
            code, is_one = function.__code__, True
            if code is not last:
                is_one = self(function)
                last = code if is_one and not facts_of(code).rebinds else None
            elif has_defaults(function):
                is_one = False
            else:
                for cell in function.__closure__ or ():
                    try:
                        if type(cell.cell_contents) in PLAIN:
                            continue
                    except ValueError:
                        continue
                    is_one = self(function)
                    break
            if not is_one:
                found.append(callee)
        return found

    def _leaves_alone(self, callee: Any, values: Sequence[Any]) -> bool:
        """Tell whether a callee is one of these; what an instance has isn't copied."""
        *held, function = callee.roots
        if not held:
            return self.are_all((function,), values)
        (instance,) = held
        if look_at_values((instance, *values)) & (LEADS | CHANGES | MAKES):
            return False
        name = getattr(function, "__name__", "")
        is_method = getattr(type(instance), name, None) is function
        return is_method or _is_inert(self._look(function) | _MEETS)

    def _look_at_globals(self, function: FunctionType, facts: Facts) -> int:
        self.count += 1
        if facts.stores_globals or facts.imports or self.count > _FEW:
            return _LEAVES
        found = _CHANGES if facts.changes else 0
        if facts.stores:
            found |= _STORES
        namespace = function.__globals__
        for name in facts.globals:
            value = namespace.get(name)
            if type(value) not in PLAIN:
                found |= self._look_at(value, facts)
        return found

    def _look_inside(self, function: FunctionType) -> int:
        if facts_of(function.__code__).is_internal:
            return 0
        known = self.known.get(id(function), -1)
        if known < 0:
            self.known[id(function)] = _LEAVES
            known = self.known[id(function)] = self._look(function)
        return known

    def _look_at(self, value: Any, facts: Facts) -> int:
        """Tell what a function of these facts may do with a value."""
        if _is_mutator(value):
            return _LEAVES
        if type(value) is BuiltinFunctionType:
            value = value.__self__
            if value is None:
                return 0
        kind = type(value)
        if kind is FunctionType:
            return self._look_inside(value)
        if kind is _COMPILED and not is_foreign(value):
            return 0
        if isinstance(value, ArrayBase):
            self.met.append(value)
            return _MEETS
        if hasattr(kind, "_wraps_function"):
            return self._look_inside(value.__wrapped__)
        if isinstance(value, type):
            if not is_users(value.__module__):
                return 0
            known = look_at_class(value)
            if known & CHANGES:
                return _CHANGES | _STORES
            is_left = bool(known)
        elif kind is ModuleType:
            is_left = is_users(value.__name__)
        elif holds_nothing(kind):
            is_left = False
        elif look_at_values((value,)) & (LEADS | CHANGES | MAKES):
            # Methods change objects, such as generators of random numbers.
            is_left = True
        else:
            self.met.append(value)
            return _MEETS
        return _LEAVES if is_left else 0


def _is_mutator(value: Any) -> bool:
    """Tell whether a value changes what it is given, whatever code calls it.

    That is a function like `setattr`, or one that gets at attributes by their names;
    what users write is looked at.
    """
    kind = type(value)
    if kind is FunctionType:
        if not facts_of(value.__code__).is_internal:
            return False
    elif kind not in _FUNCTIONS and not isinstance(value, type):
        return False
    return value.__name__ in MUTATORS or value.__name__ in BY_NAME


def _is_exported(function: Any) -> bool:
    """Tell whether a function is one that users import: it holds nothing of theirs."""
    if is_foreign(function):
        return False
    name = getattr(function, "__name__", "")
    return getattr(sys.modules["lumijit"], name, None) is function


def _is_inert(found: int) -> bool:
    return not found & _LEAVES and found & (_MEETS | _CHANGES) != _MEETS | _CHANGES


def are_still(functions: Sequence[Any], values: Sequence[Any]) -> bool:
    """Tell whether functions leave the trees that they get as they are."""
    return Inert().are_still(functions, values)


def changes_nothing(function: Any) -> bool:
    """Tell whether a function assigns and works in place nowhere."""
    return Inert().changes_nothing(function)
