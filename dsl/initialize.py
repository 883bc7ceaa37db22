"""From Python values to entries: what array constructors accept.

Owns the conversion of numbers, sequences and NumPy arrays to one scalar type,
with range checks. Conversions between array classes are in the storage classes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from lumijit.base import Composed
from lumijit.replay.numbers import Number
from lumijit.runtime.dtypes import DType
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError, RecordingError

NUMBERS = (bool, int, float, np.generic)
_PLAIN = frozenset({bool, int, float})
SEQUENCES = (list, tuple, range, Composed)


def is_number(value: Any) -> bool:
    """Tell whether a value is a real Python or NumPy number."""
    return isinstance(value, NUMBERS) and not isinstance(value, np.complexfloating)


def is_complex(value: Any) -> bool:
    """Tell whether a value is a complex Python or NumPy number."""
    return isinstance(value, (complex, np.complexfloating))


def is_integer(value: Any) -> bool:
    """Tell whether a value is an integer of Python (also a recorded one) or NumPy."""
    return issubclass(value.__class__, (int, np.integer))


def whole_number(construct: str, name: str, value: Any) -> int:
    """Return an argument that counts something as an integer of Python, or raise."""
    try:
        return operator.index(value)
    except TypeError:
        raise ArrayTypeError(
            construct,
            f"{name} is {value!r} (expected an int)",
            "pass a whole number.",
        ) from None


def real_number(construct: str, name: str, value: Any) -> Any:
    """Return an argument that is a number, also a recorded one, or raise."""
    try:
        if not isinstance(value, (str, bytes)):
            return value if is_number(value) else float(value)
    except (TypeError, ValueError):
        pass
    raise ArrayTypeError(
        construct, f"{name} is {value!r} (expected a number)", "pass a float."
    )


def items_of(construct: str, values: Any) -> list[Any]:
    """Return the items of a sequence, or raise."""
    try:
        return list(values)
    except RecordingError:
        raise
    except TypeError:
        raise ArrayTypeError(
            construct,
            f"the argument has type {values.__class__.__name__!r} (expected an array "
            "or a sequence)",
            "pass arrays or numbers, for example in a list.",
        ) from None


def check_callable(construct: str, name: str, value: Any) -> None:
    """Refuse what can't be called."""
    if not callable(value):
        raise ArrayTypeError(
            construct,
            f"{name} has type {value.__class__.__name__!r}, which can't be called",
            "pass a function.",
        )


def number(value: Any, dtype: DType, construct: str, cuts: bool = False) -> Any:
    """Convert one number to what `dtype` stores, or raise.

    Integers must be in range. Floats must be whole numbers to become integers, unless
    the conversion `cuts` them, as `Int(1.5)` does like Python's `int(1.5)`.
    """
    if type(value) not in _PLAIN:
        if isinstance(value, np.generic):
            value = value.item()
        elif isinstance(value, Number):
            value = value.exact()
    kind = value.__class__
    if kind not in _PLAIN and not issubclass(kind, (int, float)):
        is_array = offers_array(value)
        raise ArrayTypeError(
            construct,
            f"can't make a {dtype.name} entry of a value of type "
            f"{value.__class__.__name__!r}",
            "pass a number; the constructors of array types take arrays."
            if is_array
            else "pass numbers, sequences of numbers or arrays.",
        )
    if dtype.is_bool:
        return bool(value)
    if dtype.is_float:
        try:
            return dtype.wrap(value)
        except OverflowError:
            # An integer beyond the largest float of Python.
            return math.inf if value > 0 else -math.inf
    if issubclass(kind, float) and not math.isfinite(value):
        raise _out_of_range(value, dtype, construct)
    if issubclass(kind, float) and not cuts and not value.is_integer():
        raise ArrayValueError(
            construct,
            f"{value} is no whole number (expected an entry of {dtype.name})",
            "round it first, for example with int() or round(), or convert an "
            "array of floats.",
        )
    low, high = int_range(dtype)
    value = int(value)
    if not low <= value <= high:
        raise _out_of_range(value, dtype, construct)
    return value


