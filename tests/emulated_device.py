"""A device without a GPU: a process of its own, which has memory and runs kernels.

What is in its memory can't be read by the host, and it can't read the host's: an
address in the wrong hands ends it, which is what a lost device is, too. Kernels are
those of the thread target. Each array lies before a page that can't be accessed, and
is filled with a pattern at first.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import ctypes
import functools
import mmap
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lumijit import backend, spec
from lumijit.compiler.launch import kernels, named_kernels
from lumijit.runtime import cpu, device
from lumijit.runtime.attached import Attached
from lumijit.runtime.device import DeviceId, Mark
from lumijit.runtime.errors import AllocationError, BackendError, KernelBuildError
from lumijit.runtime.history import JitBackend

kernels.TARGETS["thread"] = "tests.thread_target"
_UNSET = 0xA5


class Loaded:
    """A kernel in the other process."""

    def __init__(self, name: str, number: int, size_bytes: int) -> None:
        self.name = name
        self.number = number
        self.size_bytes = size_bytes


class EmulatedDevice(Attached):
    """The parent's side: each request is answered before the next one."""

    name = "an emulated device"
    backend = JitBackend.CUDA
    target = "thread"
    stream = 4096

    def __init__(self, id: DeviceId, limit_bytes: int = 1 << 30) -> None:
        super().__init__(id)
        self.environment = f"emulated {id.number}"
        self.limit_bytes = limit_bytes
        #: The names of kernels that were launched.
        self.launched: list[str] = []
        #: Which streams have waited: for the first of a pair, the second.
        self.ordered: list[tuple[int, int]] = []
        # Threads take turns, and Ctrl-C interrupts no answer: nobody else asks.
        self._asker = concurrent.futures.ThreadPoolExecutor(1)
        self._owner = os.getpid()
        # What was launched and may still run, and the word that ends its loops.
        self._running: deque[tuple[str, Any]] = deque()
        shared = os.memfd_create("cancel")
        os.ftruncate(shared, mmap.PAGESIZE)
        self._word = mmap.mmap(shared, mmap.PAGESIZE)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.emulated_device", str(shared)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
            pass_fds=[shared],
        )
        os.close(shared)

    @functools.cached_property
    def cancel_address(self) -> int:
        """Where the process has the word."""
        return int(self._ask("looking for the word", "word"))

    @property
    def is_lost(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._asker.shutdown()
        self._process.communicate()

    def _ask(self, doing: str, name: str, *args: Any) -> Any:
        """Have the process do something."""
        try:
            return self._answer(doing, self._begin(doing, name, *args))
        except KeyboardInterrupt:
            self.interrupt()
            raise

    def _begin(self, doing: str, name: str, *args: Any) -> Any:
        if os.getpid() != self._owner:
            raise self._error(f"{doing}: a forked child can't use the device")
        return self._asker.submit(self._exchange, name, args)

    def _answer(self, doing: str, asked: Any) -> Any:
        try:
            is_done, answer = asked.result()
        except (BrokenPipeError, EOFError) as error:
            self._process.wait()
            code = self._process.returncode
            raise self._error(f"{doing}: the device is lost ({code})") from error
        if not is_done:
            raise KernelBuildError(doing, answer, "report this as a bug of lumijit.")
        return answer

    def _exchange(self, name: str, args: Any) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump((name, args), process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)

    def _error(self, problem: str) -> BackendError:
        instead = "start the process anew; arrays of lumijit.llvm go on."
        return BackendError(f"lumijit.{self.id.backend}", problem, instead)

    def take(self, size_bytes: int) -> int:
        """Return the address of new memory."""
        if self.live_bytes + size_bytes > self.limit_bytes:
            raise AllocationError(
                "memory allocation",
                f"{size_bytes} bytes can't be had on {self.name} (arrays hold "
                f"{self.live_bytes} bytes)",
                "use smaller arrays.",
            )
        return int(self._ask("allocating memory", "take", size_bytes))

    def give(self, address: int, size_bytes: int) -> None:
        """Let memory go."""
        self._ask("freeing memory", "give", address)

    def copy_in(self, address: int, source: int, size_bytes: int) -> None:
        """Send bytes."""
        data = ctypes.string_at(source, size_bytes)
        self._ask("copying to the device", "write", address, data)

    def copy_out(self, address: int, size_bytes: int) -> device.Bytes:
        """Get bytes."""
        data = bytearray(self._ask("copying", "read", address, size_bytes))
        return np.frombuffer(data, np.uint8)

    def copy_within(self, to: int, source: int, size_bytes: int) -> None:
        """Have the process copy."""
        self._ask("copying", "move", to, source, size_bytes)

    def room_at(self, address: int) -> int:
        """Ask the process."""
        return int(self._ask("asking for memory", "room", address))

    def follow(self, stream: int) -> None:
        """Note that another stream is waited for."""
        self.ordered.append((stream, self.stream))

    def lead(self, stream: int) -> None:
        """Note that another stream waits."""
        self.ordered.append((self.stream, stream))

    def settle(self) -> None:
        """Note that all streams are waited for."""
        self.ordered.append((0, self.stream))

    def compile(self, ir: str) -> bytes:
        """Return machine code: the processor is the same."""
        return cpu.compile_ir(ir)

    def load(
        self, code: bytes, symbol: str, hash: str, threads: int = 0, width: int = 1
    ) -> Loaded:
        """Send a kernel."""
        number = self._ask("loading a kernel", "load", code, symbol, hash)
        return Loaded(symbol, number, len(code))

    def launch(self, kernel: Loaded, args: bytes, size: int, block: int) -> None:
        """Have a kernel run."""
        self.launched.append(kernel.name)
        doing = f"launching kernel {kernel.name}"
        asked = self._begin(doing, "launch", kernel.number, args, size, block)
        self._running.append((doing, asked))

    def drain(self) -> None:
        """Wait for what runs."""
        while self._running:
            self._answer(*self._running[0])
            self._running.popleft()

    def cancel(self) -> None:
        """Set the word that both processes see; it is cleared behind what runs."""
        self._word[:4] = b"\1\0\0\0"
        doing = "ending loops"
        self._running.append((doing, self._begin(doing, "calm")))

    def mark(self, is_timed: bool) -> EmulatedMark:
        """Note the time when all is done."""
        if is_timed:
            self.wait()
        return EmulatedMark(self, is_timed)


class EmulatedMark(Mark):
    """A place behind what runs."""

    def __init__(self, device: EmulatedDevice, is_timed: bool) -> None:
        self.handle = len(device.launched)
        self._device = device
        self._last = [asked for _, asked in device._running][-1:]
        self._time = time.perf_counter() if is_timed else None

    @property
    def is_done(self) -> bool:
        """Whether what ran is done."""
        return all(asked.done() for asked in self._last)

    def wait(self) -> None:
        """Wait for all."""
        self._device.wait()

    def seconds_until(self, end: EmulatedMark) -> float:
        """Subtract times."""
        assert self._time is not None
        assert end._time is not None
        return end._time - self._time


@contextlib.contextmanager
def emulated(number: int = 0, **options: Any) -> Iterator[EmulatedDevice]:
    """Have `lumijit.cuda` compute on an emulated device, with kernels of its own."""
    _forget_kernels()
    made = EmulatedDevice(DeviceId("cuda", number), **options)
    try:
        with _opened(made):
            yield made
    finally:
        _forget_kernels()
        made.close()


@contextlib.contextmanager
def _opened(made: EmulatedDevice) -> Iterator[None]:
    former = device.opened.pop(made.id, None)
    device.opened[made.id] = made
    try:
        with pytest.MonkeyPatch.context() as patch:
            # (That there is a device isn't to be noted for later tests.)
            patch.setattr(backend, "_current", "llvm")
            yield
    finally:
        del device.opened[made.id]
        if former is not None:
            device.opened[made.id] = former


@contextlib.contextmanager
def standing_in() -> Iterator[EmulatedDevice]:
    """Have all arrays of `lumijit.llvm` that are made on an emulated device.

    It is always the same one, until it is lost.
    """
    if not _lasting or _lasting[-1].is_lost:
        _forget_kernels()
        _lasting.append(EmulatedDevice(DeviceId("cuda")))
        atexit.register(_lasting[-1].close)
    made = _lasting[-1]
    with _opened(made), computing_on(made.id):
        yield made


@contextlib.contextmanager
def computing_on(which: DeviceId) -> Iterator[None]:
    """Have all arrays of `lumijit.llvm` that are made on a device."""
    with pytest.MonkeyPatch.context() as patch:
        # (Its fields are frozen.)
        patch.setitem(vars(spec.LLVM), "device", which)
        patch.setattr(backend, "_current", "llvm")
        yield


_lasting: list[EmulatedDevice] = []


def _forget_kernels() -> None:
    kernels.flush()
    named_kernels.flush()


class _Process:
    """The device's side: what each request does."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._map, self._unmap = libc.mmap, libc.munmap
        self._map.restype = ctypes.c_void_p
        self._map.argtypes = [
            *(ctypes.c_void_p, ctypes.c_size_t),
            *(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long),
        ]
        self._unmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._protect = libc.mprotect
        self._protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._areas: dict[int, tuple[int, int]] = {}
        self._kernels: list[tuple[cpu.Kernel, Any]] = []
        self._word = mmap.mmap(int(sys.argv[1]), mmap.PAGESIZE)
        self._signature = ctypes.CFUNCTYPE(
            None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32, ctypes.c_char_p
        )

    def take(self, size_bytes: int) -> int:
        page = mmap.PAGESIZE
        size = -(-size_bytes // page) * page
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        access = mmap.PROT_READ | mmap.PROT_WRITE
        start = self._map(None, size + page, access, flags, -1, 0)
        self._protect(start + size, page, 0)
        ctypes.memset(start, _UNSET, size)
        address = int(start) + size - size_bytes
        self._areas[address] = int(start), size + page
        return address

    def word(self) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(self._word))

    def calm(self) -> None:
        self._word[:4] = bytes(4)

    def give(self, address: int) -> None:
        self._unmap(*self._areas.pop(address))

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def move(self, to: int, source: int, size_bytes: int) -> None:
        ctypes.memmove(to, source, size_bytes)

    def room(self, address: int) -> int:
        ends = (start + size - mmap.PAGESIZE for start, size in self._areas.values())
        return min((end - address for end in ends if end > address), default=0)

    def read(self, address: int, size_bytes: int) -> bytes:
        return ctypes.string_at(address, size_bytes)

    def load(self, code: bytes, symbol: str, hash: str) -> int:
        kernel = cpu.link(code, symbol, hash)
        self._kernels.append((kernel, self._signature(kernel.address)))
        return len(self._kernels) - 1

    def launch(self, number: int, args: bytes, size: int, block: int) -> None:
        function = self._kernels[number][1]
        for begin in range(0, size, block):
            function(begin, min(begin + block, size), 0, args)


def _serve() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process, requests, answers = _Process(), sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            name, args = pickle.load(requests)
        except EOFError:
            return
        try:
            answer = True, getattr(process, name)(*args)
        except KernelBuildError as error:
            answer = False, str(error)
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    _serve()
