"""Arrays of complex numbers: `Complex2f` and its siblings.

Owns how they are made, read and printed; what operations do is in
`functions.complex_math`. Storage is that of two components.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lumijit import initialize
from lumijit.base import Array, ArrayBase
from lumijit.functions.complex_math import RULES, TAKE_REALS
from lumijit.runtime.dtypes import FLOAT64
from lumijit.special_arrays import SpecialArray, is_real, without_tensor


class ComplexNumbers(SpecialArray):
    """What arrays of complex numbers do otherwise than arrays of two components."""

    __slots__ = ()
    _rules = RULES
    _take_reals = TAKE_REALS
    _mend = (
        "apply it to lumijit.real, lumijit.imag or lumijit.abs of them, or to "
        "both components as an ordinary array, 'x.array'."
    )

    def __init__(self, *args: Any) -> None:
        """Make an array of one value (a real one, too), or of the two parts."""
        args = without_tensor(type(self), args)
        if len(args) == 1:
            args = _arguments(args[0], type(self).__name__)
        super().__init__(*args)

    @classmethod
    def _real(cls, value: Any) -> tuple[Any, ...]:
        """Return the parts of a real operand; None is the imaginary one."""
        return (*super()._real(value), None)

    @classmethod
    def _filling(cls, value: Any) -> Any:
        is_number = initialize.is_number(value) or initialize.is_complex(value)
        return [value.real, value.imag] if is_number else value

    @property
    def real(self) -> Any:
        """The real parts."""
        return self[0]

    @real.setter
    def real(self, value: Any) -> None:
        self[0] = value

    @property
    def imag(self) -> Any:
        """The imaginary parts."""
        return self[1]

    @imag.setter
    def imag(self, value: Any) -> None:
        self[1] = value

    def _conjugate(self) -> Array:
        return type(self)(self.real, -self.imag)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the contents as a NumPy array of complex numbers, a copy.

        >>> import lumijit as dr
        >>> dr.llvm.Complex2f(1, 2).numpy()
        array([1.+2.j], dtype=complex64)
        """
        parts = self._view()
        is_wide = self._spec.dtype is FLOAT64
        data = np.empty(parts.shape[1:], np.complex128 if is_wide else np.complex64)
        data.real, data.imag = parts
        return data

    def _view(self) -> np.ndarray[Any, Any]:
        """Return the parts, one after the other."""
        return super().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Serve `np.array(x)`."""
        if copy is False:
            return self._uncopied(dtype)
        data = self.numpy()
        return data if dtype is None else data.astype(dtype)

    def __complex__(self) -> complex:
        """Return the only entry as a Python complex number."""
        return complex(self.item())


def _arguments(value: Any, construct: str) -> tuple[Any, ...]:
    """Return what makes the components of a value: one argument, or two."""
    if initialize.is_complex(value):
        return value.real, value.imag
    if is_real(value):
        return value, 0
    if initialize.offers_array(value) and not isinstance(value, ArrayBase):
        data = initialize.contents(value, construct)
        if data.ndim < 2:
            return np.real(data), np.imag(data)
    return (value,)
