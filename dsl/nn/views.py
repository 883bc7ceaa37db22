"""Matrices and vectors that lie in one array, and their products with vectors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np

from lumijit import promotion
from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.compiler.derive.matrices import product
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap as wrap_flat
from lumijit.compiler.ir.matrices import Matrix
from lumijit.derivatives.gradients import grad
from lumijit.enums import VarType
from lumijit.functions.gathering import gather
from lumijit.functions.repetition import concat
from lumijit.hashgrid import HashEncoding
from lumijit.nn.vectors import CoopVec, check_vector
from lumijit.pytree import children, is_container, rebuild
from lumijit.runtime.errors import ArrayIndexError, ArrayTypeError, SizeError
from lumijit.spec import TENSOR, require
from lumijit.tensors.views import index_class
from lumijit.traits import type_v

Layout = Literal["inference", "training"]
_LAYOUTS = ("inference", "training")


class MatrixView:
    """A matrix in an array: where it lies there, and its shape. See `view`, `pack`.

    Subscripts (`A[2:4, :3]`) and `A.T` give other views of the same array. Vectors are
    matrices with one column. A tensor of a view (`TensorXf(A)`) has the entries.
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"buffer": ArrayBase}

    #: The array.
    buffer: Any
    #: How the entries are ordered; all are row by row here.
    layout: str

    def __init__(self, buffer: Any, matrix: Matrix, layout: str = "row_major") -> None:
        """Describe a matrix in an array; `view` and `pack` do it for you."""
        self.buffer = buffer
        self._matrix = matrix
        self.layout = layout

    def _settings(self) -> Iterable[Any]:
        return (*self._matrix, self.layout)

    def _rebuilt(self, items: list[Any]) -> MatrixView:
        return MatrixView(items[0], self._matrix, self.layout)

    def _other(self, matrix: Matrix) -> MatrixView:
        return MatrixView(self.buffer, matrix, self.layout)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._matrix.rows, self._matrix.columns

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    @property
    def offset(self) -> int:
        """Where the first entry lies in the array."""
        return self._matrix.offset

    @property
    def stride(self) -> int:
        """How far rows (if turned: columns) are apart in the array."""
        return max(self._matrix.down, self._matrix.along)

    @property
    def dtype(self) -> VarType:
        """The type of the entries, a member of `VarType`."""
        return type_v(self.buffer)

    @property
    def T(self) -> MatrixView:
        """The transpose."""
        return self._other(self._matrix.turned)

    @property
    def grad(self) -> MatrixView:
        """The gradient of the matrix: the same view of the array's gradient."""
        return MatrixView(grad(self.buffer), self._matrix, self.layout)

    def __getitem__(self, key: Any) -> MatrixView:
        """Return a part: a row, or what slices of rows and columns select."""
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > 2:
            raise ArrayIndexError(
                "MatrixView",
                f"{len(keys)} subscripts for rows and columns",
                "give two at most.",
            )
        m = self._matrix
        rows, columns = (*keys, slice(None))[:2]
        first, count, step = _selected(rows, m.rows)
        left, wide, along = _selected(columns, m.columns)
        place = m.place(first, left)
        return self._other(Matrix(count, wide, place, m.down * step, m.along * along))

    def __matmul__(self, x: CoopVec) -> CoopVec:
        return matvec(self, x)

    def __repr__(self) -> str:
        kind = type(self.buffer).__name__
        return (
            f"MatrixView[{kind}, shape={self.shape}, offset={self.offset}, "
            f"layout={self.layout!r}]"
        )

    def _as_tensor(self) -> tuple[Any, tuple[int, ...]]:
        """Return the entries row by row, and the shape."""
        m, cls = self._matrix, type(self.buffer)
        rows, columns = (np.arange(n) for n in self.shape)
        places = m.offset + rows[:, None] * m.down + columns * m.along
        index = index_class(cls._spec)(places.astype(np.uint32).reshape(-1))
        return gather(cls, self.buffer, index), self.shape


def _selected(key: Any, size: int) -> tuple[int, int, int]:
    """Return the first position that a subscript selects, how many, and their step."""
    construct = "MatrixView"
    if isinstance(key, slice):
        found = range(size)[key]
        if not found:
            raise ArrayIndexError(
                construct, f"the subscript {key} of {size} is empty", "select some."
            )
        return found.start, len(found), found.step
    if not isinstance(key, (int, np.integer)):
        raise ArrayIndexError(
            construct,
            f"a subscript is {type(key).__name__!r}",
            "use integers and slices.",
        )
    if not -size <= key < size:
        raise ArrayIndexError(
            construct, f"the subscript {key} is beyond {size} entries", "correct it."
        )
    return int(key) % size, 1, 1


