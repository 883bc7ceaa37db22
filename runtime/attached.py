"""Devices with memory of their own: what they have in common.

Owns arrays' memory on such a device (`DeviceBuffer`): who has which, and who gives it
back when. Memory may be shared with other libraries, in both directions: see `adopt`
and `lend`. Addresses, copies and launches are up to who provides the device.
"""

from __future__ import annotations

import ctypes
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final
from weakref import ReferenceType

import numpy as np

from lumijit.runtime import recorders
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.device import Device, DeviceId, Mark, Planned
from lumijit.runtime.dtypes import DType
from lumijit.runtime.errors import cancelled
from lumijit.runtime.recorders import listening


class DeviceBuffer(Buffer):
    """Memory of a device. The host knows its address, and can't read there."""

    __slots__ = ("device",)
    device: Attached

    # Who had it before is done when jobs in order are.
    is_read_only = False
    is_idle = False

    def check_intact(self) -> None:
        """Raise if Ctrl-C stopped the launch that was to write the contents."""
        place = self.device
        if self.ticket and place._cancelled and place.was_cancelled(self.ticket):
            raise cancelled()

    @property
    def is_foreign(self) -> bool:
        """Whether others have the memory, too, so that kernels don't write."""
        return self._owner is not None

    @property
    def capacity_bytes(self) -> int:
        """How many bytes from the address on may be read."""
        return _padded(self.size_bytes)


class _Claim(ReferenceType):  # type: ignore[type-arg]
    """What a buffer has, told apart from the buffer.

    If another library has given the memory, `owner` keeps that library's object.
    """

    __slots__ = ("address", "owner", "size_bytes")
    address: int
    owner: object
    size_bytes: int


class Rooms:
    """Memory of a device: who has which, and what is kept for the next who asks.

    Pieces are found by their size in bytes. Every launch takes some.
    """

    __slots__ = ("_free", "_free_bytes", "_most_bytes", "claims", "dead", "mourn")

    def __init__(self, most_bytes: int) -> None:
        #: By address, and those whose buffers have died.
        self.claims: dict[int, _Claim] = {}
        self.dead: deque[_Claim] = deque()
        self.mourn = self.dead.append
        # Small pieces that have been given back, so many bytes at most.
        self._free: dict[int, list[int]] = {}
        self._free_bytes = 0
        self._most_bytes = most_bytes

    def taken(self, size_bytes: int) -> int:
        """Return the address of a piece that has been given back, or 0."""
        kept = self._free.get(size_bytes)
        if kept:
            # (Another thread may do the same.)
            with suppress(IndexError):
                address = kept.pop()
                self._free_bytes -= size_bytes
                return address
        return 0

    def keep(self, address: int, size_bytes: int) -> bool:
        """Keep a piece that was given back, if it is small enough."""
        total = self._free_bytes + size_bytes
        if size_bytes > _SMALL or total > self._most_bytes:
            return False
        # (What is launched later comes later in the stream, too.)
        self._free_bytes = total
        kept = self._free.get(size_bytes)
        if kept is None:
            kept = self._free.setdefault(size_bytes, [])
        kept.append(address)
        return True

    def emptied(self) -> list[int]:
        """Return the addresses of all pieces that are kept, which no more are."""
        found = []
        for size_bytes in list(self._free):
            while address := self.taken(size_bytes):
                found.append(address)
        return found

    def buffer(self, device: Attached, address: int, size_bytes: int) -> DeviceBuffer:
        """Return memory at an address as a buffer."""
        made: DeviceBuffer = DeviceBuffer.__new__(DeviceBuffer)
        made.device, made.address, made.size_bytes = device, address, size_bytes
        made.ticket = 0
        made._block = made._owner = None
        return made

    def claimed(self, buffer: DeviceBuffer, room: int) -> DeviceBuffer:
        """Return a buffer whose memory, so many bytes, goes back when it dies."""
        claim = _Claim.__new__(_Claim, buffer, self.mourn)
        claim.size_bytes, claim.address, claim.owner = room, buffer.address, None
        self.claims[buffer.address] = claim
        return buffer


# Pieces of this size or less are kept.
_SMALL: Final = 1 << 20
# More launches than this don't wait in a stream: the next one waits for them.
_MOST_QUEUED: Final = 1 << 14
#: The owner of memory that another library may see.
LENT: Final = object()
# Streams that there are in every context (cuda.h, CUstream): the default one of all
# threads, and that of a thread.
DEFAULT_STREAMS: Final = (1, 2)


