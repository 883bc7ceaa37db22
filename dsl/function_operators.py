"""The operators that are functions of the public interface: `**` and `@`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumijit import promotion
from lumijit.base import ArrayBase
from lumijit.functions.transcendental import power
from lumijit.functions.vectors import dot
from lumijit.runtime.errors import ArrayTypeError
from lumijit.traits import is_special_v


def _operator(function: Callable[[Any, Any], Any], name: str) -> Callable[..., Any]:
    def operator(self: Any, other: Any) -> Any:
        if not promotion.is_convertible(other):
            return NotImplemented
        return function(self, other)

    operator.__name__ = operator.__qualname__ = name
    return operator


def _product(a: Any, b: Any) -> Any:
    """Dot product, of vectors only."""
    if is_special_v(a) or is_special_v(b):
        raise ArrayTypeError(
            "operator @",
            f"not defined for {type(a).__name__!r} and {type(b).__name__!r}",
            "use * for products of numbers, or lumijit.dot.",
        )
    return dot(a, b)


def install() -> None:
    """Give all arrays these operators."""
    for stem, function in (("pow", power), ("matmul", _product)):
        forward = _operator(function, f"__{stem}__")
        backward = _operator(_swapped(function), f"__r{stem}__")
        setattr(ArrayBase, f"__{stem}__", forward)
        setattr(ArrayBase, f"__r{stem}__", backward)


def _swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(b, a)
