"""Memory for arrays: aligned, padded buffers from a caching allocator.

Owns allocation, reuse, and the ways from and to NumPy without copying. Which
job reads or writes a buffer is the caller's business; that jobs run in order of
submission makes reuse safe: a buffer that is freed while a job still uses it may
be given to a later job at once. So queued jobs keep no buffers, and a loop needs
as many as it names. Only the host must wait before it writes into recycled memory
(`Buffer.wait_until_free`). Jobs that may overlap are no order: their memory is taken
before the first of them is submitted, and let go after the last (`evaluate`).

Memory must not be lost, nor given back to the system under a job, when Ctrl-C comes.
Python looks at signals, and changes threads, after calls, as functions begin and as
turns of loops end. Where comments say that there are no calls, nothing does.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict, deque
from ctypes import memmove
from dataclasses import dataclass
from typing import Any, Final
from weakref import ReferenceType, ref

import numpy as np

from lumijit.runtime import collector, pages, recorders, workers
from lumijit.runtime.dtypes import DType
from lumijit.runtime.errors import AllocationError, SizeError, cancelled
from lumijit.runtime.log import LogLevel, log
from lumijit.runtime.pages import ALIGNMENT as ALIGNMENT
from lumijit.runtime.pages import Block
from lumijit.runtime.workers import tickets

# Kernels read and write whole packets: up to 64 entries of 8 bytes, or 128 bytes.
PADDING_BYTES: Final = 512
# The owner of memory that several nodes have.
SNAPSHOT: Final = object()
_MIB: Final = float(1 << 20)
# How much the host may write or share before what it wrote earlier has been used.
RUN_AHEAD_BYTES: Final = 64 << 20


@dataclass
class _Statistics:
    taken_bytes: int = 0
    live_bytes: int = 0
    peak_bytes: int = 0
    foreign_bytes: int = 0
    allocation_count: int = 0


# What is free, by size class; and for each size that was asked for lately.
_free: defaultdict[int, list[Block]] = defaultdict(list)
_fitting: Final[dict[int, list[Block]]] = {}
_statistics: Final = _Statistics()


class Buffer:
    """Memory of an array. It returns to the allocator with the last reference.

    A foreign buffer is someone else's memory (a NumPy array's): kernels may read
    it, with the padding, but must not write past its end.
    """

    __slots__ = (
        "__weakref__",
        "_block",
        "_hook",
        "_owner",
        "address",
        "size_bytes",
        "ticket",
    )
    address: int
    size_bytes: int
    # The job that writes the contents; 0 if they are there already.
    ticket: int
    _block: Block | None
    _hook: object
    _owner: object
    device: Any = None  # whose memory it is, if not the host's

    @property
    def is_foreign(self) -> bool:
        """Whether the memory belongs to someone else, so that kernels don't write."""
        return self._block is None or self._owner is SNAPSHOT

    @property
    def is_read_only(self) -> bool:
        """Whether the memory belongs to a NumPy array that can't be written to."""
        owner = self._owner
        if isinstance(owner, np.ndarray):
            return not owner.flags.writeable
        return owner is SNAPSHOT

    @property
    def capacity_bytes(self) -> int:
        """How many bytes from the address on may be read."""
        block = self._block
        return block.capacity if block else self.size_bytes + PADDING_BYTES

    @property
    def is_idle(self) -> bool:
        """Whether no job uses the memory on behalf of a former owner."""
        block = self._block
        return block is not None and block.ticket <= workers.completed_ticket()

    def wait_until_free(self) -> None:
        """Wait for the jobs that may use the memory on behalf of a former owner.

        The host must do so before it writes; jobs need not, as they run in order.
        """
        if self._block is not None:
            workers.wait(self._block.ticket)

    def check_intact(self) -> None:
        """Raise if Ctrl-C stopped the job that was to write the contents."""
        if self.ticket and workers.was_cancelled(self.ticket):
            raise cancelled()

    def __repr__(self) -> str:
        kind = "foreign " if self.is_foreign else ""
        return f"<{kind}Buffer of {self.size_bytes} bytes at {self.address:#x}>"


class _Claim(ReferenceType):  # type: ignore[type-arg]
    """What a buffer has, told apart from the buffer: it goes to `_dead` with that.

    A method `__del__` may be cut short by Ctrl-C, which then is lost, too.
    """

    __slots__ = ("block", "key", "owner", "size_bytes")
    block: Block | None
    key: int
    owner: object
    size_bytes: int


# All memory that we have, and that of others; they keep the claims alive.
_blocks: Final[dict[int, Block]] = {}
_foreign: Final[dict[int, _Claim]] = {}
_numbers: Final = itertools.count(1)
_dead: Final[deque[_Claim]] = deque()
_mourn: Final = _dead.append
_listening: Final = recorders.listening


