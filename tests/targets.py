"""Generates code for another target than this processor suggests.

LLVM lowers masks as bits on processors without mask registers, too, and words of 32
bits on those with them: so both forms of the code run everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lumijit.compiler.emit.builder import TargetInfo
from lumijit.compiler.launch import kernels, named_kernels


def target_of(name: str) -> TargetInfo:
    """Return a target that this processor can run: see `NAMES`."""
    host = kernels.target()
    if name == "host":
        return host
    return replace(host, has_masks=name == "masks", has_avx512=False)


# As the processor is; without mask registers; with them, as AVX-512 and GPUs have.
NAMES = ("host", "vectors", "masks")


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
