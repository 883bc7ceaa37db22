"""Makes every array type of a namespace, and gives each its operators.

Owns the naming scheme (`Array3f64` is three components of Float64). The packages
`scalar`, `llvm`, `llvm.ad` and `auto` hold the results.
"""

from __future__ import annotations

from typing import Any

from lumijit import infix, operators
from lumijit.arrays import FlatArray
from lumijit.base import ArrayBase
from lumijit.host import HostArray
from lumijit.nested import NestedArray
from lumijit.runtime.dtypes import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    VALUES,
    DType,
)
from lumijit.spec import DYNAMIC, ArraySpec, find, python_type, register

SUFFIXES: dict[DType, str] = {
    BOOL: "b",
    INT8: "i8",
    UINT8: "u8",
    INT16: "i16",
    UINT16: "u16",
    INT32: "i",
    UINT32: "u",
    INT64: "i64",
    UINT64: "u64",
    FLOAT16: "f16",
    FLOAT32: "f",
    FLOAT64: "f64",
}
FLAT_NAMES: dict[DType, str] = {
    **{t: t.name for t in VALUES},
    INT32: "Int",
    UINT32: "UInt",
    FLOAT32: "Float",
}
ALIASES = {"Int": "Int32", "UInt": "UInt32", "Float": "Float32"}
VECTOR_SIZES = (0, 1, 2, 3, 4)
GRID_SIZES = (2, 3, 4)
MATRIX_TYPES = (BOOL, *FLOATS)


def _name(outer: tuple[int, ...], dtype: DType) -> str:
    digits = "".join("X" if n == DYNAMIC else str(n) for n in outer)
    return f"Array{digits}{SUFFIXES[dtype]}"


def _storage(spec: ArraySpec) -> type[Any]:
    if not spec.is_jit and len(spec.outer) == 1:
        return HostArray
    return NestedArray if spec.outer else FlatArray


def _declare(spec: ArraySpec, name: str) -> type[Any]:
    """Make a class without operators and enter it into the registry."""
    body = {
        "__slots__": (),
        "__module__": f"lumijit.{spec.space}",
        "__doc__": _doc(spec),
        "_spec": spec,
    }
    cls = type(name, (_storage(spec),), body)
    register(spec, cls)
    return cls


def _doc(spec: ArraySpec) -> str:
    shape = " x ".join("N" if n < 0 else str(n) for n in spec.shape)
    derivatives = ", with derivative tracking" if spec.is_diff else ""
    return f"Array of {spec.dtype.name} entries, of shape {shape}{derivatives}."


def _link(cls: Any) -> None:
    """Connect a class to its mask and item classes."""
    spec: ArraySpec = cls._spec
    cls._mask = find(spec.replaced(dtype=BOOL))
    if spec.outer:
        cls._item = find(spec.replaced(outer=spec.outer[1:]))
    else:
        cls._item = python_type(spec.dtype)


def make_instances(spec: ArraySpec, storage: type[Any], body: dict[str, Any]) -> Any:
    """Make a flat class whose entries stand for Python objects."""
    cls: Any = type(
        body["__name__"], (storage,), {**body, "_spec": spec, "__slots__": ()}
    )
    register(spec, cls)
    plain: Any = find(spec.replaced(dtype=UINT32))
    cls._mask = plain._mask
    cls._item = object
    cls._numbers = ()
    cls._literal = plain._literal
    return cls


def make_namespace(space: str) -> dict[str, Any]:
    """Return all array types of a namespace by name."""
    types: dict[str, Any] = {}
    for dtype in VALUES:
        name = FLAT_NAMES[dtype]
        if space == "scalar":
            types[name] = python_type(dtype)
        else:
            types[name] = _declare(ArraySpec(space, dtype, ()), name)
    for dtype in VALUES:
        shapes: list[tuple[int, ...]] = [(n,) for n in VECTOR_SIZES]
        shapes.append((DYNAMIC,))
        if dtype in MATRIX_TYPES:
            shapes += [(n, n) for n in GRID_SIZES]
        for outer in shapes:
            name = _name(outer, dtype)
            types[name] = _declare(ArraySpec(space, dtype, outer), name)
    classes = [t for t in types.values() if issubclass(t, ArrayBase)]
    for cls in classes:
        _link(cls)
    for cls in classes:
        operators.install(cls)
    infix.install()
    for short, name in ALIASES.items():
        types[name] = types[short]
    return types
