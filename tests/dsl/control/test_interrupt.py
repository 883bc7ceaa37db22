"""Ctrl-C during a long kernel."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import pytest

PROGRAM = textwrap.dedent(
    """
    import lumijit as lj
    from lumijit.llvm import UInt, UInt64, Float
    from lumijit.runtime.errors import CancelledError

    limit = lj.opaque(UInt64, 10**{digits}, {lanes})
    warm = lj.while_loop((UInt64(0),), lambda i: i < limit - limit, lambda i: (i + 1,))
    lj.eval(warm)
    kept = lj.arange(Float, 10) * 2
    lj.eval(kept)
    step = lambda i: (i + (i & 1) + 1,)
    (x,) = lj.while_loop((UInt64(0),), lambda i: i < limit, step)
    print("ready", flush=True)
    try:
        lj.eval(x)
        x.numpy()
        print("finished")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    try:
        x.numpy()
        print("readable")
    except CancelledError as error:
        print("cancelled:", error)
    print("kept", list(kept))
    print("sum", lj.sum(lj.arange(UInt, 1000) + 1))
    small = lj.while_loop((UInt(0, 1),), lambda i: i < 9, lambda i: (i + 2,))
    print("loop", small[0])
    """
)


@pytest.mark.parametrize(("digits", "lanes"), [(10, 1), (11, 1000)])
def test_interrupted_loop(digits: int, lanes: int) -> None:
    code = PROGRAM.format(digits=digits, lanes=lanes)
    # A shell starts what runs in the background with Ctrl-C ignored.
    code = (
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        + code
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.7)
            sent = time.perf_counter()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            answered = time.perf_counter() - sent
            rest = process.stdout.read()
        except BaseException:
            process.kill()
            raise
    assert process.returncode == 0
    assert "cancelled: " in rest
    assert "kept [0.0, 2.0, 4.0," in rest
    assert "sum [500500]" in rest
    assert "loop [10, 9]" in rest
    assert answered < 1.5, f"answered after {answered:.2f} s"
