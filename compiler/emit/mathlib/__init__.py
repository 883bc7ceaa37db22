"""Vector math functions written as LLVM IR: no library calls, no branches.

Each function takes the builder, FLOAT32 or FLOAT64, and operands, and returns the
operand of its result (sincos and sincosh: two). The same generator serves packets
and single threads.
"""

from collections.abc import Callable
from typing import Any

from lumijit.compiler.emit.mathlib.error import erf, erfc, erfinv
from lumijit.compiler.emit.mathlib.exponential import exp, exp2, log, log2
from lumijit.compiler.emit.mathlib.gamma import lgamma
from lumijit.compiler.emit.mathlib.hyperbolic import (
    acosh,
    asinh,
    atanh,
    cosh,
    sincosh,
    sinh,
    tanh,
)
from lumijit.compiler.emit.mathlib.power import cbrt, power
from lumijit.compiler.emit.mathlib.trig import (
    acos,
    asin,
    atan,
    atan2,
    cos,
    cot,
    sin,
    sincos,
    tan,
)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        sin,
        cos,
        sincos,
        tan,
        cot,
        asin,
        acos,
        atan,
        atan2,
        sinh,
        cosh,
        sincosh,
        tanh,
        asinh,
        acosh,
        atanh,
        exp,
        exp2,
        log,
        log2,
        power,
        cbrt,
        erf,
        erfc,
        erfinv,
        lgamma,
    )
}
