"""Array types of the `cuda.ad` namespace, which track derivatives."""

from lumijit.array_types import namespace
from lumijit.spec import CUDA

__all__, __getattr__, __dir__ = namespace(CUDA, True, globals())
