"""Questions about types: `is_float_v`, `size_v` and their company.

All take an instance or a type. Python's bool, int and float count as scalar types;
for anything else predicates are False.
"""

from __future__ import annotations

from typing import Any

from lumijit.base import ArrayBase
from lumijit.enums import VarType
from lumijit.pytree import struct_fields
from lumijit.runtime.dtypes import BOOL, FLOAT16, FLOAT32, INT32, DType
from lumijit.runtime.errors import ArrayTypeError
from lumijit.runtime.history import JitBackend
from lumijit.spec import DYNAMIC, ArraySpec


def type_of(arg: Any) -> type[Any]:
    """Return the type of an instance, and a type itself."""
    # (A recorded number has the class of what it stands for.)
    return arg if isinstance(arg, type) else arg.__class__


def spec_of(arg: Any) -> ArraySpec | None:
    """Return the facts about an array or array type, None for others."""
    cls = type_of(arg)
    if issubclass(cls, ArrayBase) and hasattr(cls, "_spec"):
        return cls._spec
    return None


def dtype_of(arg: Any) -> DType | None:
    """Return the entry type of arrays and Python scalars."""
    spec = spec_of(arg)
    if spec is not None:
        return spec.dtype
    cls = type_of(arg)
    if issubclass(cls, bool):
        return BOOL
    if issubclass(cls, int):
        return INT32
    return FLOAT32 if issubclass(cls, float) else None


def is_array_v(arg: Any, /) -> bool:
    """Tell whether the argument is an array or an array type.

    >>> import lumijit as dr
    >>> dr.is_array_v(dr.llvm.Float), dr.is_array_v(1.0)
    (True, False)
    """
    return spec_of(arg) is not None


def is_mask_v(arg: Any, /) -> bool:
    """Tell whether the entries are bools.

    >>> import lumijit as dr
    >>> dr.is_mask_v(dr.llvm.Array3b), dr.is_mask_v(True)
    (True, True)
    """
    return dtype_of(arg) is BOOL


def is_half_v(arg: Any, /) -> bool:
    """Tell whether the entries are half-precision floats.

    >>> import lumijit as dr
    >>> dr.is_half_v(dr.llvm.Float16)
    True
    """
    return dtype_of(arg) is FLOAT16


def is_float_v(arg: Any, /) -> bool:
    """Tell whether the entries are floats.

    >>> import lumijit as dr
    >>> dr.is_float_v(dr.llvm.Array3f), dr.is_float_v(1)
    (True, False)
    """
    dtype = dtype_of(arg)
    return dtype is not None and dtype.is_float


def is_integral_v(arg: Any, /) -> bool:
    """Tell whether the entries are integers (not bools).

    >>> import lumijit as dr
    >>> dr.is_integral_v(dr.llvm.UInt8), dr.is_integral_v(True)
    (True, False)
    """
    dtype = dtype_of(arg)
    return dtype is not None and dtype.is_int


def is_arithmetic_v(arg: Any, /) -> bool:
    """Tell whether the entries are integers or floats.

    >>> import lumijit as dr
    >>> dr.is_arithmetic_v(1.0), dr.is_arithmetic_v(dr.llvm.Bool)
    (True, False)
    """
    return is_float_v(arg) or is_integral_v(arg)


def is_signed_v(arg: Any, /) -> bool:
    """Tell whether the entries are signed numbers.

    >>> import lumijit as dr
    >>> dr.is_signed_v(dr.llvm.Int), dr.is_signed_v(dr.llvm.UInt)
    (True, False)
    """
    dtype = dtype_of(arg)
    return dtype is not None and dtype.is_signed


def is_unsigned_v(arg: Any, /) -> bool:
    """Tell whether the entries are unsigned integers or bools.

    >>> import lumijit as dr
    >>> dr.is_unsigned_v(dr.llvm.UInt), dr.is_unsigned_v(1)
    (True, False)
    """
    dtype = dtype_of(arg)
    return dtype is not None and not dtype.is_signed


def is_dynamic_v(arg: Any, /) -> bool:
    """Tell whether an array has a dimension that only an instance knows.

    >>> import lumijit as dr
    >>> dr.is_dynamic_v(dr.llvm.Array3f), dr.is_dynamic_v(dr.scalar.Array3f)
    (True, False)
    """
    spec = spec_of(arg)
    return spec is not None and DYNAMIC in spec.shape


def is_jit_v(arg: Any, /) -> bool:
    """Tell whether an array is traced and compiled.

    >>> import lumijit as dr
    >>> dr.is_jit_v(dr.llvm.Float), dr.is_jit_v(dr.scalar.Array3f)
    (True, False)
    """
    spec = spec_of(arg)
    return spec is not None and spec.is_jit


