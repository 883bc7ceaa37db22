"""Makes the array types of a namespace, and gives each its operators.

Owns how types are named (`Array3f64` is three components of Float64; `spec` says of
what there are types). A namespace has almost a hundred, of which a program uses few:
each is made when its name, or a type that refers to it, is first asked for. The
packages `scalar`, `llvm`, `llvm.ad` and `auto` hold the results.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from lumijit import components, function_operators, operators
from lumijit.arrays import FlatArray
from lumijit.complex_arrays import ComplexNumbers
from lumijit.matrix_arrays import Matrices
from lumijit.nested import NestedArray
from lumijit.quaternion_arrays import Quaternions
from lumijit.random.pcg32 import make_pcg32
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
from lumijit.scalar_arrays import HostArray
from lumijit.spec import (
    COMPLEX,
    KINDS,
    MATRIX,
    QUATERNION,
    TENSOR,
    ArraySpec,
    Backend,
    Kind,
    array_spec,
    declare,
    find,
    python_type,
    register,
    registered,
    require,
)
from lumijit.tensors.storage import TensorArray

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
# What a kind's arrays do otherwise than ordinary ones of their storage.
_MEANING: dict[Kind, type[Any]] = {
    COMPLEX: ComplexNumbers,
    QUATERNION: Quaternions,
    MATRIX: Matrices,
}
_MEMBERS: dict[str, dict[str, ArraySpec]] = {}


def _texture(dimensions: int, texels: str, namespace: str) -> type[Any]:
    from lumijit.textures.texture import make_texture

    return make_texture(dimensions, _MEMBERS[namespace][texels])


def _loop(namespace: str) -> type[Any]:
    from lumijit.control.recorded_loop import Loop, PlainLoop

    return PlainLoop if namespace == "scalar" else Loop


# What a namespace has besides arrays, by name: how it is made for one.
_OTHERS: dict[str, Callable[[str], Any]] = {
    "PCG32": lambda namespace: make_pcg32(_MEMBERS[namespace]["UInt64"]),
    "Loop": _loop,
    **{
        f"Texture{n}{SUFFIXES[t]}": partial(_texture, n, f"TensorX{SUFFIXES[t]}")
        for n in (1, 2, 3)
        for t in FLOATS
    },
}
# In which modules the events of namespaces are, which aren't listed among the types.
_EVENTS = {
    **dict.fromkeys(("llvm", "llvm.ad"), "lumijit.debug.events"),
    **dict.fromkeys(("cuda", "cuda.ad"), "lumijit.debug.cuda_events"),
}
# One class per spec, also where threads ask for it at once.
_lock = threading.RLock()


def _name(spec: ArraySpec) -> str:
    return spec.kind.pattern.format(
        name=FLAT_NAMES[spec.dtype],
        size=spec.outer[0] if spec.outer else "",
        shape="".join(map(str, spec.outer)),
        suffix=SUFFIXES[spec.dtype],
    )


def _bases(spec: ArraySpec) -> tuple[type[Any], ...]:
    """Return how a class means its entries, if it does, and how it stores them."""
    if spec.kind is TENSOR:
        return (TensorArray,)
    storage: type[Any] = NestedArray if spec.outer else FlatArray
    if not spec.is_jit and len(spec.outer) == 1:
        storage = HostArray
    meaning = _MEANING.get(spec.kind)
    return (storage,) if meaning is None else (meaning, storage)


def _make(spec: ArraySpec, name: str) -> type[Any]:
    """Make the class of a spec, and those that it refers to."""
    with _lock:
        made = registered(spec)
        if made is not None:
            return made
        body = {
            "__slots__": (),
            "__module__": f"lumijit.{spec.namespace}",
            "__doc__": _doc(spec),
            "_spec": spec,
        }
        cls = type(name, _bases(spec), body)
        _link(cls)
        operators.install(cls)
        # Last, as another thread may find the class from here on.
        register(spec, cls)
        return cls


def _doc(spec: ArraySpec) -> str:
    shape = " x ".join("N" if n < 0 else str(n) for n in spec.shape)
    derivatives = ", with derivative tracking" if spec.is_diff else ""
    return f"Array of {spec.dtype.name} entries, of shape {shape}{derivatives}."


def _link(cls: Any) -> None:
    """Connect a class to its mask and item classes."""
    spec: ArraySpec = cls._spec
    is_mask = spec.dtype is BOOL
    cls._mask_cls = cls if is_mask else find(spec.replaced(dtype=BOOL))
    if spec.outer:
        cls._item = find(spec.replaced(outer=spec.outer[1:]))
    else:
        cls._item = python_type(spec.dtype)


def make_instances(spec: ArraySpec, storage: type[Any], body: dict[str, Any]) -> Any:
    """Make a flat class whose entries stand for Python objects."""
    cls: Any = type(
        body["__name__"], (storage,), {**body, "_spec": spec, "__slots__": ()}
    )
    plain: Any = require(spec.plain(), "instance_array_t")
    cls._mask_cls = plain._mask_cls
    cls._item = object
    cls._numbers = ()
    cls._literal = plain._literal
    register(spec, cls)
    return cls


def declare_namespace(backend: Backend, is_diff: bool) -> list[str]:
    """Make the array types of a namespace known; return the names of its members."""
    specs = [
        array_spec(backend, is_diff, dtype, outer, kind)
        for kind in KINDS
        for outer, dtype in kind.types
        if kind is not TENSOR or bool(outer) != backend.is_jit
    ]
    members = {_name(spec): spec for spec in specs}
    for name, spec in members.items():
        if spec.is_jit or spec.outer:
            declare(spec, partial(_make, spec, name))
    members |= {name: members[short] for short, name in ALIASES.items()}
    _MEMBERS[specs[0].namespace] = members
    function_operators.install()
    components.install()
    return sorted([*members, *_OTHERS])


def member(namespace: str, name: str, members: dict[str, Any]) -> Any:
    """Return a type of a namespace by name, and enter it into `members`.

    Raises:
        AttributeError: if the namespace has no such type.
    """
    spec = _MEMBERS[namespace].get(name)
    if spec is not None:
        found: Any = find(spec)
    elif name in _OTHERS:
        found = _OTHERS[name](namespace)
    elif name == "Event" and namespace in _EVENTS:
        found = import_module(_EVENTS[namespace]).Event
    else:
        raise AttributeError(f"module 'lumijit.{namespace}' has no attribute {name!r}")
    with _lock:
        return members.setdefault(name, found)


def namespace(
    backend: Backend, is_diff: bool, members: dict[str, Any]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of the module of a namespace."""
    names = declare_namespace(backend, is_diff)
    where = members["__name__"].removeprefix("lumijit.")

    def listed() -> list[str]:
        return sorted({*members, *names})

    return names, lambda name: member(where, name, members), listed
