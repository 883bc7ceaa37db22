"""DLPack: the memory layout by which libraries tell each other of arrays on devices.

Owns capsules: making one, and reading those of others. What is in them, and in which
order streams use it, is up to `device_memory`. Arrays on the CPU go by way of NumPy.
(The layout is that of `dlpack.h`, without a version: DLManagedTensor.)
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any, Final, NamedTuple

import numpy as np

from lumijit.runtime.errors import ArrayTypeError

CUDA: Final = 2
#: Memory that the driver moves between CPU and GPU.
CUDA_MANAGED: Final = 13
_NEW, _USED = b"dltensor", b"used_dltensor"
# DLDataTypeCode, by NumPy's kinds.
_CODES: Final = {"i": 0, "u": 1, "f": 2, "b": 6}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_number", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))


class Contents(NamedTuple):
    """An array in a device's memory; strides are in entries, None if it is dense."""

    address: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    device: tuple[int, int]


_api = ctypes.pythonapi
# A capsule that is being destroyed must not be counted as referred to: no `py_object`.
_Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_Deleter = ctypes.CFUNCTYPE(None, c_void_p)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, ctypes.c_char_p, c_void_p)(
    ("PyCapsule_New", _api)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(
    ("PyCapsule_SetName", _api)
)
# What has been handed out, by address, until the other side lets go of it.
_lent: Final[dict[int, tuple[Any, ...]]] = {}


def _let_go(address: int) -> None:
    """Forget what was handed out; may be called from any thread."""
    entry = _lent.pop(address, None)
    if entry is not None:
        entry[0]()


def _destroyed(capsule: int) -> None:
    """Let go of a capsule's contents if nobody has taken them."""
    if _is_valid(capsule, _NEW):
        _let_go(_pointer(capsule, _NEW))


# (They are called as long as there are capsules.)
_DELETER: Final = _Deleter(_let_go)
_DESTRUCTOR: Final = _Destructor(_destroyed)


def capsule_of(contents: Contents, release: Callable[[], None]) -> Any:
    """Return a capsule; `release` is called once nobody needs the contents any more."""
    count = len(contents.shape)
    shape = (c_int64 * max(1, count))(*contents.shape)
    strides = None
    if contents.strides is not None:
        strides = (c_int64 * max(1, count))(*contents.strides)
    managed = _Managed()
    tensor = managed.tensor
    tensor.data = contents.address
    tensor.device_type, tensor.device_number = contents.device
    tensor.ndim, tensor.lanes = count, 1
    tensor.code = _CODES[contents.dtype.kind]
    tensor.bits = 8 * contents.dtype.itemsize
    tensor.shape = shape
    tensor.strides = strides
    managed.deleter = ctypes.cast(_DELETER, c_void_p).value
    address = ctypes.addressof(managed)
    _lent[address] = release, managed, shape, strides
    return _new(address, _NEW, ctypes.cast(_DESTRUCTOR, c_void_p))


class Taken:
    """The contents of another library's capsule, which it gets back with the object."""

    def __init__(self, capsule: Any, construct: str) -> None:
        name = id(capsule)
        if type(capsule).__name__ != "PyCapsule" or not _is_valid(name, _NEW):
            raise ArrayTypeError(
                construct,
                "__dlpack__ gave something else than an unused capsule with a DLPack "
                "tensor",
                "pass an object that implements the protocol, such as a tensor of "
                "PyTorch.",
            )
        self._managed = _Managed.from_address(_pointer(name, _NEW))
        _rename(name, _USED)
        tensor = self._managed.tensor
        shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
        strides = None
        if tensor.strides:
            strides = tuple(tensor.strides[k] for k in range(tensor.ndim))
        self.contents = Contents(
            (tensor.data or 0) + tensor.byte_offset,
            _dtype(tensor, construct),
            shape,
            strides,
            (tensor.device_type, tensor.device_number),
        )

    def __del__(self, is_late: Callable[[], bool] = sys.is_finalizing) -> None:
        """Tell the other library, unless the process ends."""
        managed = None if is_late() else getattr(self, "_managed", None)
        if managed is not None and managed.deleter:
            _Deleter(managed.deleter)(ctypes.addressof(managed))


def _dtype(tensor: _Tensor, construct: str) -> np.dtype[Any]:
    kinds = {code: kind for kind, code in _CODES.items()}
    kind, size = kinds.get(tensor.code), tensor.bits // 8
    if kind is None or tensor.lanes != 1 or size not in (1, 2, 4, 8):
        raise ArrayTypeError(
            construct,
            f"the entries have a type that arrays of lumijit don't have (DLPack code "
            f"{tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes)",
            "convert them to bool, integers or floats first.",
        )
    return np.dtype(f"{kind}{size}")
