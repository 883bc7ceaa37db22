"""Starting kernels: the one way to the workers and to devices, for kernels of any kind.

Owns the choice between running at once and queueing, and telling the history and the
log. Making kernels and arguments is the work of `launching` and `named_kernels`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from threading import get_ident
from typing import Any, TypeVar

from lumijit.runtime import cpu, history, log, recorders, workers
from lumijit.runtime.attached import Attached
from lumijit.runtime.buffers import Buffer
from lumijit.runtime.config import flags, unusual
from lumijit.runtime.device import away
from lumijit.runtime.log import LogLevel
from lumijit.runtime.recorders import listening

T = TypeVar("T")
_INFO = LogLevel.Info


def start(
    kernel: cpu.Kernel,
    args: bytes,
    size: int,
    block_size: int,
    is_inline: bool,
    writes: Iterable[Buffer],
    report: Callable[[T, int, float], None],
    summary: Callable[[T], history.Entry],
    subject: T,
    started: list[int] | None = None,
    barrier: int | None = None,
    is_helpable: bool = True,
    slots: int = workers.ALL_SLOTS,
) -> None:
    """Run a kernel at once, if that is wanted and nothing is pending, or queue it.

    Args:
        kernel: what to run; it lives until it is done.
        args: its argument block.
        size: over how many elements.
        block_size: how many of them a thread takes at once.
        is_inline: whether it is worth no hand-over to other threads.
        writes: the buffers whose contents it makes.
        report: is told `subject`, the ticket (0: it has run) and how many seconds that
            took, where the user wants to know.
        summary: says of `subject` what the history tells of every launch of it.
        started, barrier, is_helpable, slots: as in `workers.submit`.
    """
    place = away.get(get_ident()) if away else None
    if place is not None:
        return _start_away(
            place,
            kernel,
            args,
            size,
            block_size,
            writes,
            not is_helpable,
            report,
            summary,
            subject,
            started,
        )
    if listening:
        recorders.present().note_job(
            kernel,
            args,
            size,
            block_size,
            is_inline,
            writes,
            barrier,
            is_helpable,
            slots,
            summary(subject),
        )
    is_told = unusual and (flags.kernel_history or log.level >= _INFO)
    began = time.perf_counter() if is_told else 0.0
    ticket = 0
    if not (is_inline and workers.run_inline(kernel.address, args, size, started)):
        ticket = workers.submit(
            kernel.address,
            args,
            size,
            block_size,
            barrier,
            kernel,
            is_helpable,
            slots,
            started,
        )
        for buffer in writes:
            buffer.ticket = ticket
    if is_told:
        report(subject, ticket, 0.0 if ticket else time.perf_counter() - began)
    if unusual and flags.launch_blocking:
        workers.sync()


def _start_away(
    place: Attached,
    kernel: Any,
    args: bytes,
    size: int,
    block_size: int,
    writes: Iterable[Buffer],
    has_loops: bool,
    report: Callable[[T, int, float], None],
    summary: Callable[[T], history.Entry],
    subject: T,
    started: list[int] | None,
) -> None:
    """Launch a kernel on a device."""
    is_recorded = bool(unusual) and flags.kernel_history
    seconds = 0.0
    if listening:
        told = None, not has_loops, workers.ALL_SLOTS, summary(subject)
        recorders.present().note_job(
            kernel, args, size, block_size, False, writes, *told
        )
    if is_recorded:
        seconds = place.timed(partial(place.launch, kernel, args, size, block_size))
    else:
        place.launch(kernel, args, size, block_size)
    place.note_launch(writes, has_loops)
    if started is not None:
        started.append(1)
    if is_recorded or (unusual and log.level >= _INFO):
        report(subject, 0, seconds)
    if unusual and flags.launch_blocking:
        place.wait()