def _collect(_buffer: object = None) -> None:
    """Give the memory of buffers that have died to those who ask next."""
    statistics = _statistics
    while _dead:
        try:
            # No calls from here …
            claim = _dead[0]
            if claim.block is not None:
                del _dead[0]
        except IndexError:
            # Another thread was faster.
            return
        block = claim.block
        if block is None:
            _let_go(claim)
            continue
        block.ticket = tickets.words[0]
        statistics.live_bytes -= block.capacity
        # … up to this one.
        _free[block.size_class].append(block)


def _let_go(claim: _Claim) -> None:
    """Give others' memory back once no job uses it; cut short, that is repeated."""
    workers.keep_until(workers.last_ticket(), claim.owner)
    # No calls from here on.
    if claim.key in _foreign:
        del _foreign[claim.key]
        _statistics.foreign_bytes -= claim.size_bytes
    if _dead and _dead[0] is claim:
        del _dead[0]


def _size_class(size_bytes: int) -> int:
    """Round a size up: by at most a half, from 1 MiB on by at most a quarter."""
    if size_bytes <= 64:
        return 64
    step = 1 << ((size_bytes - 1).bit_length() - (3 if size_bytes > 1 << 20 else 2))
    return -(-size_bytes // step) * step


def _fitting_blocks(size_bytes: int) -> list[Block]:
    """Return the blocks of a size's class that are free, now and later."""
    if len(_fitting) >= 1024:
        _fitting.clear()
    return _fitting.setdefault(size_bytes, _free[_size_class(size_bytes)])


def _add_block(size_bytes: int) -> None:
    """Get memory from the system for the next one who asks for this size."""
    size_class = _size_class(size_bytes)
    capacity = size_class + PADDING_BYTES
    count = len(_free[size_class])
    collector.relieve(_live_bytes)
    if len(_free[size_class]) > count:
        return
    block = pages.obtain(size_class, capacity, _statistics.taken_bytes)
    if block is None:
        log(LogLevel.Info, "memory is short: what is cached is given back")
        collector.relieve(_live_bytes, is_short=True)
        flush_malloc_cache()
        block = pages.obtain(size_class, capacity, _statistics.taken_bytes)
    if block is None:
        available = pages.available_bytes(_statistics.taken_bytes) / _MIB
        raise AllocationError(
            "memory allocation",
            f"{size_bytes / _MIB:.1f} MiB can't be had "
            f"(available: {available:.1f} MiB, arrays hold "
            f"{_statistics.live_bytes / _MIB:.1f} MiB)",
            "use smaller arrays, or evaluate the computation in parts.",
        )
    _statistics.allocation_count += 1
    _statistics.taken_bytes += block.capacity
    _blocks[block.address] = block
    _free[size_class].append(block)


def _live_bytes() -> int:
    _collect()
    return _statistics.live_bytes


def allocate(size_bytes: int, is_for_host: bool = False) -> Buffer:
    """Return uninitialised memory, aligned to 64 bytes and padded by 512.

    Args:
        size_bytes: how much is wanted, 0 or more.
        is_for_host: whether memory is preferred that no job uses any more.
    """
    if size_bytes < 0:
        raise SizeError(
            "memory allocation",
            f"the size is negative (got {size_bytes} bytes)",
            "ask for 0 or more elements.",
        )
    if _dead:
        _collect()
    buffer: Buffer = Buffer.__new__(Buffer)
    buffer.size_bytes = size_bytes
    buffer.ticket, buffer._owner = 0, None
    fitting = _fitting
    free = fitting.get(size_bytes) or _fitting_blocks(size_bytes)
    if not free or (is_for_host and not _prefer_idle(free)):
        _add_block(size_bytes)
    claim = _Claim.__new__(_Claim, buffer, _mourn)
    while True:
        try:
            # No calls from here on.
            block = free[-1]
            del free[-1]
            break
        except IndexError:
            # Another thread was faster.
            claim.block = claim.owner = None
            claim.key = 0
            _add_block(size_bytes)
    block.claim = claim
    claim.block = buffer._block = block
    buffer.address = block.address
    statistics = _statistics
    live = statistics.live_bytes + block.capacity
    statistics.live_bytes = live
    if live > statistics.peak_bytes:
        statistics.peak_bytes = live
    if _listening:
        recorders.present().note_memory(buffer)
    return buffer


def _prefer_idle(free: list[Block]) -> bool:
    """Put memory that no job uses any more at the end; tell whether there is some."""
    completed = workers.completed_ticket()
    for k in range(len(free)):
        try:
            if free[k].ticket <= completed:
                free[k], free[-1] = free[-1], free[k]
                return True
        except IndexError:
            # Another thread has taken some.
            break
    return False


def from_numpy(array: np.ndarray[Any, Any]) -> Buffer:
    """Return a NumPy array's entries as a buffer, without a copy where possible.

    The array is shared if it is C-contiguous and aligned, and if reading 512
    bytes past its end stays in its last page. Otherwise it is copied, as are masks
    that hold other bytes than 0 and 1: NumPy takes them for true, kernels don't. For
    whoever listens it is copied, too: an input may lie at the same address.
    """
    if array.dtype.kind == "b" and array.size:
        numbers = array.view(np.uint8)
        if numbers.max() > 1:
            array = numbers != 0
    _pace(array.nbytes)
    is_heard = bool(_listening) and recorders.is_heard()
    if not is_heard and pages.can_share(array, PADDING_BYTES):
        buffer: Buffer = Buffer.__new__(Buffer)
        buffer.size_bytes = size_bytes = array.nbytes
        buffer.ticket = 0
        buffer._block = None
        buffer.address = array.__array_interface__["data"][0]
        # Called after the claim: who made the memory shall have it back at once.
        buffer._hook = ref(buffer, _collect)
        key = next(_numbers)
        claim = _Claim.__new__(_Claim, buffer, _mourn)
        # No calls from here on.
        claim.block = None
        claim.key = key
        claim.size_bytes = size_bytes
        claim.owner = buffer._owner = array
        _foreign[key] = claim
        _statistics.foreign_bytes += size_bytes
        return buffer
    return filled(np.ascontiguousarray(array))


def filled(data: Any) -> Buffer:
    """Return a copy of the entries of a contiguous array, or of bytes."""
    is_raw = isinstance(data, bytes)
    size_bytes = len(data) if is_raw else data.nbytes
    source: Any = data if is_raw else data.__array_interface__["data"][0]
    buffer = allocate(size_bytes, is_for_host=True)
    buffer.wait_until_free()
    memmove(buffer.address, source, size_bytes)
    if _listening:
        recorders.present().note_filled(buffer)
    return buffer


@dataclass
class _Written:
    """How much the host has made since some job, which was the last one then."""

    size_bytes: int = 0
    ticket: int = 0


_written: Final = _Written()


def at_address(address: int) -> Buffer | None:
    """Return the live buffer that begins at an address, if there is one."""
    block = _blocks.get(address)
    if block is not None:
        return _owner(block.claim) if isinstance(block.claim, _Claim) else None
    for claim in list(_foreign.values()):
        buffer = _owner(claim)
        if buffer is not None and buffer.address == address:
            return buffer
    return None


def _owner(claim: _Claim) -> Buffer | None:
    owner: Buffer | None = claim()
    return owner


def _pace(size_bytes: int) -> None:
    """Wait if the host is far ahead of the jobs that use what it makes."""
    _written.size_bytes += size_bytes
    if _written.size_bytes > RUN_AHEAD_BYTES:
        workers.wait(_written.ticket)
        _written.ticket = workers.last_ticket()
        _written.size_bytes = 0


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
    """Return a buffer's entries as a NumPy array without a copy, if the host has them.

    The array keeps the buffer alive, and can be written to unless the memory is that
    of a NumPy array which can't. Nothing is waited for: the caller does.
    """
    assert size * dtype.size_bytes <= buffer.size_bytes, f"{size} {dtype}: {buffer!r}"
    if _listening:
        recorders.present().note_read(buffer)
    if buffer.device is not None:
        return np.asarray(buffer.device.entries(buffer, dtype, 0, size))
    return np.asarray(_View(buffer, dtype.numpy.str, size))


def entry(buffer: Buffer, dtype: DType, position: int) -> Any:
    """Return an entry as a Python number; nothing is waited for: the caller does."""
    if buffer.device is not None:
        value = buffer.device.entries(buffer, dtype, position, 1)[0].item()
    else:
        value = dtype.read(buffer.address + position * dtype.size_bytes)
    if _listening:
        return recorders.present().note_entry(buffer, dtype, position, value)
    return value


def flush_malloc_cache() -> None:
    """Give all memory that no array uses back to the system."""
    _collect()
    workers.sync()
    completed = workers.completed_ticket()
    for blocks in list(_free.values()):
        for k in reversed(range(len(blocks))):
            # Another thread may take some, or free one that a new job uses.
            with contextlib.suppress(IndexError):
                if blocks[k].ticket <= completed:
                    block = blocks[k]
                    _statistics.taken_bytes -= block.capacity
                    block.claim = None
                    del blocks[k], _blocks[block.address]


def memory_stats() -> dict[str, int]:
    """Return what arrays hold, what is cached for reuse, and the most ever held.

    The entries are `live_bytes`, `cached_bytes`, `peak_bytes` (of the live ones),
    `foreign_bytes` (shared with NumPy), `live_count` and `allocation_count` (how
    often the system was asked).
    """
    _collect()
    statistics = _statistics
    return {
        "live_bytes": statistics.live_bytes,
        "cached_bytes": statistics.taken_bytes - statistics.live_bytes,
        "peak_bytes": statistics.peak_bytes,
        "foreign_bytes": statistics.foreign_bytes,
        "live_count": len(_blocks) - sum(map(len, list(_free.values()))),
        "allocation_count": statistics.allocation_count,
    }
