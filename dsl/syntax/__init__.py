"""`@syntax`: ordinary Python control flow, vectorized."""

from lumijit.syntax.bindings import targets
from lumijit.syntax.decorator import syntax
from lumijit.syntax.hints import hint
from lumijit.syntax.undefined import Undefined, UndefinedVariableError

__all__ = ["Undefined", "UndefinedVariableError", "hint", "syntax", "targets"]
