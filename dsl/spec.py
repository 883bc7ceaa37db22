"""What an array class is: backend, derivatives, entry type, dimensions and kind.

Owns the tables of backends and kinds, `ArraySpec`, and the registry that finds the
class for one. The classes are made by `array_types`, when somebody asks for them;
`traits` answers questions about them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from threading import get_ident
from typing import Any, Final

from lumijit.runtime.device import DeviceId, chosen
from lumijit.runtime.dtypes import BOOL, FLOATS, VALUES, DType
from lumijit.runtime.errors import ArrayTypeError
from lumijit.runtime.history import JitBackend

DYNAMIC = -1


class Backend:
    """What computes the entries, named like its namespace; where, if not the host."""

    device: DeviceId | None = None

    def __init__(self, name: str, public: JitBackend) -> None:
        self.name: Final = name
        self.public: Final = public

    @property
    def is_jit(self) -> bool:
        """Whether operations are traced and compiled, for any number of elements."""
        return self.public is not JitBackend.Invalid


class _OfSeveral(Backend):
    """A backend with several devices, of which each thread uses one at a time."""

    @property
    def device(self) -> DeviceId:  # type: ignore[override]
        """Which one that is."""
        return chosen.get(get_ident(), _FIRST) if chosen else _FIRST


_FIRST = DeviceId("cuda")
SCALAR = Backend("scalar", JitBackend.Invalid)
LLVM = Backend("llvm", JitBackend.LLVM)
CUDA = _OfSeveral("cuda", JitBackend.CUDA)


@dataclass(frozen=True, eq=False)
class Kind:
    """What the entries of an array mean together: a row of the table of kinds.

    `types` are the dimensions and entries for which namespaces have types, named after
    `pattern`. Of a special kind, products mean more than products of entries;
    `is_number`: the entries are the parts of one number.
    `is_dominant`: ordinary arrays become of this kind where both meet.
    `holds` is the Python class of the objects for which entries stand.
    `instead`: what to use in place of components by name (`v.x`), if there are none.
    The storage class of each kind is in `array_types`.
    """

    name: str
    pattern: str = ""
    types: tuple[tuple[tuple[int, ...], DType], ...] = ()
    is_special: bool = False
    is_number: bool = False
    is_dominant: bool = False
    holds: type[Any] | None = None
    instead: str = ""


FLAT = Kind("flat", "{name}", (*product([()], VALUES),))
STATIC = Kind(
    "static",
    "Array{shape}{suffix}",
    (
        *product([(0,), (1,), (2,), (3,), (4,)], VALUES),
        *product([(2, 2), (3, 3), (4, 4)], (BOOL, *FLOATS)),
    ),
)
ANY_LENGTH = Kind(
    "dynamic",
    "ArrayX{suffix}",
    (*product([(DYNAMIC,)], VALUES),),
)
COMPLEX = Kind(
    "complex",
    "Complex2{suffix}",
    (*product([(2,)], FLOATS),),
    is_special=True,
    is_number=True,
    is_dominant=True,
    instead="use 'real' and 'imag'",
)
QUATERNION = Kind(
    "quaternion",
    "Quaternion4{suffix}",
    (*product([(4,)], FLOATS),),
    is_special=True,
    is_number=True,
    is_dominant=True,
)
MATRIX = Kind(
    "matrix",
    "Matrix{size}{suffix}",
    (*product([(2, 2), (3, 3), (4, 4)], FLOATS),),
    is_special=True,
    is_dominant=True,
    instead="use indices, as in m[row, column]",
)
# What is said of a tensor's dimensions is that of its entries, in a flat array.
TENSOR = Kind(
    "tensor", "TensorX{suffix}", (*product([(), (DYNAMIC,)], VALUES),), is_dominant=True
)
KINDS = (FLAT, STATIC, ANY_LENGTH, COMPLEX, QUATERNION, MATRIX, TENSOR)


def plain_kind(outer: tuple[int, ...]) -> Kind:
    """Return the kind of the ordinary arrays with these dimensions."""
    if not outer:
        return FLAT
    return STATIC if outer[0] >= 0 else ANY_LENGTH


class ArraySpec:
    """The facts about one array class. For equal ones, `array_spec` returns one object.

    `outer` are the dimensions before the one that a JIT backend vectorizes over:
    () for `llvm.Float`, (3,) for `llvm.Array3f` and `scalar.Array3f`, (2, 2) for
    `Array22f`, (DYNAMIC,) for `ArrayXf`. `kind` tells what arithmetic means.
    """

    __slots__ = (
        "_copies",
        "backend",
        "dtype",
        "is_diff",
        "is_instance",
        "is_jit",
        "kind",
        "outer",
        "shape",
    )

    def __init__(
        self,
        backend: Backend,
        is_diff: bool,
        dtype: DType,
        outer: tuple[int, ...],
        kind: Kind,
    ) -> None:
        self.backend = backend
        self.is_diff = is_diff
        self.dtype = dtype
        self.outer = outer
        self.kind = kind
        # Whether a just-in-time compiler backs the entries, …
        self.is_jit = backend.is_jit
        # … whether they stand for Python objects (see `instances`), …
        self.is_instance = kind.holds is not None
        # … and the static dimensions, DYNAMIC where only an instance knows.
        self.shape = (*outer, DYNAMIC) if self.is_jit else outer
        # There are few, and making one takes longer than looking it up.
        self._copies: dict[Any, ArraySpec] = {}

    def __repr__(self) -> str:
        facts = self.is_diff, self.dtype, self.outer, self.kind.name
        return f"ArraySpec({self.backend.name}, {', '.join(map(str, facts))})"

    @property
    def meta(self) -> str:
        """A text with these facts: `__meta__` of types, as in Dr.Jit."""
        kind, is_jit = self.kind, self.is_jit
        named = kind.name if kind.is_special or kind.name == "tensor" else "vector"
        lines = [f"type={self.dtype.name.lower()}"]
        lines += [f"backend={self.backend.name}", "is_jit=1"] if is_jit else []
        lines += [f"is_{named}=1"] if kind.name != "flat" else []
        lines += ["is_diff=1"] if self.is_diff else []
        sizes = () if kind.name == "tensor" else self.shape
        lines.append(f"shape=({', '.join('*' if n < 0 else str(n) for n in sizes)})")
        return "ArrayMeta[\n  " + ",\n  ".join(lines) + "\n]"

    @property
    def namespace(self) -> str:
        """The name of the module that has the class: `llvm.ad`."""
        return f"{self.backend.name}.ad" if self.is_diff else self.backend.name

    def replaced(self, **changes: Any) -> ArraySpec:
        """Return changed facts; a plain array's if the kind has no such type."""
        key = (*changes.items(),)
        found = self._copies.get(key)
        if found is None:
            found = self.changed(**changes)
            is_listed = (found.outer, found.dtype) in found.kind.types
            if not is_listed and not changes.keys().isdisjoint(("dtype", "outer")):
                found = found.plain()
            self._copies[key] = found
        return found

    def changed(self, **changes: Any) -> ArraySpec:
        """Return changed facts, whether there is such a type or not."""
        names = "backend", "is_diff", "dtype", "outer", "kind"
        facts = {name: getattr(self, name) for name in names}
        return array_spec(**{**facts, **changes})

    def plain(self) -> ArraySpec:
        """Return the facts about ordinary arrays of these entries and dimensions."""
        return self.replaced(kind=plain_kind(self.outer))

    def flat(self, dtype: DType) -> ArraySpec:
        """Return the facts about flat arrays of the same namespace."""
        found = self._copies.get(dtype)
        if found is None:
            found = self._copies[dtype] = self.replaced(
                dtype=dtype, outer=(), kind=FLAT
            )
        return found


