"""Hand-written kernels and helper processes for the tests of the runtime."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from lumijit.runtime import buffers, cpu, dtypes, workers

# z[i] = 2 x[i] + y[i] for packets of 32
SAXPY = """
define void @kernel(i64 %begin, i64 %end, i32 %thread, ptr %args) {
entry:
  %x.base = load ptr, ptr %args
  %y.slot = getelementptr ptr, ptr %args, i64 1
  %y.base = load ptr, ptr %y.slot
  %z.slot = getelementptr ptr, ptr %args, i64 2
  %z.base = load ptr, ptr %z.slot
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %head ]
  %x.at = getelementptr float, ptr %x.base, i64 %i
  %y.at = getelementptr float, ptr %y.base, i64 %i
  %z.at = getelementptr float, ptr %z.base, i64 %i
  %x = load <32 x float>, ptr %x.at, align 4
  %y = load <32 x float>, ptr %y.at, align 4
  %scaled = fmul <32 x float> %x, splat (float 2.0)
  %z = fadd <32 x float> %scaled, %y
  store <32 x float> %z, ptr %z.at, align 4
  %next = add i64 %i, 32
  %more = icmp ult i64 %next, %end
  br i1 %more, label %head, label %exit
exit:
  ret void
}
"""

# Atomically: args[0] += end - begin, args[1] += 1, and args[2 + thread] += 1
COUNT = """
define void @kernel(i64 %begin, i64 %end, i32 %thread, ptr %args) {
  %counts = load ptr, ptr %args
  %length = sub i64 %end, %begin
  %sum = atomicrmw add ptr %counts, i64 %length seq_cst
  %blocks.at = getelementptr i64, ptr %counts, i64 1
  %blocks = atomicrmw add ptr %blocks.at, i64 1 seq_cst
  %index = zext i32 %thread to i64
  %slot = add i64 %index, 2
  %slot.at = getelementptr i64, ptr %counts, i64 %slot
  %mine = atomicrmw add ptr %slot.at, i64 1 seq_cst
  ret void
}
"""

# Waits until the word at args[0] is not 0, or the word at args[1] is not 0.
HOLD = """
define void @kernel(i64 %begin, i64 %end, i32 %thread, ptr %args) {
entry:
  %release = load ptr, ptr %args
  %cancel.slot = getelementptr ptr, ptr %args, i64 1
  %cancel = load ptr, ptr %cancel.slot
  br label %round
round:
  %word = load atomic i32, ptr %release seq_cst, align 4
  %stop = load atomic i32, ptr %cancel seq_cst, align 4
  %either = or i32 %word, %stop
  %go = icmp ne i32 %either, 0
  br i1 %go, label %exit, label %round
exit:
  ret void
}
"""

# Counts blocks that have begun (args[0]). On workers, all but the first wait for the
# flag (args[0] + 4), which the thread that waits for the job sets.
MEET = """
declare i32 @sched_yield()
define void @kernel(i64 %begin, i64 %end, i32 %thread, ptr %args) {
entry:
  %words = load ptr, ptr %args
  %begun = atomicrmw add ptr %words, i32 1 seq_cst
  %flag.at = getelementptr i32, ptr %words, i64 1
  %is_caller = icmp eq i32 %thread, 0
  br i1 %is_caller, label %set, label %wait
wait:
  %is_first = icmp eq i32 %begun, 0
  br i1 %is_first, label %exit, label %poll
set:
  %old = cmpxchg ptr %flag.at, i32 0, i32 1 seq_cst seq_cst
  ret void
poll:
  %flag = load atomic i32, ptr %flag.at seq_cst, align 4
  %go = icmp ne i32 %flag, 0
  br i1 %go, label %exit, label %again
again:
  %status = call i32 @sched_yield()
  br label %poll
exit:
  ret void
}
"""

# A block waits for the flag of the block before (at args[0]), then sets its own.
CHAIN = """
declare i32 @sched_yield()
define void @kernel(i64 %begin, i64 %end, i32 %thread, ptr %args) {
entry:
  %flags = load ptr, ptr %args
  %first = icmp eq i64 %begin, 0
  %before = sub i64 %begin, 1
  %at = getelementptr i32, ptr %flags, i64 %before
  br i1 %first, label %exit, label %poll
poll:
  %flag = load atomic i32, ptr %at acquire, align 4
  %go = icmp ne i32 %flag, 0
  br i1 %go, label %exit, label %again
again:
  %status = call i32 @sched_yield()
  br label %poll
exit:
  %mine = getelementptr i32, ptr %flags, i64 %begin
  store atomic i32 1, ptr %mine release, align 4
  ret void
}
"""

# A shell starts background jobs with Ctrl-C ignored, which children inherit.
PREAMBLE = """
import ctypes, os, signal, struct, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
sys.path.insert(0, {folder!r})
from tests.runtime.support import *
"""


def build(ir: str) -> cpu.Kernel:
    return cpu.link(cpu.compile_ir(ir), "kernel", "test")


def launch(
    kernel: cpu.Kernel, values: list[int], size: int, block_size: int, **more: object
) -> int:
    args = struct.pack(f"{len(values)}Q", *values)
    return workers.submit(
        kernel.address,
        args,
        size,
        block_size,
        keepalive=kernel,
        **more,  # type: ignore[arg-type]
    )


class Counter:
    """Runs the counting kernel: how much was run, in how many blocks, by whom."""

    def __init__(self) -> None:
        self.kernel = build(COUNT)
        self.counts = np.zeros(workers.MAX_THREADS + 3, np.int64)

    def submit(self, size: int, block_size: int, **more: object) -> int:
        slots = [self.counts.ctypes.data]
        return launch(self.kernel, slots, size, block_size, **more)


class Holder:
    """Runs a kernel that holds the queue until it is released (or cancelled)."""

    def __init__(self, polls_cancel: bool = True) -> None:
        self.kernel = build(HOLD)
        self.words = (ctypes.c_int32 * 2)()
        base = ctypes.addressof(self.words)
        stop = workers.cancel_address() if polls_cancel else base + 4
        self.slots = [base, stop]

    def submit(self) -> int:
        return launch(self.kernel, self.slots, 1, 1, helpable=False)

    def release(self) -> None:
        self.words[0] = 1


def run_script(
    body: str, timeout: float = 60, check: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    code = PREAMBLE.format(folder=root) + textwrap.dedent(body)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if check:
        assert result.returncode == 0, result.stderr
    return result


def float_buffer(values: np.ndarray[Any, Any]) -> buffers.Buffer:
    buffer = buffers.allocate(values.nbytes)
    buffer.wait_until_free()
    buffers.as_numpy(buffer, dtypes.FLOAT32, values.size)[:] = values
    return buffer


def page_array(size: int, end_offset: int) -> np.ndarray[Any, Any]:
    """Make an array whose last byte lies `end_offset` bytes into a page."""
    memory = np.frombuffer(mmap.mmap(-1, 1 << 16), np.uint8)
    start = (-memory.__array_interface__["data"][0]) % 4096 + (1 << 15)
    end = start + end_offset
    return memory[end - size : end]
