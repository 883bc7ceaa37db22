"""Matrices: products, transposes, determinants, inverses and decompositions."""

from __future__ import annotations

from typing import Any

from lumijit import promotion
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.functions import matrix_math
from lumijit.functions.apply import not_numeric
from lumijit.functions.creation import full
from lumijit.functions.elementwise import rcp, sqrt
from lumijit.functions.vectors import dot, dot_items
from lumijit.initialize import is_number
from lumijit.matrix_arrays import depth_of
from lumijit.operators import check_accepts
from lumijit.recipes import carry_out
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.spec import MATRIX
from lumijit.special_arrays import joined, parts_of
from lumijit.traits import is_matrix_v, is_tensor_v, spec_of
from lumijit.type_traits import matrix_t


def matmul(a: Any, b: Any, /) -> Any:
    """Multiply matrices, vectors and numbers; the operator `@` does the same.

    Nested arrays with as many rows as columns, such as `Array33f`, count as matrices.

    Args:
        a: matrix, vector or number; a vector is a row.
        b: matrix, vector or number; a vector is a column.

    Returns:
        A matrix for two of them, a vector for a matrix and a vector, the inner product
        of two vectors (or flat arrays), or a multiple for a number. Tensors are
        multiplied as NumPy's `matmul` does it.

    Raises:
        ArrayTypeError: if the sizes don't match, or of complex numbers and quaternions.

    >>> import lumijit as dr
    >>> from lumijit.scalar import Array2f, Matrix2f
    >>> dr.matmul(Matrix2f(1, 2, 3, 4), Array2f(1, 1))
    [3, 7]
    """
    construct = "lumijit.matmul"
    if is_number(a) != is_number(b):
        return a * b
    for value in (a, b):
        spec = spec_of(value)
        if spec is not None and spec.kind.is_number:
            raise ArrayTypeError(
                construct,
                f"not defined for {type(a).__name__!r} and {type(b).__name__!r}",
                "use * for products of numbers, or lumijit.dot.",
            )
    if not isinstance(a, ArrayBase) and not isinstance(b, ArrayBase):
        raise not_numeric(construct, (a, b))
    for tensor in (a, b):
        if is_tensor_v(tensor):
            return tensor._multiplied(construct, a, b)
    depths = depth_of(a), depth_of(b)
    # A flat array is a vector beside another or a sequence, and else a number.
    is_inner = depths == (1, 1) or (max(depths) < 2 and _are_flat(a, b))
    if is_inner:
        return dot(a, b)
    if 0 in depths:
        return a * b
    if max(depths) > 2:
        raise not_numeric(construct, (a, b))
    cls = promotion.common_class((a, b), construct)
    if cls._spec.kind is MATRIX:
        return cls._combine(ar.MUL, construct, (a, b))
    check_accepts(ar.MUL, cls._spec.dtype, construct)
    first, second = (
        parts_of((cls if depth == 2 else cls._item)(value))
        for depth, value in zip(depths, (a, b), strict=True)
    )
    found = carry_out(matrix_math.multiply, first, second)
    return joined(cls if depths == (2, 2) else cls._item, found)


def _are_flat(*values: Any) -> bool:
    """Tell whether all values are flat arrays or sequences."""
    return not any(
        value._spec.outer if isinstance(value, ArrayBase) else not depth_of(value)
        for value in values
    )


def transpose(arg: Array, /, axes: Any = None) -> Array:
    """Make rows of a matrix columns.

    Args:
        arg: matrix.
        axes: the order of the dimensions: the reverse, if given.

    Returns:
        The transpose.

    Raises:
        ArrayTypeError: if `arg` is no matrix.

    >>> import lumijit as dr
    >>> dr.transpose(dr.scalar.Matrix2f(1, 2, 3, 4))
    [[1, 3],
     [2, 4]]
    """
    if not isinstance(arg, ArrayBase):
        raise not_numeric("lumijit.transpose", (arg,))
    return arg._transposed(axes)


def _parts(arg: Any, construct: str) -> Any:
    if not is_matrix_v(arg):
        raise ArrayTypeError(
            construct,
            f"the argument is of type {type(arg).__name__!r} (expected a matrix)",
            "convert it to a matrix type, such as Matrix3f.",
        )
    return parts_of(arg)


def det(arg: Array, /) -> Any:
    """Determinant of a matrix.

    Args:
        arg: matrix.

    Returns:
        A flat array; a Python number in the scalar namespace.

    Raises:
        ArrayTypeError: if `arg` is no matrix.

    >>> import lumijit as dr
    >>> dr.det(dr.llvm.Matrix2f(1, 2, 3, 4))
    [-2]
    """
    parts = _parts(arg, "lumijit.det")
    return arg._result(carry_out(matrix_math.determinant, parts))


