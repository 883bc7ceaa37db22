"""Array types of the `scalar` namespace: plain Python, one element at a time."""

from lumijit.array_types import namespace
from lumijit.spec import SCALAR

__all__, __getattr__, __dir__ = namespace(SCALAR, False, globals())
