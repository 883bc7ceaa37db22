"""Which line of a program assigns an attribute or variable, as far as its code tells.

Owns the search through the code of functions, for messages only.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from lumijit.control.bytecode import MUTATORS, codes_in
from lumijit.runtime.errors import is_internal

_STORES = ("STORE_ATTR", "DELETE_ATTR", "STORE_DEREF", "STORE_GLOBAL")
_CHANGES = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
_CONSTRUCTORS = ("__init__", "__new__", "__post_init__")


def assignment(
    names: Sequence[str],
    functions: Iterable[FunctionType],
    methods: Sequence[FunctionType],
) -> str:
    """Return `file:line in function` where one of some names is changed, or "".

    `names` go from the entry that changed outwards. Assignments count most, then
    lines that change what a name holds, then those that mention it. Searched are
    functions and the methods that they mention; if that is in vain, all methods.
    """
    called = [f for f in functions if f.__name__ not in _CONSTRUCTORS]
    rest = [m for m in methods if m not in called]
    for function in called:
        mentioned = {n for c in codes_in(function.__code__) for n in c.co_names}
        called += [m for m in rest if m.__name__ in mentioned]
        rest = [m for m in rest if m.__name__ not in mentioned]
    return _found(names, called) or _found(names, rest)


def _found(names: Sequence[str], functions: list[FunctionType]) -> str:
    codes = [c for f in functions for c in codes_in(f.__code__)]
    found = [(c, list(_lines(c))) for c in codes if not is_internal(c.co_filename)]
    for name in names:
        for is_fitting in (_assigns, _changes, _mentions):
            for code, lines in found:
                for line, operations in lines:
                    if is_fitting(name, operations):
                        return f"{code.co_filename}:{line} in {code.co_name}"
    return ""


def methods_of(cls: type[Any]) -> Iterator[FunctionType]:
    """List the functions of a class and its bases, besides constructors."""
    for base in cls.__mro__:
        for name, member in vars(base).items():
            function = getattr(member, "fget", getattr(member, "__func__", member))
            if isinstance(function, FunctionType) and name not in _CONSTRUCTORS:
                yield function


def _lines(code: CodeType) -> Iterator[tuple[int, list[tuple[str, Any]]]]:
    """List the lines of a function with their operations and operands."""
    starts = {start: line for start, _, line in code.co_lines() if line is not None}
    line, operations = code.co_firstlineno, list[tuple[str, Any]]()
    for instruction in dis.get_instructions(code):
        following = starts.get(instruction.offset, line)
        if following != line and operations:
            yield line, operations
            operations = []
        line = following
        operations.append((instruction.opname, instruction.argval))
    yield line, operations


def _assigns(name: str, operations: list[tuple[str, Any]]) -> bool:
    return any(op in _STORES and value == name for op, value in operations)


def _changes(name: str, operations: list[tuple[str, Any]]) -> bool:
    return _mentions(name, operations) and any(
        op in _CHANGES or value in MUTATORS for op, value in operations
    )


def _mentions(name: str, operations: list[tuple[str, Any]]) -> bool:
    return any(type(value) is str and value == name for _, value in operations)