def array_spec(
    backend: Backend, is_diff: bool, dtype: DType, outer: tuple[int, ...], kind: Kind
) -> ArraySpec:
    """Return the facts about an array class."""
    key = backend, is_diff, dtype, outer, kind
    found = _SPECS.get(key)
    return _SPECS.setdefault(key, ArraySpec(*key)) if found is None else found


def plain_spec(
    backend: Backend, is_diff: bool, dtype: DType, outer: tuple[int, ...] = ()
) -> ArraySpec:
    """Return the facts about an ordinary array class."""
    return array_spec(backend, is_diff, dtype, outer, plain_kind(outer))


_SPECS: dict[tuple[Any, ...], ArraySpec] = {}
_CLASSES: dict[ArraySpec, type[Any]] = {}
_DECLARED: dict[ArraySpec, Callable[[], type[Any]]] = {}


def declare(spec: ArraySpec, make: Callable[[], type[Any]]) -> None:
    """Say how a class is made, which `find` does when it is first asked for."""
    _DECLARED[spec] = make


def register(spec: ArraySpec, cls: type[Any]) -> None:
    """Enter a finished class, so that `find` returns it."""
    _CLASSES[spec] = cls


def registered(spec: ArraySpec) -> type[Any] | None:
    """Return the class for a spec if it has been made."""
    return _CLASSES.get(spec)


def find(spec: ArraySpec) -> type[Any] | None:
    """Return the class for a spec, a Python type for scalars, or None."""
    if not spec.outer and not spec.is_jit:
        return python_type(spec.dtype)
    cls = _CLASSES.get(spec)
    if cls is None and spec in _DECLARED:
        return _DECLARED[spec]()
    return cls


def require(spec: ArraySpec, construct: str) -> type[Any]:
    """Return the class for a spec, or raise."""
    cls = find(spec)
    namespace = f"lumijit.{spec.namespace}"
    if cls is None and namespace not in sys.modules:
        # (They are imported when somebody asks for them.)
        with contextlib.suppress(ModuleNotFoundError):
            import_module(namespace)
        cls = find(spec)
    if cls is None:
        shape = "x".join("N" if n < 0 else str(n) for n in spec.shape)
        raise ArrayTypeError(
            construct,
            f"there is no array type of shape {shape} with {spec.dtype.name} "
            f"entries in lumijit.{spec.namespace}",
            "use one of the types that the namespace lists.",
        )
    return cls


def python_type(dtype: DType) -> type[Any]:
    """Return bool, int or float: what holds one entry in Python."""
    if dtype.is_bool:
        return bool
    return float if dtype.is_float else int
