"""NVIDIA's GPUs, by the driver's interface: `libcuda`, which comes with the driver.

Owns `CudaDevice`, which provides what `device.Device` asks for; failures' meaning is in
`libcuda`. The context is the primary one, which other libraries of a process share; all
that a device does is in order, in one stream, allocations too: these come from the
driver's pool of the device. What has run on a GPU is in `docs/gpu.md`.
"""

from __future__ import annotations

import ctypes
import gc
import math
import struct
from collections.abc import Sequence
from contextlib import suppress
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p
from typing import NamedTuple
from weakref import finalize

import numpy as np

from lumijit.runtime import nvptx
from lumijit.runtime.attached import Attached, DeviceBuffer
from lumijit.runtime.cuda_kernels import Form, Loaded, Module, assembled, loaded
from lumijit.runtime.cuda_launching import Graph, Launcher, job
from lumijit.runtime.cuda_staging import Staging
from lumijit.runtime.cuda_textures import Kind, TextureUnit, spread
from lumijit.runtime.device import Bytes, DeviceId, Mark, Planned
from lumijit.runtime.errors import AllocationError, BackendError
from lumijit.runtime.history import JitBackend
from lumijit.runtime.libcuda import (
    CONSTRUCT,
    NO_SUCH_DEVICE,
    NOT_READY,
    OUT_OF_MEMORY,
    check,
    library,
    poll,
)

# CUdevice_attribute, CUmemPool_attribute, CUstream_flags, CUevent_flags,
# CUpointer_attribute.
_MAJOR, _MINOR = 75, 76
# Multiprocessors, and threads of each.
_RESIDENT = (16, 39)
_RELEASE_THRESHOLD = 4
_NON_BLOCKING = 1
_UNTIMED = 2
_ORDINAL = 9
# What part of the memory is kept for reuse when arrays go.
_SHARE = 16


class Together(NamedTuple):
    """Launches, and the graph that they are, if they can be one."""

    launches: Sequence[Planned]
    graph: Graph | None


