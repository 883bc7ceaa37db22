"""What complex numbers, quaternions and matrices have in common.

Owns the way from an operation to its rule: each kind has a table of rules, which take
the parts of operands (flat arrays, in the order of the components) and return those of
the result. What has no rule acts on each entry. How the kinds are made and read is in
`complex_arrays`, `quaternion_arrays` and `matrix_arrays`; storage is that of ordinary
arrays of the same dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

import numpy as np

from lumijit import initialize
from lumijit.arrays import FlatArray
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir.ops.arithmetic import INT_DIV, MOD
from lumijit.compiler.ir.ops.logic import GE, GT, LE, LT
from lumijit.compiler.ir.ops.record import Op
from lumijit.nested import wrap as wrap_nested
from lumijit.recipes import carry_out
from lumijit.runtime.dtypes import FLOAT16, FLOAT32, DType
from lumijit.runtime.errors import ArrayTypeError
from lumijit.scalar_arrays import HostArray
from lumijit.scalar_arrays import wrap as wrap_host
from lumijit.spec import COMPLEX, DYNAMIC, TENSOR, find, require

Parts = tuple[Any, ...]
_LEAVES: dict[type[Any], type[Any]] = {}
# What isn't applied to entries where there is no rule: it would take a meaning that
# the numbers don't have.
_REFUSED = frozenset((INT_DIV, MOD, LT, LE, GT, GE))


class SpecialArray(ArrayBase):
    """An array of which operations mean more than operations on its entries."""

    __slots__ = ()
    _rules: ClassVar[dict[Op, Callable[..., Any]]]
    # Operations of which real operands stay what they are.
    _take_reals: ClassVar[tuple[Op, ...]]
    # What to do instead of an operation that has no rule.
    _mend: ClassVar[str]

    def _map(self, op: Op, *others: Array) -> Array:
        return self._combine(op, f"lumijit.{op.name}", (self, *others))

    @classmethod
    def _combine(cls, op: Op, construct: str, operands: tuple[Any, ...]) -> Any:
        """Apply an operation to operands that become of this class, or stay real."""
        rule = cls._rules.get(op)
        if rule is None:
            return cls._by_entry(op, construct, operands)
        dtype = cls._spec.dtype
        if dtype is FLOAT16:
            wide: Any = require(cls._spec.replaced(dtype=FLOAT32), construct)
            return _narrowed(wide._combine(op, construct, operands), dtype)
        parts = [
            parts_of(v) if type(v) is cls else cls._operand(v, op) for v in operands
        ]
        found = carry_out(rule, *parts)
        return cls._result(found)

    @classmethod
    def _by_entry(cls, op: Op, construct: str, operands: tuple[Any, ...]) -> Any:
        if op in _REFUSED or cls._spec.dtype not in op.accepts:
            raise ArrayTypeError(
                construct,
                f"not defined for {cls._spec.kind.name} arrays ({cls.__name__})",
                cls._mend,
            )
        first, *others = [v if type(v) is cls else cls(v) for v in operands]
        return super(SpecialArray, cast(Any, first))._map(op, *others)

    @classmethod
    def _operand(cls, value: Any, op: Op) -> Parts:
        """Return the parts of an operand."""
        if op in cls._take_reals and is_real(value):
            return cls._real(value)
        return parts_of(value if type(value) is cls else cls(value))

    @classmethod
    def _result(cls, found: Any) -> Any:
        """Return what a rule has found as users get it."""
        if isinstance(found, tuple):
            return joined(cls, found)
        return found if cls._spec.is_jit else found.item()

    @classmethod
    def _real(cls, value: Any) -> Parts:
        """Return the parts of a real operand: one, as flat as they all are."""
        leaf = leaf_class(cls)
        return (value if type(value) is leaf else leaf(value),)

    @property
    def array(self) -> Array:
        """The entries as an ordinary array."""
        cls: Any = find(self._spec.plain())
        return cls(self)


def without_tensor(cls: type[Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a constructor, a tensor as an ordinary array."""
    value = args[0] if len(args) == 1 else None
    if not isinstance(value, ArrayBase) or value._spec.kind is not TENSOR:
        return args
    if len(value.shape) != len(cls._spec.shape):
        return args
    # As in NumPy, the parts of complex numbers are next to each other.
    value = value.T if cls._spec.kind is COMPLEX else value
    return (require(cls._spec.plain(), cls.__name__)(value),)


def leaf_class(cls: type[Any]) -> type[Any]:
    """Return the class of the parts of an array class."""
    leaf = _LEAVES.get(cls)
    if leaf is None:
        outer = () if cls._spec.is_jit else (DYNAMIC,)
        leaf = _LEAVES[cls] = require(cls._spec.replaced(outer=outer), cls.__name__)
    return leaf


def parts_of(array: Array) -> Parts:
    """Return the flat arrays of which an array consists, one of each entry.

    In the scalar namespace, these are arrays of one entry.
    """
    if isinstance(array, FlatArray):
        return (array,)
    if isinstance(array, HostArray):
        leaf, data = leaf_class(type(array)), array._data
        return tuple(wrap_host(leaf, data[i : i + 1]) for i in range(len(data)))
    if issubclass(array._item, FlatArray):
        return tuple(array._items)
    return tuple(part for item in array._items for part in parts_of(item))


def joined(cls: Any, parts: Parts) -> Any:
    """Return an array of a class for its parts, which nobody else holds."""
    if issubclass(cls, HostArray):
        return wrap_host(cls, np.concatenate([p._data for p in parts]))
    size = cls._spec.outer[0]
    step = len(parts) // size
    if step == 1:
        return wrap_nested(cls, list(parts))
    rows = [parts[i : i + step] for i in range(0, len(parts), step)]
    return wrap_nested(cls, [joined(cls._item, row) for row in rows])


def is_real(value: Any) -> bool:
    """Tell whether a value is a real number, or an array of these."""
    if isinstance(value, ArrayBase):
        return not value._spec.outer
    if isinstance(value, np.ndarray):
        return not value.ndim and value.dtype.kind in "biuf"
    return initialize.is_number(value)


def _narrowed(value: Any, dtype: DType) -> Any:
    if isinstance(value, ArrayBase):
        return require(value._spec.replaced(dtype=dtype), "conversion")(value)
    return initialize.number(value, dtype, "conversion")
