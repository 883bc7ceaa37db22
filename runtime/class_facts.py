"""What is known of classes: found out once for each that stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")
_MOST: Final = 1024


class ClassFacts(dict[Any, T]):
    """What a function tells of classes, by class; read by subscript.

    Of classes in functions it is asked each time: their closures may hold arrays.
    """

    __slots__ = ("_find",)

    def __init__(self, find: Callable[[Any], T]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, cls: Any) -> T:
        found = self._find(cls)
        if "<locals>" not in cls.__qualname__:
            if len(self) >= _MOST:
                self.clear()
            self[cls] = found
        return found
