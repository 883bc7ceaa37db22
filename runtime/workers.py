"""Running kernels: submitting jobs, waiting for them, choosing the thread count.

Owns the functions that the rest of lumijit calls, and the one pool of the
process; `pool` has the threads, `pool_ir` the native code.

A kernel is `void kernel(i64 begin, i64 end, i32 thread_index, ptr args)`; `args`
is an array of 8-byte slots. Jobs are numbered (tickets) and run strictly in
order of submission, unless a barrier says that some may overlap.

Ctrl-C while waiting cancels what has been submitted: blocks that have not begun
are skipped, and the 32-bit word at `cancel_address()` is not zero until the
first later job starts, so that kernels with long loops can poll it and end early.
What cancelled jobs should have written is undefined: `was_cancelled` tells.
"""

from __future__ import annotations

import operator
import os
import threading
from typing import Any, Final, Protocol, SupportsIndex

from lumijit.runtime import cpu, pool_layout
from lumijit.runtime.errors import (
    ArrayTypeError,
    ArrayValueError,
    SizeError,
)
from lumijit.runtime.pool import (
    Args,
    WorkerPool,
    core_count,
    interrupt_soon,
    invoke,
)
from lumijit.runtime.settings import settings

MAX_THREADS: Final = 1024
ALL_SLOTS: Final = 2**31 - 1

_thread_count: int = min(settings.threads, MAX_THREADS) or core_count()
running: WorkerPool | None = None
_start_lock = threading.Lock()
_COMPLETED: Final = pool_layout.COMPLETED // 8


class _Tickets:
    """The words of the pool, or zeros while there is none; reading them is no call."""

    __slots__ = ("words",)

    def __init__(self) -> None:
        self.words = memoryview(bytearray(8 * _COMPLETED + 8)).cast("q")


#: (In compiled modules, `_tickets` is known to C alone.)
tickets: Final = _Tickets()
_tickets: Final = tickets


class _Lock(Protocol):
    def acquire(self) -> bool: ...

    def release(self) -> None: ...


# Who holds one of these may want the next, but not the one before.
_held_while_forking: list[_Lock] = [_start_lock, cpu.build_lock]
_is_interrupted = False


def pool() -> WorkerPool:
    """Return the pool, which is made when it is first needed."""
    global running
    if running is None:
        with _start_lock:
            if running is None:
                made = WorkerPool(_thread_count)
                _tickets.words = made.words
                running = made
    return running


def submit(
    fn_address: int,
    args: Args,
    size: int,
    block_size: int,
    barrier: int | None = None,
    keepalive: object = None,
    helpable: bool = True,
    slots: int = ALL_SLOTS,
    started: list[int] | None = None,
) -> int:
    """Submit a job and return its ticket; it runs asynchronously.

    Args:
        fn_address: the kernel's function.
        args: the 8-byte slots; they are kept (bytes) or copied (others).
        size: number of elements. With 0, nothing is submitted.
        block_size: elements per call of the kernel, except in the last block.
        barrier: the job starts when all jobs with lower tickets have completed;
            None: when all earlier jobs have. Independent kernels share the ticket
            of the first of them.
        keepalive: what must live until the job has completed (its `Kernel`).
        helpable: whether a thread that waits may run blocks: false for kernels
            whose blocks might take longer than some 50 ms, as a waiting thread
            answers Ctrl-C between two blocks.
        slots: `slot_count()` when private copies per thread were made; executors
            with a higher index, which might exist by now, do not take part.
        started: gets the ticket at once, whatever moment a Ctrl-C comes at.
    """
    if size <= 0:
        if size < 0:
            raise SizeError("kernel launch", f"the size is negative (got {size})")
        return last_ticket()
    assert block_size > 0, f"block size {block_size}"
    return (running or pool()).submit(
        fn_address,
        args,
        size,
        block_size,
        barrier or 0,
        keepalive,
        helpable,
        slots,
        [] if started is None else started,
    )


def run_inline(
    fn_address: int, args: bytes, size: int, started: list[int] | None = None
) -> bool:
    """Run a small job on the calling thread, if no other job is pending.

    Args:
        fn_address: the kernel's function; it is called once, with thread index 0.
        args: the 8-byte slots.
        size: number of elements.
        started: gets a 1 at once, as in `submit`.

    Returns:
        Whether it was run. If not, the job must be submitted.
    """
    if size == 0:
        return True
    return invoke(
        running or pool(), fn_address, size, args, [] if started is None else started
    )


