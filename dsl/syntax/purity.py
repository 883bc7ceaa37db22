"""Judging whether evaluating a part of a condition once more, or for all, shows."""

from __future__ import annotations

from typing import Any

import gast

from lumijit.syntax.meanings import Meanings
from lumijit.syntax.names import NameScope, dotted_name, suspension_in


class Purity:
    """Knows which calls in a condition are free of side effects.

    Classes, builtins and most of lumijit's functions are; the user's functions and
    methods of variables, such as those of random number generators, may change objects.
    """

    def __init__(self, scope: NameScope, meanings: Meanings) -> None:
        """Ask `meanings` what names mean."""
        self.scope = scope
        self.meanings = meanings

    def is_pure(self, test: Any) -> bool:
        """Tell whether evaluating `test` again does nothing more."""
        if suspension_in(test) or self.may_change_objects(test):
            return False
        refused = (gast.NamedExpr, gast.Lambda)
        return not any(isinstance(part, refused) for part in gast.walk(test))

    def may_change_objects(self, value: Any) -> bool:
        """Tell whether an expression has a call that may change an object."""
        calls = (part for part in gast.walk(value) if isinstance(part, gast.Call))
        return not all(self._is_pure_call(call) for call in calls)

    def _is_pure_call(self, node: Any) -> bool:
        path = dotted_name(node.func)
        if not path or path[0] in self.scope.local:
            return False
        return self.meanings.is_harmless(path)
