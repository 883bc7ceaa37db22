"""The `hint` function, and finding calls of it in the source of a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import gast

from lumijit.syntax.source import Source

T = TypeVar("T")

_FORWARDED = ("mode", "label", "strict", "compress", "max_iterations")
_LOOP_ONLY = ("compress", "max_iterations")


def hint(
    arg: T,
    /,
    *,
    mode: Literal["scalar", "evaluated", "symbolic"] | None = None,
    max_iterations: int | None = None,
    label: str | None = None,
    include: Sequence[object] | None = None,
    exclude: Sequence[object] | None = None,
    strict: bool = True,
    compress: bool | None = None,
) -> T:
    """Return `arg`; around a condition, tell `@syntax` how to vectorize it.

    Args:
        arg: The condition of an `if` or `while`, or the `range(...)` of a `for`.
        mode: Overrides how the construct is compiled.
        max_iterations: Upper bound on the number of iterations of a loop.
        label: A name for the construct in the generated code.
        include: Local variables that must be state.
        exclude: Local variables that must not be state.
        strict: Whether state variables are checked for consistency.
        compress: Whether an evaluated loop drops finished elements.

    Returns:
        `arg`, unchanged.

    >>> hint(3 < 4, label="always")
    True
    """
    return arg


@dataclass
class Hints:
    """The hints given to one construct."""

    #: Keyword arguments for the primitive, as expressions.
    keywords: dict[str, Any] = field(default_factory=dict)
    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    @property
    def mode(self) -> Any:
        """The expression that chooses the mode, or `None`."""
        return self.keywords.get("mode")


class HintReader:
    """Recognises `hint(...)` around conditions of one function."""

    def __init__(self, source: Source, namespace: Mapping[str, Any]) -> None:
        """Look names up in `namespace`: the function's globals and closure."""
        self.source = source
        self.namespace = namespace

    def split(self, node: Any, loop: bool) -> tuple[Any, Hints]:
        """Return the condition inside a hint and what the hint says."""
        if not isinstance(node, gast.Call) or not self._is_hint(node.func):
            return node, Hints()
        if len(node.args) != 1 or isinstance(node.args[0], gast.Starred):
            raise self.source.error(node, "hint() takes exactly one condition")
        hints = Hints()
        for keyword in node.keywords:
            self._read_keyword(hints, keyword, loop)
        return node.args[0], hints

    def _read_keyword(self, hints: Hints, keyword: Any, loop: bool) -> None:
        name, value = keyword.arg, keyword.value
        if name in ("include", "exclude"):
            setattr(hints, name, self._variables(name, value))
        elif name in _LOOP_ONLY and not loop:
            raise self.source.error(
                value, f"hint(): {name!r} applies to loops only", "remove it."
            )
        elif name in _FORWARDED:
            if not (isinstance(value, gast.Constant) and value.value is None):
                hints.keywords[name] = value
        else:
            known = ", ".join((*_FORWARDED, "include", "exclude"))
            raise self.source.error(
                value, f"hint(): unknown keyword {name!r}", f"use one of {known}."
            )

    def _variables(self, keyword: str, value: Any) -> frozenset[str]:
        if isinstance(value, gast.Constant) and value.value is None:
            return frozenset()
        listed = isinstance(value, (gast.List, gast.Tuple))
        if not listed or not all(isinstance(e, gast.Name) for e in value.elts):
            raise self.source.error(
                value,
                f"hint(): {keyword!r} must be a list of local variables",
                f"write it as {keyword}=[x, y].",
            )
        return frozenset(e.id for e in value.elts)

    def _is_hint(self, function: Any) -> bool:
        if isinstance(function, gast.Name):
            missing = function.id == "hint"
            return self.namespace.get(function.id, hint if missing else None) is hint
        if isinstance(function, gast.Attribute) and function.attr == "hint":
            owner: Any = function.value
            path = []
            while isinstance(owner, gast.Attribute):
                path.append(owner.attr)
                owner = owner.value
            if not isinstance(owner, gast.Name):
                return False
            value = self.namespace.get(owner.id)
            for attribute in reversed(path):
                value = getattr(value, attribute, None)
            return value is None or getattr(value, "hint", None) is hint
        return False