def run_all_inline(calls: bytes) -> bool:
    """Run small jobs one after the other, as `run_inline` does, if none is pending.

    Args:
        calls: `pool_address()`, how many jobs there are, and for each of them: the
            number of bytes up to the next, the kernel's function, the number of
            elements, and the 8-byte slots.

    Returns:
        Whether they were run. If not, each must be submitted.
    """
    invoke_all: Any = (running or pool()).native.invoke_all
    return bool(invoke_all(calls))


def run_at_once(fn_address: int, args: bytes) -> None:
    """Run a kernel on the first element, whatever waits: one of a microsecond."""
    (running or pool()).native.run(fn_address, 0, 1, 0, args)


def pool_address() -> int:
    """Return where the pool's words lie."""
    return (running or pool()).base


def last_ticket() -> int:
    """Return the ticket of the last job submitted; 0 if there was none."""
    return _tickets.words[0]


def completed_ticket() -> int:
    """Return the ticket up to which all jobs have completed."""
    return _tickets.words[_COMPLETED]


def is_idle() -> bool:
    """Tell whether all jobs that were submitted have completed."""
    return completed_ticket() >= last_ticket()


def wait(ticket: int) -> None:
    """Wait until a job, and all before it, have completed."""
    if running is not None and ticket > 0:
        running.wait(ticket)


def sync() -> None:
    """Wait until all jobs have completed."""
    if running is not None:
        running.wait(_tickets.words[0])


def was_cancelled(ticket: int) -> bool:
    """Tell whether a job was cancelled by Ctrl-C: its results are undefined."""
    return running is not None and running.was_cancelled(ticket)


def has_cancelled() -> bool:
    """Tell whether any job of this process was ever cancelled."""
    return running is not None and bool(running.cancelled)


def cancel_address() -> int:
    """Return the address of the 32-bit word that kernels may poll."""
    return pool().base + pool_layout.CANCEL


def keep_until(ticket: int, thing: object) -> None:
    """Keep something alive until a job has completed."""
    if running is not None and ticket > running.completed_ticket():
        running.keep_until(ticket, thing)


def watch(ticket: int, entry: dict[str, Any]) -> None:
    """Fill in `entry["execution_time"]` (µs) once the job has completed."""
    pool().watch(ticket, entry)


def slot_count() -> int:
    """Return the number of thread indices: the workers' and, first, the helper's."""
    return _thread_count + 1


def thread_count() -> int:
    """Return the number of threads that run kernels."""
    return _thread_count


def set_thread_count(count: SupportsIndex) -> None:
    """Change the number of threads that run kernels; legal while some run.

    Args:
        count: 1 or more.
    """
    global _thread_count
    if isinstance(count, bool) or not isinstance(count, SupportsIndex):
        raise ArrayTypeError(
            "set_thread_count()",
            f"'count' is no whole number (expected int, got {type(count).__name__})",
            "pass the number of threads.",
        )
    count = operator.index(count)
    if not 1 <= count <= MAX_THREADS:
        raise ArrayValueError(
            "set_thread_count()",
            f"'count' is out of range (expected 1 to {MAX_THREADS}, got {count})",
            "pass the number of threads; 1 runs everything on one thread.",
        )
    _thread_count = count
    if running is not None:
        running.resize(count)


def hold_while_forking(lock: _Lock) -> None:
    """Have forks wait until no other thread holds a lock.

    A child has no thread but the one that forks: a lock that another one held would
    stay locked in it for ever, and what it guards half done.

    Args:
        lock: its holders may launch kernels and wait for them.
    """
    _held_while_forking.insert(0, lock)


def _before_fork() -> None:
    global _is_interrupted
    for lock in _held_while_forking:
        while True:
            try:
                lock.acquire()
                break
            except KeyboardInterrupt:
                # Nothing can be raised here; it is once the fork is done.
                _is_interrupted = True
    if running is not None:
        running.before_fork()


def _after_fork_in_parent() -> None:
    global _is_interrupted
    if running is not None:
        running.after_fork_in_parent()
    for lock in reversed(_held_while_forking):
        lock.release()
    if _is_interrupted:
        _is_interrupted = False
        interrupt_soon()


def _after_fork_in_child() -> None:
    global _is_interrupted
    _is_interrupted = False
    if running is not None:
        running.after_fork_in_child()
    for lock in reversed(_held_while_forking):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
