# cython: annotation_typing=True
"""Python's operators, generated from op records for every array class.

Everything an operator needs is bound in its closure, because tracing speed is
decided here: for operands of the same class an operator is this function and
`emit2`. (`wrap` and `Holder._become` are written out here, as calling them would cost
6 %.) Python numbers come second, with a small cache of `literals`; everything else goes
through `promotion`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lumijit import promotion
from lumijit.arrays import FlatArray
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder, new_holder
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops import logic as lo
from lumijit.compiler.ir.ops.record import REGISTRY, Op
from lumijit.compiler.ir.trace import emit2
from lumijit.direct import LITERALS, RESULTS, apply_flat
from lumijit.literals import literals_of
from lumijit.nested import NestedArray, new_vector
from lumijit.runtime.dtypes import BOOL, DType
from lumijit.runtime.errors import ArrayTypeError
from lumijit.spec import TENSOR, require
from lumijit.standing import STANDING, stand_as, stands

Operator = Callable[[Any, Any], Any]
new_object: Callable[[Any], Any] = object.__new__
_LANES = trace.running_lanes


class Binary(NamedTuple):
    """A Python operator and the op it traces."""

    name: str
    op: Op
    symbol: str
    is_comparison: bool = False


BINARY = (
    Binary("add", ar.ADD, "+"),
    Binary("sub", ar.SUB, "-"),
    Binary("mul", ar.MUL, "*"),
    Binary("truediv", ar.DIV, "/"),
    Binary("floordiv", ar.INT_DIV, "//"),
    Binary("mod", ar.MOD, "%"),
    Binary("and", lo.AND, "&"),
    Binary("or", lo.OR, "|"),
    Binary("xor", lo.XOR, "^"),
    Binary("lshift", lo.SHL, "<<"),
    Binary("rshift", lo.SHR, ">>"),
    Binary("eq", lo.EQ, "==", True),
    Binary("ne", lo.NE, "!=", True),
    Binary("lt", lo.LT, "<", True),
    Binary("le", lo.LE, "<=", True),
    Binary("gt", lo.GT, ">", True),
    Binary("ge", lo.GE, ">=", True),
)
UNARY = (
    ("neg", ar.NEG, "-"),
    ("abs", ar.ABS, "abs"),
    ("invert", lo.NOT, "~"),
)


def apply(op: Op, construct: str, *operands: Any) -> Array:
    """Promote operands, at least one of them an array, and apply an operation."""
    flat = apply_flat(op, operands)
    if flat is not None:
        return flat
    first = operands[0]
    cls: Any = type(first)
    if any(type(o) is not cls for o in operands):
        cls = promotion.common_class(operands, construct)
    if cls._spec.kind.is_special:
        return cls._combine(op, construct, operands)
    operands = tuple(o if type(o) is cls else cls(o) for o in operands)
    check_accepts(op, cls._spec.dtype, construct)
    return operands[0]._map(op, *operands[1:])


def check_accepts(op: Op, dtype: DType, construct: str) -> None:
    """Raise unless an operation takes entries of a type."""
    if dtype in op.accepts:
        return
    fix = "convert the operands first."
    if op is ar.DIV:
        fix = "use // for integers, or convert to a float type first."
    elif dtype is BOOL:
        fix = "convert the mask first, or use &, | and ~ on masks."
    raise ArrayTypeError(
        construct, f"not defined for entries of type {dtype.name}", fix
    )


def combine(binary: Binary, a: Any, b: Any) -> Array:
    """Apply an operator to operands of any types."""
    construct = f"operator {binary.symbol}"
    if binary.op is lo.AND and _is_array_and_mask(a, b):
        return _masked(a, b, construct)
    if binary.is_comparison and binary.op not in (lo.EQ, lo.NE):
        spec = promotion.common_spec((a, b), construct)
        if spec.dtype is BOOL:
            cls = require(spec, construct)
            return _ORDER_OF_MASKS[binary.op](cls(a), cls(b))
    return apply(binary.op, construct, a, b)


#: False comes before True.
_ORDER_OF_MASKS: dict[Op, Callable[[Any, Any], Any]] = {
    lo.LT: lambda a, b: ~a & b,
    lo.LE: lambda a, b: ~a | b,
    lo.GT: lambda a, b: a & ~b,
    lo.GE: lambda a, b: a | ~b,
}


def _is_array_and_mask(a: Any, b: Any) -> bool:
    """Tell whether the right operand is a mask and the left one isn't."""
    if isinstance(b, (bool, np.bool_)):
        return isinstance(a, ArrayBase) and a._spec.dtype is not BOOL
    if not isinstance(b, ArrayBase) or b._spec.dtype is not BOOL:
        return False
    if isinstance(a, ArrayBase):
        return a._spec.dtype is not BOOL
    return issubclass(a.__class__, (int, float)) and not isinstance(a, bool)


