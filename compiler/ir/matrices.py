"""Matrices that lie in arrays, for cooperative vectors; sums of outer products."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from lumijit.compiler.ir.effects import Reduction


class Matrix(NamedTuple):
    """Where a matrix lies in an array: entry (i, j) is `offset + i * down + j * along`.

    (Steps from row to row are `down`, those from column to column `along`.)
    """

    rows: int
    columns: int
    offset: int
    down: int
    along: int

    @property
    def turned(self) -> Matrix:
        """The transpose, which lies in the same place."""
        return Matrix(self.columns, self.rows, self.offset, self.along, self.down)

    def fits(self, size: int) -> bool:
        """Tell whether the matrix lies in an array of a size."""
        rows, columns = self.rows, self.columns
        if rows < 1 or columns < 1:
            return False
        corners = product((0, rows - 1), (0, columns - 1))
        return all(0 <= self.place(*corner) < size for corner in corners)

    def place(self, row: int, column: int) -> int:
        """Return where an entry lies."""
        return self.offset + row * self.down + column * self.along


_ENTRY = Matrix(1, 1, 0, 1, 1)


@dataclass(frozen=True)
class Outer(Reduction):
    """A sum to which each element adds products, one for each entry of a matrix."""

    matrix: Matrix = _ENTRY

    @property
    def key(self) -> tuple[Any, ...]:
        """What matters for the generated code."""
        return (self.op, self.mode, self.matrix)

    @property
    def entries(self) -> int:
        """How many entries an element writes."""
        return self.matrix.rows * self.matrix.columns
