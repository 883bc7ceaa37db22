"""The worker pool: submitting jobs, waiting for them, the threads that run them.

Owns the order of jobs, the threads and what must stay alive while jobs run. The
native part, which hands out blocks without Python, is written by `pool_ir`.

A kernel is `void kernel(i64 begin, i64 end, i32 thread_index, ptr args)`; `args`
is an array of 8-byte slots. Jobs are numbered (tickets) and run strictly in
order of submission, unless a barrier says that some may overlap.

Ctrl-C while waiting cancels what has been submitted: blocks that have not begun
are skipped, and the 32-bit word at `cancel_address()` is not zero until the
first later job starts, so that kernels with long loops can poll it and end early.
What cancelled jobs should have written is undefined: `was_cancelled` tells.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import os
import platform
import sys
import threading
from collections import deque
from typing import Any, Final

from lumijit.runtime import cache, cpu, pool_ir
from lumijit.runtime.config import settings
from lumijit.runtime.errors import (
    ArrayTypeError,
    ArrayValueError,
    SizeError,
    message,
)

Args = bytes | bytearray | memoryview | ctypes.Array[Any]

MAX_THREADS: Final = 1024
_ALL_SLOTS: Final = 2**31 - 1
# How long a waiting thread stays away from Python, where Ctrl-C is noticed.
_SLICE_NS: Final = 50_000_000
_MAX_BLOCKS: Final = 2**31


def _core_count() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _function_address(name: str) -> int:
    """Return the address of a C library function, or 0 if there is none."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class _Native:
    """The pool's native functions, built once and kept in the disk cache."""

    def __init__(self) -> None:
        target = pool_ir.platform_for(sys.platform, platform.machine())
        text = pool_ir.pool_ir(target)
        digest = hashlib.blake2b(text.encode(), digest_size=20).digest()
        key = cache.full_key(b"pool" + digest, cpu.environment_key())
        found = cache.lookup(key)
        code = found[0] if found else cpu.compile_ir(text)
        if not found:
            cache.store(key, code, {})
        self.addresses, self.tracker = cpu.link_symbols(code, pool_ir.SYMBOLS)
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
        self.invoke = self._bind(
            ctypes.PYFUNCTYPE(i32, pointer, pointer, pointer, i64), "invoke"
        )
        self.poke = self._bind(ctypes.PYFUNCTYPE(None, pointer), "poke")
        self.cancel = self._bind(ctypes.PYFUNCTYPE(i64, pointer), "cancel")
        # … and without (calls that may take long).
        self.worker = self._bind(ctypes.CFUNCTYPE(None, pointer, i32), "worker")
        self.drain = self._bind(ctypes.CFUNCTYPE(i32, pointer, i32), "drain")
        self.wait = self._bind(ctypes.CFUNCTYPE(i32, pointer, i64, i64, i32), "wait")

    def _bind(self, prototype: Any, name: str) -> Any:
        return prototype(self.addresses[f"pool_{name}"])


