"""Matrices that lie in arrays, for cooperative vectors; sums of outer products."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple


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
