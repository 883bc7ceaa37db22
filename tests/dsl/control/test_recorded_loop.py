"""`Loop`: recorded `while` statements, against plain Python."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import lumijit as dr
from lumijit import scalar
from lumijit.llvm import Array3f, Bool, Float, Loop, UInt32, ad
from lumijit.runtime.errors import ArrayTypeError, StateError


@pytest.fixture(params=[True, False], ids=["symbolic", "evaluated"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, request.param):
        yield


def test_counts_until_each_element_leaves() -> None:
    i, n = UInt32(0, 5, 9), UInt32(3, 7, 2)
    loop = Loop("count", lambda: (i,))
    while loop(i < n):
        i += 2
    assert i.numpy().tolist() == [4, 7, 9]


def test_variables_may_be_bound_anew() -> None:
    x, i = Float(1, 2), UInt32(0)
    before = x
    loop = Loop(state=lambda: (x, i))
    while loop(i < 3):
        x = x * 2
        i = i + 1
    assert x.numpy().tolist() == [8, 16]
    assert before.numpy().tolist() == [1, 2]


def test_nested_arrays_as_in_the_document() -> None:
    def sdf(p: Array3f) -> Float:
        return dr.norm(p) - 1

    def trace(o: Array3f, d: Array3f) -> Array3f:
        i = UInt32(0)
        loop = Loop("Sphere tracing", lambda: (o, i))
        while loop(i < 10):
            o = dr.fma(d, sdf(o), o)
            i += 1
        return o

    y = np.linspace(0, 0.9, 7, dtype=np.float32)
    hit = trace(Array3f(0, y, -2), Array3f(0, 0, 1))
    np.testing.assert_allclose(hit.z, -np.sqrt(1 - y * y), rtol=1e-2)


def test_variables_of_one_entry_grow() -> None:
    x, i = Float(1), UInt32(0)
    written = dr.zeros(Float, 3)
    step = Float(1, 2, 3)
    loop = Loop("grow", lambda: (x, i))
    while loop(i < 2):
        y = x * 2
        dr.scatter_add(written, y, dr.arange(UInt32, 3))
        x = y + step
        i += 1
    assert x.numpy().tolist() == [7, 10, 13]
    assert written.numpy().tolist() == [2 + 6, 2 + 8, 2 + 10]


def test_loops_in_loops() -> None:
    total, i = UInt32(0, 0), UInt32(0)
    outer = Loop("outer", lambda: (total, i))
    while outer(i < UInt32(3, 4)):
        j = UInt32(0)
        inner = Loop("inner", lambda: (total, j))  # noqa: B023
        while inner(j < i):
            total += 1
            j += 1
        i += 1
    assert total.numpy().tolist() == [0 + 1 + 2, 0 + 1 + 2 + 3]


def test_writes_of_elements_that_left_dont_happen() -> None:
    target, i = dr.zeros(UInt32, 3), UInt32(0)
    loop = Loop("write", lambda: (i,))
    while loop(i < UInt32(1, 2, 3)):
        dr.scatter_add(target, UInt32(1), i)
        i += 1
    assert target.numpy().tolist() == [3, 2, 1]


def test_nobody_enters() -> None:
    x = Float(1, 2)
    loop = Loop("none", lambda: (x,))
    while loop(Bool(False, False)):
        x += 1
    assert x.numpy().tolist() == [1, 2]


@pytest.mark.parametrize("is_forward", [True, False])
def test_is_differentiable(is_forward: bool) -> None:
    x = ad.Float64(0.5, 1.5)
    dr.enable_grad(x)
    z, i = x + 0, ad.UInt32(0)
    loop = ad.Loop("square", lambda: (z, i))
    while loop(i < 3):
        z = z * z
        i += 1
    if is_forward:
        dr.forward(x)
        found = z.grad
    else:
        dr.backward(z)
        found = x.grad
    np.testing.assert_allclose(found, 8 * np.array([0.5, 1.5]) ** 7)


def test_the_scalar_namespace_runs_plain_loops() -> None:
    i = 0
    loop = scalar.Loop("count", lambda: (i,))
    while loop(i < 4):
        i += 3
    assert i == 6


def test_an_exception_in_the_body_leaves_the_loop() -> None:
    x = Float(1)

    def run() -> None:
        loop = Loop("bad", lambda: (x,))
        while loop(x < 3):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as error:
        run()
    del error
    assert (x + 1).numpy().tolist() == [2]


def test_refuses_what_is_no_function() -> None:
    with pytest.raises(ArrayTypeError, match=r"'state' is None.*pass a function"):
        Loop("x")


def test_refuses_numbers() -> None:
    y = 1.0
    with pytest.raises(StateError, match=r"'state\[0\]' has type 'float'"):
        Loop("x", lambda: (y,))


def test_refuses_one_array_twice() -> None:
    x = Float(1)
    with pytest.raises(StateError, match="same array as another"):
        Loop("x", lambda: (x, x))


def test_refuses_another_type() -> None:
    x: object = Float(1, 2)
    loop = Loop("x", lambda: (x,))
    assert loop(Float(1, 2) < 5)
    x = UInt32(0)
    with pytest.raises(StateError, match="changes its type from Float to UInt"):
        loop(Float(1, 2) < 5)


def test_refuses_another_size() -> None:
    x = Float(1, 2)
    loop = Loop("x", lambda: (x,))
    assert loop(Float(1, 2) < 5)
    x = Float(1, 2, 3)
    with pytest.raises(StateError, match="changes its size from 2 to 3"):
        loop(Float(1, 2) < 5)


def test_a_loop_is_used_once() -> None:
    i = UInt32(0)
    loop = Loop("x", lambda: (i,))
    while loop(i < 3):
        i += 1
    if dr.flag(dr.JitFlag.SymbolicLoops):
        with pytest.raises(StateError, match="the loop is over"):
            loop(i < 4)


def test_wrong_arguments_are_the_only_error() -> None:
    # (What goes wrong as an object is dropped would be a warning, and fail.)
    with pytest.raises(TypeError, match="unexpected keyword argument 'name'"):
        Loop(name="twice", state=tuple)  # type: ignore[call-arg]
    gc.collect()
