"""NVIDIA's GPUs, by the driver's interface: `libcuda`, which comes with the driver.

Owns `CudaDevice`, which provides what `device.Device` asks for, and what its failures
mean to users. The context is the primary one, which other libraries of a process share;
all that a device does is in order, in one stream, allocations too: these come from the
driver's pool of the device. None of it has run on a GPU yet: see `docs/gpu.md`.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any
from weakref import finalize

from lumijit.runtime import nvptx
from lumijit.runtime.attached import Attached
from lumijit.runtime.device import DeviceId, Mark, Planned
from lumijit.runtime.errors import AllocationError, BackendError, KernelBuildError
from lumijit.runtime.history import JitBackend

_CONSTRUCT = "lumijit.cuda"
# What the driver returns (cuda.h, CUresult).
_OUT_OF_MEMORY, _NO_DEVICE, _NO_SUCH_DEVICE = 2, 100, 101
_BAD_CODE = (200, 209, 218, 222)
_NOT_FOUND, _NOT_READY = 500, 600
_ILLEGAL_ADDRESS, _OUT_OF_RESOURCES = 700, 701
# CUdevice_attribute, CUfunction_attribute, CUmemPool_attribute, CUjit_option,
# CUstream_flags, CUevent_flags, CUpointer_attribute.
_MAJOR, _MINOR = 75, 76
_MAX_THREADS = 0
_RELEASE_THRESHOLD = 4
_LOG, _LOG_BYTES = 5, 6
_NON_BLOCKING = 1
_UNTIMED = 2
_ORDINAL = 9
_LOG_SIZE = 4096
# Threads of an elementwise kernel's blocks, unless its registers are too many for that,
# and the most blocks of a grid: threads go on behind it.
_THREADS = 256
_GRID = 2**31 - 1
_INSTEAD = "compute with the types of lumijit.llvm, or {}; lumijit.ptx shows the code."


@functools.cache
def _library() -> Any:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise BackendError(
            _CONSTRUCT,
            f"there is no device: NVIDIA's driver isn't installed ({error})",
            _INSTEAD.format("install the driver of the GPU"),
        ) from error
    if not hasattr(library, "cuMemAllocAsync"):
        raise BackendError(
            _CONSTRUCT,
            "there is no device: NVIDIA's driver is older than CUDA 11.2",
            _INSTEAD.format("update it"),
        )
    return library


def _described(code: int) -> str:
    text = c_char_p()
    _library().cuGetErrorName(code, byref(text))
    return f"{(text.value or b'an unknown error').decode()} ({code})"


def _check(code: int, doing: str) -> None:
    """Raise what a failure of the driver means."""
    if not code:
        return
    if code in (_NO_DEVICE, _NO_SUCH_DEVICE):
        raise BackendError(
            _CONSTRUCT,
            f"there is no device: {doing}, the driver finds no GPU",
            _INSTEAD.format("make it visible (CUDA_VISIBLE_DEVICES)"),
        )
    if code == _ILLEGAL_ADDRESS:
        raise BackendError(
            _CONSTRUCT,
            f"{doing}: a kernel accessed memory that isn't its own; the GPU's context "
            "is lost",
            "set flag Debug to find the access, LaunchBlocking to find the kernel, and "
            "start the process anew; arrays of lumijit.llvm go on.",
        )
    if code == _OUT_OF_RESOURCES:
        raise BackendError(
            _CONSTRUCT,
            f"{doing}: the kernel needs more registers or local memory than there are",
            "evaluate parts of the computation before, or use less local memory.",
        )
    raise BackendError(
        _CONSTRUCT,
        f"{doing}: the driver says {_described(code)}",
        "see whether `nvidia-smi` finds the GPU; update an old driver.",
    )


@dataclass(frozen=True)
class Loaded:
    """A kernel in a GPU's memory: what starts it, and what must live until then."""

    name: str
    handle: int
    module: Any
    threads: int
    is_elementwise: bool
    size_bytes: int