def is_diff_v(arg: Any, /) -> bool:
    """Tell whether an array can track derivatives.

    >>> import lumijit as dr
    >>> dr.is_diff_v(dr.llvm.ad.Float), dr.is_diff_v(dr.llvm.Float)
    (True, False)
    """
    spec = spec_of(arg)
    return spec is not None and spec.is_diff


def is_vector_v(arg: Any, /) -> bool:
    """Tell whether an array has an outer dimension of components.

    >>> import lumijit as dr
    >>> dr.is_vector_v(dr.llvm.Array3f), dr.is_vector_v(dr.llvm.Float)
    (True, False)
    """
    spec = spec_of(arg)
    return spec is not None and bool(spec.outer) and not spec.kind.is_special


def is_complex_v(arg: Any, /) -> bool:
    """Tell whether an array holds complex numbers.

    >>> import lumijit as dr
    >>> dr.is_complex_v(dr.llvm.Array2f)
    False
    """
    return _is_kind(arg, "complex")


def is_quaternion_v(arg: Any, /) -> bool:
    """Tell whether an array holds quaternions.

    >>> import lumijit as dr
    >>> dr.is_quaternion_v(dr.llvm.Array4f)
    False
    """
    return _is_kind(arg, "quaternion")


def is_matrix_v(arg: Any, /) -> bool:
    """Tell whether an array holds matrices.

    >>> import lumijit as dr
    >>> dr.is_matrix_v(dr.llvm.Array22f)
    False
    """
    return _is_kind(arg, "matrix")


def is_tensor_v(arg: Any, /) -> bool:
    """Tell whether an array holds a tensor.

    >>> import lumijit as dr
    >>> dr.is_tensor_v(dr.llvm.Float)
    False
    """
    return _is_kind(arg, "tensor")


def is_special_v(arg: Any, /) -> bool:
    """Tell whether products mean more than products of entries.

    >>> import lumijit as dr
    >>> dr.is_special_v(dr.llvm.Array2f)
    False
    """
    spec = spec_of(arg)
    return spec is not None and spec.kind.is_special


def _is_kind(arg: Any, name: str) -> bool:
    spec = spec_of(arg)
    return spec is not None and spec.kind.name == name


def is_struct_v(arg: Any, /) -> bool:
    """Tell whether the argument is a struct: it has fields that are traversed.

    >>> import lumijit as dr
    >>> dr.is_struct_v(dr.llvm.PCG32), dr.is_struct_v(dr.llvm.Float)
    (True, False)
    """
    return not is_array_v(arg) and struct_fields(arg) is not None


def type_v(arg: Any, /) -> VarType:
    """Return the entry type of an array; Void for everything else.

    >>> import lumijit as dr
    >>> dr.type_v(dr.llvm.Array3f).name
    'Float32'
    """
    spec = spec_of(arg)
    return VarType(spec.dtype.index) if spec is not None else VarType.Void


def backend_v(arg: Any, /) -> JitBackend:
    """Return the backend of an array; Invalid for everything else.

    >>> import lumijit as dr
    >>> dr.backend_v(dr.llvm.Float).name
    'LLVM'
    """
    spec = spec_of(arg)
    return spec.backend.public if spec is not None else JitBackend.Invalid


def size_v(arg: Any, /) -> int:
    """Return the static size of the outermost dimension, or Dynamic.

    >>> import lumijit as dr
    >>> dr.size_v(dr.llvm.Array3f), dr.size_v(dr.llvm.Float), dr.size_v(1.0)
    (3, -1, 1)
    """
    spec = spec_of(arg)
    return spec.shape[0] if spec is not None else 1


def depth_v(arg: Any, /) -> int:
    """Return the number of dimensions of an array type; 0 for everything else.

    >>> import lumijit as dr
    >>> dr.depth_v(dr.llvm.Array3f), dr.depth_v(dr.scalar.Array3f), dr.depth_v(1)
    (2, 1, 0)
    """
    spec = spec_of(arg)
    return len(spec.shape) if spec is not None else 0


def itemsize_v(arg: Any, /) -> int:
    """Return the size of an entry in bytes.

    Raises:
        ArrayTypeError: if the argument is no array or array type.

    >>> import lumijit as dr
    >>> dr.itemsize_v(dr.llvm.Array3f64)
    8
    """
    spec = spec_of(arg)
    if spec is None:
        raise ArrayTypeError(
            "lumijit.itemsize_v",
            f"{type_of(arg).__name__} is no array type",
            "pass an array or an array type.",
        )
    return spec.dtype.size_bytes
