"""The scalar types: what an array's entries are, in memory and in registers.

Owns the twelve entry types and the facts about each (size, NumPy and LLVM
spelling, limits). It knows nothing of arrays, nodes or promotion of Python
values; `lumijit.promotion` does that.
"""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any, Final

import numpy as np

# What `ctypes` has (halves aren't among it).
_C_TYPES: Final[dict[str, Any]] = {
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    **{
        name: getattr(ctypes, f"c_{name}")
        for name in (
            "bool",
            *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        )
    },
}
_CODES: Final = dict(zip(_C_TYPES, "fd?bhiqBHIQ", strict=True)) | {"float16": "e"}


class DType:
    """One scalar type. Instances are singletons: compare them with `is`."""

    __slots__ = (
        "_c_type",
        "bits",
        "index",
        "is_bool",
        "is_differentiable",
        "is_float",
        "is_int",
        "is_signed",
        "llvm",
        "memory_llvm",
        "name",
        "numpy",
        "packed",
        "short",
        "size_bytes",
    )

    def __init__(
        self,
        index: int,
        name: str,
        short: str,
        numpy: str | None,
        llvm: str,
        bits: int,
        kind: str,
    ) -> None:
        self.index: Final = index
        self.name: Final = name
        self.short: Final = short
        self.numpy: Final[np.dtype[Any]] = np.dtype(numpy or "V0")
        self._c_type: Any = _C_TYPES.get(self.numpy.name)
        #: Returns the bytes in which a number of the type lies in memory.
        self.packed: Any = struct.Struct(f"={_CODES.get(self.numpy.name, 'x')}").pack
        self.llvm: Final = llvm
        self.memory_llvm: Final = "i8" if kind == "b" else llvm
        self.bits: Final = bits
        self.size_bytes: Final = (bits + 7) // 8
        self.is_bool: Final = kind == "b"
        self.is_float: Final = kind == "f"
        # Whether values of the type may depend on variables smoothly.
        self.is_differentiable = kind == "f"
        self.is_int: Final = kind in "iup"
        self.is_signed: Final = kind in "if"

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name.upper()

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self

    def read(self, address: int) -> Any:
        """Return what lies at an address as a Python number."""
        kind = self._c_type
        if kind is None:
            return struct.unpack("e", ctypes.string_at(address, 2))[0]
        return kind.from_address(address).value

    def write(self, address: int, value: Any) -> None:
        """Put a Python number, as `wrap` returns it, to an address."""
        kind = self._c_type
        if kind is None:
            ctypes.memmove(address, struct.pack("e", value), 2)
        else:
            kind.from_address(address).value = value

    def wrap(self, value: Any) -> Any:
        """Return `value` as the Python number that this type stores.

        Integers wrap around, floats round to this precision.
        """
        if self.is_bool:
            return bool(value)
        if self.is_int:
            value = int(value) & ((1 << self.bits) - 1)
            if self.is_signed and value >> (self.bits - 1):
                value -= 1 << self.bits
            return value
        value = float(value)
        if self is FLOAT64:
            return value
        code = "e" if self is FLOAT16 else "f"
        try:
            return struct.unpack(code, struct.pack(code, value))[0]
        except OverflowError:
            return math.copysign(math.inf, value)


VOID = DType(0, "Void", "v", None, "void", 0, "v")
BOOL = DType(1, "Bool", "b", "bool", "i1", 1, "b")
INT8 = DType(2, "Int8", "i8", "int8", "i8", 8, "i")
UINT8 = DType(3, "UInt8", "u8", "uint8", "i8", 8, "u")
INT16 = DType(4, "Int16", "i16", "int16", "i16", 16, "i")
UINT16 = DType(5, "UInt16", "u16", "uint16", "i16", 16, "u")
INT32 = DType(6, "Int32", "i32", "int32", "i32", 32, "i")
UINT32 = DType(7, "UInt32", "u32", "uint32", "i32", 32, "u")
INT64 = DType(8, "Int64", "i64", "int64", "i64", 64, "i")
UINT64 = DType(9, "UInt64", "u64", "uint64", "i64", 64, "u")
POINTER = DType(10, "Pointer", "p", "uint64", "i64", 64, "p")
FLOAT16 = DType(11, "Float16", "f16", "float16", "half", 16, "f")
FLOAT32 = DType(12, "Float32", "f32", "float32", "float", 32, "f")
FLOAT64 = DType(13, "Float64", "f64", "float64", "double", 64, "f")

ALL: Final = (
    VOID,
    BOOL,
    INT8,
    UINT8,
    INT16,
    UINT16,
    INT32,
    UINT32,
    INT64,
    UINT64,
    POINTER,
    FLOAT16,
    FLOAT32,
    FLOAT64,
)
BY_NAME: Final = {t.name: t for t in ALL}
FLOATS: Final = (FLOAT16, FLOAT32, FLOAT64)
SIGNED_INTS: Final = (INT8, INT16, INT32, INT64)
UNSIGNED_INTS: Final = (UINT8, UINT16, UINT32, UINT64)
INTS: Final = (INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64)
ARITHMETIC: Final = INTS + FLOATS
VALUES: Final = (BOOL, *ARITHMETIC)

_BY_NUMPY: Final = {t.numpy: t for t in VALUES}


def name_of_index(index: int) -> str:
    """Return the name of the scalar type with an index; others are of local memory."""
    return ALL[index].name if index < len(ALL) else "local memory"


def from_numpy(dtype: np.dtype[Any]) -> DType | None:
    """Return the scalar type stored by a NumPy dtype, or None if there is none."""
    return _BY_NUMPY.get(dtype)


def same_bits(dtype: DType, kind: str) -> DType:
    """Return the type as wide as `dtype` of kind 'i', 'u' or 'f'."""
    family: dict[str, tuple[DType, ...]] = {
        "i": SIGNED_INTS,
        "u": UNSIGNED_INTS,
        "f": FLOATS,
    }
    return next(t for t in family[kind] if t.bits == dtype.bits)
