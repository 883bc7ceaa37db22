"""Arrays' memory comes back with the last reference, not with the garbage collector.

The collector seldom runs while arrays are few and large, which a program notices by the
memory that it lacks. (Where variables and their gradients refer to each other, it runs
before memory grows: `tests.runtime.test_collector`.)
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import lumijit as dr
from lumijit.llvm import Float, Matrix3f, TensorXf, UInt, ad
from lumijit.runtime import buffers
from lumijit.runtime.settings import settings

SIZE = 1000


@dr.syntax
def powers(x: Any, n: Any) -> Any:
    i = UInt(0)
    while i < n:
        if x > 2:
            x = dr.sqrt(x)
        x *= x
        i += 1
    return x


def elementwise() -> None:
    dr.eval(dr.arange(Float, SIZE) * 3 + 1)


def collectives() -> None:
    x = dr.arange(Float, SIZE) + 1
    dr.eval(dr.sum(x), dr.prefix_sum(x), dr.compress(x > 4), dr.block_sum(x, 10))
    Matrix3f(x) @ Matrix3f(x + 1)


def accesses() -> None:
    target = dr.zeros(Float, 10)
    index = dr.arange(UInt, SIZE) % 10
    dr.scatter_add(target, dr.arange(Float, SIZE), index)
    dr.eval(target, dr.gather(Float, dr.arange(Float, 10) + 1, index))


def tensors() -> None:
    x = TensorXf(dr.arange(Float, 60), (3, 4, 5))
    dr.eval(dr.sum(x, axis=1) + x[:, 0], x[0:2])


def control() -> None:
    dr.eval(powers(dr.arange(Float, SIZE), dr.arange(UInt, SIZE) % 4))
    x = dr.arange(Float, SIZE)
    dr.eval(dr.switch(dr.arange(UInt, SIZE) % 2, [dr.sin, dr.cos], x))


def evaluated() -> None:
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        dr.eval(powers(dr.arange(Float, SIZE), UInt(4)))


def derivatives() -> None:
    x = dr.arange(ad.Float, SIZE) + 1
    dr.enable_grad(x)
    y = powers(dr.sin(x), ad.UInt(3))
    dr.backward(dr.sum(y * x))
    dr.eval(dr.grad(x))


def recorded() -> None:
    @dr.kernel
    def f(x: Any) -> Any:
        return dr.sin(x) + dr.sum(x)

    for _ in range(3):
        dr.eval(f(dr.arange(Float, SIZE) + 1))
    # The function is part of cycles, and has its recordings.
    f.clear()


def refused() -> None:
    with pytest.raises(RuntimeError):
        dr.arange(Float, SIZE) + dr.arange(Float, 3)


@contextmanager
def _found_by_collector() -> Iterator[list[object]]:
    found: list[object] = []
    gc.collect()
    was_enabled, before = gc.isenabled(), len(gc.garbage)
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage[before:]
    finally:
        gc.set_debug(0)
        del gc.garbage[before:]
        if was_enabled:
            gc.enable()


@pytest.mark.parametrize(
    "program",
    [
        elementwise,
        collectives,
        accesses,
        tensors,
        control,
        evaluated,
        derivatives,
        recorded,
        refused,
    ],
)
def test_no_memory_waits_for_the_collector(
    program: Callable[[], None], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Kernels are compiled anew: nothing of that may keep arrays.
    tmp_path.chmod(0o700)
    monkeypatch.setattr(settings, "cache_dir", str(tmp_path))
    dr.flush_kernel_cache()
    for _ in range(2):
        with _found_by_collector() as found:
            program()
        assert [thing for thing in found if isinstance(thing, buffers.Buffer)] == []
