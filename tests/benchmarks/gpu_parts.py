"""Measures one part of `gpu` in a process: `python -m tests.benchmarks.gpu_parts PART`.

Prints a JSON object for each figure. What each is compared with (a plain copy by the
driver, kernels written by hand) is measured beside it, in the same process.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lumijit.compiler.lower.cooperative.kernels import nvvm
from lumijit.runtime import device as devices
from lumijit.runtime.device import DeviceId
from lumijit.runtime.dtypes import FLOAT32
from lumijit.runtime.errors import BackendError
from tests.benchmarks.gpu_kernels import Handwritten
from tests.benchmarks.gpu_times import (
    evaluated,
    first_line,
    is_lost,
    measuring,
    seconds_of,
    tell,
    wall_seconds,
)

#: How often a plain copy and a kernel written by hand are measured.
ROUNDS = 20

Figure = dict[str, Any]


def figure(
    name: str,
    value: float,
    unit: str,
    bound: float | None = None,
    note: str = "",
    is_least: bool = False,
) -> Figure:
    """Return a figure, which is to be at most (or at least) its bound."""
    found = {"name": name, "value": value, "unit": unit, "bound": bound}
    return {**found, "is_least": is_least, "note": note}


@dataclass
class Bench:
    """The device, and by which power of four sizes are divided (0 on a GPU)."""

    device: Any
    shift: int

    @cached_property
    def copy_rate(self) -> float:
        """What a plain copy reads and writes in a second, in bytes."""
        device, size = self.device, max(1 << 12, (1 << 30) >> 2 * self.shift)
        a, b = device.allocate(size), device.allocate(size)
        return (
            2
            * size
            / self.fastest(lambda: device.copy_within(b.address, a.address, size))
        )

    def fastest(self, launch: Callable[[], None], count: int = 1) -> float:
        """Return the device's seconds of a launch, the best of rounds."""

        def batch() -> None:
            for _ in range(count):
                launch()

        return min(self.device.timed(batch) for _ in range(ROUNDS)) / count

    def host_us(self, call: Callable[[], Any]) -> float:
        """Return the microseconds of one of many calls in a row, by the clock."""
        for _ in range(20):
            call()
        count = max(1, 2000 >> self.shift)
        return min(wall_seconds(call, count) for _ in range(5)) * 1e6

    @cached_property
    def handwritten(self) -> Handwritten:
        """The kernels in CUDA."""
        return Handwritten(self.device)

    @property
    def is_gpu(self) -> bool:
        """Whether the driver is there."""
        return hasattr(self.device, "_driver")

    def share(self, name: str, bytes_: int, seconds: float, bound: float) -> Figure:
        """Return which part of the copy's bandwidth something reaches."""
        rate = bytes_ / seconds
        note = f"{seconds * 1e6:.1f} µs, {rate / 1e9:.0f} GB/s"
        percent = 100 * rate / self.copy_rate
        return figure(name, percent, "% of the copy", bound, note, is_least=True)


def checked(name: str, found: Any, wanted: Any) -> Iterator[Figure]:
    """Return an error if results differ, else nothing."""
    a, b = np.asarray(found).ravel(), np.asarray(wanted).ravel()
    if a.shape != b.shape:
        yield {"name": name, "error": f"{a.size} entries instead of {b.size}"}
        return
    wrong = np.flatnonzero(a != b)
    if len(wrong):
        at = wrong[0]
        text = f"{len(wrong)} of {a.size} entries; at {at}, {a[at]} instead of {b[at]}"
        yield {"name": name, "error": f"wrong results: {text}"}


def kernel_seconds(call: Callable[[], Any]) -> float:
    """Return what a call's kernels take by the history."""
    import lumijit as dr

    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        call()
        entries = dr.kernel_history()
    return sum(entry["execution_time"] for entry in entries) / 1e6


