"""Types from types: `mask_t`, `value_t`, `float64_array_t` and their company.

All take an instance or a type. `traits` answers questions about types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lumijit import initialize, promotion
from lumijit.enums import VarType
from lumijit.runtime.dtypes import ALL, BOOL, UINT8, DType, same_bits
from lumijit.runtime.errors import ArrayTypeError
from lumijit.spec import (
    DYNAMIC,
    MATRIX,
    QUATERNION,
    STATIC,
    TENSOR,
    ArraySpec,
    find,
    python_type,
    require,
)
from lumijit.traits import dtype_of, spec_of, type_of


def value_t(arg: Any, /) -> type[Any]:
    """Return the type of the items of an array; other types unchanged.

    >>> import lumijit as dr
    >>> dr.value_t(dr.llvm.Array3f), dr.value_t(dr.llvm.Float)
    (<class 'lumijit.llvm.Float'>, <class 'float'>)
    """
    cls = type_of(arg)
    return cls._item if spec_of(arg) is not None else cls


def mask_t(arg: Any, /) -> type[Any]:
    """Return the mask type of the same shape; bool for everything else.

    >>> import lumijit as dr
    >>> dr.mask_t(dr.llvm.Array3f), dr.mask_t(float)
    (<class 'lumijit.llvm.Array3b'>, <class 'bool'>)
    """
    found: type[Any] = bool if spec_of(arg) is None else type_of(arg)._mask_cls
    return found


def scalar_t(arg: Any, /) -> type[Any]:
    """Return the Python type of an entry; other types unchanged.

    >>> import lumijit as dr
    >>> dr.scalar_t(dr.llvm.Array3f)
    <class 'float'>
    """
    spec = spec_of(arg)
    return python_type(spec.dtype) if spec is not None else type_of(arg)


def leaf_t(arg: Any, /) -> type[Any]:
    """Return the flat array type (or Python type) of which an array consists.

    >>> import lumijit as dr
    >>> dr.leaf_t(dr.llvm.Array33f), dr.leaf_t(dr.scalar.Array3f)
    (<class 'lumijit.llvm.Float'>, <class 'float'>)
    """
    spec = spec_of(arg)
    return type_of(arg) if spec is None else _found(spec.flat(spec.dtype))


def array_t(arg: Any, /) -> type[Any]:
    """Return the ordinary array type with the same entries; others unchanged.

    >>> import lumijit as dr
    >>> dr.array_t(dr.llvm.Complex2f), dr.array_t(dr.llvm.Float)
    (<class 'lumijit.llvm.Array2f'>, <class 'lumijit.llvm.Float'>)
    """
    spec = spec_of(arg)
    return _found(spec.plain()) if spec and spec.kind.is_dominant else type_of(arg)


def matrix_t(arg: Any, /) -> type[Any] | None:
    """Return the matrix type with the rows or entries of an array type, or None.

    >>> import lumijit as dr
    >>> dr.matrix_t(dr.llvm.Array3f), dr.matrix_t(dr.llvm.Float)
    (<class 'lumijit.llvm.Matrix3f'>, None)
    """
    spec = spec_of(arg)
    if spec is None or not spec.outer or spec.kind not in (STATIC, MATRIX):
        return None
    return find(spec.changed(outer=(spec.outer[0],) * 2, kind=MATRIX))


def quaternion_t(arg: Any, /) -> type[Any] | None:
    """Return the quaternion type with the entries of an array type, or None.

    >>> import lumijit as dr
    >>> dr.quaternion_t(dr.llvm.Array3f), dr.quaternion_t(dr.llvm.Int)
    (<class 'lumijit.llvm.Quaternion4f'>, None)
    """
    spec = spec_of(arg)
    return None if spec is None else find(spec.changed(outer=(4,), kind=QUATERNION))


def tensor_t(arg: Any, /) -> type[Any]:
    """Return the tensor type with the same entries; other types unchanged.

    >>> import lumijit as dr
    >>> dr.tensor_t(dr.llvm.Array3f)
    <class 'lumijit.llvm.TensorXf'>
    """
    spec = spec_of(arg)
    if spec is None:
        return type_of(arg)
    outer = () if spec.is_jit else (DYNAMIC,)
    return _found(spec.replaced(outer=outer, kind=TENSOR))


def detached_t(arg: Any, /) -> type[Any]:
    """Return the type without derivative tracking; other types unchanged.

    >>> import lumijit as dr
    >>> dr.detached_t(dr.llvm.ad.Float)
    <class 'lumijit.llvm.Float'>
    """
    spec = spec_of(arg)
    if spec is None or not spec.is_diff:
        return type_of(arg)
    return _found(spec.replaced(is_diff=False))


def diff_array_t(arg: Any, /) -> type[Any]:
    """Return the type with derivative tracking; other types unchanged.

    >>> import lumijit as dr
    >>> dr.diff_array_t(dr.llvm.Float)
    <class 'lumijit.llvm.ad.Float'>
    """
    spec = spec_of(arg)
    if spec is None or not spec.is_jit or spec.is_diff:
        return type_of(arg)
    return _found(spec.replaced(is_diff=True))


def _found(spec: ArraySpec) -> type[Any]:
    return require(spec, "type trait")


def replace_type_t(arg: Any, kind: VarType, /) -> type[Any]:
    """Return the type of the same shape with other entries.

    Raises:
        ArrayTypeError: if there is no such type.

    >>> import lumijit as dr
    >>> dr.replace_type_t(dr.llvm.Array3f, dr.VarType.Int32)
    <class 'lumijit.llvm.Array3i'>
    """
    try:
        dtype = ALL[VarType(kind)]
    except (TypeError, ValueError):
        raise ArrayTypeError(
            "lumijit.replace_type_t",
            f"the type of the entries is {kind!r} (expected a member of VarType)",
            "pass for example lumijit.VarType.Float32.",
        ) from None
    return _with_dtype(arg, dtype)


def _with_dtype(arg: Any, dtype: DType) -> type[Any]:
    spec = spec_of(arg)
    if spec is not None:
        return _found(spec.replaced(dtype=dtype))
    return python_type(dtype) if dtype_of(arg) is not None else type_of(arg)


def replace_shape_t(arg: Any, shape: tuple[int, ...], /) -> type[Any]:
    """Return the type of the same entries with other static dimensions.

    Args:
        arg: array or array type.
        shape: dimensions as `size_v` or `shape` give them, the vectorized one included.

    Raises:
        ArrayTypeError: if there is no such type.

    >>> import lumijit as dr
    >>> dr.replace_shape_t(dr.llvm.Array3f, (2, dr.Dynamic))
    <class 'lumijit.llvm.Array2f'>
    """
    spec = spec_of(arg)
    if spec is None:
        return type_of(arg)
    outer = tuple(initialize.items_of("lumijit.replace_shape_t", shape))
    if spec.is_jit:
        if not outer:
            raise ArrayTypeError(
                "lumijit.replace_shape_t",
                f"the shape {outer} has no vectorized dimension",
                "end it with lumijit.Dynamic.",
            )
        outer = outer[:-1]
    return _found(spec.replaced(outer=outer))


def reinterpret_array_t(arg: Any, kind: VarType, /) -> type[Any]:
    """Return the type to which `reinterpret_array` can convert (see `replace_type_t`).

    >>> import lumijit as dr
    >>> dr.reinterpret_array_t(dr.llvm.Float, dr.VarType.UInt32)
    <class 'lumijit.llvm.UInt'>
    """
    return replace_type_t(arg, kind)


def expr_t(*args: Any) -> type[Any]:
    """Return the type that results from combining values or types.

    >>> import lumijit as dr
    >>> dr.expr_t(dr.llvm.Array3f, dr.llvm.Float64), dr.expr_t(int, float)
    (<class 'lumijit.llvm.Array3f64'>, <class 'float'>)
    """
    construct = "lumijit.expr_t"
    kinds = [type_of(a) for a in args]
    if not kinds:
        raise ArrayTypeError(construct, "there are no types", "pass some.")
    if len(set(kinds)) == 1:
        return kinds[0]
    for kind in kinds:
        if dtype_of(kind) is None:
            raise initialize.unsupported(construct, kind)
    if not any(spec_of(kind) for kind in kinds):
        return max(map(promotion.weak_kind, kinds), key=(bool, int, float).index)
    return require(promotion.common_of_types(kinds, construct), construct)


def _family(arg: Any, kind: str) -> type[Any]:
    return _with_dtype(arg, _same_width(arg, kind))


def _same_width(arg: Any, kind: str) -> DType:
    dtype = dtype_of(arg)
    if dtype is BOOL and spec_of(arg) is not None:
        # In memory, masks have bytes.
        dtype = UINT8
    if dtype is None or dtype is BOOL or (kind == "f" and dtype.bits == 8):
        raise ArrayTypeError(
            "type trait",
            f"there is no matching type as wide as {type_of(arg).__name__}",
            "convert to a wider type first.",
        )
    return same_bits(dtype, kind)


def _with_entries(kind: VarType, like: str, result: str) -> Callable[[Any], type[Any]]:
    """Make the function that returns types with other entries; an example."""

    dtype = ALL[kind]

    def function(arg: Any, /) -> type[Any]:
        return _with_dtype(arg, dtype)

    name = f"{kind.name.lower()}_array_t"
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return the type of the same shape with {kind.name} entries.

    >>> import lumijit as dr
    >>> dr.{name}(dr.llvm.{like})
    <class 'lumijit.llvm.{result}'>
    """
    return function


