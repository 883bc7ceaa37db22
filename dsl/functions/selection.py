"""Masks: selection, tests of floats, comparison within a tolerance."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from lumijit import initialize, promotion
from lumijit.arrays import FlatArray
from lumijit.base import Array, ArrayBase, Composed
from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.record import reductions
from lumijit.functions.apply import has_array, not_numeric
from lumijit.functions.elementwise import abs as abs_
from lumijit.nested import NestedArray
from lumijit.pytree import is_container, tree_map
from lumijit.runtime.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, DType
from lumijit.runtime.errors import (
    ArrayTypeError,
    RecordingError,
    SizeError,
    check_nesting,
)
from lumijit.spec import TENSOR, require
from lumijit.standing import stand_as
from lumijit.type_traits import float64_array_t


def select(mask: Any, a: Any, b: Any, /) -> Any:
    """Choose between two values, entry by entry.

    Args:
        mask: Python bool or mask array.
        a: value where the mask is set: number, array or PyTree.
        b: value elsewhere: number, array or PyTree.

    Returns:
        The choice, of the promoted type of `a` and `b` and as wide as the mask.
        For a Python bool, containers and numbers stay as they are.

    Raises:
        ArrayTypeError: if the mask is no mask, or the types can't be combined.

    >>> import lumijit as dr
    >>> from lumijit.llvm import Bool, Float
    >>> dr.select(Bool(True, False), Float(1, 2), 0)
    [1, 0]
    """
    known = _SELECTED.get((type(mask), type(a), type(b)))
    if known is not None:
        cls, fits = known
        wide = mask if fits else cls._mask_cls(mask)
        return stand_as(_converted(cls, a)._select(wide, _converted(cls, b)), a, b)
    composed = Composed.map(select, (mask, a, b))
    if composed is not None:
        return composed
    if isinstance(mask, (bool, np.bool_)):
        if isinstance(a, ArrayBase) or isinstance(b, ArrayBase):
            return stand_as(_select_arrays(mask, a, b), a, b)
        return a if mask else b
    if isinstance(mask, (list, tuple, np.ndarray)):
        array = next((v for v in (a, b) if isinstance(v, ArrayBase)), None)
        if array is not None:
            return select(type(array)._mask_cls(mask), a, b)
    if not isinstance(mask, ArrayBase) or mask._spec.dtype is not BOOL:
        raise ArrayTypeError(
            "lumijit.select",
            f"the condition has type {type(mask).__name__!r} (expected a mask)",
            "use a comparison, e.g. 'x != 0'.",
        )
    if is_container(a) and type(a) is type(b) and not isinstance(a, ArrayBase):
        return tree_map(lambda x, y: select(mask, x, y), a, b)
    if not _has_entries(a) and not _has_entries(b):
        return _agreed(a, b)
    return stand_as(_select_arrays(mask, a, b), a, b)


def _has_entries(value: Any) -> bool:
    """Tell whether a value can be, or be made, an array."""
    return (
        isinstance(value, (ArrayBase, *initialize.SEQUENCES))
        or initialize.is_number(value)
        or initialize.is_complex(value)
        or initialize.offers_array(value)
    )


def _agreed(a: Any, b: Any) -> Any:
    """Return the Python object that both sides have."""
    if a is b or (type(a) is type(b) and a == b):
        return a
    raise ArrayTypeError(
        "lumijit.select",
        f"a Python object can't differ between elements (the values are {a!r} "
        f"and {b!r})",
        "let both values hold the same object there, or select by a Python bool.",
    )


def _select_arrays(mask: Any, a: Any, b: Any) -> Array:
    construct = "lumijit.select"
    spec = promotion.common_spec((a, b), construct)
    if not has_array((a, b)):
        spec = spec.replaced(dtype=_narrow(spec.dtype))
    if spec.is_instance or spec.kind.is_special:
        wanted = spec
    else:
        others = _shape_only(a), _shape_only(b)
        shape = promotion.common_spec((mask, *others), construct)
        wanted = shape.replaced(dtype=spec.dtype)
    cls = require(wanted, construct)
    kinds = tuple(map(type, (mask, a, b)))
    is_common = issubclass(cls, NestedArray) and isinstance(mask, FlatArray)
    fits = type(mask) is cls._mask_cls or is_common
    if all(promotion.is_told_by_type(kind) for kind in kinds):
        _SELECTED[kinds] = cls, fits
    wide = mask if fits else cls._mask_cls(mask)
    return _converted(cls, a)._select(wide, _converted(cls, b))


# The class of the result for types met before, and whether its masks are of that type.
_SELECTED: dict[tuple[type[Any], ...], tuple[type[Any], bool]] = {}


def _converted(cls: type[Any], value: Any) -> Array:
    kind = type(value)
    if kind is cls:
        return value
    if issubclass(cls, FlatArray) and kind in cls._numbers:
        return wrap(cls, cls._literal(value))
    return cls(value)


def _narrow(dtype: DType) -> DType:
    """Python numbers alone give 32-bit entries."""
    if dtype is BOOL:
        return BOOL
    return FLOAT32 if dtype.is_float else INT32


def _shape_only(value: Any) -> Any:
    return value if isinstance(value, (ArrayBase, list, tuple)) else 0


def isnan(arg: Any, /) -> Any:
    """Test for NaN.

    Args:
        arg: number or array of numbers.

    Returns:
        A bool or a mask of the shape of `arg`.

    >>> import lumijit as dr
    >>> dr.isnan(dr.llvm.Float(1, dr.nan))
    [False, True]
    """
    if isinstance(arg, ArrayBase):
        return arg != arg
    return _of_others(isnan, math.isnan, arg)


def isinf(arg: Any, /) -> Any:
    """Test for positive or negative infinity.

    Args:
        arg: number or array of numbers.

    Returns:
        A bool or a mask of the shape of `arg`; of complex numbers
        and quaternions one for all parts.

    >>> import lumijit as dr
    >>> dr.isinf(dr.llvm.Float(1, -dr.inf))
    [False, True]
    """
    if isinstance(arg, ArrayBase):
        if arg._spec.kind.is_number:
            return reduce(operator.or_, map(isinf, arg))
        arg = arg.array if arg._spec.kind.is_special else arg
        return abs_(arg) == math.inf if arg._spec.dtype.is_float else arg != arg
    return _of_others(isinf, math.isinf, arg)


def isfinite(arg: Any, /) -> Any:
    """Test for values that are neither infinite nor NaN.

    Args:
        arg: number or array of numbers.

    Returns:
        A bool or a mask of the shape of `arg`; of complex numbers
        and quaternions one for all parts.

    >>> import lumijit as dr
    >>> dr.isfinite(dr.llvm.Float(1, dr.inf, dr.nan))
    [True, False, False]
    """
    if isinstance(arg, ArrayBase):
        if arg._spec.kind.is_number:
            return reduce(operator.and_, map(isfinite, arg))
        arg = arg.array if arg._spec.kind.is_special else arg
        return abs_(arg) < math.inf if arg._spec.dtype.is_float else arg == arg
    return _of_others(isfinite, math.isfinite, arg)


def _of_others(function: Any, of_number: Any, arg: Any) -> Any:
    """Apply a test to a number, or to what is composed of arrays."""
    if initialize.is_number(arg):
        return of_number(arg)
    found = Composed.map(function, (arg,))
    if found is None:
        raise not_numeric(f"lumijit.{function.__name__}", (arg,))
    return found


_TOLERANCES = {FLOAT16: (1e-2, 1e-2), FLOAT64: (1e-5, 1e-8)}


# Fewer entries are compared by NumPy.
_LARGE = 1 << 17


def allclose(
    a: Any,
    b: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
) -> bool:
    """Tell whether two values agree within a tolerance: |a - b| <= |b| rtol + atol.

    Args:
        a: number, sequence or array. Lists, tuples and NumPy's arrays are compared with
            each other item by item; a number, or a single item, with all.
        b: number, sequence or array.
        rtol: relative tolerance; by default 1e-2 (half), 1e-3 (single) or 1e-5.
        atol: absolute tolerance; by default 1e-2 (half), 1e-5 (single) or 1e-8.
        equal_nan: whether two NaNs agree.

    Returns:
        A Python bool; evaluates the arrays.

    Raises:
        SizeError: if shapes can't be combined.
        ArrayTypeError: for what is no number, and for other tolerances.

    >>> import lumijit as dr
    >>> dr.allclose(dr.llvm.Float(1, 2), [1.00001, 2])
    True
    """
    if _are_large(a, b):
        tolerances = _tolerances("lumijit.allclose", a, b, rtol, atol)
        if all(map(initialize.is_number, tolerances)):
            return _all_close(a.array, b.array, *tolerances, equal_nan)
    return all(
        np.allclose(compared.a, compared.b, compared.rtol, compared.atol, equal_nan)
        for compared in comparable("lumijit.allclose", a, b, rtol, atol)
    )


def _are_large(a: Any, b: Any) -> bool:
    """Tell whether two arrays of one shape are worth a kernel that compares them."""
    if not isinstance(a, ArrayBase) or not isinstance(b, ArrayBase):
        return False
    specs = a._spec, b._spec
    return (
        all(spec.is_jit and not spec.dtype.is_bool for spec in specs)
        and specs[0].backend is specs[1].backend
        and all(
            spec.kind is TENSOR or isinstance(v, FlatArray)
            for spec, v in zip(specs, (a, b), strict=True)
        )
        and a.shape == b.shape
        and math.prod(a.shape) >= _LARGE
        and not a._is_symbolic()
        and not b._is_symbolic()
    )


def _all_close(
    a: FlatArray, b: FlatArray, rtol: float, atol: float, equal_nan: bool
) -> bool:
    """Compare as NumPy does, in double precision."""
    cls = float64_array_t(type(a))
    x, y = (wrap(cls, trace.cast_to(trace.detached(v._node), FLOAT64)) for v in (a, b))
    size = abs_(y)
    close = (abs_(x - y) <= size * rtol + atol) & (size < math.inf) | (x == y)
    if equal_nan:
        close |= (x != x) & (y != y)
    return bool(wrap(type(close), reductions.reduce("and", close._node)))


class Compared(NamedTuple):
    """Two arrays of NumPy in double precision, which are parts of what is compared."""

    a: Any
    b: Any
    rtol: float
    atol: float
    #: Which parts: the index of an item, the index in that, and so on.
    path: tuple[int, ...]


def comparable(
    construct: str,
    a: Any,
    b: Any,
    rtol: float | None,
    atol: float | None,
    path: tuple[int, ...] = (),
) -> Iterator[Compared]:
    """Return what is compared: arrays as wholes, sequences item by item."""
    check_nesting(len(path))
    if _are_whole(a, b):
        tolerances = _tolerances(construct, a, b, rtol, atol)
        first, second = _plain(construct, a, b), _plain(construct, b, a)
        try:
            first, second = np.broadcast_arrays(first, second)
        except ValueError:
            raise _different_shapes(construct, first.shape, second.shape) from None
        yield Compared(first, second, *tolerances, path)
        return
    sizes = [len(v) if isinstance(v, _SEQUENCES) else 1 for v in (a, b)]
    count = max(sizes)
    if any(size not in (1, count) for size in sizes):
        raise _different_shapes(construct, *[(size,) for size in sizes])
    for k in range(count):
        x, y = (
            v[k if len(v) > 1 else 0] if isinstance(v, _SEQUENCES) else v
            for v in (a, b)
        )
        yield from comparable(construct, x, y, rtol, atol, (*path, k))


_SEQUENCES = (list, tuple, np.ndarray)


def _are_whole(a: Any, b: Any) -> bool:
    """Tell whether two values are compared as NumPy does, and not their items."""
    if isinstance(a, ArrayBase) or isinstance(b, ArrayBase):
        return True
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape == b.shape:
        return True
    return all(
        v.ndim < 2
        if isinstance(v, np.ndarray)
        else not isinstance(v, _SEQUENCES) or all(map(initialize.is_number, v))
        for v in (a, b)
    )


def _different_shapes(construct: str, a: Any, b: Any) -> SizeError:
    return SizeError(
        construct,
        f"the shapes {a} and {b} can't be combined",
        "compare arrays of the same shape.",
    )


def _tolerances(
    construct: str, a: Any, b: Any, rtol: float | None, atol: float | None
) -> tuple[float, float]:
    """Return the tolerances, by default those of the narrower floats."""
    dtypes = [v._spec.dtype for v in (a, b) if isinstance(v, ArrayBase)]
    floats = [t for t in dtypes if t.is_float]
    narrow = min(floats, key=lambda t: t.bits) if floats else FLOAT64
    default_rtol, default_atol = _TOLERANCES.get(narrow, (1e-3, 1e-5))
    rtol = default_rtol if rtol is None else rtol
    atol = default_atol if atol is None else atol
    for tolerance in (rtol, atol):
        is_array = isinstance(tolerance, (ArrayBase, np.ndarray))
        if not is_array and not initialize.is_number(tolerance):
            raise ArrayTypeError(
                construct, f"a tolerance is {tolerance!r}", "pass a number."
            )
    return rtol, atol


def _plain(construct: str, value: Any, other: Any) -> Any:
    """Return a value as NumPy has it; a sequence is what operators take it for."""
    is_array = isinstance(other, ArrayBase) and other._spec.kind is not TENSOR
    is_sequence = isinstance(value, _SEQUENCES)
    try:
        if is_sequence and is_array and other._spec.outer and _is_real(value):
            value = float64_array_t(type(other))(value)
        data = np.asarray(value)
        kind = data.dtype.kind
        if kind not in "biufcO" or (kind == "O" and any(v is None for v in data.flat)):
            raise not_numeric(construct, (value,))
        return data.astype(np.complex128 if kind == "c" else np.float64)
    except RecordingError:
        raise
    except (TypeError, ValueError):
        raise not_numeric(construct, (value,)) from None


def _is_real(value: Any) -> bool:
    try:
        return np.asarray(value).dtype.kind != "c"
    except ValueError:
        return True  # What is ragged isn't one array.


def step(a: Any, b: Any, /) -> Any:
    """Return 0 where `a < b` and 1 elsewhere.

    Args:
        a: array or number.
        b: array or number; both are promoted.

    Returns:
        Zeros and ones, as 32-bit integers; for cooperative vectors, of their type.

    >>> import lumijit as dr
    >>> dr.step(dr.llvm.Float(1, 2, 3), 2)
    [0, 1, 1]
    """
    composed = Composed.map(_step, (a, b))
    if composed is not None:
        return composed
    if initialize.is_number(a) and initialize.is_number(b):
        return int(not a < b)
    a, b = promotion.promote("lumijit.step", a, b)
    return select(a < b, 0, 1)


def _step(a: Any, b: Any) -> Any:
    a, b = promotion.promote("lumijit.step", a, b)
    return select(a < b, type(a)(0), type(a)(1))
