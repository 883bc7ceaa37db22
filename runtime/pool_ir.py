"""The worker pool's native part, as LLVM IR text.

Owns the code that runs without Python: handing out blocks of jobs, waiting and
waking. `pool_layout` owns the words in memory, `pool` the threads.

How it works. Jobs have numbers (tickets) 1, 2, … and live in a ring of records;
`submitted` is the last one published, `completed` the last one before which all
are done. A job may start when all jobs below its barrier are done. Executors
claim blocks by compare-and-swap on a word that holds the ticket and the next
block, so that a stale view of a recycled record can claim nothing. At most
`limit` executors are active at once, be they workers or a thread that waits for
a result and helps. Idle workers spin shortly (few at a time), then sleep on the
event counter `wake`; waiting threads sleep on the counter `done`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from lumijit.runtime import pool_layout
from lumijit.runtime.pool_ir_jobs import JOBS
from lumijit.runtime.pool_ir_threads import CALLERS, WORKERS


class Platform(NamedTuple):
    """What differs between the machines that the pool runs on."""

    pause: str
    futex_number: int
    monotonic_clock: int


def platform_for(system: str, machine: str) -> Platform:
    """Return the constants of an operating system and a processor."""
    machine = machine.lower()
    if machine in ("x86_64", "amd64"):
        pause, futex = "call void @llvm.x86.sse2.pause()", 202
    elif machine in ("aarch64", "arm64"):
        pause, futex = "call void @llvm.aarch64.hint(i32 1)", 98
    else:
        pause, futex = "", 0
    return Platform(pause, futex, 6 if system == "darwin" else 1)


SYMBOLS: Final = (
    "pool_worker",
    "pool_drain",
    "pool_submit",
    "pool_wait",
    "pool_invoke",
    "pool_invoke_all",
    "pool_poke",
    "pool_cancel",
    "pool_run",
)


_SYSTEM: Final = """
{pause_declaration}
define internal void @pause() {{
  {pause}
  ret void
}}