def view(arg: Any, /) -> MatrixView:
    """Return a view of the matrix that a tensor is, or of a vector.

    Args:
        arg: tensor of one or two dimensions, flat array, or a view already.

    Raises:
        ArrayTypeError: for anything else, or entries that aren't floats.
        SizeError: for other tensors, or an empty one.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float, TensorXf
    >>> A = dr.nn.view(TensorXf([[1, 2], [3, 4], [5, 6]]))
    >>> A[1:].shape, A.T.shape
    ((2, 2), (2, 3))
    >>> list(A @ dr.nn.CoopVec(Float(1), 10))
    [[21], [43], [65]]
    """
    if isinstance(arg, MatrixView):
        return arg
    construct = "lumijit.nn.view"
    if not _is_matrix(arg):
        raise ArrayTypeError(
            construct,
            f"expected a tensor or flat array of floats, got {type(arg).__name__!r}",
            "pass a TensorXf, for example.",
        )
    shape = arg.shape
    if len(shape) not in (1, 2) or not math.prod(shape):
        raise SizeError(
            construct,
            f"the shape is {shape} (expected one or two dimensions, not empty)",
            "take a part, or reshape it.",
        )
    rows, columns = (*shape, 1)[:2]
    return MatrixView(arg.array, Matrix(rows, columns, 0, columns, 1))


def _is_matrix(value: Any) -> bool:
    if not isinstance(value, ArrayBase):
        return False
    spec = value._spec
    is_flat = spec.kind is TENSOR or (len(spec.shape) == 1 and not spec.outer)
    is_host = not spec.is_jit and len(spec.shape) == 1
    return bool(spec.dtype.is_float and (is_flat or is_host))


def pack(*args: Any, layout: Layout = "inference") -> Any:
    """Put matrices and vectors into one array, and return views of them.

    Args:
        args: tensors, flat arrays, views or PyTrees of these, of one type; or modules.
        layout: "inference" or "training" (needed on other backends by reverse mode;
            the same here).

    Returns:
        Each argument with views in place of its matrices; a tuple if there are
        several.

    Raises:
        ArrayTypeError: if the entries are of different types, or for another layout.

    >>> import lumijit as dr
    >>> from lumijit.llvm import TensorXf
    >>> A, b = dr.nn.pack(TensorXf([[1, 2], [3, 4]]), TensorXf([5, 6]))
    >>> A.buffer
    [1, 2, 3, 4, 5, 6]
    >>> b
    MatrixView[Float, shape=(2, 1), offset=4, layout='inference']
    """
    if layout not in _LAYOUTS:
        raise ArrayTypeError(
            "lumijit.nn.pack",
            f"the layout is {layout!r}",
            "use 'inference' or 'training'.",
        )
    return _packed("pack", args, layout)


def unpack(*args: Any) -> Any:
    """Undo `pack`: return views of matrices that lie row by row, in one new array.

    Args:
        args: views or PyTrees of these, or modules.

    >>> import lumijit as dr
    >>> from lumijit.llvm import TensorXf
    >>> A = dr.nn.pack(TensorXf([[1, 2], [3, 4]]))
    >>> TensorXf(dr.nn.unpack(A).T)
    [[1, 3],
     [2, 4]]
    """
    return _packed("unpack", args, "row_major")


def _packed(name: str, args: tuple[Any, ...], layout: str) -> Any:
    found: list[MatrixView] = []
    _collect(args, found)
    if not found:
        raise ArrayTypeError(
            f"lumijit.nn.{name}",
            "there is no matrix",
            "pass tensors, views, or a module after its method 'alloc'.",
        )
    kinds = {type(v.buffer).__name__: type(v.buffer) for v in found}
    if len(kinds) > 1:
        raise ArrayTypeError(
            f"lumijit.nn.{name}",
            f"the entries are of different types ({', '.join(kinds)})",
            "convert them to one type.",
        )
    buffer = concat([v._as_tensor()[0] for v in found])
    offset, made = 0, []
    for v in found:
        rows, columns = v.shape
        made.append(
            MatrixView(buffer, Matrix(rows, columns, offset, columns, 1), layout)
        )
        offset += rows * columns
    result = _replaced(args, iter(made))
    return result[0] if len(args) == 1 else result


