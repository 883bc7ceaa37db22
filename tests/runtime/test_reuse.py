"""Memory that queued jobs use: who may have it next, and that none of it is lost."""

from __future__ import annotations

import gc
import weakref

import numpy as np

from lumijit.runtime import buffers, workers
from tests.runtime.support import Holder, page_array, run_script


def test_an_evaluation_loop_needs_three_arrays() -> None:
    run_script(
        """
        import lumijit as dr
        from lumijit.llvm import Float
        n = 1 << 20
        x = dr.arange(Float, n) * 1e-3
        dr.eval(x)
        dr.eval(dr.sin(x) + 1)
        dr.sync_thread()
        holder = Holder()
        buffers.flush_malloc_cache()
        holder.submit()
        expected = np.arange(n, dtype=np.float32) * np.float32(1e-3)
        for _ in range(100):
            x = dr.sin(x) + 1
            dr.eval(x)
            expected = np.sin(expected) + 1
        stats = buffers.memory_stats()
        assert workers.completed_ticket() < workers.last_ticket()
        assert stats["live_bytes"] + stats["cached_bytes"] < 13 << 20, stats
        holder.release()
        assert np.allclose(x.numpy(), expected, atol=1e-5)
        """
    )


def test_temporaries_of_collectives_are_not_kept() -> None:
    run_script(
        """
        import lumijit as dr
        from lumijit.llvm import Float, UInt
        n = 1 << 20
        ones = dr.opaque(Float, 1, n)
        index = dr.arange(UInt, n) % 7
        dr.eval(index)
        def step():
            target = dr.zeros(Float, 7)
            dr.scatter_add(target, dr.prefix_sum(ones), index)
            return target * 2
        expected = step().numpy()
        dr.sync_thread()
        holder = Holder()
        buffers.flush_malloc_cache()
        before = buffers.memory_stats()["live_bytes"]
        holder.submit()
        for _ in range(50):
            y = step()
            dr.eval(y)
        stats = buffers.memory_stats()
        assert stats["live_bytes"] + stats["cached_bytes"] - before < 9 << 20, stats
        holder.release()
        assert np.allclose(y.numpy(), expected, rtol=1e-3)
        """
    )


def test_the_host_takes_memory_that_no_job_uses(holder: Holder) -> None:
    """Copying to memory waits for no job, as long as little is under way."""
    strided = np.arange(14_000, dtype=np.float32)[::2]
    first = buffers.from_numpy(strided)
    address = first.address
    ticket = holder.submit()
    del first
    second = buffers.from_numpy(strided)
    assert second.address != address
    assert workers.completed_ticket() < ticket


def test_the_host_does_not_run_far_ahead() -> None:
    run_script(
        """
        import lumijit as dr
        from lumijit.llvm import Float
        def piece(k):
            return np.full(4 << 20, k, np.float32)
        dr.eval(Float(piece(0)) + 1)
        dr.sync_thread()
        holder = Holder()
        ticket = holder.submit()
        results = []
        for k in range(3):
            results.append(Float(piece(k)) + 1)
            dr.eval(results[-1])
        assert workers.completed_ticket() < ticket
        threading.Timer(0.2, holder.release).start()
        for k in range(3, 12):
            results.append(Float(piece(k)) + 1)
            dr.eval(results[-1])
        assert workers.completed_ticket() >= ticket
        for k, result in enumerate(results):
            assert np.all(result.numpy() == k + 1)
        """
    )


def test_ctrl_c_loses_no_memory() -> None:
    """Not while an array dies, nor while it is made; and no Ctrl-C is lost."""
    result = run_script(
        """
        before = buffers.memory_stats()
        sent = caught = 0
        def on_alarm(*unused):
            global sent
            sent += 1
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, on_alarm)
        def work():
            while True:
                a = buffers.allocate(1000)
                b = buffers.allocate(100_000)
                del a
                a = buffers.allocate(1000)
                del a, b
        end = time.monotonic() + 2
        while time.monotonic() < end:
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-3 * (1 + sent % 7 / 10))
                work()
            except KeyboardInterrupt:
                caught += 1
        assert caught == sent > 100, (caught, sent)
        after = buffers.memory_stats()
        assert after["live_bytes"] == before["live_bytes"], after
        assert after["live_count"] == before["live_count"], after
        assert after["allocation_count"] < before["allocation_count"] + 9, after
        """
    )
    assert result.stderr == ""


def test_shared_memory_in_cyclic_garbage_outlives_its_jobs(holder: Holder) -> None:
    class Cycle:
        pass

    workers.sync()
    array = page_array(1 << 14, 64)
    owner = weakref.ref(array)
    cycle = Cycle()
    cycle.me, cycle.buffer = cycle, buffers.from_numpy(array)  # type: ignore[attr-defined]
    assert cycle.buffer.is_foreign  # type: ignore[attr-defined]
    ticket = holder.submit()
    del array, cycle
    gc.collect()
    buffers.memory_stats()
    assert owner() is not None
    holder.release()
    workers.wait(ticket)
    assert owner() is None
