"""Which objects may change where expressions use them, without naming a method.

Properties, operators and what finds attributes run code that no call shows. Owns
telling whether that may change anything, from what values lead to and code names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from types import (
    BuiltinFunctionType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final

from lumijit import pytree
from lumijit.base import ArrayBase
from lumijit.control.bare_classes import is_operator, look_at
from lumijit.control.bytecode import (
    PLAIN,
    facts_of,
    functions_in,
    is_library,
    is_own,
    is_users,
)
from lumijit.control.inert import changes_nothing
from lumijit.runtime.class_facts import ClassFacts

_CALLED = (FunctionType, BuiltinFunctionType, MethodType)
_OTHER_CONTAINERS = (set, frozenset, deque)
# Builtins that change what they are given, or call it.
_ACTING: Final = frozenset(("next", "print", "map", "filter"))


def _are_quiet(cls: Any) -> bool:
    """Tell whether objects of a class run no code of a program, nor lead to some."""
    is_plain = cls in PLAIN or issubclass(cls, _CALLED)
    return is_plain or (issubclass(cls, ArrayBase) and not is_own(cls))


_quiet = ClassFacts(_are_quiet)


def may_act(function: Any, values: Sequence[Any]) -> bool:
    """Tell whether a function may change objects that it gets or finds.

    It calls nothing by name that does.
    """
    found = []
    for value in values:
        if not _quiet[value.__class__]:
            found.append(value)
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if not _quiet[value.__class__]:
            found.append(value)
    facts = facts_of(function.__code__)
    space = function.__globals__
    for name in facts.globals:
        value = space.get(name)
        if not (_quiet[value.__class__] or is_library(value)):
            found.append(value)
    return bool(found) and may_change_in_use(found, facts.names)


def may_change_in_use(
    values: Sequence[Any], names: Collection[str] | None = None
) -> bool:
    """Tell whether values may change though no method of theirs is called by its name.

    Calling an object may do that, an operator, or reading a property: one of `names`,
    or any.
    """
    called: set[str] = set()  # What code mentions that runs.
    while True:
        count = len(called)
        for cls in _classes_in(values, called.union(names or ())):
            if _acts(cls, names, called):
                return True
        if len(called) == count:
            return False


def _classes_in(values: Sequence[Any], names: set[str]) -> Iterator[type[Any]]:
    """Yield the classes of objects that values lead to, by some names of attributes."""
    left = list(values)
    seen: set[int] = set()
    for item in left:  # (which grows)
        if _quiet[item.__class__] or id(item) in seen or is_library(item):
            continue
        seen.add(id(item))
        if isinstance(item, type):
            yield item  # Whose objects an expression may make.
            continue
        kind = type(item)
        if kind is not ModuleType:
            yield kind
        known = pytree.kind_of(kind)
        if known is not None:
            left += known.parts(item, known.keys(item))
        elif isinstance(item, _OTHER_CONTAINERS):
            left += item
        space = getattr(item, "__dict__", {})
        if space:
            left += [space[name] for name in names if name in space]
        elif known is None and is_own(kind):
            slots = [name for name in names if _is_slot(kind, name)]
            left += [getattr(item, name, None) for name in slots]


def _is_slot(cls: type[Any], name: str) -> bool:
    return type(getattr(cls, name, None)) is MemberDescriptorType


def _acts(cls: type[Any], names: Collection[str] | None, called: set[str]) -> bool:
    """Tell whether code of a class that runs may change something; add what it names.

    Properties run that have `names`, all if that is None, and what is `called`.
    """
    if not any([is_own(c) for c in cls.__mro__]):
        # What is called of others may do anything.
        return any([callable(getattr(cls, name, None)) for name in called])
    bare = look_at(cls)
    is_used = names is None or not bare.run.isdisjoint(names)
    if not (called or bare.has_operators or (bare.run and is_used)):
        return False
    for base in filter(is_own, cls.__mro__):
        for name, member in vars(base).items():
            is_asked = type(member) is property if names is None else name in names
            is_run = is_asked or name in called or is_operator(name, member)
            if is_run and _may_change(member, called):
                return True
    return False


def _may_change(member: Any, called: set[str]) -> bool:
    """Tell whether code of a member may change something; add what it names."""
    functions = functions_in(member)
    if type(member) is property:
        functions = functions_in(member.fget)
    elif not functions:
        # (Other descriptors, such as cached properties, have functions.)
        held = (getattr(type(member), "__get__", None), getattr(member, "func", None))
        inner = [f for f in held if isinstance(f, FunctionType)]
        functions = [f for f in inner if is_users(f.__module__ or "")]
    for function in functions:
        if not changes_nothing(function):
            return True
        facts = facts_of(function.__code__)
        if facts.computes_names or not _ACTING.isdisjoint(facts.names):
            return True
        called.update(facts.names)
    return False
