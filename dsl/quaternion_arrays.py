"""Arrays of quaternions: `Quaternion4f` and its siblings.

Owns how they are made, read and printed; what operations do is in
`functions.quaternion_math`. Storage is that of four components, the real one last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lumijit import initialize, printing
from lumijit.base import Array
from lumijit.functions.quaternion_math import RULES, TAKE_REALS, conjugate
from lumijit.recipes import carry_out
from lumijit.spec import require
from lumijit.special_arrays import (
    SpecialArray,
    is_real,
    joined,
    parts_of,
    without_tensor,
)


class Quaternions(SpecialArray):
    """What arrays of quaternions do otherwise than arrays of four components."""

    __slots__ = ()
    _rules = RULES
    _take_reals = TAKE_REALS
    _mend = (
        "apply it to lumijit.real, lumijit.imag or lumijit.abs of them, or to "
        "the components as an ordinary array, 'x.array'."
    )

    def __init__(self, *args: Any) -> None:
        """Make an array of one value (a real one, too), or of the parts x, y, z, w."""
        args = without_tensor(type(self), args)
        if len(args) == 1 and is_real(args[0]):
            args = (0, 0, 0, args[0])
        super().__init__(*args)

    @classmethod
    def _filling(cls, value: Any) -> Any:
        return [0, 0, 0, value] if initialize.is_number(value) else value

    @property
    def real(self) -> Any:
        """The real parts."""
        return self[3]

    @real.setter
    def real(self, value: Any) -> None:
        self[3] = value

    @property
    def imag(self) -> Any:
        """The imaginary parts, an array of three components."""
        return self._imaginary_class()(self[0], self[1], self[2])

    @imag.setter
    def imag(self, value: Any) -> None:
        x, y, z = self._imaginary_class()(value)
        self[0], self[1], self[2] = x, y, z

    @classmethod
    def _imaginary_class(cls) -> type[Any]:
        return require(cls._spec.replaced(outer=(3,)), cls.__name__)

    def _conjugate(self) -> Array:
        return joined(type(self), carry_out(conjugate, parts_of(self)))

    def _printed(self) -> np.ndarray[Any, Any]:
        parts = np.ascontiguousarray(super()._printed(), np.float64)
        return parts.view(printing.QUATERNION)[..., 0]
