"""Arrays of complex numbers: `Complex2f` and its siblings.

Owns how they are made, read and printed; what operations do is in
`functions.complex_math`. Storage is that of two components.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lumijit import initialize
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir.ops.logic import EQ, NE
from lumijit.compiler.ir.ops.record import Op
from lumijit.functions.complex_math import RULES, TAKE_REALS
from lumijit.nested import NestedArray
from lumijit.nested import wrap as wrap_nested
from lumijit.runtime.dtypes import FLOAT16, FLOAT32, FLOAT64
from lumijit.runtime.errors import ArrayTypeError
from lumijit.scalar_arrays import HostArray
from lumijit.scalar_arrays import wrap as wrap_host
from lumijit.spec import DYNAMIC, find, require


class ComplexNumbers(ArrayBase):
    """What arrays of complex numbers do otherwise than arrays of two components."""

    __slots__ = ()

    def __init__(self, *args: Any) -> None:
        """Make an array of one value (a real one, too), or of the two parts."""
        if len(args) == 1:
            args = _arguments(args[0])
        super().__init__(*args)

    def _parts(self) -> tuple[Any, Any]:
        """Return the real and the imaginary parts as flat arrays."""
        raise NotImplementedError

    @classmethod
    def _flat(cls, value: Any) -> Any:
        """Return real numbers as what parts are."""
        raise NotImplementedError

    @classmethod
    def _joined(cls, re: Any, im: Any) -> Any:
        """Return an array for its parts."""
        raise NotImplementedError

    @classmethod
    def _real(cls, value: Any) -> Any:
        """Return real numbers, given as a part, as users get them."""
        raise NotImplementedError

    def _map(self, op: Op, *others: Array) -> Array:
        return self._combine(op, f"lumijit.{op.name}", (self, *others))

    @classmethod
    def _combine(cls, op: Op, construct: str, operands: tuple[Any, ...]) -> Any:
        if op in (EQ, NE):
            first, *others = [v if type(v) is cls else cls(v) for v in operands]
            return super(ComplexNumbers, first)._map(op, *others)
        if op not in RULES:
            raise ArrayTypeError(
                construct,
                f"not defined for complex numbers ({cls.__name__})",
                "apply it to lumijit.real, lumijit.imag or lumijit.abs of them, or to "
                "both components as an ordinary array, 'x.array'.",
            )
        if cls._spec.dtype is FLOAT16:
            wide: Any = require(cls._spec.replaced(dtype=FLOAT32), construct)
            result = wide._combine(op, construct, operands)
            is_complex = type(result) is wide
            return cls(result) if is_complex else cls._real(cls._flat(result))
        parts = [cls._operand(v, op in TAKE_REALS) for v in operands]
        found = RULES[op](*parts)
        return cls._joined(*found) if isinstance(found, tuple) else cls._real(found)

    @classmethod
    def _operand(cls, value: Any, may_be_real: bool) -> tuple[Any, Any]:
        """Return the parts of an operand; None as the imaginary part of a real one."""
        if may_be_real and _is_real(value):
            return cls._flat(value), None
        return (value if type(value) is cls else cls(value))._parts()

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

    @property
    def array(self) -> Array:
        """The parts as an ordinary array of two components."""
        cls: Any = find(self._spec.plain())
        return cls(self)

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
        data = self.numpy()
        return data if dtype is None else data.astype(dtype)

    def __complex__(self) -> complex:
        """Return the only entry as a Python complex number."""
        return complex(self.item())


class ComplexArray(ComplexNumbers, NestedArray):
    """Complex numbers of a compiled backend: two flat arrays."""

    __slots__ = ()

    def _parts(self) -> tuple[Any, Any]:
        return self._items[0], self._items[1]

    @classmethod
    def _flat(cls, value: Any) -> Any:
        return value if type(value) is cls._item else cls._item(value)

    @classmethod
    def _joined(cls, re: Any, im: Any) -> Any:
        return wrap_nested(cls, [re, im])

    @classmethod
    def _real(cls, value: Any) -> Any:
        return value


class ComplexHostArray(ComplexNumbers, HostArray):
    """One complex number of the scalar namespace, of which each part is an array."""

    __slots__ = ()

    def _parts(self) -> tuple[Any, Any]:
        cls = self._part_class()
        return wrap_host(cls, self._data[:1]), wrap_host(cls, self._data[1:])

    @classmethod
    def _part_class(cls) -> type[Any]:
        return require(cls._spec.replaced(outer=(DYNAMIC,)), cls.__name__)

    @classmethod
    def _flat(cls, value: Any) -> Any:
        return cls._part_class()(value)

    @classmethod
    def _joined(cls, re: Any, im: Any) -> Any:
        return wrap_host(cls, np.concatenate([re._data, im._data]))

    @classmethod
    def _real(cls, value: Any) -> Any:
        return value.item()


def _is_real(value: Any) -> bool:
    return initialize.is_number(value) or (
        isinstance(value, ArrayBase) and not value._spec.outer
    )


def _arguments(value: Any) -> tuple[Any, ...]:
    """Return what makes the components of a value: one argument, or two."""
    if initialize.is_complex(value):
        return value.real, value.imag
    if _is_real(value):
        return value, 0
    if initialize.offers_array(value) and not isinstance(value, ArrayBase):
        data = np.asarray(value)
        if data.ndim < 2:
            return np.real(data), np.imag(data)
    return (value,)
