"""Memory for arrays: aligned, padded buffers from a caching allocator.

Owns allocation, reuse, and the ways from and to NumPy without copying. Which
job reads or writes a buffer is the caller's business; that jobs run in order of
submission makes reuse safe: a buffer that is freed while a job still uses it may
be given to a later job at once. Only the host must wait before it writes into
recycled memory (`Buffer.wait_until_free`).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from lumijit.runtime import cgroup, workers
from lumijit.runtime.config import settings
from lumijit.runtime.dtypes import DType
from lumijit.runtime.errors import AllocationError, CancelledError, SizeError, message
from lumijit.runtime.log import LogLevel, log

ALIGNMENT: Final = 64
# Kernels read and write whole packets: up to 64 entries of 8 bytes.
PADDING_BYTES: Final = 512
_PAGE_BYTES: Final = 4096
_MAPPED_FROM: Final = 1 << 20
_HUGE_FROM: Final = 4 << 20
_HUGE_PAGE: Final = 2 << 20
# Below this, asking the system how much memory is left costs too much.
_CHECKED_FROM: Final = 64 << 20
_MIB: Final = float(1 << 20)


@dataclass
class _Statistics:
    live_bytes: int = 0
    cached_bytes: int = 0
    peak_bytes: int = 0
    foreign_bytes: int = 0
    live_count: int = 0
    allocation_count: int = 0


class _Block:
    """A piece of memory of a size class, with the ticket of its last user."""

    __slots__ = ("address", "capacity", "memory", "size_class", "ticket")

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


_free: defaultdict[int, list[_Block]] = defaultdict(list)
_statistics: Final = _Statistics()


class Buffer:
    """Memory of an array. It returns to the allocator with the last reference.

    A foreign buffer is someone else's memory (a NumPy array's): kernels may read
    it, with the padding, but must not write past its end.
    """

    __slots__ = ("__weakref__", "_block", "_owner", "address", "size_bytes", "ticket")

    def __init__(
        self, address: int, size_bytes: int, block: _Block | None, owner: object
    ) -> None:
        self.address: Final = address
        self.size_bytes: Final = size_bytes
        self._block: Final = block
        self._owner = owner
        # The job that writes the contents; 0 if they are there already.
        self.ticket = 0

    @property
    def is_foreign(self) -> bool:
        """Whether the memory belongs to someone else."""
        return self._block is None

    @property
    def is_read_only(self) -> bool:
        """Whether the memory belongs to a NumPy array that can't be written to."""
        owner = self._owner
        return isinstance(owner, np.ndarray) and not owner.flags.writeable

    @property
    def capacity_bytes(self) -> int:
        """How many bytes from the address on may be read."""
        block = self._block
        return block.capacity if block else self.size_bytes + PADDING_BYTES

    def wait_until_free(self) -> None:
        """Wait for the jobs that may use the memory on behalf of a former owner.

        The host must do so before it writes; jobs need not, as they run in order.
        """
        if self._block is not None:
            workers.wait(self._block.ticket)

    def check_intact(self) -> None:
        """Raise if Ctrl-C stopped the job that was to write the contents."""
        if self.ticket and workers.was_cancelled(self.ticket):
            raise CancelledError(
                message(
                    "evaluation",
                    "the contents of an array were never computed, because Ctrl-C "
                    "stopped the kernel",
                    "compute the array anew.",
                )
            )

    def __repr__(self) -> str:
        kind = "foreign " if self.is_foreign else ""
        return f"<{kind}Buffer of {self.size_bytes} bytes at {self.address:#x}>"

    def __del__(
        self,
        _last_ticket: Any = workers.last_ticket,
        _keep_until: Any = workers.keep_until,
        _free: Any = _free,
        _statistics: _Statistics = _statistics,
    ) -> None:
        # What is needed is bound above: globals go first when Python ends.
        try:
            block = self._block
        except AttributeError:
            return
        if block is None:
            _statistics.foreign_bytes -= self.size_bytes
            _keep_until(_last_ticket(), self._owner)
            return
        block.ticket = _last_ticket()
        _statistics.live_bytes -= block.capacity
        _statistics.live_count -= 1
        _statistics.cached_bytes += block.capacity
        _free[block.size_class].append(block)


