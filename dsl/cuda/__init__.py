"""Array types of the `cuda` namespace, compiled for NVIDIA's GPUs."""

from lumijit.array_types import namespace
from lumijit.cuda import ad as ad
from lumijit.spec import CUDA

__all__, __getattr__, __dir__ = namespace(CUDA, False, globals())
