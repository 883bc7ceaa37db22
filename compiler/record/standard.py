"""Kernels that need no trace, built as lumijit is installed.

`python -m lumijit.compiler.record.standard` runs what most programs need of them once,
for the types of four and eight bytes: then the disk cache has them, and the code of the
workers' threads. Owns which these are; where they are looked up is `runtime.cache`'s
business, and `setup.py` builds them.
"""

from __future__ import annotations

import numpy as np

from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import REGISTRY
from lumijit.compiler.ir.ops.mathematics import HALF_POWER
from lumijit.compiler.launch import native_folding, transfer
from lumijit.compiler.launch.evaluate import from_numpy
from lumijit.compiler.launch.private_copies import merger
from lumijit.compiler.record import products, reductions, sorting
from lumijit.runtime import device, workers
from lumijit.runtime.dtypes import BOOL, FLOATS, INTS, UINT32, UINT64, DType

_TYPES = tuple(t for t in INTS + FLOATS if t.bits >= 32)
_COMBINING = ("add", "mul", "min", "max")
# Short runs have kernels of their own lengths.
_RUNS = (2, 3, 4, 8, 16, 96)
# Several blocks of all kernels, and whole runs.
_ENTRIES = 96 << 10
_FEW = 96


def _entries(t: DType, count: int = _ENTRIES) -> Node:
    return from_numpy(np.ones(count, t.numpy))


def build() -> None:
    """Run each kernel once."""
    for t in _TYPES:
        _combine(t)
        for op in ("min", "max"):
            sorting.extreme_places(_entries(t), _ENTRIES, op)
    for op in ("and", "or"):
        reductions.reduce(op, _entries(BOOL))
    reductions.compress(_entries(BOOL))
    for t in (UINT32, UINT64):
        for count in (_FEW, _ENTRIES):
            sorting.sort(_entries(t, count), False, count)
            sorting.argsort_runs(_entries(t, count), count)
    for t in FLOATS[1:]:
        sizes = products.Sizes(1, 8, 8, 8)
        products.matmul(_entries(t, 64), _entries(t, 64), sizes)
        for function in REGISTRY.values():
            # (Of half powers, each has a kernel of its own.)
            if function.own_rounding and function is not HALF_POWER:
                native_folding.compute(function, t, [1.0] * function.arity)
    _move()
    workers.sync()


def _combine(t: DType) -> None:
    for op in _COMBINING:
        reductions.reduce(op, _entries(t))
        merger(op, t)
        for run in _RUNS:
            reductions.block_reduce(op, _entries(t), run)
    for is_exclusive in (False, True):
        reductions.prefix("add", _entries(t), is_exclusive)


def _move() -> None:
    """Copy and fill memory."""
    source = reductions.evaluated(_entries(UINT32))
    target = device.allocate(source.size_bytes)
    transfer.fill(target, UINT32, 0, _ENTRIES)
    transfer.copy(target, source, source.size_bytes)


if __name__ == "__main__":
    build()
