"""Ctrl-C while a device computes: loops end, and nobody reads what they left."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit import cuda
from lumijit.runtime.errors import CancelledError
from tests.emulated_device import EmulatedDevice, emulated

pytestmark = pytest.mark.host("devices besides")


@pytest.fixture
def emu() -> Iterator[EmulatedDevice]:
    with emulated() as made:
        yield made


def interrupt() -> None:
    """Send a Ctrl-C to this thread, in a moment."""
    thread = threading.main_thread().ident
    assert thread is not None
    threading.Timer(0.2, signal.pthread_kill, (thread, signal.SIGINT)).start()


def endless(x: Any) -> Any:
    """Go on for ever where `x` is 0 or 1."""
    return dr.while_loop((x,), lambda x: x < 2, lambda x: (x ^ 1,))[0]


def counted(x: Any, n: int) -> Any:
    return dr.while_loop((x, x * 0), lambda x, k: k < n, lambda x, k: (x + 2, k + 1))[0]


def test_loops_end(emu: EmulatedDevice) -> None:
    x = dr.arange(cuda.UInt, 100)
    before = x * 2
    dr.eval(before)
    found = endless(x)
    beside = x + 1
    dr.eval(found, beside)
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        found.numpy()
    message = "Ctrl-C stopped the kernel"
    for read in (found.numpy, beside.numpy, lambda: dr.eval(found * 2)):
        with pytest.raises(CancelledError, match=message):
            read()
    with pytest.raises(CancelledError, match=message):
        dr.sum(found)
    np.testing.assert_array_equal(before.numpy(), np.arange(100) * 2)
    # Later loops run to their ends.
    np.testing.assert_array_equal(counted(x, 5000).numpy(), np.arange(100) + 10000)


def test_waiting_is_interrupted_wherever_it_is(emu: EmulatedDevice) -> None:
    event = cuda.Event(enable_timing=False)

    def read() -> Any:
        return (dr.arange(cuda.Float, 3) + 1).numpy()

    for wait in (dr.sync_thread, event.wait, read):
        found = endless(dr.arange(cuda.UInt, 3))
        dr.eval(found)
        event.record() if wait == event.wait else None
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            wait()
        with pytest.raises(CancelledError):
            found.numpy()
    assert (dr.arange(cuda.Float, 3) + 1)[2] == 3


def test_what_a_replay_should_have_written_is_undefined(emu: EmulatedDevice) -> None:
    f = dr.kernel(lambda x: (endless(x), x + 1))
    x = dr.arange(cuda.UInt, 3) + 2
    f(x)
    y, z = f(x - 2)
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        z.numpy()
    for array in (y, z):
        with pytest.raises(CancelledError):
            array.numpy()
    with pytest.raises(CancelledError):
        f(z)
    y, z = f(x)
    assert y.numpy().tolist() == [2, 3, 4]
    assert z.numpy().tolist() == [3, 4, 5]


def test_arrays_that_were_written_to_in_place_are_marked(emu: EmulatedDevice) -> None:
    target = dr.zeros(cuda.UInt, 4)
    dr.scatter_add(target, endless(dr.arange(cuda.UInt, 2)), dr.arange(cuda.UInt, 2))
    dr.eval(target)
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        target.numpy()
    with pytest.raises(CancelledError):
        target.numpy()
