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
        raise MissingPackageError(
            construct,
            f"the package {name!r} is not installed",
            f"install it (pip install {name}).",
        ) from error


def writable(array: Any) -> np.ndarray[Any, Any]:
    """Return the contents as a NumPy array that others may write to."""
    data: np.ndarray[Any, Any] = array.numpy()
    return data if data.flags.writeable else data.copy()


def capsule(array: Any, options: dict[str, Any]) -> Any:
    """Return the contents as a DLPack capsule; the options are those of `__dlpack__`.

    The stream is none of a processor's.
    """
    options.pop("stream", None)
    return writable(array).__dlpack__(**options)


def to_torch(array: Any) -> Any:
    """Return a PyTorch tensor of an array's contents."""
    return package("torch", "torch()").from_dlpack(writable(array))


def to_jax(array: Any) -> Any:
    """Return a JAX array of an array's contents; a copy, as those never change."""
    return package("jax.numpy", "jax()").asarray(array.numpy().copy())


def to_tf(array: Any) -> Any:
    """Return a TensorFlow tensor of an array's contents."""
    exchange = package("tensorflow", "tf()").experimental.dlpack
    return exchange.from_dlpack(writable(array).__dlpack__())
