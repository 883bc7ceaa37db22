"""Promotion: which type results from operands of different types.

The rules, in the order of the parts of a type:

- backend: arrays of the scalar namespace go with any other; two others don't mix;
- derivatives: tracked if one operand's are;
- entries: Bool < Int8 < UInt8 < … < UInt64 < Float16 < Float32 < Float64. Python
  numbers are weak: an int takes the type of the array (Int32 for masks), a float
  makes integers Float32;
- dimensions: trailing static dimensions broadcast, as in NumPy; a flat traced
  array broadcasts against all components of a nested one; dynamic wins.

Lists and tuples count as nested arrays of their entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lumijit import initialize
from lumijit.base import Array, ArrayBase
from lumijit.runtime.dtypes import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    DType,
    from_numpy,
)
from lumijit.runtime.errors import ArrayTypeError, check_nesting
from lumijit.spec import (
    COMPLEX,
    DYNAMIC,
    SCALAR,
    TENSOR,
    ArraySpec,
    Backend,
    Kind,
    array_spec,
    plain_kind,
    require,
)


@dataclass
class _Common:
    """What has been seen of the operands so far."""

    backend: Backend = SCALAR
    is_diff: bool = False
    dtype: DType | None = None
    weak: type[Any] | None = None
    outer: tuple[int, ...] = ()
    special: Kind | None = None

    def spec(self, construct: str) -> ArraySpec:
        """Return the facts about the class in common."""
        dtype = _joined_dtype(self)
        kind = self.special or plain_kind(self.outer)
        if kind is TENSOR and self.outer == (DYNAMIC,) and self.backend.is_jit:
            # The entries of a tensor of the scalar namespace.
            self.outer = ()
        found = array_spec(self.backend, self.is_diff, dtype, self.outer, kind)
        if self.special and (self.outer, dtype) not in kind.types:
            raise ArrayTypeError(
                construct,
                f"{kind.name} arrays can't be combined with arrays of static "
                f"dimensions {self.outer}",
                "combine them with flat arrays or their own kind, or take '.array'.",
            )
        return found


_WEAK_ORDER = (bool, int, float, complex)
# What operands of these types have in common.
_KNOWN: dict[tuple[type[Any], ...], ArraySpec] = {}


def is_convertible(value: Any) -> bool:
    """Tell whether a value can be an operand beside an array."""
    return (
        isinstance(value, (ArrayBase, list, tuple))
        or initialize.is_number(value)
        or initialize.is_complex(value)
        or initialize.offers_array(value)
    )


def common_spec(values: Iterable[Any], construct: str) -> ArraySpec:
    """Return what class the operands have in common, or raise."""
    values = tuple(values)
    kinds = tuple(map(type, values))
    known = _KNOWN.get(kinds)
    if known is not None:
        return known
    for value in values:
        if isinstance(value, ArrayBase) and value._spec.is_instance:
            return _instance_spec(value._spec, values, construct)
    seen = _Common()
    for value in values:
        _look_at(value, seen, construct, depth=0)
    spec = seen.spec(construct)
    if all(is_told_by_type(kind) for kind in kinds):
        _KNOWN[kinds] = spec
    return spec


def is_told_by_type(kind: type[Any]) -> bool:
    """Tell whether an operand's type alone says how it is promoted."""
    return kind in _WEAK_ORDER or issubclass(kind, ArrayBase)


def _instance_spec(
    spec: ArraySpec, values: tuple[Any, ...], construct: str
) -> ArraySpec:
    """Return the spec of an instance array that stands beside instances or None."""
    for value in values:
        if isinstance(value, ArrayBase) and value._spec is not spec:
            raise ArrayTypeError(
                construct,
                f"an instance array can't be combined with {type(value).__name__!r}",
                "combine it with instances, None or an array of its own type.",
            )
    return spec


def common_of_types(kinds: Iterable[type[Any]], construct: str) -> ArraySpec:
    """Return what class array and Python scalar types have in common, or raise."""
    seen = _Common()
    for kind in kinds:
        if issubclass(kind, ArrayBase):
            _join_spec(kind._spec, seen, construct)
        else:
            _join_weak(seen, kind, construct)
    return seen.spec(construct)


# The common class of operands of which the types tell it.
_COMMON: dict[tuple[type[Any], ...], type[Any]] = {}


def common_class(values: Iterable[Any], construct: str) -> type[Any]:
    """Return the class to which all operands are converted."""
    values = tuple(values)
    key = tuple(map(type, values))
    found = _COMMON.get(key)
    if found is None:
        found = require(common_spec(values, construct), construct)
        if all(map(is_told_by_type, key)):
            _COMMON[key] = found
    return found


def promote(construct: str, *values: Any) -> tuple[Any, ...]:
    """Convert operands, at least one of them an array, to their common class."""
    cls = common_class(values, construct)
    converted = [v if type(v) is cls else cls(v) for v in values]
    return (*converted,)


