"""Vector math functions written as LLVM IR: no library calls, no branches.

Each function takes the builder, FLOAT32 or FLOAT64, and operands, and returns the
operand of its result (sincos and sincosh: two). The same generator serves packets
and single threads.
"""

from collections.abc import Callable
from typing import Any

from lumijit.compiler.emit.mathlib import (
    error,
    exponential,
    gamma,
    hyperbolic,
    power,
    trig,
)

_NAMES = {
    error: "erf erfc erfinv",
    exponential: "exp exp2 log log2",
    gamma: "lgamma",
    hyperbolic: "sinh cosh sincosh tanh asinh acosh atanh",
    power: "power cbrt",
    trig: "sin cos sincos tan cot asin acos atan atan2",
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(module, name)
    for module, names in _NAMES.items()
    for name in names.split()
}
