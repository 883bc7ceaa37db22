"""Memory that comes back: kernels not used for long, and arrays that kernels read."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

import lumijit as dr
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.ir.ops import arithmetic as ar
from lumijit.compiler.ir.trace import emit1, emit2
from lumijit.compiler.launch import kernels
from lumijit.llvm import Float, UInt
from lumijit.runtime import buffers, history, loader, workers
from lumijit.runtime.config import JitFlag, scoped_set_flag
from lumijit.runtime.dtypes import FLOAT32
from lumijit.runtime.settings import settings
from tests.compiler.support import array, data

ENTRIES = 1 << 18


def chain(number: int) -> Node:
    """Return -x or |x| of the bits of a number: each number is another kernel."""
    node = array(np.arange(50) - 20, FLOAT32)
    for k in range(10):
        node = emit2(ar.ADD, emit1(ar.NEG, node) if number >> k & 1 else node, node)
        node = emit1(ar.ABS, node)
    return node


def is_hit(node: Node) -> bool:
    """Evaluate a node in one kernel and tell whether the kernel was known."""
    with scoped_set_flag(JitFlag.KernelHistory, True):
        history.kernel_history()
        data(node)
        (entry,) = history.kernel_history([history.KernelType.JIT])
    return bool(entry["cache_hit"])


@pytest.fixture
def one_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels.flush()
    monkeypatch.setattr(settings, "kernel_memory_mb", 1)


def images() -> int:
    workers.sync()
    gc.collect()
    return sum(isinstance(thing, loader.Image) for thing in gc.get_objects())


@pytest.mark.skipif(not loader.is_available(), reason="LLVM links")
@pytest.mark.usefixtures("one_mib")
def test_kernels_not_used_for_long_are_forgotten() -> None:
    before = images()
    for number in range(200):
        data(chain(number))
        # The first is used all the time.
        data(chain(0))
    assert kernels.count() < 64
    assert images() - before < 64
    assert is_hit(chain(0))
    assert not is_hit(chain(1))


@pytest.mark.usefixtures("one_mib")
def test_forgotten_kernels_come_back_from_disk() -> None:
    expected = [data(chain(number)) for number in range(100)]
    assert kernels.count() < 64
    for number in range(100):
        np.testing.assert_array_equal(data(chain(number)), expected[number])


def test_a_launch_keeps_its_forgotten_kernel() -> None:
    x = dr.arange(Float, 1 << 20)
    for _ in range(20):
        x = dr.sqrt(x * x + 1)
        dr.eval(x)
        kernels.flush()
    gc.collect()
    assert abs(x[0] - np.sqrt(20)) < 1e-5


def gathered() -> Float:
    texture = dr.arange(Float, ENTRIES) * 2
    dr.eval(texture)
    return dr.gather(Float, texture, dr.arange(UInt, 100)) + 1


def switched() -> Float:
    textures = [dr.arange(Float, ENTRIES) * k for k in range(1, 5)]
    dr.eval(textures)
    functions = [lambda i, t=t: dr.gather(Float, t, i) + 1 for t in textures]
    index = dr.arange(UInt, 100)
    return dr.switch(index % 4, functions, index)


@dr.syntax
def looped() -> Float:
    texture = dr.arange(Float, ENTRIES) * 2
    dr.eval(texture)
    i, x = dr.arange(UInt, 100), Float(0)
    while i < 1000:
        x += dr.gather(Float, texture, i) * 0.5
        i += 100
    return x


def scattered() -> Float:
    target = dr.zeros(Float, ENTRIES)
    dr.eval(target)
    dr.scatter_add(target, Float(1, 2, 3), UInt(5, 6, 5))
    return dr.gather(Float, target, dr.arange(UInt, 100))


def failed() -> Float:
    x = gathered()
    with pytest.raises(ZeroDivisionError):
        dr.switch(UInt(0, 1), [lambda i: 1 / 0, lambda i: x], UInt(0, 1))
    return x


@pytest.mark.parametrize("make", [gathered, switched, looped, scattered, failed])
def test_what_kernels_read_comes_back(make: Callable[[], Float]) -> None:
    gc.collect()
    before = buffers.memory_stats()["live_bytes"]
    kernels.flush()
    for _ in range(3):
        dr.eval(make())
    gc.collect()
    left = buffers.memory_stats()["live_bytes"] - before
    assert left < 4 * ENTRIES, f"{left} bytes are kept"
