"""Buffers: alignment, padding, reuse, limits, and the ways from and to NumPy."""

from __future__ import annotations

import ctypes
import gc
import itertools
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lumijit.runtime import buffers, dtypes, errors, workers
from lumijit.runtime.settings import settings
from tests.runtime.support import Counter, Holder, page_array, run_script


@given(size=st.one_of(st.integers(0, 5000), st.integers(0, 20 << 20)))
@hypothesis_settings(max_examples=150, deadline=None)
def test_alignment_padding_and_waste(size: int) -> None:
    buffer = buffers.allocate(size)
    assert buffer.address % buffers.ALIGNMENT == 0
    assert buffer.size_bytes == size
    assert not buffer.is_foreign
    spare = buffer.capacity_bytes - size
    assert spare >= 512
    if size > 1 << 20:
        assert spare <= size / 4 + 512 + 4096
    else:
        assert spare <= max(size / 2, 64) + 512
    # The padding is ours to write.
    whole = np.frombuffer(memory_of(buffer, size + 512), np.uint8)
    whole[:] = 0xAB


def memory_of(buffer: buffers.Buffer, size: int) -> memoryview:
    return memoryview((ctypes.c_uint8 * size).from_address(buffer.address)).cast("B")


def test_live_buffers_do_not_overlap() -> None:
    live = [buffers.allocate(s) for s in [0, 1, 64, 65, 100, 4096, 1 << 20] * 20]
    ranges = sorted((b.address, b.address + b.capacity_bytes) for b in live)
    for (_, end), (start, _) in itertools.pairwise(ranges):
        assert end <= start


def test_powers_of_two_are_not_rounded_up() -> None:
    for exponent in range(6, 25):
        buffer = buffers.allocate(1 << exponent)
        assert buffer.capacity_bytes <= (1 << exponent) + 512 + 4096


def test_freed_memory_is_used_again() -> None:
    first = buffers.allocate(3_000_000)
    address = first.address
    del first
    before = buffers.memory_stats()
    second = buffers.allocate(3_000_001)
    assert second.address == address
    after = buffers.memory_stats()
    assert after["allocation_count"] == before["allocation_count"]
    assert after["live_bytes"] - before["live_bytes"] == second.capacity_bytes
    assert before["cached_bytes"] - after["cached_bytes"] == second.capacity_bytes


def test_the_peak_is_remembered() -> None:
    buffers._statistics.peak_bytes = 0
    start = buffers.memory_stats()["live_bytes"]
    buffer = buffers.allocate(5 << 20)
    size = buffer.capacity_bytes
    del buffer
    stats = buffers.memory_stats()
    assert stats["live_bytes"] == start
    assert stats["peak_bytes"] == start + size


def test_flush_gives_memory_back() -> None:
    del [buffers.allocate(s) for s in (100, 2 << 20)][:]
    assert buffers.memory_stats()["cached_bytes"] > 0
    buffers.flush_malloc_cache()
    assert buffers.memory_stats()["cached_bytes"] == 0


def test_host_writes_wait_for_jobs_of_the_former_owner(holder: Holder) -> None:
    old = buffers.allocate(7000)
    address = old.address
    ticket = holder.submit()
    del old
    new = buffers.allocate(7000)
    assert new.address == address
    assert workers.completed_ticket() < ticket
    holder.release()
    new.wait_until_free()
    assert workers.completed_ticket() >= ticket


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(errors.SizeError, match=r"negative \(got -1 bytes\)"):
        buffers.allocate(-1)


@pytest.mark.parametrize("exponent", [45, 60, 63, 64, 80])
def test_too_much_memory_is_refused(exponent: int) -> None:
    size = 1 << exponent
    with pytest.raises(
        errors.AllocationError, match=rf"{size / 2**20:.1f} MiB can't be had"
    ):
        buffers.allocate(size)


def test_the_cache_is_flushed_before_giving_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buffers.flush_malloc_cache()
    held = buffers.memory_stats()["live_bytes"] >> 20
    monkeypatch.setattr(settings, "memory_limit_mb", held + 12)
    del [buffers.allocate(8 << 20)][:]
    assert buffers.memory_stats()["cached_bytes"] >= 8 << 20
    kept = buffers.allocate(9 << 20)  # fits only without what is cached
    assert buffers.memory_stats()["cached_bytes"] < 8 << 20
    with pytest.raises(errors.AllocationError, match=r"9\.0 MiB can't be had"):
        buffers.allocate(9 << 20)
    del kept


