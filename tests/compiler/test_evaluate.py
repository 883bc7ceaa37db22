"""Evaluation: threads side by side, forks, and launches that fail halfway."""

from __future__ import annotations

import pytest

from lumijit.compiler import evaluate
from lumijit.runtime.errors import ArrayTypeError, ArrayValueError
from tests.runtime.support import run_script


def test_forks_wait_for_the_evaluations_of_other_threads() -> None:
    run_script(
        """
        import warnings
        import lumijit as dr
        from lumijit.compiler import evaluate
        from lumijit.llvm import Float
        from lumijit.runtime import cpu
        warnings.simplefilter("ignore")  # there is another thread
        for lock in (evaluate._lock, workers._start_lock, cpu.build_lock):
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
        from lumijit.compiler import evaluate
        warnings.simplefilter("ignore")  # there is another thread
        held = threading.Event()
        def hold():
            with evaluate._lock:
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
            assert evaluate._lock.acquire(timeout=5)
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
