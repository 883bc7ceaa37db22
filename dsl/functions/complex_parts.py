"""Parts of complex numbers and quaternions: real, imag, conj, arg; of others, too."""

from __future__ import annotations

import math
from typing import Any

from lumijit import initialize
from lumijit.base import Array, ArrayBase
from lumijit.functions.apply import by_parts, not_numeric
from lumijit.functions.complex_math import argument
from lumijit.functions.selection import select
from lumijit.special_arrays import parts_of
from lumijit.traits import is_complex_v, spec_of


def _check(value: Any, construct: str) -> None:
    is_number = initialize.is_number(value) or initialize.is_complex(value)
    if not is_number and not isinstance(value, ArrayBase):
        raise not_numeric(construct, (value,))


def _has_parts(value: Any) -> bool:
    spec = spec_of(value)
    return initialize.is_complex(value) or (spec is not None and spec.kind.is_number)


@by_parts
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
    return arg.real if _has_parts(arg) else arg


@by_parts
def imag(arg: Any, /) -> Any:
    """The imaginary part; zero for what isn't complex.

    Args:
        arg: number or array.

    Returns:
        A number, or an array of the imaginary parts: three of a quaternion.

    >>> import lumijit as dr
    >>> dr.imag(dr.llvm.Complex2f(1, 2)), dr.imag(3.0)
    ([2], 0.0)
    """
    _check(arg, "lumijit.imag")
    return arg.imag if _has_parts(arg) else arg.__class__(0)


@by_parts
def conj(arg: Any, /) -> Any:
    """The conjugate: the imaginary parts with the other sign.

    Args:
        arg: number or array.

    Returns:
        The conjugate; what isn't complex is returned as it is.

    >>> import lumijit as dr
    >>> dr.conj(dr.llvm.Complex2f(1, 2))
    [1-2j]
    """
    _check(arg, "lumijit.conj")
    if initialize.is_complex(arg):
        return arg.conjugate()
    return arg._conjugate() if _has_parts(arg) else arg


@by_parts
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
        return z._result(argument(parts_of(z)))
    if initialize.is_complex(z):
        return math.atan2(z.imag, z.real)
    return select(z >= 0, 0.0, math.pi)
