"""What operations on complex numbers are: one rule for each operation.

A rule takes the real and imaginary parts of its operands, as flat arrays of floats,
and returns the parts of its result, or one array where that is real. The imaginary
part of a real operand is None in sums, products and quotients, so that it takes part
in no rounding and turns no infinity into NaN.

Sources: W. Kahan, "Branch cuts for complex elementary functions" (1987), for roots,
inverse functions and tangents; R. L. Smith, "Algorithm 116: Complex division" (1962).
Branch cuts lie as in C and Python; on them, the sign of a zero says on which side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lumijit.base import Array
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import mathematics as ma
from lumijit.compiler.ir.ops.record import Op
from lumijit.constants import largest, smallest
from lumijit.functions.elementwise import abs as abs_
from lumijit.functions.elementwise import copysign, fma, maximum, minimum, sqrt
from lumijit.functions.selection import isinf, isnan, select
from lumijit.functions.transcendental import (
    asinh,
    atan2,
    cos,
    exp,
    exp2,
    hypot,
    log,
    power,
    sin,
    sincos,
    sincosh,
    sinh,
    tan,
)

Parts = tuple[Any, Any]
_LOG_TWO = math.log(2)


def add(x: Parts, y: Parts) -> Parts:
    """Sum; zeros keep their sign beside a real operand."""
    if x[1] is None or y[1] is None:
        return x[0] + y[0], y[1] if x[1] is None else x[1]
    return x[0] + y[0], x[1] + y[1]


def subtract(x: Parts, y: Parts) -> Parts:
    """Difference."""
    return add(x, (-y[0], None if y[1] is None else -y[1]))


def multiply(x: Parts, y: Parts) -> Parts:
    """Product, each product of parts rounded, so that z * conj(z) is real."""
    if x[1] is None:
        x, y = y, x
    if y[1] is None:
        return x[0] * y[0], x[1] * y[0]
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def divide(x: Parts, y: Parts) -> Parts:
    """Quotient by Smith's method: below half of the largest number, no overflow."""
    (a, b), (c, d) = x, y
    if d is None:
        return a / c, b / c
    if b is None:
        b = a * 0
    is_wide = abs_(c) >= abs_(d)
    high, low = select(is_wide, c, d), select(is_wide, d, c)
    ratio = low / high
    divisor = fma(low, ratio, high)
    u, v = select(is_wide, a, b), select(is_wide, b, a)
    imag = fma(-u, ratio, v) / divisor
    return fma(v, ratio, u) / divisor, select(is_wide, imag, -imag)


def fused(x: Parts, y: Parts, z: Parts) -> Parts:
    """x * y + z with one rounding less for each part than operators have."""
    (a, b), (c, d) = x, y
    return fma(a, c, fma(-b, d, z[0])), fma(a, d, fma(b, c, z[1]))


def negate(x: Parts) -> Parts:
    """Opposite."""
    return -x[0], -x[1]


def magnitude(x: Parts) -> Array:
    """Absolute value; infinite if one part is."""
    a, b = x
    return select(isinf(a) | isinf(b), math.inf, hypot(a, b))


def reciprocal(x: Parts) -> Parts:
    """1 / z."""
    one = type(x[0])(1)
    return divide((one, None), x)


def _scales(x: Parts) -> Callable[[float, float, float], Any]:
    """Return a choice between values for large, for denormal and for other numbers.

    Large numbers are scaled down, so that their magnitude doesn't overflow, and
    denormal ones up, so that it has all its digits.
    """
    top = maximum(abs_(x[0]), abs_(x[1]))
    cls: Any = type(top)
    is_large = top > largest(cls) / 16
    is_small = top < smallest(cls) * 16

    def choose(large: float, small: float, other: float) -> Any:
        return select(is_large, cls(large), select(is_small, cls(small), other))

    return choose


