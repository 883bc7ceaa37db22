"""Evaluation: threads side by side, forks, and launches that fail halfway."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lumijit as dr
from lumijit.compiler.launch import evaluate, kernels, launching, private_copies
from lumijit.compiler.plan import describe
from lumijit.llvm import Array3f, Float, UInt32
from lumijit.runtime import buffers, workers
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from tests.compiler.support import REPLACES
from tests.runtime.support import run_script


def test_forks_wait_for_the_evaluations_of_other_threads() -> None:
    run_script(
        """
        import warnings
        import lumijit as dr
        from lumijit.compiler.launch import evaluate
        from lumijit.llvm import Float
        from lumijit.runtime import cpu
        warnings.simplefilter("ignore")  # there is another thread
        for lock in (evaluate.lock, workers._start_lock, cpu.build_lock):
            held = threading.Event()
            def hold():
                with lock:
                    held.set()
                    time.sleep(0.2)
            thread = threading.Thread(target=hold)
            thread.start()
            held.wait()
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                total = dr.sum(dr.arange(Float, 100) * 2)[0]
                os._exit(7 if total == 9900 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
            thread.join()
            assert dr.sum(dr.arange(Float, 100) * 3)[0] == 14850
        """
    )


def test_ctrl_c_while_a_fork_waits_for_a_lock_comes_after_it() -> None:
    run_script(
        """
        import warnings
        from lumijit.compiler.launch import evaluate
        warnings.simplefilter("ignore")  # there is another thread
        held = threading.Event()
        def hold():
            with evaluate.lock:
                held.set()
                time.sleep(0.6)
        threading.Thread(target=hold).start()
        held.wait()
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            if os.fork() == 0:
                os._exit(0)
            time.sleep(10)
        except KeyboardInterrupt:
            assert evaluate.lock.acquire(timeout=5)
        else:
            raise SystemExit("not interrupted")
        """
    )


@pytest.mark.parametrize("bad", ["x", None, 1.5, float("nan"), True])
def test_thresholds_of_a_wrong_type_are_refused(bad: object) -> None:
    with pytest.raises(ArrayTypeError, match="'entries' is no whole number"):
        evaluate.set_expand_threshold(bad)  # type: ignore[arg-type]


def test_negative_thresholds_are_refused() -> None:
    with pytest.raises(ArrayValueError, match=r"'entries' is negative \(got -1\)"):
        evaluate.set_expand_threshold(-1)


def _fails_on_call(
    number: int, function: Callable[..., Any], error: type[BaseException]
) -> Callable[..., Any]:
    """Return the function, which raises on one call instead of doing anything."""
    calls = 0

    def changed(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            raise error
        return function(*args)

    return changed


COPIES = pytest.mark.packets("threads make no private copies")


@REPLACES
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("size", [100, 100_000])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (kernels, "find"),
        (launching, "start"),
        (launching, "report"),
        (launching, "_target_buffer"),
        pytest.param(private_copies.Private, "merge_into", marks=COPIES),
        pytest.param(private_copies.Private, "arguments", marks=COPIES),
    ],
)
def test_writes_happen_once_when_an_evaluation_fails_halfway(
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    number: int,
    size: int,
    error: type[BaseException],
) -> None:
    a = dr.opaque(Float, 0, 5)
    b = dr.opaque(Float, 0, 6)
    c = dr.opaque(Float, 0, 7)
    dr.scatter_add(a, Float(1), dr.arange(UInt32, 5 * size) % 5)
    dr.scatter_add(b, Float(2), dr.arange(UInt32, 6 * size) % 6)
    dr.scatter_add(c, Float(3), dr.arange(UInt32, 7 * size) % 7)
    with (
        monkeypatch.context() as patch,
        dr.scoped_set_flag(dr.JitFlag.KernelHistory),
    ):
        if name in ("merge_into", "arguments"):
            patch.setattr(kernels, "SMALL_WRITES", 0)
        patch.setattr(owner, name, _fails_on_call(number, getattr(owner, name), error))
        with pytest.raises(error):
            dr.eval(a, b, c)
    for array, entry in ((a, 1), (b, 2), (c, 3)):
        np.testing.assert_array_equal(array.numpy(), entry * size)


def test_ctrl_c_while_a_launch_blocks_is_no_second_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a = dr.opaque(Float, 0, 5)
    dr.scatter_add(a, Float(1), dr.arange(UInt32, 500) % 5)
    pool = workers.pool()
    interrupted = _fails_on_call(1, pool.wait, KeyboardInterrupt)
    with monkeypatch.context() as patch, dr.scoped_set_flag(dr.JitFlag.LaunchBlocking):
        patch.setattr(pool, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dr.eval(a)
    np.testing.assert_array_equal(a.numpy(), 100)


@REPLACES
def test_what_another_thread_finds_again_is_not_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = dr.arange(Float, 100)
    dr.eval(x)
    y = dr.sin(x)
    dr.scatter(y, Float(7), UInt32(3))
    found: list[Any] = []
    find = kernels.find

    def trace_meanwhile(*args: Any) -> Any:
        if not found:
            found.append(None)
            thread = threading.Thread(target=lambda: found.append(dr.sin(x)))
            thread.start()
            thread.join()
        return find(*args)

    monkeypatch.setattr(kernels, "find", trace_meanwhile)
    dr.eval(y)
    expected = np.sin(np.arange(100))
    assert np.allclose(found[1].numpy(), expected, atol=1e-5)
    expected[3] = 7
    assert np.allclose(y.numpy(), expected, atol=1e-5)


@pytest.mark.host("its allocator fails")
@REPLACES
def test_what_was_scheduled_is_computed_beside_what_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrays = [dr.arange(Float, n) + 1 for n in (3, 4, 5)]
    target = dr.zeros(Float, 3)
    dr.scatter_add(target, Float(1), dr.arange(UInt32, 300) % 3)
    dr.schedule(arrays)
    allocate = buffers.allocate

    def without_four(size_bytes: int, *args: Any) -> Any:
        if size_bytes == 4 * 4:
            raise MemoryError("four")
        return allocate(size_bytes, *args)

    with monkeypatch.context() as patch:
        patch.setattr(buffers, "allocate", without_four)
        wanted = dr.arange(Float, 6) * 2
        with pytest.raises(MemoryError, match="four"):
            dr.eval(wanted)
        for array in (arrays[0], arrays[2], target, wanted):
            assert array.state == dr.VarState.Evaluated
        np.testing.assert_array_equal(target.numpy(), 100)
        assert not dr.eval(), "what failed is no longer scheduled"
        with pytest.raises(MemoryError, match="four"):
            dr.eval(arrays[1])
    np.testing.assert_array_equal(arrays[1].numpy(), [1, 2, 3, 4])


@REPLACES
def test_what_was_scheduled_stays_so_when_ctrl_c_ends_the_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = dr.arange(Float, 10) * 3
    dr.schedule(x)
    target = dr.zeros(Float, 3)
    dr.scatter_add(target, Float(1), dr.arange(UInt32, 300) % 3)
    with monkeypatch.context() as patch:
        failing = _fails_on_call(1, kernels.find, KeyboardInterrupt)
        patch.setattr(kernels, "find", failing)
        with pytest.raises(KeyboardInterrupt):
            dr.eval()
    assert dr.eval()
    assert x.state == target.state == dr.VarState.Evaluated
    np.testing.assert_array_equal(target.numpy(), 100)


def _sums(values: Float, target: Float, loops: int) -> list[Any]:
    """Do all that is known by one walk: writes, several sizes, a gather, regions."""
    places = dr.arange(UInt32, 10)
    written = dr.opaque(Float, 0, 12)
    dr.scatter(written, values, places)
    sums = dr.zeros(Float, 3)
    dr.scatter_add(sums, values * 2, places % 3)
    found = dr.gather(Float, target, UInt32(loops, 1, 2))
    rows = dr.zeros(Float, 30)
    dr.scatter_add(rows, Array3f(values, loops, -values), places)
    counts, turns = dr.zeros(UInt32, 3), dr.zeros(UInt32, 1)

    def body(i: UInt32) -> tuple[UInt32]:
        dr.scatter_add(counts, 1, i % 3)
        dr.scatter_add(turns, 1, 0)
        return (i + 1,)

    (last,) = dr.while_loop((dr.zeros(UInt32, 10),), lambda i: i < places, body)
    by_turns = dr.zeros(UInt32, 10)
    dr.scatter(by_turns, last, 9 - places)
    wholes = dr.sum(values) + loops
    return [written, sums, found, rows, counts, turns, by_turns, wholes]


def test_known_launches_need_no_plan_and_no_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unwanted(*args: Any) -> Any:
        raise AssertionError("a plan or a program was made")

    values, target = dr.arange(Float, 10), dr.arange(Float, 12) * 0.5
    dr.eval(values, target)
    dr.eval(_sums(values, target, 4))
    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "plan", unwanted)
        patch.setattr(evaluate, "describe", describe.describe)
        for module in (evaluate, launching):
            patch.setattr(module, "Program", unwanted)
        again = _sums(values, target, 5)
        dr.eval(again)
    written, sums, found, rows, counts, turns, by_turns, total = again
    np.testing.assert_array_equal(found.numpy(), [2.5, 0.5, 1])
    expected = np.append(np.arange(10), [0, 0])
    np.testing.assert_array_equal(written.numpy(), expected)
    np.testing.assert_array_equal(sums.numpy(), [36, 24, 30])
    expected = np.stack([np.arange(10), np.full(10, 5), -np.arange(10)], 1)
    np.testing.assert_array_equal(rows.numpy(), expected.ravel())
    np.testing.assert_array_equal(counts.numpy(), [18, 15, 12])
    np.testing.assert_array_equal(turns.numpy(), [45])
    np.testing.assert_array_equal(by_turns.numpy(), np.arange(10)[::-1])
    assert total[0] == 50


@pytest.mark.parametrize("is_kept", [False, True])
def test_versions_between_writes_can_be_kept(is_kept: bool) -> None:
    sums, values = dr.zeros(Float, 4), dr.arange(Float, 4)
    dr.scatter_add(sums, values, dr.arange(UInt32, 4))
    between = Float(sums) if is_kept else None
    dr.scatter_add(sums, values, 3 - dr.arange(UInt32, 4))
    dr.eval(sums)
    np.testing.assert_array_equal(sums.numpy(), 3)
    if between is not None:
        np.testing.assert_array_equal(between.numpy(), range(4))


def test_writes_of_regions_are_carried_out_once() -> None:
    counts = dr.zeros(UInt32, 3)

    def body(i: UInt32, total: UInt32) -> tuple[UInt32, UInt32]:
        dr.scatter_add(counts, 1, i)
        return i + 1, total + i

    state = dr.zeros(UInt32, 5), dr.zeros(UInt32, 5)
    _, total = dr.while_loop(state, lambda i, total: i < 3, body)
    dr.eval(counts)
    np.testing.assert_array_equal(total.numpy(), 3)
    np.testing.assert_array_equal(counts.numpy(), 5)
