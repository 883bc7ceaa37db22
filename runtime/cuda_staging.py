"""Memory of the host that a GPU writes to itself: where copies of arrays go.

Other memory is much slower: the driver copies by way of its own, and each page is
touched for the first time. Making it takes long, too (an H200's host: half a second a
GiB), so what arrays have given back is kept.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from ctypes import byref, c_size_t, c_void_p
from typing import Any
from weakref import finalize

import numpy as np

from lumijit.runtime.device import Bytes
from lumijit.runtime.libcuda import check

# Smaller copies leave the memory at once, for other memory.
_SMALL = 1 << 16
# How much is kept, beyond which it goes back; and how much arrays may have of it.
_KEPT = _LENT = 1 << 30


class Staging:
    """Pinned memory by size: powers of two and halfway between."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._free: dict[int, list[int]] = {}
        self._kept = self._lent = 0

    def take(self, size_bytes: int) -> int:
        """Return where so many bytes may be written.

        The context must be that of the thread.
        """
        room = _room(size_bytes)
        # Another thread may do the same.
        with suppress(KeyError, IndexError):
            place = self._free[room].pop()
            self._kept -= room
            return place
        found = c_void_p()
        made = self._driver.cuMemHostAlloc(byref(found), c_size_t(room), 0)
        check(made, "allocating pinned memory")
        assert found.value is not None
        return found.value

    def given(self, place: int, size_bytes: int) -> Bytes:
        """Return what has been written as an array; its memory comes back some time."""
        held: Any = (ctypes.c_uint8 * size_bytes).from_address(place)
        if size_bytes > _SMALL and self._lent + size_bytes <= _LENT:
            self._lent += size_bytes
            # (When the process ends, the driver may have gone before.)
            finalize(held, self._returned, place, size_bytes).atexit = False
            return np.frombuffer(held, np.uint8)
        data: Bytes = np.frombuffer(held, np.uint8).copy()
        self._back(place, size_bytes)
        return data

    def _returned(self, place: int, size_bytes: int) -> None:
        self._lent -= size_bytes
        self._back(place, size_bytes)

    def _back(self, place: int, size_bytes: int) -> None:
        room = _room(size_bytes)
        if self._kept + room > _KEPT:
            self._driver.cuMemFreeHost(c_void_p(place))
            return
        self._kept += room
        self._free.setdefault(room, []).append(place)


def _room(size_bytes: int) -> int:
    """Return the size of memory for so many bytes: at most half as much again."""
    whole = max(_SMALL, 1 << (size_bytes - 1).bit_length())
    return whole * 3 // 4 if size_bytes <= whole * 3 // 4 else whole
