"""`@syntax`: ordinary Python control flow, vectorized."""

from lumijit.rewriting.decorator import syntax
from lumijit.rewriting.hinting import hint
from lumijit.rewriting.hooks import targets
from lumijit.rewriting.undefined import Undefined, UndefinedVariableError

__all__ = ["Undefined", "UndefinedVariableError", "hint", "syntax", "targets"]
