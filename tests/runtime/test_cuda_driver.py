"""NVIDIA's driver as we use it, against what stands for it."""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable
from ctypes import c_int, c_uint, c_uint64, c_void_p
from typing import Any

import numpy as np
import pytest

from lumijit.compiler.lower.cooperative.kernels import nvvm
from lumijit.runtime import cuda, cuda_staging, libcuda, nvptx
from lumijit.runtime.cuda import CudaDevice
from lumijit.runtime.cuda_launching import KernelNode
from lumijit.runtime.cuda_textures import Kind
from lumijit.runtime.device import DeviceId, Planned
from lumijit.runtime.errors import (
    AllocationError,
    BackendError,
    CancelledError,
    KernelBuildError,
)


class Driver:
    """Stands for `libcuda`: notes calls, and fails where it is told to."""

    def __init__(self, **failures: int) -> None:
        self.failures = failures
        self.calls: list[str] = []
        self.pinned: list[Any] = []
        self.shared_bytes = self.allocated = 0
        # What has no memory when it is called for the first time.
        self.short: set[str] = set()
        # What native code calls.
        self.cuCtxSetCurrent = ctypes.CFUNCTYPE(c_int, c_void_p)(self._enter)
        kinds = c_void_p, *[c_uint] * 7, *[c_void_p] * 3
        self.cuLaunchKernel = ctypes.CFUNCTYPE(c_int, *kinds)(self._launch)
        kinds = c_void_p, c_void_p, ctypes.POINTER(KernelNode)
        change = ctypes.CFUNCTYPE(c_int, *kinds)(self._change)
        self.cuGraphExecKernelNodeSetParams = change
        launch = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)(self._launch_graph)
        self.cuGraphLaunch = launch
        kinds = c_uint64, c_void_p, c_uint64, c_void_p
        write = ctypes.CFUNCTYPE(c_int, *kinds)(self._write)
        self.cuMemcpyHtoDAsync_v2 = write
        self.written: dict[int, bytes] = {}
        self.changed: list[tuple[int, int, int, list[int]]] = []
        self.launched: list[tuple[int, int, int, list[int]]] = []

    def _enter(self, context: int) -> int:
        return self._done("cuCtxSetCurrent")

    def _done(self, name: str) -> int:
        self.calls.append(name)
        if name in self.short:
            self.short.discard(name)
            return 2
        return self.failures.get(name, 0)

    def _launch(self, handle: int, *given: int) -> int:
        """Note the function, the grid, threads, and the first words of parameters."""
        self.launched.append((handle, given[0], given[3], first_words(given[8])))
        return self._done("cuLaunchKernel")

    def _change(self, graph: int, node: int, how: Any) -> int:
        """Note the same of a kernel of a graph."""
        given = how.contents
        words = first_words(ctypes.addressof(given.parameters.contents))
        self.changed.append((given.function, given.grid, given.threads, words))
        return self._done("cuGraphExecKernelNodeSetParams")

    def _write(self, to: int, source: int, size: int, stream: int) -> int:
        self.written[to] = ctypes.string_at(source, size)
        return self._done("cuMemcpyHtoDAsync_v2")

    def _launch_graph(self, graph: int, stream: int) -> int:
        self.launched += self.changed
        self.changed.clear()
        return self._done("cuGraphLaunch")

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*args: Any) -> int:
            if name == "cuGetErrorName":
                args[1]._obj.value = b"CUDA_ERROR_TEST"
            elif name == "cuDeviceGetAttribute":
                args[0]._obj.value = {75: 9, 16: 2, 39: 1024}.get(args[1], 0)
            elif name == "cuFuncGetAttribute":
                # (Shared memory has its own test.)
                args[0]._obj.value = 1024 if args[1] == 0 else self.shared_bytes
            elif name == "cuDeviceGetName":
                args[0].value = b"A GPU"
            elif name == "cuMemAllocAsync":
                self.allocated += 4096
                args[0]._obj.value = self.allocated
            elif name == "cuMemHostAlloc":
                self.pinned.append(ctypes.create_string_buffer(args[1].value))
                args[0]._obj.value = ctypes.addressof(self.pinned[-1])
            elif name == "cuLinkAddData_v2":
                self.code = ctypes.create_string_buffer(args[2])
            elif name == "cuLinkComplete":
                args[1]._obj.value = ctypes.addressof(self.code)
                args[2]._obj.value = len(self.code)
            else:
                for arg in args:
                    if hasattr(arg, "_obj"):
                        arg._obj.value = 4096
            return self._done(name)

        return call