def _padded(size_bytes: int) -> int:
    return max(64, -(-size_bytes // 64) * 64)


class Attached(Device):
    """A device with memory of its own. Whoever provides one is asked for addresses."""

    id: DeviceId
    #: Whether there are texture units: `texture` makes what these look up.
    has_textures = False
    #: How many bytes of small memory are kept when arrays go.
    kept_bytes = 0

    def __init__(self, id: DeviceId) -> None:
        self.id = id
        self._rooms = Rooms(self.kept_bytes)
        # What others have given, by number, and who has to outlive which launches.
        self._adopted: dict[int, _Claim] = {}
        self._leaving: deque[tuple[Mark, object]] = deque()
        # What others have given back, and in which stream they used it.
        self._returned: deque[tuple[Buffer, int | None]] = deque()
        # Launches are numbered: the last one, those with loops that aren't known to be
        # done, and between which others have been stopped.
        self._launched = 0
        self._looping: deque[int] = deque(maxlen=_MOST_QUEUED)
        self._cancelled: list[tuple[int, int]] = []

    @abstractmethod
    def take(self, size_bytes: int) -> int:
        """Return the address of new memory."""

    @abstractmethod
    def give(self, address: int, size_bytes: int) -> None:
        """Let memory go, which what was launched before may still use."""

    @abstractmethod
    def mark(self, is_timed: bool) -> Mark:
        """Return a place behind all that was launched; perhaps with its time."""

    def timed(self, code: Callable[[], None]) -> float:
        """Measure between two marks."""
        begin = self.mark(is_timed=True)
        code()
        return begin.seconds_until(self.mark(is_timed=True))

    @property
    @abstractmethod
    def stream(self) -> int:
        """The system's name for where it launches, as other libraries are told."""

    @abstractmethod
    def follow(self, stream: int) -> None:
        """Have what will be launched wait for what another stream has by now."""

    @abstractmethod
    def lead(self, stream: int) -> None:
        """Have what another stream will get wait for what is launched by now."""

    @abstractmethod
    def settle(self) -> None:
        """Wait for all that anybody has started on the device."""

    @abstractmethod
    def copy_within(self, to: int, source: int, size_bytes: int) -> None:
        """Copy from the device's memory to the device's memory."""

    @abstractmethod
    def room_at(self, address: int) -> int:
        """Return how many bytes from an address on belong to who allocated it."""

    @property
    def live_bytes(self) -> int:
        """How many bytes arrays have, and such as have just died."""
        return sum(claim.size_bytes for claim in list(self._rooms.claims.values()))

    @abstractmethod
    def drain(self) -> None:
        """Wait until all that was launched is done, but answer signals meanwhile."""

    @abstractmethod
    def cancel(self) -> None:
        """Have the loops end of what was launched, and not of what will be."""

    def wait(self) -> None:
        """Wait until all that was launched is done; Ctrl-C stops that."""
        last = self._launched
        try:
            self.drain()
        except KeyboardInterrupt:
            self.interrupt()
            raise
        # Another thread may do the same.
        with suppress(IndexError):
            while self._looping[0] <= last:
                self._looping.popleft()

    def interrupt(self) -> None:
        """Stop loops that have been launched.

        What was launched from the first of them on is undefined, as nobody knows how
        far it had come.
        """
        if self._looping:
            self._cancelled.append((self._looping[0] - 1, self._launched))
            self._looping.clear()
            self.cancel()

    def note_launch(self, writes: Iterable[Buffer], has_loops: bool) -> None:
        """Note that something was launched, and which memory it writes."""
        self._launched += 1
        if has_loops:
            self._looping.append(self._launched)
        for buffer in writes:
            buffer.ticket = self._launched

    def was_cancelled(self, number: int) -> bool:
        """Tell whether a launch was stopped."""
        return any([first < number <= last for first, last in self._cancelled])

    def allocate(self, size_bytes: int) -> DeviceBuffer:
        """Return memory; it goes back with the last reference."""
        rooms = self._rooms
        if rooms.dead or self._returned or self._leaving:
            self.collect()
        room = _padded(size_bytes)
        address = rooms.taken(room) or self.take(room)
        buffer = rooms.claimed(rooms.buffer(self, address, size_bytes), room)
        if listening:
            recorders.present().note_memory(buffer)
        return buffer

    def adopt(self, address: int, size_bytes: int, owner: object) -> DeviceBuffer:
        """Return another library's memory as a buffer, without a copy where possible.

        Kernels read lines of 64 bytes, which have to be whole: else it is copied, as it
        is for whoever listens: an input may lie at the same address.

        Args:
            address, size_bytes: where it is; what is to be there was waited for
                (`follow`).
            owner: is kept until what reads the memory is done.
        """
        self.collect()
        is_whole = not address % 64 and self.room_at(address) >= _padded(size_bytes)
        is_heard = recorders.listening and recorders.is_heard()
        if is_heard or not is_whole:
            buffer = self.allocate(size_bytes)
            self.copy_within(buffer.address, address, size_bytes)
            self._leaving.append((self.mark(is_timed=False), owner))
        else:
            buffer = self.kept(address, size_bytes, owner)
        if recorders.listening:
            recorders.present().note_filled(buffer)
        return buffer

    def kept(self, address: int, size_bytes: int, owner: object) -> DeviceBuffer:
        """Return memory that an object has, as a buffer that keeps the object."""
        buffer = self._rooms.buffer(self, address, size_bytes)
        buffer._owner = LENT
        claim = _Claim(buffer, self._rooms.mourn)
        claim.size_bytes, claim.address, claim.owner = size_bytes, address, owner
        self._adopted[id(claim)] = claim
        return buffer

    def lend(self, buffer: Buffer) -> None:
        """Let another library use memory: kernels don't write to it any more."""
        if recorders.listening:
            recorders.present().note_read(buffer)
        if buffer._owner is None:
            buffer._owner = LENT

    def take_back(self, buffer: Buffer, stream: int | None) -> None:
        """Note that a library doesn't need memory any more, from any thread.

        What it has started in its stream may still use it (None: there is nothing).
        """
        self._returned.append((buffer, stream))

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes, in order with the launches."""
        self.copy_in(address, address_of(data), len(data))

    def filled(self, data: bytes) -> DeviceBuffer:
        """Return memory with bytes of the host."""
        buffer = self.allocate(len(data))
        self.write(buffer.address, data)
        if recorders.listening:
            recorders.present().note_filled(buffer)
        return buffer

    def at_address(self, address: int) -> Buffer | None:
        """Return the live buffer that begins at an address, if there is one."""
        claim = self._rooms.claims.get(address)
        if claim is None:
            adopted = list(self._adopted.values())
            claim = next((c for c in adopted if c.address == address), None)
        return None if claim is None else claim()

    def planned(self, launches: Sequence[Planned]) -> Any:
        """Return launches as `launch_all` takes them, any number of times."""
        return launches

    def launch_all(self, planned: Any, data: bytes) -> None:
        """Start kernels that have been planned, the slots of all of which are data."""
        for kernel, start, stop, size, block in planned:
            self.launch(kernel, data[start:stop], size, block)

    def entries(
        self, buffer: Buffer, dtype: DType, first: int, count: int
    ) -> np.ndarray[Any, Any]:
        """Return a copy of entries, after all that was launched."""
        start = buffer.address + first * dtype.size_bytes
        return self.copy_out(start, count * dtype.size_bytes).view(dtype.numpy)

    def collect(self) -> None:
        """Give back the memory of buffers that have died."""
        # Another thread may do the same.
        while self._returned:
            with suppress(IndexError):
                self._release(*self._returned.popleft())
        rooms = self._rooms
        while rooms.dead:
            try:
                claim = rooms.dead.popleft()
            except IndexError:
                break
            if self._adopted.pop(id(claim), None) is not None:
                self._leaving.append((self.mark(is_timed=False), claim.owner))
                continue
            address, size_bytes = claim.address, claim.size_bytes
            del rooms.claims[address]
            if not rooms.keep(address, size_bytes):
                self.give(address, size_bytes)
        if self._leaving:
            with suppress(IndexError):
                while self._leaving[0][0].is_done:
                    self._leaving.popleft()

    def _release(self, buffer: Buffer, stream: int | None) -> None:
        """Wait for what another library does with memory that it has given back."""
        del buffer
        if stream in DEFAULT_STREAMS:
            self.follow(stream)
        elif stream is not None:
            # (That of another library may be gone by now.)
            self.settle()


def address_of(data: bytes) -> int:
    """Return where bytes lie."""
    return ctypes.c_void_p.from_buffer(ctypes.c_char_p(data)).value or 0
