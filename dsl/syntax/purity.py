"""Judging whether a loop condition may be evaluated more than once."""

from __future__ import annotations

from typing import Any

import gast

from lumijit.syntax.expressions import suspension_in
from lumijit.syntax.meanings import Meanings
from lumijit.syntax.names import NameScope, root_name


class Purity:
    """Knows which calls in a condition are free of side effects.

    Functions of modules and the like are taken to be; methods of variables, such
    as those of random number generators, may change their object.
    """

    def __init__(self, scope: NameScope, meanings: Meanings) -> None:
        """Ask `meanings` what names mean."""
        self.scope = scope
        self.meanings = meanings

    def is_pure(self, test: Any) -> bool:
        """Tell whether evaluating `test` again does nothing more."""
        if suspension_in(test) is not None:
            return False
        for part in gast.walk(test):
            if isinstance(part, (gast.NamedExpr, gast.Lambda)):
                return False
            if isinstance(part, gast.Call) and not self._is_pure_call(part):
                return False
        return True

    def _is_pure_call(self, node: Any) -> bool:
        root = root_name(node.func)
        if root is None or root in self.scope.local:
            return False
        if isinstance(node.func, gast.Name):
            return self.meanings.is_function((root,))
        return self.meanings.has_functions((root,))
