"""Kernels written by hand: compiled with `nvcc`, launched by the driver.

The sources are in `gpu_kernels.cu`. They are launched in the stream of a `CudaDevice`,
so that its marks measure them.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from lumijit.runtime.cuda_kernels import whole
from lumijit.runtime.libcuda import check

SOURCE = Path(__file__).with_suffix(".cu")


class NvccError(Exception):
    """There is no `nvcc`, or it refuses the sources."""


def assembled(processor: str) -> bytes:
    """Return the machine code of all kernels for a processor, such as `sm_90`."""
    command = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if command is None:
        raise NvccError("nvcc isn't installed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.cubin")
        words = [command, "-O3", f"-arch={processor}", "-cubin", "-o", str(path)]
        done = subprocess.run(
            [*words, str(SOURCE)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NvccError(done.stderr.strip() or f"nvcc returned {done.returncode}")
        return path.read_bytes()


class Handwritten:
    """The kernels in a GPU's memory."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._code = assembled(device.processor)
        self._loaded: dict[str, Any] = {}

    def launch(self, name: str, blocks: int, threads: int, *args: Any) -> None:
        """Start a kernel; arguments are values of `ctypes`."""
        device = self._device
        kernel = self._loaded.get(name)
        if kernel is None:
            kernel = self._loaded[name] = device.load(
                whole(self._code), name, name, threads
            )
        pointers = (ctypes.c_void_p * len(args))(*map(ctypes.addressof, args))
        done = device._driver.cuLaunchKernel(
            *(ctypes.c_void_p(kernel.handle), blocks, 1, 1, threads, 1, 1, 0),
            *(device._stream, pointers, None),
        )
        check(done, f"launching {name}")
