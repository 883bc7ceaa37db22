"""The version of lumijit and of the machine code that it generates.

Both are part of every cache key, so that code from another version is never run.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"

# Raise it with every change to what kernels look like (their arguments, how
# blocks are handed out, the math library): old entries of the disk cache must
# not be run by new launch code.
CODEGEN_VERSION: Final = 22
