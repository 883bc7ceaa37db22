# Array types of the backend in use. Written by `python -m tests.tools.stubs`.

from lumijit.llvm.ad import *
from lumijit.llvm.ad import __all__ as __all__
