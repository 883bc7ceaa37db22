"""How a function of the public interface applies one op record to its arguments.

Owns the choice between arrays (traced or computed entry by entry) and Python
numbers (computed at once, in double precision or 64-bit integers).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

import numpy as np

from lumijit import direct, initialize, operators, promotion
from lumijit.base import Array, ArrayBase, Composed
from lumijit.compiler.ir.effects import wrap
from lumijit.compiler.ir.ops.record import Op
from lumijit.compiler.ir.trace import emit1
from lumijit.replay.numbers import Number
from lumijit.runtime.dtypes import FLOAT64, INT64, UINT32, DType
from lumijit.runtime.errors import ArrayTypeError
from lumijit.standing import STANDING, stand_as

_F = TypeVar("_F", bound=Callable[..., Any])


def apply(op: Op, construct: str, *args: Any) -> Any:
    """Apply an operation to arrays or Python numbers, promoting as needed."""
    flat = direct.apply_flat(op, args)
    if flat is not None:
        if STANDING:
            stand_as(flat, *args)
        return flat
    has_array = False
    for arg in args:
        if isinstance(arg, Composed):
            return arg._map(partial(apply, op, construct), args)
        has_array = has_array or isinstance(arg, ArrayBase)
    if has_array:
        return stand_as(operators.apply(op, construct, *args), *args)
    if all(initialize.is_number(a) for a in args):
        return on_numbers(op, construct, *args)
    raise not_numeric(construct, args)


def by_parts(function: _F) -> _F:
    """Let a function that acts entry by entry take what is composed of arrays, too.

    (Those that apply one operation do so without, by `apply`.)
    """

    @wraps(function)
    def applied(*args: Any, **options: Any) -> Any:
        for arg in args:
            if isinstance(arg, Composed):
                return arg._map(partial(applied, **options), args)
        return function(*args, **options)

    return applied  # type: ignore[return-value]


def not_numeric(construct: str, args: tuple[Any, ...]) -> ArrayTypeError:
    """Word the error for arguments that are neither arrays nor numbers."""
    kinds = ", ".join(repr(a.__class__.__name__) for a in args)
    return ArrayTypeError(
        construct,
        f"unsupported argument of type {kinds}",
        "pass arrays or Python numbers; use lumijit.pytree.tree_map to apply a "
        "function to the parts of a container.",
    )


def check_numeric(construct: str, *args: Any) -> None:
    """Refuse arguments that are neither arrays, of any library, nor numbers."""
    for arg in args:
        is_numeric = (
            isinstance(arg, (ArrayBase, Composed))
            or initialize.is_number(arg)
            or initialize.is_complex(arg)
            or initialize.offers_array(arg)
        )
        if not is_numeric:
            raise not_numeric(construct, (arg,))


def on_numbers(op: Op, construct: str, *args: Any) -> Any:
    """Evaluate an operation on Python numbers."""
    for arg in args:
        if type(arg) is Number:
            return arg.arithmetic.apply(partial(on_numbers, op, construct), *args)
    values = [a.item() if isinstance(a, np.generic) else a for a in args]
    dtype = _number_type(op, values)
    stored = [initialize.number(v, dtype, construct) for v in values]
    assert op.reference is not None
    with np.errstate(all="ignore"):
        result = op.reference(*[np.asarray(v, dtype=dtype.numpy) for v in stored])
    return np.asarray(result).item()


def _number_type(op: Op, values: list[Any]) -> DType:
    if any(issubclass(v.__class__, float) for v in values) or INT64 not in op.accepts:
        return FLOAT64
    return INT64


def bits_of_number(op: Op, construct: str, *values: Any) -> int:
    """Evaluate a bit-level operation on Python ints, as 32-bit numbers."""
    check_words(construct, *values)
    assert op.reference is not None
    stored = [np.asarray(UINT32.wrap(v), dtype=np.uint32) for v in values]
    return int(np.asarray(op.reference(*stored)).item())


def check_words(construct: str, *values: Any) -> None:
    """Refuse anything but Python ints of 32 bits, with or without a sign."""
    low, high = -(1 << 31), (1 << 32) - 1
    for value in values:
        if not initialize.is_integer(value):
            raise not_numeric(construct, values)
        if not low <= value <= high:
            raise ArrayTypeError(
                construct,
                f"the Python int {value} needs more than 32 bits",
                "pass an array such as UInt64.",
            )


def has_array(args: tuple[Any, ...]) -> bool:
    """Tell whether arrays are among the arguments."""
    # (A generator takes three times as long.)
    found = False
    for arg in args:
        found = found or isinstance(arg, ArrayBase)
    return found


def promoted(construct: str, *args: Any) -> tuple[Any, ...]:
    """Convert arguments to their common class; Python numbers stay as they are."""
    if has_array(args):
        return promotion.promote(construct, *args)
    if all(initialize.is_number(a) for a in args):
        return args
    raise not_numeric(construct, args)


_DOC = """{summary}.

Args:
    arg: a float, or an array of floats of any shape.

Returns:
    The values, of the type and shape of `arg`.

Raises:
    ArrayTypeError: if the entries are not floats.
{notes}
>>> import lumijit as dr
>>> from lumijit.llvm import Float
>>> {example}
{expected}
"""


def unary_function(
    op: Op, summary: str, example: str, expected: str, notes: str = ""
) -> Callable[[Any], Any]:
    """Make the public function of a unary float operation."""
    construct = f"lumijit.{op.name}"
    flat_classes = direct.RESULTS[op]

    def function(arg: Array, /) -> Array:
        result_class = flat_classes.get(type(arg))
        if result_class is not None:
            result = wrap(result_class, emit1(op, arg._node))
            if STANDING:
                stand_as(result, arg)
            return result
        if isinstance(arg, ArrayBase):
            found = direct.apply_flat(op, (arg,))
            if found is not None:
                return found
            operators.check_accepts(op, arg._spec.dtype, construct)
            return arg._map(op)
        if initialize.is_number(arg):
            return on_numbers(op, construct, arg)
        found = Composed.map(function, (arg,))
        if found is not None:
            return found
        raise not_numeric(construct, (arg,))

    function.__name__ = function.__qualname__ = op.name
    wrapped = "\n".join(textwrap.wrap(notes, 84))
    function.__doc__ = _DOC.format(
        summary=summary,
        example=example,
        expected=expected,
        notes=f"\n{wrapped}\n" if notes else "",
    )
    return function
