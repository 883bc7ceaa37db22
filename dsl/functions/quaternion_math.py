"""What operations on quaternions are: one rule for each operation.

A rule takes the parts (x, y, z, w) of its operands, w the real one, as flat arrays of
floats, and returns those of its result, or one array where that is real. Real operands
of sums, products and quotients have one part.

A function f of complex numbers is one of quaternions, too: in the plane of the real
numbers and of the direction n of the imaginary part v, where n n = -1, quaternions
are complex numbers w + n |v|. So f(w + v) is Re f(w + i |v|) + n Im f(w + i |v|).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import mathematics as ma
from lumijit.compiler.ir.ops.record import Op
from lumijit.constants import smallest
from lumijit.functions import complex_math
from lumijit.functions.elementwise import abs as abs_
from lumijit.functions.elementwise import fma, maximum, minimum, rcp
from lumijit.functions.selection import select
from lumijit.functions.transcendental import hypot
from lumijit.functions.vectors import dot_items

Parts = tuple[Any, ...]


def add(a: Parts, b: Parts) -> Parts:
    """Sum."""
    if len(a) == 1:
        a, b = b, a
    if len(b) == 1:
        return (*a[:3], a[3] + b[0])
    return tuple(p + q for p, q in zip(a, b, strict=True))


def subtract(a: Parts, b: Parts) -> Parts:
    """Difference."""
    return add(a, negate(b))


def negate(a: Parts) -> Parts:
    """Opposite."""
    return tuple(-p for p in a)


def conjugate(a: Parts) -> Parts:
    """The imaginary parts with the other sign."""
    x, y, z, w = a
    return -x, -y, -z, w


def multiply(a: Parts, b: Parts) -> Parts:
    """Hamilton product, each product rounded, so that q * conj(q) is real."""
    if len(a) == 1:
        a, b = b, a
    if len(b) == 1:
        return tuple(p * b[0] for p in a)
    (x, y, z, w), (p, q, r, s) = a, b
    return (
        x * s + w * p + y * r - z * q,
        y * s + w * q + z * p - x * r,
        z * s + w * r + x * q - y * p,
        w * s - (x * p + y * q + z * r),
    )


def fused(a: Parts, b: Parts, c: Parts) -> Parts:
    """a * b + c with one rounding less for each product than operators have."""
    (x, y, z, w), (p, q, r, s) = a, b
    return (
        fma(x, s, fma(w, p, fma(y, r, fma(-z, q, c[0])))),
        fma(y, s, fma(w, q, fma(z, p, fma(-x, r, c[1])))),
        fma(z, s, fma(w, r, fma(x, q, fma(-y, p, c[2])))),
        fma(w, s, fma(-x, p, fma(-y, q, fma(-z, r, c[3])))),
    )


def magnitude(a: Parts) -> Any:
    """Absolute value."""
    return _length(*a)


def _length(first: Any, *others: Any) -> Any:
    """Return the length of a vector.

    The largest component comes first: the length of two that are 0 has no derivative.
    """
    rest = []
    for part in others:
        is_larger = abs_(part) > abs_(first)
        rest.append(select(is_larger, first, part))
        first = select(is_larger, part, first)
    for part in rest:
        first = hypot(first, part)
    return first


def reciprocal(a: Parts) -> Parts:
    """1 / q, the conjugate divided by the squared magnitude."""
    scale = rcp(dot_items(a, a))
    return tuple(p * scale for p in conjugate(a))


def divide(a: Parts, b: Parts) -> Parts:
    """Quotient a b⁻¹."""
    if len(b) == 1:
        return tuple(p / b[0] for p in a)
    return multiply(a, reciprocal(b))


def _planar(rule: Callable[..., Any], a: Parts, *others: Any) -> Parts:
    """Apply a rule of complex numbers in the plane of a quaternion.

    A real number lies in all planes: if the result isn't real (the root of -1), i is
    its direction.
    """
    *imaginary, w = a
    x, y, z = imaginary
    is_real = (x == 0) & (y == 0) & (z == 0)
    # Lengths have no derivative at zero.
    length = _length(select(is_real, 1, x), y, z)
    re, im = rule((w, select(is_real, 0, length)), *others)
    ratio = select(is_real, _slope(rule, w, *others), im / length)
    x, y, z = (p * ratio for p in imaginary)
    return x + select(is_real, im, 0), y, z, re


def _slope(rule: Callable[..., Any], w: Any, *others: Any) -> Any:
    """The derivative of a function at a real number, by a tiny imaginary step.

    It is that of the imaginary part of the result by that of the argument; nobody else
    asks for it, as the product of the two is zero.
    """
    if not type(w)._spec.is_diff:
        return 0
    tiny = smallest(type(w)) ** 0.5
    step = maximum(minimum(abs_(w), 1) * 2.0**-40, tiny)
    return rule((w, step), *others)[1] / step


def _extended(op: Op) -> Callable[[Parts], Parts]:
    """Return the rule of quaternions for an operation on complex numbers."""
    rule = complex_math.RULES[op]
    return lambda a: _planar(rule, a)


_log, _exp = _extended(ma.LOG), _extended(ma.EXP)


def raise_to(a: Parts, b: Parts) -> Parts:
    """a^b: e^(log(a) b), in the plane of a for a real exponent."""
    if len(b) == 1:
        zero = b[0] * 0
        return _planar(complex_math.raise_to, a, (b[0], zero))
    found = _exp(multiply(_log(a), b))
    is_zero = (a[0] == 0) & (a[1] == 0) & (a[2] == 0) & (a[3] == 0)
    limit = select(b[3] > 0, 0.0, math.nan)
    return tuple(select(is_zero, limit, p) for p in found)


_FUNCTIONS = (
    *(ar.SQRT, ar.RSQRT, ma.EXP, ma.EXP2, ma.LOG, ma.LOG2),
    *(ma.SIN, ma.COS, ma.TAN, ma.ASIN, ma.ACOS, ma.ATAN),
    *(ma.SINH, ma.COSH, ma.TANH, ma.ASINH, ma.ACOSH, ma.ATANH),
)
RULES: dict[Op, Callable[..., Any]] = {
    ar.ADD: add,
    ar.SUB: subtract,
    ar.MUL: multiply,
    ar.DIV: divide,
    ar.NEG: negate,
    ar.ABS: magnitude,
    ar.FMA: fused,
    ar.RCP: reciprocal,
    ma.POWER: raise_to,
    **{op: _extended(op) for op in _FUNCTIONS},
}
# Here real operands have one part, and a zero costs nothing.
TAKE_REALS = (ar.ADD, ar.SUB, ar.MUL, ar.DIV, ma.POWER)
