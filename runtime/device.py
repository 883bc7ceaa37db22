"""Devices: what computes arrays, with memory of its own or the host's.

Owns what every device must provide (`Device`), what the host provides (`Host`), and on
which device a thread computes (`on`). What devices other than the host have in common
is in `attached`, NVIDIA's GPUs are in `cuda`.
"""

from __future__ import annotations

import ctypes
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from lumijit.runtime import buffers, cpu, loader, workers
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.contexts import Entry
from lumijit.runtime.errors import BackendError
from lumijit.runtime.history import JitBackend

if TYPE_CHECKING:
    from lumijit.runtime.attached import Attached

#: A copy of memory, which nobody else has.
Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"


class DeviceId:
    """Which device an array belongs to, whether it is there or not.

    There is one object of each: they are compared in every evaluation.
    """

    __slots__ = ("backend", "number")
    backend: str
    number: int

    def __new__(cls, backend: str, number: int = 0) -> DeviceId:
        """Return that of a backend with a number."""
        found = _NAMED.get((backend, number))
        if found is None:
            made = super().__new__(cls)
            made.backend, made.number = backend, number
            # Threads that come at once get one and the same.
            found = _NAMED.setdefault((backend, number), made)
        return found

    def __reduce__(self) -> tuple[type[DeviceId], tuple[str, int]]:
        return DeviceId, (self.backend, self.number)

    def __repr__(self) -> str:
        return f"DeviceId({self.backend!r}, {self.number})"


_NAMED: Final[dict[tuple[str, int], DeviceId]] = {}


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
    def copy_out(self, address: int, size_bytes: int) -> Bytes:
        """Copy to the host, after all that was launched."""

    @abstractmethod
    def compile(self, ir: str) -> bytes:
        """Return what the disk cache keeps of a module."""

    @abstractmethod
    def load(
        self, code: bytes, symbol: str, hash: str, threads: int = 0, width: int = 1
    ) -> Any:
        """Return a kernel that can be launched; it has `size_bytes`.

        `threads` are those of its blocks; 0 of an elementwise kernel, where any number
        of threads computes `width` elements each.
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

    def copy_out(self, address: int, size_bytes: int) -> Bytes:
        """Copy after all that was launched."""
        self.wait()
        return np.frombuffer(bytearray(ctypes.string_at(address, size_bytes)), np.uint8)

    def compile(self, ir: str) -> bytes:
        """Return machine code, ready to lie in memory if that's possible."""
        code = cpu.compile_ir(ir)
        return loader.flattened(code) if cpu.can_load() else code

    def load(
        self, code: bytes, symbol: str, hash: str, threads: int = 0, width: int = 1
    ) -> cpu.Kernel:
        """Put machine code into memory."""
        del threads, width
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


def is_there(which: DeviceId) -> bool:
    """Tell whether a device can be opened."""
    try:
        return bool(find(which))
    except BackendError:
        return False


def on(device: Attached | None) -> Entry:
    """Have this thread compute on a device, or on the host, in a block."""
    return Entry(away, device)


def wait_for_all() -> None:
    """Wait until all that was launched anywhere is done."""
    workers.sync()
    for device in list(opened.values()):
        device.wait()
