"""Writes the stubs of namespaces, of array types, from the table of kinds.

Owns what type checkers know of a type: its parameters, as `ArrayBase` has them, and
what it fits. `Fits[InLlvm, LikeArray3, OfFloat32]` is what promotion makes `Array3f`
beside an `Array3f`: arrays of this namespace, these dimensions and these entries, or
of others that are promoted to them. Its three parameters are classes that inherit in
the order of promotion, so that type checkers find by inheritance what is compatible.
These orders are read off promotion itself: nothing is repeated of its rules.
`stubs` writes the files; the stub of the package itself is made by `stub_functions`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from lumijit.promotion import common_of_types
from lumijit.runtime.dtypes import FLOAT32, INT32
from lumijit.runtime.errors import ArrayTypeError
from lumijit.spec import (
    ANY_LENGTH,
    COMPLEX,
    DYNAMIC,
    FLAT,
    MATRIX,
    QUATERNION,
    TENSOR,
    ArraySpec,
    find,
    python_type,
)
from lumijit.textures.texture import TextureBase
from lumijit.type_traits import leaf_t

# Namespaces, each with that to whose types its own are promoted.
NAMESPACES = {
    "scalar": ("llvm", "cuda"),
    "llvm": ("llvm.ad",),
    "llvm.ad": (),
    "cuda": ("cuda.ad",),
    "cuda.ad": (),
}
WRITTEN = "Written by `python -m tests.tools.stubs`."
Type = Any
# Scalars of NumPy are arrays without dimensions.
ARRAYS_OF_NUMPY = "np.ndarray[Any, Any] | np.number[Any]"
# The static sizes of which operands must agree.
SIZES = (0, 1, 2, 3, 4)
# What generators of random numbers draw, besides integers.
_DRAWN = ("Float16", "Float32", "Float64")
_HAVE_AD = ("llvm", "cuda")


@cache
def types(namespace: str) -> dict[str, Type]:
    """Return the array types of a namespace by name."""
    module = import_module(f"lumijit.{namespace}")
    found = {name: getattr(module, name) for name in module.__all__}
    return {
        name: cls
        for name, cls in found.items()
        if name == cls.__name__ and hasattr(cls, "_spec")
    }


def is_promoted(a: Type, b: Type) -> bool:
    """Tell whether promotion makes the second type of both."""
    try:
        return find(common_of_types((a, b), "stubs")) is b
    except ArrayTypeError:
        return False


def _name_of_shape(cls: Type) -> str:
    spec = cls._spec
    name = spec.kind.pattern.format(
        name="Flat",
        size=spec.outer[0] if spec.outer else "",
        shape="".join(map(str, spec.outer)),
        suffix="",
    )
    return f"Like{name}"


def _name_of_entry(cls: Type) -> str:
    return f"Of{cls._spec.dtype.name}"


def _name_of_namespace(namespace: str) -> str:
    return "In" + "".join(part.capitalize() for part in namespace.split("."))


def _classes(found: list[Type], named: Callable[[Type], str]) -> list[str]:
    """Write classes that inherit as types are promoted, the last ones first."""
    becomes = {a: [b for b in found if b is not a and is_promoted(a, b)] for a in found}
    # Inheritance is transitive. Promotion isn't quite: `Array3f` goes with `ArrayXf`,
    # and that with `TensorXf`, but `Array3f` and `TensorXf` don't mix.
    above = {
        a: [
            b
            for b in becomes[a]
            if all(b in becomes[c] for c in found if a in becomes[c])
        ]
        for a in found
    }
    lines = []
    for cls in sorted(found, key=lambda c: len(above[c])):
        implied = {c for other in above[cls] for c in above[other]}
        nearest = [named(other) for other in above[cls] if other not in implied]
        bases = f"({', '.join(nearest)})" if nearest else ""
        lines.append(f"class {named(cls)}{bases}: ...")
    return lines


def orders() -> str:
    """Write the classes of which the parameters of `Fits` are."""
    found = types("llvm").values()
    shapes = [cls for cls in found if cls._spec.dtype is FLOAT32]
    entries = [cls for cls in found if cls._spec.kind is FLAT]
    lines = _classes(shapes, _name_of_shape) + _classes(entries, _name_of_entry)
    for namespace, wider in reversed(NAMESPACES.items()):
        bases = f"({', '.join(map(_name_of_namespace, wider))})" if wider else ""
        lines.append(f"class {_name_of_namespace(namespace)}{bases}: ...")
    return "\n".join(lines)


def fits(cls: Type) -> str:
    """Return what a type is to type checkers, besides an array."""
    names = [_name_of_namespace(cls._spec.namespace)]
    names += [_name_of_shape(cls), _name_of_entry(cls)]
    return f"Fits[{', '.join(names)}]"


def _alias(cls: Type) -> str:
    spec = cls._spec
    number = python_type(spec.dtype).__name__
    found = [fits(cls), "complex" if spec.kind is COMPLEX else number]
    if spec.kind is TENSOR:
        found += [f"{'Sequence[' * n}{number}{']' * n}" for n in range(1, 5)]
    else:
        found.append(f"Sequence[{_compatible(cls._item)}]")
    return f"_{cls.__name__}Cp: TypeAlias = {' | '.join(found)}"


def _compatible(cls: Type) -> str:
    """Return what an operand may be that leaves a type as it is."""
    return f"_{cls.__name__}Cp" if hasattr(cls, "_spec") else cls.__name__


def _related(spec: ArraySpec, **changes: Any) -> str:
    """Name the type with other facts, `Any` if there is none."""
    cls = find(spec.replaced(**changes))
    return cls.__name__ if cls is not None else "Any"


def _parameters(cls: Type) -> list[str]:
    """Return the parameters of `ArrayBase` for a type, as its docstring has them."""
    spec = cls._spec
    entry = cls if spec.kind is TENSOR else cls._item
    is_reduced = spec.outer and spec.kind is not TENSOR
    return [
        cls.__name__,
        _compatible(cls),
        entry.__name__,
        _compatible(entry),
        cls._item.__name__ if is_reduced else cls.__name__,
        _related(spec.plain()),
        cls._mask_cls.__name__,
    ]


def _storage(cls: Type) -> str:
    """Return the base class that says which operators there are."""
    spec, parameters = cls._spec, _parameters(cls)
    if spec.kind is MATRIX:
        name = "Matrices"
    elif spec.kind.is_number:
        name = "Numbers"
        has_one = spec.kind is not QUATERNION
        imag: Type = cls._item if has_one else find(spec.replaced(outer=(3,)))
        parameters += [imag.__name__, _compatible(imag)]
    elif spec.dtype.is_float:
        name = "Floats"
    else:
        # Python's numbers change the type of the entries.
        name = "Masks" if spec.dtype.is_bool else "Integers"
        leaf = _related(spec.flat(FLOAT32)) + " | " if spec.is_jit else ""
        leaf += "float | Sequence[float]"
        parameters += [_related(spec, dtype=FLOAT32), leaf]
        if spec.dtype.is_bool:
            parameters.append(_related(spec, dtype=INT32))
    return f"{name}[{', '.join(parameters)}]"


def _reading(cls: Type) -> list[str]:
    """Return the base classes that say how entries are read."""
    spec = cls._spec
    size = spec.outer[-1] if spec.outer else DYNAMIC
    flat = spec.flat(spec.dtype) if spec.is_jit else spec.plain()
    if not spec.is_jit:
        flat = flat.replaced(outer=(DYNAMIC,), kind=ANY_LENGTH)
    found = [f"Size{n}" for n in ([size] if size >= 0 else SIZES)]
    found.append(f"Ravels[{_related(flat)}]")
    if spec.kind is FLAT and spec.dtype.is_int:
        found.append("Counts")
    if spec.kind is FLAT:
        dtype = spec.dtype if spec.dtype.is_float else FLOAT32
        changes = {"outer": (2,), "kind": COMPLEX, "dtype": dtype}
        found.append(f"Real[{_related(spec, **changes)}]")
    if spec.kind is TENSOR or not spec.outer:
        return [*found, f"Flat[{', '.join(_parameters(cls)[:3:2])}]"]
    entry = [cls._item.__name__, _compatible(cls._item)]
    if len(spec.outer) > 1:
        found.append(f"Rows[{entry[0]}, {leaf_t(cls).__name__}]")
    size = spec.outer[0]
    if size > 0 and not spec.kind.instead:
        swizzles = [_related(spec, outer=(n, *spec.outer[1:])) for n in range(2, 5)]
        found.append(f"Static{size}[{', '.join([*entry, *swizzles])}]")
    return found


def _class(cls: Type) -> str:
    bases = [_storage(cls), fits(cls), *_reading(cls), "AnyArray"]
    return f"class {cls.__name__}({', '.join(bases)}): ..."


def _others(namespace: str) -> list[str]:
    """Declare what a namespace has besides arrays."""
    module = import_module(f"lumijit.{namespace}")
    words = [getattr(module, n) for n in ("UInt32", "UInt64", *_DRAWN)]
    return [
        "class PCG32(PCG32Base[" + ", ".join(t.__name__ for t in words) + "]): ...",
        *[
            f"class {name}(TextureBase): ..."
            for name in module.__all__
            if issubclass(getattr(module, name), TextureBase)
        ],
    ]


def _aliases(namespace: str) -> list[str]:
    """Declare what is another type by a second name: Python's own, in `scalar`."""
    module = import_module(f"lumijit.{namespace}")
    found = [(n, getattr(module, n)) for n in module.__all__]
    return [
        f"{name}: TypeAlias = {_full_name(cls)}"
        for name, cls in found
        if name != cls.__name__ or name == "Loop"
    ]


