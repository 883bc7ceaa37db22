"""Generates code for another target than this processor suggests.

LLVM lowers masks as bits on processors without mask registers, too, and words of 32
bits on those with them: so both forms of the code run everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.launch import kernels, named_kernels
from lumijit.compiler.plan import target as targets
from lumijit.runtime.settings import settings


def target_of(name: str) -> TargetInfo:
    """Return what to assume of the processor: see `NAMES`."""
    host = kernels.target()
    if name in ("host", "thread", "device"):
        return host
    return host._replace(has_masks=name == "masks", has_avx512=False)


# As the processor is; without mask registers; with them, as AVX-512 has; code for
# threads instead of packets; and all arrays on an emulated device.
NAMES = ("host", "vectors", "masks", "thread", "device")


def use(name: str) -> None:
    """Write kernels for threads, or for packets; in processes started here, too."""
    kind = "thread" if name == "thread" else settings.target
    os.environ["LUMIJIT_TARGET"] = kind
    kernels.use(kernels.target_named(kind))


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
