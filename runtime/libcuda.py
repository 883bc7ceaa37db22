"""The driver's library: finding it, what its failures mean, and waiting for it.

What `cuda` calls is in there under its own name; this is what all calls share.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import time
from collections.abc import Callable
from ctypes import byref, c_char_p
from typing import Any

from lumijit.runtime.errors import BackendError

CONSTRUCT = "lumijit.cuda"
# What the driver returns (cuda.h, CUresult).
OUT_OF_MEMORY, _NO_DEVICE, NO_SUCH_DEVICE = 2, 100, 101
BAD_CODE = (200, 209, 218, 222)
NOT_FOUND, NOT_READY = 500, 600
_OUT_OF_RESOURCES = 701
# After these, nothing works in the context: an access to memory that isn't a kernel's
# own, or not where its size wants it, and other faults of kernels.
_FAULTS = (700, 714, 715, 716, 717, 718, 719)
# How long the driver is asked without a pause, and the longest pause.
_SPINNING_S = 1e-3
_LONGEST_SLEEP_S = 5e-3
_INSTEAD = "compute with the types of lumijit.llvm, or {}; lumijit.ptx shows the code."


@functools.cache
def library() -> Any:
    """Return the driver's functions.

    Raises:
        BackendError: if there is none, or an old one.
    """
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        found = ctypes.CDLL(name)
    except OSError as error:
        raise BackendError(
            CONSTRUCT,
            f"there is no device: NVIDIA's driver isn't installed ({error})",
            _INSTEAD.format("install the driver of the GPU"),
        ) from error
    if not hasattr(found, "cuMemAllocAsync"):
        raise BackendError(
            CONSTRUCT,
            "there is no device: NVIDIA's driver is older than CUDA 11.2",
            _INSTEAD.format("update it"),
        )
    return found


def described(code: int) -> str:
    """Return the driver's name for what it returns."""
    text = c_char_p()
    library().cuGetErrorName(code, byref(text))
    return f"{(text.value or b'an unknown error').decode()} ({code})"


def check(code: int, doing: str) -> None:
    """Raise what a failure of the driver means."""
    if not code:
        return
    if code in (_NO_DEVICE, NO_SUCH_DEVICE):
        raise BackendError(
            CONSTRUCT,
            f"there is no device: {doing}, the driver finds no GPU",
            _INSTEAD.format("make it visible (CUDA_VISIBLE_DEVICES)"),
        )
    if code in _FAULTS:
        raise BackendError(
            CONSTRUCT,
            f"{doing}: a kernel accessed memory that isn't its own, or failed "
            f"otherwise, {described(code)}; the GPU's context is lost",
            "set flag Debug to find the access, LaunchBlocking to find the kernel, and "
            "start the process anew; arrays of lumijit.llvm go on.",
        )
    if code == _OUT_OF_RESOURCES:
        raise BackendError(
            CONSTRUCT,
            f"{doing}: the kernel needs more registers or local memory than there are",
            "evaluate parts of the computation before, or use less local memory.",
        )
    raise BackendError(
        CONSTRUCT,
        f"{doing}: the driver says {described(code)}",
        "see whether `nvidia-smi` finds the GPU; update an old driver.",
    )


def poll(ask: Callable[[], int], doing: str) -> None:
    """Ask until the driver is ready. It waits no better, but answers no signals."""
    began = time.perf_counter()
    while (code := ask()) == NOT_READY:
        # It takes a twentieth longer at most, and no processor for itself.
        waited = time.perf_counter() - began
        if waited > _SPINNING_S:
            time.sleep(min(waited / 20, _LONGEST_SLEEP_S))
    check(code, doing)
