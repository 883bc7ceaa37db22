"""Comparison, selection and bit-level operations on masks and integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.ir.ops.record import OF_INTEGERS, define
from lumijit.runtime.dtypes import (
    ARITHMETIC,
    BOOL,
    INTS,
    UNSIGNED_INTS,
    VALUES,
    DType,
)

Array = Any
_BITS = (BOOL, *INTS)


def _compare(ordered: str, unsigned: str, signed: str) -> Any:
    def lower(b: Builder, t: DType, x: str, y: str) -> str:
        if t.is_float:
            return b.compare(ordered, t, x, y)
        return b.compare(signed if t.is_signed else unsigned, t, x, y)

    return lower


def _bitwise(instr: str) -> Any:
    return lambda b, t, x, y: b.binary(instr, t, x, y)


# LLVM makes one instruction of each on AVX2, which shifts by more than all bits, too.
# On GPUs, it would do the same, but with the low half of `y` only (LLVM 22).
def _shl(b: Builder, t: DType, x: str, y: str) -> str:
    return _where_within(b, "shl", t, x, y)


def _shr(b: Builder, t: DType, x: str, y: str) -> str:
    if t.is_signed:
        is_within = b.compare("ult", t, y, t.bits)
        return b.binary("ashr", t, x, b.select(t, is_within, y, t.bits - 1))
    return _where_within(b, "lshr", t, x, y)


def _where_within(b: Builder, instr: str, t: DType, x: str, y: str) -> str:
    is_within = b.compare("ult", t, y, t.bits)
    by = y if b.width else b.binary("and", t, y, t.bits - 1)
    return b.select(t, is_within, b.binary(instr, t, x, by), 0)


def _rotate(stem: str) -> Any:
    def lower(b: Builder, t: DType, x: str, y: str) -> str:
        return b.intrinsic(f"llvm.{stem}.{b.suffix(t)}", t, [(t, x), (t, x), (t, y)])

    return lower


def _np_rotate(sign: int) -> Any:
    """Rotate to the left, or with -1 to the right."""

    def evaluate(x: Array, y: Array) -> Array:
        bits = x.dtype.itemsize * 8
        unsigned = np.asarray(x).view(f"uint{bits}")
        up = (sign * np.asarray(y).astype(np.int64) & (bits - 1)).astype(unsigned.dtype)
        down = (bits - up) & unsigned.dtype.type(bits - 1)
        return np.asarray((unsigned << up) | (unsigned >> down)).view(x.dtype)

    return evaluate


def _count_zeros(stem: str) -> Any:
    def lower(b: Builder, t: DType, x: str) -> str:
        ty = b.type(t)
        return b.call(ty, f"llvm.{stem}.{b.suffix(t)}", (ty, x), ("i1", "false"))

    return lower


def _per_bit(function: Any) -> Any:
    """Evaluate a function of (unsigned value, bits) on each entry."""

    def evaluate(x: Array) -> Array:
        bits = x.dtype.itemsize * 8
        flat = [function(int(v) & ((1 << bits) - 1), bits) for v in np.ravel(x)]
        unsigned = np.array(flat, dtype=f"uint{bits}").reshape(np.shape(x))
        return unsigned.astype(x.dtype)

    return evaluate


EQ = define(
    "eq",
    2,
    accepts=VALUES,
    result=BOOL,
    reference=np.equal,
    lower=_compare("oeq", "eq", "eq"),
    commutative=True,
    derivative=OF_INTEGERS,
    doc="x == y",
)
NE = define(
    "ne",
    2,
    accepts=VALUES,
    result=BOOL,
    reference=np.not_equal,
    lower=_compare("une", "ne", "ne"),
    commutative=True,
    derivative=OF_INTEGERS,
    doc="x != y",
)
LT = define(
    "lt",
    2,
    accepts=ARITHMETIC,
    result=BOOL,
    reference=np.less,
    lower=_compare("olt", "ult", "slt"),
    derivative=OF_INTEGERS,
    doc="x < y",
)
INSIDE = define(
    "inside",
    2,
    accepts=UNSIGNED_INTS,
    result=BOOL,
    reference=np.less,
    lower=_compare("olt", "ult", "slt"),
    derivative=OF_INTEGERS,
    doc="whether an index x lies in an array of y entries",
)
LE = define(
    "le",
    2,
    accepts=ARITHMETIC,
    result=BOOL,
    reference=np.less_equal,
    lower=_compare("ole", "ule", "sle"),
    derivative=OF_INTEGERS,
    doc="x <= y",
)
GT = define(
    "gt",
    2,
    accepts=ARITHMETIC,
    result=BOOL,
    reference=np.greater,
    lower=_compare("ogt", "ugt", "sgt"),
    derivative=OF_INTEGERS,
    doc="x > y",
)
GE = define(
    "ge",
    2,
    accepts=ARITHMETIC,
    result=BOOL,
    reference=np.greater_equal,
    lower=_compare("oge", "uge", "sge"),
    derivative=OF_INTEGERS,
    doc="x >= y",
)
SELECT = define(
    "select",
    3,
    accepts=VALUES,
    reference=lambda m, x, y: np.where(m, x, y),
    lower=lambda b, t, m, x, y: b.select(t, m, x, y),
    derivative=(lambda r, m, x, y: 0, lambda r, m, x, y: m, lambda r, m, x, y: ~m),
    doc="x where the mask m is set, else y",
)
COPY = define(
    "copy",
    1,
    accepts=VALUES,
    reference=lambda x: x,
    lower=lambda b, t, x: x,
    derivative=(lambda r, x: 1,),
    doc="x as a value of its own, so that it can be written to",
)
REPLACED = define(
    "replace_grad",
    2,
    accepts=VALUES,
    reference=lambda x, y: x,
    lower=lambda b, t, x, y: x,
    doc="x, with the derivatives of y",
)
AND = define(
    "and",
    2,
    accepts=_BITS,
    reference=np.bitwise_and,
    lower=_bitwise("and"),
    commutative=True,
    derivative=OF_INTEGERS,
    doc="x & y",
)
OR = define(
    "or",
    2,
    accepts=_BITS,
    reference=np.bitwise_or,
    lower=_bitwise("or"),
    commutative=True,
    derivative=OF_INTEGERS,
    doc="x | y",
)
XOR = define(
    "xor",
    2,
    accepts=_BITS,
    reference=np.bitwise_xor,
    lower=_bitwise("xor"),
    commutative=True,
    derivative=OF_INTEGERS,
    doc="x ^ y",
)
NOT = define(
    "not",
    1,
    accepts=_BITS,
    reference=np.invert,
    lower=lambda b, t, x: b.binary("xor", t, x, 1 if t.is_bool else -1),
    derivative=OF_INTEGERS,
    doc="~x",
)
SHL = define(
    "shl",
    2,
    accepts=INTS,
    reference=np.left_shift,
    lower=_shl,
    derivative=OF_INTEGERS,
    doc="x << y; 0 where y is negative or beyond the number of bits",
)
SHR = define(
    "shr",
    2,
    accepts=INTS,
    reference=np.right_shift,
    lower=_shr,
    derivative=OF_INTEGERS,
    doc="x >> y; the sign only where y is negative or beyond the number of bits",
)
ROTL = define(
    "rotl",
    2,
    accepts=INTS,
    reference=_np_rotate(1),
    lower=_rotate("fshl"),
    derivative=OF_INTEGERS,
    doc="the bits of x moved up by y, modulo their number, in again from below",
)
ROTR = define(
    "rotr",
    2,
    accepts=INTS,
    reference=_np_rotate(-1),
    lower=_rotate("fshr"),
    derivative=OF_INTEGERS,
    doc="the bits of x moved down by y, modulo their number, in again from above",
)
SHL_BY = define(
    "shl_by",
    1,
    accepts=INTS,
    reference=lambda x, n: np.left_shift(x, x.dtype.type(n)),
    lower=lambda b, t, x, n: b.binary("shl", t, x, n),
    derivative=OF_INTEGERS,
    doc="x << attr: shifts by a constant are part of the code",
)
SHR_BY = define(
    "shr_by",
    1,
    accepts=INTS,
    reference=lambda x, n: np.right_shift(x, x.dtype.type(n)),
    lower=lambda b, t, x, n: b.binary("ashr" if t.is_signed else "lshr", t, x, n),
    derivative=OF_INTEGERS,
    doc="x >> attr: shifts by a constant are part of the code",
)
POPCNT = define(
    "popcnt",
    1,
    accepts=INTS,
    reference=_per_bit(lambda v, bits: bin(v).count("1")),
    lower=lambda b, t, x: b.unary_intrinsic("ctpop", t, x),
    cost=4,
    derivative=OF_INTEGERS,
    doc="number of set bits",
)
LZCNT = define(
    "lzcnt",
    1,
    accepts=INTS,
    reference=_per_bit(lambda v, bits: bits - v.bit_length()),
    lower=_count_zeros("ctlz"),
    cost=4,
    derivative=OF_INTEGERS,
    doc="number of leading zero bits",
)
TZCNT = define(
    "tzcnt",
    1,
    accepts=INTS,
    reference=_per_bit(lambda v, bits: (v & -v).bit_length() - 1 if v else bits),
    lower=_count_zeros("cttz"),
    cost=4,
    derivative=OF_INTEGERS,
    doc="number of trailing zero bits",
)
BREV = define(
    "brev",
    1,
    accepts=INTS,
    reference=_per_bit(lambda v, bits: int(f"{v:0{bits}b}"[::-1], 2)),
    lower=lambda b, t, x: b.unary_intrinsic("bitreverse", t, x),
    cost=4,
    derivative=OF_INTEGERS,
    doc="the bits in reverse order",
)
