"""Events among launches: order, waiting, time."""

from __future__ import annotations

import time

import numpy as np
import pytest

import lumijit as dr
from lumijit import llvm
from lumijit.llvm import ad
from lumijit.runtime.errors import ArrayTypeError, StateError


def work():
    """Launch what takes some milliseconds."""
    x = dr.arange(llvm.Float, 1 << 20)
    for _ in range(40):
        x = dr.sin(x)
    dr.eval(x)
    return x


def test_time_is_that_of_the_work():
    dr.sync_thread()
    start, end = llvm.Event(), llvm.Event()
    began = time.perf_counter()
    start.record()
    kept = work()
    end.record()
    end.wait()
    whole = (time.perf_counter() - began) * 1e3
    assert end.query()
    assert start.query()
    measured = start.elapsed_time(end)
    assert 0 < measured <= whole
    assert end.elapsed_time(start) == -measured
    assert np.isfinite(kept.numpy()).all()
    assert end.handle >= start.handle


def test_events_can_be_recorded_again():
    start, end = ad.Event(), ad.Event()
    for _ in range(3):
        start.record()
        kept = work()
        end.record()
        assert start.elapsed_time(end) > 0
        del kept


def test_events_without_time():
    event = llvm.Event(enable_timing=False)
    assert event.query()
    assert event.handle == 0
    event.wait()
    kept = work()
    event.record()
    event.wait()
    assert event.query()
    del kept


@pytest.mark.parametrize(
    ("first", "second", "kind", "text"),
    [
        (llvm.Event(), llvm.Event(), StateError, "isn't recorded"),
        (llvm.Event(False), llvm.Event(), StateError, "isn't recorded"),
        (llvm.Event(), 3, ArrayTypeError, "got 'int'"),
    ],
)
def test_errors(first, second, kind, text):
    with pytest.raises(kind, match=text):
        first.elapsed_time(second)


def test_no_time():
    first, second = llvm.Event(False), llvm.Event()
    first.record()
    second.record()
    with pytest.raises(StateError, match="without a time"):
        first.elapsed_time(second)
