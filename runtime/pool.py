"""The worker pool's Python part: the threads, the native functions, fork and exit.

Owns the order of jobs, the threads and what must stay alive while jobs run. The
native part, which hands out blocks without Python, is written by `pool_ir`;
`workers` is what the rest of lumijit calls.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import platform
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import starmap
from struct import Struct
from typing import Any, Final, TypeVar

from lumijit.runtime import cgroup, cpu, pool_ir
from lumijit.runtime import pool_layout as layout
from lumijit.runtime.settings import LONG_SPIN, settings

T = TypeVar("T")
Args = bytes | bytearray | memoryview | ctypes.Array[Any]

# How long a waiting thread stays away from Python, where Ctrl-C is noticed.
_SLICE_NS: Final = 50_000_000
_MAX_BLOCKS: Final = 2**31
# How long the interpreter's end waits for threads that run cancelled jobs.
_LEAVE_S: Final = 0.3
_pack_call: Final = Struct(layout.CALL).pack


def core_count() -> int:
    """Return how many cores this process may use, or how many cores' time."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:
        count = os.cpu_count() or 1
    return min(count, cgroup.cpu_cores())


def _function_address(name: str) -> int:
    """Return the address of a C library function, or 0 if there is none."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def interrupt_soon() -> None:
    """Deliver a Ctrl-C that came while forking, where what is raised is lost."""
    main = threading.main_thread().ident
    while True:
        try:
            threading.Timer(0.01, signal.pthread_kill, (main, signal.SIGINT)).start()
            return
        except KeyboardInterrupt:
            # Even this one came too soon, on a busy machine.
            continue


class _Native:
    """The pool's native functions, built once and kept in the disk cache."""

    def __init__(self) -> None:
        target = pool_ir.platform_for(sys.platform, platform.machine())
        text = pool_ir.pool_ir(target, cpu.flushes_denormals())
        # Without optimisations it is built in 7 ms, with them in 34; it runs as fast.
        self.addresses, self.tracker = cpu.link_text(b"pool", text, 0, pool_ir.SYMBOLS)
        self.has_futex = (
            sys.platform == "linux"
            and target.futex_number != 0
            and not settings.no_futex
        )
        pointer, i64, i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
        # With Python's lock held (short calls, and what must be atomic) …
        self.submit = self._bind(
            ctypes.PYFUNCTYPE(i64, *[pointer] * 3, *[i64] * 3, i32, i32), "submit"
        )
        # (One argument that needs no conversion: it takes a third of the time of four.)
        self.invoke = self._bind(ctypes.PYFUNCTYPE(i32), "invoke")
        self.invoke_all = self._bind(ctypes.PYFUNCTYPE(i32), "invoke_all")
        self.poke = self._bind(ctypes.PYFUNCTYPE(None, pointer), "poke")
        self.cancel = self._bind(ctypes.PYFUNCTYPE(i64, pointer), "cancel")
        self.run = self._bind(
            ctypes.PYFUNCTYPE(None, pointer, i64, i64, i32, ctypes.c_char_p), "run"
        )
        # … and without (calls that may take long).
        self.worker = self._bind(ctypes.CFUNCTYPE(None, pointer, i32), "worker")
        self.drain = self._bind(ctypes.CFUNCTYPE(i32, pointer, i32), "drain")
        self.wait = self._bind(ctypes.CFUNCTYPE(i32, pointer, i64, i64, i32), "wait")

    def _bind(self, prototype: Any, name: str) -> Any:
        return prototype(self.addresses[f"pool_{name}"])


def holding(lock: Any, function: Callable[[T], object], argument: T) -> None:
    """Call a function while a lock is held.

    Compiled modules have this as a function in C, of the same name (`workers.pxd`).
    """
    with lock:
        function(argument)


def invoke(
    pool: WorkerPool, fn_address: int, size: int, args: bytes, started: list[int]
) -> bool:
    """Run a job on this thread if none is pending; note a 1 if so.

    Compiled modules have this as a function in C, of the same name (`workers.pxd`).
    """
    call = _pack_call(pool.base, fn_address, size) + args
    # In C, both: a Ctrl-C can't come in between.
    started += map(pool.native.invoke, (call,))
    if started[-1] == 1:
        return True
    del started[-1]
    return False