def square_root(x: Parts) -> Parts:
    """Square root with a real part >= 0."""
    choose = _scales(x)
    factor, back = choose(2.0**-4, 2.0**54, 1), choose(2.0**2, 2.0**-27, 1)
    a, b = x[0] * factor, x[1] * factor
    is_right = (a >= 0) | isnan(a)
    side = copysign(1.0, b)
    root = sqrt((magnitude((a, b)) + select(is_right, a, -a)) * 0.5)
    other = select(root == 0, b, b / (root * 2))
    re = select(is_right, root, other * side) * back
    im = select(is_right, other, root * side) * back
    is_far = isinf(x[1])
    # Without a real part, zero divides nothing.
    is_zero = (x[0] == 0) & (x[1] == 0)
    re = select(is_far, math.inf, select(is_zero, 0.0, re))
    return re, select(is_far | is_zero, x[1], im)


def reciprocal_root(x: Parts) -> Parts:
    """1 / sqrt(z)."""
    return reciprocal(square_root(x))


def _turned(x: Parts) -> Parts:
    """i z."""
    return -x[1], x[0]


def _turned_back(x: Parts) -> Parts:
    """-i z."""
    return x[1], -x[0]


def _rotated(rule: Callable[[Parts], Parts]) -> Callable[[Parts], Parts]:
    """Return z -> -i f(i z), which is what f is for the other family."""
    return lambda x: _turned_back(rule(_turned(x)))


def _kept(zero: Any, value: Any) -> Any:
    """Return a value, but where it is lost to infinity or NaN the zero it is made of.

    Elsewhere the value stays: its derivative isn't that of the zero.
    """
    return select((zero == 0) & isnan(value), zero, value)


def _scaled(exponential: Callable[[Any], Any], a: Any, angle: Parts) -> Parts:
    """e^a times (cos, sin), as two factors that overflow no earlier than the result."""
    half = exponential(a * 0.5)
    re, im = half * angle[0] * half, half * angle[1] * half
    # Of e^-inf nothing is left, wherever it points to; a real number stays real.
    is_gone = a == -math.inf
    re = select(is_gone & isnan(re), 0.0, re)
    im = select(is_gone & isnan(im), 0.0, im)
    return re, _kept(angle[1], im)


def exponential(x: Parts) -> Parts:
    """e^z."""
    sine, cosine = sincos(x[1])
    return _scaled(exp, x[0], (cosine, sine))


# log(2) as a number of few digits and the rest.
_LOG_TWO_HIGH = 0.693359375
_LOG_TWO_LOW = -2.12194440054690583e-4


def exponential2(x: Parts) -> Parts:
    """2^z: the angle is the imaginary part times log(2), with its rounding error."""
    b = x[1]
    angle = b * _LOG_TWO_HIGH
    rest = fma(b, _LOG_TWO_HIGH, -angle) + b * _LOG_TWO_LOW
    sine, cosine = sincos(angle)
    small_sine, small_cosine = sincos(rest)
    turned = (
        cosine * small_cosine - sine * small_sine,
        sine * small_cosine + cosine * small_sine,
    )
    return _scaled(exp2, x[0], turned)


def _log1p(x: Any) -> Any:
    """log(1 + x): the logarithm of what 1 + x rounds to, times what that changed."""
    wide = x + 1.0
    rest = wide - 1.0
    is_kept = (rest == 0) | isinf(x)
    return select(is_kept, x, log(wide) * (x / select(is_kept, 1.0, rest)))


def _log_magnitude(x: Parts) -> Any:
    """log |z|, which near 1 depends on digits that |z| doesn't have."""
    a, b = x
    # Signs stay: at 0, an absolute value has no second derivative.
    is_lower = abs_(a) < abs_(b)
    high, low = select(is_lower, b, a), select(is_lower, a, b)
    square, other = high * high, low * low
    lost = fma(high, high, -square) + fma(low, low, -other)
    near = _log1p(((square - 1.0) + other) + lost) * 0.5
    is_near = (abs_(high) > 0.5) & (abs_(high) < 2.0)
    choose = _scales(x)
    factor = choose(2.0**-4, 2.0**54, 1)
    size = magnitude((a * factor, b * factor))
    far = log(size) + choose(4 * _LOG_TWO, -54 * _LOG_TWO, 0)
    return select(is_near, near, far)


