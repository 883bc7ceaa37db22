"""What operations on matrices are: one rule for each operation, and determinants.

A rule takes the parts of its operands, flat arrays of floats, and returns those of
its result: n * n parts are a matrix, row by row; n are a vector, a column on the right
of a product and a row on the left; one is a number, which multiplies the identity in
sums. What isn't here is applied to each entry.

Sums of products are computed with fused multiply-adds, minors without: the
determinant of a matrix with two equal rows is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops.record import Op
from lumijit.functions.elementwise import rcp
from lumijit.functions.vectors import dot_items
from lumijit.runtime.errors import ArrayTypeError

Parts = tuple[Any, ...]


def size_of(a: Parts) -> int:
    """Return the number of rows of a matrix."""
    return math.isqrt(len(a))


def rows(a: Parts) -> list[Parts]:
    """Return the rows of a matrix."""
    n = size_of(a)
    return [a[i : i + n] for i in range(0, len(a), n)]


def transposed(a: Parts) -> Parts:
    """Rows become columns."""
    n = size_of(a)
    return tuple(a[j * n + i] for i in range(n) for j in range(n))


def diagonal(a: Parts) -> Parts:
    """The entries from the upper left to the lower right."""
    return a[:: size_of(a) + 1]


def add(a: Parts, b: Parts) -> Parts:
    """Sum; a number is added to the diagonal."""
    if len(a) == 1:
        a, b = b, a
    if len(b) == 1:
        step = size_of(a) + 1
        return tuple(p if i % step else p + b[0] for i, p in enumerate(a))
    return tuple(p + q for p, q in zip(a, b, strict=True))


def subtract(a: Parts, b: Parts) -> Parts:
    """Difference."""
    return add(a, tuple(-p for p in b))


def multiply(a: Parts, b: Parts) -> Parts:
    """Product of matrices, with a vector or with a number."""
    if len(a) == 1:
        return tuple(a[0] * p for p in b)
    if len(b) == 1:
        return tuple(p * b[0] for p in a)
    left = rows(a) if len(a) >= len(b) else [a]
    right = rows(transposed(b)) if len(b) >= len(a) else [b]
    return tuple(dot_items(row, column) for row in left for column in right)


def fused(a: Parts, b: Parts, c: Parts) -> Parts:
    """Product and sum."""
    return add(multiply(a, b), c)


def divide(a: Parts, b: Parts) -> Parts:
    """Product with the inverse."""
    if len(b) == 1:
        return tuple(p / b[0] for p in a)
    if size_of(b) ** 2 != len(b):
        raise ArrayTypeError(
            "operator /",
            "matrices can't be divided by vectors",
            "divide by a matrix, a flat array or a number.",
        )
    return multiply(a, inverse(b))


def _minor(a: Parts, b: Parts, i: int, j: int) -> Any:
    """Determinant of two columns of two rows."""
    return a[i] * b[j] - a[j] * b[i]


def _cross(a: Parts, b: Parts) -> Parts:
    return _minor(a, b, 1, 2), _minor(a, b, 2, 0), _minor(a, b, 0, 1)


_PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


def _minors(a: Parts, b: Parts) -> list[Any]:
    """The minors of all pairs of columns of two rows of four."""
    return [_minor(a, b, i, j) for i, j in _PAIRS]


def _signed(minors: list[Any]) -> list[Any]:
    """Minors with the signs that they have in Laplace's expansion."""
    a, b, c, d, e, f = minors
    return [a, -b, c, d, -e, f]


def determinant(a: Parts) -> Any:
    """Determinant of two, three or four rows."""
    n = size_of(a)
    if n == 2:
        return _minor(a[:2], a[2:], 0, 1)
    if n == 3:
        return dot_items(a[:3], _cross(a[3:6], a[6:]))
    first, second, third, fourth = rows(a)
    return dot_items(_minors(first, second), _signed(_minors(third, fourth))[::-1])


def inverse(a: Parts) -> Parts:
    """The adjugate divided by the determinant; infinite or NaN where that is zero."""
    n = size_of(a)
    if n == 2:
        scale = rcp(determinant(a))
        return a[3] * scale, -a[1] * scale, -a[2] * scale, a[0] * scale
    if n == 3:
        x, y, z = rows(a)
        columns = _cross(y, z), _cross(z, x), _cross(x, y)
        scale = rcp(dot_items(x, columns[0]))
        return tuple(column[i] * scale for i in range(3) for column in columns)
    return _inverse_of_four(a)


def _inverse_of_four(a: Parts) -> Parts:
    first, second, third, fourth = rows(a)
    upper = _minors(first, second)
    lower = _signed(_minors(third, fourth))
    scale = rcp(dot_items(upper, lower[::-1]))
    upper = _signed(upper)
    columns = (
        _cofactors(second, lower, scale),
        _cofactors(first, lower, -scale),
        _cofactors(fourth, upper, scale),
        _cofactors(third, upper, -scale),
    )
    return tuple(column[i] for i in range(4) for column in columns)


def _cofactors(row: Parts, minors: list[Any], scale: Any) -> list[Any]:
    """Expand along a row, without each of the columns, by minors of two other rows."""
    opposite = dict(zip(_PAIRS, minors[::-1], strict=True))
    opposite |= {(j, i): -minor for (i, j), minor in opposite.items()}
    found = []
    for i in range(4):
        others = [j for j in range(4) if j != i]
        factors = [opposite[i, j] for j in others]
        found.append(dot_items([row[j] for j in others], factors) * scale)
    return found


RULES: dict[Op, Callable[..., Any]] = {
    ar.ADD: add,
    ar.SUB: subtract,
    ar.MUL: multiply,
    ar.DIV: divide,
    ar.FMA: fused,
    ar.RCP: inverse,
}
# Here numbers stay what they are, and vectors, too.
TAKE_REALS = (ar.ADD, ar.SUB, ar.MUL, ar.DIV)
PRODUCTS = (ar.MUL, ar.DIV)
