"""What names of a function mean where its rewriting depends on that.

The names are those of globals, builtins and closure. Questions and answers are noted:
what was written for a function serves another one with the same code, a nested function
that is made again, if all answers are the same there.
"""

from __future__ import annotations

import builtins
import dataclasses
import sys
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

from lumijit.syntax.hints import hint

Path = tuple[str, ...]
_MISSING: Final = object()
_OURS: Final = "lumijit."
# Builtins that change their arguments, write, or call what they are given.
_ACTING: Final = frozenset((next, setattr, delattr, exec, eval, print, map, filter))


class Meanings:
    """Answers by what the names of one function mean now."""

    def __init__(self, function: FunctionType) -> None:
        cells = zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        )
        self._cells = dict(cells)
        self._spaces = (function.__globals__, vars(builtins))
        #: By the method that was asked, and for what.
        self.answers: dict[tuple[str, Path], bool] = {}

    def agree_with(self, answers: Mapping[tuple[str, Path], bool]) -> bool:
        """Tell whether questions asked for another function have the same answers."""
        return all(
            getattr(self, question)(path) is answer
            for (question, path), answer in answers.items()
        )

    def is_hint(self, path: Path) -> bool:
        """Tell whether `a.b.c` is `lumijit.hint`, or nothing and called so."""
        root, *attributes = path
        value = self._value(root)
        if value is _MISSING:
            found = path[-1] == "hint"
        else:
            for attribute in attributes[:-1]:
                value = getattr(value, attribute, None)
            if attributes:
                found = value is None or getattr(value, attributes[-1], None) is hint
            else:
                found = value is hint
        return self._note("is_hint", path, found)

    def is_harmless(self, path: Path) -> bool:
        """Tell whether `a.b.c` is a class or a function that changes no object."""
        root, *attributes = path
        value = self._value(root)
        for attribute in attributes:
            value = getattr(value, attribute, None)
        return self._note("is_harmless", path, _is_harmless(value))

    def is_range(self, path: Path) -> bool:
        """Tell whether a name means Python's own `range`."""
        return self._note("is_range", path, self._value(*path) is builtins.range)

    def _note(self, question: str, path: Path, answer: bool) -> bool:
        self.answers[question, path] = answer
        return answer

    def _value(self, name: str) -> Any:
        if name in self._cells:
            try:
                return self._cells[name].cell_contents
            except ValueError:  # It is still empty.
                return _MISSING
        for space in self._spaces:
            if name in space:
                return space[name]
        return _MISSING


def _is_harmless(value: Any) -> bool:
    module = getattr(value, "__module__", None) or ""
    if isinstance(value, type):
        is_generated = dataclasses.is_dataclass(value)
        is_generated &= not hasattr(value, "__post_init__")
        made_by_code = hasattr(getattr(value, "__init__", None), "__code__")
        made_by_code &= not is_generated
        return value not in _ACTING and (module.startswith(_OURS) or not made_by_code)
    if isinstance(value, BuiltinFunctionType):
        return value not in _ACTING
    # (Functions of compiled modules are of another type than Python's.)
    if not (module.startswith(_OURS) and hasattr(value, "__qualname__")):
        return False
    # What returns nothing is there for what it does, and what takes functions calls
    # them. Modules with other functions that change something say so.
    if getattr(sys.modules.get(module), "HAS_EFFECTS", False):
        return False
    types = getattr(value, "__annotations__", {})
    takes_functions = any("Callable" in str(kind) for kind in types.values())
    return str(types.get("return")) != "None" and not takes_functions