; Nanoseconds of the monotonic clock; 0 where there is none.
define internal i64 @now(ptr %pool) {{
  %at = getelementptr i8, ptr %pool, i64 {CLOCK}
  %clock = load ptr, ptr %at
  %missing = icmp eq ptr %clock, null
  br i1 %missing, label %none, label %read
read:
  %time = alloca {{ i64, i64 }}
  %status = call i32 %clock(i32 {monotonic_clock}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %scaled = mul i64 %seconds, 1000000000
  %ns = add i64 %scaled, %rest
  ret i64 %ns
none:
  ret i64 0
}}

; Sleep while the word has this value; a timeout of 0 means for ever.
define internal void @sleep(ptr %pool, ptr %word, i32 %value, i64 %timeout) {{
entry:
  %at = getelementptr i8, ptr %pool, i64 {SYSCALL}
  %syscall = load ptr, ptr %at
  %missing = icmp eq ptr %syscall, null
  br i1 %missing, label %out, label %enter
enter:
  %time = alloca {{ i64, i64 }}
  %seconds = udiv i64 %timeout, 1000000000
  %rest = urem i64 %timeout, 1000000000
  store i64 %seconds, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  store i64 %rest, ptr %rest.at
  %forever = icmp eq i64 %timeout, 0
  %limit = select i1 %forever, ptr null, ptr %time
  %status = call i64 (i64, ...) %syscall(i64 {futex_number}, ptr %word, i32 128,
    i32 %value, ptr %limit, ptr null, i32 0)
  br label %out
out:
  ret void
}}

define internal void @rouse(ptr %pool, ptr %word, i32 %count) {{
entry:
  %at = getelementptr i8, ptr %pool, i64 {SYSCALL}
  %syscall = load ptr, ptr %at
  %missing = icmp eq ptr %syscall, null
  br i1 %missing, label %out, label %enter
enter:
  %status = call i64 (i64, ...) %syscall(i64 {futex_number}, ptr %word, i32 129,
    i32 %count, ptr null, ptr null, i32 0)
  br label %out
out:
  ret void
}}

define internal ptr @record(ptr %pool, i64 %ticket) {{
  %slot = and i64 %ticket, {ring_mask}
  %scaled = mul i64 %slot, {RECORD_BYTES}
  %offset = add i64 %scaled, {HEADER_BYTES}
  %at = getelementptr i8, ptr %pool, i64 %offset
  ret ptr %at
}}

; Announce an event to the workers and wake up to `count` that sleep.
define internal void @announce(ptr %pool, i32 %count) {{
entry:
  %wake = getelementptr i8, ptr %pool, i64 {WAKE}
  %old = atomicrmw add ptr %wake, i32 1 seq_cst
  %sleepers = get i32 %pool.SLEEPERS seq_cst
  %some = icmp sgt i32 %sleepers, 0
  %wanted = icmp sgt i32 %count, 0
  %both = and i1 %some, %wanted
  br i1 %both, label %call, label %out
call:
  call void @rouse(ptr %pool, ptr %wake, i32 %count)
  br label %out
out:
  ret void
}}

define internal i1 @is_pending(ptr %pool) {{
  %completed = get i64 %pool.COMPLETED seq_cst
  %submitted = get i64 %pool.SUBMITTED seq_cst
  %more = icmp slt i64 %completed, %submitted
  ret i1 %more
}}
"""


# Intel's processors take a hundred times as long where a result is denormal. (Bit 15 of
# the control word, with which such results become zero; operands stay what they are.)
_RUN_FLUSHING: Final = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define void @pool_run(ptr %fn, i64 %begin, i64 %end, i32 %index, ptr %args) {{
  %words = alloca [2 x i32]
  %own = getelementptr i32, ptr %words, i64 1
  call void @llvm.x86.sse.stmxcsr(ptr %words)
  %callers = load i32, ptr %words
  %flushing = or i32 %callers, 32768
  store i32 %flushing, ptr %own
  call void @llvm.x86.sse.ldmxcsr(ptr %own)
  call void %fn(i64 %begin, i64 %end, i32 %index, ptr %args)
  call void @llvm.x86.sse.ldmxcsr(ptr %words)
  ret void
}}
"""
_RUN: Final = """
define void @pool_run(ptr %fn, i64 %begin, i64 %end, i32 %index, ptr %args) {{
  call void %fn(i64 %begin, i64 %end, i32 %index, ptr %args)
  ret void
}}
"""


# Reading or writing a word of the pool or of a record, by its name in `pool_layout`.
_ACCESS: Final = re.compile(
    r"  (?:%(\S+) = get|put) (i\d+)(?: (\S+),)? %([\w.]+)\.([A-Z_]+) (\w+)"
)


def _spelled_out(access: re.Match[str]) -> str:
    """Return the instructions of LLVM for `get` and `put`."""
    name, ty, value, owner, word, order = access.groups()
    place = f"%{name}.place" if name else f"%{word}.{value.removeprefix('%')}.place"
    what = f"%{name} = load atomic {ty}" if name else f"store atomic {ty} {value}"
    return f"""  {place} = getelementptr i8, ptr %{owner}, i64 {{{word}}}
  {what}, ptr {place} {order}, align {int(ty[1:]) // 8}"""


def pool_ir(platform: Platform, is_flushing: bool) -> str:
    """Write the pool's native functions for a platform.

    With `is_flushing`, an x86, results below the normal numbers become zero.
    """
    name = platform.pause.partition("@")[2].partition("(")[0]
    arguments = "i32" if "i32" in platform.pause else ""
    values = {k: v for k, v in vars(pool_layout).items() if k.isupper()}
    run = _RUN_FLUSHING if is_flushing else _RUN
    text = _ACCESS.sub(_spelled_out, _SYSTEM + run + JOBS + WORKERS + CALLERS)
    return text.format(
        pause=platform.pause,
        pause_declaration=f"declare void @{name}({arguments})" if name else "",
        futex_number=platform.futex_number,
        monotonic_clock=platform.monotonic_clock,
        ring_mask=pool_layout.RING - 1,
        **values,
    )
