"""Starting one kernel: at once or queued, in which blocks; and what is told of it.

`evaluate` says what is launched; the pool, the history and the log are in `runtime`.
"""

from __future__ import annotations

import time

from lumijit.compiler.kernels import Built, ir_of
from lumijit.compiler.program import Program
from lumijit.runtime import history, log, workers
from lumijit.runtime.config import flags


def is_idle() -> bool:
    """Tell whether all that was launched has been done."""
    return workers.completed_ticket() >= workers.last_ticket()


def start(
    program: Program,
    built: Built,
    args: bytes,
    keep: object,
    is_inline: bool,
    barrier: int | None,
    slots: int,
) -> tuple[int, float]:
    """Run a kernel inline or queue it: return its ticket, or 0 and the seconds."""
    address = built.kernel.address
    if is_inline:
        started = time.perf_counter()
        if workers.run_inline(address, args, program.size):
            return 0, time.perf_counter() - started
        block = program.size
    else:
        block = block_size(program.size, built)
    ticket = workers.submit(
        address,
        args,
        program.size,
        block,
        barrier,
        keep,
        not built.has_loops,
        slots,
    )
    return ticket, 0.0


def is_small(program: Program, built: Built) -> bool:
    """Tell whether a launch is too small to be worth a hand-over to threads."""
    return program.size * built.cost < 60_000 and not built.has_loops


def block_size(size: int, built: Built) -> int:
    """Return how many elements a thread takes at once: 64 Ki down to 1 Ki."""
    block = 65536
    work = max(1, built.cost)
    while block > 1024 and block * work > 2_000_000:
        block //= 2
    while block > 1024 and block * workers.thread_count() * 2 > size:
        block //= 2
    return block


def report(program: Program, built: Built, ticket: int, seconds: float) -> None:
    """Record a launch in the history and the log, where these are wanted."""
    if log.level >= log.LogLevel.Info:
        _log(program, built)
    if flags.kernel_history:
        history.record(
            {
                "ticket": ticket,
                "execution_time": seconds * 1e6,
                "backend": history.JitBackend.LLVM,
                "type": history.KernelType.JIT,
                "hash": built.hash,
                "ir": ir_of(program, built),
                "operation_count": built.operation_count,
                "cache_hit": built.is_hit,
                "cache_disk": built.is_disk_hit and not built.is_hit,
                "codegen_time": 0.0 if built.is_hit else built.codegen_us,
                "backend_time": 0.0 if built.is_hit else built.backend_us,
                "uses_optix": False,
                "size": program.size,
                "input_count": len(program.arguments),
                "output_count": len(program.outputs),
                "recompile_reason": "" if built.is_hit else built.reason,
            }
        )


def _log(program: Program, built: Built) -> None:
    state = "hit" if built.is_hit else "disk hit" if built.is_disk_hit else "miss"
    reason = "" if built.is_hit else f", because: {built.reason}"
    log.log(
        log.LogLevel.Info,
        "launching %s (n=%d, in=%d, out=%d, se=%d, ops=%d): cache %s, "
        "codegen: %.3f ms, build: %.3f ms%s",
        built.hash[:16],
        program.size,
        len(program.arguments),
        len(program.outputs),
        len(program.effects),
        built.operation_count,
        state,
        0.0 if built.is_hit else built.codegen_us / 1e3,
        0.0 if built.is_hit else built.backend_us / 1e3,
        reason,
    )
