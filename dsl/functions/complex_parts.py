"""Parts of complex numbers: real, imag, conj, arg; of real numbers, too."""

from __future__ import annotations

import cmath
import math
from typing import Any

from lumijit import initialize
from lumijit.base import Array, ArrayBase
from lumijit.functions.apply import not_numeric
from lumijit.functions.complex_math import argument
from lumijit.functions.selection import select
from lumijit.traits import is_complex_v


def _check(value: Any, construct: str) -> None:
    is_number = initialize.is_number(value) or initialize.is_complex(value)
    if not is_number and not isinstance(value, ArrayBase):
        raise not_numeric(construct, (value,))


def real(arg: Any, /) -> Any:
    """The real part; of what isn't complex, all of it.

    Args:
        arg: number or array.

    Returns:
        A number, or an array of the real parts.

    >>> import lumijit as dr
    >>> dr.real(dr.llvm.Complex2f(1, 2)), dr.real(3.0)
    ([1], 3.0)
    """
    _check(arg, "lumijit.real")
    if is_complex_v(arg) or initialize.is_complex(arg):
        return arg.real
    return arg


def imag(arg: Any, /) -> Any:
    """The imaginary part; zero for what isn't complex.

    Args:
        arg: number or array.

    Returns:
        A number, or an array of the imaginary parts.

    >>> import lumijit as dr
    >>> dr.imag(dr.llvm.Complex2f(1, 2)), dr.imag(3.0)
    ([2], 0.0)
    """
    _check(arg, "lumijit.imag")
    if is_complex_v(arg) or initialize.is_complex(arg):
        return arg.imag
    return type(arg)(0)


def conj(arg: Any, /) -> Any:
    """The conjugate: the imaginary part with the other sign.

    Args:
        arg: number or array.

    Returns:
        The conjugate; what isn't complex is returned as it is.

    >>> import lumijit as dr
    >>> dr.conj(dr.llvm.Complex2f(1, 2))
    [1-2j]
    """
    _check(arg, "lumijit.conj")
    if is_complex_v(arg):
        cls: Any = type(arg)
        return cls(arg.real, -arg.imag)
    return arg.conjugate() if initialize.is_complex(arg) else arg


def arg(z: Any, /) -> Array:
    """The angle between a complex number and the positive real axis, in radians.

    Args:
        z: number or array.

    Returns:
        The angle, from -pi to pi; of real numbers 0 or pi, depending on the sign.

    >>> import lumijit as dr
    >>> dr.arg(dr.llvm.Complex2f(0, 1)), dr.arg(1.0)
    ([1.5708], 0.0)
    """
    _check(z, "lumijit.arg")
    if is_complex_v(z):
        return z._real(argument(z._parts()))
    if initialize.is_complex(z):
        return cmath.phase(z)
    return select(z >= 0, 0.0, math.pi)
