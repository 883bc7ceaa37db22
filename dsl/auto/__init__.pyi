# Array types of the backend in use. Written by `python -m tests.tools.stubs`.
from lumijit.auto import ad as ad
from lumijit.llvm import *
from lumijit.llvm import __all__ as __all__