def trace(arg: Array, /) -> Any:
    """Sum of the diagonal entries of a matrix.

    Args:
        arg: matrix.

    Returns:
        A flat array; a Python number in the scalar namespace.

    Raises:
        ArrayTypeError: if `arg` is no matrix.

    >>> import lumijit as dr
    >>> dr.trace(dr.llvm.Matrix2f(1, 2, 3, 4))
    [5]
    """
    first, *others = matrix_math.diagonal(_parts(arg, "lumijit.trace"))
    for other in others:
        first = first + other
    return arg._result(first)


def frob(arg: Array, /) -> Any:
    """Squared Frobenius norm of a matrix: the sum of the squares of its entries.

    Args:
        arg: matrix.

    Returns:
        A flat array; a Python number in the scalar namespace.

    Raises:
        ArrayTypeError: if `arg` is no matrix.

    >>> import lumijit as dr
    >>> dr.frob(dr.llvm.Matrix2f(1, 2, 3, 4))
    [30]
    """
    parts = _parts(arg, "lumijit.frob")
    return arg._result(carry_out(dot_items, parts, parts))


def diag(arg: Array, /) -> Array:
    """The diagonal of a matrix, or the matrix with a diagonal.

    Args:
        arg: matrix, or vector of two to four components.

    Returns:
        A vector, or a matrix with zeros off its diagonal.

    Raises:
        ArrayTypeError: if `arg` is neither.

    >>> import lumijit as dr
    >>> dr.diag(dr.scalar.Array2f(1, 2)), dr.diag(dr.scalar.Matrix2f(1, 2, 3, 4))
    ([[1, 0],
     [0, 2]], [1, 4])
    """
    if is_matrix_v(arg):
        return joined(type(arg)._item, carry_out(matrix_math.diagonal, parts_of(arg)))
    spec = spec_of(arg)
    cls: Any = matrix_t(arg)
    if cls is None or spec is None or len(spec.outer) != 1:
        raise ArrayTypeError(
            "lumijit.diag",
            f"the argument is of type {type(arg).__name__!r} (expected a matrix, or "
            "a vector of two to four floats)",
            "convert it to such a type, for example Array3f.",
        )
    size = range(len(arg))
    return cls([[arg[i] if i == j else 0 for j in size] for i in size])


def inverse(arg: Any, /) -> Any:
    """Inverse of a matrix; of anything else the reciprocal (see `rcp`).

    Args:
        arg: matrix, array or number.

    Returns:
        The inverse, which is infinite or NaN where there is none.

    >>> import lumijit as dr
    >>> dr.inverse(dr.scalar.Matrix2f(1, 2, 3, 4))
    [[-2, 1],
     [1.5, -0.5]]
    """
    return rcp(arg)


def identity(dtype: type[Any], size: int = 1) -> Any:
    """Make what leaves others as they are when it is multiplied with them.

    Args:
        dtype: array class, Python scalar type, or class of a PyTree.
        size: size of the vectorized dimension, as `full` takes it.

    Returns:
        An identity matrix; for all other types ones.

    >>> import lumijit as dr
    >>> dr.identity(dr.scalar.Matrix2f), dr.identity(dr.llvm.Float, 2)
    ([[1, 0],
     [0, 1]], [1, 1])
    """
    if not is_matrix_v(dtype):
        return full(dtype, 1, size)
    rows = range(dtype._spec.outer[0])
    return full(dtype, [[int(i == j) for j in rows] for i in rows], size)


def polar_decomp(arg: Array, it: int = 10) -> tuple[Array, Array]:
    """Split a matrix into a rotation (or reflection) and a symmetric scaling.

    Args:
        arg: matrix that has an inverse.
        it: number of iterations of Newton's method; ten suffice unless the matrix is
            nearly singular.

    Returns:
        The orthogonal matrix Q, and the symmetric positive definite P with Q P = arg.

    Raises:
        ArrayTypeError: if `arg` is no matrix.
        ArrayValueError: if there are no iterations.

    Source: N. Higham, "Computing the polar decomposition — with applications" (1986).

    >>> import lumijit as dr
    >>> dr.polar_decomp(dr.scalar.Matrix2f(0, -2, 2, 0))
    ([[0, -1],
     [1, 0]], [[2, 0],
     [0, 2]])
    """
    _parts(arg, "lumijit.polar_decomp")
    if it < 1:
        raise ArrayValueError(
            "lumijit.polar_decomp", f"{it} iterations are asked for", "use at least 1."
        )
    q = arg
    for _ in range(it):
        other = rcp(q).T
        scale = sqrt(sqrt(frob(other) / frob(q)))
        q = q * (scale * 0.5) + other * (rcp(scale) * 0.5)
    p = q.T @ arg
    return q, (p + p.T) * 0.5
