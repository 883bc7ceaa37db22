"""Devices: what computes arrays, with memory of its own or the host's.

Owns what every device must provide (`Device`), what the host provides (`Host`), memory
of devices other than the host (`DeviceBuffer`, `Attached`), and on which device a
thread computes (`on`). NVIDIA's GPUs are in `cuda`.
"""

from __future__ import annotations

import ctypes
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from threading import get_ident
from typing import Any, Final, NamedTuple
from weakref import ref

import numpy as np

from lumijit.runtime import buffers, cpu, recorders, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.dtypes import DType
from lumijit.runtime.history import JitBackend


@dataclass(frozen=True)
class DeviceId:
    """Which device an array belongs to, whether it is there or not."""

    backend: str
    number: int = 0


#: Which device new arrays belong to, by thread. Empty where nobody chose, who is
#: `dsl.backend`.
chosen: Final[dict[int, DeviceId]] = {}


class Mark(ABC):
    """A place in the order of launches: what was launched before is done, or not."""

    #: What the system calls it.
    handle: int

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether all that was launched before is done."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until it is."""

    @abstractmethod
    def seconds_until(self, end: Any) -> float:
        """Wait for this one and another one; return how much later that was.

        Both were made with the time.
        """


class Device(ABC):
    """What a backend must provide. Memory is named by address, as are kernels' slots.

    What is launched runs in the order of launches, and so do copies; `wait` waits.
    """

    #: What the device is called, as which backend the history lists it, by which
    #: target its kernels are written, and what its code depends on besides.
    name: str
    backend: JitBackend
    target: str
    environment: str

    @property
    @abstractmethod
    def cancel_address(self) -> int:
        """Where the 32-bit word lies that ends loops if it isn't zero."""

    @abstractmethod
    def allocate(self, size_bytes: int) -> Buffer:
        """Return memory, aligned to 64 bytes, and filled up to a multiple of that."""

    @abstractmethod
    def copy_in(self, address: int, source: int, size_bytes: int) -> None:
        """Copy from the host's memory, in order with the launches."""

    @abstractmethod
    def copy_out(self, address: int, size_bytes: int) -> bytearray:
        """Copy to the host, after all that was launched."""

    @abstractmethod
    def compile(self, ir: str) -> bytes:
        """Return what the disk cache keeps of a module."""

    @abstractmethod
    def load(self, code: bytes, symbol: str, hash: str, threads: int = 0) -> Any:
        """Return a kernel that can be launched; it has `size_bytes`.

        `threads` are those of its blocks; 0 of an elementwise kernel, where any number
        of threads computes an element each.
        """

    @abstractmethod
    def launch(self, kernel: Any, args: bytes, size: int, block: int) -> None:
        """Start a kernel over `size` elements, `block` of them at a time.

        `args` are 8-byte slots: addresses of this device, and numbers.
        """

    @abstractmethod
    def wait(self) -> None:
        """Wait until all that was launched is done; raise what went wrong."""

    @abstractmethod
    def timed(self, code: Callable[[], None]) -> float:
        """Return how many seconds what `code` launches takes on the device."""


class Planned(NamedTuple):
    """A launch that is to come: where its slots are, among those of others."""

    kernel: Any
    start: int
    stop: int
    size: int
    block: int


class Host(Device):
    """The processor that Python runs on, by the worker pool.

    Launches of traced programs choose more than `launch` does: see `launch.starting`.
    """

    name = "host"
    backend = JitBackend.LLVM
    target = ""
    environment = ""

    @property
    def cancel_address(self) -> int:
        """Where the pool's word lies."""
        return workers.cancel_address()

    def allocate(self, size_bytes: int) -> Buffer:
        """Return memory."""
        return buffers.allocate(size_bytes)

    def copy_in(self, address: int, source: int, size_bytes: int) -> None:
        """Copy after all that was launched."""
        self.wait()
        ctypes.memmove(address, source, size_bytes)

    def copy_out(self, address: int, size_bytes: int) -> bytearray:
        """Copy after all that was launched."""
        self.wait()
        return bytearray(ctypes.string_at(address, size_bytes))

    def compile(self, ir: str) -> bytes:
        """Return machine code."""
        return cpu.compile_ir(ir)

    def load(self, code: bytes, symbol: str, hash: str, threads: int = 0) -> cpu.Kernel:
        """Put machine code into memory."""
        del threads
        return cpu.link(code, symbol, hash)

    def launch(self, kernel: cpu.Kernel, args: bytes, size: int, block: int) -> None:
        """Queue a kernel; workers take blocks in order."""
        workers.submit(kernel.address, args, size, block, keepalive=kernel)

    def wait(self) -> None:
        """Wait for all jobs."""
        workers.sync()

    def timed(self, code: Callable[[], None]) -> float:
        """Measure by the clock."""
        self.wait()
        started = time.perf_counter()
        code()
        self.wait()
        return time.perf_counter() - started