def copy(bench: Bench) -> Iterator[Figure]:
    """The device, and how fast a plain copy is."""
    device, version = bench.device, ctypes.c_int()
    if bench.is_gpu:
        device._driver.cuDriverGetVersion(ctypes.byref(version))
    processor = getattr(device, "processor", "no processor")
    number = f"{version.value // 1000}.{version.value % 1000 // 10}"
    note = f"{device.name}, {processor}, driver {number}, {os.cpu_count()} CPU cores"
    yield {"name": "device", "note": note}
    yield figure("copy 1 GiB", bench.copy_rate / 1e9, "GB/s")


def saxpy(bench: Bench) -> Iterator[Figure]:
    """`a x + y` beside a copy."""
    from tests.benchmarks.gpu_programs import program, size_of

    n = size_of("saxpy", bench.shift)
    call = evaluated(program("saxpy", bench.shift))
    i = np.arange(n, dtype=np.uint32)
    wanted = np.float32(2.5) * (i & 1023).astype(np.float32) + (i & 255)
    yield from checked("saxpy", call().numpy(), wanted)
    yield bench.share("saxpy", 12 * n, seconds_of(call), 90)
    alone = min(kernel_seconds(call) for _ in range(5))
    yield bench.share("saxpy, by the kernel history", 12 * n, alone, 90)
    if bench.is_gpu:
        held = [bench.device.allocate(4 * n) for _ in range(3)]
        places = [ctypes.c_uint64(buffer.address) for buffer in held]
        args = ctypes.c_float(2.5), *places, ctypes.c_uint32(n)
        blocks = -(-n // 256)
        seconds = bench.fastest(
            lambda: bench.handwritten.launch("saxpy", blocks, 256, *args)
        )
        yield {**bench.share("saxpy by hand", 12 * n, seconds, 0), "bound": None}


def total(bench: Bench) -> Iterator[Figure]:
    """A reduction beside a copy."""
    from tests.benchmarks.gpu_programs import program, size_of

    n = size_of("sum", bench.shift)
    call = evaluated(program("sum", bench.shift))
    yield from checked("sum", call().numpy(), [n // 16])
    yield bench.share("sum", 4 * n, seconds_of(call), 80)


def prefix_sum(bench: Bench) -> Iterator[Figure]:
    """A scan beside a copy."""
    from tests.benchmarks.gpu_programs import program, size_of

    n = size_of("prefix_sum", bench.shift)
    call = evaluated(program("prefix_sum", bench.shift))
    yield from checked("prefix_sum", call().numpy(), (np.arange(n) + 15) // 16)
    yield bench.share("prefix_sum", 8 * n, seconds_of(call), 80)


def collectives(bench: Bench) -> Iterator[Figure]:
    """The kernels of copies, reductions and scans alone."""
    if not bench.is_gpu:
        return
    device, writer, size = bench.device, nvvm(), (1 << 26) >> 2 * bench.shift
    held = [device.allocate(4 * size) for _ in range(4)]
    source, target, sums, ready = (buffer.address for buffer in held)
    ones, zeros = np.ones(size, np.float32), np.zeros(size, np.float32)
    device.copy_in(source, ones.ctypes.data, ones.nbytes)
    tile = writer.scan_block(FLOAT32)
    tiles = -(-size // tile)
    cases = {
        "copy": (writer.copy_ir("copy"), size // 16, writer.LINES, 8, (source, target)),
        "reduce": (
            writer.reduce_ir("reduce", "add", FLOAT32),
            *(size, writer.REDUCE_BLOCK, 4),
            (source, sums, writer.REDUCE_BLOCK),
        ),
        "scan": (
            writer.scan_ir("scan", "add", FLOAT32, False, False),
            *(size, tile, 8),
            (source, target, sums, ready, tile),
        ),
    }
    for name, (ir, count, block, per_entry, slots) in cases.items():
        kernel = device.load(device.compile(ir), name, name, writer.THREADS)
        args = struct.pack(f"<{len(slots)}q", *slots)
        seconds = []
        for _ in range(ROUNDS):
            device.copy_in(ready, zeros.ctypes.data, 16 * tiles)
            seconds.append(
                device.timed(lambda: device.launch(kernel, args, count, block))  # noqa: B023
            )
        found = bench.share(f"kernel {name}", per_entry * size, min(seconds), 0)
        yield {**found, "bound": None}


def against(
    bench: Bench,
    name: str,
    seconds: float,
    others: dict[str, float],
    bound: float,
) -> Iterator[Figure]:
    """Compare with kernels by hand: the fastest is what counts."""
    for other, taken in others.items():
        note = f"{seconds * 1e6:.1f} µs, by hand {taken * 1e6:.1f} µs"
        counts = bound if taken == min(others.values()) else None
        yield figure(f"{name} / {other}", seconds / taken, "times", counts, note)


def mandelbrot(bench: Bench) -> Iterator[Figure]:
    """A symbolic loop beside one by hand."""
    from tests.benchmarks import gpu_programs as programs

    n = programs.size_of("mandelbrot", bench.shift)
    side = round(n**0.5)
    call = evaluated(programs.program("mandelbrot", bench.shift))
    found = np.array(call().numpy())
    seconds = seconds_of(call)
    yield figure("mandelbrot", seconds * 1e6, "µs")
    others: dict[str, float] = {}
    if bench.is_gpu:
        target = bench.device.allocate(4 * n)
        numbers = programs.LEFT, programs.TOP, programs.WIDTH / side
        args: list[Any] = [ctypes.c_uint64(target.address), ctypes.c_uint32(side)]
        args += [ctypes.c_uint32(programs.ITERATIONS), *map(ctypes.c_float, numbers)]
        for name in ("mandelbrot_rows", "mandelbrot_tiles"):
            others[name] = bench.fastest(
                lambda: bench.handwritten.launch(name, n // 256, 256, *args),  # noqa: B023
                3,
            )
            data = bench.device.copy_out(target.address, 4 * n)
            yield from checked(name, found, np.frombuffer(data, np.uint32))
    yield from against(bench, "mandelbrot", seconds, others, 1.2)
    alone = min(kernel_seconds(call) for _ in range(3))
    yield figure("mandelbrot, by the kernel history", alone * 1e6, "µs")


def address_of(x: Any) -> int:
    """Return where an array lies in the GPU's memory."""
    return int(x.__cuda_array_interface__["data"][0])


def bins(bench: Bench) -> Iterator[Figure]:
    """Atomic additions beside those by hand."""
    import lumijit as dr
    from tests.benchmarks import gpu_programs as programs

    n = programs.size_of("scatter_add", bench.shift)
    index, x = programs.bin_inputs(n)
    wanted = np.bincount(index.numpy(), x.numpy(), programs.BINS)
    call = evaluated(programs.program("scatter_add", bench.shift))
    yield from checked("scatter_add", call().numpy(), wanted)
    seconds = seconds_of(call)
    yield figure("scatter_add", seconds * 1e6, "µs")
    others: dict[str, float] = {}
    if bench.is_gpu:
        dr.sync_thread()
        target = bench.device.allocate(4 * programs.BINS)
        places = target.address, address_of(index), address_of(x)
        args = [*map(ctypes.c_uint64, places), ctypes.c_uint32(n)]
        grids = {"bins_global": (-(-n // 256), 256), "bins_shared": (1056, 512)}
        for name, grid in grids.items():
            bench.device.write(target.address, bytes(4 * programs.BINS))
            bench.handwritten.launch(name, *grid, *args)
            data = bench.device.copy_out(target.address, 4 * programs.BINS)
            yield from checked(name, np.frombuffer(data, np.float32), wanted)
            others[name] = bench.fastest(
                lambda: bench.handwritten.launch(name, *grid, *args),  # noqa: B023
                3,
            )
    yield from against(bench, "scatter_add", seconds, others, 1.5)


def launches(bench: Bench) -> Iterator[Figure]:
    """What a small launch takes, by the clock."""
    import lumijit as dr
    from lumijit.llvm import Float
    from tests.benchmarks.gpu_programs import program

    x, k = dr.arange(Float, 1024), dr.opaque(Float, 3)
    dr.eval(x, k)
    numbers, taken = itertools.count(), bench.host_us
    fresh = evaluated(program("small launch", 0))
    yield figure("small launch, number put there", taken(fresh), "µs", 10)
    plain = taken(lambda: dr.eval(x * k + 1))
    yield figure("small launch, number there already", plain, "µs", 10)
    opaque = taken(lambda: dr.opaque(Float, next(numbers) % 7))
    yield figure("a number put there", opaque, "µs")
    traced = taken(lambda: x * k + 1)
    yield figure("tracing of it alone", traced, "µs")
    device = bench.device
    size = 4 << 20
    room = taken(lambda: device.give(device.take(size), size))
    yield figure("memory from the driver and back", room, "µs")
    if bench.is_gpu:
        put = device.take(64)
        data = bytes(64)
        yield figure("64 bytes copied", taken(lambda: device.write(put, data)), "µs")
        device.give(put, 64)


def replay(bench: Bench) -> Iterator[Figure]:
    """What a recorded function takes, by the clock."""
    import lumijit as dr
    from lumijit.llvm import Float

    x, k = dr.arange(Float, 1024), dr.opaque(Float, 3)
    dr.eval(x, k)
    numbers, taken = itertools.count(), bench.host_us
    replayed = dr.kernel(lambda a, b: a * b + 1)
    yield figure("replay", taken(lambda: replayed(x, k)), "µs", 3)
    yield from checked("replay", replayed(x, k).numpy(), np.arange(1024) * 3 + 1)
    again = taken(lambda: replayed(x, dr.opaque(Float, next(numbers) % 7)))
    yield figure("replay, number put there", again, "µs")


def building(bench: Bench) -> Iterator[Figure]:
    """What the first call of a picture takes, with nothing stored."""
    import lumijit as dr
    from examples import sdf_sphere
    from lumijit.llvm import Float

    device, spent = bench.device, {"compile": 0.0, "load": 0.0}

    def watch(name: str) -> None:
        original = getattr(device, name)

        def watched(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            result = original(*args, **options)
            spent[name] += time.perf_counter() - start
            return result

        setattr(device, name, watched)

    for name in spent:
        watch(name)
    look = sdf_sphere.VARIANTS[0]
    warm = wall_seconds(lambda: dr.eval(dr.opaque(Float, 1, 64) + 1))
    yield figure("first kernel of all", warm * 1e3, "ms", None, parts_of(spent))
    spent.update(compile=0.0, load=0.0)
    start = time.perf_counter()
    pixels = sdf_sphere.render(64, 64, look)
    traced = time.perf_counter() - start
    launched = wall_seconds(lambda: dr.eval(pixels))
    note = f"tracing {traced * 1e3:.1f} ms, {parts_of(spent)}"
    total = (traced + launched) * 1e3
    yield figure("first call of sdf_sphere", total, "ms", None, note)


def parts_of(spent: dict[str, float]) -> str:
    """Say what making machine code and loading it took."""
    made, loaded = (spent[name] * 1e3 for name in ("compile", "load"))
    return f"LLVM and the driver's assembler {made:.1f} ms, loading {loaded:.1f} ms"


PARTS = {
    "copy": copy,
    "saxpy": saxpy,
    "sum": total,
    "prefix_sum": prefix_sum,
    "mandelbrot": mandelbrot,
    "bins": bins,
    "launches": launches,
    "replay": replay,
    "building": building,
    "collectives": collectives,
}


def run(part: str, bench: Bench) -> int:
    """Print what a part finds; return the status."""
    try:
        for found in PARTS[part](bench):
            tell(found)
    except Exception as error:
        tell({"name": part, "error": first_line(error)})
        if is_lost():
            tell({"name": part, "error": "the device is lost"})
        return 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure a part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--emulated", action="store_true", help="without a GPU")
    options = parser.parse_args(arguments)
    with measuring("lumijit", "emulated" if options.emulated else "cuda"):
        try:
            device = devices.find(DeviceId("cuda"))
        except BackendError as error:
            tell({"name": options.part, "missing": str(error)})
            return 1
        return run(options.part, Bench(device, 8 if options.emulated else 0))


if __name__ == "__main__":
    sys.exit(main())
