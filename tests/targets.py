"""Generates code for another target than this processor suggests.

LLVM lowers masks as bits on processors without mask registers, too, and words of 32
bits on those with them: so both forms of the code run everywhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.launch import kernels, named_kernels
from lumijit.compiler.plan import target as targets
from lumijit.runtime import device
from lumijit.runtime.attached import Attached
from lumijit.runtime.cuda import CudaDevice
from lumijit.runtime.device import DeviceId
from lumijit.runtime.errors import BackendError
from tests import emulated_device


def target_of(name: str) -> TargetInfo:
    """Return what to assume of the processor: see `NAMES`."""
    host = kernels.target()
    if name in ("host", "thread", *DEVICES):
        return host
    # (With masks, gathers are used where they aren't on this processor.)
    has_masks = name == "masks"
    has_fast_gathers = has_masks and not host.has_fast_gathers
    return host._replace(
        has_masks=has_masks, has_avx512=False, has_fast_gathers=has_fast_gathers
    )


#: All arrays are on an emulated device, or on the first GPU.
DEVICES = ("device", "gpu")
# As the processor is; without mask registers; with them, as AVX-512 has; code for
# threads instead of packets.
NAMES = ("host", "vectors", "masks", "thread", *DEVICES)


@contextmanager
def standing_in(name: str) -> Iterator[Attached | None]:
    """Have all arrays of `lumijit.llvm` that are made on a device, if it is one."""
    if name == "device":
        with emulated_device.standing_in() as made:
            yield made
    elif name == "gpu":
        found = device.find(DeviceId("cuda"))
        with emulated_device.computing_on(found.id):
            yield found
    else:
        yield None


def leave_if_lost() -> None:
    """End the process if a kernel has broken the GPU's context: nothing works there."""
    found = device.opened.get(DeviceId("cuda"))
    if not isinstance(found, CudaDevice):
        return
    try:
        found.wait()
    except BackendError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(3)


def use(name: str) -> None:
    """Write kernels for threads, or for packets."""
    kernels.use(kernels.target_named("thread" if name == "thread" else "packet"))


@contextmanager
def written_for(name: str) -> Iterator[None]:
    """Write kernels for threads or packets in the block."""
    former = targets.in_use()
    kernels.use(kernels.target_named(name))
    try:
        yield
    finally:
        kernels.use(former)


@contextmanager
def generating_for(target: TargetInfo) -> Iterator[TargetInfo]:
    """Generate code for a target in the block; kernels made before are forgotten."""
    former = kernels.target()
    _assume(target)
    try:
        yield target
    finally:
        _assume(former)


def _assume(target: TargetInfo) -> None:
    kernels._target = target
    kernels.flush()
    named_kernels.flush()