def _collect(value: Any, found: list[MatrixView]) -> None:
    """List views of the matrices in a PyTree."""
    if isinstance(value, MatrixView) or _is_matrix(value):
        found.append(view(value))
    elif is_container(value) and not isinstance(value, HashEncoding):
        for _, part in children(value):
            _collect(part, found)


def _replaced(value: Any, views: Any) -> Any:
    if isinstance(value, MatrixView) or _is_matrix(value):
        return next(views)
    if not is_container(value) or isinstance(value, HashEncoding):
        return value
    return rebuild(value, [_replaced(part, views) for _, part in children(value)])


def matvec(
    A: MatrixView,
    x: CoopVec,
    b: MatrixView | None = None,
    /,
    transpose: bool = False,
) -> CoopVec:
    """Multiply a matrix with a vector for each element: `A @ x + b`.

    Halves are multiplied and summed in single precision.

    Args:
        A: view of the matrix.
        x: the vectors.
        b: view of a vector to add.
        transpose: whether to multiply with the transpose of `A`.

    Raises:
        ArrayTypeError: if the types don't fit.
        SizeError: if the shapes don't.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Float, TensorXf
    >>> A, b = dr.nn.pack(TensorXf([[1, 2], [3, 4]]), TensorXf([100, 200]))
    >>> list(dr.nn.matvec(A, dr.nn.CoopVec(Float(1, 2), 1), b))
    [[103, 104], [207, 210]]
    """
    check_vector("matvec", x)
    _check_view(A)
    m = A._matrix.turned if transpose else A._matrix
    _check_shape("a matrix", m, (m.rows, len(x)))
    start: list[Any] = []
    if b is not None:
        _check_view(b)
        _check_shape("what is added", b._matrix, (m.rows, 1))
        start = _multiply(b, b._matrix, [_one_like(x)], [])
    return CoopVec._of(_multiply(A, m, list(x), start))


def _one_like(x: CoopVec) -> Any:
    """Return ones, one for each element: their derivatives are summed up later."""
    if x.type is float:
        return 1.0
    size = max(len(part) for part in x)
    return wrap_flat(x.type, trace.literal(x.type._spec.dtype, 1.0, size))


def _multiply(v: MatrixView, m: Matrix, x: list[Any], start: list[Any]) -> list[Any]:
    buffer, construct = v.buffer, "lumijit.nn.matvec"
    is_traced = isinstance(x[0], FlatArray)
    if is_traced != isinstance(buffer, FlatArray):
        raise _mixed(buffer, type(x[0]))
    if not is_traced:
        data = buffer._data
        return [
            sum(float(data[m.place(i, j)]) * x[j] for j in range(m.columns))
            + (start[i] if start else 0.0)
            for i in range(m.rows)
        ]
    spec, dtype = x[0]._spec, buffer._spec.dtype
    if spec.dtype is not dtype:
        raise _mixed(buffer, type(x[0]))
    joined = promotion.joined_namespace(spec, buffer._spec, construct)
    cls = require(joined.flat(dtype), construct)
    nodes = product(
        buffer._node, m, [part._node for part in x], [part._node for part in start]
    )
    return [wrap_flat(cls, node) for node in nodes]


def _mixed(buffer: Any, cls: Any) -> ArrayTypeError:
    return ArrayTypeError(
        "lumijit.nn.matvec",
        f"the matrix is in a {type(buffer).__name__!r} and the vector is made of "
        f"{cls.__name__!r}",
        "convert the vector: lumijit.nn.cast.",
    )


def _check_view(value: Any) -> None:
    if not isinstance(value, MatrixView):
        raise ArrayTypeError(
            "lumijit.nn.matvec",
            f"expected a MatrixView, got {type(value).__name__!r}",
            "use lumijit.nn.pack or lumijit.nn.view.",
        )


def _check_shape(what: str, m: Matrix, expected: tuple[int, int]) -> None:
    if m[:2] != expected:
        raise SizeError(
            "lumijit.nn.matvec",
            f"{what} of shape {m[:2]} doesn't fit (expected {expected})",
            "use a vector with as many components as the matrix has columns.",
        )
