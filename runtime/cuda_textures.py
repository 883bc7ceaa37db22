"""Texture units of NVIDIA's GPUs: texels in the order that these like, and lookups.

Owns arrays and texture objects of the driver. A kernel is given the object's handle,
which lies in a buffer: what looks up holds that, and it the texels.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, NamedTuple
from weakref import finalize

from lumijit.runtime.libcuda import check

# CUarray_format, CUmemorytype, CUresourcetype, CUtexture flags.
_FLOAT = 0x20
_DEVICE, _ARRAY = 2, 3
_OF_ARRAY = 0
_NORMALIZED = 2


class Kind(NamedTuple):
    """What a texture is: sizes (fastest axis first), channels, and how it is read.

    `channels` are up to four numbers of single precision; `wrap` is "repeat", "clamp"
    or "mirror".
    """

    sizes: tuple[int, ...]
    channels: int
    is_linear: bool
    wrap: str

    @property
    def stored_channels(self) -> int:
        """How many channels texture memory has: not three."""
        return 4 if self.channels == 3 else self.channels


_WRAPS = ("repeat", "clamp", "mirror")


def _fields(**kinds: Any) -> Any:
    """Return the fields of a structure of the driver (cuda.h), in their order."""
    return list(kinds.items())


class _ArrayDescription(ctypes.Structure):
    _fields_ = _fields(
        **dict.fromkeys(("width", "height", "depth"), c_size_t),
        format=c_int,
        channels=c_uint,
        flags=c_uint,
    )


class _End(ctypes.Structure):
    """One end of a copy."""

    _fields_ = _fields(
        **dict.fromkeys(("x_bytes", "y", "z", "level"), c_size_t),
        kind=c_int,
        host=c_void_p,
        device=c_uint64,
        array=c_void_p,
        reserved=c_void_p,
        pitch=c_size_t,
        height=c_size_t,
    )


class _Copy(ctypes.Structure):
    _fields_ = _fields(
        source=_End,
        target=_End,
        **dict.fromkeys(("width_bytes", "height", "depth"), c_size_t),
    )


class _Resource(ctypes.Structure):
    _fields_ = _fields(kind=c_int, array=c_void_p, rest=c_void_p * 15, flags=c_uint)


class _Reading(ctypes.Structure):
    _fields_ = _fields(
        wraps=c_int * 3,
        filter=c_int,
        flags=c_uint,
        anisotropy=c_uint,
        mipmap_filter=c_int,
        bias=c_float,
        lowest=c_float,
        highest=c_float,
        border=c_float * 4,
        reserved=c_int * 12,
    )


class TextureUnit:
    """A texture in the order of texture units; goes with the object.

    Args:
        driver, stream: who copies, and when.
        kind: what it is.
        address: where its texels lie, in memory of the GPU.
    """

    def __init__(self, driver: Any, stream: c_void_p, kind: Kind, address: int) -> None:
        array, handle = c_void_p(), c_uint64()
        width, height, depth = (*kind.sizes, 0, 0)[:3]
        channels = kind.stored_channels
        wanted = _ArrayDescription(width, height, depth, _FLOAT, channels, 0)
        made = driver.cuArray3DCreate_v2(byref(array), byref(wanted))
        check(made, "making a texture")
        # (When the process ends, the driver may have gone before.)
        finalize(self, driver.cuArrayDestroy, array).atexit = False
        row = 4 * channels * width
        copy = _Copy(width_bytes=row, height=max(1, height), depth=max(1, depth))
        copy.source.kind, copy.source.device = _DEVICE, address
        copy.source.pitch, copy.source.height = row, max(1, height)
        copy.target.kind, copy.target.array = _ARRAY, array.value
        copied = driver.cuMemcpy3DAsync_v2(byref(copy), stream)
        check(copied, "filling a texture")
        resource = _Resource(kind=_OF_ARRAY, array=array.value)
        wrap = _WRAPS.index(kind.wrap)
        reading = _Reading((c_int * 3)(wrap, wrap, wrap), int(kind.is_linear))
        reading.flags = _NORMALIZED
        made = driver.cuTexObjectCreate(
            byref(handle), byref(resource), byref(reading), None
        )
        check(made, "making a texture object")
        finalize(self, driver.cuTexObjectDestroy, handle).atexit = False
        self.handle = handle.value


def spread(driver: Any, stream: c_void_p, kind: Kind, source: int, to: int) -> None:
    """Copy texels of three channels to places for four."""
    size = 4 * kind.channels
    copy = _Copy(width_bytes=size, height=math.prod(kind.sizes), depth=1)
    for end, address in ((copy.source, source), (copy.target, to)):
        end.kind, end.device = _DEVICE, address
    copy.source.pitch, copy.target.pitch = size, 4 * kind.stored_channels
    copy.source.height = copy.target.height = copy.height
    copied = driver.cuMemcpy3DAsync_v2(byref(copy), stream)
    check(copied, "filling a texture")


def largest(dimensions: int) -> Sequence[int]:
    """Return the sizes that all GPUs since Turing take."""
    return {1: (1 << 17,), 2: (1 << 17, 1 << 16), 3: (1 << 14,) * 3}[dimensions]
