"""Exchange of arrays with other frameworks in memory, by DLPack, without derivatives.

NumPy's view of an array is what is handed out; it isn't a copy where memory has the
order that the others expect. Of contents that a derivative may need, and so nobody may
write to, they get a copy.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from lumijit.runtime.errors import MissingPackageError

# The device type of processors in DLPack.
CPU = (1, 0)


def package(name: str, construct: str) -> ModuleType:
    """Import a framework."""
    try:
        return import_module(name)
    except ImportError as error:
        installed = name.partition(".")[0]
        raise MissingPackageError(
            construct,
            f"the package {installed!r} is not installed",
            f"install it (pip install {installed}).",
        ) from error


def writable(array: Any) -> np.ndarray[Any, Any]:
    """Return the contents as a NumPy array that others may write to."""
    data: np.ndarray[Any, Any] = array.numpy()
    return data if data.flags.writeable else data.copy()


def capsule(array: Any, options: dict[str, Any]) -> Any:
    """Return the contents as a DLPack capsule; the options are those of `__dlpack__`.

    The stream is none of a processor's.
    """
    if array._spec.backend.device is not None:
        device_memory = import_module("lumijit.interop.device_memory")
        return device_memory.capsule(array, options)
    options.pop("stream", None)
    return writable(array).__dlpack__(**options)


def _given(array: Any) -> Any:
    """Return what tells others of the contents: where a device has them, or NumPy."""
    return writable(array) if array._spec.backend.device is None else array


def to_torch(array: Any) -> Any:
    """Return a PyTorch tensor of an array's contents, on the same device."""
    return package("torch", "torch()").from_dlpack(_given(array))


def host_torch(array: Any) -> Any:
    """Return a PyTorch tensor on the CPU."""
    return package("torch", "torch()").from_dlpack(writable(array))


def to_jax(array: Any) -> Any:
    """Return a JAX array of an array's contents, on the same device.

    On the CPU it is a copy, as those never change; ours on a device don't, once others
    see them.
    """
    if array._spec.backend.device is not None:
        return package("jax.dlpack", "jax()").from_dlpack(array)
    return host_jax(array)


def host_jax(array: Any) -> Any:
    """Return a JAX array with a copy of the contents."""
    return package("jax.numpy", "jax()").asarray(array.numpy().copy())


def to_tf(array: Any) -> Any:
    """Return a TensorFlow tensor of an array's contents."""
    exchange = package("tensorflow", "tf()").experimental.dlpack
    return exchange.from_dlpack(_given(array).__dlpack__())
