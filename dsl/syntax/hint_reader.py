"""Finding calls of `hint` in the source of a function, and what they say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gast

from lumijit.syntax.meanings import Meanings
from lumijit.syntax.names import dotted_name
from lumijit.syntax.source import Source

_FORWARDED = ("mode", "label", "strict", "compress", "max_iterations")
_LOOP_ONLY = ("compress", "max_iterations")


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

    def __init__(self, source: Source, meanings: Meanings) -> None:
        """Ask `meanings` what names mean."""
        self.source = source
        self.meanings = meanings

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
        path = dotted_name(function)
        is_named_so = len(path) == 1 or path[-1:] == ("hint",)
        return is_named_so and self.meanings.is_hint(path)
