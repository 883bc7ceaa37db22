"""Marks and ranges of the user's program on its timeline.

They are lines of the log at level Debug, among those of kernel launches. No
profiler is fed; below that level they cost a comparison.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from lumijit.runtime import log


def profile_mark(name: str, /) -> None:
    """Note that the program got to a point: a line of the log at level Debug.

    Args:
        name: what the line says.

    >>> import lumijit as dr
    >>> dr.profile_mark("scene loaded")
    """
    if log.level >= log.LogLevel.Debug:
        log.log(log.LogLevel.Debug, "%.6f s: mark %s", time.perf_counter(), name)


@contextmanager
def profile_range(name: str, /) -> Iterator[None]:
    """Note when a part of the program begins and ends, in the log at level Debug.

    The time is that of this thread; kernels may still be running at the end (see
    `lumijit.sync_thread`). Ranges can be nested.

    Args:
        name: what the lines say.

    >>> import lumijit as dr
    >>> with dr.profile_range("render"):
    ...     x = dr.llvm.Float(1) + 1
    """
    if log.level < log.LogLevel.Debug:
        yield
        return
    started = time.perf_counter()
    log.log(log.LogLevel.Debug, "%.6f s: begin %s", started, name)
    try:
        yield
    finally:
        ended = time.perf_counter()
        log.log(
            log.LogLevel.Debug,
            "%.6f s: end %s after %.3f ms",
            ended,
            name,
            (ended - started) * 1e3,
        )


def profile_enable() -> AbstractContextManager[None]:
    """Note in the log, at level Debug, which part of the program is to be profiled.

    >>> import lumijit as dr
    >>> with dr.profile_enable():
    ...     x = dr.llvm.Float(1) + 1
    """
    return profile_range("profiled")