def first_words(places: int) -> list[int]:
    """Return the first words of three parameters, given where their places lie."""
    found = ctypes.cast(places, ctypes.POINTER(c_void_p))
    return [c_uint64.from_address(found[k] or 0).value for k in range(3)]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(cuda, "library", lambda: made)
    monkeypatch.setattr(libcuda, "library", lambda: made)
    return made


def test_a_driver_is_told_what_to_do(driver: Driver) -> None:
    device = CudaDevice(DeviceId("cuda", 1))
    assert (device.name, device.processor) == ("A GPU", "sm_90")
    buffer = device.allocate(100)
    assert device.live_bytes == buffer.capacity_bytes == 128
    assert not any((buffer.is_foreign, buffer.is_idle, buffer.is_read_only))
    data = np.zeros(100, np.uint8)
    device.copy_in(buffer.address, data.ctypes.data, 100)
    device.write(buffer.address, b"abc")
    assert driver.written == {buffer.address: b"abc"}
    driver.failures["cuMemcpyHtoDAsync_v2"] = 400
    with pytest.raises(BackendError, match=r"copying to the GPU: .*TEST \(400\)"):
        device.write(buffer.address, b"abc")
    del driver.failures["cuMemcpyHtoDAsync_v2"]
    code = device.compile(nvvm().fill_ir("kernel"))
    # (What the stand-in assembles, it leaves as it was.)
    assert b".target sm_90" in code
    assert driver.calls[-1] == "cuLinkDestroy"
    kernel = device.load(code, "kernel", "kernel", 256)
    assert device.timed(device.wait) == 4.096
    del buffer
    device.collect()
    assert device.live_bytes == 0
    device.launch(kernel, bytes(16), 1000, 512)
    assert driver.calls[-1] == "cuLaunchKernel"


