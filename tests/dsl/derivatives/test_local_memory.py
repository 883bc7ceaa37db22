"""Derivatives through local buffers, against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float as Float32
from lumijit.llvm.ad import Float16, UInt
from lumijit.llvm.ad import Float64 as Float

X = np.array([1.0, 2.0, 0.5])


def straight(x):
    buffer = dr.alloc_local(Float, 4)
    buffer[UInt(1)] = x * x
    buffer[UInt(2)] = buffer[1] * x
    return buffer[UInt(1)] + 3 * buffer[UInt(2)]


@dr.syntax
def branches(x):
    buffer = dr.alloc_local(Float, 2, value=Float(1))
    buffer[0] = x * x
    if x > 0.7:
        buffer[1] = buffer[0] * x
    return buffer[0] + buffer[1] * x


@dr.syntax
def delayed(x):
    """The derivative needs no contents: they enter linearly."""
    buffer = dr.alloc_local(Float, 4, value=dr.zeros(Float))
    i, z = UInt(0), Float(0)
    while i < 6:
        z = buffer[(i + 3) % 4]
        buffer[i % 4] = z * 0.5 + x * x
        if x > 0.7:
            buffer[1] = buffer[1] + x
        i += 1
    return z + buffer[2]


@dr.syntax
def fed_back(x):
    """The derivative needs the contents in each turn."""
    buffer = dr.alloc_local(Float, 4, value=dr.zeros(Float))
    i, z = UInt(0), Float(0)
    while i < 6:
        z = buffer[(i + 3) % 4]
        buffer[i % 4] = z * x + x
        i += 1
    return z


@dr.syntax
def longer(x):
    """More turns than there are slots, two buffers, a branch and a loop inside."""
    first = dr.alloc_local(Float, 3, value=dr.ones(Float))
    second = dr.alloc_local(Float, 2, value=dr.zeros(Float))
    i, z = UInt(0), Float(x)
    while i < 90:
        z = first[i % 3] * 0.5 + 0.3 * dr.sin(z * second[i & 1])
        if i % 4 == 1:
            second[(i >> 1) & 1] = 0.3 * z * x
        j = UInt(0)
        while j < 2:
            first[j] = first[j] * 0.5 + 0.1 * dr.sin(z * x)
            first[2] = 0.5 * dr.cos(first[j])
            j += 1
        i += 1
    return z + first[1] * second[0]


@dr.syntax
def filled_then_read(x):
    buffer = dr.alloc_local(Float, 5, value=dr.zeros(Float))
    i = UInt(0)
    while i < 4:
        buffer[i] = x * x * (Float(i) + 1)
        i += 1
    k, z = UInt(0), Float(0)
    while k < 4:
        z += buffer[k]
        k += 1
    return z


@dr.syntax
def long(x):
    """Gradients of 40 entries arrive at one buffer from two loops, and are summed."""
    buffer = dr.alloc_local(type(x), 40, value=x * x)
    i, y, z = UInt(0), type(x)(0), type(x)(0)
    while i < 3:
        y += dr.sin(buffer[i * 7])
        i += 1
    changed = dr.copy(buffer)
    k = UInt(0)
    while k < 4:
        changed[k * 9] = changed[k * 9] * buffer[k + 1]
        z += changed[k * 8 + 1] * changed[k * 9]
        k += 1
    return y * z


FUNCTIONS = [straight, branches, delayed, fed_back, longer, filled_then_read, long]


def differences(function: Callable[[Float], Float]) -> np.ndarray:
    step = 1e-6
    ahead, behind = (function(Float(X + h)).numpy().copy() for h in (step, -step))
    return np.asarray((ahead - behind) / (2 * step))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_forward(function: Callable[[Float], Float]) -> None:
    x = Float(X)
    dr.enable_grad(x)
    y = function(x)
    dr.forward(x)
    np.testing.assert_allclose(y.grad, differences(function), rtol=1e-6)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_reverse(function: Callable[[Float], Float]) -> None:
    x = Float(X)
    dr.enable_grad(x)
    dr.backward(function(x))
    np.testing.assert_allclose(x.grad, differences(function), rtol=1e-6)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_second(function: Callable[[Float], Float]) -> None:
    def gradient(x: Float) -> Float:
        return dr.value_and_grad(function)(x)[1]

    (found,) = dr.hvp(function, (Float(X),), (Float(1),))
    np.testing.assert_allclose(found, differences(gradient), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize(
    ("dtype", "precise"), [(Float, 1e-6), (Float32, 1e-4), (Float16, 2e-2)]
)
@pytest.mark.parametrize("size", [1, 3])
def test_long_buffers(mode: str, dtype: Any, precise: float, size: int) -> None:
    """Of one entry for all elements, and of one for each."""
    points = X[:size]
    x = dtype(points)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, mode == "symbolic"):
        dr.enable_grad(x)
        dr.backward(long(x) * dtype(1, 2, 3))
    weights = np.array([1, 2, 3]) if size == 3 else 6
    step = 1e-6
    sides = (long(Float(points + h)).numpy().copy() for h in (step, -step))
    expected = np.subtract(*sides) / (2 * step) * weights
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=precise)


def called(x, names):
    """Calls that read, write or copy buffers from outside, or leave them alone."""
    index = UInt(0, 1, 2)
    first = dr.alloc_local(Float, 3, value=Float(0.3))
    first[index] = x * x
    second = dr.Local(first)

    def sine(y, k):
        return dr.sin(y)

    def read(y, k):
        return y * first[k % 3] + first[(k + 1) % 3]

    def write(y, k):
        first[(k + 1) % 3] = y * first[k % 3] + x
        return y * 0.9

    def both(y, k):
        first[k % 3] = y
        second[(k + 2) % 3] = first[(k + 1) % 3] * y
        return second[k % 3] * y

    known = {"sine": sine, "read": read, "write": write, "both": both}
    functions = [known[name] for name in names.split()]

    @dr.syntax
    def turns(y):
        i, total = UInt(0), Float(0)
        while i < 4:
            # (Some elements call none.)
            k = (index + i) % (len(functions) + 1)
            y = dr.switch(k, functions, y, index + i) + 0.1 * x
            total += y * y + first[i % 3] * second[(i + 1) % 3]
            i += 1
        return total

    return turns(x + 0)


CALLS = ["read", "sine read", "read sine", "write sine", "sine write", "both sine"]
CALLS += ["both read write", "sine sine both"]


@pytest.mark.parametrize("names", CALLS)
def test_calls(names: str) -> None:
    expected = differences(lambda x: called(x, names))
    x = Float(X)
    dr.enable_grad(x)
    dr.backward(called(x, names))
    np.testing.assert_allclose(x.grad, expected, rtol=1e-6)
    x = Float(X)
    dr.enable_grad(x)
    y = called(x, names)
    dr.forward(x)
    np.testing.assert_allclose(y.grad, expected, rtol=1e-6)


def filled(x, is_tracked):
    """Arrays that three regions and a write fill, of which one uses a buffer."""

    @dr.syntax
    def fill(x, k):
        first, second = dr.zeros(Float, 3), dr.zeros(Float, 3)
        count, table = dr.alloc_local(UInt, 2, UInt(0)), dr.alloc_local(Float, 2, x)
        if k < 9:
            i = UInt(0)
            while i < 3:
                dr.scatter_add(first, x, k)
                i += 1
            y = dr.sin(x)
            dr.scatter_add(second, y, k)
            i = UInt(0)
            while i < 2:
                if is_tracked:
                    table[i] = table[1 - i] * y
                    dr.scatter_add(second, table[i], k)
                else:
                    count[i] = count[i] + 1
                    dr.scatter_add(second, Float(1), count[i])
                i += 1
            i = UInt(0)
            while i < 2:
                dr.scatter_add(first, x * y, k)
                i += 1
        return first + 2 * second

    return fill(x, UInt(0, 1, 2))


@pytest.mark.parametrize("is_tracked", [True, False])
def test_writes_beside_a_region_with_a_buffer(is_tracked: bool) -> None:
    """That region comes first in the code, whose writes have another order then."""
    expected = differences(lambda x: filled(x, is_tracked))
    x = Float(X)
    dr.enable_grad(x)
    y = filled(x, is_tracked)
    dr.forward(x)
    np.testing.assert_allclose(y.grad, expected, rtol=1e-6)
    x = Float(X)
    dr.enable_grad(x)
    dr.backward(filled(x, is_tracked))
    np.testing.assert_allclose(x.grad, expected, rtol=1e-6)