def _keep_for_ever(thing: object) -> None:
    """Keep what a native thread may use while the interpreter is torn down."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


class WorkerPool:
    """The jobs and the threads of this process. There is one: see `pool`."""

    def __init__(self) -> None:
        self.native: Final = _Native()
        self._memory = ctypes.create_string_buffer(pool_ir.POOL_BYTES + 64)
        self.base: Final = -(-ctypes.addressof(self._memory) // 64) * 64
        words = ctypes.c_int64 * (pool_ir.POOL_BYTES // 8)
        self._words = memoryview(words.from_address(self.base)).cast("B").cast("q")
        halves = ctypes.c_int32 * (pool_ir.HEADER_BYTES // 4)
        self._halves = memoryview(halves.from_address(self.base)).cast("B").cast("i")
        self._lock = threading.RLock()
        self._helper = threading.Lock()
        self._kept: deque[tuple[int, object]] = deque()
        self._watched: deque[tuple[int, dict[str, Any]]] = deque()
        self._cancelled: list[tuple[int, int]] = []
        self._threads: dict[int, threading.Thread] = {}
        self._is_closed = False
        self._semaphore = threading.Semaphore(0)
        self._progress = threading.Event()
        self._words[pool_ir.SPIN_NS // 8] = settings.spin_us * 1000
        self._words[pool_ir.CLOCK // 8] = _function_address("clock_gettime")
        if self.native.has_futex:
            self._words[pool_ir.SYSCALL // 8] = _function_address("syscall")
        for thing in (self._memory, self.native, self._kept):
            _keep_for_ever(thing)
        self._set_limit(_thread_count)
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork,
                after_in_parent=self._after_fork_in_parent,
                after_in_child=self._after_fork_in_child,
            )

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
            self._kept.append((self._words[0] + 1, (args, keepalive)))
            while True:
                ticket: int = self.native.submit(
                    self.base,
                    fn_address,
                    args,
                    size,
                    block_size,
                    barrier,
                    slots,
                    helpable,
                )
                if ticket:
                    break
                self.wait(self._words[0] + 1 - pool_ir.RING)
                self._sweep(done)
            if not self.native.has_futex:
                self._semaphore.release(len(self._threads))
            if self._is_closed:
                self.wait(ticket)
        return ticket

    def _sweep(self, done: list[object]) -> None:
        """Move what completed jobs have kept alive to `done` (dies without lock)."""
        completed = self._words[pool_ir.COMPLETED // 8]
        while self._kept and self._kept[0][0] <= completed:
            done.append(self._kept.popleft())
        while self._watched and self._watched[0][0] <= completed:
            ticket, entry = self._watched.popleft()
            entry["execution_time"] = self._duration_us(ticket)

    def _duration_us(self, ticket: int) -> float:
        record = pool_ir.HEADER_BYTES
        record += (ticket % pool_ir.RING) * pool_ir.RECORD_BYTES
        words = self._words
        if words[(record + pool_ir.FINISHED) // 8] != ticket:
            return 0.0
        start = words[(record + pool_ir.START_NS) // 8]
        return (words[(record + pool_ir.END_NS) // 8] - start) / 1000.0

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
        return self._words[0]

    def completed_ticket(self) -> int:
        """Return the number up to which all jobs have completed."""
        return self._words[pool_ir.COMPLETED // 8]

    def wait(self, ticket: int) -> None:
        """Wait for a job and all before it; a Ctrl-C cancels them."""
        if self._words[pool_ir.COMPLETED // 8] < ticket:
            if ticket > self._words[0]:
                raise AssertionError(f"no job has the ticket {ticket}")
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
                self._cancelled.append((completed + 1, last))

    def was_cancelled(self, ticket: int) -> bool:
        """Tell whether a job was cancelled before it had completed."""
        return any(first <= ticket <= last for first, last in self._cancelled)

    # Threads

    def _set_limit(self, count: int) -> None:
        self._halves[pool_ir.LIMIT // 4] = count
        spinners = max(min(count, _core_count()) - 1, 0)
        self._halves[pool_ir.MAX_SPINNERS // 4] = spinners

    def _start_threads(self) -> None:
        if self._is_closed:
            return
        for index in range(1, _thread_count + 1):
            former = self._threads.get(index)
            if former is not None and former.is_alive():
                continue
            thread = threading.Thread(
                target=self._run_worker,
                args=(index,),
                name=f"lumijit-worker-{index}",
                daemon=True,
            )
            self._threads[index] = thread
            thread.start()

    def _run_worker(self, index: int) -> None:
        if self.native.has_futex:
            self.native.worker(self.base, index)
            return
        while index <= self._halves[pool_ir.LIMIT // 4]:
            is_pending = self.native.drain(self.base, index)
            self._progress.set()
            # Blocks may become available without a signal while jobs are pending.
            self._semaphore.acquire(timeout=0.001 if is_pending else None)

    def resize(self, count: int) -> None:
        """Change the number of threads; ends after the blocks they have begun."""
        with self._lock:
            self._set_limit(count)
            self.native.poke(self.base)
            if not self.native.has_futex:
                self._semaphore.release(len(self._threads))
            for index in [i for i in self._threads if i > count]:
                # In slices, so that Ctrl-C is answered; it is joined again then.
                while self._threads[index].is_alive():
                    self._threads[index].join(0.05)
                del self._threads[index]
            if self._threads:
                self._start_threads()

    def close(self) -> None:
        """Let the jobs end and the threads leave, as the interpreter does."""
        if self._is_closed:
            return
        with contextlib.suppress(KeyboardInterrupt):
            self.wait(self.last_ticket())
        self._set_limit(0)
        self.native.poke(self.base)
        if not self.native.has_futex:
            self._semaphore.release(len(self._threads))
        for thread in self._threads.values():
            # A cancelled job may still run: the process ends all the same.
            thread.join(0.2)
        self._is_closed = True
        self._set_limit(1)

    # Fork

    def _before_fork(self) -> None:
        self._lock.acquire()
        with contextlib.suppress(KeyboardInterrupt):
            self.wait(self.last_ticket())

    def _after_fork_in_parent(self) -> None:
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        completed, submitted = self.completed_ticket(), self.last_ticket()
        if completed < submitted:
            self._cancelled.append((completed + 1, submitted))
        self._lock = threading.RLock()
        self._helper = threading.Lock()
        self._semaphore = threading.Semaphore(0)
        self._progress = threading.Event()
        self._threads = {}
        for offset in (
            pool_ir.SLEEPERS,
            pool_ir.SPINNERS,
            pool_ir.ACTIVE,
            pool_ir.WAITERS,
            pool_ir.CANCEL,
        ):
            self._halves[offset // 4] = 0
        self._words[pool_ir.COMPLETED // 8] = submitted


_thread_count: int = min(settings.threads, MAX_THREADS) or _core_count()
_pool: WorkerPool | None = None
_start_lock = threading.Lock()


def pool() -> WorkerPool:
    """Return the pool, which is made when it is first needed."""
    global _pool
    if _pool is None:
        with _start_lock:
            if _pool is None:
                _pool = WorkerPool()
    return _pool


def submit(
    fn_address: int,
    args: Args,
    size: int,
    block_size: int,
    barrier: int | None = None,
    keepalive: object = None,
    helpable: bool = True,
    slots: int = _ALL_SLOTS,
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
    """
    if size <= 0:
        if size < 0:
            raise SizeError(
                message("kernel launch", f"the size is negative (got {size})")
            )
        return last_ticket()
    if block_size <= 0:
        raise AssertionError(f"block size {block_size}")
    return (_pool or pool()).submit(
        fn_address, args, size, block_size, barrier or 0, keepalive, helpable, slots
    )