def _size_class(size_bytes: int) -> int:
    """Round a size up: by at most a half, from 1 MiB on by at most a quarter."""
    if size_bytes <= 64:
        return 64
    step = 1 << ((size_bytes - 1).bit_length() - (3 if size_bytes > 1 << 20 else 2))
    return -(-size_bytes // step) * step


def _available_bytes() -> int:
    """Return how much memory the machine can still give."""
    left = cgroup.memory_left()
    if settings.memory_limit_mb:
        taken = _statistics.live_bytes + _statistics.cached_bytes
        left = min(left, max((settings.memory_limit_mb << 20) - taken, 0))
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


def _fits(size_bytes: int) -> bool:
    if size_bytes < _CHECKED_FROM and not settings.memory_limit_mb:
        return True
    return size_bytes <= _available_bytes()


def _try_block(size_class: int, capacity: int) -> _Block | None:
    """Get memory from the system, unless there is not enough of it."""
    if not _fits(capacity):
        return None
    try:
        return _Block(size_class, capacity)
    except (MemoryError, OSError, OverflowError, ValueError):
        return None


def _new_block(size_class: int, size_bytes: int) -> _Block:
    capacity = size_class + PADDING_BYTES
    if capacity >= _MAPPED_FROM:
        capacity = -(-capacity // _PAGE_BYTES) * _PAGE_BYTES
    block = _try_block(size_class, capacity)
    if block is None:
        log(LogLevel.Info, "memory is short: what is cached is given back")
        flush_malloc_cache()
        block = _try_block(size_class, capacity)
    if block is None:
        available = _available_bytes() / _MIB
        raise AllocationError(
            message(
                "memory allocation",
                f"{size_bytes / _MIB:.1f} MiB can't be had "
                f"(available: {available:.1f} MiB, arrays hold "
                f"{_statistics.live_bytes / _MIB:.1f} MiB)",
                "use smaller arrays, or evaluate the computation in parts.",
            )
        )
    _statistics.allocation_count += 1
    return block


def allocate(size_bytes: int) -> Buffer:
    """Return uninitialised memory, aligned to 64 bytes and padded by 512.

    Args:
        size_bytes: how much is wanted, 0 or more.
    """
    if size_bytes < 0:
        raise SizeError(
            message(
                "memory allocation",
                f"the size is negative (got {size_bytes} bytes)",
                "ask for 0 or more elements.",
            )
        )
    size_class = _size_class(size_bytes)
    try:
        block = _free[size_class].pop()
        _statistics.cached_bytes -= block.capacity
    except IndexError:
        block = _new_block(size_class, size_bytes)
    statistics = _statistics
    statistics.live_count += 1
    live = statistics.live_bytes + block.capacity
    statistics.live_bytes = live
    if live > statistics.peak_bytes:
        statistics.peak_bytes = live
    return Buffer(block.address, size_bytes, block, None)


def _can_share(array: np.ndarray[Any, Any]) -> bool:
    """Tell whether kernels may read an array where it is, with the padding."""
    if not array.flags.c_contiguous or not array.nbytes:
        return False
    start: int = array.__array_interface__["data"][0]
    end = start + array.nbytes
    last_page = (end - 1) // _PAGE_BYTES
    return (
        start % array.itemsize == 0
        and (end + PADDING_BYTES - 1) // _PAGE_BYTES == last_page
    )


def from_numpy(array: np.ndarray[Any, Any]) -> Buffer:
    """Return a NumPy array's entries as a buffer, without a copy where possible.

    The array is shared if it is C-contiguous and aligned, and if reading 512
    bytes past its end stays in its last page. Otherwise it is copied, as are masks
    that hold other bytes than 0 and 1: NumPy takes them for true, kernels don't.
    """
    if array.dtype.kind == "b" and array.size:
        numbers = array.view(np.uint8)
        if numbers.max() > 1:
            array = numbers != 0
    if _can_share(array):
        _statistics.foreign_bytes += array.nbytes
        address: int = array.__array_interface__["data"][0]
        return Buffer(address, array.nbytes, None, array)
    buffer = allocate(array.nbytes)
    buffer.wait_until_free()
    contiguous = np.ascontiguousarray(array)
    source = contiguous.__array_interface__["data"][0]
    ctypes.memmove(buffer.address, source, array.nbytes)
    return buffer


class _View:
    """What NumPy asks for memory; keeps the buffer alive as an array's base."""

    __slots__ = ("__array_interface__", "_buffer")

    def __init__(self, buffer: Buffer, typestr: str, size: int) -> None:
        self._buffer = buffer
        self.__array_interface__ = {
            "data": (buffer.address, buffer.is_read_only),
            "typestr": typestr,
            "shape": (size,),
            "version": 3,
        }


def as_numpy(buffer: Buffer, dtype: DType, size: int) -> np.ndarray[Any, Any]:
    """Return a buffer's entries as a NumPy array without a copy.

    The array keeps the buffer alive, and can be written to unless the memory is that
    of a NumPy array which can't. Nothing is waited for: the caller does.
    """
    assert size * dtype.size_bytes <= buffer.size_bytes, f"{size} {dtype}: {buffer!r}"
    return np.asarray(_View(buffer, dtype.numpy.str, size))


def flush_malloc_cache() -> None:
    """Give all memory that no array uses back to the system."""
    workers.sync()
    for blocks in list(_free.values()):
        while blocks:
            try:
                block = blocks.pop()
            except IndexError:
                break
            _statistics.cached_bytes -= block.capacity


def memory_stats() -> dict[str, int]:
    """Return what arrays hold, what is cached for reuse, and the most ever held.

    The entries are `live_bytes`, `cached_bytes`, `peak_bytes` (of the live ones),
    `foreign_bytes` (shared with NumPy), `live_count` and `allocation_count` (how
    often the system was asked).
    """
    return asdict(_statistics)


def reset_peak() -> None:
    """Let `peak_bytes` start anew from what is held now."""
    _statistics.peak_bytes = _statistics.live_bytes
