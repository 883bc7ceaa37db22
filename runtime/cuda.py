"""NVIDIA's GPUs, by the driver's interface: `libcuda`, which comes with the driver.

Owns `CudaDevice`, which provides what `device.Device` asks for, and what its failures
mean to users. The context is the primary one, which other libraries of a process share;
all that a device does is in order, in one stream. None of it has run on a GPU yet: see
`docs/gpu.md`.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from lumijit.runtime import nvptx
from lumijit.runtime.device import Loaded
from lumijit.runtime.errors import AllocationError, BackendError, KernelBuildError

_CONSTRUCT = "lumijit.cuda"
# What the driver returns (cuda.h, CUresult).
_OUT_OF_MEMORY, _NO_DEVICE = 2, 100
_BAD_CODE = (200, 209, 218, 222)
_ILLEGAL_ADDRESS, _OUT_OF_RESOURCES = 700, 701
# CUdevice_attribute, CUjit_option, CUstream_flags.
_MAJOR, _MINOR = 75, 76
_LOG, _LOG_BYTES = 5, 6
_NON_BLOCKING = 1
_LOG_SIZE = 4096
# The most blocks of a grid; threads go on behind it.
_GRID = 2**31 - 1


@functools.cache
def _library() -> Any:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise BackendError(
            _CONSTRUCT,
            f"NVIDIA's driver isn't installed ({error})",
            "install the driver of the GPU, or compute with the types of lumijit.llvm.",
        ) from error


def _described(code: int) -> str:
    text = c_char_p()
    _library().cuGetErrorName(code, byref(text))
    return f"{(text.value or b'an unknown error').decode()} ({code})"


def _check(code: int, doing: str) -> None:
    """Raise what a failure of the driver means."""
    if not code:
        return
    if code == _NO_DEVICE:
        raise BackendError(
            _CONSTRUCT,
            "the driver finds no GPU",
            "make one visible (CUDA_VISIBLE_DEVICES), or compute with the types of "
            "lumijit.llvm.",
        )
    if code == _ILLEGAL_ADDRESS:
        raise BackendError(
            _CONSTRUCT,
            f"{doing}: a kernel accessed memory that isn't its own; the GPU's context "
            "is lost",
            "set flag Debug to find the access, and start the process anew; arrays of "
            "lumijit.llvm go on.",
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


class CudaDevice:
    """One GPU, found by its number."""

    def __init__(self, number: int = 0) -> None:
        driver = self._driver = _library()
        _check(driver.cuInit(0), "starting the driver")
        handle, context = c_int(), c_void_p()
        _check(driver.cuDeviceGet(byref(handle), number), f"finding GPU {number}")
        found = driver.cuDevicePrimaryCtxRetain(byref(context), handle)
        _check(found, "making a context")
        self._context = context
        self._enter()
        text = ctypes.create_string_buffer(256)
        _check(driver.cuDeviceGetName(text, 256, handle), "asking for the name")
        self.name = text.value.decode()
        major, minor = (self._attribute(handle, k) for k in (_MAJOR, _MINOR))
        self.processor = f"sm_{major}{minor}"
        self._stream = c_void_p()
        made = driver.cuStreamCreate(byref(self._stream), _NON_BLOCKING)
        _check(made, "making a stream")
        self.live_bytes = 0
        self._sizes: dict[int, int] = {}

    def _enter(self) -> None:
        """Make the context that of this thread."""
        _check(self._driver.cuCtxSetCurrent(self._context), "entering the context")

    def _attribute(self, handle: c_int, number: int) -> int:
        value = c_int()
        found = self._driver.cuDeviceGetAttribute(byref(value), number, handle)
        _check(found, "asking for a property")
        return value.value

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory; the driver aligns it to 256 bytes."""
        self._enter()
        address = c_uint64()
        code = self._driver.cuMemAlloc_v2(byref(address), c_size_t(max(size_bytes, 1)))
        if code == _OUT_OF_MEMORY:
            raise AllocationError(
                "memory allocation",
                f"{size_bytes / 2**20:.1f} MiB can't be had on {self.name} (arrays "
                f"hold {self.live_bytes / 2**20:.1f} MiB)",
                "use smaller arrays, or evaluate the computation in parts.",
            )
        _check(code, "allocating memory")
        self._sizes[address.value] = size_bytes
        self.live_bytes += size_bytes
        return address.value

    def free(self, address: int) -> None:
        """Let memory go; the driver waits for what uses it."""
        self._enter()
        _check(self._driver.cuMemFree_v2(c_uint64(address)), "freeing memory")
        self.live_bytes -= self._sizes.pop(address)

    def copy_in(self, address: int, data: bytes) -> None:
        """Copy from the host; from memory that isn't pinned, that waits for a copy."""
        self._enter()
        copy = self._driver.cuMemcpyHtoDAsync_v2
        size, to = c_size_t(len(data)), c_uint64(address)
        _check(copy(to, data, size, self._stream), "copying to the GPU")

    def copy_out(self, address: int, size_bytes: int) -> bytes:
        """Copy to the host, after all that was launched."""
        self._enter()
        data = ctypes.create_string_buffer(size_bytes)
        copy = self._driver.cuMemcpyDtoHAsync_v2
        size, start = c_size_t(size_bytes), c_uint64(address)
        _check(copy(data, start, size, self._stream), "copying from the GPU")
        self.wait()
        return data.raw

    def compile(self, ir: str) -> bytes:
        """Return PTX for this GPU."""
        return nvptx.translate(ir, self.processor).encode()

    def load(
        self, code: bytes, name: str, threads: int, is_elementwise: bool
    ) -> Loaded:
        """Have the driver assemble a module, and find its kernel."""
        self._enter()
        module, function = c_void_p(), c_void_p()
        log = ctypes.create_string_buffer(_LOG_SIZE)
        options = (c_int * 2)(_LOG, _LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), _LOG_SIZE)
        done = self._driver.cuModuleLoadDataEx(byref(module), code, 2, options, values)
        if done in _BAD_CODE:
            raise KernelBuildError(
                "assembling PTX",
                f"the driver refuses a kernel, {_described(done)}: "
                f"{log.value.decode(errors='replace').strip()}",
                "update an old driver; else report this as a bug of lumijit.",
            )
        _check(done, "loading a kernel")
        found = self._driver.cuModuleGetFunction(byref(function), module, name.encode())
        _check(found, f"finding kernel {name}")
        assert function.value is not None
        return Loaded(name, function.value, module, threads, is_elementwise)

    def launch(self, kernel: Loaded, args: bytes, size: int, block: int) -> None:
        """Start a kernel; blocks number themselves by a counter behind its slots."""
        self._enter()
        threads = kernel.threads
        per_block = threads if kernel.is_elementwise else block
        grid = min(-(-size // per_block), _GRID)
        slots = self.allocate(len(args) + 8)
        self.copy_in(slots, args + bytes(8))
        values: list[Any] = [c_uint64(size)]
        if not kernel.is_elementwise:
            values.append(c_uint64(block))
        values.append(c_uint64(slots))
        if not kernel.is_elementwise:
            values.append(c_uint64(slots + len(args)))
        pointers = (c_void_p * len(values))(*map(ctypes.addressof, values))
        done = self._driver.cuLaunchKernel(
            *(c_void_p(kernel.handle), grid, 1, 1, threads, 1, 1, 0),
            *(self._stream, pointers, None),
        )
        _check(done, f"launching kernel {kernel.name}")
        self.free(slots)

    def wait(self) -> None:
        """Wait for the stream."""
        self._enter()
        _check(self._driver.cuStreamSynchronize(self._stream), "waiting for kernels")

    def timed(self, code: Callable[[], None]) -> float:
        """Measure by events in the stream."""
        self._enter()
        events = [c_void_p(), c_void_p()]
        for event in events:
            _check(self._driver.cuEventCreate(byref(event), 0), "making an event")
        begin, end = events
        _check(self._driver.cuEventRecord(begin, self._stream), "recording an event")
        code()
        _check(self._driver.cuEventRecord(end, self._stream), "recording an event")
        self.wait()
        milliseconds = c_float()
        found = self._driver.cuEventElapsedTime(byref(milliseconds), begin, end)
        _check(found, "reading events")
        for event in events:
            _check(self._driver.cuEventDestroy_v2(event), "freeing an event")
        return milliseconds.value / 1e3
