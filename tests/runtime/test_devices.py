"""Devices: the same kernels on the host, emulated and, where there is one, on a GPU."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.ops.mathematics import SIN
from lumijit.compiler.ir.trace import emit1, emit2
from lumijit.compiler.launch import kernels
from lumijit.compiler.lower.cooperative.kernels import Cooperative, nvvm
from lumijit.compiler.lower.thread.ptx import PtxTarget
from lumijit.compiler.plan.program import Program
from lumijit.compiler.plan.signature import Signature
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.cuda import CudaDevice
from lumijit.runtime.device import Device, DeviceId, Host
from lumijit.runtime.dtypes import FLOAT32, FLOAT64, INT32, UINT32, DType
from lumijit.runtime.errors import (
    BackendError,
)
from tests.compiler.support import Array, array, lit, random_values
from tests.emulated_block import emulated
from tests.emulated_device import EmulatedDevice
from tests.thread_target import ThreadTarget

SIZES = (1, 33, 5000, 1_100_000)


def gpu() -> CudaDevice:
    try:
        return CudaDevice(DeviceId("cuda"))
    except BackendError as error:
        pytest.skip(str(error))


class Bench:
    """A device with the kernels that are written for it, and what lies in memory."""

    def __init__(self, device: Device, writer: Cooperative, target: Any) -> None:
        self.device = device
        self.writer = writer
        self.target = target
        self.held: dict[int, Buffer] = {}

    def put(self, values: Array) -> int:
        """Return where a copy of values lies."""
        address = self.room(values.nbytes)
        data = np.ascontiguousarray(values)
        self.device.copy_in(address, data.ctypes.data, data.nbytes)
        return address

    def room(self, size_bytes: int) -> int:
        """Return memory for so many bytes."""
        buffer = self.device.allocate(size_bytes)
        self.held[buffer.address] = buffer
        return buffer.address

    def get(self, address: int, dtype: Any, size: int) -> Array:
        """Return a copy of entries."""
        data = self.device.copy_out(address, np.dtype(dtype).itemsize * size)
        return np.frombuffer(data, dtype)

    def build(self, write: Callable[..., str], *args: Any) -> Any:
        """Compile and load a collective."""
        code = self.device.compile(write("kernel", *args))
        return self.device.load(code, "kernel", "kernel", self.writer.THREADS)

    def run(self, kernel: Any, size: int, block: int, *slots: int) -> None:
        """Launch a kernel with its slots."""
        args = struct.pack(f"<{len(slots)}q", *slots)
        self.device.launch(kernel, args, size, block)


@pytest.fixture(params=["host", "emulated", "cuda"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "host":
        yield Bench(Host(), emulated(), ThreadTarget())
    elif request.param == "emulated":
        made = EmulatedDevice(DeviceId("cuda"))
        yield Bench(made, emulated(), ThreadTarget())
        made.close()
    else:
        yield Bench(gpu(), nvvm(), PtxTarget())


@pytest.mark.parametrize("t", [FLOAT32, FLOAT64, INT32], ids=lambda t: t.short)
def test_reductions(bench: Bench, t: DType) -> None:
    kernel = bench.build(bench.writer.reduce_ir, "add", t)
    block = bench.writer.REDUCE_BLOCK
    for size in SIZES:
        values = (random_values(INT32, size) % 16).astype(t.numpy)
        count = -(-size // block)
        partial, result = bench.room(8 * count), bench.room(8)
        bench.run(kernel, size, block, bench.put(values), partial, block)
        bench.run(kernel, count, count, partial, result, count)
        assert bench.get(result, t.numpy, 1)[0] == values.sum(dtype=t.numpy)


@pytest.mark.parametrize("exclusive", [False, True])
def test_scans(bench: Bench, exclusive: bool) -> None:
    kernel = bench.build(bench.writer.scan_ir, "add", UINT32, exclusive, False)
    block = bench.writer.scan_block(UINT32)
    for size in SIZES:
        values = random_values(UINT32, size)
        count = -(-size // block)
        ready = bench.put(np.zeros(4 * count, np.uint32))
        result, sums = bench.room(4 * size), bench.room(8 * count)
        source = bench.put(values)
        bench.run(kernel, size, block, source, result, sums, ready, block)
        expected = np.cumsum(values, dtype=np.uint32)
        if exclusive:
            expected = np.concatenate([np.zeros(1, np.uint32), expected[:-1]])
        np.testing.assert_array_equal(bench.get(result, np.uint32, size), expected)


def test_compression(bench: Bench) -> None:
    kernel = bench.build(bench.writer.compress_ir)
    block = bench.writer.scan_block(UINT32)
    for size in SIZES:
        mask = random_values(UINT32, size) % 3 == 0
        count = -(-size // block)
        ready = bench.put(np.zeros(4 * count, np.uint32))
        result, sums, total = (bench.room(4 * n) for n in (size, 2 * count, 1))
        slots = (bench.put(mask), result, sums, ready, block, size, total)
        bench.run(kernel, size, block, *slots)
        expected = np.flatnonzero(mask)
        assert bench.get(total, np.uint32, 1)[0] == len(expected)
        found = bench.get(result, np.uint32, len(expected))
        np.testing.assert_array_equal(found, expected)


def test_one_pass_of_a_sort(bench: Bench) -> None:
    kernel = bench.build(bench.writer.move_ir, UINT32, True, "new", True)
    values = random_values(UINT32, 5000)
    keys, places = bench.room(20_000), bench.room(20_000)
    slots = (bench.put(values), 0, 5000, 1, 0, keys, 0, places)
    bench.run(kernel, 5000, 5000, *slots)
    expected = np.argsort(values & 255, kind="stable")
    np.testing.assert_array_equal(bench.get(places, np.uint32, 5000), expected)
    np.testing.assert_array_equal(bench.get(keys, np.uint32, 5000), values[expected])


def test_copies_and_fills(bench: Bench) -> None:
    values = random_values(UINT32, 16 * 3000)
    source, target = bench.put(values), bench.room(values.nbytes)
    bench.run(bench.build(bench.writer.copy_ir), 3000, 512, source, target)
    np.testing.assert_array_equal(bench.get(target, np.uint32, values.size), values)
    bench.run(bench.build(bench.writer.fill_ir), 2000, 512, target, 7 << 32 | 5)
    found = bench.get(target, np.uint32, values.size).reshape(-1, 2)
    assert (found[: 8 * 2000] == (5, 7)).all()
    np.testing.assert_array_equal(found[8 * 2000 :].ravel(), values[16 * 2000 :])


def test_elementwise_kernels(bench: Bench) -> None:
    values = np.linspace(-3, 3, 100_003, dtype=np.float32)
    x = array(values, FLOAT32)
    node = emit1(SIN, emit2(ar.MUL, x, lit(FLOAT32, 3)))
    index = trace.cast_to(trace.counter(len(values)), FLOAT32)
    program = Program(len(values), [emit2(ar.ADD, node, index)], [], 0)
    code = bench.target.code(program, "kernel", kernels.target())
    device = bench.device
    kernel = device.load(device.compile(code.ir), "kernel", "kernel")
    source, result = bench.put(values), bench.room(values.nbytes)
    places = Signature.of(program)
    slots = [0] * (places.output(0) + 1)
    for k, argument in enumerate(program.arguments):
        number = struct.unpack("<I", struct.pack("<f", 3))[0]
        slots[k] = number if argument.buffer is None else source
    slots[places.output(0)] = result
    bench.run(kernel, len(values), 1 << 14, *slots, 0)
    expected = np.sin(values * 3.0) + np.arange(len(values), dtype=np.float32)
    found = bench.get(result, np.float32, len(values))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_time_on_the_device(bench: Bench) -> None:
    kernel = bench.build(bench.writer.fill_ir)
    target = bench.room(1 << 22)
    seconds = bench.device.timed(lambda: bench.run(kernel, 1 << 16, 512, target, 0))
    assert 0 < seconds < 60