class CudaDevice(Attached):
    """One GPU, found by its number."""

    backend = JitBackend.CUDA
    target = "ptx"
    has_textures = True
    kept_bytes = 1 << 26

    def __init__(self, id: DeviceId) -> None:
        super().__init__(id)
        driver = self._driver = library()
        check(driver.cuInit(0), "starting the driver")
        handle, context, pool = c_int(), c_void_p(), c_void_p()
        found = driver.cuDeviceGet(byref(handle), id.number)
        if found == NO_SUCH_DEVICE:
            raise self._missing(id.number)
        check(found, f"looking for GPU {id.number}")
        found = driver.cuDevicePrimaryCtxRetain(byref(context), handle)
        check(found, "making a context")
        self._context = context
        self._enter()
        text = ctypes.create_string_buffer(256)
        check(driver.cuDeviceGetName(text, 256, handle), "asking for the name")
        self.name = text.value.decode()
        major, minor = (self._attribute(handle, k) for k in (_MAJOR, _MINOR))
        self.processor = f"sm_{major}{minor}"
        version = c_int()
        check(driver.cuDriverGetVersion(byref(version)), "asking for the version")
        self.environment = f"{self.processor} {version.value} {id.number}"
        #: How many threads run at once, at most.
        self._resident = math.prod(self._attribute(handle, k) for k in _RESIDENT)
        self._stream = c_void_p()
        # For what isn't in order; made when it is needed.
        self._side: c_void_p | None = None
        self._cancel = 0
        made = driver.cuStreamCreate(byref(self._stream), _NON_BLOCKING)
        check(made, "making a stream")
        found = driver.cuDeviceGetDefaultMemPool(byref(pool), handle)
        check(found, "finding the memory pool")
        # Processes share the GPU: none keeps all memory that it has ever needed.
        free, total = c_size_t(), c_size_t()
        check(driver.cuMemGetInfo_v2(byref(free), byref(total)), "asking for its size")
        kept = c_uint64(total.value // _SHARE)
        self._pool = pool
        told = driver.cuMemPoolSetAttribute(pool, _RELEASE_THRESHOLD, byref(kept))
        check(told, "having memory kept for reuse")
        self._launcher = Launcher(driver, context, self._stream)
        self._staging = Staging(driver)

    def _missing(self, number: int) -> BackendError:
        count = c_int()
        check(self._driver.cuDeviceGetCount(byref(count)), "counting the GPUs")
        return BackendError(
            CONSTRUCT,
            f"there is no GPU {number}: the driver finds {count.value}",
            "choose one of these, counted from 0 on (lumijit.scoped_device), or make "
            "others visible (CUDA_VISIBLE_DEVICES).",
        )

    def _enter(self) -> None:
        """Make the context that of this thread."""
        check(self._driver.cuCtxSetCurrent(self._context), "entering the context")

    def _attribute(self, handle: c_int, number: int) -> int:
        value = c_int()
        found = self._driver.cuDeviceGetAttribute(byref(value), number, handle)
        check(found, "asking for a property")
        return value.value

    def take(self, size_bytes: int) -> int:
        """Return the address of memory; the driver aligns it to 256 bytes."""
        self._enter()
        address = c_uint64()
        given = byref(address), c_size_t(size_bytes), self._stream
        code = self._driver.cuMemAllocAsync(*given)
        if code == OUT_OF_MEMORY:
            self._relieve()
            code = self._driver.cuMemAllocAsync(*given)
        if code == OUT_OF_MEMORY:
            raise self._short(
                "memory allocation",
                f"{size_bytes / 2**20:.1f} MiB",
                "use smaller arrays, or evaluate the computation in parts.",
            )
        check(code, "allocating memory")
        return address.value

    def _short(self, construct: str, what: str, fix: str) -> AllocationError:
        held = self.live_bytes / 2**20
        problem = f"{what} can't be had on {self.name} (arrays hold {held:.1f} MiB)"
        return AllocationError(construct, problem, fix)

    def _relieve(self) -> None:
        """Give the driver all memory that no array has, for whatever needs some.

        Arrays in cycles have theirs until the garbage collector comes.
        """
        gc.collect()
        self.collect()
        # (Another thread may take some meanwhile: each goes to one of both.)
        for address in self._rooms.emptied():
            self.give(address, 0)
        self.drain()
        trimmed = self._driver.cuMemPoolTrimTo(self._pool, c_size_t(0))
        check(trimmed, "giving memory back")

    def give(self, address: int, size_bytes: int) -> None:
        """Let memory go once what was launched before is done."""
        del size_bytes
        self._enter()
        freed = self._driver.cuMemFreeAsync(c_uint64(address), self._stream)
        check(freed, "freeing memory")

    def copy_in(self, address: int, source: int, size_bytes: int) -> None:
        """Copy from the host; what isn't pinned is put aside before this returns."""
        self._enter()
        copy = self._driver.cuMemcpyHtoDAsync_v2
        start, size = c_uint64(address), c_size_t(size_bytes)
        copied = copy(start, c_void_p(source), size, self._stream)
        check(copied, "copying to the GPU")

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes, in order with the launches."""
        check(self._launcher.write(address, data), "copying to the GPU")

    def copy_out(self, address: int, size_bytes: int) -> Bytes:
        """Copy to the host, after all that was launched."""
        if not size_bytes:
            self.wait()
            return np.empty(0, np.uint8)
        place = self._staging.take(size_bytes)
        self._enter()
        copied = self._driver.cuMemcpyDtoHAsync_v2(
            c_void_p(place), c_uint64(address), c_size_t(size_bytes), self._stream
        )
        check(copied, "copying from the GPU")
        # (If somebody stops the waiting, the GPU may write there later: it is lost.)
        self.wait()
        return self._staging.given(place, size_bytes)

    def copy_within(self, to: int, source: int, size_bytes: int) -> None:
        """Copy from the GPU's memory to the GPU's memory, in the stream."""
        self._enter()
        copy = self._driver.cuMemcpyDtoDAsync_v2
        places = c_uint64(to), c_uint64(source), c_size_t(size_bytes)
        check(copy(*places, self._stream), "copying on the GPU")

    def texture(self, kind: Kind, address: int) -> DeviceBuffer:
        """Return where the handle of a texture lies that has the texels of an address.

        They are copied. The texture lives as long as the buffer, and until what was
        launched before it went is done.
        """
        self._enter()
        tools, room = (self._driver, self._stream, kind), 0
        if kind.stored_channels != kind.channels:
            room = 4 * kind.stored_channels * math.prod(kind.sizes)
            source, address = address, self.take(room)
            spread(*tools, source, address)
        unit = TextureUnit(*tools, address)
        if room:
            self.give(address, room)
        place = self.take(64)
        finalize(unit, self.give, place, 64).atexit = False
        self.write(place, unit.handle.to_bytes(8, "little"))
        return self.kept(place, 8, unit)

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
        check(made, "making an event")
        try:
            check(driver.cuEventRecord(event, first), "recording an event")
            waits = driver.cuStreamWaitEvent(then, event, 0)
            check(waits, "having a stream wait")
        finally:
            # (It goes once it has happened.)
            driver.cuEventDestroy_v2(event)

    def settle(self) -> None:
        """Wait for all streams of the context."""
        self._enter()
        check(self._driver.cuCtxSynchronize(), "waiting for the GPU")

    def compile(self, ir: str) -> bytes:
        """Return machine code for this GPU."""
        self._enter()
        return assembled(self._driver, nvptx.translate(ir, self.processor).encode())

    def load(
        self, code: bytes, symbol: str, hash: str, threads: int = 0, width: int = 1
    ) -> Loaded:
        """Put machine code into the GPU's memory, and find its kernel."""
        self._enter()
        found = loaded(self._driver, code, symbol, Form(threads, width, self._resident))
        finalize(found, self._forget, found.module).atexit = False
        return found

    def _forget(self, module: Module) -> None:
        """Unload code once what was launched before is done."""
        # (In a lost context, there is nothing to unload.)
        with suppress(BackendError):
            self._leaving.append((self.mark(is_timed=False), module))

    def launch(self, kernel: Loaded, args: bytes, size: int, block: int) -> None:
        """Start a kernel. The driver has copied its slots when this returns."""
        if len(args) > nvptx.PARAMETER_BYTES:
            self._launch_far(kernel, args, size)
            return
        words = kernel.words + job(0, size, block)
        failed = self._launcher.start(words, 1, args)
        if failed and failed[1] == OUT_OF_MEMORY:
            self._relieve()
            failed = self._launcher.start(words, 1, args)
        if failed:
            self._fail(failed[1], kernel)

    def planned(self, launches: Sequence[Planned]) -> Together:
        """Return launches as what starts all of them by one call, if that can be."""
        limit = nvptx.PARAMETER_BYTES
        graph = None
        if not any([stop - start > limit for _, start, stop, _, _ in launches]):
            jobs = [k.words + job(start, n, size) for k, start, _, n, size in launches]
            self._enter()
            # (An old driver lacks functions for graphs, or there is no memory for one.)
            with suppress(AttributeError, BackendError):
                graph = self._launcher.graph(b"".join(jobs))
        return Together(launches, graph)

    def launch_all(self, planned: Together, data: bytes) -> None:
        """Start kernels, all by one call."""
        graph = planned.graph
        if graph is None or self._launcher.start_again(graph, data):
            # (One after the other, the rest may find memory; else this tells which.)
            super().launch_all(planned.launches, data)

    def _launch_far(self, kernel: Loaded, args: bytes, size: int) -> None:
        """Start an elementwise kernel whose slots have to lie in the GPU's memory."""
        count, rooms = len(args), self._rooms
        address = rooms.taken(count) or self.take(count)
        self.write(address, args)
        try:
            self.launch(kernel, struct.pack("<Q", address), size, 0)
        finally:
            if not rooms.keep(address, count):
                self.give(address, count)

    def _fail(self, code: int, kernel: Loaded) -> None:
        """Raise that a kernel couldn't be started."""
        if code == OUT_OF_MEMORY:
            raise self._short(
                f"launching kernel {kernel.name}",
                "the local memory of its threads",
                "use less local memory (lumijit.alloc_local), or smaller arrays.",
            )
        check(code, f"launching kernel {kernel.name}")

    def drain(self) -> None:
        """Wait for the stream."""
        self._enter()
        query = self._driver.cuStreamQuery
        poll(lambda: query(self._stream), "waiting for kernels")

    @property
    def cancel_address(self) -> int:
        """Where a word lies that is zero, but while loops are to end."""
        if not self._cancel:
            # (No buffer: those who record launches needn't know of it.)
            word = self.take(64)
            self.write(word, bytes(64))
            self._cancel = word
        return self._cancel

    def cancel(self) -> None:
        """Set the word by another stream, and clear it behind all that was launched.

        Kernels that are running read it in the GPU's memory; the copy passes them by.
        """
        self._enter()
        if self._side is None:
            side = c_void_p()
            made = self._driver.cuStreamCreate(byref(side), _NON_BLOCKING)
            check(made, "making a stream")
            self._side = side
        word, one = c_uint64(self.cancel_address), c_uint64(1)
        copy = self._driver.cuMemcpyHtoDAsync_v2
        copied = copy(word, byref(one), c_size_t(4), self._side)
        check(copied, "ending loops")
        self._order(self._side, self._stream)
        self.write(word.value, bytes(4))

    def mark(self, is_timed: bool) -> CudaMark:
        """Record an event in the stream."""
        self._enter()
        return CudaMark(self, is_timed)


class CudaMark(Mark):
    """An event of the driver, which goes with the object."""

    def __init__(self, device: CudaDevice, is_timed: bool) -> None:
        driver = self._driver = device._driver
        self._device, self._event = device, c_void_p()
        made = driver.cuEventCreate(byref(self._event), 0 if is_timed else _UNTIMED)
        check(made, "making an event")
        self.handle = self._event.value or 0
        # (When the process ends, the driver may have gone before.)
        finalize(self, driver.cuEventDestroy_v2, self._event).atexit = False
        recorded = driver.cuEventRecord(self._event, device._stream)
        check(recorded, "recording an event")

    @property
    def is_done(self) -> bool:
        """Whether the event has happened."""
        # (Another thread may ask than the one that made it.)
        self._device._enter()
        code = self._driver.cuEventQuery(self._event)
        if code != NOT_READY:
            check(code, "asking for an event")
        return not code

    def wait(self) -> None:
        """Wait for the event."""
        self._device._enter()
        query = self._driver.cuEventQuery
        try:
            poll(lambda: query(self._event), "waiting for an event")
        except KeyboardInterrupt:
            self._device.interrupt()
            raise

    def seconds_until(self, end: CudaMark) -> float:
        """Return how much later another event of the same GPU happened."""
        self.wait()
        end.wait()
        milliseconds = c_float()
        found = self._driver.cuEventElapsedTime(
            byref(milliseconds), self._event, end._event
        )
        check(found, "reading events")
        return milliseconds.value / 1e3


def number_at(address: int) -> int:
    """Return the number of the GPU in whose memory an address is.

    Raises:
        BackendError: if it isn't in any, or there is no driver.
    """
    number = c_int()
    check(library().cuInit(0), "starting the driver")
    found = library().cuPointerGetAttribute(byref(number), _ORDINAL, c_uint64(address))
    check(found, f"looking for the GPU that has address {address:#x}")
    return number.value


#: Opens a device by its identity.
open = CudaDevice