def _look_at(value: Any, seen: _Common, construct: str, depth: int) -> None:
    if isinstance(value, ArrayBase):
        _join_spec(value._spec, seen, construct, is_nested=depth > 0)
    elif initialize.is_number(value) or initialize.is_complex(value):
        # Not its type: it may stand for a number (`numbers`).
        weak = (value.item() if hasattr(value, "item") else value).__class__
        _join_weak(seen, weak, construct)
    elif isinstance(value, (list, tuple)):
        check_nesting(depth)
        for item in value:
            _look_at(item, seen, construct, depth + 1)
    elif initialize.offers_array(value):
        data = initialize.contents(value, construct)
        if data.dtype.kind == "c":
            _join_complex(seen, construct)
            data = data.real
        dtype = from_numpy(initialize.host_array(data, construct).dtype)
        assert dtype is not None
        _join_dtype(seen, dtype)
    else:
        raise ArrayTypeError(
            construct,
            f"unsupported operand of type {type(value).__name__!r}",
            "pass arrays, numbers or sequences of numbers.",
        )


def _join_spec(
    spec: ArraySpec, seen: _Common, construct: str, is_nested: bool = False
) -> None:
    seen.backend = _joined_backend(seen.backend, spec.backend, construct)
    seen.is_diff = seen.is_diff or spec.is_diff
    _join_dtype(seen, spec.dtype)
    if spec.kind.is_dominant and not is_nested:
        _join_special(seen, spec.kind, construct)
    if not is_nested:
        seen.outer = broadcast_outer(seen.outer, spec.outer, construct)


def _joined_backend(a: Backend, b: Backend, construct: str) -> Backend:
    if a is b or b is SCALAR:
        return a
    if a is SCALAR:
        return b
    raise ArrayTypeError(
        construct,
        f"arrays of the backends {a.name!r} and {b.name!r} don't mix",
        "make all arrays in the namespace of one backend; to move contents, "
        "convert to NumPy and back.",
    )


def joined_namespace(a: ArraySpec, b: ArraySpec, construct: str) -> ArraySpec:
    """Return the first of two specs in the namespace that both have in common."""
    if a.backend is b.backend and (a.is_diff or not b.is_diff):
        return a
    backend = _joined_backend(a.backend, b.backend, construct)
    return a.replaced(backend=backend, is_diff=a.is_diff or b.is_diff)


def _join_special(seen: _Common, kind: Kind, construct: str) -> None:
    if seen.special not in (None, kind):
        raise ArrayTypeError(
            construct,
            f"{seen.special.name} and {kind.name} arrays don't mix",
            "take the components of one of them, '.array'.",
        )
    seen.special = kind


def _join_complex(seen: _Common, construct: str) -> None:
    """Join a complex number that is no array of ours."""
    _join_special(seen, COMPLEX, construct)
    seen.outer = broadcast_outer(seen.outer, (2,), construct)


def weak_kind(kind: type[Any]) -> type[Any]:
    """Return which of Python's types of numbers a type is, or derives from."""
    return next((base for base in _WEAK_ORDER if issubclass(kind, base)), kind)


def _join_weak(seen: _Common, weak: type[Any], construct: str) -> None:
    weak = weak_kind(weak)
    if weak is complex:
        _join_complex(seen, construct)
        weak = float
    if seen.weak is None or _WEAK_ORDER.index(weak) > _WEAK_ORDER.index(seen.weak):
        seen.weak = weak


def _join_dtype(seen: _Common, dtype: DType) -> None:
    if seen.dtype is None or dtype.index > seen.dtype.index:
        seen.dtype = dtype


def _joined_dtype(seen: _Common) -> DType:
    dtype, weak = seen.dtype, seen.weak
    if dtype is None:
        return number_dtype(weak or float)
    if weak is float and not dtype.is_float:
        return FLOAT32
    if weak is int and dtype.is_bool:
        return INT32
    return dtype


def number_dtype(kind: type[Any]) -> DType:
    """Return the type in which Python numbers are computed."""
    if kind is bool:
        return BOOL
    return INT64 if kind is int else FLOAT64


def broadcast_outer(
    a: tuple[int, ...], b: tuple[int, ...], construct: str
) -> tuple[int, ...]:
    """Return the static dimensions that two shapes have in common."""
    if len(a) < len(b):
        a, b = b, a
    head, tail = a[: len(a) - len(b)], a[len(a) - len(b) :]
    joined = []
    for m, n in zip(tail, b, strict=True):
        if m != n and DYNAMIC not in (m, n):
            raise ArrayTypeError(
                construct,
                f"the operands have incompatible shapes (static dimensions "
                f"{a} and {b})",
                "use arrays with the same number of components.",
            )
        joined.append(DYNAMIC if DYNAMIC in (m, n) else m)
    return (*head, *joined)


def mask_for(mask: Any, array: Array, construct: str) -> Array:
    """Convert a mask argument to the mask class of an array."""
    cls = array._mask_cls
    if type(mask) is cls:
        return mask
    if isinstance(mask, ArrayBase) and mask._spec.dtype is not BOOL:
        raise ArrayTypeError(
            construct,
            f"the mask has type {type(mask).__name__} (expected {cls.__name__})",
            "use a comparison, or convert it with a mask type.",
        )
    return cls(mask)
