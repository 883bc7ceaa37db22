"""Makes traces for the compiler's tests and compares kernels with references."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from lumijit.compiler.ir import trace
from lumijit.compiler.ir.effects import Holder as Holder
from lumijit.compiler.ir.nodes import Node
from lumijit.compiler.launch import evaluate, launching
from lumijit.compiler.record import regions
from lumijit.runtime import buffers
from lumijit.runtime.compiled import is_compiled
from lumijit.runtime.dtypes import DType
from tests.verifier.interpret import flushed as flushed
from tests.verifier.interpret import interpret

Array = np.ndarray[Any, Any]
Nodes = tuple[Node, ...]

#: For tests that replace functions: compiled modules call each other's in C.
REPLACES = pytest.mark.skipif(is_compiled(launching), reason="modules are compiled")

# Sizes around packets of 8, 16, 32 and 64 lanes.
ODD_SIZES = (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 67)


def array(values: Any, dtype: DType) -> Node:
    """Return a node in memory that belongs to lumijit: kernels may write to it."""
    with np.errstate(all="ignore"):
        contents = np.ascontiguousarray(np.asarray(values).astype(dtype.numpy))
    buffer = buffers.allocate(contents.nbytes)
    buffer.wait_until_free()
    ctypes.memmove(buffer.address, contents.ctypes.data, contents.nbytes)
    return trace.from_buffer(dtype, buffer, contents.size)


def shareable(size: int) -> Array:
    """Return 0 … size - 1 as NumPy memory that kernels read where it is.

    Only memory that doesn't end close before the end of a page is.
    """
    nbytes = 4 * size
    memory = np.empty(nbytes + 2 * mmap.PAGESIZE, np.uint8)
    start = (64 - memory.ctypes.data - nbytes) % mmap.PAGESIZE
    values = memory[start : start + nbytes].view(np.float32)
    values[:] = np.arange(size)
    return values


def lit(dtype: DType, value: Any, size: int = 1) -> Node:
    """Return a literal of a Python number."""
    return trace.literal(dtype, dtype.wrap(value), size)


def data(node: Node) -> Array:
    """Evaluate a node and copy its contents."""
    return np.array(evaluate.data(node))


def edge_values(dtype: DType) -> Array:
    """Return the values at which things go wrong."""
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_float:
        limits = np.finfo(dtype.numpy)
        tiny = limits.smallest_subnormal
        values = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 7.25, 100.0, np.inf]
        values += [limits.max, limits.tiny, limits.eps, 1 + limits.eps]
        both = np.array(values + [-v for v in values] + [np.nan])
        found = both.astype(dtype.numpy)
        return np.concatenate([found, np.array([tiny, -tiny], dtype.numpy)])
    limits = np.iinfo(dtype.numpy)
    low, high = int(limits.min), int(limits.max)
    whole = {low, low + 1, high, high - 1, high // 2, high // 3, 0, 1, 2, 3, 7, 10}
    whole |= {-1, -2, -3, -7} if dtype.is_signed else {high // 2 + 1}
    return np.array(sorted(whole), dtype=dtype.numpy)


def random_values(dtype: DType, size: int, seed: int = 0) -> Array:
    """Return random values of a type: all bits for integers, some hundreds else."""
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.random(size) < 0.5
    if dtype.is_float:
        return rng.normal(0, 50, size).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return rng.integers(limits.min, limits.max, size, dtype.numpy, endpoint=True)


def pairs(dtype: DType) -> tuple[Array, Array]:
    """Return every edge value with every other."""
    edges = edge_values(dtype)
    return np.repeat(edges, len(edges)), np.tile(edges, len(edges))


def assert_same(found: Array, expected: Array, ulps: float = 0) -> None:
    """Compare bit by bit but for NaN's, or up to `ulps` for floats."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    if not ulps:
        np.testing.assert_array_equal(found, expected)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(
            np.signbit(found)[numbers], np.signbit(expected)[numbers]
        )
        return
    with np.errstate(all="ignore"):
        step = np.spacing(np.abs(expected))
        near = np.abs(found - expected) <= ulps * step
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    bad = ~(near | (found == expected) | np.isnan(expected))
    assert not bad.any(), f"{found[bad][:5]} against {expected[bad][:5]}"


def check(nodes: Iterable[Node], ulps: float = 0) -> list[Array]:
    """Compare the kernels with the interpreter; return the kernels' results."""
    wanted = list(nodes)
    expected = interpret(wanted)
    evaluate.evaluate(wanted)
    found = [data(node) for node in wanted]
    for got, right in zip(found, expected, strict=True):
        assert_same(got, right, ulps)
    return found


def loop(
    inits: Nodes,
    cond: Callable[..., Node],
    body: Callable[..., Nodes],
    size: int | None = None,
) -> list[Node]:
    """Trace a loop and return the final values of its arguments."""
    lanes = size or max(init.size for init in inits)
    with regions.scope("loop") as inner:
        args = tuple(
            regions.argument(init.type, lanes, k) for k, init in enumerate(inits)
        )
        test = cond(*args)
        outputs = body(*args)
    return regions.close_loop(inner, inits, args, test, outputs)[1]


def branch(
    cond: Node,
    yes: Callable[..., Nodes],
    no: Callable[..., Nodes],
    holders: tuple[Holder, ...] = (),
) -> list[Node]:
    """Trace a conditional and return its results; the sides may write to holders."""
    before = [holder._node for holder in holders]
    with regions.scope("yes") as first:
        a = yes()
    for holder, node in zip(holders, before, strict=True):
        holder._node = node
    with regions.scope("no") as second:
        b = no()
    return regions.close_branch(cond, (first, second), (a, b))[1]
