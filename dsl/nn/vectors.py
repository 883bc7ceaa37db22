"""Cooperative vectors: the layers of a network, one value for each neuron."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from lumijit.base import ArrayBase, Composed
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.functions.repetition import concat
from lumijit.functions.sizes import width
from lumijit.initialize import is_number
from lumijit.pytree import children, is_container
from lumijit.runtime.dtypes import BOOL
from lumijit.runtime.errors import ArrayTypeError, SizeError
from lumijit.traits import is_tensor_v
from lumijit.type_traits import expr_t


class CoopVec(Composed):
    """A vector for each element, to be multiplied with matrices (`matvec`).

    Its components are flat arrays of one type of floats (in the `scalar` namespace:
    numbers). Sums, products and elementwise functions act on each; the other operand
    is a vector of the same length, or a number or flat array for all of them. Iterate
    over a vector to get the components back, or pass it to an array's constructor.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Array2f, Float
    >>> x = dr.nn.CoopVec(Array2f(1, 2), 3.5)
    >>> x
    CoopVec[lumijit.llvm.Float, shape=(3, 1)]
    >>> dr.llvm.Array3f(dr.maximum(x * 2, 3))
    [[3, 4, 7]]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"_parts": list}
    _parts: list[Any]
    _type: Any

    def __init__(self, *args: Any) -> None:
        """Put components together.

        Args:
            args: flat and nested arrays, vectors, numbers, PyTrees of these, tensors,
                whose rows become components.

        Raises:
            ArrayTypeError: for anything else, or if there is no component.
        """
        found = list(_components(args))
        if not found:
            raise ArrayTypeError(
                "lumijit.nn.CoopVec",
                "there is no component",
                "pass arrays or numbers.",
            )
        arrays = [v for v in found if isinstance(v, ArrayBase)]
        self._type = expr_t(*arrays) if arrays else float
        if not arrays:
            self._parts = [float(v) for v in found]
            return
        spec = self._type._spec
        if spec.outer or not spec.is_jit or spec.dtype is BOOL:
            raise ArrayTypeError(
                "lumijit.nn.CoopVec",
                "the components have no common flat type "
                f"(got {self._type.__name__!r})",
                "pass arrays of numbers, of one namespace.",
            )
        # (Arrays that are changed later are others' than these.)
        self._parts = [self._type(v) for v in found]

    @classmethod
    def _of(cls, parts: list[Any]) -> CoopVec:
        """Return a vector of components of one type."""
        made = object.__new__(cls)
        made._parts, made._type = parts, type(parts[0])
        return made

    def _settings(self) -> Iterable[Any]:
        return (self._type,)

    def _rebuilt(self, items: list[Any]) -> Any:
        return CoopVec(*items[0])

    @property
    def type(self) -> Any:
        """The type of the components."""
        return self._type

    def __len__(self) -> int:
        """Return the number of components."""
        return len(self._parts)

    def __iter__(self) -> Iterator[Any]:
        return (v._copy() if isinstance(v, ArrayBase) else v for v in self._parts)

    def __repr__(self) -> str:
        name = self._type.__name__
        if self._type is not float:
            name = f"lumijit.{self._type._spec.namespace}.{name}"
        return f"CoopVec[{name}, shape={(len(self), width(self._parts))}]"

    def _map(self, function: Callable[..., Any], args: tuple[Any, ...]) -> CoopVec:
        columns = []
        for arg in args:
            if isinstance(arg, CoopVec):
                if len(arg) != len(self):
                    raise SizeError(
                        "CoopVec",
                        f"the vectors have {len(self)} and {len(arg)} components",
                        "combine vectors of one length.",
                    )
                columns.append(arg._parts)
            else:
                columns.append([arg] * len(self))
        return CoopVec._of([function(*row) for row in zip(*columns, strict=True)])

    def _as_tensor(self) -> tuple[Any, tuple[int, ...]]:
        """Return the entries, vector after vector, and their shape."""
        if self._type is float:
            return self._parts, (len(self),)
        size = width(self._parts)
        wide = (trace.resized(part._node, size) for part in self._parts)
        return concat([wrap(self._type, node) for node in wide]), (len(self), size)

    def _with(self, function: Callable[..., Any], a: Any, b: Any) -> Any:
        other = b if a is self else a
        is_flat = isinstance(other, ArrayBase) and not other._spec.outer
        if not (is_flat or is_number(other) or isinstance(other, CoopVec)):
            return NotImplemented
        return self._map(function, (a, b))

    def __add__(self, other: Any) -> Any:
        return self._with(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._with(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._with(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._with(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._with(operator.mul, other, self)

    def __neg__(self) -> CoopVec:
        return self._map(operator.neg, (self,))

    def __abs__(self) -> CoopVec:
        return self._map(operator.abs, (self,))


def _components(value: Any) -> Iterator[Any]:
    """Yield the flat arrays and numbers of a PyTree, and rows of tensors, in order."""
    if is_tensor_v(value):
        yield from (row.array for row in (value if value.ndim else (value,)))
        return
    is_flat = isinstance(value, ArrayBase) and not value._spec.outer
    if is_flat or is_number(value):
        yield value
    elif isinstance(value, (ArrayBase, CoopVec)):
        for part in value:
            yield from _components(part)
    elif is_container(value):
        for _, part in children(value):
            yield from _components(part)
    else:
        raise ArrayTypeError(
            "lumijit.nn.CoopVec",
            f"{type(value).__name__!r} has no components",
            "pass arrays, numbers or PyTrees of these.",
        )


def cast(arg: CoopVec, dtype: type[Any], /) -> CoopVec:
    """Convert the components of a vector.

    Args:
        arg: the vector.
        dtype: type of floats, such as `lumijit.llvm.ad.Float16`.

    >>> import lumijit as dr
    >>> x = dr.nn.CoopVec(dr.llvm.Float(1, 2), 3)
    >>> dr.nn.cast(x, dr.llvm.Float16).type.__name__
    'Float16'
    """
    check_vector("cast", arg)
    return CoopVec._of([dtype(part) for part in arg])


def check_vector(name: str, value: Any) -> None:
    """Refuse what is no cooperative vector."""
    if not isinstance(value, CoopVec):
        raise ArrayTypeError(
            f"lumijit.nn.{name}",
            f"expected a CoopVec, got {type(value).__name__!r}",
            "make one: lumijit.nn.CoopVec(x, y).",
        )