class CudaDevice(Attached):
    """One GPU, found by its number."""

    backend = JitBackend.CUDA
    target = "ptx"

    def __init__(self, id: DeviceId) -> None:
        super().__init__(id)
        driver = self._driver = _library()
        _check(driver.cuInit(0), "starting the driver")
        handle, context, pool = c_int(), c_void_p(), c_void_p()
        found = driver.cuDeviceGet(byref(handle), id.number)
        if found == _NO_SUCH_DEVICE:
            raise self._missing(id.number)
        _check(found, f"looking for GPU {id.number}")
        found = driver.cuDevicePrimaryCtxRetain(byref(context), handle)
        _check(found, "making a context")
        self._context = context
        self._enter()
        text = ctypes.create_string_buffer(256)
        _check(driver.cuDeviceGetName(text, 256, handle), "asking for the name")
        self.name = text.value.decode()
        major, minor = (self._attribute(handle, k) for k in (_MAJOR, _MINOR))
        self.processor = f"sm_{major}{minor}"
        self.environment = f"{self.processor} {id.number}"
        self._stream = c_void_p()
        made = driver.cuStreamCreate(byref(self._stream), _NON_BLOCKING)
        _check(made, "making a stream")
        found = driver.cuDeviceGetDefaultMemPool(byref(pool), handle)
        _check(found, "finding the memory pool")
        kept = c_uint64(2**64 - 1)
        told = driver.cuMemPoolSetAttribute(pool, _RELEASE_THRESHOLD, byref(kept))
        _check(told, "having memory kept for reuse")

    def _missing(self, number: int) -> BackendError:
        count = c_int()
        _check(self._driver.cuDeviceGetCount(byref(count)), "counting the GPUs")
        return BackendError(
            _CONSTRUCT,
            f"there is no GPU {number}: the driver finds {count.value}",
            "choose one of these, counted from 0 on (lumijit.scoped_device), or make "
            "others visible (CUDA_VISIBLE_DEVICES).",
        )

    def _enter(self) -> None:
        """Make the context that of this thread."""
        _check(self._driver.cuCtxSetCurrent(self._context), "entering the context")

    def _attribute(self, handle: c_int, number: int) -> int:
        value = c_int()
        found = self._driver.cuDeviceGetAttribute(byref(value), number, handle)
        _check(found, "asking for a property")
        return value.value

    def take(self, size_bytes: int) -> int:
        """Return the address of new memory; the driver aligns it to 256 bytes."""
        self._enter()
        address = c_uint64()
        code = self._driver.cuMemAllocAsync(
            byref(address), c_size_t(size_bytes), self._stream
        )
        if code == _OUT_OF_MEMORY:
            raise AllocationError(
                "memory allocation",
                f"{size_bytes / 2**20:.1f} MiB can't be had on {self.name} (arrays "
                f"hold {self.live_bytes / 2**20:.1f} MiB)",
                "use smaller arrays, or evaluate the computation in parts.",
            )
        _check(code, "allocating memory")
        return address.value

    def give(self, address: int) -> None:
        """Let memory go once what was launched before is done."""
        self._enter()
        freed = self._driver.cuMemFreeAsync(c_uint64(address), self._stream)
        _check(freed, "freeing memory")

    def copy_in(self, address: int, source: int, size_bytes: int) -> None:
        """Copy from the host; what isn't pinned is put aside before this returns."""
        self._enter()
        copy = self._driver.cuMemcpyHtoDAsync_v2
        start, size = c_uint64(address), c_size_t(size_bytes)
        copied = copy(start, c_void_p(source), size, self._stream)
        _check(copied, "copying to the GPU")

    def copy_out(self, address: int, size_bytes: int) -> bytearray:
        """Copy to the host, after all that was launched."""
        self._enter()
        data = bytearray(size_bytes)
        if size_bytes:
            target = (ctypes.c_char * size_bytes).from_buffer(data)
            copy = self._driver.cuMemcpyDtoHAsync_v2
            size, start = c_size_t(size_bytes), c_uint64(address)
            _check(copy(target, start, size, self._stream), "copying from the GPU")
        self.wait()
        return data

    def copy_within(self, to: int, source: int, size_bytes: int) -> None:
        """Copy from the GPU's memory to the GPU's memory, in the stream."""
        self._enter()
        copy = self._driver.cuMemcpyDtoDAsync_v2
        places = c_uint64(to), c_uint64(source), c_size_t(size_bytes)
        _check(copy(*places, self._stream), "copying on the GPU")

    def room_at(self, address: int) -> int:
        """Return how many bytes from an address on belong to its allocation."""
        self._enter()
        base, size = c_uint64(), c_size_t()
        ask = self._driver.cuMemGetAddressRange_v2
        code = ask(byref(base), byref(size), c_uint64(address))
        return 0 if code else base.value + size.value - address

    @property
    def stream(self) -> int:
        """The driver's handle of the stream."""
        return self._stream.value or 0

    def follow(self, stream: int) -> None:
        """Have the stream wait for another one."""
        self._order(c_void_p(stream), self._stream)

    def lead(self, stream: int) -> None:
        """Have another stream wait for ours."""
        self._order(self._stream, c_void_p(stream))

    def _order(self, first: c_void_p, then: c_void_p) -> None:
        self._enter()
        driver, event = self._driver, c_void_p()
        made = driver.cuEventCreate(byref(event), _UNTIMED)
        _check(made, "making an event")
        try:
            _check(driver.cuEventRecord(event, first), "recording an event")
            waits = driver.cuStreamWaitEvent(then, event, 0)
            _check(waits, "having a stream wait")
        finally:
            # (It goes once it has happened.)
            driver.cuEventDestroy_v2(event)

    def settle(self) -> None:
        """Wait for all streams of the context."""
        self._enter()
        _check(self._driver.cuCtxSynchronize(), "waiting for the GPU")

    def compile(self, ir: str) -> bytes:
        """Return PTX for this GPU."""
        return nvptx.translate(ir, self.processor).encode()

    def load(self, code: bytes, symbol: str, hash: str, threads: int = 0) -> Loaded:
        """Have the driver assemble a module, and find its kernel."""
        self._enter()
        module, function, most = c_void_p(), c_void_p(), c_int()
        log = ctypes.create_string_buffer(_LOG_SIZE)
        options = (c_int * 2)(_LOG, _LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), _LOG_SIZE)
        driver = self._driver
        done = driver.cuModuleLoadDataEx(byref(module), code, 2, options, values)
        if done in _BAD_CODE:
            raise KernelBuildError(
                "assembling PTX",
                f"the driver refuses a kernel, {_described(done)}: "
                f"{log.value.decode(errors='replace').strip()}",
                "update an old driver; else report this as a bug of lumijit.",
            )
        _check(done, "loading a kernel")
        found = driver.cuModuleGetFunction(byref(function), module, symbol.encode())
        if found == _NOT_FOUND:
            raise KernelBuildError(
                "finding a kernel",
                f"the module that was stored for {symbol} has another one",
                "remove the cached kernels.",
            )
        _check(found, f"finding kernel {symbol}")
        assert function.value is not None
        found = driver.cuFuncGetAttribute(byref(most), _MAX_THREADS, function)
        _check(found, f"asking for the registers of kernel {symbol}")
        is_elementwise = not threads
        count = threads or min(_THREADS, most.value)
        return Loaded(symbol, function.value, module, count, is_elementwise, len(code))

    def launch(self, kernel: Loaded, args: bytes, size: int, block: int) -> None:
        """Start a kernel."""
        launches = (Planned(kernel, 0, len(args), size, block),)
        self.launch_all(launches, args + bytes(8))

    def launch_all(self, launches: Sequence[Planned], data: bytes) -> None:
        """Start kernels, whose slots are copied to the GPU together."""
        slots = self.take(len(data))
        self.write(slots, data)
        try:
            for launch in launches:
                self._start(launch, slots)
        finally:
            # What a launch that failed leaves behind isn't the point.
            self._driver.cuMemFreeAsync(c_uint64(slots), self._stream)

    def _start(self, launch: Planned, slots: int) -> None:
        """Start a kernel; blocks number themselves by a counter behind its slots."""
        kernel, start, stop, size, block = launch
        threads = kernel.threads
        per_block = threads if kernel.is_elementwise else block
        grid = min(-(-size // per_block), _GRID)
        values = [size, slots + start]
        if not kernel.is_elementwise:
            values = [size, block, slots + start, slots + stop]
        held = [c_uint64(value) for value in values]
        pointers = (c_void_p * len(held))(*map(ctypes.addressof, held))
        done = self._driver.cuLaunchKernel(
            *(c_void_p(kernel.handle), grid, 1, 1, threads, 1, 1, 0),
            *(self._stream, pointers, None),
        )
        _check(done, f"launching kernel {kernel.name}")

    def wait(self) -> None:
        """Wait for the stream."""
        self._enter()
        _check(self._driver.cuStreamSynchronize(self._stream), "waiting for kernels")

    def mark(self, is_timed: bool) -> CudaMark:
        """Record an event in the stream."""
        self._enter()
        return CudaMark(self._driver, self._stream, is_timed)


class CudaMark(Mark):
    """An event of the driver, which goes with the object."""

    def __init__(self, driver: Any, stream: c_void_p, is_timed: bool) -> None:
        self._driver, self._event = driver, c_void_p()
        made = driver.cuEventCreate(byref(self._event), 0 if is_timed else _UNTIMED)
        _check(made, "making an event")
        self.handle = self._event.value or 0
        # (When the process ends, the driver may have gone before.)
        finalize(self, driver.cuEventDestroy_v2, self._event).atexit = False
        _check(driver.cuEventRecord(self._event, stream), "recording an event")

    @property
    def is_done(self) -> bool:
        """Whether the event has happened."""
        code = self._driver.cuEventQuery(self._event)
        if code != _NOT_READY:
            _check(code, "asking for an event")
        return not code

    def wait(self) -> None:
        """Wait for the event."""
        _check(self._driver.cuEventSynchronize(self._event), "waiting for an event")

    def seconds_until(self, end: CudaMark) -> float:
        """Return how much later another event of the same GPU happened."""
        self.wait()
        end.wait()
        milliseconds = c_float()
        found = self._driver.cuEventElapsedTime(
            byref(milliseconds), self._event, end._event
        )
        _check(found, "reading events")
        return milliseconds.value / 1e3


def number_at(address: int) -> int:
    """Return the number of the GPU in whose memory an address is.

    Raises:
        BackendError: if it isn't in any, or there is no driver.
    """
    number = c_int()
    _check(_library().cuInit(0), "starting the driver")
    found = _library().cuPointerGetAttribute(byref(number), _ORDINAL, c_uint64(address))
    _check(found, f"looking for the GPU that has address {address:#x}")
    return number.value


#: Opens a device by its identity.
open = CudaDevice