@given(
    dtype=st.sampled_from(dtypes.VALUES),
    size=st.integers(0, 3000),
    offset=st.integers(0, 40),
    step=st.sampled_from([1, 2, -1]),
)
@hypothesis_settings(max_examples=200, deadline=None)
def test_numpy_round_trip(
    dtype: dtypes.DType, size: int, offset: int, step: int
) -> None:
    source = np.arange(size * 2 + offset).astype(dtype.numpy)[offset::step][:size]
    buffer = buffers.from_numpy(source)
    result = buffers.as_numpy(buffer, dtype, source.size)
    assert result.dtype == dtype.numpy
    np.testing.assert_array_equal(result, source)
    if buffer.is_foreign:
        assert buffer.address == source.__array_interface__["data"][0]


@pytest.mark.parametrize(
    ("end_offset", "shared"),
    [(1, True), (3584, True), (3585, False), (4096, False)],
)
def test_sharing_needs_the_padding_on_the_last_page(
    end_offset: int, shared: bool
) -> None:
    array = page_array(1024, end_offset)
    buffer = buffers.from_numpy(array)
    assert buffer.is_foreign == shared
    np.testing.assert_array_equal(buffers.as_numpy(buffer, dtypes.UINT8, 1024), array)


def test_unaligned_and_strided_arrays_are_copied() -> None:
    raw = page_array(1024, 2048)
    unaligned = raw[1:1021].view(np.float32)
    strided = raw.view(np.float32)[::2]
    for array in (unaligned, strided, raw[:0]):
        assert not buffers.from_numpy(array).is_foreign
    assert buffers.from_numpy(raw.view(np.float32)).is_foreign


def test_shared_memory_lives_until_the_jobs_have_run(holder: Holder) -> None:
    gc.collect()
    array = page_array(1024, 2048).view(np.float32)
    owner = weakref.ref(array)
    buffer = buffers.from_numpy(array)
    del array
    assert owner() is not None
    ticket = holder.submit()
    before = buffers.memory_stats()["foreign_bytes"]
    del buffer
    gc.collect()
    assert buffers.memory_stats()["foreign_bytes"] == before - 1024
    assert owner() is not None
    holder.release()
    workers.wait(ticket)
    assert owner() is None


def test_shared_memory_is_let_go_at_once_when_nothing_runs() -> None:
    workers.sync()
    array = page_array(1024, 2048).view(np.float32)
    owner = weakref.ref(array)
    buffer = buffers.from_numpy(array)
    del array, buffer
    assert owner() is None


def test_a_view_keeps_the_memory_and_writes_through() -> None:
    buffer = buffers.allocate(400)
    view = buffers.as_numpy(buffer, dtypes.INT32, 100)
    view[:] = np.arange(100)
    other = buffers.as_numpy(buffer, dtypes.INT32, 50)
    np.testing.assert_array_equal(other, np.arange(50))
    part = view[10:20]
    live = buffers.memory_stats()["live_count"]
    del buffer, view, other
    assert buffers.memory_stats()["live_count"] == live
    np.testing.assert_array_equal(part, np.arange(10, 20))
    del part
    assert buffers.memory_stats()["live_count"] == live - 1


def test_buffers_from_several_threads() -> None:
    def work() -> None:
        for turn in range(2000):
            first = buffers.allocate(64 * (turn % 7))
            second = buffers.allocate(64 * (turn % 7))
            assert first.address != second.address

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()


def test_buffers_die_quietly_with_the_interpreter() -> None:
    result = run_script(
        """
        keep = [buffers.allocate(100), buffers.from_numpy(np.zeros(1 << 20))]
        counter = Counter()
        counter.submit(10**6, 10)
        """
    )
    assert result.stderr == ""


def test_a_kernel_sees_foreign_memory(counter: Counter) -> None:
    assert counter.counts.sum() == 0
    workers.wait(counter.submit(10, 5))
    assert counter.counts[0] == 10


def test_views_of_read_only_memory_are_read_only() -> None:
    array = page_array(256, 1024).view(np.int32)
    array[:] = 7
    array.flags.writeable = False
    buffer = buffers.from_numpy(array)
    assert buffer.address == array.ctypes.data
    view = buffers.as_numpy(buffer, dtypes.INT32, 64)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        view.flags.writeable = True
    assert array[0] == 7


def test_masks_of_odd_bytes_are_brought_to_0_and_1() -> None:
    numbers = page_array(256, 1024)
    numbers[:] = np.arange(256) % 4
    for array in (numbers.view(np.bool_), numbers.view(np.bool_)[::-3]):
        buffer = buffers.from_numpy(array)
        found = buffers.as_numpy(buffer, dtypes.UINT8, array.size)
        np.testing.assert_array_equal(found, array.view(np.uint8) != 0)
