"""What measures GPUs runs on an emulated device, with NumPy for kernels by hand."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lumijit import spec
from lumijit.runtime.libcuda import library
from tests.benchmarks import gpu, gpu_kernels, gpu_parts, gpu_programs
from tests.benchmarks.gpu_parts import Bench, Figure
from tests.emulated_device import emulated


class Stand:
    """Does what `gpu_kernels.cu` does, in the same order of arguments."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def _read(self, address: int, dtype: type, count: int) -> Any:
        return np.frombuffer(self._device.copy_out(address, 4 * count), dtype)

    def launch(self, name: str, blocks: int, threads: int, *args: Any) -> None:
        values = [arg.value for arg in args]
        getattr(self, "_" + name.split("_")[0])(*values)

    def _saxpy(self, a: float, x: int, y: int, out: int, n: int) -> None:
        sums = a * self._read(x, np.float32, n) + self._read(y, np.float32, n)
        self._device.write(out, sums.astype(np.float32).tobytes())

    def _bins(self, bins: int, index: int, x: int, n: int) -> None:
        found = self._read(bins, np.float32, gpu_programs.BINS).astype(np.float64)
        np.add.at(found, self._read(index, np.uint32, n), self._read(x, np.float32, n))
        self._device.write(bins, found.astype(np.float32).tobytes())

    def _mandelbrot(
        self, out: int, side: int, limit: int, left: float, top: float, step: float
    ) -> None:
        row, column = np.divmod(np.arange(side * side), side)
        c = left + step * column + 1j * (top + step * row)
        z, count = np.zeros_like(c), np.zeros(side * side, np.uint32)
        for _ in range(limit):
            inside = (z.real**2 + z.imag**2) < 4
            count += inside
            z = np.where(inside, z * z + c, z)
        self._device.write(out, count.tobytes())


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(gpu_parts, "Handwritten", Stand)
    monkeypatch.setattr(gpu_parts, "ROUNDS", 2)
    monkeypatch.setattr(Bench, "is_gpu", True)
    with emulated() as device:
        # (The programs' modules may have been imported before.)
        monkeypatch.setitem(vars(spec.LLVM), "device", device.id)
        yield Bench(device, 8)


@pytest.mark.host("devices of its own")
@pytest.mark.parametrize("part", ["saxpy", "sum", "prefix_sum", "mandelbrot", "bins"])
def test_parts_find_the_right_results(part: str, bench: Bench) -> None:
    found = list(gpu_parts.PARTS[part](bench))
    assert found
    assert bench.device.launched
    for figure in found:
        if part == "mandelbrot" and "error" in figure:
            # (NumPy rounds in another way.)
            assert int(figure["error"].split()[2]) < 50
        else:
            assert figure["value"] > 0


def test_wrong_results_are_errors() -> None:
    (found,) = gpu_parts.checked("sum", [1, 2, 4], [1, 2, 3])
    assert found["error"] == "wrong results: 1 of 3 entries; at 2, 4 instead of 3"
    (found,) = gpu_parts.checked("sum", [1], [1, 2])
    assert found["error"] == "1 entries instead of 2"


@pytest.mark.parametrize(
    ("value", "is_least", "word"),
    [(95, True, "met"), (85, True, "MISSED"), (85, False, "met")],
)
def test_lines_say_whether_bounds_are_met(
    value: float, is_least: bool, word: str
) -> None:
    figure: Figure = gpu_parts.figure("x", value, "%", 90, "", is_least)
    assert f" {word} " in gpu.shown(figure) + " "


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc")
def test_kernels_by_hand_are_compiled() -> None:
    assert gpu_kernels.assembled("sm_90").startswith(b"\x7fELF")


def test_without_a_gpu_it_says_what_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        library()
    except RuntimeError:
        assert gpu.main([]) == 1
        assert "there is no device" in capsys.readouterr().out
    else:
        pytest.skip("there is a driver")