int8_array_t = _with_entries(VarType.Int8, "Float", "Int8")
uint8_array_t = _with_entries(VarType.UInt8, "Float", "UInt8")
int32_array_t = _with_entries(VarType.Int32, "Array3f", "Array3i")
uint32_array_t = _with_entries(VarType.UInt32, "Array3f", "Array3u")
int64_array_t = _with_entries(VarType.Int64, "Float", "Int64")
uint64_array_t = _with_entries(VarType.UInt64, "Float", "UInt64")
float16_array_t = _with_entries(VarType.Float16, "Float", "Float16")
float32_array_t = _with_entries(VarType.Float32, "Array2i", "Array2f")
float64_array_t = _with_entries(VarType.Float64, "Float", "Float64")


def int_array_t(arg: Any, /) -> type[Any]:
    """Return the type of the same shape with equally wide signed integers.

    >>> import lumijit as dr
    >>> dr.int_array_t(dr.llvm.Float64)
    <class 'lumijit.llvm.Int64'>
    """
    return _family(arg, "i")


def uint_array_t(arg: Any, /) -> type[Any]:
    """Return the type of the same shape with equally wide unsigned integers.

    >>> import lumijit as dr
    >>> dr.uint_array_t(dr.llvm.Float)
    <class 'lumijit.llvm.UInt'>
    """
    return _family(arg, "u")


def float_array_t(arg: Any, /) -> type[Any]:
    """Return the type of the same shape with equally wide floats.

    >>> import lumijit as dr
    >>> dr.float_array_t(dr.llvm.UInt64)
    <class 'lumijit.llvm.Float64'>
    """
    return _family(arg, "f")
