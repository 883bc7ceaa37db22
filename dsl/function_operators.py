"""The operators that are functions of the public interface: `**` and `@`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumijit import promotion
from lumijit.base import ArrayBase
from lumijit.functions.matrices import matmul
from lumijit.functions.transcendental import power
from lumijit.operators import in_place


def _operator(function: Callable[[Any, Any], Any], name: str) -> Callable[..., Any]:
    def operator(self: Any, other: Any) -> Any:
        if not promotion.is_convertible(other):
            return NotImplemented
        return function(self, other)

    operator.__name__ = operator.__qualname__ = name
    return operator


def install() -> None:
    """Give all arrays these operators."""
    for stem, function in (("pow", power), ("matmul", matmul)):
        forward = _operator(function, f"__{stem}__")
        backward = _operator(_swapped(function), f"__r{stem}__")
        setattr(ArrayBase, f"__{stem}__", forward)
        setattr(ArrayBase, f"__r{stem}__", backward)
        update = in_place(forward, is_by_entry=function is power)
        setattr(ArrayBase, f"__i{stem}__", update)


def _swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(b, a)