def run_inline(fn_address: int, args: bytes | int, size: int) -> bool:
    """Run a small job on the calling thread, if no other job is pending.

    Args:
        fn_address: the kernel's function; it is called once, with thread index 0.
        args: the 8-byte slots as bytes, or their address.
        size: number of elements.

    Returns:
        Whether it was run. If not, the job must be submitted.
    """
    current = _pool or pool()
    return size == 0 or current.native.invoke(current.base, fn_address, args, size) == 1


def last_ticket() -> int:
    """Return the ticket of the last job submitted; 0 if there was none."""
    return _pool.last_ticket() if _pool is not None else 0


def completed_ticket() -> int:
    """Return the ticket up to which all jobs have completed."""
    return _pool.completed_ticket() if _pool is not None else 0


def wait(ticket: int) -> None:
    """Wait until a job, and all before it, have completed."""
    if _pool is not None and ticket > 0:
        _pool.wait(ticket)


def sync() -> None:
    """Wait until all jobs have completed."""
    if _pool is not None:
        _pool.wait(_pool.last_ticket())


def was_cancelled(ticket: int) -> bool:
    """Tell whether a job was cancelled by Ctrl-C: its results are undefined."""
    return _pool is not None and _pool.was_cancelled(ticket)


def cancel_address() -> int:
    """Return the address of the 32-bit word that kernels may poll."""
    return pool().base + pool_ir.CANCEL


def keep_until(ticket: int, thing: object) -> None:
    """Keep something alive until a job has completed."""
    if _pool is not None and ticket > _pool.completed_ticket():
        _pool.keep_until(ticket, thing)


def watch(ticket: int, entry: dict[str, Any]) -> None:
    """Fill in `entry["execution_time"]` (µs) once the job has completed."""
    pool().watch(ticket, entry)


def slot_count() -> int:
    """Return the number of thread indices: the workers' and, first, the helper's."""
    return _thread_count + 1


def thread_count() -> int:
    """Return the number of threads that run kernels."""
    return _thread_count


def set_thread_count(count: int) -> None:
    """Change the number of threads that run kernels; legal while some run.

    Args:
        count: 1 or more.
    """
    global _thread_count
    if isinstance(count, bool) or not isinstance(count, int):
        raise ArrayTypeError(
            message(
                "set_thread_count()",
                f"'count' is no whole number (expected int, got "
                f"{type(count).__name__})",
                "pass the number of threads.",
            )
        )
    if not 1 <= count <= MAX_THREADS:
        raise ArrayValueError(
            message(
                "set_thread_count()",
                f"'count' is out of range (expected 1 to {MAX_THREADS}, got {count})",
                "pass the number of threads; 1 runs everything on one thread.",
            )
        )
    _thread_count = count
    if _pool is not None:
        _pool.resize(count)
