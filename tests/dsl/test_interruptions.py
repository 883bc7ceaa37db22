"""Code of the user's that evaluates arrays in the middle of an evaluation."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.compiler.ir.nodes import interruptions
from lumijit.llvm import Float, UInt32
from lumijit.runtime.errors import StateError

A = np.arange(16, dtype=np.float32) + 1


class Log:
    """Reads the first entry of an array as the collector finds it."""

    def __init__(self, array: Any) -> None:
        self.cycle, self.array = self, array

    def __del__(self) -> None:
        float(self.array[0])


@pytest.fixture
def collector() -> Iterator[None]:
    threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()
    yield
    gc.set_threshold(*threshold)
    gc.enable()
    gc.unfreeze()


def collect_after(count: int, array: Any) -> None:
    """Have the collector find a dead `Log` after so many more objects."""
    gc.collect()
    gc.disable()
    Log(array)
    gc.set_threshold(gc.get_count()[0] + count)
    gc.enable()


def by_gathers() -> tuple[Any, Any]:
    x, back = Float(A), UInt32(np.arange(16)[::-1].copy())
    q = x * x + 1
    r = q
    for _ in range(3):
        r = r * 0.5 + dr.gather(Float, x, back) * q
        r = dr.select(r > 3, r - q, r)
        r = Float(UInt32(abs(r))) + x
    return q, r


@pytest.mark.usefixtures("collector")
def test_what_the_collector_finds_evaluates() -> None:
    """A part of what is being evaluated, at each of many places."""
    wanted = by_gathers()[1].numpy()
    for count in range(1, 80):
        q, r = by_gathers()
        collect_after(count, q)
        np.testing.assert_array_equal(r.numpy(), wanted)
        gc.disable()


@pytest.mark.usefixtures("collector")
def test_kernels_are_known_by_what_they_compute() -> None:
    """Also if a part has been evaluated while one was looked for."""
    x = Float(A)
    wanted = (A * 3.25 + 1) ** 2 + A
    for count in range(1, 60):
        q = x * 3.25 + 1
        r = q * q + x
        collect_after(count, q)
        np.testing.assert_allclose(r.numpy(), wanted, rtol=1e-6)
        gc.disable()
    q = x * 3.25 + 1
    np.testing.assert_allclose((q * q + x).numpy(), wanted, rtol=1e-6)


def test_a_handler_of_signals_evaluates() -> None:
    parts: list[Any] = []
    busy: list[bool] = []

    def report(number: int, frame: FrameType | None) -> None:
        if parts and not busy:
            busy.append(True)
            try:
                float((parts[0] * 3 + 1)[0])
            finally:
                busy.clear()

    before = signal.signal(signal.SIGALRM, report)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    try:
        for k in range(1500):
            x = Float(A)
            p = x * x + k % 5
            parts[:] = [p]
            y = (p + x) * p - (p - x) * x
            wanted = A * A + k % 5
            wanted = (wanted + A) * wanted - (wanted - A) * A
            np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-6)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_endless_interruptions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one too many, so that the evaluation around it comes to its end."""
    monkeypatch.setattr(interruptions, "depth", 1)
    monkeypatch.setattr(interruptions, "most", interruptions.count)
    x = Float(A) * 2.5
    with pytest.raises(StateError, match="interrupted by 100 others"):
        dr.eval(x)
    monkeypatch.undo()
    np.testing.assert_array_equal(x.numpy(), A * 2.5)