def int_range(dtype: DType) -> tuple[int, int]:
    """Return the smallest and the largest number of an integer type."""
    if dtype.is_signed:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def _out_of_range(value: Any, dtype: DType, construct: str) -> ArrayValueError:
    low, high = int_range(dtype)
    return ArrayValueError(
        construct,
        f"{value} doesn't fit into {dtype.name} (expected {low} to {high})",
        "use a wider type, or convert the value first.",
    )


def sequence(values: Iterable[Any], dtype: DType, construct: str) -> Any:
    """Convert a sequence of numbers to a new NumPy array of `dtype`.

    >>> from lumijit.runtime.dtypes import UINT8
    >>> sequence([1, 2, 255], UINT8, "example")
    array([  1,   2, 255], dtype=uint8)
    """
    values = list(values)
    kinds = set(map(type, values))
    if kinds <= {int}:
        simple = not dtype.is_int or _all_fit(values, dtype)
    else:
        simple = kinds <= {float, int, bool} and dtype.is_float
    if simple and not dtype.is_bool:
        with np.errstate(over="ignore"):
            try:
                return np.array(values, dtype=dtype.numpy)
            except OverflowError:
                pass
    return np.array([number(v, dtype, construct) for v in values], dtype=dtype.numpy)


def _all_fit(values: list[int], dtype: DType) -> bool:
    if not values:
        return True
    low, high = int_range(dtype)
    return low <= min(values) and max(values) <= high


def convert(data: Any, dtype: DType) -> Any:
    """Convert a NumPy array the way the CAST operation does.

    Floats are cut and saturate at the range of integers; NaN becomes 0.
    """
    if data.dtype == dtype.numpy:
        return data
    with np.errstate(all="ignore"):
        if dtype.is_int and data.dtype.kind == "f":
            low, high = int_range(dtype)
            wide = data.astype(np.float64)
            inside = (wide > low) & (wide < high)
            cut = np.where(inside, wide, 0.0).astype(dtype.numpy)
            top = np.asarray(high, dtype=dtype.numpy)
            bottom = np.asarray(low, dtype=dtype.numpy)
            return np.where(wide >= high, top, np.where(wide <= low, bottom, cut))
        return data.astype(dtype.numpy)


def contents(value: Any, construct: str) -> Any:
    """Return what a foreign object offers as a NumPy array, without its derivatives."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ArrayTypeError(
            construct,
            "entries of the NumPy array are masked: they have no value",
            "fill them first, for example with array.filled(0).",
        )
    if hasattr(value, "detach"):
        value = value.detach()
    if hasattr(value, "__dlpack__") and not _is_numpys(value):
        return np.from_dlpack(value)
    return np.asarray(value)


def host_array(value: Any, construct: str) -> Any:
    """Return a NumPy array for anything that offers one; the kind must be numeric."""
    data = contents(value, construct)
    if data.dtype.kind not in "biuf" or data.dtype.itemsize > 8:
        raise ArrayTypeError(
            construct,
            f"can't use a NumPy array of type {data.dtype}",
            "convert it to bool, integers or floats first.",
        )
    return data


def offers_array(value: Any) -> bool:
    """Tell whether a foreign object can be read as a NumPy array."""
    is_array = _is_numpys(value) or hasattr(value, "__dlpack__")
    return is_array and not isinstance(value, (type, np.generic))


def _is_numpys(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray)
        or hasattr(value, "__array_interface__")
        or hasattr(value, "__array__")
    )


def unsupported(cls_name: str, value: Any) -> ArrayTypeError:
    """Word the error for constructor arguments that make no sense."""
    return ArrayTypeError(
        cls_name,
        f"can't be made from a value of type {value.__class__.__name__!r}",
        "pass numbers, sequences, NumPy arrays or other arrays.",
    )


def size_error(cls_name: str, expected: int, got: int) -> ArrayTypeError:
    """Word the error for a wrong number of components."""
    return ArrayTypeError(
        cls_name,
        f"the input has the wrong size (expected {expected} components, got {got})",
        "pass one value for all components, or one for each.",
    )