def _full_name(cls: Type) -> str:
    return f"recorded_loop.{cls.__name__}" if "Loop" in cls.__name__ else cls.__name__


# What a namespace has that isn't a type of arrays.
_EVENT = {
    namespace: (f"from lumijit.debug.{module} import Event as Event",)
    for module, first in (("events", "llvm"), ("cuda_events", "cuda"))
    for namespace in (first, f"{first}.ad")
}


def _imported() -> list[str]:
    names = [
        "AnyArray",
        "Counts",
        "Fits",
        "Flat",
        "Floats",
        "Integers",
        "Masks",
        "Matrices",
    ]
    names += ["Numbers", "PCG32Base", "Ravels", "Real", "Rows"]
    names += [f"Static{n}" for n in range(1, 5)] + [f"Size{n}" for n in SIZES]
    found = types("llvm").values()
    names += {named(cls) for cls in found for named in (_name_of_shape, _name_of_entry)}
    return sorted([*names, *map(_name_of_namespace, NAMESPACES)])


def namespace_stub(namespace: str) -> str:
    """Return the stub of a namespace."""
    found = list(types(namespace).values())
    names = import_module(f"lumijit.{namespace}").__all__
    return "\n".join(
        [
            f"# Array types of `lumijit.{namespace}`. {WRITTEN}",
            "",
            "from collections.abc import Sequence",
            "from typing import Any, TypeAlias",
            "",
            *[f"from lumijit.{namespace} import ad as ad"] * (namespace in _HAVE_AD),
            "from lumijit.control import recorded_loop",
            *_EVENT.get(namespace, ()),
            "from lumijit.textures.texture import TextureBase",
            f"from lumijit.typed import {', '.join(_imported())}",
            "",
            f"__all__ = {names}",
            "",
            *_aliases(namespace),
            "",
            *map(_alias, found),
            "",
            *map(_class, found),
            "",
            *_others(namespace),
            "",
        ]
    )


def auto_stub(namespace: str, inner: str) -> str:
    """Return the stub of what is another namespace unless told otherwise."""
    return f"""# Array types of the backend in use. {WRITTEN}
{inner}
from lumijit.{namespace} import *
from lumijit.{namespace} import __all__ as __all__
"""
