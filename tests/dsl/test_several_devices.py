"""Several devices: a context manager chooses one, and arrays of two don't meet."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import lumijit as dr
from lumijit import cuda, llvm
from lumijit.runtime.errors import (
    ArrayTypeError,
    ArrayValueError,
    BackendError,
    StateError,
)
from tests.dsl.replay.test_on_devices import replays
from tests.emulated_device import EmulatedDevice, emulated

pytestmark = pytest.mark.host("devices besides")


class Two(NamedTuple):
    first: EmulatedDevice
    second: EmulatedDevice

    def launches(self) -> tuple[int, int]:
        """Return how many there were since the last time."""
        counts = len(self.first.launched), len(self.second.launched)
        self.first.launched.clear()
        self.second.launched.clear()
        return counts


@pytest.fixture
def two() -> Iterator[Two]:
    with emulated(0) as first, emulated(1) as second:
        yield Two(first, second)


def test_arrays_belong_to_the_device_that_is_chosen(two: Two) -> None:
    x = dr.arange(cuda.Float, 5)
    with dr.scoped_device(1):
        y = dr.arange(cuda.Float, 5)
        z = cuda.Float(np.arange(3))
        with dr.scoped_device(0):
            w = dr.arange(cuda.Float, 7)
        v = dr.arange(cuda.Float, 9)
    # They aren't the same, and stay where they are.
    assert x._node is not y._node
    dr.eval(y + 1, z * 2, v + 1)
    assert two.launches() == (0, 3)
    dr.eval(x + 1, w * 2)
    assert two.launches() == (2, 0)
    assert (y * 2).numpy().tolist() == [0, 2, 4, 6, 8]
    assert dr.sum(y)[0] == 10
    assert two.launches()[0] == 0
    assert dr.arange(cuda.Float, 5)._node is x._node


def test_one_evaluation_serves_both(two: Two) -> None:
    def program() -> Any:
        i = dr.arange(cuda.UInt, 100)
        table = cuda.Float(np.arange(10))
        target = dr.zeros(cuda.Float, 10)
        dr.scatter_add(target, dr.gather(cuda.Float, table, i % 10), i % 10)
        return dr.sin(target)

    x = program()
    with dr.scoped_device(1):
        y = program()
    dr.eval(x, y)
    first, second = two.launches()
    assert first == second > 0
    np.testing.assert_array_equal(x.numpy(), y.numpy())


def test_literals_go_with_either(two: Two) -> None:
    half = cuda.Float(0.5)
    x = dr.arange(cuda.Float, 3) * half
    with dr.scoped_device(1):
        y = dr.arange(cuda.Float, 4) * half
        held = dr.opaque(cuda.Float, 2)
    assert x.numpy().tolist() == [0, 0.5, 1]
    assert y.numpy().tolist() == [0, 0.5, 1, 1.5]
    assert (y * held).numpy().tolist() == [0, 1, 2, 3]


MIXING = {
    "in a kernel": lambda x, y: dr.eval(x + y),
    "by index": lambda x, y: dr.eval(dr.gather(cuda.Float, x, cuda.UInt(y))),
    "in a reduction": lambda x, y: dr.dot(x, y)[0],
    "in a loop": lambda x, y: dr.eval(
        dr.while_loop((x,), lambda x: x < 9, lambda x: (x + y + 1,))
    ),
}


@pytest.mark.parametrize("name", MIXING)
def test_mixing_devices_is_an_error(two: Two, name: str) -> None:
    x = cuda.Float(np.arange(5)) + 0
    dr.eval(x)
    with dr.scoped_device(1):
        y = dr.arange(cuda.Float, 5)
    message = (
        r"arrays of several devices meet in one computation \(an array of 5 \w+ on "
        r"cuda:0 and a range of 5 \w+ on cuda:1\)\. Fix: .*scoped_device"
    )
    with pytest.raises(BackendError, match=message):
        MIXING[name](x, y)
    # Both are still there, and copies may meet.
    with dr.scoped_device(1):
        z = cuda.Float(x.numpy()) + y
    assert z.numpy().tolist() == [0, 2, 4, 6, 8]


def test_threads_choose_on_their_own(two: Two) -> None:
    def run() -> None:
        found.append((dr.arange(cuda.Float, 3) + 1).numpy())

    found: list[Any] = []
    with dr.scoped_device(1):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert two.launches() == (1, 0)
    assert found[0].tolist() == [1, 2, 3]


def test_a_choice_ends_with_its_block(two: Two) -> None:
    with pytest.raises(ZeroDivisionError), dr.scoped_device(1):
        raise ZeroDivisionError
    dr.eval(dr.arange(cuda.Float, 3) + 1)
    assert two.launches() == (1, 0)


def test_recordings_are_of_one_device(two: Two) -> None:
    scaled = dr.kernel(lambda x, k: x * k)
    made = dr.kernel(lambda n: dr.arange(cuda.Float, n) + 1)
    arrays = [cuda.Float(np.arange(4))]
    with dr.scoped_device(1):
        arrays.append(cuda.Float(np.arange(4)))
    two.launches()
    for _ in range(3):
        for number, x in enumerate(arrays):
            found = scaled(x, 2)
            with dr.scoped_device(number):
                ones = made(3)
            assert found.numpy().tolist() == [0, 2, 4, 6]
            assert ones.numpy().tolist() == [1, 2, 3]
            assert two.launches()[1 - number] == 0
    assert replays(scaled) == replays(made) == 4


def test_events_are_of_the_device_that_is_chosen(two: Two) -> None:
    start, end, other = cuda.Event(), cuda.ad.Event(), cuda.Event()
    assert start.query()
    start.record()
    dr.eval(dr.arange(cuda.Float, 3) + 1)
    end.record()
    end.wait()
    assert end.query()
    assert (start.handle, end.handle) == (0, 1)
    assert start.elapsed_time(end) > 0
    assert start.elapsed_time(end) == -end.elapsed_time(start)
    with dr.scoped_device(1):
        other.record()
    with pytest.raises(StateError, match=r"different devices \(cuda:0 and cuda:1\)"):
        start.elapsed_time(other)
    on_cpu = llvm.Event()
    on_cpu.record()
    with pytest.raises(StateError, match=r"different devices \(the CPU and cuda:1\)"):
        on_cpu.elapsed_time(other)
    other = cuda.Event(enable_timing=False)
    other.record()
    with pytest.raises(StateError, match="without a time"):
        start.elapsed_time(other)


def test_events_of_a_device_that_is_not_there() -> None:
    with dr.scoped_device(7), pytest.raises(BackendError, match="there is no"):
        cuda.Event().record()


def test_what_is_no_number_of_a_device() -> None:
    with pytest.raises(ArrayTypeError, match="expected int, got str"):
        dr.scoped_device("cuda:1")  # type: ignore[arg-type]
    with pytest.raises(ArrayTypeError, match="expected int, got bool"):
        dr.scoped_device(True)
    with pytest.raises(ArrayValueError, match=r"'number' is negative \(got -1\)"):
        dr.scoped_device(-1)
