"""Runs collectives on a GPU and times them: `python -m tests.tools.gpu`.

Prints what each reaches of the memory's bandwidth, beside a plain copy by the driver's
clock. The status is 1 if there is no GPU.
"""

from __future__ import annotations

import struct
import sys

import numpy as np

from lumijit.compiler.lower.cooperative.kernels import nvvm
from lumijit.runtime.cuda import CudaDevice
from lumijit.runtime.device import DeviceId
from lumijit.runtime.dtypes import FLOAT32
from lumijit.runtime.errors import BackendError

SIZE = 1 << 26
ROUNDS = 10


def main() -> int:
    """Print the table; return the status."""
    try:
        device = CudaDevice(DeviceId("cuda"))
    except BackendError as error:
        print(error)
        return 1
    print(f"{device.name}, {device.processor}, {SIZE} entries of f32")
    writer = nvvm()
    held = [device.allocate(4 * SIZE) for _ in range(4)]
    source, target, sums, ready = (buffer.address for buffer in held)
    ones, zeros = np.ones(SIZE, np.float32), np.zeros(SIZE, np.float32)
    device.copy_in(source, ones.ctypes.data, ones.nbytes)
    tiles, parts = -(-SIZE // writer.SCAN_BLOCK), -(-SIZE // writer.REDUCE_BLOCK)
    cases = {
        "copy": (writer.copy_ir("copy"), SIZE // 16, writer.LINES, 8, (source, target)),
        "reduce": (
            writer.reduce_ir("reduce", "add", FLOAT32),
            *(SIZE, writer.REDUCE_BLOCK, 4),
            (source, sums, writer.REDUCE_BLOCK),
        ),
        "scan": (
            writer.scan_ir("scan", "add", FLOAT32, False, "pause", False),
            *(SIZE, writer.SCAN_BLOCK, 8),
            (source, target, sums, ready, writer.SCAN_BLOCK),
        ),
    }
    for name, (ir, size, block, per_entry, slots) in cases.items():
        kernel = device.load(device.compile(ir), name, name, writer.THREADS)
        args = struct.pack(f"<{len(slots)}q", *slots)
        seconds = []
        for _ in range(ROUNDS):
            device.copy_in(ready, zeros.ctypes.data, 8 * tiles)
            seconds.append(
                device.timed(lambda: device.launch(kernel, args, size, block))  # noqa: B023
            )
        rate = per_entry * SIZE / min(seconds) / 1e9
        print(f"{name:8} {min(seconds) * 1e6:10.1f} µs {rate:8.0f} GB/s")
    found = np.frombuffer(device.copy_out(sums, 4 * parts), np.float32)
    print(f"({parts} partial sums, of which the first is {found[0]})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