class WorkerPool:
    """The jobs and the threads of this process. There is one: see `workers`."""

    def __init__(self, thread_count: int) -> None:
        self.native: Final = _Native()
        self._thread_count = thread_count
        self._memory = ctypes.create_string_buffer(layout.POOL_BYTES + 64)
        self.invoke_address: Final = self.native.addresses["pool_invoke"]
        self.base: Final = -(-ctypes.addressof(self._memory) // 64) * 64
        words = ctypes.c_int64 * (layout.POOL_BYTES // 8)
        self.words = memoryview(words.from_address(self.base)).cast("B").cast("q")
        halves = ctypes.c_int32 * (layout.HEADER_BYTES // 4)
        self._halves = memoryview(halves.from_address(self.base)).cast("B").cast("i")
        self._lock = threading.RLock()
        self._helper = threading.Lock()
        self._kept: deque[tuple[int, object]] = deque()
        self._watched: deque[tuple[int, dict[str, Any]]] = deque()
        # The first and the last ticket of what each Ctrl-C cancelled.
        self.cancelled: Final[list[tuple[int, int]]] = []
        self._threads: dict[int, threading.Thread] = {}
        self._is_closed = False
        self._is_interrupted = False
        # Where there is no futex: what wakes each worker, and what they report.
        self._events: dict[int, threading.Event] = {}
        self._progress = threading.Event()
        clock = _function_address("clock_gettime")
        self.words[layout.CLOCK // 8] = clock
        # (Who can't see that time passes would spin for ever.)
        spin_ns = settings.spin_us * 1000 if clock else 0
        self.words[layout.SPIN_NS // 8] = spin_ns
        self.words[layout.PATIENCE_NS // 8] = spin_ns
        self.words[layout.LONG_SPIN_NS // 8] = spin_ns * LONG_SPIN
        if self.native.has_futex:
            self.words[layout.SYSCALL // 8] = _function_address("syscall")
        # What native threads may use while the interpreter is torn down stays for ever.
        for thing in (self._memory, self.native, self._kept):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
        self._set_limit(thread_count)
        atexit.register(self.close)
        # Now, not when the first job is submitted: kernels start without delay.
        with self._lock:
            self._start_threads()

    # Submitting

    def submit(
        self,
        fn_address: int,
        args: Args,
        size: int,
        block_size: int,
        barrier: int,
        keepalive: object,
        helpable: bool,
        slots: int,
        started: list[int],
    ) -> int:
        """Publish a job; see the module's `submit`."""
        if not isinstance(args, bytes):
            args = bytes(args)
        if size > block_size * _MAX_BLOCKS:
            block_size = -(-size // _MAX_BLOCKS)
        done: list[object] = []
        with self._lock:
            if not self._threads:
                self._start_threads()
            self._sweep(done)
            # Kept before the job exists: an interrupt may come at any time.
            expected = self.words[0] + 1
            self._kept.append((expected, (args, keepalive)))
            job = (
                self.base,
                fn_address,
                args,
                size,
                block_size,
                barrier,
                slots,
                helpable,
            )
            while True:
                # In C, both: a Ctrl-C can't come in between.
                started += starmap(self.native.submit, (job,))
                ticket = started[-1]
                if ticket:
                    break
                del started[-1]
                self.wait(self.words[0] + 1 - layout.RING)
                self._sweep(done)
            if ticket != expected:
                # A finalizer has submitted a job of its own in between.
                self._kept.append((ticket, (args, keepalive)))
            if not self.native.has_futex:
                self._signal_threads()
            if self._is_closed:
                self.wait(ticket)
        return ticket

    def _sweep(self, done: list[object]) -> None:
        """Move what completed jobs have kept alive to `done` (dies without lock)."""
        completed = self.words[layout.COMPLETED // 8]
        while self._kept and self._kept[0][0] <= completed:
            done.append(self._kept.popleft())
        while self._watched and self._watched[0][0] <= completed:
            ticket, entry = self._watched.popleft()
            entry["execution_time"] = self._duration_us(ticket)

    def _duration_us(self, ticket: int) -> float:
        record = layout.HEADER_BYTES
        record += (ticket % layout.RING) * layout.RECORD_BYTES
        words = self.words
        if words[(record + layout.FINISHED) // 8] != ticket:
            return 0.0
        start = words[(record + layout.START_NS) // 8]
        return (words[(record + layout.END_NS) // 8] - start) / 1000.0

    def watch(self, ticket: int, entry: dict[str, Any]) -> None:
        """Fill in `entry["execution_time"]` (µs) once the job has completed."""
        with self._lock:
            self._watched.append((ticket, entry))

    def keep_until(self, ticket: int, thing: object) -> None:
        """Keep something alive until a job has completed.

        It may be called by finalizers, so it takes no lock.
        """
        self._kept.append((ticket, thing))

    # Waiting

    def last_ticket(self) -> int:
        """Return the number of the last job submitted."""
        return self.words[0]

    def completed_ticket(self) -> int:
        """Return the number up to which all jobs have completed."""
        return self.words[layout.COMPLETED // 8]

    def wait(self, ticket: int) -> None:
        """Wait for a job and all before it; a Ctrl-C cancels them."""
        if self.words[layout.COMPLETED // 8] < ticket:
            assert ticket <= self.words[0], f"no job has the ticket {ticket}"
            try:
                self._wait_in_slices(ticket)
            except KeyboardInterrupt:
                self.cancel()
                raise
        if self._kept or self._watched:
            done: list[object] = []
            with self._lock:
                self._sweep(done)

    def _wait_in_slices(self, ticket: int) -> None:
        wait, base = self.native.wait, self.base
        while self._is_closed and self.completed_ticket() < ticket:
            self.native.drain(base, 0)
        if not self.native.has_futex:
            while True:
                self._progress.clear()
                if self.completed_ticket() >= ticket:
                    return
                self._progress.wait(0.005)
        # Index 0 is that of the helper: only one thread may have it.
        is_helper = self._helper.acquire(blocking=False)
        try:
            while not wait(base, ticket, _SLICE_NS, is_helper):
                pass
        finally:
            if is_helper:
                self._helper.release()

    def cancel(self) -> None:
        """Skip what has been submitted and has not begun; see the module's text."""
        with self._lock:
            completed = self.completed_ticket()
            last = self.native.cancel(self.base)
            if last:
                self.cancelled.append((completed + 1, last))

    def was_cancelled(self, ticket: int) -> bool:
        """Tell whether a job was cancelled before it had completed."""
        return any(first <= ticket <= last for first, last in self.cancelled)

    # Threads

    def _set_limit(self, count: int) -> None:
        self._halves[layout.LIMIT // 4] = count
        spinners = max(min(count, core_count()) - 1, 0)
        self._halves[layout.MAX_SPINNERS // 4] = spinners

    def _start_threads(self) -> None:
        if self._is_closed:
            return
        for index in range(1, self._thread_count + 1):
            former = self._threads.get(index)
            if former is not None and former.is_alive():
                continue
            thread = threading.Thread(
                target=self._run_worker,
                args=(index,),
                name=f"lumijit-worker-{index}",
                daemon=True,
            )
            if not self.native.has_futex:
                self._events[index] = threading.Event()
            self._threads[index] = thread
            thread.start()

    def _run_worker(self, index: int) -> None:
        if self.native.has_futex:
            self.native.worker(self.base, index)
            return
        event = self._events[index]
        while index <= self._halves[layout.LIMIT // 4]:
            event.clear()
            is_pending = self.native.drain(self.base, index)
            self._progress.set()
            # Blocks may become available without a signal while jobs are pending.
            event.wait(0.001 if is_pending else None)

    def resize(self, count: int) -> None:
        """Change the number of threads; ends after the blocks they have begun."""
        with self._lock:
            # A Ctrl-C may have cut the last change short: end that first, or a
            # thread that leaves and a new one would share an index.
            self._join_above(self._halves[layout.LIMIT // 4])
            self._thread_count = count
            self._set_limit(count)
            self._signal_threads()
            self._join_above(count)
            if self._threads:
                self._start_threads()

    def _join_above(self, limit: int) -> None:
        for index in [i for i in self._threads if i > limit]:
            # In slices, so that Ctrl-C is answered.
            while self._threads[index].is_alive():
                self._threads[index].join(0.05)
            del self._threads[index]
            self._events.pop(index, None)

    def _signal_threads(self) -> None:
        """Let all workers look for work and at the limit."""
        self.native.poke(self.base)
        for event in list(self._events.values()):
            event.set()

    def close(self) -> None:
        """Let the jobs end and the threads leave, as the interpreter does."""
        if self._is_closed:
            return
        if not self.was_cancelled(self.last_ticket()):
            with contextlib.suppress(KeyboardInterrupt):
                self.wait(self.last_ticket())
        self._set_limit(0)
        self._signal_threads()
        deadline = time.monotonic() + _LEAVE_S
        for thread in self._threads.values():
            # A cancelled job may still run: the process ends all the same.
            thread.join(max(deadline - time.monotonic(), 0))
        self._is_closed = True
        self._set_limit(1)

    # Fork (`workers` calls these)

    def before_fork(self) -> None:
        """Let the queue run dry and the threads leave: fork copies only one."""
        self._lock.acquire()
        try:
            self.wait(self.last_ticket())
        except KeyboardInterrupt:
            # Nothing can be raised here; it is once the fork is done.
            self._is_interrupted = True
            return
        self._set_limit(0)
        self._signal_threads()
        self._join_above(0)

    def after_fork_in_parent(self) -> None:
        """Let jobs be submitted again."""
        self._set_limit(self._thread_count)
        self._lock.release()
        if self._is_interrupted:
            self._is_interrupted = False
            interrupt_soon()

    def after_fork_in_child(self) -> None:
        """Let the child start afresh: its threads are gone."""
        completed, submitted = self.completed_ticket(), self.last_ticket()
        if completed < submitted:
            self.cancelled.append((completed + 1, submitted))
        self._lock = threading.RLock()
        self._helper = threading.Lock()
        self._events = {}
        self._progress = threading.Event()
        self._threads = {}
        self._set_limit(self._thread_count)
        for offset in (
            layout.SLEEPERS,
            layout.SPINNERS,
            layout.ACTIVE,
            layout.WAITERS,
            layout.CANCEL,
        ):
            self._halves[offset // 4] = 0
        self.words[layout.COMPLETED // 8] = submitted
