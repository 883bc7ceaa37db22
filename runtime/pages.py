"""Memory from the system: mapped or not, aligned, of huge pages where it is large.

Owns how much of it there is. What it is used for, and when it is given back, is the
business of `buffers`.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import Any, Final

import numpy as np

from lumijit.runtime import cgroup
from lumijit.runtime.log import LogLevel, log
from lumijit.runtime.settings import settings

ALIGNMENT: Final = 64
PAGE_BYTES: Final = 4096
_MAPPED_FROM: Final = 1 << 20
_HUGE_FROM: Final = 4 << 20
_HUGE_PAGE: Final = 2 << 20
# Below this, asking the system how much memory is left costs too much.
_CHECKED_FROM: Final = 64 << 20
_LAST_CACHE_BYTES: Final = 32 << 20


class Block:
    """A piece of memory of a size class, with the ticket of its last user."""

    __slots__ = ("address", "capacity", "claim", "memory", "size_class", "ticket")
    # What `buffers` keeps of the buffer that has it.
    claim: Any

    def __init__(self, size_class: int, capacity: int) -> None:
        self.size_class = size_class
        self.capacity = capacity
        self.ticket = 0
        alignment = ALIGNMENT
        if capacity >= _MAPPED_FROM:
            is_huge = capacity >= _HUGE_FROM
            # Only a block that begins at a huge page is made of huge pages alone.
            alignment = _HUGE_PAGE if is_huge else ALIGNMENT
            memory = _map(capacity + (_HUGE_PAGE if is_huge else 0))
            self.memory: object = memory
            start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        else:
            array = np.empty(capacity + ALIGNMENT, np.uint8)
            self.memory = array
            start = array.__array_interface__["data"][0]
        self.address = -(-start // alignment) * alignment


def _map(size_bytes: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, size_bytes)
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size_bytes >= _HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError as error:
            log(LogLevel.Debug, "no huge pages: %s", error)
    return memory


def last_cache_bytes() -> int:
    """Return how large the last cache before memory is; a guess if nobody says so."""
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index3/size") as file:
            text = file.read().strip()
    except OSError:
        text = ""
    number = text.removesuffix("K")
    return int(number) << 10 if number.isdecimal() else _LAST_CACHE_BYTES


def available_bytes(taken_bytes: int) -> int:
    """Return how much memory the system can still give.

    Args:
        taken_bytes: what it has given already, for a limit that the user set.
    """
    left = cgroup.memory_left()
    if settings.memory_limit_mb:
        left = min(left, max((settings.memory_limit_mb << 20) - taken_bytes, 0))
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return min(left, int(line.split()[1]) << 10)
    except OSError:
        pass
    try:
        return min(left, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return left


def obtain(size_class: int, capacity: int, taken_bytes: int) -> Block | None:
    """Get memory from the system, unless there is not enough of it.

    Args:
        size_class: what the caller sorts it by.
        capacity: how many bytes are wanted.
        taken_bytes: how many it has got already.
    """
    if capacity >= _MAPPED_FROM:
        capacity = -(-capacity // PAGE_BYTES) * PAGE_BYTES
    is_checked = capacity >= _CHECKED_FROM or settings.memory_limit_mb
    if is_checked and capacity > available_bytes(taken_bytes):
        return None
    try:
        return Block(size_class, capacity)
    except (MemoryError, OSError, OverflowError, ValueError):
        return None


def can_share(array: np.ndarray[Any, Any], padding_bytes: int) -> bool:
    """Tell whether kernels may read an array where it is, with the padding."""
    if not array.flags.c_contiguous or not array.nbytes:
        return False
    start: int = array.__array_interface__["data"][0]
    end = start + array.nbytes
    last_page = (end - 1) // PAGE_BYTES
    return (
        start % array.itemsize == 0
        and (end + padding_bytes - 1) // PAGE_BYTES == last_page
    )
