"""Arrays of matrices: `Matrix3f` and its siblings.

Owns how they are made and read; what operations do is in `functions.matrix_math`.
Storage is that of an array of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lumijit import initialize
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir.ops.record import Op
from lumijit.functions.matrix_math import (
    PRODUCTS,
    RULES,
    TAKE_REALS,
    transposed,
)
from lumijit.recipes import carry_out
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.spec import MATRIX
from lumijit.special_arrays import (
    SpecialArray,
    is_real,
    joined,
    parts_of,
    without_tensor,
)


class Matrices(SpecialArray):
    """What arrays of matrices do otherwise than arrays of rows."""

    __slots__ = ()
    _rules = RULES
    _take_reals = TAKE_REALS
    _mend = "apply it to the entries as an ordinary array, 'x.array'."

    def __init__(self, *args: Any) -> None:
        """Make multiples of the identity, or matrices of rows or of all entries.

        A matrix of another size is cut, or becomes part of an identity matrix.
        """
        super().__init__(*_rows(type(self), without_tensor(type(self), args)))

    @classmethod
    def _operand(cls, value: Any, op: Op) -> tuple[Any, ...]:
        if op in PRODUCTS and depth_of(value) == 1:
            return parts_of(cls._item(value))
        return super()._operand(value, op)

    @classmethod
    def _result(cls, found: Any) -> Any:
        is_row = isinstance(found, tuple) and len(found) == cls._spec.outer[0]
        return joined(cls._item, found) if is_row else super()._result(found)

    def _transposed(self, axes: Any = None) -> Array:
        if axes is not None and tuple(axes) != (1, 0):
            raise ArrayValueError(
                "lumijit.transpose",
                f"the axes of a matrix are {axes!r} (expected None or (1, 0))",
                "leave them out.",
            )
        return joined(type(self), carry_out(transposed, parts_of(self)))


def depth_of(value: Any) -> int:
    """Return how many static dimensions an operand has."""
    if isinstance(value, ArrayBase):
        return len(value._spec.outer)
    if isinstance(value, initialize.SEQUENCES):
        return 1 + max(map(depth_of, value), default=0)
    return np.ndim(value)


def _rows(cls: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what arrays of rows are made of: all of them, or one array."""
    size = cls._spec.outer[0]
    if len(args) == 1:
        (value,) = args
        if isinstance(value, ArrayBase):
            args = _rows_of_array(cls, value)
        elif is_real(value):
            args = _diagonal(size, value)
        elif isinstance(value, (*initialize.SEQUENCES, Iterator)) or (
            initialize.offers_array(value) and np.ndim(value) == 1
        ):
            args = tuple(value)
        else:
            return args
    if len(args) == size * size:
        args = tuple(args[i : i + size] for i in range(0, len(args), size))
    return (list(args),) if args else ()


def _diagonal(size: int, value: Any) -> tuple[Any, ...]:
    return tuple([value if i == j else 0 for j in range(size)] for i in range(size))


def _rows_of_array(cls: Any, value: Array) -> tuple[Any, ...]:
    size, spec = cls._spec.outer[0], value._spec
    if not spec.outer:
        return _diagonal(size, value)
    if spec.kind is MATRIX and spec.outer[0] != size:
        items = [list(row) for row in value]
        return tuple([_entry(items, i, j) for j in range(size)] for i in range(size))
    is_row = len(spec.outer) == 1 and spec.outer[0] != size * size
    if is_row or (spec.kind.is_special and spec.kind is not MATRIX):
        raise ArrayTypeError(
            cls.__name__,
            f"can't be made from {type(value).__name__}",
            "pass all rows, or use lumijit.diag for a diagonal matrix.",
        )
    return tuple(value)


def _entry(items: list[list[Any]], i: int, j: int) -> Any:
    """Return an entry of a matrix that the identity continues."""
    if max(i, j) < len(items):
        return items[i][j]
    return 1 if i == j else 0
