"""The pool: order, completeness, waiting, threads, fork, exit, Ctrl-C."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lumijit.runtime import buffers, dtypes, errors, pool_layout, workers
from tests.runtime.support import (
    MEET,
    SAXPY,
    Counter,
    Holder,
    build,
    float_buffer,
    launch,
    run_script,
)


def test_saxpy_over_many_sizes() -> None:
    kernel = build(SAXPY)
    for size in (1, 31, 32, 33, 1000, 65_536, 1_000_003):
        x = np.arange(size, dtype=np.float32)
        y = np.full(size, 3, np.float32)
        inputs = [float_buffer(x), float_buffer(y)]
        output = buffers.allocate(4 * size)
        slots = [b.address for b in (*inputs, output)]
        workers.wait(launch(kernel, slots, size, 16_384))
        result = buffers.as_numpy(output, dtypes.FLOAT32, size)
        np.testing.assert_array_equal(result, 2 * x + y)


@given(
    jobs=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**5)), max_size=30)
)
@hypothesis_settings(max_examples=40, deadline=None)
def test_every_element_is_run_once(jobs: list[tuple[int, int]]) -> None:
    counter = Counter()
    for size, block in jobs:
        counter.submit(size, block)
    workers.sync()
    assert counter.counts[0] == sum(size for size, _ in jobs)
    assert counter.counts[1] == sum(-(-size // block) for size, block in jobs)
    assert counter.counts[2:].sum() == counter.counts[1]


def test_more_jobs_than_the_ring_holds(counter: Counter) -> None:
    count = 3 * pool_layout.RING + 17
    for _ in range(count):
        counter.submit(10, 4)
    workers.sync()
    assert counter.counts[0] == 10 * count
    assert workers.completed_ticket() == workers.last_ticket()


def test_full_ring_waits_for_the_oldest(holder: Holder, counter: Counter) -> None:
    holder.submit()
    timer = threading.Timer(0.2, holder.release)
    timer.start()
    for _ in range(pool_layout.RING + 5):
        counter.submit(1, 1)
    workers.sync()
    timer.join()
    assert counter.counts[0] == pool_layout.RING + 5


def test_jobs_run_in_order() -> None:
    kernel = build(SAXPY)
    size = 50_000
    x = float_buffer(np.ones(size, np.float32))
    chain = [float_buffer(np.zeros(size, np.float32)) for _ in range(2)]
    for step in range(20):
        source, target = chain[step % 2], chain[1 - step % 2]
        launch(kernel, [x.address, source.address, target.address], size, 1024)
    workers.sync()
    result = buffers.as_numpy(chain[0], dtypes.FLOAT32, size)
    np.testing.assert_array_equal(result, np.float32(40))


def test_submission_is_asynchronous(holder: Holder, counter: Counter) -> None:
    first = holder.submit()
    last = counter.submit(1000, 10)
    assert last == first + 1 == workers.last_ticket()
    assert workers.completed_ticket() < first
    time.sleep(0.02)
    assert counter.counts[0] == 0
    holder.release()
    workers.wait(last)
    assert counter.counts[0] == 1000


def test_jobs_behind_one_barrier_overlap(
    counter: Counter, threads: Callable[[int], None]
) -> None:
    threads(2)
    holder = Holder()
    first = holder.submit()
    counter.submit(100, 10, barrier=first)
    deadline = time.monotonic() + 10
    while counter.counts[0] < 100 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert counter.counts[0] == 100
    assert workers.completed_ticket() < first
    after = counter.submit(1, 1)
    holder.release()
    workers.wait(after)
    assert counter.counts[0] == 101


def test_size_zero_submits_nothing(counter: Counter) -> None:
    before = workers.last_ticket()
    assert counter.submit(0, 10) == before
    assert workers.run_inline(counter.kernel.address, b"", 0)
    workers.sync()
    assert counter.counts.sum() == 0


def test_negative_size_is_refused(counter: Counter) -> None:
    with pytest.raises(errors.SizeError, match=r"the size is negative \(got -1\)"):
        counter.submit(-1, 10)


def test_arguments_may_be_any_bytes(counter: Counter) -> None:
    slots = (ctypes.c_uint64 * 1)(counter.counts.ctypes.data)
    for args in (slots, bytes(slots), bytearray(slots), memoryview(slots)):
        workers.submit(counter.kernel.address, args, 5, 5)
    slots[0] = 0  # mutable ones have been copied
    workers.sync()
    assert counter.counts[0] == 20


def test_inline_runs_on_this_thread(counter: Counter) -> None:
    workers.sync()
    args = counter.counts.ctypes.data.to_bytes(8, "little")
    assert workers.run_inline(counter.kernel.address, args, 123)
    assert list(counter.counts[:3]) == [123, 1, 1]


def test_inline_gives_way_to_pending_jobs(holder: Holder, counter: Counter) -> None:
    holder.submit()
    args = counter.counts.ctypes.data.to_bytes(8, "little")
    assert not workers.run_inline(counter.kernel.address, args, 1)
    assert counter.counts[0] == 0


def test_thread_indices_stay_below_the_slot_count(
    counter: Counter, threads: Callable[[int], None]
) -> None:
    for count in (1, 4, 2, 7, 1):
        threads(count)
        assert workers.thread_count() == count
        assert workers.slot_count() == count + 1
        counter.counts[:] = 0
        counter.submit(2000, 1)
        workers.sync()
        assert counter.counts[0] == 2000
        assert counter.counts[2 + workers.slot_count() :].sum() == 0


def test_workers_beyond_a_jobs_slots_stay_out(
    counter: Counter, threads: Callable[[int], None]
) -> None:
    threads(4)
    for turn in range(300):
        # The first worker may sleep while others, which must not, are awake.
        counter.submit(5, 1, slots=2, helpable=False)
        if turn % 3 == 0:
            workers.sync()
        if turn % 50 == 0:
            time.sleep(0.002)
    workers.sync()
    assert counter.counts[0] == 1500
    assert counter.counts[4:].sum() == 0


def test_who_waits_computes_along_though_workers_were_quicker(
    threads: Callable[[int], None],
) -> None:
    threads(2)
    words = np.zeros(2, np.int32)
    launch(build(MEET), [words.ctypes.data], 50, 1)
    deadline = time.monotonic() + 10
    while words[0] < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    begun = words.tolist()
    rescue = threading.Timer(10, words.__setitem__, (1, 2))
    rescue.start()
    workers.sync()
    rescue.cancel()
    assert (begun, words.tolist()) == ([3, 0], [50, 1])


def test_threads_may_be_changed_while_jobs_run(
    holder: Holder, counter: Counter, threads: Callable[[int], None]
) -> None:
    threads(3)
    for _ in range(10):
        counter.submit(10_000, 1)
    for count in (1, 5, 2):
        threads(count)
        counter.submit(10_000, 1)
    workers.sync()
    assert counter.counts[0] == 130_000


def test_numbers_of_numpy_count_threads() -> None:
    before = workers.thread_count()
    try:
        workers.set_thread_count(np.int64(2))
        assert workers.thread_count() == 2
        assert type(workers.thread_count()) is int
    finally:
        workers.set_thread_count(before)


@pytest.mark.parametrize("count", [0, -1, 100_000])
def test_bad_thread_counts(count: int) -> None:
    with pytest.raises(
        errors.ArrayValueError, match=rf"expected 1 to 1024, got {count}"
    ):
        workers.set_thread_count(count)


@pytest.mark.parametrize("count", [1.5, True, "2"])
def test_thread_counts_of_another_type(count: object) -> None:
    with pytest.raises(errors.ArrayTypeError, match="expected int, got"):
        workers.set_thread_count(count)  # type: ignore[arg-type]


def test_several_threads_submit_and_wait() -> None:
    counters = [Counter() for _ in range(4)]

    def work(counter: Counter) -> None:
        for _ in range(200):
            workers.wait(counter.submit(100, 7))

    callers = [threading.Thread(target=work, args=(c,)) for c in counters]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert [c.counts[0] for c in counters] == [20_000] * 4


def test_what_a_job_needs_is_kept_alive_and_then_let_go(holder: Holder) -> None:
    class Thing:
        pass

    thing = Thing()
    alive = weakref.ref(thing)
    counter = Counter()
    holder.submit()
    counter.submit(1, 1)
    workers.submit(
        counter.kernel.address,
        counter.counts.ctypes.data.to_bytes(8, "little"),
        1,
        1,
        keepalive=thing,
    )
    del thing
    gc.collect()
    assert alive() is not None
    holder.release()
    workers.sync()
    gc.collect()
    assert alive() is None


def test_waiting_for_a_past_or_absent_job_returns() -> None:
    workers.wait(0)
    workers.sync()
    workers.wait(workers.last_ticket())


def test_without_futex() -> None:
    run_script(
        """
        counter = Counter()
        assert not workers.pool().native.has_futex
        for count in (2, 1, 4):
            workers.set_thread_count(count)
            counter.counts[:] = 0
            for _ in range(1500):
                counter.submit(50, 3)
            workers.sync()
            assert counter.counts[0] == 75_000
        for turn in range(60):
            workers.set_thread_count(1 + turn % 3)
            counter.submit(10, 1)
        holder = Holder()
        holder.submit()
        counter.submit(1, 1)
        threading.Timer(0.1, holder.release).start()
        workers.sync()
        assert counter.counts[0] == 75_601
        """,
        LUMIJIT_NO_FUTEX="1",
    )


def test_fork_gives_the_child_its_own_pool() -> None:
    run_script(
        """
        counter = Counter()
        counter.submit(1000, 1)
        pid = os.fork()
        assert counter.counts[0] == 1000
        for _ in range(100):
            counter.submit(1000, 10)
        workers.sync()
        assert counter.counts[0] == 101_000
        assert len(workers.pool()._threads) == workers.thread_count()
        if pid == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        """
    )


def test_a_fork_while_a_property_is_computed_leaves_no_lock() -> None:
    run_script(
        """
        from lumijit.runtime.cached_properties import cached_property
        class Slow:
            @cached_property
            def value(self):
                computing.set()
                done.wait(1)
                return 7
        computing, done = threading.Event(), threading.Event()
        threading.Thread(target=lambda: Slow().value).start()
        computing.wait()
        pid = os.fork()
        if pid == 0:
            signal.alarm(5)
            done.set()
            os._exit(0 if Slow().value == 7 else 1)
        assert os.waitpid(pid, 0)[1] == 0
        done.set()
        """
    )


def test_ctrl_c_while_a_fork_waits_is_answered_after_it() -> None:
    run_script(
        """
        holder, counter = Holder(), Counter()
        holder.submit()
        ticket = counter.submit(10, 1)
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        import warnings
        warnings.simplefilter("ignore")  # the held worker is still there
        try:
            if os.fork() == 0:
                os._exit(0)
            time.sleep(10)
        except KeyboardInterrupt:
            workers.wait(counter.submit(5, 1))
            assert counter.counts[0] == 5
            assert workers.was_cancelled(ticket)
        else:
            raise SystemExit("not interrupted")
        """,
    )


def test_a_child_of_an_interrupted_fork_has_a_working_pool() -> None:
    run_script(
        """
        holder, counter = Holder(polls_cancel=False), Counter()
        held = holder.submit()
        # The handler leaves quietly, so that fork returns in the parent as well.
        signals = []
        def handler(number, frame):
            if not signals:
                signals.append(number)
                raise KeyboardInterrupt
        signal.signal(signal.SIGINT, handler)
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the held worker is still there
            pid = os.fork()
        if pid == 0:
            workers.wait(counter.submit(5, 1))
            ok = counter.counts[0] == 5 and workers.was_cancelled(held)
            os._exit(9 if ok else 1)
        holder.release()
        workers.sync()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
        """,
    )


def is_awake() -> bool:
    """Tell whether a worker runs blocks, or spins in expectation of some."""
    halves = workers.pool()._halves
    return bool(halves[pool_layout.ACTIVE // 4] or halves[pool_layout.SPINNERS // 4])


def test_workers_wake_and_sleep(holder: Holder) -> None:
    holder.submit()
    deadline = time.monotonic() + 10
    while not is_awake() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert is_awake()
    holder.release()
    workers.sync()
    while is_awake() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not is_awake()


def test_workers_spin_longer_while_jobs_come_soon(counter: Counter) -> None:
    if not workers.pool().native.has_futex:
        pytest.skip("there are no futexes")
    words = workers.pool().words
    short, long = (
        words[word // 8] for word in (pool_layout.SPIN_NS, pool_layout.LONG_SPIN_NS)
    )
    assert 0 < short < long

    def submit_until(pause_ns: int, patience: int) -> bool:
        deadline = time.monotonic() + 10
        while words[pool_layout.PATIENCE_NS // 8] != patience:
            workers.wait(counter.submit(1, 1))
            time.sleep(pause_ns / 1e9)
            if time.monotonic() > deadline:
                return False
        return True

    for _ in range(3):
        assert submit_until((short + long) // 4, long)
        assert submit_until(long * 20, short)


def test_a_finalizer_may_submit(counter: Counter) -> None:
    class Late:
        def __bytes__(self) -> bytes:
            return counter.counts.ctypes.data.to_bytes(8, "little")

        def __del__(self) -> None:
            counter.submit(3, 1)

    workers.submit(counter.kernel.address, bytes(Late()), 4, 1)
    workers.sync()
    assert counter.counts[0] == 7


def test_interpreter_ends_with_jobs_under_way() -> None:
    result = run_script(
        """
        import atexit
        counter = Counter()
        def late():
            # Registered before the pool was: runs after it has been closed.
            counter.submit(10, 1)
            workers.sync()
            print(counter.counts[0])
        atexit._clear()
        atexit.register(late)
        workers.running = None
        workers.pool()
        for _ in range(50):
            counter.submit(10**5, 10)
        """
    )
    assert result.stdout.strip() == str(50 * 10**5 + 10)


def test_interpreter_ends_after_ctrl_c_with_a_kernel_that_never_ends() -> None:
    run_script(
        """
        holder = Holder(polls_cancel=False)
        holder.submit()
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            workers.sync()
        except KeyboardInterrupt:
            pass
        """,
        timeout=20,
    )


@pytest.mark.parametrize("futex", ["0", "1"])
def test_ctrl_c_is_answered_and_cancels(futex: str) -> None:
    result = run_script(
        """
        holder, counter = Holder(), Counter()
        first = holder.submit()
        second = counter.submit(1000, 1)
        sent = []
        def send():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.2, send).start()
        try:
            workers.sync()
            raise SystemExit("not interrupted")
        except KeyboardInterrupt:
            print(time.monotonic() - sent[0])
        # The kernel polls the cancel word, so it ends; the next one is skipped.
        third = counter.submit(7, 1)
        workers.sync()
        assert counter.counts[0] == 7, counter.counts[0]
        assert ctypes.c_int32.from_address(workers.cancel_address()).value == 0
        cancelled = [workers.was_cancelled(t) for t in (first, second, third)]
        assert cancelled == [True, True, False], cancelled
        """,
        LUMIJIT_NO_FUTEX=futex,
    )
    assert float(result.stdout) < 0.5


def test_ctrl_c_while_helping_with_blocks_is_answered() -> None:
    result = run_script(
        """
        counter = Counter()
        for _ in range(200):
            counter.submit(10**9, 1000)
        sent = []
        def send():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.2, send).start()
        try:
            workers.sync()
            raise SystemExit("not interrupted")
        except KeyboardInterrupt:
            print(time.monotonic() - sent[0])
        """
    )
    assert float(result.stdout) < 0.5


def test_a_cancel_drops_no_block_that_a_later_one_waits_for() -> None:
    run_script(
        """
        import random
        workers.set_thread_count(16)
        kernel, pool = build(CHAIN), workers.pool()
        flags = np.zeros(50_000, np.int32)
        rng = random.Random(1)
        for _ in range(300):
            flags[:] = 0
            ticket = launch(kernel, [flags.ctypes.data], flags.size, 1)
            time.sleep(rng.random() * 1e-3)
            pool.cancel()
            workers.sync()
            # What was run are the first blocks: all or none of those that follow.
            assert np.all(flags[:-1] >= flags[1:])
            assert flags[-1] or workers.was_cancelled(ticket)
        """
    )