def argument(x: Parts) -> Any:
    """The angle to the positive real axis."""
    return atan2(x[1], x[0])


def logarithm(x: Parts) -> Parts:
    """log(z), with an imaginary part from -pi to pi."""
    return _log_magnitude(x), argument(x)


def logarithm2(x: Parts) -> Parts:
    """log2(z)."""
    return _log_magnitude(x) * (1 / _LOG_TWO), argument(x) * (1 / _LOG_TWO)


def raise_to(x: Parts, y: Parts) -> Parts:
    """x^y = e^(y log x); 0^y is 0 for a real part of y above 0, and 1 for y = 0."""
    (c, d), angle = y, argument(x)
    size, log_size = magnitude(x), _log_magnitude(x)
    sine, cosine = sincos(fma(d, log_size, c * angle))
    scale = power(size, c) * exp(-d * angle)
    is_zero, is_one = size == 0, (c == 0) & (d == 0)
    re = select(is_zero, select(c > 0, 0.0, math.nan), scale * cosine)
    im = select(is_zero, select(c > 0, 0.0, math.nan), scale * sine)
    # Elsewhere 1 is what comes out, with a derivative by y.
    is_one &= isnan(re) | isnan(im)
    return select(is_one, 1.0, re), select(is_one, 0.0, im)


def _times(x: Any, y: Any) -> Any:
    """Return a product in which zero beats infinity and NaN."""
    zero = copysign(0.0, x) * copysign(1.0, y)
    product = x * y
    return select(((x == 0) | (y == 0)) & isnan(product), zero, product)


def sine(x: Parts) -> Parts:
    """Sine: sin a cosh b + i cos a sinh b."""
    sin_a, cos_a = sincos(x[0])
    sinh_b, cosh_b = sincosh(x[1])
    return _times(sin_a, cosh_b), _times(cos_a, sinh_b)


def cosine(x: Parts) -> Parts:
    """Cosine: cos a cosh b - i sin a sinh b."""
    sin_a, cos_a = sincos(x[0])
    sinh_b, cosh_b = sincosh(x[1])
    return cos_a * cosh_b, -_times(sin_a, sinh_b)


def hyperbolic_tangent(x: Parts) -> Parts:
    """Hyperbolic tangent: of no use as a quotient near its poles (Kahan)."""
    a, b = x
    limit = 10.0 if a._spec.dtype.bits < 64 else 20.0
    tangent = tan(b)
    slope = fma(tangent, tangent, 1.0)
    s = sinh(maximum(-limit, minimum(limit, a)))
    divisor = fma(slope * s, s, 1.0)
    re = slope * s * sqrt(fma(s, s, 1.0)) / divisor
    is_far = abs_(a) > limit
    # tan b / (1 + tan^2 b) is half of sin 2b.
    vanishing = sin(b) * cos(b) * 4.0 * exp(abs_(a) * -2.0)
    is_gone = isinf(a)
    vanishing = select(is_gone & isnan(vanishing), copysign(0.0, b), vanishing)
    re = select(is_far, copysign(1.0, a), _kept(a, re))
    im = select(is_far, vanishing, tangent / divisor)
    return re, _kept(b, im)


def _roots(x: Parts) -> tuple[Parts, Parts, Any, Any]:
    """sqrt(1 - z), sqrt(1 + z), Re z and 0; for large z of z / 16, and log 16."""
    choose = _scales(x)
    factor = choose(2.0**-4, 1, 1)
    a, b = x[0] * factor, x[1] * factor
    rest = choose(4 * _LOG_TWO, 0, 0)
    return square_root((1.0 - a, -b)), square_root((1.0 + a, b)), a, rest


