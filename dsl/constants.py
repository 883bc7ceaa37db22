"""Mathematical constants, and the limits of floating-point types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lumijit.base import ArrayBase
from lumijit.runtime.dtypes import FLOAT64, DType
from lumijit.runtime.errors import ArrayTypeError
from lumijit.traits import type_of

e = math.e
log_two = math.log(2)
inv_log_two = 1 / math.log(2)
pi = math.pi
inv_pi = 1 / math.pi
sqrt_pi = math.sqrt(math.pi)
inv_sqrt_pi = 1 / math.sqrt(math.pi)
two_pi = 2 * math.pi
inv_two_pi = 1 / (2 * math.pi)
sqrt_two_pi = math.sqrt(2 * math.pi)
inv_sqrt_two_pi = 1 / math.sqrt(2 * math.pi)
four_pi = 4 * math.pi
inv_four_pi = 1 / (4 * math.pi)
sqrt_four_pi = math.sqrt(4 * math.pi)
inv_sqrt_four_pi = 1 / math.sqrt(4 * math.pi)
sqrt_two = math.sqrt(2)
inv_sqrt_two = 1 / math.sqrt(2)
inf = math.inf
nan = math.nan
Dynamic = -1
newaxis = None


def _float_type(arg: Any, construct: str) -> DType:
    cls = type_of(arg)
    if issubclass(cls, ArrayBase) and cls._spec.dtype.is_float:
        return cls._spec.dtype
    if issubclass(cls, float):
        return FLOAT64
    raise ArrayTypeError(
        construct,
        f"{cls.__name__} holds no floats",
        "pass a floating-point array, array type, or float.",
    )


def epsilon(arg: Any, /) -> float:
    """Return the largest relative error of rounding: half the spacing at 1.

    Args:
        arg: floating-point array or type.

    Returns:
        The bound as a Python float.

    >>> import lumijit as dr
    >>> dr.epsilon(dr.llvm.Float) == 2.0 ** -24
    True
    """
    return float(np.finfo(_float_type(arg, "lumijit.epsilon").numpy).eps) / 2


def one_minus_epsilon(arg: Any, /) -> float:
    """Return the largest number below 1.

    Args:
        arg: floating-point array or type.

    Returns:
        The number as a Python float.

    >>> import lumijit as dr
    >>> dr.one_minus_epsilon(dr.llvm.Float) == 1 - 2.0 ** -24
    True
    """
    return 1.0 - epsilon(arg)


def recip_overflow(arg: Any, /) -> float:
    """Return the bound below which reciprocals overflow.

    Args:
        arg: floating-point array or type.

    Returns:
        1 / largest, rounded down to the type's precision.

    >>> import lumijit as dr
    >>> dr.recip_overflow(dr.llvm.Float) == 2.0 ** -128
    True
    """
    dtype = _float_type(arg, "lumijit.recip_overflow")
    return 2.0 ** -(int(np.finfo(dtype.numpy).maxexp))


def smallest(arg: Any, /) -> float:
    """Return the smallest normalized positive number.

    Args:
        arg: floating-point array or type.

    Returns:
        The number as a Python float.

    >>> import lumijit as dr
    >>> dr.smallest(dr.llvm.Float) == 2.0 ** -126
    True
    """
    dtype = _float_type(arg, "lumijit.smallest")
    return float(np.finfo(dtype.numpy).smallest_normal)


def largest(arg: Any, /) -> float:
    """Return the largest finite number.

    Args:
        arg: floating-point array or type.

    Returns:
        The number as a Python float.

    >>> import lumijit as dr
    >>> dr.largest(dr.llvm.Float16)
    65504.0
    """
    return float(np.finfo(_float_type(arg, "lumijit.largest").numpy).max)
