"""Which backend `lumijit.auto` stands for."""

from __future__ import annotations

import importlib
from typing import Any

from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.runtime.history import JitBackend

_BACKENDS = ("llvm", "cuda", "scalar")
_current = "llvm"


def set_backend(backend: str | JitBackend, /) -> None:
    """Choose the namespace to which `lumijit.auto` refers.

    Types that have been imported from it before stay what they are.

    Args:
        backend: "llvm", "cuda", "scalar", or a member of JitBackend.

    Raises:
        ArrayValueError: if there is no such backend.

    >>> import lumijit as dr
    >>> dr.set_backend("scalar")
    >>> dr.auto.Float
    <class 'float'>
    >>> dr.set_backend("llvm")
    >>> dr.auto.Float
    <class 'lumijit.llvm.Float'>
    """
    global _current
    if isinstance(backend, JitBackend):
        backend = backend.name.lower()
    if not isinstance(backend, str):
        raise ArrayTypeError(
            "lumijit.set_backend",
            f"the backend is {backend!r}",
            "pass a name or a member of JitBackend.",
        )
    if backend not in _BACKENDS:
        raise ArrayValueError(
            "lumijit.set_backend",
            f"there is no backend {backend!r}",
            f"choose one of {', '.join(_BACKENDS)}.",
        )
    _current = backend


def find_type(name: str, with_derivatives: bool = False) -> Any:
    """Return a type of the chosen namespace; AttributeError if there is none."""
    suffix = ".ad" if with_derivatives and _current != "scalar" else ""
    module = importlib.import_module(f"lumijit.{_current}{suffix}")
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(module, name)
