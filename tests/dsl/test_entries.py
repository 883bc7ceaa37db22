"""Writes of single entries: at once where nobody can tell, traced elsewhere."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lumijit as dr
from lumijit import llvm, scalar
from lumijit.llvm import ad
from lumijit.runtime.errors import ArrayIndexError

TYPES = ("Bool", "Int8", "UInt16", "Int", "UInt64", "Float16", "Float", "Float64")


def launches(program: Any) -> int:
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        program()
        return len(dr.kernel_history())


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("module", [llvm, ad, scalar])
def test_entries_of_each_type(module: Any, name: str) -> None:
    kind = "ArrayX" + {"Bool": "b", "Float": "f", "Int": "i"}.get(name, "f")
    cls = getattr(module, kind if module is scalar else name)
    x = cls([0, 1, 1, 0, 1])
    expected = np.array(x)
    for k, value in ((0, 1), (-1, 0), (3, 1), (3, 0), (2, 1)):
        given_value = bool(value) if expected.dtype == bool else value
        x[k] = given_value
        expected[k] = given_value
        np.testing.assert_array_equal(np.array(x), expected)


@pytest.mark.host("the host writes to its own memory only")
def test_writes_one_by_one_take_no_kernels() -> None:
    def fill() -> None:
        for k in range(300):
            x[k] = k / 2
            x[-1 - k] = x[k] + 1

    for x in (dr.zeros(llvm.Float, 600), llvm.Float(np.zeros(600)) + 1):
        dr.eval(x)
        dr.sync_thread()
        assert launches(fill) <= 1
        assert x[299] == 149.5
        assert x[300] == 150.5
    x = dr.arange(llvm.Float, 600)
    assert launches(fill) <= 2
    t = dr.zeros(llvm.TensorXf, (20, 30))
    t[0, 0] = 1
    dr.sync_thread()

    def fill_tensor() -> None:
        for k in range(600):
            t[k // 30, k % 30] = k

    assert launches(fill_tensor) <= 1
    np.testing.assert_array_equal(t.numpy().ravel(), np.arange(600))


def test_what_was_traced_before_sees_the_entries_of_before() -> None:
    x = ad.Float(1, 2, 3) + 0
    dr.eval(x)
    waiting, copy, same = x * 2, ad.Float(x), x
    computed = x + 1
    dr.eval(computed)
    x[1] = 10
    assert list(waiting) == [2, 4, 6]
    assert list(copy) == [1, 2, 3]
    assert list(same) == [1, 10, 3]
    assert list(x + 1) == [2, 11, 4]
    assert list(computed) == [2, 3, 4]


@pytest.mark.host("views of what a device has are copies")
def test_tracked_arrays_made_of_lists_show_what_is_written_to_views() -> None:
    for x in (ad.Float64([1, 2, 3]), ad.Float64(1, 2, 3), ad.Float64(1, 2, 3) + 0):
        dr.enable_grad(x)
        view = x.numpy()
        y = x * x
        view[:] = 10
        assert list(x) == [10, 10, 10]
        assert list(y) == [1, 4, 9]


@pytest.mark.host("views of what a device has are copies")
def test_views_share_what_is_written() -> None:
    x = ad.Float(1, 2, 3) + 0
    view = x.numpy()
    x[0] = 5
    view[2] = 7
    assert list(x) == [5, 2, 7]
    assert view[0] == 5


def test_of_tracked_arrays_gradients_are_those_of_what_stays() -> None:
    x = ad.Float(1, 2, 3) + 0
    dr.enable_grad(x)
    y = x * x
    y[1] = 5
    dr.backward(dr.sum(y))
    assert list(y) == [1, 5, 9]
    assert list(x.grad) == [2, 0, 6]


def test_in_constructs_they_are_those_of_the_elements() -> None:
    x = dr.zeros(llvm.Float, 3)
    x[0] = 1

    @dr.syntax
    def write(n: llvm.UInt) -> None:
        if n > 1:
            x[1] = 4.0

    for mode in (True, False):
        with dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, mode):
            write(llvm.UInt(0, 0))
            assert list(x) == [1, 0, 0]
    write(llvm.UInt(0, 2))
    assert list(x) == [1, 4, 0]


def test_a_recording_writes_them_again() -> None:
    @dr.kernel
    def f(x: llvm.Float) -> llvm.Float:
        y = x + 0
        dr.eval(y)
        y[1] = 7
        return y * 2

    for k in range(3):
        assert list(f(llvm.Float(k, k))) == [2 * k, 14]


def test_beyond_the_ends() -> None:
    x = dr.zeros(llvm.Float, 3)
    for k in (3, -4):
        with pytest.raises(ArrayIndexError):
            x[k] = 1
    assert list(x) == [0, 0, 0]


def test_from_several_threads() -> None:
    arrays = [dr.zeros(llvm.Int, 200) for _ in range(4)]

    def work(x: llvm.Int) -> None:
        for k in range(200):
            x[k] = k
            if k % 50 == 0:
                dr.eval(x + 1)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x in arrays:
        np.testing.assert_array_equal(x.numpy(), np.arange(200))


STEPS = ["entry", "derive", "copy", "alias", "eval", "add", "view", "slice", "many"]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_random_steps_against_numpy(data: Any) -> None:
    kind = data.draw(st.sampled_from(["literal", "expression", "numpy", "evaluated"]))
    size = data.draw(st.integers(1, 20))
    mine = {
        "literal": dr.zeros(ad.Float, size),
        "expression": dr.arange(ad.Float, size) * 0.5,
        "numpy": ad.Float(np.arange(size, dtype=np.float32)),
        "evaluated": dr.arange(ad.Float, size) + 1,
    }[kind]
    if kind == "evaluated":
        dr.eval(mine)
    pairs = [(mine, np.array(ad.Float(mine) + 0))]
    for step in data.draw(st.lists(st.sampled_from(STEPS), max_size=25)):
        x, expected = data.draw(st.sampled_from(pairs))
        place = data.draw(st.integers(-size, size - 1))
        value = data.draw(st.integers(-9, 9))
        if step == "entry":
            x[place] = expected[place] = value
        elif step == "many":
            for k in range(size):
                x[k] = expected[k] = value + k
        elif step == "derive":
            pairs.append((x * 2 + value, expected * 2 + value))
        elif step == "copy":
            pairs.append((ad.Float(x), expected.copy()))
        elif step == "alias":
            pairs.append((x, expected))
        elif step == "eval":
            dr.eval(x)
        elif step == "add":
            x += value
            expected += value
        elif step == "view":
            assert x.numpy()[place] == expected[place]
        else:
            x[place:] = value
            expected[place:] = value
    for x, expected in pairs:
        np.testing.assert_array_equal(x.numpy(), expected)
