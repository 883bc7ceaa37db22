"""Array types of the `llvm` namespace, compiled for the CPU."""

from lumijit.array_types import namespace
from lumijit.llvm import ad as ad
from lumijit.spec import LLVM

__all__, __getattr__, __dir__ = namespace(LLVM, False, globals())
