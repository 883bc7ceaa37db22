"""`@kernel` and several threads."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.llvm.ad import Float, UInt32
from lumijit.runtime.errors import RecordingError
from tests.dsl.replay.support import array, assert_equal


def test_threads() -> None:
    @dr.kernel
    def f(x: Float, k: int) -> Any:
        return dr.sum(x * k) + x

    wrong: list[Any] = []

    def work(k: int) -> None:
        x = array(k, 1)
        for _ in range(30):
            found = f(x, k).numpy()
            if not np.allclose(found, [k * (k + 1) + k, k * (k + 1) + 1]):
                wrong.append((k, found))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert f.n_recordings == 1


@pytest.mark.parametrize("is_own", [False, True])
def test_random_numbers_of_other_threads_are_theirs(is_own: bool) -> None:
    is_done = threading.Event()

    def draw() -> None:
        while not is_done.is_set():
            random.random()

    @dr.kernel
    def f(x: Float) -> Any:
        before = random.getstate()
        while random.getstate() == before:
            time.sleep(1e-3)
        return x * random.random() if is_own else x * 2

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        if is_own:
            with pytest.raises(RecordingError, match="another thread meanwhile, draws"):
                f(array(1, 2))
        else:
            assert list(f(array(1, 2))) == [2, 4]
    finally:
        is_done.set()
        thread.join()


def test_gradients_that_other_threads_give_are_theirs() -> None:
    is_done = threading.Event()

    def fit() -> None:
        x = array(1, 2)
        dr.enable_grad(x)
        while not is_done.is_set():
            dr.backward(x * x)

    @dr.kernel
    def f(x: Float) -> Any:
        time.sleep(0.02)
        y = x * 2
        dr.backward(y)
        return y

    thread = threading.Thread(target=fit)
    thread.start()
    try:
        for size in range(1, 11):
            x = dr.ones(Float, size)
            dr.enable_grad(x)
            assert list(f(x)) == [2] * size
            assert list(x.grad) == [2] * size
    finally:
        is_done.set()
        thread.join()


class Settings:
    """What kernels and others read at the same time."""

    def __init__(self) -> None:
        self.gain, self.turns, self.offset = 2.5, 3, Float(4)
        self.more = {"n": 2}


SETTINGS = Settings()
#: Pipes (objects would be watched): what the recorded function tells, and waits for.
TOLD, TELL, GO_ON, LET = 0, 0, 0, 0


@dr.kernel
def waiting(x: Float) -> Any:
    y = x * SETTINGS.gain * SETTINGS.turns + SETTINGS.offset + SETTINGS.more["n"]
    os.write(TELL, b"x")
    os.read(GO_ON, 1)
    return y + SETTINGS.gain


@dr.syntax
def turning(x: Float) -> Any:
    i = UInt32(0)
    while i < SETTINGS.turns:
        # The recording ends meanwhile.
        os.write(LET, b"x")
        os.read(TOLD, 1)
        x = x * SETTINGS.gain + SETTINGS.offset
        i += SETTINGS.more["n"]
    return x


def while_recorded(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any]) -> Any:
    """Return what `run` gives while another thread is in the middle of a recording."""
    pipes = (*os.pipe(), *os.pipe())
    for name, pipe in zip(("TOLD", "TELL", "GO_ON", "LET"), pipes, strict=True):
        monkeypatch.setitem(globals(), name, pipe)
    waiting.clear()
    found: list[Any] = []

    def record() -> None:
        try:
            found.append(waiting(array(1, 2)))
        finally:
            os.write(TELL, bytes(99))

    thread = threading.Thread(target=record)
    thread.start()
    try:
        os.read(TOLD, 1)
        return run()
    finally:
        os.write(LET, b"x")
        thread.join()
        for pipe in pipes:
            os.close(pipe)
        assert_equal(found[0], [16, 23.5])
        assert waiting.n_recordings == 1
        given = SETTINGS.gain, SETTINGS.turns, SETTINGS.more["n"]
        assert list(map(type, given)) == [float, int, int]
        assert given == (2.5, 3, 2)


def test_other_threads_compute_with_plain_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run() -> Any:
        total = SETTINGS.gain * 2 + SETTINGS.turns
        numbers = total, SETTINGS.gain > 2, round(SETTINGS.gain), [0] * SETTINGS.turns
        return [type(v) for v in numbers], numbers, Float(1, 2) * SETTINGS.gain

    types, numbers, product = while_recorded(monkeypatch, run)
    assert types == [float, bool, int, list]
    assert numbers == (8.0, True, 2, [0, 0, 0])
    assert_equal(product, [2.5, 5])
    # What they ask for is no condition of the recording.
    assert "depends on" not in waiting.explain()


def test_loops_of_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    offset = SETTINGS.offset
    assert_equal(
        while_recorded(monkeypatch, lambda: turning(array(1, 2))), [20.25, 26.5]
    )
    assert SETTINGS.offset is offset
    assert offset.state == dr.VarState.Literal


def test_kernels_of_other_threads_run_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dr.kernel
    def other(x: Float) -> Any:
        return x * SETTINGS.gain

    for _ in range(2):
        assert_equal(other(array(1, 2)), [2.5, 5])
    assert_equal(while_recorded(monkeypatch, lambda: other(array(3, 4))), [7.5, 10])
    assert_equal(other(array(5, 6)), [12.5, 15])
    assert other.n_recordings == 1
    assert "replayed 2 times" in other.explain()