def _masked(value: Any, mask: Any, construct: str) -> Array:
    """Keep the entries under a mask and make the others zero."""
    spec = promotion.common_spec((value, mask), construct)
    dtype = value._spec.dtype if isinstance(value, ArrayBase) else spec.dtype
    cls = require(spec.replaced(dtype=dtype), construct)
    wide = cls(value)
    return wide._select(cls._mask_cls(mask), cls(0))


def _general(binary: Binary, is_reversed: bool) -> Operator:
    def operator(self: Any, other: Any) -> Any:
        if not promotion.is_convertible(other):
            return NotImplemented
        result = combine(binary, *((other, self) if is_reversed else (self, other)))
        if STANDING:
            stand_as(result, self, other)
        return result

    return operator


def _python_types(dtype: DType) -> tuple[type[Any], ...]:
    """Return the types of Python numbers that keep an operand's type."""
    if dtype is BOOL:
        return (bool,)
    return (float, int, bool) if dtype.is_float else (int, bool)


def _without_masks(
    numbers: tuple[type[Any], ...], op: Op, dtype: DType
) -> tuple[type[Any], ...]:
    """Return the types of Python numbers that an operator takes as literals at once.

    `x & True` isn't `x & 1`: it keeps x, as a mask of a single entry does.
    """
    if op is lo.AND and dtype is not BOOL:
        return tuple(kind for kind in numbers if kind is not bool)
    return numbers


def _flat_operator(cls: type[Any], binary: Binary, is_reversed: bool) -> Operator:
    op = binary.op
    result = cls._mask_cls if op.result is BOOL else cls
    numbers = _without_masks(cls._numbers, op, cls._spec.dtype)
    literal = cls._literal
    general = _general(binary, is_reversed)

    def forward(self: Holder, other: Any) -> Any:
        kind = type(other)
        if kind is cls:
            right: Holder = other
            node = right._node
        elif kind in numbers:
            node = literal(other)
        else:
            return general(self, other)
        r: Holder = new_holder(result)
        r._node = emit2(op, self._node, node)
        if STANDING and (id(self) in STANDING or id(other) in STANDING):
            stand_as(r, self, other)
        return r

    def backward(self: Holder, other: Any) -> Any:
        if type(other) in numbers:
            r: Holder = new_holder(result)
            r._node = emit2(op, literal(other), self._node)
            if STANDING and id(self) in STANDING:
                stand_as(r, self, other)
            return r
        return general(self, other)

    return backward if is_reversed else forward


def _nested_operator(cls: type[Any], binary: Binary, is_reversed: bool) -> Operator:
    """Operator of static arrays of flat arrays, such as `Array3f`."""
    op = binary.op
    leaf = cls._item
    result = cls._mask_cls if op.result is BOOL else cls
    result_leaf = result._item
    dtype = cls._spec.dtype
    numbers = _without_masks(_python_types(dtype), op, dtype)
    literal = literals_of(dtype, leaf.__name__)
    general = _general(binary, is_reversed)
    in_lists = frozenset(numbers) - {bool}

    def forward(self: Any, other: Any) -> Any:
        kind = type(other)
        items = []
        if kind is cls:
            # (`zip(strict=True)` takes as long as two operations.)
            others = other._items
            for k, a in enumerate(self._items):
                r = new_holder(result_leaf)
                r._node = emit2(op, a._node, others[k]._node)
                items.append(r)
        elif kind is leaf or kind in numbers:
            node = other._node if kind is leaf else literal(other)
            for a in self._items:
                r = new_holder(result_leaf)
                r._node = emit2(op, a._node, node)
                items.append(r)
        elif (
            (kind is list or kind is tuple)
            and len(other) == len(self._items)
            and in_lists.issuperset(map(type, other))
        ):
            for k, a in enumerate(self._items):
                r = new_holder(result_leaf)
                r._node = emit2(op, a._node, literal(other[k]))
                items.append(r)
        else:
            return general(self, other)
        vector = new_vector(result)
        vector._items = items
        return vector

    def backward(self: Any, other: Any) -> Any:
        kind = type(other)
        if kind is not leaf and kind not in numbers:
            return general(self, other)
        node = other._node if kind is leaf else literal(other)
        items = []
        for a in self._items:
            r = new_holder(result_leaf)
            r._node = emit2(op, node, a._node)
            items.append(r)
        vector = new_vector(result)
        vector._items = items
        return vector

    return backward if is_reversed else forward


