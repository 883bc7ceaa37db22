"""What an array class is: its namespace, entry type and static dimensions.

Owns `ArraySpec` and the registry that finds the class for one. The classes are
made by `array_types`, when somebody asks for them; `traits` answers questions about
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lumijit.runtime.dtypes import DType
from lumijit.runtime.errors import ArrayTypeError, message

DYNAMIC = -1
SPACES = ("scalar", "llvm", "llvm.ad")


@dataclass(frozen=True)
class ArraySpec:
    """The facts about one array class.

    `outer` are the dimensions before the one that a JIT backend vectorizes over:
    () for `llvm.Float`, (3,) for `llvm.Array3f` and `scalar.Array3f`, (2, 2) for
    `Array22f`, (DYNAMIC,) for `ArrayXf`. `kind` tells what arithmetic means.
    """

    space: str
    dtype: DType
    outer: tuple[int, ...]
    kind: str = "array"

    @property
    def is_jit(self) -> bool:
        """Whether a just-in-time compiler backs the entries."""
        return self.space != "scalar"

    @property
    def is_diff(self) -> bool:
        """Whether derivatives can be tracked."""
        return self.space.endswith(".ad")

    @property
    def shape(self) -> tuple[int, ...]:
        """The static dimensions, DYNAMIC where only an instance knows."""
        return (*self.outer, DYNAMIC) if self.is_jit else self.outer

    @property
    def is_instance(self) -> bool:
        """Whether the entries stand for Python objects (see `instances`)."""
        return self.kind.startswith("instances")

    def replaced(self, **changes: Any) -> ArraySpec:
        """Return a changed copy; with other entries or dimensions, a plain array."""
        key = (self, *changes.items())
        found = _REPLACED.get(key)
        if found is None:
            if self.is_instance and changes.keys() != {"space"}:
                changes.setdefault("kind", "array")
            found = _REPLACED[key] = replace(self, **changes)
        return found


# Copies made before: there are few, and making one takes longer than looking it up.
_REPLACED: dict[Any, ArraySpec] = {}
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
    if cls is None:
        shape = "x".join("N" if n < 0 else str(n) for n in spec.shape)
        raise ArrayTypeError(
            message(
                construct,
                f"there is no array type of shape {shape} with {spec.dtype.name} "
                f"entries in lumijit.{spec.space}",
                "use one of the types that the namespace lists.",
            )
        )
    return cls


def python_type(dtype: DType) -> type[Any]:
    """Return bool, int or float: what holds one entry in Python."""
    if dtype.is_bool:
        return bool
    return float if dtype.is_float else int
