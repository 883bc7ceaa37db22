"""What computes: a device that holds memory, and kernels that it is given as LLVM IR.

Owns what every backend must provide (`Device`), and what the host provides (`Host`).
NVIDIA's GPUs are in `cuda`. The evaluation of arrays uses the host's parts directly so
far; `tests/runtime/test_devices` runs the same kernels on all devices that are there.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from lumijit.runtime import buffers, cpu, workers


@dataclass(frozen=True)
class Loaded:
    """A kernel in a device's memory: what starts it, and what must live until then.

    `threads` are those of its blocks. Of an elementwise kernel, any number of threads
    computes an element each.
    """

    name: str
    handle: int
    owner: Any
    threads: int
    is_elementwise: bool


class Device(Protocol):
    """What a backend must provide. Memory is named by address, as are kernels' slots.

    What is launched runs in the order of launches, and so do copies; `wait` waits.
    """

    name: str

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory, aligned to 64 bytes at least."""

    def free(self, address: int) -> None:
        """Let memory go, which what was launched before may still use."""

    def copy_in(self, address: int, data: bytes) -> None:
        """Copy from the host, in order with the launches."""

    def copy_out(self, address: int, size_bytes: int) -> bytes:
        """Copy to the host, after all that was launched."""

    def compile(self, ir: str) -> bytes:
        """Return what the disk cache keeps of a module."""

    def load(
        self, code: bytes, name: str, threads: int, is_elementwise: bool
    ) -> Loaded:
        """Return a kernel that can be launched."""

    def launch(self, kernel: Loaded, args: bytes, size: int, block: int) -> None:
        """Start a kernel over `size` elements, `block` of them at a time.

        `args` are 8-byte slots: addresses of this device, and numbers.
        """

    def wait(self) -> None:
        """Wait until all that was launched is done; raise what went wrong."""

    def timed(self, code: Callable[[], None]) -> float:
        """Return how many seconds what `code` launches takes on the device."""


class Host:
    """The processor that Python runs on, by the worker pool."""

    name = "host"

    def __init__(self) -> None:
        self._held: dict[int, buffers.Buffer] = {}

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory."""
        buffer = buffers.allocate(size_bytes)
        self._held[buffer.address] = buffer
        return buffer.address

    def free(self, address: int) -> None:
        """Let memory go; who gets it next uses it in later jobs."""
        del self._held[address]

    def copy_in(self, address: int, data: bytes) -> None:
        """Copy after all that was launched."""
        self.wait()
        self._held[address].wait_until_free()
        ctypes.memmove(address, data, len(data))

    def copy_out(self, address: int, size_bytes: int) -> bytes:
        """Copy after all that was launched."""
        self.wait()
        return ctypes.string_at(address, size_bytes)

    def compile(self, ir: str) -> bytes:
        """Return machine code."""
        return cpu.compile_ir(ir)

    def load(
        self, code: bytes, name: str, threads: int, is_elementwise: bool
    ) -> Loaded:
        """Put machine code into memory."""
        kernel = cpu.link(code, name, name)
        return Loaded(name, kernel.address, kernel, threads, is_elementwise)

    def launch(self, kernel: Loaded, args: bytes, size: int, block: int) -> None:
        """Queue a kernel; workers take blocks in order."""
        workers.submit(kernel.handle, args, size, block, keepalive=kernel.owner)

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