def test_copies_to_the_host_are_in_pinned_memory(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = CudaDevice(DeviceId("cuda"))
    mega = 1 << 20
    for size, rooms in ((0, 0), (4, 1), (4, 1), (mega, 2), (mega, 2), (700_000, 3)):
        data = device.copy_out(4096, size)
        assert data.nbytes == size
        data[:] = 1
        assert len(driver.pinned) == rooms
        del data
    # What arrays still have isn't used again; small ones have memory of their own.
    held = [device.copy_out(4096, mega) for _ in range(2)]
    small = [device.copy_out(4096, 9) for _ in range(2)]
    assert len(driver.pinned) == 4
    assert not any(np.shares_memory(x, y) for x, y in (held, small))
    assert "cuMemFreeHost" not in driver.calls
    # Nor do arrays have any amount of it.
    monkeypatch.setattr(cuda_staging, "_LENT", 4 * mega)
    monkeypatch.setattr(cuda_staging, "_KEPT", 4 * mega)
    large = [device.copy_out(4096, 2 * mega) for _ in range(2)]
    again = device.copy_out(4096, 2 * mega)
    assert len(driver.pinned) == 6
    assert not any(np.shares_memory(x, again) for x in large)
    large.clear()
    assert driver.calls[-1] == "cuMemFreeHost"


def test_textures_go_behind_what_looks_them_up(driver: Driver) -> None:
    device = CudaDevice(DeviceId("cuda"))
    texels = device.allocate(4 * 5 * 3 * 3)
    driver.calls.clear()
    handle = device.texture(Kind((5, 3), 3, True, "clamp"), texels.address)
    calls = [name for name in driver.calls if name != "cuCtxSetCurrent"]
    # Three channels are spread to four.
    assert [name for name in calls if "Array" in name or "3D" in name] == [
        *("cuMemcpy3DAsync_v2", "cuArray3DCreate_v2", "cuMemcpy3DAsync_v2")
    ]
    assert calls[-1] == "cuMemcpyHtoDAsync_v2"
    driver.failures["cuEventQuery"] = 600
    del handle
    device.collect()
    assert "cuTexObjectDestroy" not in driver.calls
    driver.failures["cuEventQuery"] = 0
    device.collect()
    assert {"cuTexObjectDestroy", "cuArrayDestroy"} <= set(driver.calls)


def test_small_memory_is_kept(driver: Driver) -> None:
    device = CudaDevice(DeviceId("cuda"))
    for size, calls in ((1000, 1), (1000, 0), (2000, 1), (2000, 0)):
        device.collect()
        before = driver.calls.count("cuMemAllocAsync")
        device.allocate(size)
        assert driver.calls.count("cuMemAllocAsync") == before + calls
    assert "cuMemFreeAsync" not in driver.calls
    large = device.allocate(2 << 20)
    del large
    device.collect()
    assert driver.calls[-1] == "cuMemFreeAsync"


def test_marks_are_events_of_the_driver(driver: Driver) -> None:
    device = CudaDevice(DeviceId("cuda"))
    begin, end = device.mark(is_timed=True), device.mark(is_timed=True)
    driver.failures["cuEventQuery"] = 600
    assert not end.is_done
    driver.failures["cuEventQuery"] = 0
    assert end.is_done
    driver.calls.clear()
    assert begin.seconds_until(end) == 4.096
    assert driver.calls[-1] == "cuEventElapsedTime"
    del begin
    assert driver.calls[-1] == "cuEventDestroy_v2"
    driver.failures["cuEventQuery"] = 700
    with pytest.raises(BackendError, match="the GPU's context is lost"):
        _ = end.is_done
    driver.failures["cuEventRecord"] = 400
    with pytest.raises(BackendError, match="recording an event"):
        device.mark(is_timed=False)


def test_other_streams_wait_by_events(driver: Driver) -> None:
    device = CudaDevice(DeviceId("cuda"))
    assert device.stream == 4096
    for order in (device.follow, device.lead):
        driver.calls.clear()
        order(1)
        assert driver.calls == [
            *("cuCtxSetCurrent", "cuEventCreate", "cuEventRecord"),
            *("cuStreamWaitEvent", "cuEventDestroy_v2"),
        ]
    device.settle()
    device.copy_within(1, 2, 3)
    assert driver.calls[-3:] == [
        *("cuCtxSynchronize", "cuCtxSetCurrent", "cuMemcpyDtoDAsync_v2")
    ]
    # (The stand-in says that memory begins at 4096.)
    assert device.room_at(4000) == 2 * 4096 - 4000
    driver.failures["cuMemGetAddressRange_v2"] = 1
    assert device.room_at(4000) == 0
    assert cuda.number_at(5) == 4096
    driver.failures["cuPointerGetAttribute"] = 1
    with pytest.raises(BackendError, match="looking for the GPU that has address 0x5"):
        cuda.number_at(5)
    driver.failures["cuStreamWaitEvent"] = 400
    with pytest.raises(BackendError, match="having a stream wait"):
        device.lead(3)
    assert driver.calls[-1] == "cuEventDestroy_v2"


def test_ctrl_c_sets_a_word_beside_the_stream(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    device = CudaDevice(DeviceId("cuda"))
    first, second = device.allocate(8), device.allocate(8)
    assert device.cancel_address == driver.allocated
    device.note_launch([first], has_loops=False)
    device.wait()
    monkeypatch.setattr(time, "sleep", stop)
    driver.failures["cuStreamQuery"] = driver.failures["cuEventQuery"] = 600
    mark = device.mark(is_timed=False)
    for wait in (device.wait, mark.wait):
        device.note_launch([second], has_loops=True)
        driver.calls.clear()
        with pytest.raises(KeyboardInterrupt):
            wait()
        calls = [name for name in driver.calls if "Query" not in name]
        # The first time, there is no other stream yet.
        assert [n for n in calls if n not in ("cuCtxSetCurrent", "cuStreamCreate")] == [
            *("cuMemcpyHtoDAsync_v2", "cuEventCreate", "cuEventRecord"),
            *("cuStreamWaitEvent", "cuEventDestroy_v2", "cuMemcpyHtoDAsync_v2"),
        ]
        first.check_intact()
        with pytest.raises(CancelledError, match="Ctrl-C stopped the kernel"):
            second.check_intact()
    # Nothing has loops that may still run.
    driver.calls.clear()
    with pytest.raises(KeyboardInterrupt):
        device.wait()
    assert "cuMemcpyHtoDAsync_v2" not in driver.calls


def test_slots_are_parameters(driver: Driver) -> None:
    device = CudaDevice(DeviceId("cuda"))
    kernel = device.load(bytes(8), "k", "k", 256)
    plain = device.load(bytes(8), "k", "k")
    several = device.load(bytes(8), "k", "k", 0, 4)
    launches = [
        *(Planned(kernel, 0, 16, 1000, 512), Planned(plain, 24, 32, 700, 1)),
        Planned(several, 16, 24, 1 << 20, 1),
    ]
    planned = device.planned(launches)
    made = ["cuGraphAddKernelNode"] * 3
    assert [name for name in driver.calls if name in made] == made
    assert driver.calls[-1] == "cuGraphDestroy"
    for first in (5, 50):
        driver.calls.clear()
        device.launch_all(planned, struct.pack("<4Q", first, 6, 7, 8))
        changes = ["cuGraphExecKernelNodeSetParams"] * 3
        assert driver.calls == ["cuCtxSetCurrent", *changes, "cuGraphLaunch"]
        assert driver.launched == [
            (4096, 2, 256, [1000, 512, first]),
            (4096, 3, 256, [700, 8, 8]),
            (4096, 1024, 256, [1 << 20, 7, 7]),
        ]
        driver.launched.clear()
    # What can't be launched together may be one after the other.
    driver.failures["cuGraphLaunch"] = 2
    driver.calls.clear()
    device.launch_all(planned, struct.pack("<4Q", 5, 6, 7, 8))
    assert driver.calls[-2:] == ["cuCtxSetCurrent", "cuLaunchKernel"]
    assert len(driver.launched) == 6
    driver.calls.clear()
    del planned
    assert driver.calls == ["cuGraphExecDestroy"]
    driver.failures["cuGraphInstantiateWithFlags"] = 801
    driver.launched.clear()
    device.launch_all(device.planned(launches), struct.pack("<4Q", 5, 6, 7, 8))
    assert len(driver.launched) == 3
    driver.calls.clear()
    device.launch(plain, bytes(nvptx.PARAMETER_BYTES + 8), 7, 1)
    far = Planned(plain, 0, nvptx.PARAMETER_BYTES + 8, 7, 1)
    device.launch_all(device.planned([far]), bytes(nvptx.PARAMETER_BYTES + 8))
    calls = ["cuMemAllocAsync", "cuMemcpyHtoDAsync_v2", "cuLaunchKernel"]
    expected = [*calls, *calls[1:]]
    assert [name for name in driver.calls if name != "cuCtxSetCurrent"] == expected


def test_kernels_with_bins_have_as_many_blocks_as_run_at_once(driver: Driver) -> None:
    device = CudaDevice(DeviceId("cuda"))
    driver.shared_bytes = 1 << 14
    kernel = device.load(bytes(8), "k", "k")
    device.launch(kernel, bytes(8), 1 << 20, 1)
    device.launch(kernel, bytes(8), 300, 1)
    grids = [grid for _, grid, _, _ in driver.launched]
    assert grids == [8, 2]


def test_the_kernel_that_fails_is_named(driver: Driver) -> None:
    device = CudaDevice(DeviceId("cuda"))
    kernel = device.load(bytes(8), "first", "k")
    driver.failures |= dict.fromkeys(("cuLaunchKernel", "cuGraphLaunch"), 2)
    twice = device.planned([Planned(kernel, 0, 8, 7, 1)] * 2)
    with pytest.raises(AllocationError, match="launching kernel first"):
        device.launch_all(twice, bytes(8))
    driver.failures["cuCtxSetCurrent"] = 201
    driver.launched.clear()
    with pytest.raises(BackendError, match=r"CUDA_ERROR_TEST \(201\)"):
        device.launch(kernel, bytes(8), 7, 1)
    assert not driver.launched


@pytest.mark.parametrize("name", ["cuMemAllocAsync", "cuLaunchKernel"])
def test_memory_that_no_array_has_is_given_back_when_it_is_short(
    driver: Driver, name: str
) -> None:
    device = CudaDevice(DeviceId("cuda"))
    kernel = device.load(bytes(8), "first", "k")

    class Cycle:
        def __init__(self) -> None:
            self.own, self.held = self, device.allocate(1000)

    Cycle()
    small = device.allocate(500)
    del small
    device.collect()
    driver.short.add(name)
    driver.calls.clear()
    if name == "cuMemAllocAsync":
        device.allocate(1 << 30)
    else:
        device.launch(kernel, bytes(8), 7, 1)
    assert driver.calls.count("cuMemFreeAsync") == 2
    assert "cuMemPoolTrimTo" in driver.calls


@pytest.mark.parametrize("code", [b"", bytes(7), bytes(9), b"\1" + bytes(7)])
def test_code_that_is_not_whole(driver: Driver, code: bytes) -> None:
    device = CudaDevice(DeviceId("cuda"))
    with pytest.raises(KernelBuildError, match="it isn't whole"):
        device.load(code, "k", "k")


@pytest.mark.parametrize(
    ("call", "code", "kind", "expected"),
    [
        ("cuInit", 100, BackendError, "the driver finds no GPU"),
        ("cuDeviceGet", 101, BackendError, r"there is no GPU 0: the driver finds 4096"),
        (
            "cuInit",
            803,
            BackendError,
            r"starting the driver: .* CUDA_ERROR_TEST \(803\)",
        ),
        ("cuMemAllocAsync", 2, AllocationError, "MiB can't be had on A GPU"),
        ("cuLaunchKernel", 2, AllocationError, "the local memory of its threads"),
        ("cuStreamQuery", 716, BackendError, "the GPU's context is lost"),
        ("cuMemAllocAsync", 700, BackendError, "the GPU's context is lost"),
        ("cuModuleLoadData", 222, KernelBuildError, "remove the cached kernels"),
        ("cuModuleGetFunction", 500, KernelBuildError, "there is no k in it"),
        ("cuLinkComplete", 218, KernelBuildError, "update an old driver"),
        (
            "cuLaunchKernel",
            701,
            BackendError,
            "kernel k: the kernel needs more",
        ),
        ("cuStreamQuery", 700, BackendError, "memory that isn't its own"),
    ],
)
def test_failures_of_the_driver(
    driver: Driver, call: str, code: int, kind: type[Exception], expected: str
) -> None:
    def use() -> None:
        device = CudaDevice(DeviceId("cuda"))
        device.allocate(2 << 20)
        code = device.compile(nvvm().fill_ir("k"))
        kernel = device.load(code, "k", "k")
        device.launch(kernel, bytes(8), 10, 1)
        device.wait()

    use()
    driver.failures[call] = code
    with pytest.raises(kind, match=expected):
        use()


@pytest.mark.usefixtures("no_gpu")
def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendError, match="NVIDIA's driver isn't installed"):
        CudaDevice(DeviceId("cuda"))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    with pytest.raises(BackendError, match="driver is older than CUDA 11"):
        CudaDevice(DeviceId("cuda"))
