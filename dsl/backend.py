"""Which backend `lumijit.auto` stands for, and which of its devices is in use."""

from __future__ import annotations

import importlib
from typing import Any

from lumijit.runtime.contexts import Block, of_threads
from lumijit.runtime.device import DeviceId, chosen, is_there
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from lumijit.runtime.history import JitBackend

_BACKENDS = ("llvm", "cuda", "scalar")
# What was chosen, or found when a type was first asked for.
_current = ""


def set_backend(backend: str | JitBackend, /) -> None:
    """Choose the namespace to which `lumijit.auto` refers.

    If none is chosen, it is that of GPUs where there is one, and else that of the CPU.
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
    global _current
    _current = _current or ("cuda" if is_there(DeviceId("cuda")) else "llvm")
    suffix = ".ad" if with_derivatives and _current != "scalar" else ""
    module = importlib.import_module(f"lumijit.{_current}{suffix}")
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(module, name)


class scoped_device:
    """Context manager: new arrays of `lumijit.cuda` belong to one of several GPUs.

    Arrays that there are stay where they are, and computing with them goes on there,
    in the block and after it. Arrays of two devices can't meet in one computation: copy
    by way of the host, `Float(x.numpy())`. It holds for the thread, and blocks nest.

    Args:
        number: which GPU, from 0 on, as the driver counts them. Whether it is there
            shows when something is computed.

    Raises:
        ArrayTypeError, ArrayValueError: if that is no number of a device.

    >>> import lumijit as dr
    >>> from lumijit.cuda import Float
    >>> with dr.scoped_device(1):
    ...     x = dr.arange(Float, 1000)
    >>> y = dr.sqrt(x)  # it is computed on GPU 1, too
    """

    def __init__(self, number: int) -> None:
        """Choose a device by its number."""
        kind = number.__class__
        if kind is not int:
            raise ArrayTypeError(
                "lumijit.scoped_device",
                f"'number' is no whole number (expected int, got {kind.__name__})",
                "pass the number of a GPU, such as 0.",
            )
        if number < 0:
            raise ArrayValueError(
                "lumijit.scoped_device",
                f"'number' is negative (got {number})",
                "pass the number of a GPU: they are counted from 0 on.",
            )
        self._device = DeviceId("cuda", int(number))
        self._entered: list[Block[DeviceId | None]] = []

    def __enter__(self) -> None:
        """Begin the block."""
        during = _chosen.block(self._device)
        during.__enter__()
        self._entered.append(during)

    def __exit__(self, *_: object) -> None:
        """Use the former device again."""
        self._entered.pop().__exit__()


_chosen = of_threads(chosen)