def _area(x: Any, rest: Any) -> Any:
    """asinh of a number, or of a sixteenth of it and the logarithm of 16."""
    return asinh(x) + copysign(rest, x)


def _far(x: Parts) -> tuple[Any, Parts]:
    """Return which numbers are infinite, and finite ones in their directions."""
    is_far = isinf(x[0]) | isinf(x[1])
    a, b = (select(isinf(v), copysign(1.0, v), v * 0.0) for v in x)
    return is_far, (a, b)


def inverse_sine(x: Parts) -> Parts:
    """Inverse sine; cuts along the real axis beyond -1 and 1."""
    (p, q), (r, s), near, rest = _roots(x)
    is_far, (a, b) = _far(x)
    re = atan2(select(is_far, a, near), select(is_far, abs_(b), p * r - q * s))
    return re, select(is_far, copysign(math.inf, x[1]), _area(p * s - q * r, rest))


def inverse_cosine(x: Parts) -> Parts:
    """Inverse cosine; cuts along the real axis beyond -1 and 1."""
    (p, q), (r, s), _, rest = _roots(x)
    is_far, (a, b) = _far(x)
    re = select(is_far, atan2(abs_(b), a), atan2(p, r) * 2.0)
    return re, select(is_far, -copysign(math.inf, x[1]), _area(r * q - s * p, rest))


def inverse_hyperbolic_cosine(x: Parts) -> Parts:
    """Inverse hyperbolic cosine; a cut along the real axis below 1."""
    re, im = inverse_cosine(x)
    side = copysign(1.0, x[1])
    return im * -side, re * side


def inverse_hyperbolic_tangent(x: Parts) -> Parts:
    """Inverse hyperbolic tangent; cuts along the real axis beyond -1 and 1."""
    # The absolute value has no derivative at zero, an odd function does.
    side = copysign(1.0, x[0])
    a, b = x[0] * side, x[1]
    rest = 1.0 - a
    re = _log1p(a * 4.0 / fma(b, b, rest * rest)) * 0.25
    im = atan2(b * 2.0, fma(-b, b, rest * (1.0 + a))) * 0.5
    # 1 / z is all that is left of numbers whose squares overflow.
    is_far = maximum(a, abs_(b)) > math.sqrt(largest(type(a))) / 4
    small = reciprocal((a, b))[0]
    small = select(isinf(a) | isinf(b), 0.0, small)
    re = select(is_far, small, re)
    im = select(is_far, copysign(math.pi / 2, b), im)
    return re * side, im


RULES: dict[Op, Callable[..., Any]] = {
    ar.ADD: add,
    ar.SUB: subtract,
    ar.MUL: multiply,
    ar.DIV: divide,
    ar.NEG: negate,
    ar.ABS: magnitude,
    ar.FMA: fused,
    ar.RCP: reciprocal,
    ar.SQRT: square_root,
    ar.RSQRT: reciprocal_root,
    ma.EXP: exponential,
    ma.EXP2: exponential2,
    ma.LOG: logarithm,
    ma.LOG2: logarithm2,
    ma.POWER: raise_to,
    ma.SIN: sine,
    ma.COS: cosine,
    ma.TAN: _rotated(hyperbolic_tangent),
    ma.SINH: _rotated(sine),
    ma.COSH: lambda x: cosine(_turned(x)),
    ma.TANH: hyperbolic_tangent,
    ma.ASIN: inverse_sine,
    ma.ACOS: inverse_cosine,
    ma.ATAN: _rotated(inverse_hyperbolic_tangent),
    ma.ASINH: _rotated(inverse_sine),
    ma.ACOSH: inverse_hyperbolic_cosine,
    ma.ATANH: inverse_hyperbolic_tangent,
}
# Here real operands have no imaginary part, and a zero costs nothing.
TAKE_REALS = (ar.ADD, ar.SUB, ar.MUL, ar.DIV)