def _tensor_operator(cls: type[Any], binary: Binary, is_reversed: bool) -> Operator:
    """Operator of tensors of flat arrays: of one shape, or of a tensor and a number."""
    op = binary.op
    result = cls._mask_cls if op.result is BOOL else cls
    flat = result._flat_class()
    dtype = cls._spec.dtype
    numbers = _without_masks(_python_types(dtype), op, dtype)
    literal = literals_of(dtype, cls.__name__)
    general = _general(binary, is_reversed)

    def operator(self: Any, other: Any) -> Any:
        kind = type(other)
        if kind in numbers:
            node = literal(other)
        elif kind is cls and other._shape == self._shape:
            node = other._flat._node
        else:
            return general(self, other)
        own = self._flat._node
        r: Holder = new_holder(flat)
        r._node = emit2(op, node, own) if is_reversed else emit2(op, own, node)
        tensor = new_object(result)
        tensor._flat = r
        tensor._shape = self._shape
        if STANDING:
            stand_as(tensor, self, other)
        return tensor

    return operator


def in_place(forward: Operator, is_by_entry: bool = True) -> Operator:
    """Change the array itself where the type stays the same.

    While one lane runs as plain Python, arrays are values, as numbers are; so are those
    that stand for numbers.
    """

    def operator(self: Any, other: Any) -> Any:
        if is_by_entry and self._spec.kind is TENSOR:
            other = self._beside(other)
        result = forward(self, other)
        if _LANES and trace.state.lane is not None:
            return result
        if STANDING and stands(self):
            return result
        if type(result) is type(self):
            self._assign(result)
            return self
        return result

    return operator


def _flat_in_place(cls: type[Any], op: Op, forward: Operator) -> Operator:
    slow = in_place(forward)

    def operator(self: Holder, other: Any) -> Any:
        is_standing = STANDING and id(self) in STANDING
        if type(other) is cls and not _LANES and not is_standing:
            right: Holder = other
            self._node = emit2(op, self._node, right._node)
            return self
        return slow(self, other)

    return operator


def _unary(op: Op, symbol: str) -> Callable[[Any], Any]:
    def operator(self: Any) -> Any:
        found = apply_flat(op, (self,))
        if found is not None:
            if STANDING:
                stand_as(found, self)
            return found
        check_accepts(op, self._spec.dtype, f"operator {symbol}")
        return self._map(op)

    return operator


def _positive(self: Any) -> Any:
    return stand_as(self._copy(), self)


def _special_operator(cls: Any, binary: Binary, is_reversed: bool) -> Operator:
    """Operator of a kind with rules of its own, such as `Complex2f`."""
    op, construct = binary.op, f"operator {binary.symbol}"
    general = _general(binary, is_reversed)

    def operator(self: Any, other: Any) -> Any:
        if type(other) is cls:
            return cls._combine(op, construct, (self, other))
        return general(self, other)

    return general if is_reversed else operator


def _maker(cls: type[Any], accepts: bool) -> Any:
    if not accepts:
        return None
    if cls._spec.kind.is_special:
        return _special_operator
    if issubclass(cls, FlatArray):
        return _flat_operator
    if cls._spec.kind is TENSOR:
        return _tensor_operator if issubclass(cls._flat_class(), FlatArray) else None
    if issubclass(cls, NestedArray) and cls._spec.outer[0] >= 0:
        return _nested_operator if issubclass(cls._item, FlatArray) else None
    return None


def _named(function: Any, name: str, cls: type[Any]) -> Any:
    function.__name__ = name
    function.__qualname__ = f"{cls.__name__}.{name}"
    return function


def install(cls: Any) -> None:
    """Give a concrete class its operators."""
    dtype = cls._spec.dtype
    if issubclass(cls, FlatArray):
        cls._numbers = _python_types(dtype)
        literal = literals_of(dtype, cls.__name__)
        cls._literal = staticmethod(literal)
        LITERALS[cls] = dict.fromkeys(cls._numbers, literal)
        for op in REGISTRY.values():
            if dtype in op.accepts:
                RESULTS[op][cls] = cls._mask_cls if op.result is BOOL else cls
    for binary in BINARY:
        make = _maker(cls, dtype in binary.op.accepts)
        for is_reversed in (False, True):
            if is_reversed and binary.is_comparison:
                continue
            if make is None:
                function = _general(binary, is_reversed)
            else:
                function = make(cls, binary, is_reversed)
            prefix = "r" if is_reversed else ""
            name = f"__{prefix}{binary.name}__"
            setattr(cls, name, _named(function, name, cls))
        if not binary.is_comparison:
            forward = getattr(cls, f"__{binary.name}__")
            name = f"__i{binary.name}__"
            function = in_place(forward)
            if make is _flat_operator:
                function = _flat_in_place(cls, binary.op, forward)
            setattr(cls, name, _named(function, name, cls))
    for stem, op, symbol in UNARY:
        name = f"__{stem}__"
        setattr(cls, name, _named(_unary(op, symbol), name, cls))
    cls.__pos__ = _named(_positive, "__pos__", cls)
    cls.__hash__ = object.__hash__
