"""Products of integers with all their bits."""

from __future__ import annotations

from typing import Any

from lumijit import operators
from lumijit.base import Array, ArrayBase
from lumijit.compiler.ir.ops.arithmetic import MULHI
from lumijit.enums import VarType
from lumijit.functions.apply import apply, by_parts, check_words, promoted
from lumijit.runtime.errors import ArrayTypeError
from lumijit.type_traits import replace_type_t

_WIDE = {
    VarType.Int8: VarType.Int16,
    VarType.UInt8: VarType.UInt16,
    VarType.Int16: VarType.Int32,
    VarType.UInt16: VarType.UInt32,
    VarType.Int32: VarType.Int64,
    VarType.UInt32: VarType.UInt64,
}


@by_parts
def mul_hi(a: Any, b: Any, /) -> Array:
    """The upper half of the bits of a product.

    Args:
        a: integer array, or a Python int of 32 bits.
        b: integer array, or a Python int of 32 bits.

    Returns:
        The upper halves, of the promoted type.

    Raises:
        ArrayTypeError: for what isn't integers.

    >>> import lumijit as dr
    >>> dr.mul_hi(dr.llvm.UInt(1 << 31), 6), dr.mul_hi(-1, 1)
    ([3], -1)
    """
    construct = "lumijit.mul_hi"
    if isinstance(a, ArrayBase) or isinstance(b, ArrayBase):
        return apply(MULHI, construct, a, b)
    check_words(construct, a, b)
    return int(a) * int(b) >> 32


@by_parts
def mul_wide(a: Any, b: Any, /) -> Array:
    """All bits of a product.

    Args:
        a: integer array of up to 32 bits, or a Python int of 32 bits.
        b: integer array of up to 32 bits, or a Python int of 32 bits.

    Returns:
        The products, of a type twice as wide as the promoted type.

    Raises:
        ArrayTypeError: for what isn't integers, or has 64 bits.

    >>> import lumijit as dr
    >>> dr.mul_wide(dr.llvm.UInt(1 << 31), 6)
    [12884901888]
    """
    construct = "lumijit.mul_wide"
    if not (isinstance(a, ArrayBase) or isinstance(b, ArrayBase)):
        check_words(construct, a, b)
        return int(a) * int(b)
    a, b = promoted(construct, a, b)
    dtype = a._spec.dtype
    operators.check_accepts(MULHI, dtype, construct)
    wide = _WIDE.get(VarType(dtype.index))
    if wide is None:
        raise ArrayTypeError(
            construct,
            f"there is no integer type twice as wide as {dtype.name}",
            "multiply with '*', and take the upper half from lumijit.mul_hi.",
        )
    cls = replace_type_t(a, wide)
    return cls(a) * cls(b)