class DeviceBuffer(Buffer):
    """Memory of a device. The host knows its address, and can't read there."""

    __slots__ = ("device",)
    device: Attached

    # It is nobody else's, and who had it before is done when jobs in order are.
    is_foreign = False
    is_read_only = False
    is_idle = False

    @property
    def capacity_bytes(self) -> int:
        """How many bytes from the address on may be read."""
        return _padded(self.size_bytes)


class _Claim(ref[DeviceBuffer]):
    """What a buffer has, told apart from the buffer."""

    __slots__ = ("address", "size_bytes")
    address: int
    size_bytes: int


def _padded(size_bytes: int) -> int:
    return max(64, -(-size_bytes // 64) * 64)


class Attached(Device):
    """A device with memory of its own. Whoever provides one is asked for addresses."""

    id: DeviceId

    def __init__(self, id: DeviceId) -> None:
        self.id = id
        self._claims: dict[int, _Claim] = {}
        self._dead: deque[_Claim] = deque()
        self._cancel = 0

    @abstractmethod
    def take(self, size_bytes: int) -> int:
        """Return the address of new memory."""

    @abstractmethod
    def give(self, address: int) -> None:
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
    def live_bytes(self) -> int:
        """How many bytes arrays have, and such as have just died."""
        return sum(claim.size_bytes for claim in list(self._claims.values()))

    @property
    def cancel_address(self) -> int:
        """Where a word lies that stays zero: nothing is cancelled."""
        if not self._cancel:
            # (No buffer: those who record launches needn't know of it.)
            word = self.take(64)
            self.write(word, bytes(64))
            self._cancel = word
        return self._cancel

    def allocate(self, size_bytes: int) -> DeviceBuffer:
        """Return memory; it goes back with the last reference."""
        self.collect()
        room = _padded(size_bytes)
        address = self.take(room)
        buffer: DeviceBuffer = DeviceBuffer.__new__(DeviceBuffer)
        buffer.device, buffer.address = self, address
        buffer.size_bytes = size_bytes
        buffer.ticket = 0
        buffer._block = buffer._owner = None
        claim = _Claim(buffer, self._dead.append)
        claim.size_bytes, claim.address = room, address
        self._claims[address] = claim
        if recorders.listening:
            recorders.present().note_memory(buffer)
        return buffer

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes, in order with the launches."""
        self.copy_in(address, _address_of(data), len(data))

    def filled(self, data: bytes) -> DeviceBuffer:
        """Return memory with bytes of the host."""
        buffer = self.allocate(len(data))
        self.write(buffer.address, data)
        if recorders.listening:
            recorders.present().note_filled(buffer)
        return buffer

    def at_address(self, address: int) -> Buffer | None:
        """Return the live buffer that begins at an address, if there is one."""
        claim = self._claims.get(address)
        return None if claim is None else claim()

    def launch_all(self, launches: Sequence[Planned], data: bytes) -> None:
        """Start kernels, the slots of all of which lie in `data`.

        Behind the slots of each, there are eight bytes more, which are zero.
        """
        for kernel, start, stop, size, block in launches:
            self.launch(kernel, data[start:stop], size, block)

    def entries(
        self, buffer: Buffer, dtype: DType, first: int, count: int
    ) -> np.ndarray[Any, Any]:
        """Return a copy of entries, after all that was launched."""
        start = buffer.address + first * dtype.size_bytes
        return np.frombuffer(
            self.copy_out(start, count * dtype.size_bytes), dtype.numpy
        )

    def collect(self) -> None:
        """Give back the memory of buffers that have died."""
        # Another thread may do the same.
        with suppress(IndexError):
            while True:
                claim = self._dead.popleft()
                del self._claims[claim.address]
                self.give(claim.address)


def _address_of(data: bytes) -> int:
    return ctypes.cast(data, ctypes.c_void_p).value or 0


HOST: Final = Host()
#: Devices in use.
opened: Final[dict[DeviceId, Attached]] = {}
#: By thread. Empty, where all compute on the host: that is what to ask first.
away: Final[dict[int, Attached]] = {}


def present() -> Device:
    """Return what this thread computes on."""
    return away.get(get_ident(), HOST)


def allocate(size_bytes: int) -> Buffer:
    """Return memory of what this thread computes on."""
    return present().allocate(size_bytes) if away else buffers.allocate(size_bytes)


def find(which: DeviceId) -> Attached:
    """Return a device, which is opened when it is first asked for.

    Raises:
        BackendError: if it isn't there.
    """
    found = opened.get(which)
    if found is None:
        module = import_module(f"lumijit.runtime.{which.backend}")
        # Threads that come at once get one and the same.
        found = opened.setdefault(which, module.open(which))
    return found


class on:
    """Have this thread compute on a device, or on the host."""

    def __init__(self, device: Attached | None) -> None:
        self._device = device

    def __enter__(self) -> None:
        self._before = away.get(get_ident())
        self._put(self._device)

    def __exit__(self, *_: object) -> None:
        self._put(self._before)

    def _put(self, device: Attached | None) -> None:
        if device is None:
            away.pop(get_ident(), None)
        else:
            away[get_ident()] = device


def wait_for_all() -> None:
    """Wait until all that was launched anywhere is done."""
    workers.sync()
    for device in list(opened.values()):
        device.wait()
