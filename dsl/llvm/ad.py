"""Array types of the `llvm.ad` namespace, which track derivatives."""

from lumijit.array_types import namespace
from lumijit.spec import LLVM

__all__, __getattr__, __dir__ = namespace(LLVM, True, globals())
